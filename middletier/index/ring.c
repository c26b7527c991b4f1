/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c -- the device memory that holds the newest part of a shard's log, which a port's shards share by the slab
 *
 * A *position* counts bytes handed out since the shard began. It lies in the slab of its number, position >> slab_shift,
 * which may be anywhere in the pool's memory: a table says where. A batch's payloads are contiguous: where the slab's
 * end is too near the next slab begins. Slabs leave a ring oldest first, and only when nobody holds them.
 *
 *	number   first                      end - 1
 *	        | slab | slab | slab | slab |            positions, growing; head is in the last one
 *
 * Who writes in order writes one shard at a time, whose log is long while those of others are not (merge/log_pool.c).
 * What its ring has not any more a merge reads from nodes. So a ring takes slabs as it needs them, and gives them up when
 * others need them more:
 *
 *	a ring gets own_count slabs whatever the others have: so many are kept free for each that has less, and for
 *	    each that the port may have later. So nobody ever waits for another shard's batches or reads.
 *	above that it takes what is free, then what is *dead*: slabs that lie before the first record of the oldest layer
 *	    of their shard, of which all has been flushed, and which no lookup finds any more
 *	then the slab that was taken first, of all rings that have more than their own; or the oldest that it has
 *
 * An index that remembers a position asks mt_ring_contains: nothing tells it when a slab leaves.
 */
#include "index/ring.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/index.h"

#define RING_ALIGN 64u
#define RING_SLABS_A_RING 16u   /* that many for each, if they are long enough */
#define RING_SLAB_SHIFT_MIN 18u /* a batch */
#define RING_SLAB_SHIFT_MAX 20u /* longer only where there are RING_SLABS_MAX */
#define RING_SLABS_MAX 8192u    /* of a pool: each ring has a table of them */
#define RING_OWN_SHARE 4u       /* a ring is sure of a quarter of its part */
#define RING_OWN_COUNT_MIN                                                                         \
	4u /* and of so many, or all of its part: batches are in flight in them */

_Static_assert(BATCH_BYTES_MAX <= 1u << RING_SLAB_SHIFT_MIN, "a slab holds a batch");

struct mt_ring_slab {
	uint32_t place; /* in the pool's memory */
	uint32_t hold_count;
	uint64_t taken; /* pool->taken_count then */
};

/* ---- the pool ---- */

static uint32_t
pool_slab_shift(uint64_t bytes, uint32_t ring_max)
{
	uint32_t shift = RING_SLAB_SHIFT_MIN;

	while (shift < RING_SLAB_SHIFT_MAX && bytes / ring_max >> (shift + 1) >= RING_SLABS_A_RING)
		shift++;
	while (bytes >> shift > RING_SLABS_MAX)
		shift++;
	assert(shift < 32);
	return shift;
}

static uint64_t
pool_slab_bytes(const struct mt_ring_pool *pool)
{
	return UINT64_C(1) << pool->slab_shift;
}

static uint32_t
pool_own_count(const struct mt_ring_pool *pool)
{
	uint32_t part_count = pool->slab_count / pool->ring_max;

	assert(part_count > 0);
	return (
	    uint32_t)num_max(part_count / RING_OWN_SHARE, num_min(part_count, RING_OWN_COUNT_MIN));
}

struct mt_ring_pool *
mt_ring_pool_create(struct mt_port *port, uint64_t bytes, uint32_t ring_max)
{
	struct mt_ring_pool *pool = mt_calloc(1, sizeof(*pool));

	assert(ring_max > 0);
	assert(bytes / ring_max >= BATCH_BYTES_MAX);
	if (pool == NULL)
		return NULL;
	pool->port = port;
	pool->ring_max = ring_max;
	pool->slab_shift = pool_slab_shift(bytes, ring_max);
	pool->slab_count = pool->free_count = (uint32_t)(bytes >> pool->slab_shift);
	pool->own_count = pool_own_count(pool);
	pool->promised_count = pool->own_count * ring_max;
	list_init(&pool->rings);
	pool->base = dev_alloc(port->split, pool->slab_count * pool_slab_bytes(pool));
	if (dev_ptr_is_null(pool->base))
		goto err;
	pool->free_slabs = mt_calloc(pool->slab_count, sizeof(*pool->free_slabs));
	if (pool->free_slabs == NULL)
		goto err_base;
	for (uint32_t i = 0; i < pool->slab_count; i++)
		pool->free_slabs[i] = pool->slab_count - 1 - i;
	return pool;

err_base:
	dev_free(port->split, pool->base);
err:
	mt_free(pool);
	return NULL;
}

void
mt_ring_pool_destroy(struct mt_ring_pool *pool)
{
	if (pool == NULL)
		return;
	assert(pool->ring_count == 0);
	assert(pool->free_count == pool->slab_count);
	/* A port that was closed has taken its arena along. */
	if (pool->port->split != NULL)
		dev_free(pool->port->split, pool->base);
	mt_free(pool->free_slabs);
	mt_free(pool);
}

/* ---- a ring's slabs ---- */

static uint64_t
ring_slab_count(const struct mt_ring *ring)
{
	assert(ring->first <= ring->end);
	return ring->end - ring->first;
}

static struct mt_ring_slab *
ring_slab(const struct mt_ring *ring, uint64_t number)
{
	assert(number >= ring->first && number < ring->end);
	return &ring->slabs[number % ring->pool->slab_count];
}

static struct mt_ring_slab *
ring_slab_of(const struct mt_ring *ring, uint64_t position)
{
	assert(mt_ring_contains(ring, position));
	return ring_slab(ring, position >> ring->pool->slab_shift);
}

/* The oldest slab leaves, whoever holds it. */
static void
ring_drop(struct mt_ring *ring)
{
	struct mt_ring_pool *pool = ring->pool;

	assert(ring_slab_count(ring) > 0);
	pool->free_slabs[pool->free_count++] = ring_slab(ring, ring->first)->place;
	ring->first++;
	pool->promised_count += ring_slab_count(ring) < pool->own_count;
	assert(pool->free_count <= pool->slab_count);
}

static void
ring_evict(struct mt_ring *ring)
{
	assert(ring_slab(ring, ring->first)->hold_count == 0 || MUTANT(ring_held_taken));
	ring_drop(ring);
}

/* There is a free one for it. */
static void
ring_take(struct mt_ring *ring)
{
	struct mt_ring_pool *pool = ring->pool;

	assert(pool->free_count > 0);
	pool->promised_count -= ring_slab_count(ring) < pool->own_count;
	ring->head = ring->end << pool->slab_shift;
	ring->end++;
	*ring_slab(ring, ring->end - 1) =
	    (struct mt_ring_slab){ .place = pool->free_slabs[--pool->free_count],
		    .taken = pool->taken_count++ };
	assert(pool->free_count >= pool->promised_count);
}

static bool
ring_may_evict(const struct mt_ring *ring)
{
	return ring_slab_count(ring) > 0 &&
	    (ring_slab(ring, ring->first)->hold_count == 0 || MUTANT(ring_held_taken));
}

/* No lookup finds a record in its oldest slab. */
static bool
ring_is_dead(const struct mt_ring *ring)
{
	return ring->shard != NULL && ring->shard->block_index != NULL &&
	    (ring->first + 1) << ring->pool->slab_shift <=
	    mt_index_ring_begin(ring->shard->block_index);
}

/* Whose oldest slab goes for one of @for_ring; NULL: nobody's may. */
static struct mt_ring *
pool_victim(const struct mt_ring_pool *pool, struct mt_ring *for_ring)
{
	struct mt_ring *victim = NULL;

	if (ring_may_evict(for_ring) && ring_is_dead(for_ring))
		return for_ring;
	for (struct loop_link *link = pool->rings.next; link != &pool->rings; link = link->next) {
		struct mt_ring *ring = LIST_ENTRY(link, struct mt_ring, link);

		if (ring_slab_count(ring) <= pool->own_count || !ring_may_evict(ring))
			continue;
		if (ring_is_dead(ring))
			return ring;
		if (victim == NULL ||
		    ring_slab(ring, ring->first)->taken < ring_slab(victim, victim->first)->taken)
			victim = ring;
	}
	if (victim == NULL && ring_may_evict(for_ring))
		victim = for_ring;
	return victim;
}

static bool
ring_grow(struct mt_ring *ring)
{
	struct mt_ring_pool *pool = ring->pool;
	struct mt_ring *victim;

	if (ring_slab_count(ring) >= pool->own_count && pool->free_count == pool->promised_count) {
		victim = pool_victim(pool, ring);
		if (victim == NULL)
			return false;
		ring_evict(victim);
	}
	ring_take(ring);
	return true;
}

/* ---- a ring ---- */

struct mt_ring *
mt_ring_create(struct mt_ring_pool *pool, const struct mt_shard *shard)
{
	struct mt_ring *ring = mt_calloc(1, sizeof(*ring));

	assert(pool->ring_count < pool->ring_max);
	if (ring == NULL)
		return NULL;
	ring->slabs = mt_calloc(pool->slab_count, sizeof(*ring->slabs));
	if (ring->slabs == NULL) {
		mt_free(ring);
		return NULL;
	}
	ring->pool = pool;
	ring->shard = shard;
	ring->first = ring->end = 1; /* so that no position is ever 0 */
	ring->head = pool_slab_bytes(pool);
	list_push_back(&pool->rings, &ring->link);
	pool->ring_count++;
	return ring;
}

void
mt_ring_destroy(struct mt_ring *ring)
{
	if (ring == NULL)
		return;
	while (ring_slab_count(ring) > 0)
		ring_drop(ring);
	list_remove(&ring->link);
	ring->pool->ring_count--;
	mt_free(ring->slabs);
	mt_free(ring);
}

void
mt_ring_reset(struct mt_ring *ring)
{
	while (ring_slab_count(ring) > 0)
		ring_evict(ring);
	ring->head = ring->end << ring->pool->slab_shift;
}

uint64_t
mt_ring_bytes(const struct mt_ring *ring)
{
	return ring_slab_count(ring) << ring->pool->slab_shift;
}

/* Bytes of its newest slab that nobody has yet. */
static uint64_t
ring_left(const struct mt_ring *ring)
{
	assert(ring->head <= ring->end << ring->pool->slab_shift);
	return ring_slab_count(ring) == 0 ? 0 : (ring->end << ring->pool->slab_shift) - ring->head;
}

int
mt_ring_reserve(struct mt_ring *ring, uint32_t bytes_min, uint32_t bytes_max,
    uint64_t *ret_position, uint32_t *ret_bytes)
{
	assert(bytes_min > 0 && bytes_min <= bytes_max);
	assert(bytes_min <= pool_slab_bytes(ring->pool));
	if (ring_left(ring) < bytes_min && !ring_grow(ring))
		return -ENOBUFS;
	*ret_position = ring->head;
	*ret_bytes = (uint32_t)num_min(bytes_max, ring_left(ring));
	ring->head += *ret_bytes;
	mt_ring_hold(ring, *ret_position);
	return 0;
}

void
mt_ring_commit(struct mt_ring *ring, uint64_t position, uint32_t bytes)
{
	uint64_t kept_bytes = num_max(num_round_up(bytes, RING_ALIGN), RING_ALIGN);

	assert(ring_slab_of(ring, position)->hold_count > 0);
	/* Never nothing: two batches at one position could not be told apart. */
	assert(position < ring->head);
	ring->head = num_min(position + kept_bytes, ring->head);
}

void
mt_ring_hold(struct mt_ring *ring, uint64_t position)
{
	ring_slab_of(ring, position)->hold_count++;
}

void
mt_ring_release(struct mt_ring *ring, uint64_t position)
{
	struct mt_ring_slab *slab = ring_slab_of(ring, position);

	assert(slab->hold_count > 0);
	slab->hold_count--;
}

bool
mt_ring_contains(const struct mt_ring *ring, uint64_t position)
{
	return position != 0 && position < ring->head &&
	    position >> ring->pool->slab_shift >= ring->first;
}

dev_ptr
mt_ring_at(const struct mt_ring *ring, uint64_t position)
{
	const struct mt_ring_pool *pool = ring->pool;

	return dev_ptr_add(pool->base,
	    ((uint64_t)ring_slab_of(ring, position)->place << pool->slab_shift) +
		(position & (pool_slab_bytes(pool) - 1)));
}
