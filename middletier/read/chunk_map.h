/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_map.h -- where the newest blocks of a range lie in runs, for a session that may read them there */
#ifndef CLEAVE_MIDDLETIER_READ_CHUNK_MAP_H
#define CLEAVE_MIDDLETIER_READ_CHUNK_MAP_H

struct mt_map_maker;
struct mt_read;

/* mt_map_maker_destroy -- what a port makes maps with; NULL is a no-op. */
void mt_map_maker_destroy(struct mt_map_maker *maker);
/*
 * mt_read_chunk_map -- answer a CHUNK_MAP from the index. Ends in mt_read_on_painted, possibly at once; -ENOMEM: no memory.
 *
 * The session may have it: mt_read_lease_has_maps.
 */
void mt_read_chunk_map(struct mt_read *read);

#endif /* CLEAVE_MIDDLETIER_READ_CHUNK_MAP_H */
