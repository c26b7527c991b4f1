/* SPDX-License-Identifier: Apache-2.0 */
/* limit_share.c -- see limit_share.h */
#include "port/limit_share.h"

#include "base/check.h"
#include "base/num.h"

#define DEBT_SPARE_NS NUM_S(1) /* beyond the depth no more is remembered */
#define DEBT_GAIN_NS                                                                               \
	NUM_S(                                                                                     \
	    2) /* a debt that is so much too small, or large, doubles what is given, or ends it; */
#define DEBT_ALL_MIN (LIMIT_SHARE_ALL / 2)
#define DEBT_ALL_MAX (4u * LIMIT_SHARE_ALL)
#define FILL_ROUNDS_MAX 8u /* each finds more gateways whose ports use less than the share */

void
mt_limit_debt_add(struct limit_debt *debt, uint64_t spent, uint64_t depth_ns, uint64_t now_ns)
{
	uint64_t passed_ns = debt->at_ns == 0 ? 0 : num_min(now_ns - debt->at_ns, NUM_S(2));
	uint64_t used_ns = num_min(spent, 1024 * LIMIT_SHARE_ALL) * passed_ns / LIMIT_SHARE_ALL;

	debt->at_ns = now_ns;
	debt->debt_ns += used_ns;
	debt->debt_ns -= num_min(debt->debt_ns, passed_ns);
	debt->debt_ns = num_min(debt->debt_ns, depth_ns + DEBT_SPARE_NS);
}

uint32_t
mt_limit_debt_all(const struct limit_debt *debt, uint64_t depth_ns)
{
	uint64_t below_ns = depth_ns + DEBT_GAIN_NS;
	uint64_t all;

	below_ns -= num_min(debt->debt_ns, below_ns);
	all = below_ns * LIMIT_SHARE_ALL / DEBT_GAIN_NS;
	return (uint32_t)num_min(num_max(all, DEBT_ALL_MIN), DEBT_ALL_MAX);
}

/* Do the quiet ports of @use take less than @share each? Those that hold nothing have what they want, unless all are over. */
static bool
use_is_below(const struct limit_use *use, uint64_t share, bool is_over)
{
	return use->quiet > 0 && (!is_over || use->quiet_spent / use->quiet < share);
}

uint32_t
mt_limit_share(const struct limit_use *uses, uint32_t count, uint32_t all)
{
	uint64_t share = 0;

	for (uint32_t round = 0; round < FILL_ROUNDS_MAX; round++) {
		uint64_t taken = 0, ports = 0, next;

		for (uint32_t i = 0; i < count; i++) {
			ports += uses[i].wanting;
			if (use_is_below(&uses[i], share, all < LIMIT_SHARE_ALL))
				taken += uses[i].quiet_spent;
			else
				ports += uses[i].quiet;
		}
		if (ports == 0)
			return LIMIT_SHARE_ALL;
		next = (all - num_min(all, taken)) / ports;
		if (next <= share)
			break;
		share = next;
	}
	return (uint32_t)num_min(num_max(share, LIMIT_SHARE_MIN), LIMIT_SHARE_ALL);
}
