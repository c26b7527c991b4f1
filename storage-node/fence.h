/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- shard -> epoch: requests of older epochs are refused; fence.c has the picture */
#ifndef CLEAVE_STORAGE_FENCE_H
#define CLEAVE_STORAGE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "format/ondisk.h"
#include "sync.h"

struct node;

/*
 * The most that an epoch may be above the fence. A take-over raises the epoch by 1, `cleave recover` by 1,024 where
 * it did not hear all nodes; 2^20 take-overs are one a minute for two years.
 */
#define SN_FENCE_JUMP_MAX (1u << 20)

enum fence_state { FENCE_CLEAN, FENCE_WRITING, FENCE_SYNCING, FENCE_STATE_NR };
extern const struct sm_state fence_table[FENCE_STATE_NR];

/* A wait for a durable fence, its owner's. */
struct sn_fence_waiter {
	struct loop_link link; /* in the page's waiting or covered */
	void (*fn)(struct sn_fence_waiter *waiter, int rc);
};

struct sn_fence_page {
	struct sm sm;
	struct node *node;
	struct ondisk_fence now; /* what is enforced; its generation is the durable one's */
	uint32_t durable_epochs[ONDISK_FENCE_SHARDS];
	uint32_t writing_epochs[ONDISK_FENCE_SHARDS]; /* in the write in flight */
	struct loop_link waiting;                     /* for a write that is not submitted yet */
	struct loop_link covered;                     /* by the one in flight */
	struct disk_io io;
	struct dev_piece piece;
	struct sn_sync_waiter sync_waiter;
	void *page; /* ONDISK_PAGE_BYTES, being written */
	/* The store_id in the write in flight, and the youngest on the disk. */
	struct store_id writing_store, durable_store;
	uint32_t
	    store_copies; /* of the page's two copies, those that have durable_store; 0: none is read yet */
};

/* sn_fence_init -- all fences at 0, once. Returns 0 or -ENOMEM. */
int sn_fence_init(struct node *node);
/* sn_fence_fini -- free them; the disk is closed. Also before sn_fence_init. */
void sn_fence_fini(struct node *node);
/* sn_fence_load -- take @fence, a decoded copy of one of this disk's pages. At start, both copies, in any order. */
void sn_fence_load(struct node *node, const struct ondisk_fence *fence);
/* sn_fence_note -- an extent of @shard on the disk names @epoch: the fence is not below it from here on. */
void sn_fence_note(struct node *node, uint32_t shard, uint32_t epoch);
/* sn_fence_epoch -- the epoch below which requests for @shard (< CLEAVE_SHARDS_MAX) are refused; 0: none is. */
uint32_t sn_fence_epoch(const struct node *node, uint32_t shard);
/*
 * sn_fence_raise -- refuse epochs below @epoch for @shard, at once and durably
 *
 * @epoch: not below the fence. Returns 1: durable already, @waiter is not used; 0: @waiter is the node's until @fn,
 * which is called once, never from inside: rc 0, durable; a negative errno: the fence holds in memory alone.
 */
int sn_fence_raise(struct node *node, uint32_t shard, uint32_t epoch,
    struct sn_fence_waiter *waiter, void (*fn)(struct sn_fence_waiter *waiter, int rc));
/*
 * sn_fence_is_near -- can the shard's owners have come to @epoch since the fence was raised?
 *
 * No: @epoch is more than SN_FENCE_JUMP_MAX above it. Believed, such a one would use up the epochs, and shut the
 * shard's owner out.
 */
bool sn_fence_is_near(const struct node *node, uint32_t shard, uint32_t epoch);

/* The identity of the metadata store, in page 0; store.c decides upon it. */

/* sn_fence_store_id -- the store_id that is enforced; zero: none yet. */
struct store_id sn_fence_store_id(const struct node *node);
/* sn_fence_set_store_id -- enforce @store, which is not zero, from now on, in memory alone. */
void sn_fence_set_store_id(struct node *node, const struct store_id *store);
/*
 * sn_fence_store -- make one copy of page 0, with the store_id, durable
 *
 * @waiter is the node's until @fn, which is called once, never from inside: 0 or a negative errno.
 */
void sn_fence_store(struct node *node, struct sn_fence_waiter *waiter,
    void (*fn)(struct sn_fence_waiter *waiter, int rc));
/* sn_fence_store_is_durable -- have both copies of page 0 the store_id that is enforced? */
bool sn_fence_store_is_durable(const struct node *node);

#endif /* CLEAVE_STORAGE_FENCE_H */
