/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_main.h -- `cleave-gateway --recover` from its beginning to its end, on a loop of its own
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_MAIN_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_MAIN_H

#include <stdbool.h>

struct meta_where;
struct mt_gateway_options;

/* mt_rebuild_main -- all of it, with the store at @where. 0; else the log says why not. */
int mt_rebuild_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool is_forced, bool must_take);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_MAIN_H */
