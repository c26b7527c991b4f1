/* SPDX-License-Identifier: Apache-2.0 */
/* run_builder.h -- makes the index of a run, or of one of its batches, frame by frame */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_BUILDER_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_BUILDER_H

#include <stdint.h>

struct mt_run_index;
struct mt_run_place;
struct record_desc;

/* An index in the making. Zero-initialise. */
struct mt_run_builder {
	struct mt_run_index *index;
	uint32_t frame_max, crc_max, place_max;
	uint32_t next_block; /* in the chunk: no frame may begin before */
};
/* How far it is. */
struct mt_run_mark {
	uint32_t frame_count, crc_count, place_count, next_block;
	uint64_t live_bytes;
};
/*
 * mt_run_builder_add -- the next frame, of a batch that begins at @batch_offset_bytes of the extent
 *
 * -EBADMSG: not behind those before it; -ENOMEM: nothing has changed.
 */
int mt_run_builder_add(struct mt_run_builder *builder, const struct record_desc *frame,
    uint64_t batch_offset_bytes);
/* mt_run_builder_reserve -- room for so many more frames and CRCs, at once. 0; -ENOMEM: nothing has changed. */
int mt_run_builder_reserve(struct mt_run_builder *builder, uint32_t frame_count,
    uint32_t crc_count);
/* mt_run_builder_mark, _undo -- what was added since the mark is not any more. */
struct mt_run_mark mt_run_builder_mark(const struct mt_run_builder *builder);
void mt_run_builder_undo(struct mt_run_builder *builder, const struct mt_run_mark *mark);
/*
 * mt_run_builder_place -- the next batch of the run, before or behind its frames
 *
 * All batches of it, or none: then the run gets no directory. 0; -ENOMEM: nothing has changed.
 */
int mt_run_builder_place(struct mt_run_builder *builder, const struct mt_run_place *place);
/* mt_run_builder_take -- the index, no larger than it need be; NULL: no memory. The builder is empty then. */
struct mt_run_index *mt_run_builder_take(struct mt_run_builder *builder);
void mt_run_builder_fini(struct mt_run_builder *builder);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_BUILDER_H */
