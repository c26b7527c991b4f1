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
 * A claim reads first: the root, to know whom it takes the shard from, then that gateway's key.
 *
 *	list shards/NNNNN --> list gateways/OLD --> txn --> list shards/NNNNN
 *
 * The transaction compares all that was read, so an owner that comes back meanwhile keeps its shard.
 *
 * Of a shard that was given away by a gateway that lives nothing is lost: that one can still be asked about the
 * sessions that it had. Any other claim is told to holding.c.
 *
 * A call is one piece of memory, made when it is asked for: nothing on its way can fail for want of
 * more, and its handler is called once, unless the shard goes first. While the call is with main it
 * is main's; a shard that goes away leaves it there, orphaned, and main frees it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "catalog/cluster_key.h"
#include "catalog/root.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/meta_proxy.h"
#include "cluster/store_age.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/root.h"
#include "common/settings.h"
#include "common/shard.h"
#include "manifest/manifest_state.h"

#define ROOT_CALL_MAGIC 0x4c4c4352u /* "RCLL" */

enum root_call_place { ROOT_AT_MAIN, ROOT_AT_STORE, ROOT_GOING_BACK };

struct root_call {
	uint32_t magic;
	struct loop_link link;  /* shard->root_calls; the port's */
	struct mt_shard *shard; /* NULL: nobody waits any more */
	struct mt_gateway *gateway;
	struct loop *port_loop;
	struct loop_post post;
	enum root_call_place place;
	enum { ROOT_LOAD, ROOT_STORE, ROOT_CLAIM, ROOT_REFRESH } kind;
	char key[MT_ROOT_KEY_BYTES];
	uint32_t shard_index;
	struct mt_root wanted; /* to be stored */
	struct mt_root found;
	int rc;
	mt_root_fn fn;
	/* ROOT_CLAIM: the gateway that the shard is taken from. */
	char old_key[MT_MEMBER_KEY_BYTES];
	bool has_old;
	bool is_given;        /* it lives, and has released the root */
	uint64_t old_version; /* of its key; 0: absent */
	int txn_rc;
	/* ROOT_REFRESH */
	struct mt_store_age age; /* of what the nodes know; zeros: not asked for */
	struct mt_volumes_waiter waiter;
	void (*refresh_fn)(int rc, void *arg);
	void *arg;
};

static void
root_call_free(struct root_call *call)
{
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	list_remove(&call->waiter.link);
	call->magic = 0;
	mt_store_age_fini(&call->age);
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
		if (call->kind == ROOT_REFRESH)
			call->refresh_fn(call->rc, call->arg);
		else
			call->fn(call->rc, has_root ? &call->found : NULL, call->arg);
	}
	root_call_free(call);
}

/* ---- on main ---- */

static void
root_call_answer(struct root_call *call, int rc)
{
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	assert(call->place != ROOT_GOING_BACK);
	assert(!list_contains(&call->waiter.link));
	if (rc == 0 && call->kind == ROOT_CLAIM && !call->is_given)
		mt_holder_on_claim(call->gateway);
	if (call->shard == NULL) {
		root_call_free(call);
		return;
	}
	call->rc = rc;
	call->place = ROOT_GOING_BACK;
	call->post = (struct loop_post){ .fn = root_call_on_back, .arg = call };
	loop_post(call->port_loop, &call->post);
}

/* A claim that failed over another key than the root: the old owner has come back, or we are gone ourselves. */
static bool
root_call_is_refused(const struct root_call *call)
{
	return call->kind == ROOT_CLAIM && (call->txn_rc == -EAGAIN || call->txn_rc == -ENOENT);
}

/* Judges a store whose outcome was not known, now that the key was read. */
static int
root_call_judge(const struct root_call *call, int rc)
{
	assert(rc <= 0);
	if (call->kind == ROOT_LOAD)
		return rc;
	if (rc == 0 && call->found.version != call->wanted.version &&
	    mt_root_is_equal(&call->found, &call->wanted))
		return 0;
	/* The root is unchanged: the transaction had no effect so far. It may still be on its way, and would
	 * then do what its caller wants. */
	if ((rc == 0 && call->found.version == call->wanted.version) ||
	    (rc == -ENOENT && call->wanted.version == 0))
		return root_call_is_refused(call) ? -EBUSY : -ETIMEDOUT;
	return rc == 0 || rc == -ENOENT ? -ESTALE : rc;
}

static int
root_call_decode(struct root_call *call, const struct meta_item *items, uint32_t count)
{
	const char *field;
	int rc;

	assert(call->shard_index < CLEAVE_SHARDS_MAX);
	assert(call->kind != ROOT_REFRESH);
	/* The key is a prefix of others, perhaps: 00010 and 000100. */
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, call->key) != 0)
			continue;
		rc = mt_root_decode(items[i].value, items[i].value_bytes, call->shard_index,
		    &call->found, &field);
		if (rc == -EBADMSG)
			log_limited(LOG_ERROR,
			    "shard %u: not taken, its root cannot be understood field=\"%s\"",
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
	struct meta *meta = call->gateway->options.meta;
	int rc = meta->ops->list(meta, call->key, root_call_on_list, call);

	assert(call->kind != ROOT_REFRESH);
	if (rc != 0)
		root_call_answer(call, rc);
}

static void
root_call_on_txn(int rc, void *arg)
{
	struct root_call *call = arg;

	assert(call->kind == ROOT_STORE || call->kind == ROOT_CLAIM);
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	call->txn_rc = rc;
	if (rc == -ENOSPC)
		root_call_answer(call, rc); /* nothing happened, and it will not get better soon */
	else
		root_call_list(call);
}

/* The compares beside that of the root's own version. Returns how many; -EBUSY. */
static int
root_call_add_compares(const struct root_call *call, struct meta_op ops[2])
{
	const struct mt_gateway *gateway = call->gateway;
	uint32_t count = 0;

	assert(call->kind == ROOT_STORE || call->kind == ROOT_CLAIM);
	if (call->kind != ROOT_CLAIM)
		return 0;
	if (call->has_old)
		ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
			.key = call->old_key,
			.version = call->old_version };
	if (gateway->member.key_version == 0)
		return -EBUSY; /* the lease was lost; the shard is about to hear of it */
	ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
		.key = gateway->member.key,
		.version = gateway->member.key_version };
	return (int)count;
}

static void
root_call_txn(struct root_call *call)
{
	struct meta *meta = call->gateway->options.meta;
	char *text = mt_root_encode(&call->wanted);
	int rc = -ENOMEM;

	assert(call->kind == ROOT_STORE || call->kind == ROOT_CLAIM);
	if (text != NULL) {
		struct meta_op ops[4] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = call->key,
			    .version = call->wanted.version },
			{ .kind = META_PUT,
			    .key = call->key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = root_call_add_compares(call, &ops[2]);
		if (rc >= 0)
			rc = meta->ops->txn(meta, ops, 2 + (uint32_t)rc, root_call_on_txn, call);
		free(text);
	}
	if (rc != 0)
		root_call_answer(call, rc);
}

/* ---- on main: claiming ---- */

static void
root_call_on_old_owner(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct root_call *call = arg;
	struct mt_member_peer peer;
	const char *field;

	assert(call->kind == ROOT_CLAIM && call->has_old);
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (strcmp(items[i].key, call->old_key) != 0)
			continue; /* another gateway, whose number begins with the same digits */
		call->old_version = items[i].version;
		/* A key that cannot be understood is somebody's all the same. */
		if (mt_member_decode(items[i].value, items[i].value_bytes, &peer, &field) != 0 ||
		    peer.boot_id == call->found.boot_id)
			rc = -EBUSY;
	}
	if (rc != 0)
		root_call_answer(call, rc);
	else
		root_call_txn(call);
}

static void
root_call_on_old_root(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct root_call *call = arg;
	struct meta *meta = call->gateway->options.meta;
	uint64_t version = 0;

	assert(call->kind == ROOT_CLAIM);
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (rc == 0)
		rc = root_call_decode(call, items, count);
	if (rc == 0)
		version = call->found.version;
	if ((rc != 0 && rc != -ENOENT) || version != call->wanted.version) {
		root_call_answer(call, root_call_judge(call, rc));
		return;
	}
	call->has_old = version != 0 && !call->found.is_released &&
	    call->found.gateway_id != call->gateway->options.gateway_id;
	call->is_given = version != 0 && call->found.is_released &&
	    mt_view_is_live(&call->gateway->member, call->found.gateway_id, call->found.boot_id);
	if (!call->has_old) {
		root_call_txn(call);
		return;
	}
	mt_member_key(call->old_key, call->found.gateway_id);
	rc = meta->ops->list(meta, call->old_key, root_call_on_old_owner, call);
	if (rc != 0)
		root_call_answer(call, rc);
}

static void
root_call_claim(struct root_call *call)
{
	struct meta *meta = call->gateway->options.meta;
	int rc = meta->ops->list(meta, call->key, root_call_on_old_root, call);

	assert(call->kind == ROOT_CLAIM);
	if (rc != 0)
		root_call_answer(call, rc);
}

/* ---- on main: volumes ---- */

static void
root_call_on_refreshed(int rc, void *arg)
{
	struct root_call *call = arg;
	char text[MT_ERROR_BYTES];

	assert(call->kind == ROOT_REFRESH);
	if (rc == 0 && mt_store_age_is_old(&call->age, call->gateway, text)) {
		rc = -ESTALE;
		mt_gateway_fail(call->gateway, rc, "%s", text);
	}
	root_call_answer(call, rc);
}

static void
root_call_refresh(struct root_call *call)
{
	assert(call->kind == ROOT_REFRESH);
	call->waiter.fn = root_call_on_refreshed;
	call->waiter.arg = call;
	mt_volumes_refresh(call->gateway, &call->waiter);
}

static void
root_call_on_main(struct loop_post *post, void *arg)
{
	struct root_call *call = arg;

	assert(call->place == ROOT_AT_MAIN);
	(void)post;
	CHECK_OBJ(call, ROOT_CALL_MAGIC);
	if (call->shard != NULL && call->kind != ROOT_REFRESH)
		call->place = ROOT_AT_STORE;
	if (call->shard == NULL)
		root_call_free(call);
	else if (call->kind == ROOT_STORE)
		root_call_txn(call);
	else if (call->kind == ROOT_CLAIM)
		root_call_claim(call);
	else if (call->kind == ROOT_REFRESH)
		root_call_refresh(call);
	else
		root_call_list(call);
}

/* ---- from the port's loop ---- */

static struct root_call *
root_call_create(struct mt_shard *shard)
{
	struct root_call *call = mt_calloc(1, sizeof(*call));

	assert(shard->port->gateway != NULL && shard->index < CLEAVE_SHARDS_MAX);
	if (call == NULL)
		return NULL;
	call->magic = ROOT_CALL_MAGIC;
	call->shard = shard;
	call->gateway = shard->port->gateway;
	call->port_loop = shard->port->loop;
	call->shard_index = shard->index;
	mt_root_key(call->key, shard->index);
	return call;
}

static int
root_call_start(struct root_call *call)
{
	if (call == NULL)
		return -ENOMEM;
	assert(call->shard != NULL && call->gateway != NULL);
	call->post = (struct loop_post){ .fn = root_call_on_main, .arg = call };
	list_push_back(&call->shard->root_calls, &call->link);
	loop_post(call->gateway->options.loop, &call->post);
	return 0;
}

static int
proxy_load(struct mt_shard *shard, mt_root_fn fn, void *arg)
{
	struct root_call *call = root_call_create(shard);

	assert(fn != NULL);
	if (call != NULL) {
		call->kind = ROOT_LOAD;
		call->fn = fn;
		call->arg = arg;
	}
	return root_call_start(call);
}

static int
proxy_store(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	struct root_call *call = root_call_create(shard);

	assert(fn != NULL && root->epoch != 0);
	if (call != NULL) {
		call->kind = ROOT_STORE;
		call->wanted = *root;
		call->fn = fn;
		call->arg = arg;
	}
	return root_call_start(call);
}

static int
proxy_claim(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	struct root_call *call = root_call_create(shard);

	assert(fn != NULL && root->epoch != 0);
	if (call != NULL) {
		call->kind = ROOT_CLAIM;
		call->wanted = *root;
		call->fn = fn;
		call->arg = arg;
	}
	return root_call_start(call);
}

static int
proxy_volumes_refresh(struct mt_shard *shard, void (*fn)(int rc, void *arg), void *arg)
{
	struct root_call *call = root_call_create(shard);

	assert(fn != NULL);
	if (call != NULL) {
		call->kind = ROOT_REFRESH;
		call->refresh_fn = fn;
		call->arg = arg;
	}
	return root_call_start(call);
}

static int
proxy_mirror_check(struct mt_shard *shard, const struct mt_manifest_state *state,
    void (*fn)(int rc, void *arg), void *arg)
{
	struct root_call *call = root_call_create(shard);

	assert(fn != NULL);
	if (call != NULL && mt_store_age_take(&call->age, state) != 0) {
		root_call_free(call);
		call = NULL;
	}
	if (call != NULL) {
		call->kind = ROOT_REFRESH;
		call->refresh_fn = fn;
		call->arg = arg;
	}
	return root_call_start(call);
}

/* A shard's calls when it goes: on main, after the port's thread has ended; see the top. */
static void
proxy_abandon(struct mt_shard *shard)
{
	bool is_killed = shard->port->shared->is_killed;
	bool is_loop_dead = shard->port->loop != shard->port->main_loop;
	struct loop_link *link;

	while ((link = list_pop_front(&shard->root_calls)) != NULL) {
		struct root_call *call = LIST_ENTRY(link, struct root_call, link);

		/* No loop of a killed process runs again; the metadata handle of one that ends is closed
		 * next, and does not answer any more; and nobody comes by on the loop of a thread that
		 * has ended. */
		if (is_killed || call->place == ROOT_AT_STORE ||
		    (is_loop_dead && call->place == ROOT_GOING_BACK))
			root_call_free(call);
		else
			call->shard = NULL;
	}
}

const struct mt_root_ops mt_meta_proxy = {
	.load = proxy_load,
	.store = proxy_store,
	.claim = proxy_claim,
	.abandon = proxy_abandon,
	.volumes_refresh = proxy_volumes_refresh,
	.mirror_check = proxy_mirror_check,
};
