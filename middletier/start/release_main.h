/* SPDX-License-Identifier: Apache-2.0 */
/* release_main.h -- `cleave-gateway --release` from its beginning to its end, on a loop of its own */
#ifndef CLEAVE_MIDDLETIER_START_RELEASE_MAIN_H
#define CLEAVE_MIDDLETIER_START_RELEASE_MAIN_H

struct meta_where;
struct mt_gateway_options;

/*
 * mt_release_main -- what gateway options->gateway_id has left in the store at @where goes, if its process is dead
 *
 * 0: also where it had left nothing; else the log says why not.
 */
int mt_release_main(struct mt_gateway_options *options, const struct meta_where *where);

#endif /* CLEAVE_MIDDLETIER_START_RELEASE_MAIN_H */
