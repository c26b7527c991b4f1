/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_trouble.h -- why a link to a storage node is not up: one line in the log, and link->trouble
 *
 * A line is logged when the reason is another than before, not each time that an attempt ends so.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_TROUBLE_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_link;

/* mt_trouble_clear -- it is up. */
void mt_trouble_clear(struct mt_link *link);
/* mt_trouble_on_closed -- a connection, or an attempt to make one, has ended. */
void mt_trouble_on_closed(struct mt_link *link, bool was_up, int rc, const char *reason);
/* mt_trouble_on_other_store -- the node refuses gateways of our metadata store. */
void mt_trouble_on_other_store(struct mt_link *link);
/*
 * mt_trouble_on_duplicate -- @other, which was found first, has the same @node_id
 *
 * Before the gateway has served, it ends: which of the two has the node's copies is not known.
 */
void mt_trouble_on_duplicate(struct mt_link *link, const struct mt_link *other, uint32_t node_id);

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_TROUBLE_H */
