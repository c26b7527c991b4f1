/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_proxy.c -- a shard's root key, asked for from its port's loop
 *
 *	port loop                     main loop
 *	mt_root_load  -- post -->  list          ---+
 *	                                            v
 *	fn            <- post --   answer decoded <-+
 *	                                            ^
 *	mt_root_store -- post -->  txn --> list  ---+
 *
 * A store reads back what it wrote, whatever the transaction said: its caller needs the new version,
 * and a transaction whose outcome is unknown (a time-out, a compare that failed against our own
 * earlier attempt) is decided by what the key now holds. So storing the same root twice is harmless.
 *
 * A call is one piece of memory, made when it is asked for: nothing on its way can fail for want of
 * more, and its handler is called once, unless the shard goes first. While the call is with main it
 * is main's; a shard that goes away leaves it there, orphaned, and main frees it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "control.h"
#include "root.h"

#define ROOT_CALL_MAGIC 0x4c4c4352u /* "RCLL" */

enum root_call_place { ROOT_AT_MAIN, ROOT_GOING_BACK };

struct root_call {
	uint32_t magic;
	struct loop_link link;  /* shard->root_calls; the port's */
	struct mt_shard *shard; /* NULL: nobody waits any more */
	struct mt_gateway *gateway;
	struct loop *port_loop;
	struct loop_post post;
	enum root_call_place place;
	bool is_store;
	char key[MT_ROOT_KEY_BYTES];
	uint32_t shard_index;
	struct mt_root wanted; /* to be stored */
	struct mt_root found;
	int rc;
	mt_root_fn fn;
	void *arg;
};

static void
root_call_free(struct root_call *call)
{
	call->magic = 0;
	mt_free(call);
}

/* ---- back on the port's loop ---- */

static void
root_call_on_back(struct loop_post *post, void *arg)
{
	struct root_call *call = arg;
	bool has_root = call->rc == 0;

	(void)post;
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (call->shard != NULL) {
		list_remove(&call->link);
		call->fn(call->rc, has_root ? &call->found : NULL, call->arg);
	}
	root_call_free(call);
}

/* ---- on main ---- */

static void
root_call_answer(struct root_call *call, int rc)
{
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	assert(call->place == ROOT_AT_MAIN);
	if (call->shard == NULL) {
		root_call_free(call);
		return;
	}
	call->rc = rc;
	call->place = ROOT_GOING_BACK;
	call->post = (struct loop_post){ .fn = root_call_on_back, .arg = call };
	loop_post(call->port_loop, &call->post);
}

/* What a store came to, now that the key was read. */
static int
root_call_judge(const struct root_call *call, int rc)
{
	if (!call->is_store)
		return rc;
	if (rc == 0 && call->found.version != call->wanted.version &&
	    mt_root_is_equal(&call->found, &call->wanted))
		return 0;
	/* Unchanged: the transaction had no effect so far. It may still be on its way, and would then
	 * do what its caller wants. */
	if ((rc == 0 && call->found.version == call->wanted.version) ||
	    (rc == -ENOENT && call->wanted.version == 0))
		return -ETIMEDOUT;
	return rc == 0 || rc == -ENOENT ? -ESTALE : rc;
}

static int
root_call_decode(struct root_call *call, const struct meta_item *items, uint32_t count)
{
	const char *field;
	int rc;

	/* The key is a prefix of others, perhaps: 00010 and 000100. */
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, call->key) != 0)
			continue;
		rc = mt_root_decode(items[i].value, items[i].value_bytes, call->shard_index,
		    &call->found, &field);
		if (rc == -EBADMSG)
			log_limited(LOG_ERROR,
			    "shard %u: its root cannot be understood field=\"%s\"",
			    call->shard_index, field);
		if (rc == 0)
			call->found.version = items[i].version;
		return rc;
	}
	return -ENOENT;
}

static void
root_call_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct root_call *call = arg;

	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (rc == 0)
		rc = root_call_decode(call, items, count);
	root_call_answer(call, root_call_judge(call, rc));
}

static void
root_call_list(struct root_call *call)
{
	struct meta *meta = mt_gateway_meta(call->gateway);
	int rc = meta->ops->list(meta, call->key, root_call_on_list, call);

	if (rc != 0)
		root_call_answer(call, rc);
}

static void
root_call_on_txn(int rc, void *arg)
{
	struct root_call *call = arg;

	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (rc == -ENOSPC)
		root_call_answer(call, rc); /* nothing happened, and it will not get better soon */
	else
		root_call_list(call);
}

static void
root_call_txn(struct root_call *call)
{
	struct meta *meta = mt_gateway_meta(call->gateway);
	char *text = mt_root_encode(&call->wanted);
	int rc = -ENOMEM;

	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = call->key,
			    .version = call->wanted.version },
			{ .kind = META_PUT,
			    .key = call->key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), root_call_on_txn, call);
		free(text);
	}
	if (rc != 0)
		root_call_answer(call, rc);
}

static void
root_call_on_main(struct loop_post *post, void *arg)
{
	struct root_call *call = arg;

	(void)post;
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (call->shard == NULL)
		root_call_free(call);
	else if (call->is_store)
		root_call_txn(call);
	else
		root_call_list(call);
}

/* ---- from the port's loop ---- */

static int
root_call_start(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	struct root_call *call = mt_calloc(1, sizeof(*call));

	if (call == NULL)
		return -ENOMEM;
	call->magic = ROOT_CALL_MAGIC;
	call->shard = shard;
	call->gateway = shard->port->gateway;
	call->port_loop = shard->port->loop;
	call->shard_index = shard->index;
	mt_root_key(call->key, shard->index);
	call->is_store = root != NULL;
	if (root != NULL)
		call->wanted = *root;
	call->fn = fn;
	call->arg = arg;
	call->post = (struct loop_post){ .fn = root_call_on_main, .arg = call };
	list_push_back(&shard->root_calls, &call->link);
	loop_post(mt_gateway_loop(call->gateway), &call->post);
	return 0;
}

int
mt_root_load(struct mt_shard *shard, mt_root_fn fn, void *arg)
{
	return root_call_start(shard, NULL, fn, arg);
}

int
mt_root_store(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	return root_call_start(shard, root, fn, arg);
}

/* On main, after the port's thread has ended; see the top. */
void
mt_root_abandon(struct mt_shard *shard)
{
	bool is_killed = mt_gateway_is_killed(shard->port->gateway);
	bool is_loop_dead = shard->port->loop != mt_gateway_loop(shard->port->gateway);
	struct loop_link *link;

	while ((link = list_pop_front(&shard->root_calls)) != NULL) {
		struct root_call *call = LIST_ENTRY(link, struct root_call, link);

		/* Of a killed process no loop runs again, nor is its metadata handle used; and nobody
		 * comes by on the loop of a thread that has ended. */
		if (is_killed || (is_loop_dead && call->place == ROOT_GOING_BACK))
			root_call_free(call);
		else
			call->shard = NULL;
	}
}
