/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_claim.c -- the one process of a store that is a certain gateway; see etcd_claim.h
 *
 *	none --> granting --> taking --> held
 *	            ^  |       ^  |        |
 *	            |  |       |  +--> ending        who has it has died: its lease ends, then once more
 *	            |  +-------|--+--> waiting       another one has it, or the store does not answer
 *	            +----------+-----------+         our lease is gone
 *	                  any --> refused            another one has it, and lives
 */
#include "meta/etcd_claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "meta/etcd_call.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease_value.h"

#define CLAIM_TAKE_NS NUM_S(3)
#define CLAIM_RENEW_PART 3u
#define CLAIM_WAIT_PART 8u
/* More than a lease: who observes it may have begun to count late, and ends it after a while. */
#define CLAIM_BUSY_NS(ttl_ns) ((ttl_ns) + (ttl_ns) / 2 + NUM_S(1))

enum claim_state {
	CLAIM_NONE,
	CLAIM_GRANTING,
	CLAIM_TAKING,
	CLAIM_ENDING,
	CLAIM_WAITING,
	CLAIM_HELD,
	CLAIM_REFUSED,
	CLAIM_STATE_NR,
};

static const struct sm_state claim_table[CLAIM_STATE_NR] = {
	[CLAIM_NONE] = { "none", SM_TO(CLAIM_GRANTING), SM_INITIAL },
	[CLAIM_GRANTING] = { "granting", SM_TO(CLAIM_TAKING) | SM_TO(CLAIM_WAITING), 0 },
	[CLAIM_TAKING] = { "taking",
	    SM_TO(CLAIM_HELD) | SM_TO(CLAIM_ENDING) | SM_TO(CLAIM_WAITING) | SM_TO(CLAIM_GRANTING) |
		SM_TO(CLAIM_REFUSED),
	    0 },
	[CLAIM_ENDING] = { "ending", SM_TO(CLAIM_WAITING) | SM_TO(CLAIM_TAKING), 0 },
	[CLAIM_WAITING] = { "waiting", SM_TO(CLAIM_GRANTING) | SM_TO(CLAIM_TAKING), 0 },
	[CLAIM_HELD] = { "held", SM_TO(CLAIM_GRANTING), 0 },
	[CLAIM_REFUSED] = { "refused", 0, SM_FINAL },
};

static void claim_take(struct etcd_claim *claim);

static void
claim_wait(struct etcd_claim *claim)
{
	assert(claim->call == NULL);
	assert(claim->ttl_ns > 0);
	sm_move(&claim->sm, CLAIM_WAITING);
	loop_timer_start(claim->client->loop, &claim->timer, claim->ttl_ns / CLAIM_WAIT_PART + 1);
}

static void
claim_on_granted(int rc, uint64_t lease, void *arg)
{
	struct etcd_claim *claim = arg;

	assert(claim->sm.state == CLAIM_GRANTING);
	if (rc != 0) {
		claim_wait(claim);
		return;
	}
	claim->lease = lease;
	sm_move(&claim->sm, CLAIM_TAKING);
	claim_take(claim);
}

static void
claim_grant(struct etcd_claim *claim)
{
	assert(claim->call == NULL);
	sm_move(&claim->sm, CLAIM_GRANTING);
	claim->lease = 0;
	if (etcd_leases_grant(claim->leases, claim->ttl_ns, claim_on_granted, claim) != 0)
		claim_wait(claim);
}

static void
claim_held(struct etcd_claim *claim)
{
	bool is_first = !claim->has_held;

	assert(claim->call == NULL);
	assert(claim->lease != 0);
	sm_move(&claim->sm, CLAIM_HELD);
	claim->has_held = true;
	claim->busy_until_ns = 0;
	loop_timer_start(claim->client->loop, &claim->timer, claim->ttl_ns / CLAIM_RENEW_PART + 1);
	if (is_first)
		claim->fn(0, "", claim->arg);
	else
		log_warn(
		    "meta: etcd: claimed the gateway's id again, after it was lost gateway_id=%" PRIu64,
		    claim->gateway_id);
}

static void
claim_on_ended(int rc, uint64_t lease, void *arg)
{
	struct etcd_claim *claim = arg;

	(void)lease;
	assert(claim->sm.state == CLAIM_ENDING);
	if (rc != 0 && rc != -ENOENT) {
		claim_wait(claim);
		return;
	}
	sm_move(&claim->sm, CLAIM_TAKING);
	claim_take(claim);
}

/* Splits claim->other. Has that process surely ended? */
static bool
claim_is_of_dead(struct etcd_claim *claim)
{
	char *process = strchr(claim->other, '\n');

	assert(claim->sm.state == CLAIM_TAKING);
	if (process == NULL)
		return false;
	*process++ = '\0';
	return claim->is_dead != NULL && claim->is_dead(process);
}

/* Another process has it, under @lease. */
static void
claim_busy(struct etcd_claim *claim, const struct etcd_kv *kv, uint64_t lease)
{
	uint64_t now_ns = loop_now_ns(claim->client->loop);

	assert(kv->value_bytes >= ETCD_VALUE_HEAD_BYTES_MAX);
	(void)snprintf(claim->other, sizeof(claim->other), "%s",
	    kv->value + ETCD_VALUE_HEAD_BYTES_MAX);
	if (claim_is_of_dead(claim)) {
		sm_move(&claim->sm, CLAIM_ENDING);
		if (etcd_leases_revoke(claim->leases, lease, claim_on_ended, claim) != 0)
			claim_wait(claim);
		return;
	}
	if (claim->busy_until_ns == 0) {
		claim->busy_until_ns = now_ns + CLAIM_BUSY_NS(claim->ttl_ns);
		log_info(
		    "meta: etcd: the gateway's id is claimed, waiting for the end of that claim's "
		    "lease gateway_id=%" PRIu64 " by='%s'",
		    claim->gateway_id, claim->other);
	}
	if (now_ns < claim->busy_until_ns) {
		claim_wait(claim);
		return;
	}
	sm_move(&claim->sm, CLAIM_REFUSED);
	claim->fn(-EBUSY, claim->other, claim->arg);
}

static void
claim_on_taken(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_claim *claim = arg;
	char key[ETCD_KEY_BYTES_MAX], name[32];
	const struct etcd_kv *kv;
	uint64_t lease = 0;
	uint32_t head_bytes;

	assert(claim->sm.state == CLAIM_TAKING);
	claim->call = NULL;
	if (rc != 0) {
		claim_wait(claim); /* perhaps taken: the next try finds our lease in it */
		return;
	}
	if (answer->has_succeeded) {
		claim_held(claim);
		return;
	}
	(void)snprintf(name, sizeof(name), "%" PRIu64, claim->gateway_id);
	etcd_client_key(claim->client, key, ETCD_CLAIMS, name);
	kv = etcd_answer_find(answer, key);
	if (kv != NULL && etcd_lease_of(kv->value, kv->value_bytes, &lease, &head_bytes) == 0 &&
	    lease != 0 && lease != claim->lease) {
		claim_busy(claim, kv, lease);
		return;
	}
	etcd_lease_key(claim->client, key, claim->lease);
	if (kv != NULL && lease == claim->lease && etcd_answer_find(answer, key) != NULL)
		claim_held(claim);
	else if (kv == NULL)
		claim_grant(claim);
	else
		claim_wait(claim);
}

static void
claim_take(struct etcd_claim *claim)
{
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX], lease[ETCD_KEY_BYTES_MAX], name[32];
	char head[ETCD_VALUE_HEAD_BYTES_MAX + 1];

	assert(claim->lease != 0);
	(void)snprintf(name, sizeof(name), "%" PRIu64, claim->gateway_id);
	etcd_client_key(claim->client, key, ETCD_CLAIMS, name);
	etcd_lease_key(claim->client, lease, claim->lease);
	etcd_json_txn_begin(&body);
	etcd_json_compare_version(&body, key, 0);
	etcd_json_compare_exists(&body, lease);
	etcd_json_txn_then(&body);
	etcd_json_put(&body, key, head, etcd_lease_head(head, claim->lease), claim->value,
	    strlen(claim->value));
	etcd_json_touch(&body, lease);
	etcd_json_txn_else(&body);
	etcd_json_get(&body, key, false, true);
	etcd_json_get(&body, lease, false, false);
	etcd_json_txn_end(&body);
	claim->call = etcd_call_start(claim->client,
	    &(struct etcd_call_options){ .line = ETCD_LINE_LEASE,
		.path = "/v3/kv/txn",
		.body = &body,
		.is_linear = true,
		.is_change = true,
		.budget_ns = CLAIM_TAKE_NS,
		.fn = claim_on_taken,
		.arg = claim });
	if (claim->call == NULL)
		claim_wait(claim);
}

static void
claim_on_renewed(int rc, uint64_t lease, void *arg)
{
	struct etcd_claim *claim = arg;

	(void)lease;
	assert(claim->sm.state == CLAIM_HELD);
	if (rc == -ENOENT)
		claim_grant(claim);
	else
		loop_timer_start(claim->client->loop, &claim->timer,
		    claim->ttl_ns / (rc == 0 ? CLAIM_RENEW_PART : CLAIM_WAIT_PART) + 1);
}

static void
claim_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_claim *claim = arg;

	assert(claim->sm.state == CLAIM_HELD || claim->sm.state == CLAIM_WAITING);
	assert(claim->call == NULL);
	if (claim->sm.state == CLAIM_HELD) {
		if (etcd_leases_renew(claim->leases, claim->lease, claim_on_renewed, claim) != 0)
			loop_timer_start(claim->client->loop, timer,
			    claim->ttl_ns / CLAIM_WAIT_PART + 1);
	} else if (claim->lease == 0) {
		claim_grant(claim);
	} else {
		sm_move(&claim->sm, CLAIM_TAKING);
		claim_take(claim);
	}
}

void
etcd_claim_init(struct etcd_claim *claim, struct etcd_client *client, struct etcd_leases *leases,
    const char *process, bool (*is_dead)(const char *process))
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(leases->client == client);
	*claim = (struct etcd_claim){ .client = client, .leases = leases, .is_dead = is_dead };
	(void)snprintf(claim->value, sizeof(claim->value), "%s%s%s", leases->by,
	    process == NULL ? "" : "\n", process == NULL ? "" : process);
	sm_init(&claim->sm, "etcd-claim", claim_table, CLAIM_NONE, 0);
	loop_timer_init(&claim->timer, claim_on_timer, claim);
}

void
etcd_claim_fini(struct etcd_claim *claim)
{
	CHECK_OBJ(claim->client, ETCD_CLIENT_MAGIC);
	etcd_call_cancel(claim->call);
	claim->call = NULL;
	loop_timer_stop(claim->client->loop, &claim->timer);
}

int
etcd_claim_start(struct etcd_claim *claim, uint64_t gateway_id, uint64_t ttl_ns,
    meta_etcd_claim_fn fn, void *arg)
{
	assert(ttl_ns > 0);
	assert(gateway_id != 0);
	assert(fn != NULL);
	if (claim->sm.state != CLAIM_NONE)
		return -EBUSY;
	claim->gateway_id = gateway_id;
	claim->ttl_ns = ttl_ns;
	claim->fn = fn;
	claim->arg = arg;
	claim_grant(claim);
	return 0;
}
