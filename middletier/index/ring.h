/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h -- the device ring that holds the newest part of a shard's log */
#ifndef CLEAVE_MIDDLETIER_INDEX_RING_H
#define CLEAVE_MIDDLETIER_INDEX_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"

struct mt_port;
struct mt_ring_entry;

struct mt_ring {
	dev_ptr base;
	uint64_t size_bytes;
	uint64_t head; /* next position to hand out; positions only grow; 0 is never used */
	uint64_t tail; /* oldest position still valid */
	/* batches in ring order, oldest first: entries with position, bytes, pin count */
	struct mt_ring_entry *entries;
	uint32_t entry_head, entry_count, entry_max;
};
/* mt_ring_create -- over @size_bytes of @port's device memory. NULL: there is not as much, or no memory. */
struct mt_ring *mt_ring_create(struct mt_port *port, uint64_t size_bytes);
/* mt_ring_destroy -- give the device memory back, if @port still has it. NULL: does nothing. */
void mt_ring_destroy(struct mt_ring *ring, struct mt_port *port);
/* mt_ring_reset -- empty again, as after mt_ring_create and mt_ring_give. Nothing is held. */
void mt_ring_reset(struct mt_ring *ring);
/* mt_ring_give -- before the first reservation: take @bytes of its memory for something else. */
dev_ptr mt_ring_give(struct mt_ring *ring, uint64_t bytes);
/*
 * mt_ring_reserve -- contiguous room for a batch, held once; evicts the oldest released entries
 *
 * Returns 0; -ENOBUFS: the oldest is held, or @bytes is more than the ring.
 */
int mt_ring_reserve(struct mt_ring *ring, uint32_t bytes, uint64_t *ret_position);
/* mt_ring_commit -- shrink the newest reservation to @bytes (at least 64 stay). */
void mt_ring_commit(struct mt_ring *ring, uint64_t position, uint32_t bytes);
/* hold: not evictable (in flight, or being read); counted. Any position within the entry will do. */
void mt_ring_hold(struct mt_ring *ring, uint64_t position);
void mt_ring_release(struct mt_ring *ring, uint64_t position);
bool mt_ring_contains(const struct mt_ring *ring, uint64_t position);
dev_ptr mt_ring_at(const struct mt_ring *ring, uint64_t position);

#endif /* CLEAVE_MIDDLETIER_INDEX_RING_H */
