/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.h -- what the files of the write path share: requests (write_path.c), batches
 * (write_batch.c), the log's extents (log_roll.c)
 */
#ifndef CLEAVE_MIDDLETIER_WRITE_H
#define CLEAVE_MIDDLETIER_WRITE_H

#include <stdbool.h>

#include "internal.h"
#include "pace.h"

_Static_assert(MT_APPENDS_IN_FLIGHT_MAX <= BATCH_IN_FLIGHT_MAX, "nodes look so far for marks");
#define WRITE_APPENDS_OPEN_MAX 2u /* in flight, before the open batch waits to fill */
/* Of a shard: those in flight, one closed behind them, one filling. */
#define WRITE_BATCHES_MAX (MT_APPENDS_IN_FLIGHT_MAX + 2u)
/* Of a shard with engine threads: records that are being compressed, or wait for those before. */
#define WRITE_JOBS_MAX 16u
#define WRITE_JOBS_SMALL 4u /* where the ring is small */

struct mt_write;

/* ---- log_roll.c: which extent the log goes to ---- */

enum log_roll_state {
	LOG_ROLL_STEADY,  /* shard->log takes appends */
	LOG_ROLL_TURNING, /* it is broken, full or missing: its last appends end, a spare is made */
	LOG_ROLL_COMMITTING, /* the manifest edit that seals the old and opens the new is on its way */
	LOG_ROLL_STOPPED,
	LOG_ROLL_STATE_NR
};

struct log_roll {
	struct sm sm;
	struct mt_extent *old;   /* TURNING, COMMITTING: to be sealed; NULL: there is none */
	struct mt_extent *spare; /* CREATING or OPEN, in no manifest; COMMITTING: the next log */
	struct loop_timer retry_timer;
	bool is_offered;        /* the spare is in shard->extents, and may be in the manifest */
	uint32_t attempt_count; /* to make a spare, since the last pause */
	bool is_commit_failed;  /* pauses before it commits again */
	bool is_reserve_tried;  /* the last spare was asked of the reserve */
	bool is_short;          /* at last no node had room for a spare */
	bool is_full;           /* nor for one from the reserve: nothing can be written */
	bool must_seal;         /* there is no spare: the old extent is sealed without one */
	bool is_trimming;       /* the log turns as soon as there is a spare */
	bool is_wait_logged;
};

void log_roll_init(struct mt_write_state *state);
void log_roll_start(struct mt_write_state *state);
/* log_roll_step -- go on as far as can be; cheap when there is nothing to do. */
void log_roll_step(struct mt_write_state *state);
/* log_roll_turn -- the log takes no more: it is broken, or full. */
void log_roll_turn(struct mt_write_state *state);
/*
 * log_roll_trim -- the log goes to another extent soon, so that what is in this one can go
 *
 * It costs a slot for what has been written, so it is for logs that do not turn by themselves. Nothing
 * happens to an empty one; and none, too, where there is no room: ask again.
 */
void log_roll_trim(struct mt_write_state *state);
/* log_roll_tend -- see mt_write_path_tend. */
uint64_t log_roll_tend(struct mt_write_state *state, uint32_t domain_count);
/* log_roll_is_short -- there is room for tombstones alone. */
bool log_roll_is_short(const struct mt_write_state *state);
/* log_roll_on_room -- there may be room for a spare now. */
void log_roll_on_room(struct mt_write_state *state);
void log_roll_on_link(struct mt_write_state *state, struct mt_link *link, bool is_up);
void log_roll_stop(struct mt_write_state *state);
void log_roll_fini(struct mt_write_state *state);

/* ---- write_batch.c: records on their way to the log ---- */

enum write_batch_state {
	WRITE_BATCH_FREE,
	WRITE_BATCH_FILLING,  /* takes records */
	WRITE_BATCH_READY,    /* closed; in state->ready, oldest first */
	WRITE_BATCH_SENT,     /* at its replicas */
	WRITE_BATCH_DRAINING, /* given up; copies into it are still running */
	WRITE_BATCH_STATE_NR
};

struct write_batch {
	struct mt_batch batch;
	struct sm sm;
	struct loop_link link;   /* state->free_batches or ready */
	struct loop_link writes; /* in the order of their records */
	uint64_t ring_position;
	uint32_t desc_bytes;
	uint32_t payload_bytes;
	uint32_t record_count;
	uint32_t copy_count; /* engine jobs that still write into it */
	bool was_sent;       /* to an extent that broke */
	bool is_ahead;       /* it has a record of the latency class */
	struct mt_write_state *state;
};

int write_batches_init(struct mt_write_state *state);
void write_batches_fini(struct mt_write_state *state);
/*
 * write_batch_room -- the filling batch, with room for a record of @stored_bytes and @crc_count block
 * CRCs; closes a full one and opens the next. NULL: wait for a batch to end, or the ring.
 */
struct write_batch *write_batch_room(struct mt_write_state *state, uint32_t stored_bytes,
    uint32_t crc_count);
/* write_batch_payload -- where the next record's stored bytes go. */
dev_ptr write_batch_payload(const struct write_batch *batch);
/* write_batch_add -- @record becomes the batch's next one, @write's answer waits for it. */
void write_batch_add(struct write_batch *batch, struct mt_write *write,
    const struct record_desc *record);
/* write_batch_copied -- a job that wrote into @batch has ended. */
void write_batch_copied(struct write_batch *batch);
/* write_batches_send -- append what the log takes now. True: something was sent. */
bool write_batches_send(struct mt_write_state *state);
/* write_batches_close -- what comes next goes into another batch than what is there. */
void write_batches_close(struct mt_write_state *state);
/* write_batches_have_older -- is a batch with a cut below @cut on its way? */
bool write_batches_have_older(const struct mt_write_state *state, uint64_t cut);
/* write_is_at -- is a write of these segments on its way? */
bool write_is_at(const struct mt_write_state *state, uint64_t segment_base, uint32_t segment_count);
/* write_batches_fail -- answer all records that are not in flight with @rc. */
void write_batches_fail(struct mt_write_state *state, int rc);

/* ---- write_path.c ---- */

enum write_state {
	WRITE_FREE,
	WRITE_PARKED, /* in state->parked, its line: the shard does not serve, or there is no room */
	WRITE_STORING, /* in state->storing: an engine thread has it */
	WRITE_STORED,  /* in state->storing: waits for those before it, and room in a batch */
	WRITE_BATCHED, /* in its batch's list */
	WRITE_HELD,    /* in state->held: durable, its answer is kept back (cut.c) */
	WRITE_STATE_NR
};

/* What is parked, in two lines. A session's writes are all in one. */
enum write_line {
	WRITE_LINE_AHEAD, /* of volumes of the latency class */
	WRITE_LINE_OTHERS,
	WRITE_LINE_NR
};

/* An engine job of a write, and the device memory it compresses into. Threaded sets only. */
struct write_job {
	struct engine_job job;
	struct loop_link link; /* state->free_jobs */
	struct mt_write_state *state;
	struct mt_write *write;    /* whose record is being made */
	struct write_batch *batch; /* into which it is being copied */
	dev_ptr scratch;
};

struct mt_write {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* in the one queue that its state names */
	struct mt_session *session;
	struct split_msg *msg;
	struct wire_io io;
	struct write_job *job; /* STORING, STORED */
	uint32_t stored_bytes; /* BATCHED */
	bool is_promised;      /* mt_index_promise: it was admitted */
};

/* What others' writes have of the present turn. */
struct write_turn {
	struct loop_turn_end end;
	uint32_t taken_bytes; /* that the engine has run over */
	bool is_over;         /* and so some wait for the next */
};

/* How fast the log may get longer. */
struct write_room {
	struct pace_drain drain;
	uint64_t paid_ns;
};

struct mt_write_state {
	uint32_t magic;
	struct mt_shard *shard;
	bool is_started;
	bool is_stopped;
	int stop_rc;
	struct mt_write *writes; /* one for each receive of the port */
	uint32_t write_max;
	struct loop_link free_writes, storing, held;
	struct loop_link parked[WRITE_LINE_NR];
	uint32_t ahead_count; /* admitted since one of the others was */
	struct write_batch batches[WRITE_BATCHES_MAX];
	struct loop_link free_batches, ready;
	struct write_batch *filling;
	uint32_t batch_bytes_max; /* BATCH_BYTES_MAX or what the log can hold; 0: no log yet */
	struct write_job *jobs;   /* NULL: the engine set runs inline */
	uint32_t job_max;
	struct loop_link free_jobs;
	struct engine_job inline_job;
	struct loop_task pump_task;
	struct loop_timer retry_timer; /* the engine's queue was full */
	struct log_roll roll;
	struct write_room room;
	struct write_turn turn;
};

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

/* write_finish -- answer @write; the sole exit of each. */
void write_finish(struct mt_write_state *state, struct mt_write *write, int rc);
/* write_release_held -- answer what was kept back. */
void write_release_held(struct mt_write_state *state, int rc);
/* write_pump -- soon, look at everything that may go on. */
void write_pump_soon(struct mt_write_state *state);
/* write_fail_parked -- answer what waits for admission or for room in a batch. */
void write_fail_parked(struct mt_write_state *state, int rc);
/* mt_write_path_kick -- read_path.c has let go of the ring. */
void mt_write_path_kick(struct mt_shard *shard);
/* ---- write_record.c: what the log says of it ---- */

/* write_fill_tombstone -- of a discard or zero write. */
void write_fill_tombstone(const struct mt_write *write, struct record_desc *record);
/* write_fill_record -- what the engine made of it; a write of nothing but zeros becomes a tombstone, too. */
void write_fill_record(const struct mt_write *write, const struct engine_job *job,
    struct record_desc *record);
/* write_is_needless -- a discard or zero write where nothing is: as good as done, without a record (holes.c). */
bool write_is_needless(const struct mt_write_state *state, const struct mt_write *write);

/* ---- write_room.c: is there room for it? ---- */

/*
 * write_check -- may @write, which waits first in its line, be admitted?
 *
 * 0; -EAGAIN: not yet; else its answer.
 */
int write_check(struct mt_write_state *state, const struct mt_write *write);
/* write_room_take -- a batch of @bytes goes to the log. */
void write_room_take(struct mt_write_state *state, uint32_t bytes);
/* mt_write_path_on_room -- extents have gone, or will not go: look at what waits for room. */
void mt_write_path_on_room(struct mt_shard *shard);

/* ---- write_turn.c: is there time for it in this turn? ---- */

void write_turn_init(struct mt_write_state *state);
void write_turn_fini(struct mt_write_state *state);
/* mt_turn_on_ahead -- @session's request has come, or is answered: the latency class cuts turns short. */
void mt_turn_on_ahead(struct mt_port *port, const struct mt_session *session);
/* mt_turn_is_short -- the latency class was at work within the last second: turns are to be short. */
bool mt_turn_is_short(const struct mt_port *port);
/* write_turn_is_over -- a write that is not of the latency class has to wait for the next turn. */
bool write_turn_is_over(const struct mt_write_state *state);
/* write_turn_take -- the engine has run over @write. */
void write_turn_take(struct mt_write_state *state, const struct mt_write *write);

/* ---- read_path.c, for write_path.c, which is told about shards and links ---- */
void mt_read_path_claimed(struct mt_shard *shard);
void mt_read_path_on_shard(struct mt_shard *shard);
void mt_read_path_on_link(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_WRITE_H */
