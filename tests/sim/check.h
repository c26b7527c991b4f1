/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- what must hold of a cluster when all is quiet: replicas, orphans, memory */
#ifndef CLEAVE_TESTS_SIM_CHECK_H
#define CLEAVE_TESTS_SIM_CHECK_H

#include "cleave/batch.h"
#include "cluster.h"
#include "middletier/common/shard.h"

struct mt_shard;

/* An extent's copy in a slot of a node's disk, not deleted. */
struct sim_slot {
	struct extent_id id;
	uint32_t node; /* index */
	uint64_t incarnation;
	bool is_sealed, is_damaged;
	uint64_t length_bytes, data_offset;
};

/* sim_check_each_slot -- until @fn returns false; whether it never did. */
bool sim_check_each_slot(struct sim_cluster *cluster, uint32_t node,
    bool (*fn)(const struct sim_slot *slot, void *arg), void *arg);

/* sim_check_slot_is_known -- the node that runs holds this very copy; else it is left over. */
bool sim_check_slot_is_known(const struct sim_cluster *cluster, const struct sim_slot *slot);

/* sim_check_copies -- all sealed copies of an extent are the same, as they lie on the disks. */
void sim_check_copies(struct sim_cluster *cluster);
/* sim_check_idle -- every receive is back in its pool, no request is outstanding; runs the world. */
void sim_check_idle(struct sim_cluster *cluster);
/*
 * sim_check_recovers -- everything has all its copies, and nothing is left over; runs the world
 *
 * @must_scrub: damage may be there that nobody has met: all copies are verified meanwhile.
 */
void sim_check_recovers(struct sim_cluster *cluster, bool must_scrub);
/* sim_check_copied -- every extent has all its copies: any one node may go now; runs the world */
void sim_check_copied(struct sim_cluster *cluster);
/* sim_check_shard -- as its gateway has it; NULL: it is not served, or by two. */
const struct mt_shard *sim_check_shard(const struct sim_cluster *cluster, uint32_t number);
/* sim_check_scrub -- all shards begin one. Returns what MT_METRIC_scrubs_done is when all have done it. */
uint64_t sim_check_scrub(struct sim_cluster *cluster);
/*
 * sim_check_scrubs_open -- a bit flips in a copy of an open extent: a scrub finds it; runs the world
 *
 * @spared: the index of a node whose disk destroys data, or any other number. What was found is repaired behind
 * the caller's back: sim_check_recovers.
 */
void sim_check_scrubs_open(struct sim_cluster *cluster, uint32_t spared);
/*
 * sim_check_two_rotten -- bits flip in two of an open extent's copies; the third is away when all start again
 *
 * Both chains end below what was acknowledged, and say so by their marks: nobody may believe them. Runs the
 * world, until the third is back and all is served by new gateways; then everything must be there. False:
 * chance has found no such extent, and nothing was done.
 */
bool sim_check_two_rotten(struct sim_cluster *cluster, uint32_t spared);
/* sim_memory_bytes -- what all processes have allocated, but for the bytes of disks. */
uint64_t sim_memory_bytes(const struct sim_cluster *cluster);
/* sim_check_memory -- @bytes are at most @slack_bytes more than @than_bytes, which @what held. */
void sim_check_memory(struct sim_cluster *cluster, uint64_t bytes, uint64_t than_bytes,
    uint64_t slack_bytes, const char *what);

struct sim_store_copy;
/*
 * sim_check_restored -- with @old as its metadata store nobody serves; then the cluster does as before
 *
 * Runs the world. Every shard must have been taken over since @old was copied.
 */
void sim_check_restored(struct sim_cluster *cluster, const struct sim_store_copy *old);
/*
 * sim_check_unmanifested -- a new cluster starts, and its store is set back to before the first manifest
 *
 * A copy of between a shard's first claim and its first manifest does not look old by its epochs, until the
 * shard is taken over again. Nobody may serve by it.
 */
void sim_check_unmanifested(struct sim_cluster *cluster);

#endif /* CLEAVE_TESTS_SIM_CHECK_H */
