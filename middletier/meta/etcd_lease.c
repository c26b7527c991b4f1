/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_lease.c -- leases of a store in etcd; see etcd_lease.h
 *
 * What is under way:
 *
 *	asking --> done                   grant and renew: one transaction, which may be sent again
 *	reading --> deleting --> done     revoke and expiry: the lease and its keys as they are, then all deleted
 *	   ^           |                  if they still are so; a delete that perhaps happened is looked up
 *	   +-----------+
 */
#include "meta/etcd_lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/alloc.h"
#include "meta/etcd_call.h"
#include "meta/etcd_client.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease_value.h"
#include "meta/meta_txn.h"

/* Two tries of a member each, then the caller decides: it knows how much of its time is left. */
#define LEASE_ASK_NS NUM_S(2)
#define LEASE_END_NS NUM_S(3)
#define LEASE_KEYS_MAX 100u /* deleted at once; etcd takes 128 */
/* Owners renew at each third of the time: a call that takes half of that is slow. */
#define LEASE_SLOW_PARTS 6u

enum op_state { OP_ASKING, OP_READING, OP_DELETING, OP_DONE, OP_STATE_NR };

static const struct sm_state op_table[OP_STATE_NR] = {
	[OP_ASKING] = { "asking", SM_TO(OP_DONE), SM_INITIAL },
	[OP_READING] = { "reading", SM_TO(OP_DELETING) | SM_TO(OP_DONE), SM_INITIAL },
	[OP_DELETING] = { "deleting", SM_TO(OP_READING) | SM_TO(OP_DONE), 0 },
	[OP_DONE] = { "done", 0, SM_FINAL },
};

struct etcd_grant {
	struct loop_link link; /* leases->granted */
	uint64_t id;
	uint64_t revision; /* of our last grant or renewal that was answered; 0: unknown */
	bool is_over;
};

enum op_kind { OP_GRANT, OP_RENEW, OP_REVOKE, OP_EXPIRE };

struct etcd_lease_op {
	struct loop_link link; /* leases->ops */
	struct sm sm;
	enum op_kind kind;
	struct etcd_leases *leases;
	uint64_t id;
	uint64_t seen_revision;  /* OP_EXPIRE: ended only if it was last renewed then */
	uint64_t known_revision; /* OP_RENEW: it was surely renewed then; 0: who knows */
	uint64_t deadline_ns;
	bool has_perhaps; /* deleted it */
	struct etcd_call *call;
	struct loop_timer timer; /* of an answer that asks nobody */
	meta_lease_fn fn;
	void *arg;
};

static void op_read(struct etcd_lease_op *op);

/* ---- what was granted to us ---- */

static struct etcd_grant *
grant_find(const struct etcd_leases *leases, uint64_t id)
{
	struct loop_link *link;

	for (link = leases->granted.next; link != &leases->granted; link = link->next) {
		struct etcd_grant *grant = LIST_ENTRY(link, struct etcd_grant, link);

		if (grant->id == id)
			return grant;
	}
	return NULL;
}

static void
grant_forget(struct etcd_leases *leases, uint64_t id)
{
	struct etcd_grant *grant = grant_find(leases, id);

	/* A lease that was given up is remembered: the store, set back, may have it still. */
	if (grant == NULL || grant->is_over)
		return;
	list_remove(&grant->link);
	mt_free(grant);
}

void
etcd_leases_give_up(struct etcd_leases *leases)
{
	struct loop_link *link;

	for (link = leases->granted.next; link != &leases->granted; link = link->next)
		LIST_ENTRY(link, struct etcd_grant, link)->is_over = true;
}

bool
etcd_leases_is_over(const struct etcd_leases *leases, uint64_t lease)
{
	const struct etcd_grant *grant = grant_find(leases, lease);

	assert(lease != 0);
	return grant != NULL && grant->is_over;
}

/* ---- what is under way ---- */

static void
op_free(struct etcd_lease_op *op)
{
	assert(list_contains(&op->link));
	list_remove(&op->link);
	loop_timer_stop(op->leases->client->loop, &op->timer);
	etcd_call_cancel(op->call);
	mt_free(op);
}

static void
op_finish(struct etcd_lease_op *op, int rc)
{
	meta_lease_fn fn = op->fn;
	void *arg = op->arg;
	uint64_t id = op->id;

	assert(op->call == NULL);
	sm_move(&op->sm, OP_DONE);
	if (op->kind != OP_GRANT && (rc == -ENOENT || (op->kind == OP_REVOKE && rc == 0)))
		grant_forget(op->leases, id);
	op_free(op);
	fn(rc, rc == 0 ? id : 0, arg);
}

/* As the seam says it. */
static int
op_rc(int rc)
{
	return rc == 0 || rc == -ENOSPC || rc == -ETIMEDOUT ? rc : -EIO;
}

static bool
op_call(struct etcd_lease_op *op, struct etcd_text *body, uint64_t budget_ns, etcd_call_fn fn)
{
	bool is_delete = op->sm.state == OP_DELETING;

	assert(op->call == NULL);
	op->call = etcd_call_start(op->leases->client,
	    &(struct etcd_call_options){ .line = ETCD_LINE_LEASE,
		.path = "/v3/kv/txn",
		.body = body,
		.may_repeat = !is_delete,
		.is_linear = true,
		.is_change = is_delete || op->sm.state == OP_ASKING,
		.budget_ns = budget_ns,
		.fn = fn,
		.arg = op });
	return op->call != NULL;
}

/*
 * The lease as it was before: not older than our last renewal that was answered, unless the store was set back. The
 * revisions alone do not tell that when others have written so much since that all are passed again.
 */
static int
op_judge_renewal(const struct etcd_lease_op *op, const struct etcd_answer *answer)
{
	struct etcd_client *client = op->leases->client;
	struct etcd_grant *grant = grant_find(op->leases, op->id);
	char key[ETCD_KEY_BYTES_MAX];
	const struct etcd_kv *before;

	assert(op->kind == OP_RENEW);
	assert(op->call == NULL);
	if (!answer->has_succeeded)
		return -ENOENT;
	etcd_lease_key(client, key, op->id);
	before = etcd_answer_find(answer, key);
	if (before != NULL && before->mod_revision < op->known_revision &&
	    !MUTANT(generation_ignored)) {
		etcd_client_set_back(client, before->mod_revision, op->known_revision,
		    answer->revision);
		return -ETIMEDOUT;
	}
	if (grant != NULL)
		grant->revision = num_max(grant->revision, answer->revision);
	return 0;
}

static void
op_on_asked(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_lease_op *op = arg;
	struct etcd_grant *grant;

	assert(op->sm.state == OP_ASKING);
	assert(op->kind == OP_GRANT || op->kind == OP_RENEW);
	op->call = NULL;
	if (rc != 0) {
		op_finish(op, op_rc(rc));
		return;
	}
	if (op->kind == OP_RENEW) {
		op_finish(op, op_judge_renewal(op, answer));
		return;
	}
	/* The key is there already: from a try before this one. Nobody else draws the same 63 bits. */
	grant = mt_calloc(1, sizeof(*grant));
	if (grant == NULL) {
		op_finish(op, -EIO); /* it ends by itself */
		return;
	}
	grant->id = op->id;
	grant->revision = answer->has_succeeded ? answer->revision : 0;
	list_push_back(&op->leases->granted, &grant->link);
	op_finish(op, 0);
}

static void
op_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	op_finish(arg, -ENOENT);
}

static struct etcd_lease_op *
op_create(struct etcd_leases *leases, enum op_kind kind, uint64_t id, meta_lease_fn fn, void *arg)
{
	struct etcd_lease_op *op = mt_calloc(1, sizeof(*op));

	assert(fn != NULL);
	if (op == NULL)
		return NULL;
	sm_init(&op->sm, "etcd-lease-op", op_table,
	    kind == OP_GRANT || kind == OP_RENEW ? OP_ASKING : OP_READING, (uint32_t)id);
	op->kind = kind;
	op->leases = leases;
	op->id = id;
	op->deadline_ns = loop_now_ns(leases->client->loop) + LEASE_END_NS;
	op->fn = fn;
	op->arg = arg;
	loop_timer_init(&op->timer, op_on_timer, op);
	list_push_back(&leases->ops, &op->link);
	return op;
}

int
etcd_leases_grant(struct etcd_leases *leases, uint64_t ttl_ns, meta_lease_fn fn, void *arg)
{
	struct etcd_client *client = leases->client;
	uint64_t id = (loop_random_u64(client->loop) >> 1) | 1;
	struct etcd_lease_op *op = op_create(leases, OP_GRANT, id, fn, arg);
	struct etcd_text body = { 0 }, value = { 0 };
	char key[ETCD_KEY_BYTES_MAX], head[64];

	assert(ttl_ns > 0);
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	if (op == NULL)
		return -ENOMEM;
	client->latency.limit_ns = ttl_ns / LEASE_SLOW_PARTS;
	etcd_lease_key(client, key, id);
	/* Rounded up: longer is safe. */
	(void)snprintf(head, sizeof(head),
	    "{\"format\":%u,\"ttl_ms\":%" PRIu64 ",\"by\":", ETCD_LEASE_FORMAT,
	    ttl_ns / NUM_MS(1) + (ttl_ns % NUM_MS(1) != 0));
	etcd_text_add(&value, head);
	etcd_text_string(&value, leases->by);
	etcd_text_add(&value, "}");
	etcd_json_txn_begin(&body);
	etcd_json_compare_version(&body, key, 0);
	etcd_json_txn_then(&body);
	etcd_json_put(&body, key, NULL, 0, value.bytes, value.count);
	etcd_json_txn_end(&body);
	body.has_failed |= value.has_failed;
	etcd_text_fini(&value);
	if (!op_call(op, &body, LEASE_ASK_NS, op_on_asked)) {
		op_free(op);
		return -ENOMEM;
	}
	return 0;
}

int
etcd_leases_renew(struct etcd_leases *leases, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct etcd_lease_op *op = op_create(leases, OP_RENEW, lease, fn, arg);
	const struct etcd_grant *grant = grant_find(leases, lease);
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];

	CHECK_OBJ(leases->client, ETCD_CLIENT_MAGIC);
	if (op == NULL)
		return -ENOMEM;
	op->known_revision = grant == NULL ? 0 : grant->revision;
	if (lease == 0 || etcd_leases_is_over(leases, lease)) {
		loop_timer_start(leases->client->loop, &op->timer, 0);
		return 0;
	}
	etcd_lease_key(leases->client, key, lease);
	etcd_json_txn_begin(&body);
	etcd_json_compare_exists(&body, key);
	etcd_json_txn_then(&body);
	etcd_json_get(&body, key, false, false);
	etcd_json_touch(&body, key);
	etcd_json_txn_end(&body);
	if (!op_call(op, &body, LEASE_ASK_NS, op_on_asked)) {
		op_free(op);
		return -ENOMEM;
	}
	return 0;
}

/* ---- the end of a lease ---- */

/* Until its time is over; false: it is. */
static bool
op_budget(const struct etcd_lease_op *op, uint64_t *ret_budget_ns)
{
	uint64_t now_ns = loop_now_ns(op->leases->client->loop);

	assert(op->sm.state != OP_DONE);
	if (now_ns >= op->deadline_ns)
		return false;
	*ret_budget_ns = op->deadline_ns - now_ns;
	return true;
}

static bool
kv_belongs(const struct etcd_client *client, const struct etcd_kv *kv, uint64_t id)
{
	uint64_t lease;
	uint32_t head_bytes;

	assert(id != 0);
	if (etcd_client_name(client, kv->key, ETCD_KEYS) == NULL &&
	    etcd_client_name(client, kv->key, ETCD_CLAIMS) == NULL)
		return false;
	return etcd_lease_of(kv->value, kv->value_bytes, &lease, &head_bytes) == 0 && lease == id;
}

static void
op_on_deleted(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_lease_op *op = arg;

	assert(op->sm.state == OP_DELETING);
	op->call = NULL;
	op->has_perhaps |= rc == -ETIMEDOUT || (rc == 0 && answer->has_succeeded);
	if (rc != 0 && rc != -ETIMEDOUT) {
		op_finish(op, op_rc(rc));
		return;
	}
	/* Also after a success: there may have been more keys than go at once. */
	sm_move(&op->sm, OP_READING);
	op_read(op);
}

/* The lease, and its keys, go if all are as @answer says. False: there is nothing to delete. */
static bool
op_write_delete(const struct etcd_lease_op *op, const struct etcd_answer *answer,
    const struct etcd_kv *lease, struct etcd_text *body)
{
	const struct etcd_client *client = op->leases->client;
	uint32_t count = 0;

	assert(op->sm.state == OP_READING);
	assert(op->id != 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		if (pass == 0)
			etcd_json_txn_begin(body);
		else
			etcd_json_txn_then(body);
		if (lease != NULL && pass == 0)
			etcd_json_compare_revision(body, lease->key, lease->mod_revision);
		else if (lease != NULL)
			etcd_json_delete(body, lease->key);
		count = lease != NULL;
		for (uint32_t i = 0; i < answer->kv_count && count < LEASE_KEYS_MAX; i++) {
			const struct etcd_kv *kv = &answer->kvs[i];

			if (!kv_belongs(client, kv, op->id))
				continue;
			count++;
			if (pass == 0)
				etcd_json_compare_revision(body, kv->key, kv->mod_revision);
			else
				etcd_json_delete(body, kv->key);
		}
	}
	assert(count <= LEASE_KEYS_MAX);
	etcd_json_txn_end(body);
	return count > 0;
}

static void
op_on_read(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_lease_op *op = arg;
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];
	const struct etcd_kv *lease;
	uint64_t budget_ns;

	assert(op->sm.state == OP_READING);
	assert(op->kind == OP_REVOKE || op->kind == OP_EXPIRE);
	op->call = NULL;
	if (rc != 0) {
		op_finish(op, op_rc(rc));
		return;
	}
	etcd_lease_key(op->leases->client, key, op->id);
	lease = etcd_answer_find(answer, key);
	if (op->kind == OP_EXPIRE && lease != NULL && lease->mod_revision != op->seen_revision &&
	    !MUTANT(expiry_without_compare)) {
		op_finish(op, -EAGAIN); /* it was renewed */
		return;
	}
	if (!op_write_delete(op, answer, lease, &body)) {
		etcd_text_fini(&body);
		op_finish(op, op->has_perhaps ? 0 : -ENOENT);
		return;
	}
	if (!op_budget(op, &budget_ns)) {
		etcd_text_fini(&body);
		op_finish(op, -ETIMEDOUT);
		return;
	}
	sm_move(&op->sm, OP_DELETING);
	if (!op_call(op, &body, budget_ns, op_on_deleted))
		op_finish(op, -EIO);
}

static bool
op_post_read(struct etcd_lease_op *op, uint64_t budget_ns)
{
	const struct etcd_client *client = op->leases->client;
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];

	assert(op->sm.state == OP_READING);
	etcd_json_txn_begin(&body);
	etcd_json_txn_then(&body);
	etcd_lease_key(client, key, op->id);
	etcd_json_get(&body, key, false, false);
	etcd_client_key(client, key, ETCD_KEYS, META_LEASED_PREFIX);
	etcd_json_get(&body, key, true, true);
	etcd_client_key(client, key, ETCD_CLAIMS, "");
	etcd_json_get(&body, key, true, true);
	etcd_json_txn_end(&body);
	return op_call(op, &body, budget_ns, op_on_read);
}

static void
op_read(struct etcd_lease_op *op)
{
	uint64_t budget_ns;

	assert(op->sm.state == OP_READING);
	if (!op_budget(op, &budget_ns))
		op_finish(op, -ETIMEDOUT);
	else if (!op_post_read(op, budget_ns))
		op_finish(op, -EIO);
}

/* 0, -ENOMEM. */
static int
leases_end(struct etcd_leases *leases, enum op_kind kind, uint64_t id, uint64_t seen_revision,
    meta_lease_fn fn, void *arg)
{
	struct etcd_lease_op *op = op_create(leases, kind, id, fn, arg);

	assert(kind == OP_REVOKE || kind == OP_EXPIRE);
	assert((kind == OP_EXPIRE) == (seen_revision != 0));
	if (op == NULL)
		return -ENOMEM;
	op->seen_revision = seen_revision;
	if (!op_post_read(op, LEASE_END_NS)) {
		op_free(op);
		return -ENOMEM;
	}
	return 0;
}

int
etcd_leases_revoke(struct etcd_leases *leases, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct etcd_lease_op *op;

	CHECK_OBJ(leases->client, ETCD_CLIENT_MAGIC);
	if (lease != 0 && !etcd_leases_is_over(leases, lease))
		return leases_end(leases, OP_REVOKE, lease, 0, fn, arg);
	op = op_create(leases, OP_REVOKE, lease, fn, arg);
	if (op == NULL)
		return -ENOMEM;
	loop_timer_start(leases->client->loop, &op->timer, 0);
	return 0;
}

int
etcd_leases_expire(struct etcd_leases *leases, uint64_t lease, uint64_t revision, meta_lease_fn fn,
    void *arg)
{
	assert(lease != 0);
	assert(revision > 0);
	return leases_end(leases, OP_EXPIRE, lease, revision, fn, arg);
}

/* ---- all of them ---- */

void
etcd_leases_init(struct etcd_leases *leases, struct etcd_client *client, const char *by)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*leases = (struct etcd_leases){ .client = client };
	(void)snprintf(leases->by, sizeof(leases->by), "%s", by == NULL ? "" : by);
	list_init(&leases->granted);
	list_init(&leases->ops);
}

void
etcd_leases_fini(struct etcd_leases *leases)
{
	struct loop_link *link;

	CHECK_OBJ(leases->client, ETCD_CLIENT_MAGIC);
	while ((link = list_first(&leases->ops)) != NULL)
		op_free(LIST_ENTRY(link, struct etcd_lease_op, link));
	while ((link = list_pop_front(&leases->granted)) != NULL)
		mt_free(LIST_ENTRY(link, struct etcd_grant, link));
}
