/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.h -- which records nobody sees any more, though their volume lives: behind a roll-back */
#ifndef CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H
#define CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H

#include <stdint.h>

struct mt_hidden;
struct mt_volumes;

#define MT_HIDDEN_MAX 64u /* found in a turn */
/* mt_hidden_find -- hidden.c: what no scope of @volumes shows, of volumes that are there. How many. */
uint32_t mt_hidden_find(const struct mt_volumes *volumes, struct mt_hidden *ret_hidden,
    uint32_t max);

#endif /* CLEAVE_MIDDLETIER_CATALOG_HIDDEN_H */
