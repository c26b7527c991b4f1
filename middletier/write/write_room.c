/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_room.c -- may a write be admitted: will it ever fit, is there room for it, and if not, is there hope?
 *
 *	                       room     little         none, merges may bring some   none, and no hope
 *	write                  goes on  is slowed down  waits                        -ENOSPC
 *	... of latency class   goes on  goes on         goes on, as far as one       -ENOSPC
 *	                                                extent; waits
 *	discard, write zeroes  goes on  goes on         goes on                      goes on while it can
 *
 * Memory for layers is room, too, and there discards wait as writes do. What the latency class takes
 * beyond the limit is taken from nobody: the others go on when there is less than the limit again, and
 * pay for it in time, for a second at the most (pace.c).
 *
 * A volume of which too much cannot be merged, for want of a data key or of a copy, is refused all of these, so that
 * others need not wait (reclaim_room.c).
 *
 * What gives room back must find room: log_roll.c keeps some.
 */
#include <errno.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/room_waits.h"
#include "common/settings.h"
#include "common/shard.h"
#include "merge/log_pool.h"
#include "merge/merge_work.h"
#include "merge/pace.h"
#include "merge/reclaim_room.h"
#include "session/read_lease.h"
#include "session/session.h"
#include "write/log_roll.h"
#include "write/write_path.h"
#include "write/write_room.h"
#include "write/write_turn.h"

#define WRITE_ROOM_RETRY_NS NUM_MS(100)

/* As often as it takes; a retry that is nearer stands for others. */
static int
write_retry_in(struct mt_write_state *state, uint64_t ns)
{
	struct loop *loop = state->shard->port->loop;
	struct loop_timer *timer = &state->retry_timer;

	assert(!state->is_stopped);
	if (!timer->is_active || timer->due_ns > loop_now_ns(loop) + ns)
		loop_timer_start(loop, timer, ns);
	return -EAGAIN;
}

/* By degrees, before the log is at its limit: what came was more than what goes. */
static int
write_check_pace(struct mt_write_state *state)
{
	uint64_t now_ns = loop_now_ns(state->shard->port->loop);

	if (state->room.paid_ns <= now_ns || mt_reclaim_pressure(state->shard, 0) < PACE_HURRY)
		return 0;
	mt_reclaim_note_held(state->shard);
	return write_retry_in(state, state->room.paid_ns - now_ns);
}

/* At what rate the shard's log may get longer: its part of what all logs of its port lose, or of the room that they have. */
static uint64_t
write_room_rate(struct mt_write_state *state, uint32_t pressure)
{
	const struct mt_port *port = state->shard->port;
	uint64_t left_bytes = mt_reclaim_left_bytes(state->shard, pressure);
	struct log_pool *pool;
	uint32_t writers;

	if (pressure < PACE_HURRY)
		return PACE_UNLIMITED;
	if (port->merge_work == NULL)
		return mt_pace_write_rate(pressure, 0, left_bytes);
	pool = &port->merge_work->pool;
	writers = mt_log_pool_writers(pool, &state->room.pressed_ns, loop_now_ns(port->loop));
	return mt_pace_write_rate(pressure, pool->drain.rate / writers, left_bytes / writers);
}

void
mt_write_room_take(struct mt_write_state *state, uint32_t bytes)
{
	struct write_room *room = &state->room;
	uint32_t pressure = mt_reclaim_pressure(state->shard, 0);

	assert(bytes > 0);
	assert(bytes % BATCH_ALIGN == 0);
	room->paid_ns = mt_pace_pay(room->paid_ns, loop_now_ns(state->shard->port->loop), bytes,
	    write_room_rate(state, pressure));
}

void
mt_write_path_on_freed(struct mt_shard *shard, uint64_t bytes)
{
	const struct mt_port *port = shard->port;
	uint32_t pressure = 0;

	if (port->merge_work == NULL)
		return;
	for (uint32_t i = 0; i < port->shard_count; i++)
		pressure = (uint32_t)num_max(pressure, mt_reclaim_pressure(&port->shards[i], 0));
	mt_pace_drain_note(&port->merge_work->pool.drain, loop_now_ns(port->loop), bytes, pressure);
}

/* A write that waits because nodes have no room, not because merges are behind, is counted once. */
static void
write_note_short(const struct mt_write_state *state, struct mt_write *write)
{
	struct mt_port *port = state->shard->port;
	const struct mt_volume *volume = &write->session->volume;

	if (write->is_short || !mt_log_roll_is_short(state))
		return;
	write->is_short = true;
	metric_add(&port->metrics[MT_METRIC_writes_waited_room], 1);
	mt_room_waits_note(&port->room_waits, port->shared->events, volume->id, volume->name,
	    loop_now_ns(port->loop), MT_ROOM_WAITS);
}

static int
write_check_room(struct mt_write_state *state, struct mt_write *write)
{
	const struct mt_shard *shard = state->shard;
	const struct mt_volume *volume = &write->session->volume;

	assert(!write->is_promised);
	write->is_pinned = mt_reclaim_refuses(shard, volume->segment_base, volume->segment_count);
	if (write->is_pinned || state->roll.is_full)
		return -ENOSPC;
	if (!write_has_payload(write) && !mt_reclaim_is_memory_full(shard))
		return 0;
	if (!mt_log_roll_is_short(state) && write_line_of(write) == WRITE_LINE_AHEAD &&
	    !mt_reclaim_is_log_spent(shard))
		return 0;
	if (!mt_log_roll_is_short(state) && !mt_reclaim_is_log_full(shard))
		return write_has_payload(write) ? write_check_pace(state) : 0;
	if (!mt_reclaim_can_gain(shard))
		return -ENOSPC;
	write_note_short(state, write);
	mt_reclaim_note_held(state->shard);
	return write_retry_in(state, WRITE_ROOM_RETRY_NS);
}

static int
write_check_turn(struct mt_write_state *state, const struct mt_write *write)
{
	assert(state->batch_bytes_max > 0);
	if (!write_has_payload(write) || write_line_of(write) == WRITE_LINE_AHEAD ||
	    !mt_write_turn_is_over(state))
		return 0;
	state->turn.is_over = true;
	return write_retry_in(state, 0); /* which is in the next turn */
}

/* Leases of the owner before may last for a while yet (rule C): changes wait, and those behind them. */
static int
write_check_leases(struct mt_write_state *state, const struct mt_write *write)
{
	uint64_t wait_ns = mt_read_lease_claim_wait_ns(state->shard, &write->session->volume);

	return wait_ns == 0 ? 0 : write_retry_in(state, wait_ns);
}

int
mt_write_check(struct mt_write_state *state, struct mt_write *write)
{
	uint32_t bytes_max = BATCH_HEADER_BYTES + BATCH_DESC_BYTES_MAX;
	int rc = write_check_leases(state, write);

	assert(write->sm.state == WRITE_PARKED);
	if (rc == 0 && !write->is_promised)
		rc = write_check_room(state, write);
	if (rc != 0)
		return rc;
	if (state->batch_bytes_max == 0)
		return -EAGAIN; /* how much fits is not known before there is a log */
	if (write_has_payload(write))
		bytes_max += write->io.length_bytes;
	if (bytes_max > state->batch_bytes_max)
		return -EMSGSIZE;
	return write_check_turn(state, write);
}

void
mt_write_path_on_room(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	if (!state->is_started || state->is_stopped)
		return;
	mt_log_roll_on_room(state);
	write_pump_soon(state);
}
