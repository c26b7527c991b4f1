/* SPDX-License-Identifier: Apache-2.0 */
/* clock_gap.h -- how far another's clock on the wall is apart from ours, as one question and its answer show it */
#ifndef CLEAVE_BASE_CLOCK_GAP_H
#define CLEAVE_BASE_CLOCK_GAP_H

#include <stdint.h>

/*
 * clock_gap_ms -- the gap that no delay of the question or its answer explains
 *
 * @asked_ms: our clock on the wall when the question was sent. @took_ns: until its answer came, by a clock that never
 * jumps. @told_ms: the other's clock on the wall, at any moment in between.
 * Returns: > 0 the other's is ahead by so many milliseconds at least, < 0 behind; 0: the two may agree.
 */
int64_t clock_gap_ms(uint64_t asked_ms, uint64_t took_ns, uint64_t told_ms);

#endif /* CLEAVE_BASE_CLOCK_GAP_H */
