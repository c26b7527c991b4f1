/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_room.c -- may a write be admitted: will it ever fit, is there room for it, and if not, is there hope?
 *
 *	                       room    none, merges may bring some    none, and no hope
 *	write                  goes on        waits                       -ENOSPC
 *	discard, write zeroes  goes on        goes on                     goes on, as long as it can
 *
 * Memory for layers is room, too, and there all are alike.
 *
 * What gives room back must find room: log_roll.c keeps some.
 */
#include <errno.h>

#include "base/num.h"
#include "index.h"
#include "write.h"

#define WRITE_ROOM_RETRY_NS NUM_MS(100)

static int
write_check_room(struct mt_write_state *state, const struct mt_write *write)
{
	const struct mt_shard *shard = state->shard;

	if (state->roll.is_full)
		return -ENOSPC;
	if (!write_has_payload(write) && !mt_reclaim_is_memory_full(shard))
		return 0;
	if (!log_roll_is_short(state) && !mt_reclaim_is_log_full(shard))
		return 0;
	if (!mt_reclaim_can_gain(shard))
		return -ENOSPC;
	loop_timer_start(shard->port->loop, &state->retry_timer, WRITE_ROOM_RETRY_NS);
	return -EAGAIN;
}

int
write_check(struct mt_write_state *state, const struct mt_write *write)
{
	uint32_t bytes_max = BATCH_HEADER_BYTES + BATCH_DESC_BYTES_MAX;
	int rc = write->is_promised ? 0 : write_check_room(state, write);

	if (rc != 0)
		return rc;
	if (state->batch_bytes_max == 0)
		return -EAGAIN; /* how much fits is not known before there is a log */
	if (write_has_payload(write))
		bytes_max += write->io.length_bytes;
	return bytes_max <= state->batch_bytes_max ? 0 : -EMSGSIZE;
}

void
mt_write_path_on_room(struct mt_shard *shard)
{
	struct mt_write_state *state = shard->write;

	if (!state->is_started || state->is_stopped)
		return;
	log_roll_on_room(state);
	write_pump_soon(state);
}
