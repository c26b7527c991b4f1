/* SPDX-License-Identifier: Apache-2.0 */
/* penalty.h -- for how long a node that did badly gets no new extents: slow_node.c and failing_node.c say when */
#ifndef CLEAVE_MIDDLETIER_EXTENT_PENALTY_H
#define CLEAVE_MIDDLETIER_EXTENT_PENALTY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

#define MT_PENALTY_MIN_NS NUM_S(1)
#define MT_PENALTY_MAX_NS NUM_S(60)

struct mt_penalty {
	uint64_t
	    last_ns; /* how long the last one is, or was; 0: there was none, or it is forgotten */
	uint64_t until_ns; /* no new extents before, if possible */
};

/* mt_penalty_add -- one more, from @now_ns on: twice as long as the last one. */
static inline void
mt_penalty_add(struct mt_penalty *penalty, uint64_t now_ns)
{
	penalty->last_ns = penalty->last_ns == 0 ? MT_PENALTY_MIN_NS
						 : num_min(penalty->last_ns * 2, MT_PENALTY_MAX_NS);
	penalty->until_ns = now_ns + penalty->last_ns;
}

/* mt_penalty_is_over -- there was a penalty, and the node has done well from @well_ns on, for as long as the longest is? */
static inline bool
mt_penalty_is_over(const struct mt_penalty *penalty, uint64_t well_ns, uint64_t now_ns)
{
	return penalty->last_ns != 0 && now_ns > well_ns + MT_PENALTY_MAX_NS;
}

#endif /* CLEAVE_MIDDLETIER_EXTENT_PENALTY_H */
