/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_main.h -- `cleave-gateway --accept-copy` from its beginning to its end, on a loop of its
 * own
 */
#ifndef CLEAVE_MIDDLETIER_START_PLACE_MAIN_H
#define CLEAVE_MIDDLETIER_START_PLACE_MAIN_H

#include <stdbool.h>

struct meta_where;
struct mt_gateway_options;

/*
 * mt_place_main -- `cleave-gateway --accept-copy`: the store at @where lies where it belongs
 *
 * Nothing else changes, at nodes neither. Of @gateway the cluster_id, nodes and node_timeout_ns count. 0; else the log says
 * why not: -EBUSY a gateway is connected to a node, -EHOSTDOWN no node answers, both unless @must_take; and others.
 */
int mt_place_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool must_take);

#endif /* CLEAVE_MIDDLETIER_START_PLACE_MAIN_H */
