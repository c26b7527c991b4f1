/* SPDX-License-Identifier: Apache-2.0 */
/* replay_guess.h -- where the next heads of a log must begin, guessed from the last batches' lengths */
#ifndef CLEAVE_MIDDLETIER_EXTENT_REPLAY_GUESS_H
#define CLEAVE_MIDDLETIER_EXTENT_REPLAY_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#define MT_REPLAY_RECENT 8u /* batches that a guess is made from: no fewer, no more */

/* The last batches: how long, and how much of that is head. All zeros: none yet. */
struct replay_guess {
	uint32_t bytes[MT_REPLAY_RECENT], head_bytes[MT_REPLAY_RECENT];
	uint32_t
	    count; /* since the last surprise; the newest is at count - 1, modulo MT_REPLAY_RECENT */
};

/* mt_replay_guess_reset -- the last guess was wrong: what was seen before says nothing. */
void mt_replay_guess_reset(struct replay_guess *guess);
/* mt_replay_guess_add -- a batch of @bytes was next, @head_bytes of them its head. */
void mt_replay_guess_add(struct replay_guess *guess, uint32_t bytes, uint32_t head_bytes);
/*
 * mt_replay_guess_window -- the range in which the next head lies that was not asked for yet
 *
 * @base: where the batch begins that is expected. *@from: up to where was asked for, which may be before @base:
 * of the batches before it the heads were enough. Both are bytes of the extent.
 * Returns false, and nothing is changed: batches are short, or too different for a guess. Else *@from to *@to,
 * which may be longer than a READ.
 */
bool mt_replay_guess_window(const struct replay_guess *guess, uint64_t base, uint64_t *from,
    uint64_t *to);

#endif /* CLEAVE_MIDDLETIER_EXTENT_REPLAY_GUESS_H */
