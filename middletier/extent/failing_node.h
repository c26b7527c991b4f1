/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing_node.h -- a node whose disk fails writes, and no flush, gets no new extents for a while
 *
 * What link_call.c tells of each answer.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_FAILING_NODE_H
#define CLEAVE_MIDDLETIER_EXTENT_FAILING_NODE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_call;
struct mt_link;

/* mt_failing_node_on_answer -- @call of @link was answered just now. */
void mt_failing_node_on_answer(struct mt_link *link, const struct mt_call *call);
/* mt_failing_node_is -- people are to be told: it was left out, and has not done well for a minute since. */
bool mt_failing_node_is(const struct mt_link *link, uint64_t now_ns);
/* mt_failing_node_is_left_out -- new extents go elsewhere now, while there are enough; false: it is on trial, or well. */
bool mt_failing_node_is_left_out(const struct mt_link *link, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_EXTENT_FAILING_NODE_H */
