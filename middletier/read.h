/* SPDX-License-Identifier: Apache-2.0 */
/* read.h -- what the read path's files share: requests (read_path.c) and their pieces (read_piece.c) */
#ifndef CLEAVE_MIDDLETIER_READ_H
#define CLEAVE_MIDDLETIER_READ_H

#include <stdbool.h>

#include "internal.h"

#define READ_PIECES_MAX 256u    /* of a port: records being read at a time */
#define READ_LOOKUPS_MAX 4u     /* of a piece: as often its blocks may move meanwhile */
#define READ_TICK_NS NUM_MS(50) /* what waits for a node or an engine is looked at so often */

struct mt_read;

enum read_piece_state {
	READ_PIECE_FREE,
	READ_PIECE_CHOOSING, /* what is done next is decided within this call */
	READ_PIECE_ASKING,   /* a replica was asked */
	READ_PIECE_LOADING,  /* an engine thread has it */
	READ_PIECE_WAITING,  /* in state->waiting: for a node to come up, or room in a queue */
	READ_PIECE_STATE_NR
};

/*
 * A range of a read's blocks, worked off a *run* at a time: blocks that lie next to each other in one
 * record, or are all zeros.
 */
struct read_piece {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* state->free_pieces or waiting */
	struct mt_read_state *state;
	struct mt_read *read;
	uint32_t first, end; /* blocks of the read: what is left of the range */
	uint32_t count;      /* the run */
	bool is_zero;
	struct mt_location location; /* of the run's first block */
	struct extent_id extent_id;
	uint8_t tried; /* replicas asked for this run, by bit */
	uint8_t bad;   /* those among them whose copy is not what it should be */
	uint8_t replica_index;
	uint8_t lookup_count;
	bool is_ring_bad;
	bool is_in_ring;          /* LOADING from the ring, which is held */
	struct split_msg *source; /* LOADING from a node's reply */
	struct mt_call call;
	struct engine_job job;
};

enum read_state {
	READ_FREE,
	READ_PARKED,  /* in state->parked: its shard does not serve yet */
	READ_STARVED, /* in state->starved: no piece is free */
	READ_RUNNING, /* pieces are out */
	READ_STATE_NR
};

struct mt_read {
	uint32_t magic;
	struct sm sm;
	struct loop_link link;
	struct mt_shard *shard;
	struct mt_session *session;
	struct split_msg *msg;
	struct wire_io io;
	uint32_t block_count;
	uint32_t next_block;  /* the first that no piece has taken */
	uint32_t piece_count; /* out */
	int rc;
	uint64_t deadline_ns;
	uint32_t crcs[ENGINE_RECORD_BLOCKS_MAX]; /* of its blocks, as the index has them */
};

struct mt_read_state {
	uint32_t magic;
	struct mt_port *port;
	struct mt_read *reads; /* one for each receive of the port */
	struct read_piece *pieces;
	struct loop_link free_reads, parked, starved;
	struct loop_link free_pieces, waiting;
	struct loop_timer tick_timer;
	struct loop_task feed_task; /* pieces for the starved */
	uint32_t zero_block_crc;
};

/* ---- read_piece.c ---- */

int read_pieces_init(struct mt_read_state *state);
void read_pieces_fini(struct mt_read_state *state);
/* read_run_count -- how many blocks from @first on, at most @end, are one run. */
uint32_t read_run_count(const struct mt_read *read, uint32_t first, uint32_t end);
/* read_piece_start -- @piece has read, first and end. Ends in read_on_piece, possibly at once. */
void read_piece_start(struct read_piece *piece);
/* read_pieces_retry -- look at all that wait. */
void read_pieces_retry(struct mt_read_state *state);

/* ---- read_path.c ---- */

/* read_on_piece -- a piece of @read has ended and is free again. */
void read_on_piece(struct mt_read *read, int rc);

#endif /* CLEAVE_MIDDLETIER_READ_H */
