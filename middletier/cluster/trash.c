/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trash.c -- volumes in the trash are purged when their time is over: late perhaps, never early
 *
 *	the tables were read, a timer --> whose time is over? --> the next step of a purge (volume_delete.c)
 *	                                   whose key is old?   --> left_ms less what has passed
 *
 * No clock on a wall decides. A key says how much of its time is left. A gateway that has known a version of the key
 * for so long, by its own clock, takes that off and writes the key anew, a sixteenth of the time or an hour at once.
 * Each version is replaced by one gateway alone, and whoever knows it has known it for no longer than it is old: so
 * what was taken off altogether is no more than what has passed (SNAPSHOTS.md). While no gateway runs no time passes.
 *
 * The gateway that serves shard 0 does it. Two that both believe to serve it do no harm: they compare versions.
 */
#include "cluster/trash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/snapshot_table.h"
#include "catalog/trash.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/mirror.h"
#include "cluster/volume_delete.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/event.h"

#define TRASH_PARTS 16u /* a key is written anew so many times, and each hour */
#define TRASH_PART_MS_MIN UINT64_C(1000)
#define TRASH_PART_MS_MAX (UINT64_C(3600) * 1000)
#define TRASH_RETRY_MS UINT64_C(1000)

struct mt_trash_keeper {
	struct mt_gateway *gateway;
	struct loop_timer timer;
	bool is_writing;
	/* The volume that is written. */
	uint64_t id;
	char name[MT_NAME_BYTES];
	bool is_last; /* it is gone when this is durable */
};

static void trash_look(struct mt_trash_keeper *keeper);

uint64_t
mt_trash_left_ms(const struct mt_gateway *gateway, const struct mt_volume_entry *entry)
{
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	uint64_t passed_ms = entry->seen_ns == 0 ? 0 : mt_trash_passed_ms(now_ns - entry->seen_ns);

	assert(mt_volume_is_trashed(&entry->volume));
	if (MUTANT(trash_early))
		return 0;
	return entry->volume.trash.left_ms - num_min(passed_ms, entry->volume.trash.left_ms);
}

/* ---- a transaction ---- */

static void
trash_wait(struct mt_trash_keeper *keeper, uint64_t ms)
{
	struct loop *loop = keeper->gateway->options.loop;

	/* Time passes for a key a little more slowly than here. */
	loop_timer_start(loop, &keeper->timer, NUM_MS(ms) + NUM_MS(ms) / 32 + NUM_MS(1));
}

static void
trash_on_written(int rc, void *arg)
{
	struct mt_trash_keeper *keeper = arg;
	struct mt_gateway *gateway = keeper->gateway;

	assert(keeper->is_writing);
	keeper->is_writing = false;
	if (gateway->sm.state >= MT_GATEWAY_FAILED)
		return;
	if (rc == 0 && keeper->is_last)
		mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
		    CLEAVE_EVENT_VOLUME_PURGED, keeper->name,
		    "volume: purged from the trash name=%s id=%" PRIu64, keeper->name, keeper->id);
	else if (rc != 0 && rc != -EAGAIN)
		log_limited(LOG_WARN,
		    "volume: cannot be purged, or its time not be written, trying again name=%s "
		    "id=%" PRIu64 " rc=%s",
		    keeper->name, keeper->id, log_errno(rc));
	mt_volumes_refresh_soon(gateway);
	trash_wait(keeper, TRASH_RETRY_MS);
}

static int
trash_submit(struct mt_trash_keeper *keeper, const struct mt_volume *volume,
    const struct meta_op *ops, uint32_t count, bool is_last)
{
	struct meta *meta = keeper->gateway->options.meta;
	int rc;

	assert(!keeper->is_writing);
	keeper->is_writing = true;
	keeper->id = volume->id;
	keeper->is_last = is_last;
	memcpy(keeper->name, volume->trash.name, sizeof(keeper->name));
	rc = meta->ops->txn(meta, ops, count, trash_on_written, keeper);
	if (rc != 0)
		keeper->is_writing = false;
	return rc;
}

/* The time that has passed is taken off. */
static int
trash_put_left(struct mt_trash_keeper *keeper, const struct mt_volume_entry *entry)
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;
	int rc = -ENOMEM;

	volume.trash.left_ms = mt_trash_left_ms(keeper->gateway, entry);
	assert(volume.trash.left_ms > 0); /* that would say that it is being purged */
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION, .key = key, .version = entry->version },
			{ .kind = META_PUT,
			    .key = key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = trash_submit(keeper, &volume, ops, NUM_COUNT(ops), false);
	}
	free(text);
	return rc;
}

static int
trash_purge(struct mt_trash_keeper *keeper, const struct mt_volume_entry *entry)
{
	struct mt_delete_ops *ops = mt_delete_ops_purge(keeper->gateway, entry);
	int rc;

	if (ops == NULL)
		return -ENOMEM;
	rc = trash_submit(keeper, &entry->volume, ops->ops, ops->count, ops->is_last);
	mt_delete_ops_free(ops);
	return rc;
}

/* ---- what is due ---- */

/* How long until something is to be done with it; 0: it was begun; else in so many milliseconds. */
static uint64_t
trash_care(struct mt_trash_keeper *keeper, const struct mt_volume_entry *entry)
{
	const struct mt_trash *trash = &entry->volume.trash;
	const struct mt_volumes *volumes = &keeper->gateway->volumes;
	uint64_t left_ms = mt_trash_left_ms(keeper->gateway, entry);
	uint64_t passed_ms = trash->left_ms - left_ms;
	uint64_t part_ms =
	    num_min(num_max(trash->keep_ms / TRASH_PARTS, TRASH_PART_MS_MIN), TRASH_PART_MS_MAX);
	const struct mt_snapshot *obstacle;

	if (left_ms > 0 && passed_ms < part_ms)
		return num_min(left_ms, part_ms - passed_ms);
	if (left_ms > 0)
		return trash_put_left(keeper, entry) == 0 ? 0 : TRASH_RETRY_MS;
	/* A key that cannot be understood may be a snapshot of it that has clones. */
	if (volumes->is_incomplete || volumes->snapshots.is_incomplete)
		return TRASH_PART_MS_MAX;
	obstacle = mt_delete_obstacle(volumes, entry->volume.id);
	if (obstacle == NULL)
		return trash_purge(keeper, entry) == 0 ? 0 : TRASH_RETRY_MS;
	log_limited(LOG_WARN,
	    "volume: its time in the trash is over, but it stays: its snapshot '%s' %s name=%s "
	    "id=%" PRIu64,
	    obstacle->name, obstacle->clone_count > 0 ? "has clones" : "is protected", trash->name,
	    entry->volume.id);
	return TRASH_PART_MS_MAX;
}

static void
trash_look(struct mt_trash_keeper *keeper)
{
	struct mt_gateway *gateway = keeper->gateway;
	const struct mt_volumes *volumes = &gateway->volumes;
	uint64_t next_ms = UINT64_MAX;
	uint32_t first, count = mt_volumes_trash(volumes, &first);

	if (keeper->is_writing)
		return;
	loop_timer_stop(gateway->options.loop, &keeper->timer);
	if (gateway->sm.state < MT_GATEWAY_TAKING || gateway->sm.state >= MT_GATEWAY_FAILED ||
	    !gateway->mirror->is_owner)
		return;
	for (uint32_t i = first; i < first + count && next_ms > 0; i++)
		next_ms = num_min(next_ms, trash_care(keeper, &volumes->entries[i]));
	if (next_ms != UINT64_MAX && next_ms > 0)
		trash_wait(keeper, next_ms);
}

static void
trash_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	trash_look(arg);
}

void
mt_trash_kick(struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (gateway->trash != NULL)
		trash_look(gateway->trash);
}

/* ---- life ---- */

void
mt_trash_init(struct mt_gateway *gateway)
{
	struct mt_trash_keeper *keeper = mt_calloc(1, sizeof(*keeper));

	assert(gateway->trash == NULL);
	gateway->trash = keeper;
	if (keeper == NULL)
		return;
	keeper->gateway = gateway;
	loop_timer_init(&keeper->timer, trash_on_timer, keeper);
}

void
mt_trash_fini(struct mt_gateway *gateway)
{
	if (gateway->trash == NULL)
		return;
	loop_timer_stop(gateway->options.loop, &gateway->trash->timer);
	mt_free(gateway->trash);
	gateway->trash = NULL;
}
