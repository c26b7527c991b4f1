/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.c -- the arithmetic of how fast merges go, and how fast writes come in
 *
 * A log that gets longer than its soft limit all at once, and a merge that then takes all of a port's time,
 * or a wall at the hard limit, are what a client sees as writes that take a hundred times as long as
 * others. So everything grows by degrees:
 *
 *	pressure   0 ............... 500 ............... 1000
 *	the log    half of soft      soft                hard
 *	merges     96 MiB/s, double every 100, all that can be
 *	           beside few writes no more than 4 times what is written
 *	writes     no limit          1.5, 0.5 (750), 0.2 times what the log loses; none
 *	... not known yet            what is left to the hard limit in a second
 *
 * Merges settle where they do as much as comes: a little above half of the soft limit under a light load,
 * near it under a heavy one. Where they cannot, writes settle where they come as fast as the log drains,
 * a quarter of the way between the limits; what comes half as fast as that waits only where merges take long.
 *
 * A log that has just become long has lost nothing yet, and one that goes in lumps, all of it with the last
 * merge of a round, is not measured either. There the room that is left lasts: it gets less ever more
 * slowly, and a log that loses d bytes a second settles with d left.
 */
#include "merge/pace.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"

#define PACE_MERGE_MIN NUM_MIB(96) /* a second, of merges without pressure */
#define PACE_DOUBLE 100u           /* twice that with so much more pressure */
#define PACE_FOLLOW                                                                                \
	4u /* times what comes: flushes and compactions of it, and as much of what came before */
#define PACE_FEW 4u /* writes in flight: their clients meet each batch of a merge at the disks */
#define PACE_INFLOW_NS NUM_MS(50)
#define PACE_WINDOWS_S 400u /* a second, at least: 2.5 ms of work each */
/* A batch beside few writes: three nodes of one disk write it in half a ms. */
#define PACE_BATCH_FEW (64u * 1024u)
#define PACE_CLOSE 750u           /* half way between the limits */
#define PACE_WRITE_MIN NUM_MIB(1) /* a second: however full the log is, writes creep on */
#define PACE_DRAIN_NS NUM_S(1)    /* to measure what the log loses, at least */
#define PACE_DRAIN_KEEP 3u        /* parts of what was known, to one of what is new */
#define PACE_LAST_S 1u            /* the room, while it is not known */
#define PACE_BURST_NS NUM_MS(2)   /* of what was not used: kept, for timers are late */
#define PACE_DEBT_NS NUM_S(1)     /* the most that is ever owed */
/* Engine jobs of a merge in flight, each some 50 us. */
#define PACE_JOBS_IDLE 8u  /* nobody writes */
#define PACE_JOBS_BUSY 2u  /* somebody writes, or the latency class is at work */
#define PACE_JOBS_HURRY 4u /* writes wait for merges */
#define PACE_JOBS_FULL 16u /* writes stand still */
#define PACE_READS_LEISURE 4u
#define PACE_READS_HURRY 16u

static uint32_t
part_of(uint64_t bytes, uint64_t whole)
{
	assert(whole > 0 && bytes <= whole);
	return (uint32_t)((double)bytes * PACE_HURRY / (double)whole);
}

uint32_t
mt_pace_pressure(uint64_t used, uint64_t soft, uint64_t hard)
{
	uint64_t low = soft / 2;

	assert(soft <= hard);
	if (soft == 0 || used <= low)
		return 0;
	if (used >= hard)
		return PACE_FULL;
	if (used < soft)
		return part_of(used - low, soft - low);
	return PACE_HURRY + part_of(used - soft, hard - soft);
}

void
mt_pace_inflow_note(struct pace_inflow *inflow, uint64_t now_ns, uint64_t bytes)
{
	uint64_t ns = now_ns - inflow->begin_ns;

	assert(now_ns >= inflow->begin_ns);
	if (inflow->begin_ns != 0 && ns < PACE_INFLOW_NS)
		return;
	if (inflow->begin_ns != 0 && bytes > inflow->bytes)
		inflow->rate =
		    num_max(1, (uint64_t)((double)(bytes - inflow->bytes) * 1e9 / (double)ns));
	else
		inflow->rate = 0;
	inflow->begin_ns = now_ns;
	inflow->bytes = bytes;
}

uint64_t
mt_pace_followed(uint32_t write_count, uint64_t inflow_rate)
{
	return write_count <= PACE_FEW ? inflow_rate : PACE_UNLIMITED;
}

/* As much as is enough for what comes now: a log that is long of what came before gets shorter at leisure. */
static uint64_t
rate_that_follows(uint64_t followed)
{
	if (followed > PACE_UNLIMITED / PACE_FOLLOW)
		return PACE_UNLIMITED;
	return num_max(PACE_MERGE_MIN, PACE_FOLLOW * followed);
}

uint64_t
mt_pace_merge_rate(uint32_t pressure, uint64_t followed)
{
	uint64_t rate = PACE_MERGE_MIN << pressure / PACE_DOUBLE;

	assert(pressure <= PACE_FULL);
	if (pressure >= PACE_HURRY)
		return PACE_UNLIMITED;
	rate += rate * (pressure % PACE_DOUBLE) / PACE_DOUBLE;
	return num_min(rate, rate_that_follows(followed));
}

uint64_t
mt_pace_window_bytes(uint64_t rate, uint64_t followed)
{
	assert(rate >= PACE_MERGE_MIN);
	return followed == PACE_UNLIMITED ? PACE_UNLIMITED : rate / PACE_WINDOWS_S;
}

uint32_t
mt_pace_batch_bytes(bool is_written, uint64_t followed)
{
	return is_written && followed != PACE_UNLIMITED ? PACE_BATCH_FEW : BATCH_BYTES_MAX;
}

bool
mt_pace_is_background(uint32_t pressure, bool is_written, uint64_t followed)
{
	bool is_beside_few = is_written && followed != PACE_UNLIMITED;

	assert(pressure <= PACE_FULL);
	return pressure < (is_beside_few ? PACE_HURRY : PACE_BACKGROUND);
}

uint32_t
mt_pace_turn_jobs(uint32_t pressure, bool is_written, bool is_ahead)
{
	assert(pressure <= PACE_FULL);
	if (is_ahead)
		return PACE_JOBS_BUSY;
	if (pressure >= PACE_FULL)
		return PACE_JOBS_FULL;
	if (!is_written)
		return PACE_JOBS_IDLE;
	return pressure >= PACE_HURRY ? PACE_JOBS_HURRY : PACE_JOBS_BUSY;
}

uint32_t
mt_pace_reads(uint32_t pressure)
{
	assert(pressure <= PACE_FULL);
	return pressure >= PACE_HURRY ? PACE_READS_HURRY : PACE_READS_LEISURE;
}

/* The log drains in lumps: measured from one to another, and only while merges had no pauses. */
void
mt_pace_drain_note(struct pace_drain *drain, uint64_t now_ns, uint64_t bytes, uint32_t pressure)
{
	uint64_t rate;

	assert(pressure <= PACE_FULL);
	assert(now_ns >= drain->begin_ns);
	if (pressure < PACE_HURRY) {
		drain->begin_ns = 0;
		return;
	}
	if (drain->begin_ns == 0) {
		drain->begin_ns = now_ns;
		drain->bytes = 0;
		return;
	}
	drain->bytes += bytes;
	if (now_ns < drain->begin_ns + PACE_DRAIN_NS)
		return;
	rate = (uint64_t)((double)drain->bytes * 1e9 / (double)(now_ns - drain->begin_ns));
	rate = num_max(rate, PACE_WRITE_MIN);
	drain->rate = drain->rate == 0
	    ? rate
	    : (drain->rate * PACE_DRAIN_KEEP + rate) / (PACE_DRAIN_KEEP + 1);
	drain->begin_ns = now_ns;
	drain->bytes = 0;
}

uint64_t
mt_pace_write_rate(uint32_t pressure, uint64_t drain_rate, uint64_t left_bytes)
{
	uint32_t per_mille;

	assert(pressure <= PACE_FULL);
	if (pressure < PACE_HURRY)
		return PACE_UNLIMITED;
	if (drain_rate == 0)
		return num_max(left_bytes / PACE_LAST_S, PACE_WRITE_MIN);
	/* Half of the room between the limits is kept for merges that take long, and lasts as long as can be. */
	per_mille = pressure < PACE_CLOSE
	    ? 1500 - 4 * (pressure - PACE_HURRY)
	    : 500 - 300 * (pressure - PACE_CLOSE) / (PACE_FULL - PACE_CLOSE);
	return num_max(drain_rate / 1000 * per_mille, PACE_WRITE_MIN);
}

/*
 * Rate that was not used is kept for a moment only, for timers are late. Nor is more than a second ever owed, for
 * what the latency class takes without asking.
 */
uint64_t
mt_pace_pay(uint64_t paid_ns, uint64_t now_ns, uint64_t bytes, uint64_t rate)
{
	uint64_t from_ns = num_max(paid_ns, now_ns > PACE_BURST_NS ? now_ns - PACE_BURST_NS : 0);

	assert(rate > 0);
	if (rate == PACE_UNLIMITED)
		return from_ns;
	from_ns += (uint64_t)((double)bytes * 1e9 / (double)rate);
	return num_min(from_ns, num_max(paid_ns, now_ns + PACE_DEBT_NS));
}
