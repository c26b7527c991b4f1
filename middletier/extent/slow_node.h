/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_node.h -- a node that is much slower than its peers is left out, as one that is dead
 *
 * What node_link.c tells, and asks when it looks at a link's calls.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_SLOW_NODE_H
#define CLEAVE_MIDDLETIER_EXTENT_SLOW_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

struct mt_call;
struct mt_link;

#define SLOW_NODE_MIN_NS                                                                           \
	NUM_MS(500) /* the least that a call waits before its node is called slow */

/* mt_slow_node_counts -- is @call one whose time tells how fast a node is? */
bool mt_slow_node_counts(const struct mt_call *call);
/* mt_slow_node_on_answer -- @call of @link was answered just now. */
void mt_slow_node_on_answer(struct mt_link *link, const struct mt_call *call);
/*
 * mt_slow_node_judge -- is @link to be given up?
 *
 * Returns when to ask again, UINT64_MAX: when it has a call. True only if asked twice.
 */
uint64_t mt_slow_node_judge(struct mt_link *link, bool *ret_is_slow);
/* mt_slow_node_was -- people are to be told: it was left out lately, or takes 100 ms and ten times its peers' mean. */
bool mt_slow_node_was(const struct mt_link *link, uint64_t now_ns);
/* mt_slow_node_punish -- it is given up: no new extents for a while, longer each time. */
void mt_slow_node_punish(struct mt_link *link);

#endif /* CLEAVE_MIDDLETIER_EXTENT_SLOW_NODE_H */
