/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_guess.c -- see replay_guess.h
 *
 * When batches are between min and max bytes long, the k-th head behind one that begins at base begins between
 * base + k * min and base + k * max, and that range grows with k.
 */
#include "extent/replay_guess.h"

#include <assert.h>

#include "base/num.h"
#include "cleave/batch.h"

#define REPLAY_SPARSE_BYTES NUM_KIB(64) /* shorter batches are read whole: a READ has several */
#define REPLAY_SPREAD_BYTES BATCH_ALIGN /* at most, between the longest and the shortest */

void
mt_replay_guess_reset(struct replay_guess *guess)
{
	guess->count = 0;
}

void
mt_replay_guess_add(struct replay_guess *guess, uint32_t bytes, uint32_t head_bytes)
{
	uint32_t at = guess->count % MT_REPLAY_RECENT;

	assert(head_bytes > 0);
	assert(head_bytes <= bytes);
	guess->bytes[at] = bytes;
	guess->head_bytes[at] = head_bytes;
	guess->count++;
}

bool
mt_replay_guess_window(const struct replay_guess *guess, uint64_t base, uint64_t *from,
    uint64_t *to)
{
	uint64_t bytes_min = UINT64_MAX, bytes_max = 0, head_bytes = 0, ahead = 0;

	if (guess->count < MT_REPLAY_RECENT)
		return false;
	for (uint32_t i = 0; i < MT_REPLAY_RECENT; i++) {
		bytes_min = num_min(bytes_min, guess->bytes[i]);
		bytes_max = num_max(bytes_max, guess->bytes[i]);
		head_bytes = num_max(head_bytes, guess->head_bytes[i]);
	}
	if (bytes_min < REPLAY_SPARSE_BYTES || bytes_max - bytes_min > REPLAY_SPREAD_BYTES)
		return false;
	head_bytes = num_round_up(head_bytes, BATCH_ALIGN);
	if (base + head_bytes <= *from)
		ahead = (*from - head_bytes - base) / bytes_max + 1; /* batches, from base on */
	*from = num_max(*from, base + ahead * bytes_min);
	*to = base + ahead * bytes_max + head_bytes;
	return true;
}
