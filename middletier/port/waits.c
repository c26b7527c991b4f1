/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.c -- what a shard's clients wait for, when they wait: for a client that asks after a second of silence
 *
 * The first of these that is true. A shard that waits for nothing of this is told of only where writes are
 * under way: then its nodes have not answered yet.
 */
#include "port/waits.h"
#include "base/check.h"

#include "common/lease.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/link_store.h"
#include "extent/placement.h"
#include "merge/reclaim_room.h"
#include "port/throttle.h"
#include "shard/shard.h"
#include "shard/takeover_stale.h"
#include "write/log_roll.h"
#include "write/write_batch.h"
#include "write/write_path.h"

static const char *const wait_texts[MT_WAIT_NR] = {
	[MT_WAIT_TAKEOVER] = "is being taken over",
	[MT_WAIT_AWAY] = "waits for a storage node that holds some of it, and does not answer",
	[MT_WAIT_STALE] = "is not served: the metadata store is stale, the gateway's log says why",
	[MT_WAIT_DEVICE] =
	    "is not taken over: its port has no memory for one more, see --device-memory",
	[MT_WAIT_FAILED] = "cannot be taken over, try after try",
	[MT_WAIT_STOPPED] = "has stopped: the gateway's log says why",
	[MT_WAIT_STORE] =
	    "is refused by its storage nodes, which obey another metadata store: the gateway's log says more",
	[MT_WAIT_LEASE] =
	    "has an owner whose lease is in doubt: the metadata store does not answer",
	[MT_WAIT_NODES] = "waits for storage nodes: fewer are up than --min-replicas",
	[MT_WAIT_ROOM] = "waits for room: too few storage nodes have any for its log",
	[MT_WAIT_LOG] = "waits for merges: its log is as long as it may be",
	[MT_WAIT_MEMORY] = "waits for merges: the index of its log is as large as it may be",
	[MT_WAIT_EXTENT] = "waits for a new extent for its log",
	[MT_WAIT_LIMITS] =
	    "has requests that wait for their volume's limits: cleave volume show has them",
	[MT_WAIT_ANSWERS] = "waits for answers of its storage nodes",
};

const char *
mt_wait_text(enum mt_wait wait)
{
	assert(wait < MT_WAIT_NR);
	return wait_texts[wait];
}

static enum mt_wait
wait_of_log(const struct mt_shard *shard)
{
	assert(shard->sm.state == MT_SHARD_SERVING);
	if (shard->log == NULL &&
	    mt_placement_domain_count(shard->port) < shard->port->settings->min_replicas)
		return MT_WAIT_NODES;
	if (mt_log_roll_is_short(shard->write))
		return MT_WAIT_ROOM;
	return shard->log == NULL ? MT_WAIT_EXTENT : MT_WAIT_NONE;
}

static bool
wait_has_appends(const struct mt_write_state *state)
{
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++) {
		if (state->batches[i].sm.state == WRITE_BATCH_SENT)
			return true;
	}
	return false;
}

enum mt_wait
mt_shard_wait(const struct mt_shard *shard)
{
	enum mt_wait wait;

	/* Looked at again and again, in whatever state: the finding stands until the store is another one. */
	if (shard->sm.state != MT_SHARD_SERVING && shard->stale_root->count > 0)
		return MT_WAIT_STALE;
	if (mt_shard_is_short(shard))
		return MT_WAIT_DEVICE;
	if (mt_shard_failed_why(shard) != NULL)
		return MT_WAIT_FAILED; /* in whatever state: it is tried again and again */
	if (shard->sm.state == MT_SHARD_IDLE)
		return MT_WAIT_NONE; /* another gateway's, which tells its own */
	if (shard->sm.state == MT_SHARD_STOPPED)
		return MT_WAIT_STOPPED;
	if (mt_port_is_refused(shard->port))
		return MT_WAIT_STORE;
	if (shard->sm.state != MT_SHARD_SERVING)
		return shard->awaited_node != 0 ? MT_WAIT_AWAY : MT_WAIT_TAKEOVER;
	if (!mt_port_has_lease(shard->port))
		return MT_WAIT_LEASE;
	wait = wait_of_log(shard);
	if (wait != MT_WAIT_NONE)
		return wait;
	if (write_is_any_parked(shard->write) && mt_reclaim_is_memory_full(shard))
		return MT_WAIT_MEMORY;
	if (write_is_any_parked(shard->write) && mt_reclaim_is_log_full(shard))
		return MT_WAIT_LOG;
	if (mt_throttle_holds(shard->port, shard->index))
		return MT_WAIT_LIMITS;
	return wait_has_appends(shard->write) ? MT_WAIT_ANSWERS : MT_WAIT_NONE;
}
