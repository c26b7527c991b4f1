/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_turn.c -- how much of a loop turn others' writes get while latency class volumes write
 *
 * Inline engines compress on the loop's own thread: the more in a turn, the later is seen what has come
 * meanwhile, and leaves what is ready, for both happen between turns. So for a second after each request
 * of a latency class volume (common/turn.c) a shard compresses no more than WRITE_TURN_BYTES in a
 * turn, and after one that came or was answered in this very turn no more than one write. The others stay
 * parked until the next turn, which begins at once: the processor works no less. An open batch with none
 * of the latency class waits for them (write_batch.c), so batches are as full as they would be.
 *
 * Merges that are in a hurry do no more in a turn than they do without (pace.c).
 *
 * Each shard has its own count, so none starves behind another, and each turn makes some progress.
 * Writes that run no engine here, tombstones and those of engine threads, are not counted.
 */
#include "write/write_turn.h"
#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/turn.h"
#include "write/write_job.h"
#include "write/write_path.h"

#define WRITE_TURN_BYTES NUM_KIB(16)

static void
write_on_turn_end(struct loop_turn_end *hook, void *arg)
{
	struct mt_write_state *state = arg;

	(void)hook;
	assert(hook == &state->turn.end);
	state->turn.taken_bytes = 0;
	state->shard->port->ahead.is_due = false;
}

void
mt_write_turn_init(struct mt_write_state *state)
{
	assert(state->turn.taken_bytes == 0);
	loop_turn_end_add(state->shard->port->loop, &state->turn.end, write_on_turn_end, state);
}

void
mt_write_turn_fini(struct mt_write_state *state)
{
	loop_turn_end_remove(state->shard->port->loop, &state->turn.end);
}

bool
mt_write_turn_is_over(const struct mt_write_state *state)
{
	const struct mt_port *port = state->shard->port;

	if (!mt_write_is_inline(state) || !mt_turn_is_short(port))
		return false;
	return state->turn.taken_bytes >= (port->ahead.is_due ? 1 : WRITE_TURN_BYTES);
}

void
mt_write_turn_take(struct mt_write_state *state, const struct mt_write *write)
{
	assert(mt_write_is_inline(state));
	if (write_line_of(write) != WRITE_LINE_AHEAD)
		state->turn.taken_bytes += write->io.length_bytes;
}
