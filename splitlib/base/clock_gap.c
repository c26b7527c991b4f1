/* SPDX-License-Identifier: Apache-2.0 */
/* clock_gap.c -- see clock_gap.h */
#include "base/clock_gap.h"

#include "base/num.h"

int64_t
clock_gap_ms(uint64_t asked_ms, uint64_t took_ns, uint64_t told_ms)
{
	/* Both clocks tell whole milliseconds: one more may have begun. */
	uint64_t took_ms = took_ns / NUM_MS(1) + 2, end_ms, gap_ms;

	end_ms = asked_ms > UINT64_MAX - took_ms ? UINT64_MAX : asked_ms + took_ms;
	if (told_ms > end_ms) {
		gap_ms = told_ms - end_ms;
		return (int64_t)num_min(gap_ms, INT64_MAX);
	}
	gap_ms = asked_ms > told_ms ? asked_ms - told_ms : 0;
	return -(int64_t)num_min(gap_ms, INT64_MAX);
}
