/* SPDX-License-Identifier: Apache-2.0 */
/* replay_ahead.c -- see replay_ahead.h */
#include "extent/replay_ahead.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/replay.h"
#include "extent/replay_guess.h"

/*
 * The next range to ask for, at or behind ask_offset_bytes: all that follows, or where the next head must
 * begin that was not asked for yet. Empty: so far ahead, nothing can be said.
 */
void
mt_replay_window(const struct mt_replay *replay, uint64_t *ret_from, uint64_t *ret_to)
{
	const struct mt_replay_source *source = &replay->sources[replay->ask_source];
	uint64_t base = replay->ask_source == replay->source_index ? replay->at_bytes : 0;
	uint64_t from = replay->ask_offset_bytes, to = from + MT_RECEIVE_BYTES;

	assert(replay->ask_source < replay->source_count);
	if (source->kind == EXTENT_LOG &&
	    mt_replay_guess_window(&replay->guess, base, &from, &to) &&
	    to - from > MT_RECEIVE_BYTES)
		to = replay->read_count > 0 ? from : from + MT_RECEIVE_BYTES;
	*ret_from = num_min(from, source->length_bytes);
	*ret_to = num_min(to, source->length_bytes);
}

/*
 * How many reads may run ahead. Replies are kept in receives until those before them have come, so all
 * replays of a port together hold no more than half of the quarter of its pool that is kept for replies:
 * the first piece would else wait for a receive that the later ones hold. Copies hold of it, too.
 */
uint32_t
mt_replay_reads_max(const struct mt_replay *replay)
{
	const struct mt_port *port = replay->shard->port;
	uint32_t share = port->receive_count / 8 / (uint32_t)num_max(1, port->shard_count);

	if (replay->was_mirrored)
		return 1;
	return (uint32_t)num_min(MT_REPLAY_READS_MAX, num_max(1, share));
}
