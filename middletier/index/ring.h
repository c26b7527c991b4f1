/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h -- the device memory that holds the newest part of a shard's log, which a port's shards share by the slab */
#ifndef CLEAVE_MIDDLETIER_INDEX_RING_H
#define CLEAVE_MIDDLETIER_INDEX_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"

struct mt_port;
struct mt_ring_slab;
struct mt_shard;

/* The memory of a port's rings. */
struct mt_ring_pool {
	struct mt_port *port;
	dev_ptr base;
	uint32_t slab_shift; /* a slab has 1 << slab_shift bytes */
	uint32_t slab_count;
	uint32_t own_count; /* slabs that a ring gets whatever the others have */
	uint32_t
	    promised_count; /* of free ones: for rings with less than that, and for rings to come */
	uint32_t ring_max, ring_count;
	uint32_t free_count;
	uint32_t *free_slabs;   /* places in the memory; the last is taken next */
	uint64_t taken_count;   /* slabs, ever: who was taken first is older */
	struct loop_link rings; /* of struct mt_ring */
};

struct mt_ring {
	struct mt_ring_pool *pool;
	struct loop_link link; /* pool->rings */
	const struct mt_shard
	    *shard;          /* whose index says what of it is needed; NULL: nobody's does */
	uint64_t head;       /* next position to hand out; positions only grow; 0 is never used */
	uint64_t first, end; /* numbers of the slabs that it has: a position >> slab_shift */
	struct mt_ring_slab *slabs; /* by number, modulo pool->slab_count */
};

/*
 * mt_ring_pool_create -- @bytes of @port's device memory for up to @ring_max rings
 *
 * Shape:   @bytes are BATCH_BYTES_MAX a ring at least.
 * Returns: the pool, without a ring; NULL: there is not as much, or no memory.
 */
struct mt_ring_pool *mt_ring_pool_create(struct mt_port *port, uint64_t bytes, uint32_t ring_max);
/* mt_ring_pool_destroy -- give the device memory back, if its port still has it; no ring is left. NULL: does nothing. */
void mt_ring_pool_destroy(struct mt_ring_pool *pool);

/* mt_ring_create -- one of @pool's ring_max, empty. @shard: may be NULL; outlives it. NULL: no memory. */
struct mt_ring *mt_ring_create(struct mt_ring_pool *pool, const struct mt_shard *shard);
/* mt_ring_destroy -- its slabs go back to the pool. Who holds any of them does nothing more. NULL: does nothing. */
void mt_ring_destroy(struct mt_ring *ring);
/* mt_ring_reset -- empty again: no position that was handed out is contained any more. Nothing is held. */
void mt_ring_reset(struct mt_ring *ring);
/* mt_ring_bytes -- device memory that it has now. */
uint64_t mt_ring_bytes(const struct mt_ring *ring);
/*
 * mt_ring_reserve -- contiguous room for a batch, held once
 *
 * Shape:   @bytes_min up to BATCH_BYTES_MAX, and up to @bytes_max.
 * Returns: 0, with @bytes_min to @bytes_max bytes at *@ret_position. -ENOBUFS: a slab of this ring is held that must go
 *          first; a release of this ring's tells when to try again.
 */
int mt_ring_reserve(struct mt_ring *ring, uint32_t bytes_min, uint32_t bytes_max,
    uint64_t *ret_position, uint32_t *ret_bytes);
/* mt_ring_commit -- shrink the newest reservation to @bytes (at least 64 stay). */
void mt_ring_commit(struct mt_ring *ring, uint64_t position, uint32_t bytes);
/* hold: stays where it is (in flight, or being read); counted. Any position within the reservation will do. */
void mt_ring_hold(struct mt_ring *ring, uint64_t position);
void mt_ring_release(struct mt_ring *ring, uint64_t position);
bool mt_ring_contains(const struct mt_ring *ring, uint64_t position);
dev_ptr mt_ring_at(const struct mt_ring *ring, uint64_t position);

#endif /* CLEAVE_MIDDLETIER_INDEX_RING_H */
