/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation_main.h -- `cleave-gateway --create` from its beginning to its end, on a loop of its own
 */
#ifndef CLEAVE_MIDDLETIER_START_CREATION_MAIN_H
#define CLEAVE_MIDDLETIER_START_CREATION_MAIN_H

struct mt_gateway_options;

/* mt_creation_main -- all of it, with an LMDB store in @meta_path. 0; else the log says why not. */
int mt_creation_main(const struct mt_gateway_options *gateway, const char *meta_path);

#endif /* CLEAVE_MIDDLETIER_START_CREATION_MAIN_H */
