/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h -- a snapshot's cut through a shard: writes before it are durable, those after it wait */
#ifndef CLEAVE_MIDDLETIER_WRITE_CUT_H
#define CLEAVE_MIDDLETIER_WRITE_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/units.h"

struct mt_shard;

enum mt_cut_state {
	MT_CUT_IDLE,
	MT_CUT_DRAINING,   /* records of before are on their way to their replicas */
	MT_CUT_COMMITTING, /* the edit is on its way to the manifest */
	MT_CUT_HOLDING,    /* answered */
	MT_CUT_BROKEN,     /* given up while the edit was on its way */
	MT_CUT_STATE_NR
};

/*
 * Which volumes are cut, and held, at once. The snapshot of segment_bases[0] is @number, that of each next volume
 * has the next number: a shard goes from a cut below all of them to the last, and no record lies between.
 */
struct mt_cut_order {
	uint64_t number;
	uint32_t segment_count; /* of each volume: all that it was allotted */
	uint32_t volume_count;
	uint64_t segment_bases[CLEAVE_GROUP_VOLUMES_MAX];
};
typedef void (*mt_cut_fn)(int rc, void *arg);

struct mt_cut {
	struct sm sm;
	struct mt_cut_order order; /* not IDLE */
	struct loop_timer timer;
	mt_cut_fn fn; /* NULL: was called */
	void *arg;
};
/* mt_cut_is_holding -- are answers kept back now, the cut made or not? */
static inline bool
mt_cut_is_holding(const struct mt_cut *cut)
{
	return cut->sm.state >= MT_CUT_DRAINING && cut->sm.state <= MT_CUT_HOLDING;
}

/* mt_cut_last -- the number of the last volume's snapshot: what is batched from now on has this cut. */
static inline uint64_t
mt_cut_last(const struct mt_cut_order *order)
{
	return order->number + order->volume_count - 1;
}

/* mt_cut_has -- is @segment one of the volumes'? */
bool mt_cut_has(const struct mt_cut_order *order, uint64_t segment);
/* mt_cut_holds -- is the answer to a write of @segment kept back now? */
static inline bool
mt_cut_holds(const struct mt_cut *cut, uint64_t segment)
{
	return mt_cut_is_holding(cut) && mt_cut_has(&cut->order, segment);
}

/* mt_cut_init -- of mt_write_path_init: shard->write is there, and has the cut. */
void mt_cut_init(struct mt_shard *shard);
/*
 * mt_cut_begin -- keep back the answers to the volumes' writes, and cut
 *
 * Returns 0: @fn is called once, later: 0, all records of before are durable, so is the cut, and answers are
 * held; -ETIMEDOUT, or what has stopped the shard: nothing is held. Else never: -EREMCHG it does not
 * serve; -EBUSY another one is being made; -EAGAIN it knows a greater number; -ENOMEM, -ENOBUFS.
 */
int mt_cut_begin(struct mt_shard *shard, const struct mt_cut_order *order, mt_cut_fn fn, void *arg);
/*
 * mt_cut_can_begin -- what would mt_cut_begin say to an order from @number on now, and would the hold count?
 *
 * 0; -EREMCHG, -EBUSY, -EAGAIN as there; -ETIMEDOUT it has no lease. Does nothing.
 */
int mt_cut_can_begin(const struct mt_shard *shard, uint64_t number);
/* mt_cut_is_held -- since the order from @number on was answered under the present epoch no answer has gone out. */
bool mt_cut_is_held(const struct mt_shard *shard, uint64_t number);
/* mt_cut_release -- the answers that were kept back for @number go out. Not its own: nothing. */
void mt_cut_release(struct mt_shard *shard, uint64_t number);
/* mt_cut_on_batch -- a batch of the log has ended. */
void mt_cut_on_batch(struct mt_shard *shard);
/* mt_cut_stop -- the shard stops, or goes: @rc 0 calls nobody. */
void mt_cut_stop(struct mt_shard *shard, int rc);
/*
 * mt_cut_drop -- no scope names @number any more: merges may mix both its sides, and no order of it begins any more
 *
 * 0: the manifest has no cut of it, and knows it or a greater number, durably: mt_cut_begin refuses it, here and at
 * each later owner. -EAGAIN: it is under way, or waits for an order that is at work: call it again later.
 */
int mt_cut_drop(struct mt_shard *shard, uint64_t number);

#endif /* CLEAVE_MIDDLETIER_WRITE_CUT_H */
