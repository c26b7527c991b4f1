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
#include "index/memtable.h"
#include "index/run_load.h"

struct mt_read;
struct mt_read_state;
struct mt_run;
struct split_msg;

#define READ_PIECES_MAX 256u /* of a port: records being read at a time */
#define READ_LOOKUPS_MAX 4u  /* of a piece: as often its blocks may move meanwhile */

enum read_piece_state {
	READ_PIECE_FREE,
	READ_PIECE_CHOOSING, /* what is done next is decided within this call */
	READ_PIECE_INDEXING, /* waits for the index of index_run */
	READ_PIECE_ASKING,   /* a replica was asked */
	READ_PIECE_LOADING,  /* an engine thread has it */
	READ_PIECE_WAITING,  /* in state->waiting: for a node to come up, or room in a queue */
	READ_PIECE_STATE_NR
};

/* The index's answer about a block. */
enum read_what {
	READ_ZEROS,
	READ_STORED,
	READ_LOST,     /* no copy of it was good when its chunk was compacted */
	READ_UNLOADED, /* the index of a run that may hold it is not in memory */
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
	uint32_t first, end;         /* blocks of the read: what is left of the range */
	uint32_t count;              /* the run */
	enum read_what what;         /* of the run */
	struct mt_location location; /* STORED: of the run's first block */
	struct mt_run *index_run;    /* UNLOADED: whose index is wanted first */
	struct mt_run_waiter waiter; /* INDEXING */
	struct mt_chooser chooser;   /* STORED: among the copies of the run's extent */
	uint8_t replica_index;       /* that was asked last */
	uint8_t lookup_count;
	bool is_ring_bad;
	bool is_in_ring; /* LOADING from the ring, which is held */
	/* A node's reply, in which more of the piece's runs may be than the one that is LOADING. */
	struct split_msg *source;
	uint32_t source_extent, source_offset_bytes;
	uint32_t fetch_bytes, fetch_count; /* of the extent, and blocks, that one READ asks for */
	struct mt_call call;
	struct engine_job job;
};

int read_pieces_init(struct mt_read_state *state);
void read_pieces_fini(struct mt_read_state *state);
/* read_piece_look_up -- its run: count, what it is, and where; from its first block on, as it is now. */
void read_piece_look_up(struct read_piece *piece);
/* read_piece_is_at_hand -- it was looked up, and needs no node: its data can be made at once. */
bool read_piece_is_at_hand(const struct read_piece *piece);
/* read_piece_start -- @piece has read, end, and was looked up. Ends in read_on_piece, possibly at once. */
void read_piece_start(struct read_piece *piece);
/* read_pieces_retry -- look at all that wait. */
void read_pieces_retry(struct mt_read_state *state);

#endif /* CLEAVE_MIDDLETIER_READ_READ_PIECE_H */
