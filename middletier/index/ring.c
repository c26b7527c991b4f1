/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c -- the device memory that holds the newest part of a shard's log
 *
 * A *position* counts bytes handed out since the shard began; it lies in memory at position modulo
 * the ring's size. An *entry* is one batch's packed payloads, contiguous: where the ring's end is too
 * near, the rest of the lap is skipped. Entries leave in the order in which they came, oldest first,
 * and only when nobody holds them.
 *
 *	tail                                  head
 *	 | entry | entry | gap | entry | entry |      positions, growing
 *
 * An index that remembers a position asks mt_ring_contains: nothing tells it when an entry leaves.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/search.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/port.h"
#include "index/ring.h"

#define RING_ALIGN 64u
#define RING_ENTRIES_MIN 16u
#define RING_ENTRIES_MAX 65536u
#define RING_LOOK_BACK 4u
#define RING_BYTES_AN_ENTRY 4096u /* how long batches have to be for the whole ring to be used */

struct mt_ring_entry {
	uint64_t position;
	uint32_t bytes;
	uint32_t hold_count;
};

static struct mt_ring_entry *
ring_entry_at(const struct mt_ring *ring, uint32_t index)
{
	uint32_t at = ring->entry_head + index;

	assert(index < ring->entry_count);
	return &ring->entries[at < ring->entry_max ? at : at - ring->entry_max];
}

struct mt_ring *
mt_ring_create(struct mt_port *port, uint64_t size_bytes)
{
	struct mt_ring *ring = mt_calloc(1, sizeof(*ring));
	uint64_t entry_max =
	    num_max(RING_ENTRIES_MIN, num_min(size_bytes / RING_BYTES_AN_ENTRY, RING_ENTRIES_MAX));

	assert(num_is_aligned(size_bytes, RING_ALIGN));
	if (ring == NULL)
		return NULL;
	*ring = (struct mt_ring){ .size_bytes = size_bytes, .entry_max = (uint32_t)entry_max };
	/* The first lap starts at memory's beginning, and no position is ever 0. */
	ring->head = ring->tail = size_bytes;
	ring->base = dev_alloc(port->split, size_bytes);
	if (dev_ptr_is_null(ring->base))
		goto err;
	ring->entries = mt_calloc(ring->entry_max, sizeof(*ring->entries));
	if (ring->entries == NULL)
		goto err_base;
	return ring;

err_base:
	dev_free(port->split, ring->base);
err:
	mt_free(ring);
	return NULL;
}

void
mt_ring_destroy(struct mt_ring *ring, struct mt_port *port)
{
	if (ring == NULL)
		return;
	/* A port that was closed has taken its arena along. */
	if (port->split != NULL && !dev_ptr_is_null(ring->base))
		dev_free(port->split, ring->base);
	mt_free(ring->entries);
	mt_free(ring);
}

void
mt_ring_reset(struct mt_ring *ring)
{
	for (uint32_t i = 0; i < ring->entry_count; i++)
		assert(ring_entry_at(ring, i)->hold_count == 0);
	ring->entry_head = ring->entry_count = 0;
	ring->head = ring->tail = ring->size_bytes;
}

dev_ptr
mt_ring_give(struct mt_ring *ring, uint64_t bytes)
{
	assert(ring->entry_count == 0);
	assert(ring->head == ring->size_bytes);
	assert(num_is_aligned(bytes, RING_ALIGN));
	assert(bytes < ring->size_bytes);
	ring->size_bytes -= bytes;
	ring->head = ring->tail = ring->size_bytes;
	return dev_ptr_add(ring->base, ring->size_bytes);
}

/* The oldest entry leaves, unless it is held. */
static bool
ring_evict(struct mt_ring *ring)
{
	assert(ring->entry_count > 0);
	if (ring_entry_at(ring, 0)->hold_count > 0)
		return false;
	ring->entry_head = ring->entry_head + 1 < ring->entry_max ? ring->entry_head + 1 : 0;
	ring->entry_count--;
	ring->tail = ring->entry_count > 0 ? ring_entry_at(ring, 0)->position : ring->head;
	return true;
}

int
mt_ring_reserve(struct mt_ring *ring, uint32_t bytes, uint64_t *ret_position)
{
	uint64_t position = ring->head;
	uint64_t in_lap = position % ring->size_bytes;

	assert(bytes > 0);
	if (bytes > ring->size_bytes)
		return -ENOBUFS;
	if (in_lap + bytes > ring->size_bytes)
		position += ring->size_bytes - in_lap;
	while (ring->entry_count > 0 &&
	    (ring->entry_count == ring->entry_max ||
		position + bytes - ring->tail > ring->size_bytes)) {
		if (!ring_evict(ring))
			return -ENOBUFS;
	}
	if (ring->entry_count == 0)
		ring->tail = position;
	ring->entry_count++;
	*ring_entry_at(ring, ring->entry_count - 1) =
	    (struct mt_ring_entry){ .position = position, .bytes = bytes, .hold_count = 1 };
	ring->head = position + bytes;
	*ret_position = position;
	return 0;
}

void
mt_ring_commit(struct mt_ring *ring, uint64_t position, uint32_t bytes)
{
	struct mt_ring_entry *newest = ring_entry_at(ring, ring->entry_count - 1);
	uint64_t kept = num_max(num_round_up(bytes, RING_ALIGN), RING_ALIGN);

	assert(newest->position == position);
	assert(bytes <= newest->bytes);
	/* Never nothing: two entries at one position could not be told apart. */
	newest->bytes = (uint32_t)num_min(kept, newest->bytes);
	ring->head = position + newest->bytes;
}

/* The entry that @position lies in: the last one that begins at or before it. */
static struct mt_ring_entry *
ring_find(const struct mt_ring *ring, uint64_t position)
{
	struct mt_ring_entry *entry;
	uint32_t behind;

	assert(mt_ring_contains(ring, position));
	/* Batches that end are among the newest. */
	for (uint32_t i = 1; i <= RING_LOOK_BACK && i <= ring->entry_count; i++) {
		entry = ring_entry_at(ring, ring->entry_count - i);
		if (entry->position <= position)
			return entry;
	}
	SEARCH_FIRST(behind, ring->entry_count, ring_entry_at(ring, behind)->position <= position);
	entry = ring_entry_at(ring, behind - 1);
	assert(position - entry->position < entry->bytes);
	return entry;
}

void
mt_ring_hold(struct mt_ring *ring, uint64_t position)
{
	ring_find(ring, position)->hold_count++;
}

void
mt_ring_release(struct mt_ring *ring, uint64_t position)
{
	struct mt_ring_entry *entry = ring_find(ring, position);
	assert(entry->hold_count > 0);
	entry->hold_count--;
}

bool
mt_ring_contains(const struct mt_ring *ring, uint64_t position)
{
	return position != 0 && position >= ring->tail && position < ring->head &&
	    ring->entry_count > 0;
}

dev_ptr
mt_ring_at(const struct mt_ring *ring, uint64_t position)
{
	assert(position != 0);
	return dev_ptr_add(ring->base, position % ring->size_bytes);
}
