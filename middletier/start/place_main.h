/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_main.h -- `cleave-gateway --accept-copy` from its beginning to its end, on a loop of its
 * own
 */
#ifndef CLEAVE_MIDDLETIER_START_PLACE_MAIN_H
#define CLEAVE_MIDDLETIER_START_PLACE_MAIN_H

struct meta_where;
struct mt_gateway_options;

/*
 * mt_place_main -- `cleave-gateway --accept-copy`: the store at @where, a directory, lies where it belongs
 *
 * Nothing else changes, at nodes neither. Of @gateway the cluster_id counts. 0; else the log says why not.
 */
int mt_place_main(const struct mt_gateway_options *gateway, const struct meta_where *where);

#endif /* CLEAVE_MIDDLETIER_START_PLACE_MAIN_H */
