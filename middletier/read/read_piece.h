/* SPDX-License-Identifier: Apache-2.0 */
/* read_piece.h -- some blocks of a read: from the ring, from a replica, or zeros */
#ifndef CLEAVE_MIDDLETIER_READ_READ_PIECE_H
#define CLEAVE_MIDDLETIER_READ_READ_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "extent/call.h"
#include "extent/choose.h"
#include "index/run_load.h"
#include "read/read_frames.h"
#include "read/read_stretch.h"

struct mt_hot_slot;
struct mt_read;
struct mt_read_state;
struct mt_run;
struct split_msg;

#define READ_PIECE_MAGIC 0x43454950u    /* "PIEC" */
#define READ_PIECES_MAX 256u            /* of a port: records being read at a time */
#define READ_JOIN_BYTES_MAX NUM_KIB(16) /* what is asked for with others of its turn: choose.h */
#define READ_LOOKUPS_MAX 4u             /* of a piece: as often its blocks may move meanwhile */

enum read_piece_state {
	READ_PIECE_FREE,
	READ_PIECE_CHOOSING, /* what is done next is decided within this call */
	READ_PIECE_INDEXING, /* waits for the index of its stretch's index_run */
	READ_PIECE_FILLING, /* waits for a frame that is being fetched and decompressed: read_frames.h */
	READ_PIECE_ASKING,  /* a replica was asked */
	READ_PIECE_LOADING, /* an engine thread has it */
	READ_PIECE_KEEPING, /* an engine thread copies what it has loaded: read_hot.h */
	READ_PIECE_WAITING, /* in state->waiting: for a node to come up, or room in a queue */
	READ_PIECE_STATE_NR
};

/* A range of a read's blocks, worked off a stretch at a time. */
struct read_piece {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* state->free_pieces or waiting */
	struct mt_read_state *state;
	struct mt_read *read;
	struct read_stretch stretch; /* at work on */
	uint32_t end;                /* of the range: the block of the read behind its last */
	struct mt_run_waiter waiter; /* INDEXING */
	struct mt_chooser chooser;   /* STORED: among the copies of the stretch's extent */
	uint8_t replica_index;       /* that was asked last */
	uint8_t lookup_count;
	bool is_ring_bad;
	bool is_in_ring; /* LOADING from the ring, which is held */
	bool
	    is_frameless; /* its stretch was looked for among the frames that are kept, or should not be */
	bool is_cold;             /* its stretch was looked for in the table of hot blocks */
	uint8_t kept_count;       /* blocks of its stretch that were considered for that table */
	struct mt_hot_slot *hot;  /* LOADING from it, and it is held; KEEPING: it is being filled */
	struct read_frame *frame; /* LOADING from it; it is held */
	struct read_frame_waiter frame_waiter; /* FILLING */
	/* A node's reply, in which more of the piece's stretches may be than the one that is LOADING. */
	struct split_msg *source;
	uint32_t source_extent, source_offset_bytes;
	uint64_t source_id;         /* extent_id_pack of source_extent's */
	uint32_t source_skip_bytes; /* of its payload, to what lies at source_offset_bytes */
	struct mt_call call;
	struct engine_job job;
};

/*
 * mt_read_piece_start -- fetch blocks of @read with @piece, which is FREE
 *
 * From @read->next_block on, as many as one READ brings, or one stretch has: next_block moves on by those.
 * Ends in mt_read_on_piece, possibly before it returns.
 * Returns: the bytes that it copies in this turn of the loop; 0 where it waits for a node or an index.
 */
uint32_t mt_read_piece_start(struct read_piece *piece, struct mt_read *read);
/* mt_read_piece_choose -- CHOOSING: what is done next. mt_read_piece_on_job -- LOADING: its job has ended. For read_pieces.c. */
void mt_read_piece_choose(struct read_piece *piece);
void mt_read_piece_on_job(struct engine_job *job, void *arg);
/* mt_read_piece_run_job -- engine_submit the piece's job, as urgent as its read is: who reads waits for it. */
int mt_read_piece_run_job(struct read_piece *piece);
/*
 * For read_piece_index.c, CHOOSING: mt_read_piece_look_up -- the stretch at block @first of the read, as it is now; nobody
 * was asked for it yet. mt_read_piece_finish -- FREE, and its read is told of @rc. mt_read_piece_fail_unreadable -- finish:
 * no copy has what the index says. mt_read_piece_drop_source -- the reply that a node has sent goes, if there is one.
 */
void mt_read_piece_look_up(struct read_piece *piece, uint32_t first);
void mt_read_piece_finish(struct read_piece *piece, int rc);
void mt_read_piece_fail_unreadable(struct read_piece *piece);
void mt_read_piece_drop_source(struct read_piece *piece);

#endif /* CLEAVE_MIDDLETIER_READ_READ_PIECE_H */
