/* SPDX-License-Identifier: Apache-2.0 */
/* merge_verify.h -- are the runs that somebody has made those of a recipe? */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_VERIFY_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_VERIFY_H

#include <stdint.h>

struct mt_recipe;
struct mt_run_index;

/*
 * mt_merge_verify -- compare the frames of @parts, in the order of their blocks, with the first @frame_count of @recipe
 *
 * @parts: whole indexes, loaded from the batches' heads at a node. Each frame has the blocks, the kind and the plain
 * CRCs that the recipe says. A frame that is taken as it is stored has its source's bytes, length and codec, by their
 * CRC. One whose blocks are all zeros may be a tombstone instead; or may not be there, unless the recipe keeps those.
 * Frames that were encrypted anew are refused: their CRCs are where only the engine sees them.
 * Returns 0; -EBADMSG, and *@ret_field is a static name of what is wrong. Threads: any.
 */
int mt_merge_verify(const struct mt_recipe *recipe, uint32_t frame_count,
    const struct mt_run_index *const *parts, uint32_t part_count, const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_VERIFY_H */
