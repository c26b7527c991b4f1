/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation_main.h -- `cleave-gateway --create` from its beginning to its end, on a loop of its own
 */
#ifndef CLEAVE_MIDDLETIER_START_CREATION_MAIN_H
#define CLEAVE_MIDDLETIER_START_CREATION_MAIN_H

struct meta_where;
struct mt_gateway_options;

/* mt_creation_main -- all of it, with the store at @where. 0; else the log says why not. */
int mt_creation_main(const struct mt_gateway_options *gateway, const struct meta_where *where);

#endif /* CLEAVE_MIDDLETIER_START_CREATION_MAIN_H */
