/* SPDX-License-Identifier: Apache-2.0 */
/* link_status.h -- a node's status, asked for over its link: how much room it has, and who else it serves */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_STATUS_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_STATUS_H

#include "extent/node_link.h"

/* mt_link_status_init -- @fn hears of every answer, while the queue pair is there. Returns 0; -ENOMEM. */
int mt_link_status_init(struct mt_link *link, mt_link_status_fn fn);
/*
 * mt_link_status_ask -- ask the node, unless that was done and is not answered yet
 *
 * Where it cannot be asked the link is closed if it is CONNECTING; a link that is UP asks again with its next
 * call.
 */
void mt_link_status_ask(struct mt_link *link);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_STATUS_H */
