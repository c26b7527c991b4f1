/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_refresh.c -- what other gateways did to the volumes
 *
 * Main reads "cluster" and "volumes/" anew when a watch fires, when a client comes with an attach that
 * is not known here, before a change is judged, and before a shard that was claimed serves. All who ask
 * before a reading begins share it.
 *
 *	waiters --> list "cluster" --> list "volumes/", "snapshots/" --> tables replaced
 *	   ^                                  |                              '--> tell ports --> fn(0)
 *	   +--- a change of ours meanwhile ---+
 *
 * Ports are told of each volume that was attached elsewhere (its older sessions are closed), deleted
 * (all are) or given other limits, or another data key, before anybody who waits goes on: so no write of an older attach is taken by a shard once
 * one of a newer attach was (I11).
 *
 * A reading that a change of ours overlaps is thrown away, since nobody knows which of the two the
 * store saw first.
 */
#include <errno.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/drop.h"
#include "cluster/flatten.h"
#include "cluster/gateway_state.h"
#include "cluster/limit_round.h"
#include "cluster/mirror.h"
#include "cluster/trash.h"
#include "cluster/volume_change.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/port.h"
#include "session/session.h"

#define REFRESH_RETRY_NS NUM_MS(200)

struct mt_volume_tell {
	enum mt_ask_kind kind;
	struct mt_volume volume;
};

static void refresh_try(struct mt_gateway *gateway);
static void refresh_tell(struct mt_gateway *gateway);

void
mt_waiters_move(struct loop_link *from, struct loop_link *to)
{
	struct loop_link *link;

	assert(from != to);
	while ((link = list_pop_front(from)) != NULL)
		list_push_back(to, link);
}

void
mt_waiters_answer(struct loop_link *waiters, int rc)
{
	struct loop_link *link;

	assert(rc <= 0);
	while ((link = list_pop_front(waiters)) != NULL) {
		struct mt_volumes_waiter *waiter = LIST_ENTRY(link, struct mt_volumes_waiter, link);

		waiter->fn(rc, waiter->arg);
	}
}

/* Waiters may ask again: that is another reading. */
static void
refresh_finish(struct mt_gateway *gateway, int rc)
{
	struct mt_volumes *volumes = &gateway->volumes;
	struct loop_link readers;

	assert(volumes->is_refreshing);
	mt_free(volumes->tells);
	volumes->tells = NULL;
	volumes->tell_count = volumes->tell_index = 0;
	volumes->is_refreshing = false;
	list_init(&readers);
	mt_waiters_move(&volumes->readers, &readers);
	mt_waiters_answer(&readers, rc);
	refresh_try(gateway);
}

static void
refresh_drop_next(struct mt_volumes *volumes)
{
	mt_snapshots_fini(&volumes->next_snapshots);
	mt_free(volumes->next_entries);
	volumes->next_entries = NULL;
	volumes->next_count = volumes->next_max = 0;
}

/* True: a change of ours came between, and the reading begins anew when that has ended. */
static bool
refresh_is_overtaken(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;

	assert(volumes->is_refreshing);
	if (volumes->refresh_serial == volumes->change_serial)
		return false;
	volumes->is_refreshing = false;
	mt_waiters_move(&volumes->waiters, &volumes->readers);
	mt_waiters_move(&volumes->readers, &volumes->waiters);
	refresh_drop_next(volumes);
	refresh_try(gateway);
	return true;
}

/* Telling the ports. */

/* A key that is not open here yet is told when it is: data_keys.c has the tables read anew then. */
static bool
refresh_has_key(const struct mt_gateway *gateway, uint32_t key_id)
{
	return key_id == 0 || keyring_has(gateway->data_keys.ring, key_id);
}

static void
refresh_on_told(struct mt_ask *ask, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;
	struct mt_volume_entry *entry = mt_volumes_by_name(volumes, ask->volume.name);

	assert(volumes->is_refreshing && volumes->tell_index < volumes->tell_count);
	if (entry != NULL && entry->volume.id == ask->volume.id)
		entry->told_attach = num_max(entry->told_attach, ask->volume.attach);
	if (entry != NULL && entry->volume.id == ask->volume.id &&
	    entry->volume.key_id == ask->volume.key_id &&
	    limits_are_equal(&entry->volume.limits, &ask->volume.limits))
		entry->are_limits_untold = !refresh_has_key(gateway, entry->volume.key_id);
	volumes->tell_index++;
	refresh_tell(gateway);
}

static void
refresh_tell(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;
	const struct mt_volume_tell *tell = &volumes->tells[volumes->tell_index];
	int rc;

	assert(volumes->is_refreshing && volumes->tell_index <= volumes->tell_count);
	if (volumes->tell_index == volumes->tell_count) {
		refresh_finish(gateway, 0);
		return;
	}
	rc = mt_ask_ports(gateway, tell->kind, &tell->volume, refresh_on_told, gateway);
	if (rc != 0)
		refresh_finish(gateway, rc);
}

/* By name, as most are; or by another, that it was given meanwhile. */
static struct mt_volume_entry *
refresh_find(struct mt_volumes *next, const struct mt_volume *volume)
{
	struct mt_volume_entry *entry = mt_volumes_by_name(next, volume->name);

	return entry != NULL && entry->volume.id == volume->id ? entry
							       : mt_volumes_by_id(next, volume->id);
}

/* Readers of a snapshot that is no more are closed out. */
static uint32_t
refresh_compare_snapshots(struct mt_volumes *volumes, struct mt_volumes *next,
    struct mt_volume_tell *tells)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < volumes->snapshots.count; i++) {
		uint64_t id = volumes->snapshots.entries[i].snapshot.number | MT_SNAPSHOT_ID;
		struct mt_volume old, unused;

		if (mt_snapshot_session(volumes, id, 1, &old) == 0 &&
		    mt_snapshot_session(next, id, 1, &unused) != 0)
			tells[count++] = (struct mt_volume_tell){ MT_ASK_DELETE, old };
	}
	return count;
}

/* Finds entries of the old tables that are newer, or missing, in @next. */
static int
refresh_compare(struct mt_volumes *volumes, struct mt_volumes *next)
{
	struct mt_volume_tell *tells =
	    mt_calloc((size_t)volumes->count + volumes->snapshots.count + 1, sizeof(*tells));
	uint32_t count = 0;

	assert(volumes->tells == NULL);
	assert(next->count <= next->max);
	if (tells == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume_entry *old = &volumes->entries[i];
		struct mt_volume_entry *entry = refresh_find(next, &old->volume);

		if (entry == NULL) {
			tells[count++] = (struct mt_volume_tell){ MT_ASK_DELETE, old->volume };
			continue;
		}
		if (entry->version == old->version)
			entry->seen_ns = old->seen_ns;
		entry->is_deleting = old->is_deleting;
		entry->told_attach = old->told_attach;
		if (entry->volume.attach == old->volume.attach)
			entry->heard_ns = old->heard_ns;
		entry->are_limits_untold = old->are_limits_untold ||
		    entry->volume.key_id != old->volume.key_id ||
		    !limits_are_equal(&entry->volume.limits, &old->volume.limits);
		/* Either of ATTACH and LIMITS tells the limits. The attach that took a volume to the trash is told when it comes back. */
		if (mt_volume_is_trashed(&entry->volume)) {
			if (!mt_volume_is_trashed(&old->volume))
				tells[count++] =
				    (struct mt_volume_tell){ MT_ASK_DELETE, old->volume };
		} else if (entry->told_attach < entry->volume.attach)
			tells[count++] = (struct mt_volume_tell){ MT_ASK_ATTACH, entry->volume };
		else if (entry->are_limits_untold)
			tells[count++] = (struct mt_volume_tell){ MT_ASK_LIMITS, entry->volume };
	}
	count += refresh_compare_snapshots(volumes, next, tells + count);
	volumes->tells = tells;
	volumes->tell_count = count;
	volumes->tell_index = 0;
	return 0;
}

/* How long a snapshot has been pending is known here alone. */
static void
refresh_keep_seen(struct mt_gateway *gateway, struct mt_snapshots *next)
{
	const struct mt_snapshots *snapshots = &gateway->volumes.snapshots;

	next->cluster_version = gateway->cluster.version;
	for (uint32_t i = 0; i < next->count; i++) {
		struct mt_snapshot_entry *entry = &next->entries[i];
		const struct mt_snapshot_entry *old =
		    mt_snapshots_by_number(snapshots, entry->snapshot.number);

		entry->seen_ns = old != NULL && old->version == entry->version
		    ? old->seen_ns
		    : loop_now_ns(gateway->options.loop);
	}
}

static void
refresh_on_snapshots(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;
	struct mt_volumes next = { .entries = volumes->next_entries,
		.count = volumes->next_count,
		.max = volumes->next_max };

	assert(volumes->is_refreshing);
	assert(volumes->next_count <= volumes->next_max);
	if (refresh_is_overtaken(gateway))
		return;
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = mt_snapshots_put_item(&volumes->next_snapshots, &items[i]);
	next.snapshots = volumes->next_snapshots;
	if (rc == 0)
		rc = refresh_compare(volumes, &next);
	if (rc != 0) {
		refresh_drop_next(volumes);
		refresh_finish(gateway, rc);
		return;
	}
	refresh_keep_seen(gateway, &volumes->next_snapshots);
	mt_free(volumes->entries);
	volumes->entries = volumes->next_entries;
	volumes->count = volumes->next_count;
	volumes->max = volumes->next_max;
	mt_snapshots_fini(&volumes->snapshots);
	volumes->snapshots = volumes->next_snapshots;
	volumes->next_snapshots = (struct mt_snapshots){ 0 };
	volumes->next_entries = NULL;
	volumes->is_loaded = true;
	volumes->is_incomplete = volumes->is_next_incomplete;
	mt_volumes_stamp(gateway);
	mt_mirror_kick(gateway);
	mt_drop_kick(gateway);
	mt_trash_kick(gateway);
	mt_flattening_kick(gateway);
	mt_limit_rounds_kick(gateway);
	refresh_tell(gateway);
}

/* A text of the version that we know is the one that we know: of many volumes few have changed. */
static int
refresh_put(struct mt_volumes *known, struct mt_volumes *next, const struct meta_item *item)
{
	const struct mt_volume_entry *old =
	    mt_volumes_by_name(known, item->key + strlen(MT_VOLUME_PREFIX));

	assert(strncmp(item->key, MT_VOLUME_PREFIX, strlen(MT_VOLUME_PREFIX)) == 0);
	if (old != NULL && old->version == item->version)
		return mt_volumes_put(next, &old->volume, old->version);
	return mt_volumes_put_item(next, item);
}

static void
refresh_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;
	struct meta *meta = gateway->options.meta;
	struct mt_volumes next;

	assert(volumes->next_entries == NULL);
	if (refresh_is_overtaken(gateway))
		return;
	mt_volumes_init(&next);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = refresh_put(volumes, &next, &items[i]);
	if (rc == 0)
		rc = meta->ops->list(meta, MT_SNAPSHOT_PREFIX, refresh_on_snapshots, gateway);
	if (rc != 0) {
		mt_volumes_fini(&next);
		refresh_finish(gateway, rc);
		return;
	}
	volumes->next_entries = next.entries;
	volumes->next_count = next.count;
	volumes->next_max = next.max;
	volumes->is_next_incomplete = next.is_incomplete;
}

static void
refresh_on_cluster(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct meta *meta = gateway->options.meta;

	assert(gateway->volumes.is_refreshing);
	if (refresh_is_overtaken(gateway))
		return;
	rc = mt_volumes_read_cluster(gateway, rc, items, count);
	if (rc == -ENOENT)
		rc = -EBADMSG;
	if (rc == 0)
		rc = meta->ops->list(meta, MT_VOLUME_PREFIX, refresh_on_list, gateway);
	if (rc != 0)
		refresh_finish(gateway, rc);
}

static void
refresh_try(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;
	struct meta *meta = gateway->options.meta;
	int rc;

	if (volumes->is_refreshing || volumes->fn != NULL || list_is_empty(&volumes->waiters))
		return;
	mt_waiters_move(&volumes->waiters, &volumes->readers);
	volumes->is_refreshing = true;
	volumes->refresh_serial = volumes->change_serial;
	rc = meta->ops->list(meta, "cluster", refresh_on_cluster, gateway);
	/* Out of memory: the watch's timer, or whoever comes next, tries again. */
	if (rc == 0)
		return;
	volumes->is_refreshing = false;
	mt_waiters_answer(&volumes->readers, rc);
}

void
mt_volumes_refresh(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	assert(waiter->fn != NULL && !list_contains(&waiter->link));
	list_push_back(&gateway->volumes.waiters, &waiter->link);
	refresh_try(gateway);
}

void
mt_volumes_on_change_end(struct mt_gateway *gateway)
{
	assert(gateway->volumes.fn == NULL);
	refresh_try(gateway);
}

void
mt_volumes_drop_waiters(struct mt_gateway *gateway)
{
	mt_waiters_answer(&gateway->volumes.readers, -ECANCELED);
	mt_waiters_answer(&gateway->volumes.waiters, -ECANCELED);
}

/* Watching. */

static void
refresh_from_watch(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;

	assert(volumes->is_watching);
	if (list_contains(&volumes->watch_waiter.link)) {
		volumes->is_watch_missed = true;
		return;
	}
	volumes->is_watch_missed = false;
	loop_timer_stop(gateway->options.loop, &volumes->watch_timer);
	mt_volumes_refresh(gateway, &volumes->watch_waiter);
}

void
mt_volumes_refresh_soon(struct mt_gateway *gateway)
{
	if (gateway->volumes.is_watching)
		refresh_from_watch(gateway);
}

static void
refresh_on_watch_read(int rc, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;
	struct loop *loop = gateway->options.loop;

	assert(rc <= 0);
	if (!volumes->is_watching || rc == -ESHUTDOWN || rc == -ECANCELED ||
	    (rc == 0 && !volumes->is_watch_missed))
		return;
	if (rc != 0)
		log_limited(LOG_WARN, "volume: cannot be read anew, asking again rc=%s",
		    log_errno(rc));
	volumes->is_watch_missed = false;
	loop_timer_start(loop, &volumes->watch_timer,
	    rc == 0 ? 0 : REFRESH_RETRY_NS + loop_random_below(loop, REFRESH_RETRY_NS));
}

static void
refresh_on_watch_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	refresh_from_watch(arg);
}

static void
refresh_on_watch(void *arg)
{
	refresh_from_watch(arg);
}

/* Another function, so that each of the two watches can be taken back. */
static void
refresh_on_snapshot_watch(void *arg)
{
	refresh_from_watch(arg);
}

int
mt_volumes_watch(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;
	struct meta *meta = gateway->options.meta;
	int rc;

	assert(!volumes->is_watching);
	assert(volumes->is_loaded);
	volumes->watch_waiter.fn = refresh_on_watch_read;
	volumes->watch_waiter.arg = gateway;
	loop_timer_init(&volumes->watch_timer, refresh_on_watch_timer, gateway);
	rc = meta->ops->watch(meta, MT_VOLUME_PREFIX, refresh_on_watch, gateway);
	if (rc == 0)
		rc = meta->ops->watch(meta, MT_SNAPSHOT_PREFIX, refresh_on_snapshot_watch, gateway);
	if (rc != 0)
		meta->ops->unwatch(meta, refresh_on_watch, gateway);
	volumes->is_watching = rc == 0;
	return rc;
}

void
mt_volumes_unwatch(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;
	struct meta *meta = gateway->options.meta;

	if (!volumes->is_watching)
		return;
	volumes->is_watching = false;
	if (!gateway->shared.is_killed) {
		meta->ops->unwatch(meta, refresh_on_watch, gateway);
		meta->ops->unwatch(meta, refresh_on_snapshot_watch, gateway);
	}
	loop_timer_stop(gateway->options.loop, &volumes->watch_timer);
}
