/* SPDX-License-Identifier: Apache-2.0 */
/* drop_erase.h -- the data keys of a volume go with the last mark of it */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DROP_ERASE_H
#define CLEAVE_MIDDLETIER_CLUSTER_DROP_ERASE_H

#include <stdint.h>

#include "catalog/data_key.h"

struct drop_mark;
struct meta_op;
struct mt_gateway;

/* mt_drop_erase_id -- the volume of "deleted/ID", where it was encrypted; 0: it was not, or it is a snapshot's mark. */
uint64_t mt_drop_erase_id(const struct drop_mark *mark);
/*
 * mt_drop_erase_ops -- what deletes the data keys of the mark's volume, as far as they have been read
 *
 * @ret_ops has room for MT_DATA_KEYS_OF_VOLUME_MAX, and points to @keys, as many. Returns how many there are.
 */
uint32_t mt_drop_erase_ops(const struct mt_gateway *gateway, const struct drop_mark *mark,
    char keys[][MT_DATA_KEY_KEY_BYTES], struct meta_op *ret_ops);
/* mt_drop_erase_tell -- they are gone: an event. */
void mt_drop_erase_tell(struct mt_gateway *gateway, const struct drop_mark *mark, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DROP_ERASE_H */
