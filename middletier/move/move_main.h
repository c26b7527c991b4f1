/* SPDX-License-Identifier: Apache-2.0 */
/* move_main.h -- `cleave-gateway --dump`, `--load` and `--move-to`, each on a loop of its own */
#ifndef CLEAVE_MIDDLETIER_MOVE_MOVE_MAIN_H
#define CLEAVE_MIDDLETIER_MOVE_MOVE_MAIN_H

#include <stdbool.h>

struct meta_where;
struct mt_gateway_options;

/* These return 0; else the log says why not. */

/* mt_dump_main -- all keys of the store at @where to standard output; cluster_id counts, 0: any */
int mt_dump_main(const struct mt_gateway_options *gateway, const struct meta_where *where);
/* mt_load_main -- the dump from standard input becomes the store at @where */
int mt_load_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool must_take);
/* mt_move_main -- the store at @from becomes the one at @to, and serves nobody any more */
int mt_move_main(const struct mt_gateway_options *gateway, const struct meta_where *from,
    const struct meta_where *to, bool must_take);

#endif /* CLEAVE_MIDDLETIER_MOVE_MOVE_MAIN_H */
