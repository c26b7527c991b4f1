/* SPDX-License-Identifier: Apache-2.0 */
/* run_writer.h -- frames on their way to the open run extent; one a port */
#ifndef CLEAVE_MIDDLETIER_MERGE_RUN_WRITER_H
#define CLEAVE_MIDDLETIER_MERGE_RUN_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "extent/replicate.h"

struct mt_frame;
struct mt_port;
struct mt_run_index;
struct mt_run_place;
struct mt_shard;
struct run_writer;

/* Batches of a port: one fills, the others are at their replicas. */
#define RUN_BATCHES_MIN 2u
#define RUN_BATCHES_MAX 4u
#define MERGE_PARTS_MAX 72u /* runs that one merge makes: as many as extents that it fills */
#define MERGE_PLACES_MAX                                                                           \
	1024u /* batches of a merge whose places are kept: four times as many as a chunk fills */

enum run_batch_state {
	RUN_BATCH_FREE,
	RUN_BATCH_FILLING, /* writer->filling */
	RUN_BATCH_READY,   /* writer->ready */
	RUN_BATCH_SENT,    /* the extent has it */
	RUN_BATCH_STATE_NR
};

struct run_batch {
	struct mt_append batch;
	struct sm sm;
	struct loop_link link; /* writer->ready */
	struct run_writer *writer;
	dev_ptr payload;
	uint32_t bytes_max; /* FILLING: no longer than this */
	uint32_t desc_bytes, payload_bytes, record_count;
	uint32_t first_frame; /* in writer->frames */
	uint32_t
	    gap_count; /* of its frames, those that do not begin where the one before them ends */
};

/* Acknowledged batches that lie behind each other in one extent: a run. */
struct run_part {
	uint32_t extent_index;
	struct extent_id id;
	uint32_t offset_bytes, length_bytes;
	uint32_t first_frame, frame_count;
	uint32_t first_place, batch_count; /* in writer->places, as far as these go */
	uint32_t gap_count;                /* of these batches */
	uint32_t directory_bytes;          /* behind these, within length_bytes; 0: there is none */
	uint32_t directory_crc;
	struct mt_run_index *index; /* run_part.c: of its frames, once it was asked for */
};

struct run_writer {
	struct mt_port *port;
	struct run_batch batches[RUN_BATCHES_MAX];
	uint32_t batch_count;   /* of them: that have memory */
	struct loop_link ready; /* closed, oldest first */
	struct run_batch *filling;
	uint32_t batch_bytes; /* of those that are begun, at most; 0: as long as can be */
	/* The merge at work. */
	struct mt_shard *shard; /* NULL: none */
	uint64_t chunk, flushed_sequence, cut;
	struct mt_frame *frames; /* of the whole merge, by block; CLEAVE_CHUNK_BLOCKS of them */
	uint32_t *crcs;
	uint32_t frame_count, crc_count;
	struct mt_run_place *places; /* of the batches that are acknowledged; MERGE_PLACES_MAX */
	uint32_t place_count;
	uint64_t stored_bytes; /* of the frames */
	struct run_part parts[MERGE_PARTS_MAX];
	uint32_t part_max; /* of them, beside those that the result has already [MERGE_PARTS_MAX] */
	uint32_t part_count;
	struct mt_append directory; /* run_directory.c: of the part that ends */
	bool is_directory_out;      /* it is at its replicas */
	bool claims_all;            /* for tests: batches that have failed count as acknowledged */
	bool is_ending;             /* no more frames: what fills is sent */
	uint64_t hope_ns;           /* until then room may yet come: extents are being deleted */
	bool is_hoping;             /* mt_run_writer_retry is wanted, in a while */
	int rc;
	void (*fn)(void *arg); /* there is room, or an end, or a failure */
	void *arg;
};

/* mt_run_writer_batches -- how many a writer has beside windows of @window_bytes together: as much again, two at least. */
static inline uint32_t
mt_run_writer_batches(uint64_t window_bytes)
{
	return (uint32_t)num_max(RUN_BATCHES_MIN,
	    num_min(window_bytes / BATCH_BYTES_MAX, RUN_BATCHES_MAX));
}

/*
 * mt_run_writer_init -- with @batch_count batches of device memory of @port, and host memory
 *
 * 0; -ENOMEM: mt_run_writer_fini takes what there is.
 */
int mt_run_writer_init(struct run_writer *writer, struct mt_port *port, uint32_t batch_count);
/* mt_run_writer_fini -- no batch comes back any more. Also of one that is all zeros. */
void mt_run_writer_fini(struct run_writer *writer);
/*
 * mt_run_writer_begin -- frames of @chunk follow, for runs of @shard that have @flushed_sequence and @cut
 *
 * Nothing of an earlier merge is left: it is quiet, and was released.
 */
void mt_run_writer_begin(struct run_writer *writer, struct mt_shard *shard, uint64_t chunk,
    uint64_t flushed_sequence, uint64_t cut);
/*
 * mt_run_writer_room -- where @stored_bytes may go with @crc_count CRCs
 *
 * STEP_DONE: *@ret_place is it. STEP_AGAIN: when fn was called. Negative: why the writer has failed.
 */
int mt_run_writer_room(struct run_writer *writer, uint32_t stored_bytes, uint32_t crc_count,
    dev_ptr *ret_place);
/* mt_run_writer_add -- @record is the next: its stored bytes are where mt_run_writer_room said. */
void mt_run_writer_add(struct run_writer *writer, const struct record_desc *record);
/* mt_run_writer_end -- send what is left. mt_run_writer_end_step -- STEP_DONE: it is acknowledged. */
void mt_run_writer_end(struct run_writer *writer);
int mt_run_writer_end_step(const struct run_writer *writer);
/* mt_run_writer_retry -- is_hoping: look for room again. */
void mt_run_writer_retry(struct run_writer *writer);
/* mt_run_writer_cancel -- @rc: what is not sent is dropped; quiet when what is sent has ended. */
void mt_run_writer_cancel(struct run_writer *writer, int rc);
/* mt_run_writer_release -- the merge's runs are named, or never will be: their extents may go. */
void mt_run_writer_release(struct run_writer *writer);
/*
 * mt_run_writer_forget -- the shard of its merge goes: nothing points at it any more
 *
 * The shard's extents, which know of batches that are sent, are freed after this and before the writer.
 */
void mt_run_writer_forget(struct run_writer *writer);
/* mt_run_writer_returned -- an append of its has come back with @rc, and was taken note of: it goes on. For run_directory.c. */
void mt_run_writer_returned(struct run_writer *writer, int rc);
/* mt_run_writer_is_quiet -- no batch fills, waits, or is at its replicas. */
bool mt_run_writer_is_quiet(const struct run_writer *writer);

#endif /* CLEAVE_MIDDLETIER_MERGE_RUN_WRITER_H */
