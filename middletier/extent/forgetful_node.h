/* SPDX-License-Identifier: Apache-2.0 */
/* forgetful_node.h -- a node does not have copies that it once acknowledged: an older image of its disk, or lost writes */
#ifndef CLEAVE_MIDDLETIER_EXTENT_FORGETFUL_NODE_H
#define CLEAVE_MIDDLETIER_EXTENT_FORGETFUL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

struct mt_extent;
struct mt_link;
struct mt_replica;

/* Health tells it for so long after the last copy was missed. */
#define MT_FORGETFUL_NS NUM_S(3600)

/*
 * mt_forgetful_node_note -- a copy of @extent, sealed, was found to be damaged: @replica of it; @rc says how
 *
 * Counts those that are not there (-ENOENT), or shorter than the length that their node has confirmed (-ERANGE), and no
 * others. The first one in MT_FORGETFUL_NS is an event.
 */
void mt_forgetful_node_note(const struct mt_extent *extent, const struct mt_replica *replica,
    int rc);
/* mt_forgetful_node_is -- people are to be told: copies were missed there within MT_FORGETFUL_NS. */
bool mt_forgetful_node_is(const struct mt_link *link, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_EXTENT_FORGETFUL_NODE_H */
