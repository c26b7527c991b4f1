/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_compact.c -- the history of an etcd kept short; see etcd_compact.h
 *
 *	sleeping --> asking --> sleeping              somebody else has taken this turn
 *	               |
 *	               +--> compacting --> sleeping
 *
 * Whose turn it is: each puts the key "compaction" if it was not put since the last look. One of them succeeds,
 * and compacts to the revision of that last look, which is an interval old. This is how the API server of
 * Kubernetes does it.
 */
#include "meta/etcd_compact.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "meta/etcd_call.h"
#include "meta/etcd_client.h"
#include "meta/etcd_json.h"

#define COMPACT_EVERY_NS NUM_S(300)
#define COMPACT_CALL_NS NUM_S(5)

enum compact_state { COMPACT_SLEEPING, COMPACT_ASKING, COMPACT_COMPACTING, COMPACT_STATE_NR };

static const struct sm_state compact_table[COMPACT_STATE_NR] = {
	[COMPACT_SLEEPING] = { "sleeping", SM_TO(COMPACT_ASKING), SM_INITIAL },
	[COMPACT_ASKING] = { "asking", SM_TO(COMPACT_SLEEPING) | SM_TO(COMPACT_COMPACTING), 0 },
	[COMPACT_COMPACTING] = { "compacting", SM_TO(COMPACT_SLEEPING), 0 },
};

static void
compact_sleep(struct etcd_compact *compact)
{
	struct loop *loop = compact->client->loop;

	assert(compact->call == NULL);
	if (compact->sm.state != COMPACT_SLEEPING)
		sm_move(&compact->sm, COMPACT_SLEEPING);
	/* A tenth of chance: not all ask at once. */
	loop_timer_start(loop, &compact->timer,
	    COMPACT_EVERY_NS + loop_random_below(loop, COMPACT_EVERY_NS / 10));
}

static bool
compact_call(struct etcd_compact *compact, const char *path, struct etcd_text *body, bool is_txn,
    etcd_call_fn fn)
{
	assert(compact->call == NULL);
	compact->call = etcd_call_start(compact->client,
	    &(struct etcd_call_options){ .line = ETCD_LINE_REQUEST,
		.path = path,
		.body = body,
		.may_repeat = !is_txn,
		.is_linear = is_txn,
		.is_change = is_txn,
		.budget_ns = COMPACT_CALL_NS,
		.fn = fn,
		.arg = compact });
	return compact->call != NULL;
}

/* -ERANGE: it was compacted further already. Any other error: in the next turn. */
static void
compact_on_done(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_compact *compact = arg;

	(void)answer;
	assert(compact->sm.state == COMPACT_COMPACTING);
	compact->call = NULL;
	log_debug("meta: etcd: compacted its history rc=%s", log_errno(rc));
	compact_sleep(compact);
}

static void
compact_on_asked(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_compact *compact = arg;
	struct etcd_text body = { 0 };
	uint64_t revision = compact->old_revision;
	char text[64];

	assert(compact->sm.state == COMPACT_ASKING);
	compact->call = NULL;
	if (rc != 0) {
		compact_sleep(compact);
		return;
	}
	compact->old_revision = answer->revision;
	if (!answer->has_succeeded) {
		compact->version = answer->kv_count == 0 ? 0 : answer->kvs[0].version;
		compact_sleep(compact);
		return;
	}
	compact->version++;
	if (revision == 0 || revision >= answer->revision) {
		compact_sleep(compact);
		return;
	}
	(void)snprintf(text, sizeof(text), "{\"revision\":\"%" PRIu64 "\"}", revision);
	etcd_text_add(&body, text);
	sm_move(&compact->sm, COMPACT_COMPACTING);
	if (!compact_call(compact, "/v3/kv/compaction", &body, false, compact_on_done))
		compact_sleep(compact);
}

static void
compact_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_compact *compact = arg;
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];

	assert(compact->sm.state == COMPACT_SLEEPING);
	(void)timer;
	etcd_client_key(compact->client, key, ETCD_COMPACTION, "");
	etcd_json_txn_begin(&body);
	etcd_json_compare_version(&body, key, compact->version);
	etcd_json_txn_then(&body);
	etcd_json_put(&body, key, NULL, 0, NULL, 0);
	etcd_json_txn_else(&body);
	etcd_json_get(&body, key, false, false);
	etcd_json_txn_end(&body);
	sm_move(&compact->sm, COMPACT_ASKING);
	if (!compact_call(compact, "/v3/kv/txn", &body, true, compact_on_asked))
		compact_sleep(compact);
}

void
etcd_compact_init(struct etcd_compact *compact, struct etcd_client *client, bool is_on)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*compact = (struct etcd_compact){ .client = client };
	sm_init(&compact->sm, "etcd-compact", compact_table, COMPACT_SLEEPING, 0);
	loop_timer_init(&compact->timer, compact_on_timer, compact);
	if (is_on)
		compact_sleep(compact);
}

void
etcd_compact_fini(struct etcd_compact *compact)
{
	CHECK_OBJ(compact->client, ETCD_CLIENT_MAGIC);
	etcd_call_cancel(compact->call);
	compact->call = NULL;
	loop_timer_stop(compact->client->loop, &compact->timer);
}
