/* SPDX-License-Identifier: Apache-2.0 */
/* read_path.h -- a read message, from its arrival to its answer; BLOCK_STATUS and CHUNK_MAP come the same way */
#ifndef CLEAVE_MIDDLETIER_READ_READ_PATH_H
#define CLEAVE_MIDDLETIER_READ_READ_PATH_H

#include <stdint.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/slow_op.h"
#include "extent/choose.h"
#include "index/run_load.h"

struct mt_call;
struct mt_hot;
struct mt_map_maker;
struct mt_port;
struct mt_read_frames;
struct mt_session;
struct mt_shard;
struct read_piece;
struct split_msg;

/*
 * mt_read -- take a READ, a BLOCK_STATUS or a CHUNK_MAP of @session
 *
 * A shard that does not serve yet parks it, as many as the port has receives; one that has stopped answers
 * -EREMCHG. @io is within the volume: decoded, and its place checked.
 * Ownership: @msg is the read's until it has replied, which is from the message's own payload buffer. Then it
 *            calls mt_session_request_done, possibly before this returns.
 * Threads:   the port's loop thread, as for all of this header.
 */
void mt_read(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io);
/*
 * mt_read_path_init -- before the port listens (its receives are counted), and after its engine set
 *
 * Returns 0; -ENOMEM: port->read stays NULL.
 */
int mt_read_path_init(struct mt_port *port);
/* mt_read_path_fini -- when no queue pair is left, and no engine job can run any more. */
void mt_read_path_fini(struct mt_port *port);

/*
 * Data that reads may copy in one turn of the loop before the others wait for the next: so the first
 * answers leave, still in the cache, while the last ones are made.
 */
#define READ_TURN_BYTES NUM_KIB(256)
#define READ_TICK_NS NUM_MS(50) /* what waits for a node or an engine is looked at so often */

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
	bool is_in_run;     /* some of it lies there, where its client could read it */
	bool is_sequential; /* it begins where its session's read before it ended */
	uint64_t taken_ns, deadline_ns;
	struct mt_slow_part node; /* its slowest call to one; took_ns 0: none was made */
	uint32_t crcs[ENGINE_RECORD_BLOCKS_MAX]; /* of its blocks, as the index has them */
	/* BLOCK_STATUS, CHUNK_MAP: paint.c waits, block_status.c and chunk_map.c answer. */
	struct mt_run_waiter waiter;
	uint32_t payload_bytes, payload_crc;
};

struct mt_read_state {
	uint32_t magic;
	struct mt_port *port;
	struct mt_read *reads; /* one for each receive of the port */
	struct read_piece *pieces;
	struct mt_read_frames *frames; /* read_frames.c; NULL: none are kept */
	struct mt_hot *hot;            /* hot.c; NULL: no block is kept */
	struct loop_link free_reads, parked, starved;
	struct loop_link free_pieces, waiting;
	struct loop_timer tick_timer;
	struct loop_task feed_task;      /* pieces for the starved */
	struct loop_timer turn_timer;    /* the next turn of the loop, for those that wait for it */
	uint64_t turn_ns;                /* the loop turn of turn_bytes */
	uint64_t turn_bytes;             /* that pieces were started for in it */
	struct mt_chooser_turn ask_turn; /* where reads of the present turn are asked for */
	uint32_t zero_block_crc;
	/* block_status.c: READ_STATUS_BYTES_MAX of entries, READ_STATUS_BLOCKS_MAX of flags. */
	uint8_t *status_entries;
	struct mt_map_maker *map_maker; /* chunk_map.c; NULL: none was asked for */
};

/*
 * mt_read_on_painted -- a BLOCK_STATUS or a CHUNK_MAP has its answer, or @rc says why not
 *
 * @rc 0: payload_bytes, whose CRC is payload_crc, are in the message's payload.
 */
void mt_read_on_painted(struct mt_read *read, int rc);
/* mt_read_again -- RUNNING, and what it waited for is there: it goes on. */
void mt_read_again(struct mt_read *read);

/* mt_read_on_piece -- a piece of @read has ended, with 0 or a negative errno, and is free again. */
void mt_read_on_piece(struct mt_read *read, int rc);

/* mt_read_path_claimed -- after mt_write_path_claimed: reads that were parked before must name the epoch, too. */
void mt_read_path_claimed(struct mt_shard *shard);
/*
 * mt_read_path_on_shard -- after mt_write_path_start or _stop: parked reads of @shard begin, or are
 * answered as its writes are
 */
void mt_read_path_on_shard(struct mt_shard *shard);
/* mt_read_path_is_quiet -- every read of @shard is answered. */
bool mt_read_path_is_quiet(const struct mt_shard *shard);
/* mt_read_path_on_link -- a link came up or went down: what waits for a node is looked at. */
void mt_read_path_on_link(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_READ_READ_PATH_H */
