/* SPDX-License-Identifier: Apache-2.0 */
/* read.h -- what the read path's files share: requests (read_path.c) and their pieces (read_piece.c) */
#ifndef CLEAVE_MIDDLETIER_READ_H
#define CLEAVE_MIDDLETIER_READ_H

#include <stdbool.h>

#include "index.h"

#define READ_PIECES_MAX 256u /* of a port: records being read at a time */
#define READ_LOOKUPS_MAX 4u  /* of a piece: as often its blocks may move meanwhile */
/*
 * Data that reads may copy in one turn of the loop before the others wait for the next: so the first
 * answers leave, still in the cache, while the last ones are made.
 */
#define READ_TURN_BYTES NUM_KIB(256)
#define READ_TICK_NS NUM_MS(50) /* what waits for a node or an engine is looked at so often */

struct mt_read;

enum read_piece_state {
	READ_PIECE_FREE,
	READ_PIECE_CHOOSING, /* what is done next is decided within this call */
	READ_PIECE_INDEXING, /* waits for the index of index_run */
	READ_PIECE_ASKING,   /* a replica was asked */
	READ_PIECE_LOADING,  /* an engine thread has it */
	READ_PIECE_WAITING,  /* in state->waiting: for a node to come up, or room in a queue */
	READ_PIECE_STATE_NR
};

/* What the index says of a block. */
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
	uint8_t tried;               /* replicas asked for this run, by bit */
	uint8_t bad;                 /* those among them whose copy is not what it should be */
	uint8_t replica_index;
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

enum read_state {
	READ_FREE,
	READ_PARKED,  /* in state->parked: its shard does not serve yet */
	READ_STARVED, /* in state->starved: no piece is free, or enough is done in this turn */
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
	/* BLOCK_STATUS: block_status.c. */
	struct mt_run_waiter waiter;
	uint32_t payload_bytes, payload_crc;
};

struct mt_read_state {
	uint32_t magic;
	struct mt_port *port;
	struct mt_read *reads; /* one for each receive of the port */
	struct read_piece *pieces;
	struct loop_link free_reads, parked, starved;
	struct loop_link free_pieces, waiting;
	struct loop_timer tick_timer;
	struct loop_task feed_task;   /* pieces for the starved */
	struct loop_timer turn_timer; /* the next turn of the loop, for those that wait for it */
	uint64_t turn_ns;             /* the loop turn of turn_bytes */
	uint64_t turn_bytes;          /* that pieces were started for in it */
	uint32_t zero_block_crc;
	/* block_status.c: READ_STATUS_BYTES_MAX of entries, READ_STATUS_BLOCKS_MAX of flags. */
	uint8_t *status_entries;
};

/* ---- read_piece.c ---- */

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

/* ---- block_status.c ---- */

#define READ_STATUS_BLOCKS_MAX 4096u /* of an answer: the others have to wait for so long */
#define READ_STATUS_BYTES_MAX (READ_STATUS_BLOCKS_MAX * WIRE_STATUS_ENTRY_BYTES)
_Static_assert(READ_STATUS_BYTES_MAX <= WIRE_CLIENT_PAYLOAD_BYTES_MAX, "an answer");

/* read_status -- answer a BLOCK_STATUS from the index. Ends in read_on_status, possibly at once. */
void read_status(struct mt_read *read);

/* ---- read_path.c ---- */

/* read_on_status -- rc 0: payload_bytes of entries are in the message's payload. */
void read_on_status(struct mt_read *read, int rc);

/* read_on_piece -- a piece of @read has ended and is free again. */
void read_on_piece(struct mt_read *read, int rc);

#endif /* CLEAVE_MIDDLETIER_READ_H */
