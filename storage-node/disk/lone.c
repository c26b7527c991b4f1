/* SPDX-License-Identifier: Apache-2.0 */
/* lone.c -- the arithmetic of lone writes, and nothing else */
#include "lone.h"

bool
lone_try(struct lone *lone, uint64_t bytes)
{
	if (bytes > LONE_BYTES_MAX)
		return false;
	if (lone->rest_count == 0)
		return true;
	lone->rest_count--;
	return false;
}

void
lone_took(struct lone *lone, uint64_t ns)
{
	if (ns <= LONE_QUICK_NS) {
		lone->score -= lone->score > 0;
		return;
	}
	if (++lone->score < LONE_SCORE_MAX)
		return;
	lone->rest_count = LONE_REST;
	lone->score = LONE_SCORE_MAX / 2;
}
