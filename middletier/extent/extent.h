/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h -- what extent.c, which makes and ends extents, and replicate.c, which fills them, share */
#ifndef CLEAVE_MIDDLETIER_EXTENT_EXTENT_H
#define CLEAVE_MIDDLETIER_EXTENT_EXTENT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/replica.h"

struct mt_extent;
struct mt_link;
struct mt_shard;

enum mt_extent_state {
	MT_EXTENT_CREATING, /* CREATE at its nodes outstanding */
	MT_EXTENT_OPEN,     /* takes appends */
	MT_EXTENT_BROKEN,   /* a replica failed: no more appends; can only be sealed */
	MT_EXTENT_SEALED,   /* its length is in the manifest */
	MT_EXTENT_STATE_NR
};
typedef void (*mt_extent_fn)(struct mt_extent *extent, int rc, void *arg);

struct mt_extent {
	uint32_t magic;
	struct mt_shard *shard;
	struct extent_id id;
	enum extent_kind kind;
	uint32_t index; /* mt_shard_extent: what locations say */
	struct sm sm;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t capacity_bytes;
	uint64_t end_bytes;    /* where the next append goes */
	uint64_t acked_bytes;  /* acknowledged by every replica; the mark */
	uint64_t sealed_bytes; /* SEALED: the agreed length */
	uint32_t chain_crc;
	struct loop_link appends; /* batches in flight, oldest first */
	uint32_t append_count;
	uint32_t read_rotor;        /* spreads reads over replicas: mt_extent_copies */
	struct loop_link requests;  /* CREATE, TRUNCATE, DELETE outstanding at nodes */
	struct loop_task make_task; /* ends a creation that no node was asked for */
	mt_extent_fn make_fn;
	void *make_arg;
	int make_rc;
	bool is_going;               /* failed or deleted: freed when its requests have ended */
	struct loop_link shard_link; /* shard->live_extents */
	uint64_t placed_ns;          /* when its replicas were last made */
	uint64_t repair_ns;          /* not repaired again before */
	uint32_t balance_round,
	    balance_count;  /* rebalance.c: how often it was moved, or tried, in that round */
	bool is_dirty;      /* its replicas' flags are not what the manifest says */
	bool is_reserve;    /* mt_extent_create_reserve */
	uint32_t run_count; /* EXTENT_RUN: live ones, index.c */
	uint32_t use_count; /* mt_extent_use */
	uint64_t run_bytes; /* of those */
};

/*
 * mt_extent_create -- place and create an extent at three nodes, or at min_replicas at least
 *
 * Returns a CREATING extent, @fn follows once, never within the call. rc 0: OPEN; -EHOSTDOWN,
 * -ENOSPC, -ESTALE (a node knows a newer owner): the extent is gone after @fn. NULL with errno
 * ENOMEM, or ENOSPC when the epoch has no numbers left: no @fn.
 */
struct mt_extent *mt_extent_create(struct mt_shard *shard, enum extent_kind kind, mt_extent_fn fn,
    void *arg);
/* mt_extent_create_reserve -- a log extent, also of what nodes keep back: for tombstones. */
struct mt_extent *mt_extent_create_reserve(struct mt_shard *shard, mt_extent_fn fn, void *arg);
/* mt_extent_restore -- one that the manifest names: SEALED (or BROKEN, to be agreed upon). */
struct mt_extent *mt_extent_restore(struct mt_shard *shard, const struct extent_id *id,
    enum extent_kind kind, const struct mt_replica *replicas, uint32_t replica_count);
/* Where an open extent is, for who goes on with it. */
struct mt_extent_end {
	uint64_t capacity_bytes, end_bytes, acked_bytes;
	uint32_t chain_crc;
};
/* mt_extent_adopt -- likewise, OPEN: appends go on at @end, and nobody else's do meanwhile. */
struct mt_extent *mt_extent_adopt(struct mt_shard *shard, const struct extent_id *id,
    enum extent_kind kind, const struct mt_replica *replicas, uint32_t replica_count,
    const struct mt_extent_end *end);
/* mt_extent_free -- NULL is a no-op; requests and appends that are out end unseen. */
void mt_extent_free(struct mt_extent *extent);
/* mt_extent_seal -- OPEN or BROKEN becomes SEALED at @bytes, which the manifest holds durably. */
void mt_extent_seal(struct mt_extent *extent, uint64_t bytes);
/* mt_extent_truncate_replicas -- tell nodes that are up the sealed length; repeated when links come up. */
void mt_extent_truncate_replicas(struct mt_extent *extent);
/* mt_extent_delete -- delete at the nodes that are up, best effort, then free. */
void mt_extent_delete(struct mt_extent *extent);

/*
 * mt_extent_use -- it is not reclaimed before as many mt_extent_unuse, though nothing live is in it
 *
 * For who has written, or is about to write, what no edit names yet.
 */
static inline void
mt_extent_use(struct mt_extent *extent)
{
	extent->use_count++;
}

static inline void
mt_extent_unuse(struct mt_extent *extent)
{
	assert(extent->use_count > 0);
	extent->use_count--;
}
/* mt_extent_on_link -- a link of the port went down or came up. */
void mt_extent_on_link(struct mt_extent *extent, struct mt_link *link, bool is_up);

#define MT_EXTENT_MAGIC 0x54545845u     /* "EXTT" */
#define MT_EXTENT_OVERHEAD_BYTES 12288u /* of a node's slot: header page and two state pages */

/* mt_extent_break -- OPEN becomes BROKEN, with one line that says why; else a no-op. */
void mt_extent_break(struct mt_extent *extent, uint32_t node_id, int rc);

/* mt_extent_drop_copy -- delete that incarnation, best effort: nobody names it. 0, or why not. */
int mt_extent_drop_copy(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation);
/* So old is an open extent before it is made anew for want of replicas: not at every blink of a link. */
#define MT_EXTENT_TEND_NS NUM_S(5)
/* mt_extent_requests_are_quiet -- nothing is outstanding at nodes but appends: their batches are others'. */
bool mt_extent_requests_are_quiet(const struct mt_shard *shard);
/*
 * mt_extent_requests_fini -- forget what is outstanding at nodes, and free what waited for it
 *
 * For the end of a shard whose links will not answer any more (a process that is killed).
 */
void mt_extent_requests_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_EXTENT_EXTENT_H */
