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

/* The greatest pressure of the port's shards: whatever is merged, the others wait for it. */
static uint32_t
port_pressure(const struct mt_port *port)
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

/* Bytes a second that merges take now. */
static uint64_t
merge_rate(const struct mt_port *port)
{
	return is_written(port) ? mt_pace_merge_rate(port_pressure(port), followed_rate(port))
				: PACE_UNLIMITED;
}

void
mt_merge_turn(const struct mt_merge *merge, struct merge_turn *turn)
{
	const struct mt_port *port = merge->shard->port;
	uint32_t pressure = port_pressure(port);

	assert(merge_work_of(merge)->merge == merge);
	turn->budget = mt_pace_turn_jobs(pressure, is_written(port), mt_turn_is_short(port));
	turn->reads = mt_pace_reads(pressure);
}

struct engine_set *
mt_merge_engines(const struct mt_port *port)
{
	if (port->merge_engines == NULL || port_pressure(port) >= PACE_BACKGROUND)
		return port->engines;
	return port->merge_engines;
}

uint32_t
mt_merge_window_blocks(const struct mt_merge *merge)
{
	const struct mt_port *port = merge->shard->port;
	uint64_t blocks = mt_pace_window_bytes(merge_rate(port), followed_rate(port)) /
	    CLEAVE_BLOCK_BYTES;

	assert(blocks >= ENGINE_RECORD_BLOCKS_MAX);
	return (uint32_t)num_min(blocks, MERGE_WINDOW_BLOCKS_MAX);
}

uint64_t
mt_merge_pause_ns(const struct mt_merge *merge, uint64_t bytes)
{
	struct merge_work *work = merge_work_of(merge);
	const struct mt_port *port = work->port;
	uint64_t now_ns = loop_now_ns(port->loop);
	uint64_t rate = merge_rate(port);

	assert(bytes <= (uint64_t)MERGE_WINDOW_BLOCKS_MAX * CLEAVE_BLOCK_BYTES);
	work->paid_ns = mt_pace_pay(work->paid_ns, now_ns, bytes, rate);
	return rate == PACE_UNLIMITED || work->paid_ns <= now_ns ? 0 : work->paid_ns - now_ns;
}
