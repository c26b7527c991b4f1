/* SPDX-License-Identifier: Apache-2.0 */
/* inline_write.c -- the arithmetic of writes that the loop's thread makes itself */
#include "inline_write.h"

#include "base/check.h"

bool
inline_write_try(struct inline_write *policy, uint64_t bytes)
{
	assert(bytes > 0);
	assert(policy->score < INLINE_WRITE_SCORE_MAX);
	if (bytes > INLINE_WRITE_BYTES_MAX)
		return false;
	if (policy->rest_count == 0)
		return true;
	policy->rest_count--;
	return false;
}

void
inline_write_took(struct inline_write *policy, uint64_t ns)
{
	assert(policy->rest_count == 0); /* it was tried */
	if (ns <= INLINE_WRITE_QUICK_NS) {
		policy->score -= policy->score > 0;
		return;
	}
	if (++policy->score < INLINE_WRITE_SCORE_MAX)
		return;
	policy->rest_count = INLINE_WRITE_REST;
	policy->score = INLINE_WRITE_SCORE_MAX / 2;
}
