/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c -- a shard's parts put together, and its end
 *
 *	IDLE -> CLAIMING -> AGREEING -> OPENING -> REPLAYING -> SERVING
 *	  \________\____________\__________\___________\___________\____> STOPPED
 *
 * takeover.c goes through the states; the way to STOPPED is mt_shard_stop alone, for a shard that is
 * another's now as for a port that is shutting down. After it the parts call nobody any more, but
 * calls to nodes still end in them: their memory goes with mt_shard_fini, when the queue pairs are
 * gone.
 */
#include <errno.h>
#include <inttypes.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "manifest.h"
#include "recovery.h"

#define SHARD_MAGIC 0x44524853u /* "SHRD" */
#define SHARD_EXTENTS_MIN 16u

#define SHARD_STOP SM_TO(MT_SHARD_STOPPED)

static const struct sm_state shard_table[MT_SHARD_STATE_NR] = {
	[MT_SHARD_IDLE] = { "idle", SM_TO(MT_SHARD_CLAIMING) | SHARD_STOP, SM_INITIAL },
	[MT_SHARD_CLAIMING] = { "claiming", SM_TO(MT_SHARD_AGREEING) | SHARD_STOP, 0 },
	[MT_SHARD_AGREEING] = { "agreeing", SM_TO(MT_SHARD_OPENING) | SHARD_STOP, 0 },
	[MT_SHARD_OPENING] = { "opening", SM_TO(MT_SHARD_REPLAYING) | SHARD_STOP, 0 },
	[MT_SHARD_REPLAYING] = { "replaying", SM_TO(MT_SHARD_SERVING) | SHARD_STOP, 0 },
	[MT_SHARD_SERVING] = { "serving", SHARD_STOP, 0 },
	[MT_SHARD_STOPPED] = { "stopped", 0, SM_FINAL },
};

int
mt_shard_init(struct mt_shard *shard, struct mt_port *port, uint32_t index)
{
	int rc;

	*shard = (struct mt_shard){ .port = port, .index = index };
	list_init(&shard->root_calls);
	sm_init(&shard->sm, "shard", shard_table, MT_SHARD_IDLE, index);
	shard->memtable = mt_memtable_create();
	if (shard->memtable == NULL)
		return -ENOMEM;
	rc = mt_takeover_init(shard);
	if (rc != 0)
		goto err_memtable;
	rc = mt_ring_init(&shard->ring, port, port->ring_bytes);
	if (rc != 0)
		goto err_takeover;
	rc = mt_write_path_init(shard);
	if (rc != 0)
		goto err_ring;
	shard->magic = SHARD_MAGIC;
	return 0;

err_ring:
	mt_ring_fini(&shard->ring, port);
err_takeover:
	mt_takeover_fini(shard);
err_memtable:
	mt_memtable_destroy(shard->memtable);
	shard->memtable = NULL;
	return rc;
}

void
mt_shard_start(struct mt_shard *shard)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	mt_takeover_start(shard);
}

void
mt_shard_stop(struct mt_shard *shard, int rc)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(rc < 0);
	if (shard->sm.state == MT_SHARD_STOPPED)
		return;
	/* First, so that no handler below begins anything new. */
	sm_move(&shard->sm, MT_SHARD_STOPPED);
	mt_takeover_stop(shard);
	mt_manifest_stop(shard, rc);
	mt_write_path_stop(shard, rc);
	mt_port_on_shard(shard);
}

bool
mt_shard_is_quiet(const struct mt_shard *shard)
{
	return shard->sm.state == MT_SHARD_STOPPED && list_is_empty(&shard->root_calls) &&
	    mt_takeover_is_quiet(shard);
}

void
mt_shard_fini(struct mt_shard *shard)
{
	if (shard->magic != SHARD_MAGIC)
		return;
	mt_root_abandon(shard);
	mt_takeover_fini(shard);
	mt_manifest_fini(shard);
	/* Extents know of the write path's batches, if any are left in flight: they go first. */
	for (uint32_t i = 0; i < shard->extent_count; i++)
		mt_extent_free(shard->extents[i]);
	mt_free(shard->extents);
	shard->extents = NULL;
	shard->extent_count = shard->extent_max = 0;
	shard->log = NULL;
	mt_write_path_fini(shard);
	mt_ring_fini(&shard->ring, shard->port);
	mt_memtable_destroy(shard->memtable);
	shard->memtable = NULL;
	shard->magic = 0;
}

void
mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	if (shard->sm.state == MT_SHARD_STOPPED)
		return;
	mt_takeover_on_link(shard, link, is_up);
	mt_manifest_on_link(shard, link, is_up);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL)
			mt_extent_on_link(shard->extents[i], link, is_up);
	}
	mt_write_path_on_link(shard, link, is_up);
}

/* Indexes are not given twice: the memtable holds them. */
int
mt_shard_extent_add(struct mt_shard *shard, struct mt_extent *extent)
{
	uint32_t max = shard->extent_max < SHARD_EXTENTS_MIN ? SHARD_EXTENTS_MIN
							     : shard->extent_max;
	struct mt_extent **extents;

	if (shard->extent_count == MT_EXTENTS_PER_SHARD_MAX)
		return -ENOSPC;
	if (shard->extent_count == shard->extent_max) {
		if (shard->extent_max != 0)
			max *= 2;
		extents = mt_realloc(shard->extents, max * sizeof(struct mt_extent *));
		if (extents == NULL)
			return -ENOMEM;
		shard->extents = extents;
		shard->extent_max = max;
	}
	extent->index = shard->extent_count;
	shard->extents[shard->extent_count++] = extent;
	return 0;
}
