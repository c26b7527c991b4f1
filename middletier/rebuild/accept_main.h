/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept_main.h -- `cleave-gateway --accept-copy` from its beginning to its end, on a loop of its
 * own
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_ACCEPT_MAIN_H
#define CLEAVE_MIDDLETIER_REBUILD_ACCEPT_MAIN_H

#include <stdbool.h>

struct meta_where;
struct mt_gateway_options;

/*
 * mt_accept_main -- `cleave-gateway --accept-copy`: the store at @where lies where it belongs
 *
 * Nothing else changes, at nodes neither. Of @gateway the cluster_id, nodes, node_timeout_ns and min_replicas count.
 * Returns 0; else the log says why not: unless @must_take -EBUSY a gateway is connected to a node, -EHOSTDOWN no node
 * answers; unless @is_forced -ESTALE the nodes know something that the store does not, and what else mt_rebuild_start says
 * of a copy; and others.
 */
int mt_accept_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool must_take, bool is_forced);

#endif /* CLEAVE_MIDDLETIER_REBUILD_ACCEPT_MAIN_H */
