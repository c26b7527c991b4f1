/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h -- the arithmetic of how fast merges go, and how fast writes come in (pace.c)
 *
 * *Pressure* is how much of its room the log has taken, per mille: 0 up to half of the soft limit, 500 at
 * that, 1000 at the hard one. Rates are bytes a second; PACE_UNLIMITED is none.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_PACE_H
#define CLEAVE_MIDDLETIER_MERGE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_UNLIMITED UINT64_MAX
#define PACE_HURRY                                                                                 \
	500u /* from this pressure on merges go as fast as they can, and writes wait for them */
#define PACE_BACKGROUND                                                                            \
	250u /* up to this pressure merges compress in the background, where there is one; beside few writes up to PACE_HURRY */
#define PACE_COMPRESS                                                                              \
	250u /* from this pressure on what comes without a codec is compressed before it gets to the log */
#define PACE_FULL 1000u /* the greatest: at the hard limit, or beyond */

/* mt_pace_pressure -- of @used bytes against limits; @soft 0: there are none. */
uint32_t mt_pace_pressure(uint64_t used, uint64_t soft, uint64_t hard);

/* The rate at which clients write through a port. All zeros: nothing was told yet. */
struct pace_inflow {
	uint64_t begin_ns; /* of what is being measured; 0: nothing is */
	uint64_t bytes;    /* of all that was written, at that time */
	uint64_t rate;     /* as it was measured last; 0: nobody writes */
};

/* mt_pace_inflow_note -- clients have written @bytes since ever; the rate is that of the last PACE_INFLOW_NS or more. */
void mt_pace_inflow_note(struct pace_inflow *inflow, uint64_t now_ns, uint64_t bytes);

/*
 * mt_pace_followed -- which rate merges follow, with @write_count writes in flight: @inflow_rate beside few of them
 *
 * PACE_UNLIMITED: none. Who has many has them wait for each other, not for a merge's batch, and writes more as he can.
 */
uint64_t mt_pace_followed(uint32_t write_count, uint64_t inflow_rate);
/* mt_pace_merge_rate -- how much, plain, merges take of a port while its clients write; @followed: mt_pace_followed. */
uint64_t mt_pace_merge_rate(uint32_t pressure, uint64_t followed);
/* mt_pace_window_bytes -- plain bytes that a merge takes in one go at @rate: between two of them clients go first. */
uint64_t mt_pace_window_bytes(uint64_t rate, uint64_t followed);
/*
 * mt_pace_batch_bytes -- of one batch of a run, at most: short beside few writes, which wait for it at the disks
 *
 * @is_written: clients write.
 */
uint32_t mt_pace_batch_bytes(bool is_written, uint64_t followed);
/*
 * mt_pace_is_background -- are a merge's engine jobs done in the background, where there is one?
 *
 * Beside few writes longer: each of these would wait for the turn that such jobs take. @is_written, @followed: as above.
 */
bool mt_pace_is_background(uint32_t pressure, bool is_written, uint64_t followed);
/* mt_pace_reads -- a merge's READs that are out at a time: few, before those of clients at the nodes, while it is at leisure. */
uint32_t mt_pace_reads(uint32_t pressure);
/* mt_pace_turn_jobs -- a merge's engine jobs in a turn; @is_written: clients write; @is_ahead: short turns. */
uint32_t mt_pace_turn_jobs(uint32_t pressure, bool is_written, bool is_ahead);

struct pace_drain {
	uint64_t rate;     /* 0: not known */
	uint64_t begin_ns; /* of what is being measured; 0: nothing is */
	uint64_t bytes;
};

/* mt_pace_drain_note -- @bytes have gone from the log, under @pressure before that. */
void mt_pace_drain_note(struct pace_drain *drain, uint64_t now_ns, uint64_t bytes,
    uint32_t pressure);

/*
 * mt_pace_write_rate -- at which a log may get longer that drains, or has a part of a port's drain, at @drain_rate
 *
 * @drain_rate 0: that is not known. Then what is left of the room, @left_bytes, is made to last.
 */
uint64_t mt_pace_write_rate(uint32_t pressure, uint64_t drain_rate, uint64_t left_bytes);

/* mt_pace_pay -- @bytes were taken: until when what was taken is paid for, which was @paid_ns. */
uint64_t mt_pace_pay(uint64_t paid_ns, uint64_t now_ns, uint64_t bytes, uint64_t rate);

#endif /* CLEAVE_MIDDLETIER_MERGE_PACE_H */
