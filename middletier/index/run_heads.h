/* SPDX-License-Identifier: Apache-2.0 */
/* run_heads.h -- a run's index, made from the heads of its batches, one after the other */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_HEADS_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/run_builder.h"
#include "index/run_index.h"

struct extent_id;
struct mt_run;
struct mt_run_dir;

struct mt_run_heads {
	uint64_t chunk, flushed_sequence; /* that every head has to name */
	uint32_t at_bytes;                /* of the extent: where the next head begins */
	uint32_t end_bytes;               /* of the extent: where the run ends */
	uint32_t wish_bytes;              /* the next head is hoped to be no longer */
	uint32_t prev_crc;
	bool has_prev;
	const struct mt_run_dir *dir;          /* of a page: which knows it; NULL: the whole run */
	uint32_t page;                         /* its slot there */
	uint32_t glimpse_block, glimpse_count; /* of a page: these blocks alone; 0: all of it */
	bool is_directory;                     /* the run's directory alone: */
	uint32_t run_offset_bytes;             /* where it has the first batch */
	uint32_t directory_crc;
	struct mt_run_dir *made; /* when it is over */
	struct mt_run_builder builder;
};

/* mt_run_heads_init -- nothing of @run was read. @run is not needed any more. */
void mt_run_heads_init(struct mt_run_heads *heads, const struct mt_run *run);
/* mt_run_heads_init_page -- the head of the batch in slot @page of @run's directory alone, which stays until they end. */
void mt_run_heads_init_page(struct mt_run_heads *heads, const struct mt_run *run, uint32_t page);
/*
 * mt_run_heads_glimpse -- of the page's head only the frames of @count blocks from @block of the chunk on are taken
 *
 * @block is one that the directory names in the batch: a head without it does not pass. @count 0: all frames, as at first.
 */
void mt_run_heads_glimpse(struct mt_run_heads *heads, uint32_t block, uint32_t count);
/* mt_run_heads_init_directory -- the directory that stands behind @run's batches alone. */
void mt_run_heads_init_directory(struct mt_run_heads *heads, const struct mt_run *run);
/* mt_run_heads_fini -- also after mt_run_heads_end. */
void mt_run_heads_fini(struct mt_run_heads *heads);
/* mt_run_heads_ask_bytes -- so many bytes are to be read at at_bytes; never 0 while they are not over. */
uint32_t mt_run_heads_ask_bytes(const struct mt_run_heads *heads);
/*
 * mt_run_heads_take -- the first @bytes bytes of the batch at at_bytes, as a copy of @id has them
 *
 * 0: at_bytes has moved on behind that batch. Else nothing has changed but what to ask for: -EAGAIN: the head
 * is longer, ask again; -EBADMSG: it is no head of this run: ask another copy; -ENOMEM.
 */
int mt_run_heads_take(struct mt_run_heads *heads, const struct extent_id *id, const uint8_t *head,
    uint32_t bytes);
/* mt_run_heads_distrust -- the copy that was asked may have lied about the head's length, too. */
void mt_run_heads_distrust(struct mt_run_heads *heads);
bool mt_run_heads_are_over(const struct mt_run_heads *heads);
/* mt_run_heads_end -- they are over: the index, which is the caller's. NULL: no memory. */
struct mt_run_index *mt_run_heads_end(struct mt_run_heads *heads);
/* mt_run_heads_end_directory -- that is over: it is the caller's, and has no run. */
struct mt_run_dir *mt_run_heads_end_directory(struct mt_run_heads *heads);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_HEADS_H */
