/* SPDX-License-Identifier: Apache-2.0 */
/* merge_pace.c -- how much of a port's loop a merge takes while clients write: pace.c says */
#include "merge/merge_pace.h"

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/turn.h"
#include "merge/flush.h"
#include "merge/merge.h"
#include "merge/merge_work.h"
#include "merge/pace.h"

#define MERGE_HOPE_NS NUM_MS(10)

/* Whatever is merged, the others wait for it. */
uint32_t
mt_merge_port_pressure(const struct mt_port *port)
{
	uint32_t pressure = 0;

	for (uint32_t i = 0; i < port->shard_count; i++)
		pressure = (uint32_t)num_max(pressure, mt_flush_pressure(&port->shards[i]));
	assert(pressure <= PACE_FULL);
	return pressure;
}

/* Plain bytes a second that clients write. */
static uint64_t
inflow_rate(const struct mt_port *port)
{
	struct pace_inflow *inflow = &port->merge_work->inflow;

	mt_pace_inflow_note(inflow, loop_now_ns(port->loop),
	    metric_read(&port->metrics[MT_METRIC_write_bytes]));
	return inflow->rate;
}

/* Somebody does: who has one write in flight has none now and then. */
static bool
is_written(const struct mt_port *port)
{
	return port->write_count > 0 || inflow_rate(port) > 0;
}

static uint64_t
followed_rate(const struct mt_port *port)
{
	return mt_pace_followed(port->write_count, inflow_rate(port));
}

/* Bytes a second that merges take now, of logs under @pressure. */
static uint64_t
merge_rate(const struct mt_port *port, uint32_t pressure)
{
	return is_written(port) ? mt_pace_merge_rate(pressure, followed_rate(port))
				: PACE_UNLIMITED;
}

/* A merge whose logs are under @pressure: those of this port, or of a gateway that it is executed for. */
static void
turn_begin(const struct mt_port *port, uint32_t pressure, struct merge_turn *turn)
{
	turn->budget = TURN_JOB *
	    mt_pace_turn_jobs(pressure, is_written(port), mt_turn_is_short(port));
	turn->is_held = false;
	turn->reads = mt_pace_reads(pressure);
	turn->batch_bytes = mt_pace_batch_bytes(is_written(port), followed_rate(port));
}

void
mt_merge_turn(const struct mt_merge *merge, struct merge_turn *turn)
{
	const struct mt_port *port = merge->shard->port;
	uint32_t pressure = mt_merge_port_pressure(port);

	assert(merge_work_of(merge)->merge == merge);
	turn_begin(port, pressure, turn);
	turn->is_background =
	    mt_pace_is_background(pressure, is_written(port), followed_rate(port));
}

struct engine_set *
mt_merge_engines(const struct mt_port *port, const struct merge_turn *turn)
{
	return port->merge_engines != NULL && turn->is_background ? port->merge_engines
								  : port->engines;
}

static uint32_t
window_blocks(const struct mt_port *port, uint32_t pressure)
{
	uint64_t blocks = mt_pace_window_bytes(merge_rate(port, pressure), followed_rate(port)) /
	    CLEAVE_BLOCK_BYTES;

	assert(blocks >= ENGINE_RECORD_BLOCKS_MAX);
	return (uint32_t)num_min(blocks, MERGE_WINDOW_BLOCKS_MAX);
}

uint32_t
mt_merge_window_blocks(const struct mt_merge *merge)
{
	const struct mt_port *port = merge->shard->port;

	return window_blocks(port, mt_merge_port_pressure(port));
}

/* @bytes were taken of @port's time, at @rate. */
static uint64_t
pace_pause_ns(const struct mt_port *port, uint64_t *paid_ns, uint64_t bytes, uint64_t rate)
{
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(bytes <= (uint64_t)MERGE_WINDOW_BLOCKS_MAX * CLEAVE_BLOCK_BYTES);
	*paid_ns = mt_pace_pay(*paid_ns, now_ns, bytes, rate);
	return rate == PACE_UNLIMITED || *paid_ns <= now_ns ? 0 : *paid_ns - now_ns;
}

uint64_t
mt_merge_pause_ns(const struct mt_merge *merge, uint64_t bytes)
{
	struct merge_work *work = merge_work_of(merge);

	return pace_pause_ns(work->port, &work->paid_ns, bytes,
	    merge_rate(work->port, mt_merge_port_pressure(work->port)));
}

bool
mt_merge_is_hoping(const struct mt_merge *merge)
{
	const struct run_writer *writer = &merge_work_of(merge)->executor->writer;

	return writer->is_hoping && writer->shard == merge->shard;
}

void
mt_merge_next_turn(const struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	bool is_spent = turn_is_spent(&work->executor->turn);

	assert(work->merge == merge);
	if (mt_merge_is_hoping(merge))
		mt_merge_work_wait(work, MERGE_HOPE_NS);
	switch ((enum mt_merge_state)merge->sm.state) {
	case MERGE_FETCHING: /* after whatever else this loop has to do */
		if (is_spent || (work->executor->out_count == 0 && !work->timer.is_active))
			mt_merge_work_wait(work, 0);
		break;
	case MERGE_LOADING:
	case MERGE_STORING:
		if (is_spent)
			mt_merge_work_wait(work, 0);
		break;
	default:
		break;
	}
}

/* ---- of others ---- */

void
mt_merge_guest_turn(const struct mt_port *port, uint32_t pressure, struct merge_turn *turn)
{
	turn_begin(port, pressure, turn);
	turn->is_background =
	    mt_pace_is_background((uint32_t)num_max(pressure, mt_merge_port_pressure(port)),
		is_written(port), followed_rate(port));
	assert(turn->reads > 0);
}

uint32_t
mt_merge_guest_window_blocks(const struct mt_port *port, uint32_t pressure)
{
	return window_blocks(port, pressure);
}

uint64_t
mt_merge_guest_pause_ns(const struct mt_port *port, uint32_t pressure, uint64_t *paid_ns,
    uint64_t bytes)
{
	return pace_pause_ns(port, paid_ns, bytes, merge_rate(port, pressure));
}
