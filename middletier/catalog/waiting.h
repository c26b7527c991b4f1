/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.h -- the shards that have not reclaimed yet what was deleted: a bit set as hex text */
#ifndef CLEAVE_MIDDLETIER_CATALOG_WAITING_H
#define CLEAVE_MIDDLETIER_CATALOG_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#define MT_DELETED_PREFIX "deleted/" /* and a deleted volume's id: its mark in the metadata store */

/* mt_waiting_all -- the text of all of @shard_count shards: to be freed with mt_free. NULL: no memory. */
char *mt_waiting_all(uint32_t shard_count);
/*
 * mt_waiting_read -- set the bits of the shards that @text names; other bits stay as they are
 *
 * @text may be NULL; @ret_bits: a bit a shard. False: no text, or not one of @shard_count shards.
 */
bool mt_waiting_read(const char *text, uint32_t shard_count, uint64_t *ret_bits);
/* mt_waiting_write -- @text, as mt_waiting_all made it, becomes the text of @bits. False: none is set. */
bool mt_waiting_write(char *text, uint32_t shard_count, const uint64_t *bits);

#endif /* CLEAVE_MIDDLETIER_CATALOG_WAITING_H */
