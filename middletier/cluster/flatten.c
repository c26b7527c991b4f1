/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.c -- clones are flattened: they get what their origins show, and let go of them (SNAPSHOTS.md)
 *
 *	IDLE --kick, timer--> LISTING "flattening/" --> the first clone that is there, and not in the trash:
 *	  ^                                              a bit is set: ASKING the ports, whose shards copy (merge/flatten.h)
 *	  |                                                 |            shards are done: WRITING their bits away
 *	  |                                              none is set: WRITING scopes without the origin's spans:
 *	  |                                                 first all others that have them behind the clone's, then
 *	  |                                                 the clone's, with its origin's count, and the mark goes
 *	  +-----------------------------------------------+
 *
 * One clone at a time in the cluster: all gateways see the same first one. Each of them does this; transactions
 * compare the mark and whatever else they were made from, so it does not matter who is first.
 *
 * The last transaction compares the key "cluster", too: what makes a scope from another one puts it (control_snapshot.c), so
 * no scope has come since the tables were read that has the spans still.
 */
#include "cluster/flatten.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/flatten_key.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "merge/flush.h"

#define FLATTEN_FIRST_NS NUM_MS(20)
#define FLATTEN_PERIOD_NS NUM_S(1) /* while a clone is flattened */
#define FLATTEN_CUTS_MAX 12u       /* scopes that one transaction cuts */

enum flattening_state {
	FLATTENING_IDLE,
	FLATTENING_LISTING,
	FLATTENING_ASKING,
	FLATTENING_WRITING,
	FLATTENING_STATE_NR
};

static const struct sm_state flattening_table[FLATTENING_STATE_NR] = {
	[FLATTENING_IDLE] = { "idle", SM_TO(FLATTENING_LISTING), SM_INITIAL },
	[FLATTENING_LISTING] = { "listing",
	    SM_TO(FLATTENING_ASKING) | SM_TO(FLATTENING_WRITING) | SM_TO(FLATTENING_IDLE), 0 },
	[FLATTENING_ASKING] = { "asking", SM_TO(FLATTENING_WRITING) | SM_TO(FLATTENING_IDLE), 0 },
	[FLATTENING_WRITING] = { "writing", SM_TO(FLATTENING_IDLE), 0 },
};

/* A mark as it was listed: of those that wait no more is kept. */
struct flattening_mark {
	uint64_t id;
	uint32_t left;
};

struct mt_flattening {
	struct mt_gateway *gateway;
	struct sm sm;
	struct loop_timer timer;
	struct flattening_mark *marks; /* as listed last */
	uint32_t mark_count;
	/* The clone at work. */
	struct mt_flatten_mark mark; /* id 0: there is none */
	uint64_t version;            /* of its key */
	struct mt_scope scope;
	uint32_t key_id; /* its newest data key; 0: it has none */
	bool was_asked;  /* shards may still be at work for a clone */
	bool is_left;    /* something may be to be done yet */
	bool is_last;    /* WRITING: the clone has let go of its origin when this is durable */
	char name[MT_NAME_BYTES];
	struct flattening_leg {
		struct loop_post post;
		struct mt_flattening *flattening;
		struct mt_port *port;
		uint64_t done[CLEAVE_SHARDS_MAX / 64u];
	} legs[MT_PORTS_MAX];
	uint32_t left_count; /* ASKING: ports that have not answered */
};

/* ---- life ---- */

static void flattening_list(struct mt_flattening *flattening);

static bool
flattening_may(const struct mt_gateway *gateway)
{
	return gateway->sm.state >= MT_GATEWAY_TAKING && gateway->sm.state < MT_GATEWAY_FAILED;
}

static void
flattening_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_flattening *flattening = arg;

	assert(timer == &flattening->timer);
	(void)timer;
	if (flattening_may(flattening->gateway) && flattening->sm.state == FLATTENING_IDLE)
		flattening_list(flattening);
}

void
mt_flattening_init(struct mt_gateway *gateway)
{
	struct mt_flattening *flattening = mt_calloc(1, sizeof(*flattening));

	assert(gateway->flattening == NULL);
	gateway->flattening = flattening;
	if (flattening == NULL)
		return;
	flattening->gateway = gateway;
	sm_init(&flattening->sm, "flattening", flattening_table, FLATTENING_IDLE, 0);
	loop_timer_init(&flattening->timer, flattening_on_timer, flattening);
}

void
mt_flattening_fini(struct mt_gateway *gateway)
{
	struct mt_flattening *flattening = gateway->flattening;

	if (flattening == NULL)
		return;
	loop_timer_stop(gateway->options.loop, &flattening->timer);
	mt_free(flattening->marks);
	mt_free(flattening);
	gateway->flattening = NULL;
}

void
mt_flattening_kick(struct mt_gateway *gateway)
{
	struct mt_flattening *flattening = gateway->flattening;

	if (flattening != NULL && flattening->sm.state == FLATTENING_IDLE &&
	    flattening_may(gateway))
		loop_timer_start(gateway->options.loop, &flattening->timer, FLATTEN_FIRST_NS);
}

static void
flattening_end(struct mt_flattening *flattening, bool is_soon)
{
	struct mt_gateway *gateway = flattening->gateway;

	sm_move(&flattening->sm, FLATTENING_IDLE);
	if (flattening->is_left && gateway->sm.state < MT_GATEWAY_FAILED)
		loop_timer_start(gateway->options.loop, &flattening->timer,
		    is_soon ? FLATTEN_FIRST_NS : FLATTEN_PERIOD_NS);
}

bool
mt_flattening_left(const struct mt_gateway *gateway, uint64_t id, uint32_t *ret_left)
{
	const struct mt_flattening *flattening = gateway->flattening;

	assert(id != 0);
	for (uint32_t i = 0; flattening != NULL && i < flattening->mark_count; i++) {
		if (flattening->marks[i].id == id) {
			*ret_left = flattening->marks[i].left;
			return true;
		}
	}
	return false;
}

/* NULL: it is not there, or in the trash, where it waits and tells nobody. */
static const struct mt_volume *
flattening_volume(const struct mt_volumes *volumes, uint64_t id)
{
	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		if (volume->id == id)
			return mt_volume_is_trashed(volume) ? NULL : volume;
	}
	return NULL;
}

json_t *
mt_flattening_json(const struct mt_gateway *gateway)
{
	const struct mt_flattening *flattening = gateway->flattening;
	json_t *list;

	if (flattening == NULL || flattening->mark_count == 0)
		return NULL;
	list = json_array();
	for (uint32_t i = 0; i < flattening->mark_count; i++) {
		const struct flattening_mark *mark = &flattening->marks[i];
		const struct mt_volume *volume = flattening_volume(&gateway->volumes, mark->id);

		if (volume != NULL)
			json_array_append_new(list,
			    json_pack("{s:s, s:I, s:I}", "name", volume->name, "shard_count",
				(json_int_t)gateway->cluster.shard_count, "left",
				(json_int_t)mark->left));
	}
	if (json_array_size(list) > 0)
		return list;
	json_decref(list);
	return NULL;
}

/* ---- transactions ---- */

/* A transaction; its texts are freed when it is on its way. */
struct flattening_ops {
	struct meta_op ops[2 * FLATTEN_CUTS_MAX + 4u];
	char keys[FLATTEN_CUTS_MAX + 2u][MT_VOLUME_KEY_BYTES];
	char *texts[FLATTEN_CUTS_MAX + 2u];
	uint32_t count, key_count;
	bool is_short; /* of memory */
};

static void
ops_compare(struct flattening_ops *ops, const char *key, uint64_t version)
{
	assert(ops->count < NUM_COUNT(ops->ops));
	ops->ops[ops->count++] =
	    (struct meta_op){ .kind = META_COMPARE_VERSION, .key = key, .version = version };
}

/* The key is what it was, and becomes @text, which is taken over; NULL: no memory. */
static void
ops_put(struct flattening_ops *ops, uint64_t version, char *text)
{
	const char *key = ops->keys[ops->key_count];

	assert(ops->key_count < NUM_COUNT(ops->keys));
	ops_compare(ops, key, version);
	ops->texts[ops->key_count++] = text;
	ops->is_short = ops->is_short || text == NULL;
	if (text != NULL)
		ops->ops[ops->count++] = (struct meta_op){ .kind = META_PUT,
			.key = key,
			.value = text,
			.value_bytes = (uint32_t)strlen(text) };
}

static void
ops_put_volume(struct flattening_ops *ops, const struct mt_volume_entry *entry,
    const struct mt_volume *volume)
{
	mt_volume_key(volume->name, ops->keys[ops->key_count]);
	ops_put(ops, entry->version, mt_volume_encode(volume));
}

static void
ops_put_snapshot(struct flattening_ops *ops, const struct mt_snapshot_entry *entry,
    const struct mt_snapshot *snapshot)
{
	mt_snapshot_key(snapshot->number, ops->keys[ops->key_count]);
	ops_put(ops, entry->version, mt_snapshot_encode(snapshot, entry->waiting));
}

static void
flattening_on_written(int rc, void *arg)
{
	struct mt_flattening *flattening = arg;
	struct mt_gateway *gateway = flattening->gateway;

	assert(flattening->sm.state == FLATTENING_WRITING);
	if (rc == 0 && flattening->is_last)
		mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
		    CLEAVE_EVENT_VOLUME_FLATTENED, flattening->name,
		    "volume: flattened, it has its origin no more name=%s id=%" PRIu64,
		    flattening->name, flattening->mark.id);
	else if (rc != 0 && rc != -EAGAIN)
		log_limited(LOG_WARN,
		    "volume: cannot be flattened now, trying again name=%s id=%" PRIu64 " rc=%s",
		    flattening->name, flattening->mark.id, log_errno(rc));
	if (flattening_may(gateway))
		mt_volumes_refresh_soon(gateway);
	flattening_end(flattening, rc == 0);
}

static void
flattening_submit(struct mt_flattening *flattening, struct flattening_ops *ops, bool is_last)
{
	struct meta *meta = flattening->gateway->options.meta;
	int rc = -ENOMEM;

	flattening->is_last = is_last;
	sm_move(&flattening->sm, FLATTENING_WRITING);
	if (!ops->is_short)
		rc = meta->ops->txn(meta, ops->ops, ops->count, flattening_on_written, flattening);
	for (uint32_t i = 0; i < ops->key_count; i++)
		free(ops->texts[i]);
	if (rc != 0)
		flattening_on_written(rc, flattening);
}

/* ---- all is copied: the origin goes ---- */

/* Scopes but the clone's own that show the origin behind it: of snapshots, of clones of these. False: one must wait. */
static bool
ops_cut_others(struct flattening_ops *ops, const struct mt_volumes *volumes,
    const struct mt_volume *clone)
{
	bool may_go_on = true;

	for (uint32_t i = 0; i < volumes->snapshots.count && ops->key_count < FLATTEN_CUTS_MAX;
	     i++) {
		const struct mt_snapshot_entry *entry = &volumes->snapshots.entries[i];
		struct mt_snapshot snapshot = entry->snapshot;

		if (snapshot.state == MT_SNAPSHOT_DELETED ||
		    !mt_scope_cut_tail(&snapshot.scope, clone->segment_base))
			continue;
		if (snapshot.state == MT_SNAPSHOT_LIVE)
			ops_put_snapshot(ops, entry, &snapshot);
		else
			may_go_on = false; /* whoever takes it compares its key */
	}
	for (uint32_t i = 0; i < volumes->count && ops->key_count < FLATTEN_CUTS_MAX; i++) {
		struct mt_volume volume = volumes->entries[i].volume;

		if (volume.id != clone->id && mt_scope_cut_tail(&volume.scope, clone->segment_base))
			ops_put_volume(ops, &volumes->entries[i], &volume);
	}
	return may_go_on;
}

/* The clone itself, when no other scope has the spans. */
static void
ops_cut_clone(struct flattening_ops *ops, const struct mt_volumes *volumes,
    const struct mt_volume_entry *entry)
{
	const struct mt_snapshot_entry *origin =
	    mt_snapshots_by_number(&volumes->snapshots, entry->volume.origin);
	struct mt_volume volume = entry->volume;
	struct mt_snapshot snapshot;

	ops_compare(ops, "cluster", volumes->snapshots.cluster_version);
	(void)mt_scope_cut_tail(&volume.scope, volume.segment_base);
	volume.origin = 0;
	ops_put_volume(ops, entry, &volume);
	if (origin == NULL)
		return;
	snapshot = origin->snapshot;
	snapshot.clone_count -= snapshot.clone_count > 0;
	ops_put_snapshot(ops, origin, &snapshot);
}

static void
flattening_cut(struct mt_flattening *flattening)
{
	struct mt_volumes *volumes = &flattening->gateway->volumes;
	const struct mt_volume_entry *entry = mt_volumes_by_id(volumes, flattening->mark.id);
	struct flattening_ops ops = { .count = 0 };
	char key[MT_FLATTEN_KEY_BYTES];
	bool may_go_on, is_last;

	/* A key that cannot be understood may be a scope. */
	if (volumes->is_incomplete || volumes->snapshots.is_incomplete || entry == NULL) {
		flattening_end(flattening, false);
		return;
	}
	mt_flatten_key(flattening->mark.id, key);
	ops_compare(&ops, key, flattening->version);
	may_go_on = ops_cut_others(&ops, volumes, &entry->volume);
	is_last = may_go_on && ops.key_count == 0;
	if (is_last) {
		ops_cut_clone(&ops, volumes, entry);
		ops.ops[ops.count++] = (struct meta_op){ .kind = META_DELETE, .key = key };
	}
	if (ops.key_count == 0)
		flattening_end(flattening, false);
	else
		flattening_submit(flattening, &ops, is_last);
}

/* ---- at the ports ---- */

static void
flattening_put_bits(struct mt_flattening *flattening)
{
	struct flattening_ops ops = { .count = 0 };

	assert(flattening->mark.id != 0);
	mt_flatten_key(flattening->mark.id, ops.keys[0]);
	ops_put(&ops, flattening->version,
	    mt_flatten_encode(&flattening->mark, flattening->gateway->cluster.shard_count));
	flattening_submit(flattening, &ops, false);
}

static void
flattening_on_leg(struct loop_post *post, void *arg)
{
	struct mt_flattening *flattening = ((struct flattening_leg *)arg)->flattening;
	bool is_any = false;

	assert(flattening->sm.state == FLATTENING_ASKING && flattening->left_count > 0);
	(void)post;
	if (--flattening->left_count > 0)
		return;
	for (uint32_t i = 0; i < flattening->gateway->port_count; i++) {
		for (uint32_t k = 0; k < NUM_COUNT(flattening->mark.waiting); k++) {
			uint64_t done = flattening->legs[i].done[k] & flattening->mark.waiting[k];

			is_any = is_any || done != 0;
			flattening->mark.waiting[k] &= ~done;
		}
	}
	if (is_any && flattening_may(flattening->gateway))
		flattening_put_bits(flattening);
	else
		flattening_end(flattening, false);
}

static void
flattening_on_port(struct loop_post *post, void *arg)
{
	struct flattening_leg *leg = arg;
	const struct mt_flattening *flattening = leg->flattening;
	const struct mt_flatten_mark *mark = &flattening->mark;

	(void)post;
	assert(flattening->sm.state == FLATTENING_ASKING);
	memset(leg->done, 0, sizeof(leg->done));
	for (uint32_t i = 0; i < leg->port->shard_count; i++) {
		struct mt_shard *shard = &leg->port->shards[i];
		uint64_t bit = UINT64_C(1) << shard->index % 64;

		if (shard->sm.state != MT_SHARD_SERVING)
			continue;
		if (mark->id == 0)
			(void)mt_flush_flatten(shard, NULL, 0);
		else if ((mark->waiting[shard->index / 64] & bit) != 0 &&
		    mt_flush_flatten(shard, &flattening->scope, flattening->key_id) == 0)
			leg->done[shard->index / 64] |= bit;
	}
	leg->post.fn = flattening_on_leg;
	loop_post(leg->port->main_loop, &leg->post);
}

static void
flattening_ask(struct mt_flattening *flattening)
{
	struct mt_gateway *gateway = flattening->gateway;

	sm_move(&flattening->sm, FLATTENING_ASKING);
	assert(flattening->left_count == 0 && gateway->port_count > 0);
	flattening->was_asked = flattening->mark.id != 0;
	flattening->left_count = gateway->port_count;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct flattening_leg *leg = &flattening->legs[i];

		leg->flattening = flattening;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = flattening_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
}

/* ---- listing ---- */

/* A mark whose volume is gone, or has no origin: it was deleted. Nobody has made a clone since. */
static void
flattening_forget(struct mt_flattening *flattening, const struct mt_flatten_mark *mark,
    uint64_t version)
{
	struct flattening_ops ops = { .count = 0 };
	char key[MT_FLATTEN_KEY_BYTES];

	mt_flatten_key(mark->id, key);
	ops_compare(&ops, "cluster", flattening->gateway->volumes.snapshots.cluster_version);
	ops_compare(&ops, key, version);
	ops.ops[ops.count++] = (struct meta_op){ .kind = META_DELETE, .key = key };
	log_info("volume: is gone, or no clone any more: it is not flattened id=%" PRIu64,
	    mark->id);
	flattening_submit(flattening, &ops, false);
}

/* True: @mark is the clone at work, or was written. */
static bool
flattening_take(struct mt_flattening *flattening, const struct mt_flatten_mark *mark,
    uint64_t version)
{
	struct mt_volumes *volumes = &flattening->gateway->volumes;
	const struct mt_volume_entry *entry = mt_volumes_by_id(volumes, mark->id);
	const struct mt_scope *scope = entry == NULL ? NULL : &entry->volume.scope;

	if (scope == NULL || !mt_volume_is_clone(&entry->volume)) {
		if (volumes->is_incomplete)
			return false;
		flattening_forget(flattening, mark, version);
		return true;
	}
	/* In the trash it waits: it may be purged. */
	if (mt_volume_is_trashed(&entry->volume))
		return false;
	flattening->mark = *mark;
	flattening->version = version;
	flattening->scope = *scope;
	flattening->key_id = entry->volume.key_id;
	memcpy(flattening->name, entry->volume.name, sizeof(flattening->name));
	return true;
}

static void
flattening_read(struct mt_flattening *flattening, const struct meta_item *items, uint32_t count)
{
	uint32_t shard_count = flattening->gateway->cluster.shard_count;
	bool is_taken = false;

	for (uint32_t i = 0; i < count; i++) {
		struct mt_flatten_mark mark;
		const char *field;

		if (mt_flatten_decode(items[i].key, items[i].value, items[i].value_bytes,
			shard_count, &mark, &field) != 0) {
			log_limited(LOG_ERROR,
			    "volume: a mark cannot be understood, its clone is not flattened key=%.64s "
			    "field=\"%s\"",
			    items[i].key, field);
			continue;
		}
		flattening->marks[flattening->mark_count++] =
		    (struct flattening_mark){ mark.id, mt_flatten_left(&mark) };
		is_taken = is_taken || flattening_take(flattening, &mark, items[i].version);
	}
}

static void
flattening_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_flattening *flattening = arg;
	struct flattening_mark *marks = NULL;

	assert(flattening->sm.state == FLATTENING_LISTING);
	if (rc == 0 && count > 0)
		marks = mt_calloc(count, sizeof(*marks));
	flattening->is_left = rc != 0 || count > 0;
	if (rc != 0 || (count > 0 && marks == NULL) || !flattening_may(flattening->gateway)) {
		mt_free(marks);
		flattening_end(flattening, false);
		return;
	}
	mt_free(flattening->marks);
	flattening->marks = marks;
	flattening->mark_count = 0;
	flattening->mark.id = 0;
	flattening_read(flattening, items, count);
	if (flattening->sm.state != FLATTENING_LISTING)
		return; /* one was forgotten, and all is read anew */
	if (flattening->mark.id != 0 &&
	    (mt_flatten_left(&flattening->mark) == 0 || MUTANT(flatten_early)))
		flattening_cut(flattening);
	else if (flattening->mark.id != 0 || flattening->was_asked)
		flattening_ask(flattening);
	else
		flattening_end(flattening, false);
}

static void
flattening_list(struct mt_flattening *flattening)
{
	struct meta *meta = flattening->gateway->options.meta;

	sm_move(&flattening->sm, FLATTENING_LISTING);
	flattening->is_left = true;
	if (meta->ops->list(meta, MT_FLATTEN_PREFIX, flattening_on_list, flattening) != 0)
		flattening_end(flattening, false);
}
