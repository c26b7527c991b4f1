/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drop.c -- what is deleted is reclaimed: volumes' blocks, snapshots' cuts, snapshots that never came to be
 *
 *	IDLE --kick, timer--> MARKING: what the tables say --> LISTING "deleted/" --> for each mark with a bit
 *	  ^                                                                        of a shard that serves here:
 *	  |                                                                        ASKING the ports
 *	  +--------------------- no mark is left <--- CLEARING the bits that are done <---+
 *
 * Marking, by transactions that compare what was read:
 *	- a snapshot that has been pending for long is deleted: whoever was taking it is gone;
 *	- a live one whose volume is gone is deleted;
 *	- a deleted one whose number no scope names gets "waiting", a bit for each shard. That compares the
 *	  key "cluster", too: whatever makes a scope name a cut puts it (control_snapshot.c), so nobody has
 *	  since the tables were read, and nobody can any more: a scope gets its cuts from another one, or is
 *	  made from a live snapshot.
 *
 * Between MARKING and LISTING, HIDING: the shards are told what no scope shows though its volume is there (hide.c).
 *
 * A shard's owner drops the cut, or the deleted volume's chunks, which go on going by themselves (segment_drop.c), and
 * then has the shard's bit cleared; the last one deletes the key. A key that is there is the reason to do it, again if need
 * be: nothing follows from one that is not. An order to cut that comes later is refused, since each shard knows the number
 * (cut.c).
 *
 * With the last bit of a deleted volume go its data keys, in the same transaction: no block of it is shown any more, and
 * what nodes still have of it can never be opened again. They are read just before: since the volume's key is gone,
 * nobody adds one.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/data_key.h"
#include "catalog/hidden.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "catalog/waiting.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/data_keys.h"
#include "cluster/drop.h"
#include "cluster/drop_erase.h"
#include "cluster/drop_mark.h"
#include "cluster/gateway_state.h"
#include "cluster/hide.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "shard/segment_drop.h"
#include "write/cut.h"

#define DROP_PENDING_NS NUM_S(15)
#define DROP_PERIOD_NS NUM_S(1)     /* while something is left to be done, and comes further */
#define DROP_PERIOD_MAX_NS NUM_S(8) /* ... and does not */
#define DROP_FIRST_NS NUM_MS(20)
#define DROP_CONTESTED_NS NUM_S(30) /* so long a table is not older than a mark */

enum drop_state {
	DROP_IDLE,
	DROP_MARKING,
	DROP_HIDING,
	DROP_LISTING,
	DROP_ASKING,
	DROP_CLEARING,
	DROP_STATE_NR
};

static const struct sm_state drop_table[DROP_STATE_NR] = {
	[DROP_IDLE] = { "idle", SM_TO(DROP_MARKING), SM_INITIAL },
	[DROP_MARKING] = { "marking", SM_TO(DROP_HIDING) | SM_TO(DROP_LISTING), 0 },
	[DROP_HIDING] = { "hiding", SM_TO(DROP_LISTING), 0 },
	[DROP_LISTING] = { "listing", SM_TO(DROP_ASKING) | SM_TO(DROP_IDLE), 0 },
	[DROP_ASKING] = { "asking", SM_TO(DROP_CLEARING) | SM_TO(DROP_ASKING) | SM_TO(DROP_IDLE),
	    0 },
	[DROP_CLEARING] = { "clearing", SM_TO(DROP_ASKING) | SM_TO(DROP_IDLE), 0 },
};

struct mt_drop {
	struct mt_gateway *gateway;
	struct sm sm;
	struct loop_timer timer;
	uint64_t period_ns;
	struct drop_mark *marks;
	uint32_t mark_count, mark_at;
	bool is_left;   /* something is to be done here, and is not yet */
	bool is_kicked; /* the tables have been read since this round began */
	bool is_contested;
	uint64_t contested_ns; /* since when there has been a contested mark */
	struct drop_leg {
		struct loop_post post;
		struct mt_drop *drop;
		struct mt_port *port;
		uint64_t done[CLEAVE_SHARDS_MAX / 64u];
		bool is_left, has_progress;
	} legs[MT_PORTS_MAX];
	uint32_t left_count;
	struct mt_hide hide;
	struct mt_volumes_waiter keys_waiter; /* CLEARING: data keys are being read */
	uint32_t erased_count;                /* that the transaction under way deletes */
};

static void drop_next(struct mt_drop *drop);
static void drop_mark(struct mt_drop *drop);

/* ---- life ---- */

static void
drop_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_drop *drop = arg;

	(void)timer;
	assert(timer == &drop->timer);
	if (drop->gateway->sm.state < MT_GATEWAY_TAKING ||
	    drop->gateway->sm.state >= MT_GATEWAY_FAILED)
		return;
	if (drop->sm.state == DROP_IDLE)
		drop_mark(drop);
}

/* Without memory nothing is reclaimed, and nothing else is wrong. */
void
mt_drop_init(struct mt_gateway *gateway)
{
	struct mt_drop *drop = mt_calloc(1, sizeof(*drop));

	assert(gateway->drop == NULL);
	gateway->drop = drop;
	if (drop == NULL)
		return;
	drop->gateway = gateway;
	drop->period_ns = DROP_PERIOD_NS;
	sm_init(&drop->sm, "drop", drop_table, DROP_IDLE, 0);
	loop_timer_init(&drop->timer, drop_on_timer, drop);
}

static void
drop_free_marks(struct mt_drop *drop)
{
	assert(drop->mark_at <= drop->mark_count);
	for (uint32_t i = 0; i < drop->mark_count; i++) {
		mt_free(drop->marks[i].key);
		json_decref(drop->marks[i].object);
	}
	mt_free(drop->marks);
	drop->marks = NULL;
	drop->mark_count = drop->mark_at = 0;
}

void
mt_drop_fini(struct mt_gateway *gateway)
{
	struct mt_drop *drop = gateway->drop;

	if (drop == NULL)
		return;
	loop_timer_stop(gateway->options.loop, &drop->timer);
	drop_free_marks(drop);
	mt_free(drop);
	gateway->drop = NULL;
}

void
mt_drop_kick(struct mt_gateway *gateway)
{
	struct mt_drop *drop = gateway->drop;

	if (drop == NULL || gateway->sm.state < MT_GATEWAY_TAKING)
		return;
	drop->is_kicked = true;
	if (drop->sm.state == DROP_IDLE)
		loop_timer_start(gateway->options.loop, &drop->timer, DROP_FIRST_NS);
}

static void
drop_end(struct mt_drop *drop)
{
	assert(drop->sm.state != DROP_IDLE);
	drop_free_marks(drop);
	sm_move(&drop->sm, DROP_IDLE);
	if (drop->is_kicked)
		loop_timer_start(drop->gateway->options.loop, &drop->timer, DROP_FIRST_NS);
	if (!drop->is_left || drop->is_kicked)
		return;
	loop_timer_start(drop->gateway->options.loop, &drop->timer, drop->period_ns);
	drop->period_ns = num_min(2 * drop->period_ns, DROP_PERIOD_MAX_NS);
}

/* ---- marking ---- */

/* Decides what becomes of @entry; false: nothing. */
static bool
drop_judge(const struct mt_drop *drop, const struct mt_snapshot_entry *entry, bool *ret_is_waiting)
{
	struct mt_gateway *gateway = drop->gateway;
	uint64_t age_ns = loop_now_ns(gateway->options.loop) - entry->seen_ns;
	const struct mt_snapshot *snapshot = &entry->snapshot;

	assert(snapshot->state <= MT_SNAPSHOT_DELETED);
	*ret_is_waiting = false;
	switch (snapshot->state) {
	case MT_SNAPSHOT_PENDING:
		return age_ns >= DROP_PENDING_NS;
	case MT_SNAPSHOT_LIVE:
		/* A volume in the trash is there. */
		return snapshot->clone_count == 0 &&
		    (mt_volumes_by_id(&gateway->volumes, snapshot->volume_id) == NULL ||
			(MUTANT(trash_forgotten) &&
			    mt_volumes_trashed(&gateway->volumes, snapshot->volume_id) != NULL));
	default:
		*ret_is_waiting = true;
		return entry->waiting == NULL &&
		    !mt_drop_is_named(&gateway->volumes, snapshot->number);
	}
}

static void drop_list(struct mt_drop *drop);

/* Whatever it says: the watch on the key has the tables read anew, and that is a kick. */
static void
drop_on_marked(int rc, void *arg)
{
	struct mt_drop *drop = arg;

	assert(drop->sm.state == DROP_MARKING);
	if (rc != 0 && rc != -EAGAIN)
		drop->is_left = true;
	drop_list(drop);
}

static int
drop_put_mark(struct mt_drop *drop, const struct mt_snapshot_entry *entry, bool is_waiting)
{
	struct mt_gateway *gateway = drop->gateway;
	struct meta *meta = gateway->options.meta;
	struct mt_snapshot snapshot = entry->snapshot;
	char *waiting = is_waiting ? mt_waiting_all(gateway->cluster.shard_count) : NULL;
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text;
	int rc = -ENOMEM;

	assert(drop->sm.state == DROP_MARKING);
	if (snapshot.state == MT_SNAPSHOT_PENDING)
		mt_snapshot_void(&snapshot);
	snapshot.state = MT_SNAPSHOT_DELETED;
	mt_snapshot_key(snapshot.number, key);
	text = is_waiting && waiting == NULL ? NULL : mt_snapshot_encode(&snapshot, waiting);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = "cluster",
			    .version = gateway->volumes.snapshots.cluster_version },
			{ .kind = META_COMPARE_VERSION, .key = key, .version = entry->version },
			{ .kind = META_PUT,
			    .key = key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), drop_on_marked, drop);
	}
	free(text);
	mt_free(waiting);
	return rc;
}

/* ---- hiding ---- */

static void
drop_on_hidden(bool is_left, void *arg)
{
	struct mt_drop *drop = arg;

	assert(drop->sm.state == DROP_HIDING);
	drop->is_left = drop->is_left || is_left;
	drop_list(drop);
}

static void
drop_hide(struct mt_drop *drop)
{
	assert(drop->sm.state == DROP_MARKING);
	if (mt_hide_start(&drop->hide, drop->gateway, drop_on_hidden, drop))
		sm_move(&drop->sm, DROP_HIDING);
	else
		drop_list(drop);
}

/* Makes a single mark a turn: the next reading kicks for the next. */
static void
drop_mark(struct mt_drop *drop)
{
	const struct mt_volumes *volumes = &drop->gateway->volumes;
	bool is_waiting;

	assert(drop->sm.state == DROP_IDLE);
	sm_move(&drop->sm, DROP_MARKING);
	drop->is_left = drop->is_kicked = false;
	drop->contested_ns = drop->is_contested ? drop->contested_ns : 0;
	drop->is_contested = false;
	if (!volumes->is_incomplete && !volumes->snapshots.is_incomplete) {
		for (uint32_t i = 0; i < volumes->snapshots.count; i++) {
			const struct mt_snapshot_entry *entry = &volumes->snapshots.entries[i];

			if (entry->snapshot.state == MT_SNAPSHOT_PENDING)
				drop->is_left = true;
			if (!drop_judge(drop, entry, &is_waiting))
				continue;
			if (drop_put_mark(drop, entry, is_waiting) == 0)
				return;
			drop->is_left = true;
		}
	}
	drop_hide(drop);
}

/* ---- listing ---- */

/* The table may be older than the mark; one that stays so is wrong. */
static enum log_level
contested_level(struct mt_drop *drop)
{
	uint64_t now_ns = loop_now_ns(drop->gateway->options.loop);

	drop->is_contested = true;
	if (drop->contested_ns == 0)
		drop->contested_ns = now_ns;
	return now_ns - drop->contested_ns < DROP_CONTESTED_NS ? LOG_DEBUG : LOG_ERROR;
}

/* False: no memory. A mark that cannot be understood is left out; one that is contested is looked at again. */
static bool
drop_add(struct mt_drop *drop, const char *key, uint64_t version, json_t *object, uint64_t number)
{
	struct drop_mark *mark = &drop->marks[drop->mark_count];
	enum log_level level = LOG_ERROR;
	const char *wrong;

	assert(drop->marks != NULL && drop->sm.state == DROP_LISTING);
	*mark = (struct drop_mark){ .version = version, .object = object, .number = number };
	wrong = mt_drop_mark_take(mark, drop->gateway->cluster.shard_count);
	if (wrong == NULL && mt_drop_mark_is_contested(mark, &drop->gateway->volumes)) {
		wrong = "segment_base: a volume that is there has them";
		level = contested_level(drop);
		drop->is_left = true;
	}
	if (wrong != NULL) {
		log_limited(level,
		    "drop: a mark cannot be obeyed, its space is not reclaimed key=%.64s field=\"%s\"",
		    key, wrong);
		json_decref(object);
		return true;
	}
	mark->key = mt_strdup(key);
	if (mark->key == NULL) {
		drop->is_left = true;
		json_decref(object);
		return false;
	}
	drop->mark_count++;
	return true;
}

static bool
drop_add_snapshots(struct mt_drop *drop)
{
	const struct mt_snapshots *snapshots = &drop->gateway->volumes.snapshots;

	assert(drop->sm.state == DROP_LISTING);
	for (uint32_t i = 0; i < snapshots->count; i++) {
		const struct mt_snapshot_entry *entry = &snapshots->entries[i];
		char key[MT_SNAPSHOT_KEY_BYTES];
		char *text;
		json_t *object;

		if (entry->waiting == NULL)
			continue;
		mt_snapshot_key(entry->snapshot.number, key);
		text = mt_snapshot_encode(&entry->snapshot, entry->waiting);
		object = text == NULL ? NULL : json_loads(text, 0, NULL);
		free(text);
		if (!drop_add(drop, key, entry->version, object, entry->snapshot.number))
			return false;
	}
	return true;
}

static void
drop_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_drop *drop = arg;
	uint32_t max = count + drop->gateway->volumes.snapshots.count;

	assert(drop->sm.state == DROP_LISTING && drop->mark_count == 0);
	if (rc == 0 && max > 0)
		drop->marks = mt_calloc(max, sizeof(*drop->marks));
	for (uint32_t i = 0; i < count && drop->marks != NULL; i++)
		(void)drop_add(drop, items[i].key, items[i].version,
		    json_loadb(items[i].value, items[i].value_bytes, 0, NULL), 0);
	if (drop->marks != NULL)
		(void)drop_add_snapshots(drop);
	drop->is_left = drop->is_left || rc != 0 || (max > 0 && drop->marks == NULL);
	drop_next(drop);
}

static void
drop_list(struct mt_drop *drop)
{
	struct meta *meta = drop->gateway->options.meta;

	sm_move(&drop->sm, DROP_LISTING);
	if (meta->ops->list(meta, MT_DELETED_PREFIX, drop_on_list, drop) != 0) {
		drop->is_left = true;
		drop_end(drop);
	}
}

/* ---- at the ports ---- */

static void
drop_on_cleared(int rc, void *arg)
{
	struct mt_drop *drop = arg;

	assert(drop->sm.state == DROP_CLEARING && drop->mark_at < drop->mark_count);
	if (rc == 0 && drop->erased_count > 0)
		mt_drop_erase_tell(drop->gateway, &drop->marks[drop->mark_at], drop->erased_count);
	if (rc == 0)
		drop->period_ns = DROP_PERIOD_NS;
	else
		drop->is_left = true;
	drop->mark_at++;
	drop_next(drop);
}

static void
drop_clear(struct mt_drop *drop, struct drop_mark *mark)
{
	struct meta *meta = drop->gateway->options.meta;
	uint32_t shard_count = drop->gateway->cluster.shard_count;
	char *waiting = mt_waiting_all(shard_count);
	bool is_any = waiting != NULL && mt_waiting_write(waiting, shard_count, mark->waiting);
	char *text = NULL;
	int rc = -ENOMEM;

	assert(drop->sm.state == DROP_CLEARING);
	drop->erased_count = 0;
	if (waiting != NULL &&
	    json_object_set_new(mark->object, "waiting", json_string(waiting)) == 0)
		text = json_dumps(mark->object, JSON_COMPACT);
	if (text != NULL) {
		char keys[MT_DATA_KEYS_OF_VOLUME_MAX][MT_DATA_KEY_KEY_BYTES];
		struct meta_op ops[2 + MT_DATA_KEYS_OF_VOLUME_MAX] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = mark->key,
			    .version = mark->version },
			{ .kind = is_any ? META_PUT : META_DELETE,
			    .key = mark->key,
			    .value = is_any ? text : NULL,
			    .value_bytes = is_any ? (uint32_t)strlen(text) : 0 },
		};

		if (!is_any)
			log_info("gateway: reclaimed everything of %s", mark->key);
		if (!is_any)
			drop->erased_count = mt_drop_erase_ops(drop->gateway, mark, keys, ops + 2);
		rc = meta->ops->txn(meta, ops, 2 + drop->erased_count, drop_on_cleared, drop);
	}
	free(text);
	mt_free(waiting);
	if (rc != 0)
		drop_on_cleared(rc, drop);
}

static void
drop_on_keys(int rc, void *arg)
{
	struct mt_drop *drop = arg;

	if (rc == -ECANCELED)
		return; /* the gateway goes */
	/* A key that cannot be read cannot be erased: the mark stays, and with it the reason to try again. */
	if (rc != 0)
		drop_on_cleared(rc, drop);
	else
		drop_clear(drop, &drop->marks[drop->mark_at]);
}

/* The last bit takes the data keys along: they are read first. */
static void
drop_read_keys(struct mt_drop *drop, struct drop_mark *mark)
{
	bool is_any = false;

	assert(drop->sm.state == DROP_CLEARING);
	for (uint32_t k = 0; k < NUM_COUNT(mark->waiting); k++)
		is_any = is_any || mark->waiting[k] != 0;
	if (is_any || mt_drop_erase_id(mark) == 0) {
		drop_clear(drop, mark);
		return;
	}
	drop->erased_count = 0;
	drop->keys_waiter = (struct mt_volumes_waiter){ .fn = drop_on_keys, .arg = drop };
	mt_data_keys_read(drop->gateway, &drop->keys_waiter);
}

static void
drop_on_leg(struct loop_post *post, void *arg)
{
	struct drop_leg *leg = arg;
	struct mt_drop *drop = leg->drop;
	struct drop_mark *mark = &drop->marks[drop->mark_at];
	bool is_any = false;

	assert(drop->sm.state == DROP_ASKING && drop->left_count > 0);
	(void)post;
	if (--drop->left_count > 0)
		return;
	for (uint32_t i = 0; i < drop->gateway->port_count; i++) {
		for (uint32_t k = 0; k < NUM_COUNT(mark->waiting); k++) {
			is_any = is_any || (mark->waiting[k] & drop->legs[i].done[k]) != 0;
			mark->waiting[k] &= ~drop->legs[i].done[k];
		}
		drop->is_left = drop->is_left || drop->legs[i].is_left;
		if (drop->legs[i].has_progress)
			drop->period_ns = DROP_PERIOD_NS;
	}
	if (is_any) {
		sm_move(&drop->sm, DROP_CLEARING);
		drop_read_keys(drop, mark);
	} else {
		drop->mark_at++;
		drop_next(drop);
	}
}

static void
drop_on_port(struct loop_post *post, void *arg)
{
	struct drop_leg *leg = arg;
	const struct drop_mark *mark = &leg->drop->marks[leg->drop->mark_at];

	assert(leg->drop->mark_at < leg->drop->mark_count);
	(void)post;
	memset(leg->done, 0, sizeof(leg->done));
	leg->is_left = leg->has_progress = false;
	for (uint32_t i = 0; i < leg->port->shard_count; i++) {
		struct mt_shard *shard = &leg->port->shards[i];
		uint64_t bit = UINT64_C(1) << shard->index % 64;
		int rc;

		if ((mark->waiting[shard->index / 64] & bit) == 0)
			continue;
		rc = -EAGAIN;
		if (shard->sm.state == MT_SHARD_SERVING)
			rc = mark->number != 0
			    ? mt_cut_drop(shard, mark->number)
			    : mt_segments_drop(shard, mark->segment_base, mark->segment_count);
		leg->has_progress = leg->has_progress || rc == -EINPROGRESS;
		if (rc == 0)
			leg->done[shard->index / 64] |= bit;
		else if (shard->sm.state != MT_SHARD_IDLE)
			leg->is_left = true;
	}
	leg->post.fn = drop_on_leg;
	loop_post(leg->port->main_loop, &leg->post);
}

static void
drop_next(struct mt_drop *drop)
{
	struct mt_gateway *gateway = drop->gateway;

	assert(drop->mark_at <= drop->mark_count);
	assert(drop->left_count == 0);
	if (drop->mark_at >= drop->mark_count || gateway->sm.state >= MT_GATEWAY_FAILED) {
		drop_end(drop);
		return;
	}
	sm_move(&drop->sm, DROP_ASKING);
	drop->left_count = gateway->port_count;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct drop_leg *leg = &drop->legs[i];

		leg->drop = drop;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = drop_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
}
