/* SPDX-License-Identifier: Apache-2.0 */
/* rate_list.h -- the busiest volumes of a gateway: what its ports have told, added up by name */
#ifndef CLEAVE_MIDDLETIER_CONTROL_RATE_LIST_H
#define CLEAVE_MIDDLETIER_CONTROL_RATE_LIST_H

#include <stdint.h>

struct mt_ask;
struct mt_rate;

/*
 * mt_rate_list -- at most @max, busiest first, and one without a name: all others together
 *
 * @ask: of a kind that has rates; a port that has not answered has none. Ownership: the caller's, mt_free. Returns NULL:
 * no memory, or nothing was counted; else there are *@ret_count, one at least.
 */
struct mt_rate *mt_rate_list(const struct mt_ask *ask, uint32_t max, uint32_t *ret_count);

#endif /* CLEAVE_MIDDLETIER_CONTROL_RATE_LIST_H */
