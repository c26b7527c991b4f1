/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_live.h -- does any gateway serve from what a recovery would take? */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_LIVE_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_LIVE_H

#include <stdbool.h>
#include <stddef.h>

struct mt_port;

/*
 * mt_rebuild_live_check -- is a gateway connected to a node that is up, as the node's last status tells?
 *
 * Returns: 0 none is, or @must_take, and the log names each; -EBUSY, @ret_text names the first.
 */
int mt_rebuild_live_check(const struct mt_port *port, bool must_take, char *ret_text,
    size_t text_bytes);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_LIVE_H */
