/* SPDX-License-Identifier: Apache-2.0 */
/* covered.h -- runs of which newer runs have every block: they go by an edit alone */
#ifndef CLEAVE_MIDDLETIER_MERGE_COVERED_H
#define CLEAVE_MIDDLETIER_MERGE_COVERED_H

struct mt_chunk;
struct mt_index;
struct mt_merge_input;

/*
 * mt_covered_find -- runs of @chunk that nobody finds any more, for newer ones of their group have all their blocks
 *
 * Neighbours in age; the rest, if there is any, is found when these have gone. What is known of a run is its index or its
 * directory: one of which neither is in memory covers nothing, and is not covered.
 *
 * 0: *@ret_input, which is_covered: a merge that reads and writes nothing. -ENOENT: there are none, or a part of their
 * group is being merged. Threads: the port's.
 */
int mt_covered_find(const struct mt_index *index, struct mt_chunk *chunk,
    struct mt_merge_input *ret_input);

#endif /* CLEAVE_MIDDLETIER_MERGE_COVERED_H */
