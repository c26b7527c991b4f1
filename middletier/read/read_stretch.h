/* SPDX-License-Identifier: Apache-2.0 */
/* read_stretch.h -- blocks of a read that lie next to each other in one place: what the index says of them */
#ifndef CLEAVE_MIDDLETIER_READ_READ_STRETCH_H
#define CLEAVE_MIDDLETIER_READ_READ_STRETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "index/memtable.h"

struct engine_job;
struct mt_read;
struct mt_run;

/* The index's answer about a block. */
enum read_what {
	READ_ZEROS,
	READ_STORED,
	READ_LOST,     /* no copy of it was good when its chunk was compacted */
	READ_UNLOADED, /* the index of a run that may hold it is not in memory */
};

/* Blocks that lie next to each other in one record, or are all of another kind. */
struct read_stretch {
	uint32_t first, count;       /* blocks of the read */
	enum read_what what;         /* of all of them */
	struct mt_location location; /* STORED: of the first block */
	uint64_t segment; /* STORED: that it was written to: an origin's, where a clone reads */
	/* UNLOADED: whose index is wanted first. STORED: that has it, NULL: the log; within the call that looked it up. */
	struct mt_run *index_run;
	/*
	 * STORED: what one READ of the extent should ask for, in bytes and in blocks of the read. More than the
	 * stretch where its neighbours in the extent are the next ones of the read as well.
	 */
	uint32_t fetch_bytes, fetch_count;
};

/*
 * mt_read_stretch_look_up -- the stretch that begins at block @first of @read and ends before @end, as it is now
 *
 * Writes the CRC of each of its blocks to @read->crcs; of an encrypted record's they are known when it was loaded. At least one block: @first < @end <= block_count.
 */
void mt_read_stretch_look_up(struct read_stretch *stretch, struct mt_read *read, uint32_t first,
    uint32_t end);

/*
 * mt_read_stretch_load -- STORED: make @job the LOAD of its blocks from @source, where its record's stored bytes are
 *
 * Not the job's destination, nor its blocks' CRCs.
 */
void mt_read_stretch_load(const struct read_stretch *stretch, const struct mt_read *read,
    dev_ptr source, struct engine_job *job);
/* mt_read_stretch_load_plain -- likewise, from @record, where all blocks of its record are, decompressed. */
void mt_read_stretch_load_plain(const struct read_stretch *stretch, const struct mt_read *read,
    dev_ptr record, struct engine_job *job);

/* mt_read_stretch_block -- its first block's place in its segment, whichever segment has it. */
uint32_t mt_read_stretch_block(const struct read_stretch *stretch, const struct mt_read *read);
/* mt_read_stretch_chunk_block -- its first block's place in its chunk, whichever segment has it. */
uint32_t mt_read_stretch_chunk_block(const struct read_stretch *stretch,
    const struct mt_read *read);

/* mt_read_stretch_is_in_ring -- are its stored bytes in the shard's ring? */
bool mt_read_stretch_is_in_ring(const struct read_stretch *stretch, const struct mt_read *read);

/* mt_read_stretch_is_at_hand -- can its data be made at once, without a node? */
bool mt_read_stretch_is_at_hand(const struct read_stretch *stretch, const struct mt_read *read);

/* mt_read_stretch_has_moved -- STORED: does the index say by now that the first block is elsewhere? */
bool mt_read_stretch_has_moved(const struct read_stretch *stretch, const struct mt_read *read);

/*
 * mt_read_stretch_is_newest -- STORED: is its block @at, as it was looked up, what the index says of it now?
 *
 * In what @read's session sees.
 */
bool mt_read_stretch_is_newest(const struct read_stretch *stretch, const struct mt_read *read,
    uint32_t at);

#endif /* CLEAVE_MIDDLETIER_READ_READ_STRETCH_H */
