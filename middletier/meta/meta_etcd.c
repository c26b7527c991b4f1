/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_etcd.c -- a metadata store in an etcd; see meta_etcd.h
 *
 *	PREFIX k/KEY        a key of the seam: '0' VALUE, or '1' LEASE VALUE
 *	PREFIX l/LEASE      a lease (etcd_lease.h)
 *	PREFIX id/GATEWAY   the one process that is this gateway (etcd_claim.h)
 *	PREFIX compaction   whose turn it is to shorten the history (etcd_compact.h)
 *
 *	call --> one request (etcd_client.h) --> answer --> handler
 *	stream of all changes (etcd_watch.h) --> leases seen; watches called
 *
 * All that the seam promises rests on two things that etcd gives: a transaction is one step in the order of all
 * revisions, and a read that is not "serializable" sees every step that was answered before it was sent. A
 * transaction that changes keys is sent once: the same one again would find its own compares broken, and say
 * that nothing has happened.
 */
#include "meta/meta_etcd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/alloc.h"
#include "meta/etcd_call.h"
#include "meta/etcd_claim.h"
#include "meta/etcd_client.h"
#include "meta/etcd_compact.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease.h"
#include "meta/etcd_lease_value.h"
#include "meta/etcd_list.h"
#include "meta/etcd_members.h"
#include "meta/etcd_observer.h"
#include "meta/etcd_release.h"
#include "meta/etcd_size.h"
#include "meta/etcd_watch.h"
#include "meta/meta_txn.h"
#include "meta/meta_watches.h"

#define ETCD_MAGIC 0x44435445u /* "ETCD" */
#define TXN_NS NUM_S(3)
/* A list of 4,096 roots is 2.7 MB, for each gateway: five a second. */
#define RELIST_MIN_NS NUM_MS(200)

struct meta_etcd {
	struct meta base;
	struct loop *loop;
	struct etcd_http *http;
	struct etcd_client client;
	bool has_place;
	char place[META_PLACE_BYTES]; /* as it was told last */
	struct etcd_leases leases;
	struct etcd_observer observer;
	struct etcd_watch watch;
	struct etcd_claim claim;
	struct etcd_release release;
	struct etcd_compact compact;
	struct etcd_size size;
	struct etcd_members members;
	struct loop_link lists, txns, watches;
	struct loop_task ring_task;
	bool *ret_closed; /* told when a watch closes the store under etcd_on_ring */
};

enum txn_state { TXN_ASKING, TXN_DONE, TXN_STATE_NR };

static const struct sm_state txn_table[TXN_STATE_NR] = {
	[TXN_ASKING] = { "asking", SM_TO(TXN_DONE), SM_INITIAL },
	[TXN_DONE] = { "done", 0, SM_FINAL },
};

struct etcd_txn {
	struct loop_link link; /* etcd->txns */
	struct sm sm;
	struct meta_etcd *etcd;
	struct meta_txn *txn;
	struct etcd_call *call;
	struct loop_timer timer; /* of an answer that asks nobody */
	int rc;                  /* that answer */
	meta_txn_fn fn;
	void *arg;
};

static struct meta_etcd *
etcd_of(const struct meta *meta)
{
	CHECK_OBJ(meta, ETCD_MAGIC);
	return NUM_CONTAINER_OF(meta, struct meta_etcd, base);
}

/* ---- transactions ---- */

static void
txn_free(struct etcd_txn *txn)
{
	assert(list_contains(&txn->link));
	list_remove(&txn->link);
	loop_timer_stop(txn->etcd->loop, &txn->timer);
	etcd_call_cancel(txn->call);
	mt_free(txn->txn);
	mt_free(txn);
}

static void
txn_finish(struct etcd_txn *txn, int rc)
{
	meta_txn_fn fn = txn->fn;
	void *arg = txn->arg;

	assert(txn->call == NULL);
	sm_move(&txn->sm, TXN_DONE);
	txn_free(txn);
	fn(rc, arg);
}

static void
txn_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_txn *txn = arg;

	(void)timer;
	assert(txn->rc != 0);
	txn_finish(txn, txn->rc);
}

static void
txn_key(const struct etcd_txn *txn, uint32_t index, char out[ETCD_KEY_BYTES_MAX])
{
	assert(index < txn->txn->count);
	etcd_client_key(&txn->etcd->client, out, ETCD_KEYS, txn->txn->ops[index].key);
}

/* Is it the first put of its lease? Each is named once. */
static bool
txn_names_lease(const struct etcd_txn *txn, uint32_t index)
{
	const struct meta_op *ops = txn->txn->ops;

	assert(index < txn->txn->count);
	if (ops[index].kind != META_PUT || ops[index].lease == 0)
		return false;
	for (uint32_t i = 0; i < index; i++)
		if (ops[i].kind == META_PUT && ops[i].lease == ops[index].lease)
			return false;
	return true;
}

/* The compares failed: for a version that differs, or for a lease that is gone? The first counts. */
static int
txn_judge(const struct etcd_txn *txn, const struct etcd_answer *answer)
{
	char key[ETCD_KEY_BYTES_MAX];
	bool has_all_leases = true;

	assert(!answer->has_succeeded);
	for (uint32_t i = 0; i < txn->txn->count; i++) {
		const struct meta_op *op = &txn->txn->ops[i];
		const struct etcd_kv *kv;
		uint64_t revision = 0;

		if (op->kind == META_COMPARE_VERSION) {
			txn_key(txn, i, key);
			kv = etcd_answer_find(answer, key);
			(void)etcd_client_revision(&txn->etcd->client, op->version, &revision);
			if ((kv == NULL ? 0 : kv->mod_revision) != revision)
				return -EAGAIN;
		} else if (txn_names_lease(txn, i)) {
			etcd_lease_key(&txn->etcd->client, key, op->lease);
			has_all_leases &= etcd_answer_find(answer, key) != NULL;
		}
	}
	return has_all_leases ? -EAGAIN : -ENOENT;
}

static void
txn_on_answer(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_txn *txn = arg;

	assert(txn->sm.state == TXN_ASKING);
	txn->call = NULL;
	if (rc == 0 && !answer->has_succeeded)
		rc = txn_judge(txn, answer);
	else if (rc != 0 && rc != -ENOSPC && rc != -ETIMEDOUT)
		rc = -EIO;
	txn_finish(txn, rc);
}

static void
txn_write_compares(const struct etcd_txn *txn, struct etcd_text *body)
{
	char key[ETCD_KEY_BYTES_MAX];

	for (uint32_t i = 0; i < txn->txn->count; i++) {
		const struct meta_op *op = &txn->txn->ops[i];
		uint64_t revision;

		if (op->kind == META_COMPARE_VERSION) {
			txn_key(txn, i, key);
			(void)etcd_client_revision(&txn->etcd->client, op->version, &revision);
			etcd_json_compare_revision(body, key, revision);
		} else if (txn_names_lease(txn, i)) {
			etcd_lease_key(&txn->etcd->client, key, op->lease);
			etcd_json_compare_exists(body, key);
		}
	}
}

/* A put with a lease renews it: so who ends it, by its revision, cannot have missed the key. */
static void
txn_write_changes(const struct etcd_txn *txn, struct etcd_text *body)
{
	char key[ETCD_KEY_BYTES_MAX], head[ETCD_VALUE_HEAD_BYTES_MAX + 1];

	for (uint32_t i = 0; i < txn->txn->count; i++) {
		const struct meta_op *op = &txn->txn->ops[i];

		txn_key(txn, i, key);
		if (op->kind == META_PUT)
			etcd_json_put(body, key, head, etcd_lease_head(head, op->lease), op->value,
			    op->value_bytes);
		else if (op->kind == META_DELETE)
			etcd_json_delete(body, key);
		if (txn_names_lease(txn, i)) {
			etcd_lease_key(&txn->etcd->client, key, op->lease);
			etcd_json_touch(body, key);
		}
	}
}

/* With what is needed to tell why, where leases are among the compares. Keys once: etcd may be asked twice. */
static void
txn_write_reads(const struct etcd_txn *txn, struct etcd_text *body)
{
	char key[ETCD_KEY_BYTES_MAX];

	for (uint32_t i = 0; i < txn->txn->count; i++) {
		const struct meta_op *op = &txn->txn->ops[i];

		if (op->kind == META_COMPARE_VERSION) {
			txn_key(txn, i, key);
			etcd_json_get(body, key, false, false);
		} else if (txn_names_lease(txn, i)) {
			etcd_lease_key(&txn->etcd->client, key, op->lease);
			etcd_json_get(body, key, false, false);
		}
	}
}

static int
txn_ask(struct etcd_txn *txn)
{
	struct etcd_text body = { 0 };
	bool is_leased = meta_txn_is_leased(txn->txn), puts = false;

	assert(txn->call == NULL);
	assert(txn->rc == 0);
	for (uint32_t i = 0; i < txn->txn->count; i++)
		puts |= txn->txn->ops[i].kind == META_PUT;
	etcd_json_txn_begin(&body);
	txn_write_compares(txn, &body);
	etcd_json_txn_then(&body);
	txn_write_changes(txn, &body);
	etcd_json_txn_else(&body);
	if (is_leased)
		txn_write_reads(txn, &body);
	etcd_json_txn_end(&body);
	txn->call = etcd_call_start(&txn->etcd->client,
	    &(struct etcd_call_options){ .line = is_leased ? ETCD_LINE_LEASE : ETCD_LINE_REQUEST,
		.path = "/v3/kv/txn",
		.body = &body,
		.is_linear = true,
		.is_change = puts,
		.budget_ns = TXN_NS,
		.fn = txn_on_answer,
		.arg = txn });
	return txn->call == NULL ? -ENOMEM : 0;
}

/* Answers that need no asking: a version of another generation, a lease that was given up. 0: ask. */
static int
txn_known_rc(const struct etcd_txn *txn)
{
	const struct meta_etcd *etcd = txn->etcd;
	int rc = 0;

	assert(txn->sm.state == TXN_ASKING);
	for (uint32_t i = 0; i < txn->txn->count; i++) {
		const struct meta_op *op = &txn->txn->ops[i];
		uint64_t revision;

		if (op->kind == META_COMPARE_VERSION &&
		    !etcd_client_revision(&etcd->client, op->version, &revision))
			return -EAGAIN;
		if (op->kind == META_PUT && op->lease != 0 &&
		    etcd_leases_is_over(&etcd->leases, op->lease))
			rc = -ENOENT;
	}
	return rc;
}

static int
etcd_txn(struct meta *meta, const struct meta_op *ops, uint32_t count, meta_txn_fn fn, void *arg)
{
	struct meta_etcd *etcd = etcd_of(meta);
	struct meta_txn *copy;
	struct etcd_txn *txn;
	int rc = meta_txn_copy(ops, count, &copy);

	assert(fn != NULL);
	if (rc != 0)
		return rc;
	txn = mt_calloc(1, sizeof(*txn));
	if (txn == NULL) {
		mt_free(copy);
		return -ENOMEM;
	}
	sm_init(&txn->sm, "etcd-txn", txn_table, TXN_ASKING, 0);
	txn->etcd = etcd;
	txn->txn = copy;
	txn->fn = fn;
	txn->arg = arg;
	loop_timer_init(&txn->timer, txn_on_timer, txn);
	list_push_back(&etcd->txns, &txn->link);
	txn->rc = txn_known_rc(txn);
	if (txn->rc != 0)
		loop_timer_start(etcd->loop, &txn->timer, 0);
	else
		rc = txn_ask(txn);
	if (rc != 0)
		txn_free(txn);
	return rc;
}

/* ---- the other calls ---- */

static int
etcd_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	struct meta_etcd *etcd = etcd_of(meta);

	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	return etcd_list_start(&etcd->client, &etcd->lists, prefix, fn, arg);
}

static int
etcd_lease_grant(struct meta *meta, uint64_t ttl_ns, meta_lease_fn fn, void *arg)
{
	return ttl_ns == 0 ? -EINVAL : etcd_leases_grant(&etcd_of(meta)->leases, ttl_ns, fn, arg);
}

static int
etcd_lease_renew(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	return etcd_leases_renew(&etcd_of(meta)->leases, lease, fn, arg);
}

static int
etcd_lease_revoke(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	return etcd_leases_revoke(&etcd_of(meta)->leases, lease, fn, arg);
}

/* ---- watches ---- */

static int
etcd_add_watch(struct meta *meta, const char *prefix, meta_watch_fn fn, void *arg)
{
	return meta_watches_add(&etcd_of(meta)->watches, prefix, fn, arg);
}

static void
etcd_unwatch(struct meta *meta, meta_watch_fn fn, void *arg)
{
	meta_watches_remove(&etcd_of(meta)->watches, fn, arg);
}

/* A key changed; NULL: any may have. Watches are called later: they may close the store. */
static void
etcd_on_change(const char *key, void *arg)
{
	struct meta_etcd *etcd = arg;
	struct loop_link *link;

	for (link = etcd->watches.next; link != &etcd->watches; link = link->next) {
		struct meta_watch *watch = LIST_ENTRY(link, struct meta_watch, link);

		if (key == NULL || meta_key_has_prefix(key, watch->prefix)) {
			watch->is_due = true;
			loop_defer(etcd->loop, &etcd->ring_task);
		}
	}
}

static void
etcd_on_ring(struct loop_task *task, void *arg)
{
	struct meta_etcd *etcd = arg;
	bool is_closed = false;

	assert(etcd->ret_closed == NULL);
	(void)task;
	etcd->ret_closed = &is_closed;
	meta_watches_call(&etcd->watches, &is_closed);
	if (!is_closed)
		etcd->ret_closed = NULL;
}

static void
etcd_report(struct meta *meta, struct meta_report *ret_report)
{
	const struct meta_etcd *etcd = etcd_of(meta);

	*ret_report =
	    (struct meta_report){ .unreachable_s = etcd_client_silent_ns(&etcd->client) / NUM_S(1),
		    .request_last_ns = etcd_latency_last(&etcd->client.latency),
		    .request_p99_ns = etcd_latency_p99(&etcd->client.latency),
		    .database_bytes = etcd->size.database_bytes,
		    .quota_bytes = etcd->size.quota_bytes,
		    .member_count = etcd->client.endpoint_count };
	ret_report->bad_count = etcd_members_bad(&etcd->members, &ret_report->bad_ns,
	    ret_report->bad_names, sizeof(ret_report->bad_names));
}

/* ---- opening and closing ---- */

static void
etcd_on_generation(void *arg)
{
	struct meta_etcd *etcd = arg;

	etcd_leases_give_up(&etcd->leases);
	etcd_watch_restart(&etcd->watch);
}

static void
etcd_on_own_change(uint64_t revision, void *arg)
{
	struct meta_etcd *etcd = arg;

	etcd_watch_expect(&etcd->watch, revision);
}

static void
etcd_close(struct meta *meta)
{
	struct meta_etcd *etcd = etcd_of(meta);
	struct loop_link *link;

	if (etcd->ret_closed != NULL)
		*etcd->ret_closed = true;
	loop_task_cancel(etcd->loop, &etcd->ring_task);
	etcd_members_fini(&etcd->members);
	etcd_size_fini(&etcd->size);
	etcd_compact_fini(&etcd->compact);
	etcd_claim_fini(&etcd->claim);
	etcd_release_fini(&etcd->release);
	etcd_watch_fini(&etcd->watch);
	etcd_leases_fini(&etcd->leases);
	etcd_observer_fini(&etcd->observer);
	etcd_list_cancel_all(&etcd->lists);
	while ((link = list_first(&etcd->txns)) != NULL)
		txn_free(LIST_ENTRY(link, struct etcd_txn, link));
	meta_watches_fini(&etcd->watches);
	etcd_call_cancel_all(&etcd->client);
	etcd_client_fini(&etcd->client);
	etcd->http->ops->close(etcd->http);
	meta->magic = 0;
	mt_free(etcd);
}

/* In decimal, as etcdctl's JSON has it. Members come and go under one id; a snapshot is restored to another one. */
static const char *
etcd_place(struct meta *meta)
{
	struct meta_etcd *etcd = etcd_of(meta);

	etcd->place[0] = '\0';
	if (etcd->has_place && etcd->client.cluster_id != 0)
		(void)snprintf(etcd->place, sizeof(etcd->place), "%" PRIu64,
		    etcd->client.cluster_id);
	return etcd->place;
}

static const struct meta_ops etcd_ops = {
	.name = "etcd",
	.are_leases_observed = true,
	.relist_min_ns = RELIST_MIN_NS,
	.txn = etcd_txn,
	.list = etcd_list,
	.lease_grant = etcd_lease_grant,
	.lease_renew = etcd_lease_renew,
	.lease_revoke = etcd_lease_revoke,
	.watch = etcd_add_watch,
	.unwatch = etcd_unwatch,
	.close = etcd_close,
	.place = etcd_place,
	.place_how = "an etcd that was restored from a snapshot",
	.place_what = "its cluster_id",
	.report = etcd_report,
};

static int
client_open(struct meta_etcd *etcd, const struct meta_etcd_options *options)
{
	return etcd_client_init(&etcd->client,
	    &(struct etcd_client_options){ .loop = options->loop,
		.http = options->http,
		.prefix = options->prefix,
		.endpoints = options->endpoints,
		.endpoint_count = options->endpoint_count,
		.user = options->user,
		.password = options->password,
		.password_file = options->password_file,
		.try_ns = options->try_ns,
		.on_generation = etcd_on_generation,
		.on_change = etcd_on_own_change,
		.arg = etcd });
}

struct meta *
meta_etcd_open(const struct meta_etcd_options *options)
{
	struct meta_etcd *etcd = mt_calloc(1, sizeof(*etcd));

	assert(options->loop != NULL);
	assert(options->http != NULL);
	if (etcd == NULL || client_open(etcd, options) != 0) {
		options->http->ops->close(options->http);
		mt_free(etcd);
		return NULL;
	}
	etcd->base = (struct meta){ .magic = ETCD_MAGIC, .ops = &etcd_ops };
	etcd->loop = options->loop;
	etcd->http = options->http;
	etcd->has_place = options->has_place;
	list_init(&etcd->lists);
	list_init(&etcd->txns);
	list_init(&etcd->watches);
	loop_task_init(&etcd->ring_task, etcd_on_ring, etcd);
	etcd_leases_init(&etcd->leases, &etcd->client, options->by);
	etcd_observer_init(&etcd->observer, etcd->loop, &etcd->leases);
	etcd_watch_init(&etcd->watch, &etcd->client, &etcd->observer, etcd_on_change, etcd);
	etcd_claim_init(&etcd->claim, &etcd->client, &etcd->leases, options->process,
	    options->is_dead);
	etcd_release_init(&etcd->release, &etcd->client, options->is_dead);
	etcd_compact_init(&etcd->compact, &etcd->client, options->compacts);
	etcd_size_init(&etcd->size, &etcd->client, options->measures);
	etcd_members_init(&etcd->members, &etcd->client, options->measures);
	return &etcd->base;
}

bool
meta_etcd_is_ready(const struct meta *meta)
{
	return etcd_watch_is_live(&etcd_of(meta)->watch);
}

const char *
meta_etcd_trouble(const struct meta *meta, bool *ret_is_refused)
{
	const struct etcd_client *client = &etcd_of(meta)->client;

	*ret_is_refused = client->is_refused;
	return client->trouble;
}

int
meta_etcd_claim(struct meta *meta, uint64_t gateway_id, uint64_t ttl_ns, meta_etcd_claim_fn fn,
    void *arg)
{
	assert(ttl_ns > 0);
	assert(fn != NULL);
	return etcd_claim_start(&etcd_of(meta)->claim, gateway_id, ttl_ns, fn, arg);
}

int
meta_etcd_release(struct meta *meta, uint64_t gateway_id, meta_etcd_claim_fn fn, void *arg)
{
	assert(fn != NULL);
	return etcd_release_start(&etcd_of(meta)->release, gateway_id, fn, arg);
}
