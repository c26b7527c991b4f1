/* SPDX-License-Identifier: Apache-2.0 */
/* write_path.h -- a write message, from its arrival to its answer */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_PATH_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/hops.h"
#include "common/port.h"
#include "common/shard.h"
#include "session/session.h"
#include "write/cut.h"
#include "write/log_roll.h"
#include "write/write_batch.h"
#include "write/write_job.h"
#include "write/write_room.h"
#include "write/write_turn.h"

struct mt_link;
struct mt_write;
struct mt_write_state;
struct split_msg;

/*
 * mt_write -- take a WRITE, DISCARD or WRITE_ZEROES of @session
 *
 * A shard that does not serve yet parks it, as many as the port has receives; one that has stopped answers
 * -EREMCHG. @io is within the volume: decoded, and its place checked.
 * Ownership: @msg is the write's until it has replied. Then it calls mt_session_request_done, possibly before
 *            this returns.
 * Threads:   the port's loop thread, as for all of this header.
 */
void mt_write(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io);
/*
 * mt_write_path_init -- before the port listens (its receives are counted), after its engine set
 *
 * Returns 0; -ENOMEM: shard->write stays NULL.
 */
int mt_write_path_init(struct mt_shard *shard);
/*
 * mt_write_path_take -- the memory of a life: heads of batches, a write for each receive, a piece of @shard's ring
 *
 * Before the first mt_write. Returns 0; -ENOMEM: nothing was taken.
 */
int mt_write_path_take(struct mt_shard *shard);
/* mt_write_path_give -- after reset, before the ring goes: that memory back. Without take: does nothing. */
void mt_write_path_give(struct mt_shard *shard);
/* mt_write_path_fini -- when no queue pair is left, and no engine job can run any more. */
void mt_write_path_fini(struct mt_shard *shard);
/* mt_write_path_is_quiet -- stopped, every write answered, no batch or job out. */
bool mt_write_path_is_quiet(const struct mt_shard *shard);
/* mt_write_path_reset -- quiet: as after init, without asking for memory. */
void mt_write_path_reset(struct mt_shard *shard);
/*
 * mt_write_path_claimed -- the shard's epoch is known: what was parked before must name it
 *
 * A request of an older epoch may be one that its client gave up long ago (I11): it is answered -ESTALE.
 */
void mt_write_path_claimed(struct mt_shard *shard);
/* mt_write_path_drop -- @session has gone: its writes that wait for admission are not made any more (I11) */
void mt_write_path_drop(struct mt_shard *shard, const struct mt_session *session);
/* mt_write_path_start -- the shard is SERVING: sequence and extents are known, parked requests go. */
void mt_write_path_start(struct mt_shard *shard);
/*
 * mt_write_path_stop -- answer everything parked or batched with @rc; then its reads must be told (read_path.h)
 *
 * What is in flight is answered when its replicas have. -ECANCELED travels, all else is -EREMCHG.
 */
void mt_write_path_stop(struct mt_shard *shard, int rc);
/*
 * mt_write_path_tend -- begin a new log extent where the present one has fewer replicas than there are
 * domains for. Returns when to ask again, UINT64_MAX: there is nothing to be done.
 */
uint64_t mt_write_path_tend(struct mt_shard *shard, uint32_t domain_count);
/* mt_write_path_on_link -- a link of the port came up or went down: the log may need another extent. */
void mt_write_path_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);

enum write_state {
	WRITE_FREE,
	WRITE_PARKED, /* in state->parked, its line: the shard does not serve, or there is no room */
	WRITE_STORING, /* in state->storing: an engine thread has it */
	WRITE_STORED,  /* in state->storing: waits for those before it, and room in a batch */
	WRITE_BATCHED, /* in its batch's list */
	WRITE_HELD,    /* in state->held: durable, its answer is kept back (cut.c) */
	WRITE_STATE_NR
};

/* Parked writes wait in two lines. A session's writes are all in one. */
enum write_line {
	WRITE_LINE_AHEAD, /* of volumes of the latency class */
	WRITE_LINE_OTHERS,
	WRITE_LINE_NR
};

#define WRITE_MAGIC 0x54495257u /* "WRIT" */

struct mt_write {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* in the one queue that its state names */
	struct mt_session *session;
	struct split_msg *msg;
	struct wire_io io;
	struct mt_write_stamps stamps;
	struct write_job *job;           /* STORING, STORED */
	const struct write_batch *batch; /* BATCHED */
	uint32_t stored_bytes;           /* BATCHED */
	bool is_promised;                /* mt_index_promise: it was admitted */
	bool is_short;                   /* it waits, or waited, for room at nodes: counted */
	bool is_pinned;                  /* refused: too much of its volume cannot be merged */
};

struct mt_write_state {
	uint32_t magic;
	struct mt_shard *shard;
	bool is_started;
	bool is_stopped;
	int stop_rc;
	struct mt_write *writes; /* one for each receive of the port; NULL: the shard is idle */
	uint32_t write_max;
	struct loop_link free_writes, storing, held;
	struct loop_link parked[WRITE_LINE_NR];
	uint32_t ahead_count; /* admitted since one of the others was */
	struct write_batch batches[WRITE_BATCHES_MAX];
	struct loop_link free_batches, ready;
	struct write_batch *filling;
	uint32_t batch_bytes_max; /* BATCH_BYTES_MAX or what the log can hold; 0: no log yet */
	struct write_jobs jobs;
	struct loop_task pump_task;
	struct loop_timer retry_timer; /* the engine's queue was full */
	struct log_roll roll;
	struct write_room room;
	struct write_turn turn;
	struct mt_cut cut;
};

static inline struct mt_write *
write_of(struct loop_link *link)
{
	struct mt_write *write = LIST_ENTRY(link, struct mt_write, link);

	CHECK_OBJ(write, WRITE_MAGIC);
	return write;
}

static inline bool
write_has_payload(const struct mt_write *write)
{
	return write->io.opcode == WIRE_WRITE;
}

static inline uint32_t
write_block_count(const struct mt_write *write)
{
	return write->io.length_bytes / CLEAVE_BLOCK_BYTES;
}

static inline uint32_t
write_block(const struct mt_write *write)
{
	return (uint32_t)(write->io.offset_bytes / CLEAVE_BLOCK_BYTES);
}

/* write_path_serves -- requests of @shard are taken now, not parked or refused. */
static inline bool
write_path_serves(const struct mt_shard *shard)
{
	return shard->write->is_started && !shard->write->is_stopped;
}

static inline enum write_line
write_line_of(const struct mt_write *write)
{
	return write->session->volume.service_class == SERVICE_LATENCY ? WRITE_LINE_AHEAD
								       : WRITE_LINE_OTHERS;
}

static inline bool
write_is_any_parked(const struct mt_write_state *state)
{
	return !list_is_empty(&state->parked[WRITE_LINE_AHEAD]) ||
	    !list_is_empty(&state->parked[WRITE_LINE_OTHERS]);
}

/* write_pump_soon -- a task of the loop looks at every write that may go on; stopped: nothing. */
static inline void
write_pump_soon(struct mt_write_state *state)
{
	if (!state->is_stopped)
		loop_defer(state->shard->port->loop, &state->pump_task);
}
/* mt_write_path_kick -- a read or a merge has let go of room in the ring. */
void mt_write_path_kick(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_PATH_H */
