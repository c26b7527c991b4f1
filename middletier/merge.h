/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h -- what the files of a merge share: the extent that runs go to (run_roll.c), the batches on
 * their way there (run_writer.c), which version of a block counts (merge_plan.c), how it is fetched
 * (merge_fetch.c) and stored again (merge_store.c), and a merge's life (merge.c)
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_H
#define CLEAVE_MIDDLETIER_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "index.h"
#include "internal.h"

#define RUN_BATCHES_MAX 2u /* of a port: one fills, one is at its replicas */
_Static_assert(RUN_BATCHES_MAX <= BATCH_IN_FLIGHT_MAX, "nodes look so far for marks");
#define MERGE_INPUTS_MAX 120u
#define MERGE_PARTS_MAX 72u /* runs that one merge makes: as many as extents that it fills */
#define MERGE_WINDOW_BLOCKS_MAX 256u
#define MERGE_WINDOW_FRAMES_MAX 512u
#define MERGE_READS_MAX 4u
#define MERGE_JOBS_MAX 4u

/* ---- run_roll.c: the extent that a shard's runs go to ---- */

enum run_roll_state {
	RUN_ROLL_NONE,       /* no extent */
	RUN_ROLL_CREATING,   /* its nodes are asked */
	RUN_ROLL_COMMITTING, /* the edit that names it is on its way */
	RUN_ROLL_OPEN,       /* takes batches, unless it has broken */
	RUN_ROLL_SEALING,    /* its last appends end, then the edit that seals it */
	RUN_ROLL_STOPPED,
	RUN_ROLL_STATE_NR
};

struct mt_run_roll {
	uint32_t magic;
	struct mt_shard *shard;
	struct sm sm;
	struct mt_extent *extent; /* not in NONE */
	bool is_committing;       /* an edit is out */
	int rc; /* why there is none: the last failure; 0: none since the last success */
	void (*fn)(void *arg); /* told of each change; NULL: nobody is */
	void *arg;
};

/* mt_run_roll_bytes -- what the open extent can take yet; 0: there is none. */
uint64_t mt_run_roll_bytes(const struct mt_shard *shard);
/* run_roll_step -- go on towards an open extent as far as can be. */
void run_roll_step(struct mt_run_roll *roll);
/* run_roll_turn -- OPEN: it takes no more. */
void run_roll_turn(struct mt_run_roll *roll);

/* ---- run_writer.c: frames on their way to the open run extent; one a port ---- */

struct run_writer;
struct run_batch {
	struct mt_batch batch;
	struct loop_link link; /* writer->ready */
	struct run_writer *writer;
	dev_ptr payload;
	uint32_t bytes_max; /* FILLING: no longer than this */
	uint32_t desc_bytes, payload_bytes, record_count;
	uint32_t first_frame; /* in writer->frames */
	enum { RUN_BATCH_FREE, RUN_BATCH_FILLING, RUN_BATCH_READY, RUN_BATCH_SENT } state;
};

/* Acknowledged batches that lie behind each other in one extent: a run. */
struct run_part {
	uint32_t extent_index;
	struct extent_id id;
	uint32_t offset_bytes, length_bytes;
	uint32_t first_frame, frame_count;
};

struct run_writer {
	struct mt_port *port;
	struct run_batch batches[RUN_BATCHES_MAX];
	struct loop_link ready; /* closed, oldest first */
	struct run_batch *filling;
	/* Of the merge at work. */
	struct mt_shard *shard; /* NULL: none */
	uint64_t chunk, flushed_sequence, cut;
	struct mt_frame *frames; /* of the whole merge, by block; CLEAVE_CHUNK_BLOCKS of them */
	uint32_t *crcs;
	uint32_t frame_count, crc_count;
	uint64_t stored_bytes; /* of the frames */
	struct run_part parts[MERGE_PARTS_MAX];
	uint32_t part_count;
	bool is_ending;   /* no more frames: what fills is sent */
	uint64_t hope_ns; /* until then room may yet come: extents are being deleted */
	bool is_hoping;   /* run_writer_retry is wanted, in a while */
	int rc;
	void (*fn)(void *arg); /* there is room, or an end, or a failure */
	void *arg;
};

int run_writer_init(struct run_writer *writer, struct mt_port *port);
void run_writer_fini(struct run_writer *writer);
/* run_writer_begin -- nothing of an earlier merge is left (run_writer_is_quiet). */
void run_writer_begin(struct run_writer *writer, struct mt_shard *shard, uint64_t chunk,
    uint64_t flushed_sequence, uint64_t cut);
/* run_writer_room -- where @stored_bytes may go with @crc_count CRCs; null: when fn was called. */
bool run_writer_room(struct run_writer *writer, uint32_t stored_bytes, uint32_t crc_count,
    dev_ptr *ret_place);
/* run_writer_add -- @record is the next: its stored bytes are where run_writer_room said. */
void run_writer_add(struct run_writer *writer, const struct record_desc *record);
/* run_writer_end -- send what is left. Done when run_writer_is_quiet. */
void run_writer_end(struct run_writer *writer);
/* run_writer_retry -- is_hoping: look for room again. */
void run_writer_retry(struct run_writer *writer);
/* run_writer_cancel -- @rc: what is not sent is dropped; quiet when what is sent has ended. */
void run_writer_cancel(struct run_writer *writer, int rc);
/* run_writer_release -- the merge's runs are named, or never will be: their extents may go. */
void run_writer_release(struct run_writer *writer);
bool run_writer_is_quiet(const struct run_writer *writer);
/* run_writer_index -- a part's frames as an index of its own. NULL: out of memory. */
struct mt_run_index *run_writer_index(const struct run_writer *writer, const struct run_part *part);

/* ---- merge_plan.c ---- */

struct merge_input {
	struct mt_layer *layer; /* or */
	struct mt_run *run;     /* both NULL: it has gone with a stage */
	bool is_held;
};

/* Blocks next to each other that become one record. */
struct merge_frame {
	uint32_t block, count;
	uint32_t slot; /* WRITE: of its first block in the window */
	uint8_t kind;
	bool is_copy; /* is taken as it is stored: one source */
	uint32_t source;
};

enum merge_source_state {
	MERGE_SOURCE_WANTED,
	MERGE_SOURCE_ASKED,
	MERGE_SOURCE_LOADING,
	MERGE_SOURCE_DONE /* or lost */
};

/* Blocks next to each other in one stored record and in the window. */
struct merge_source {
	struct mt_location location; /* of the first */
	uint32_t slot;
	uint8_t count;
	bool is_copy; /* the stored bytes, not the blocks */
	bool is_ring_bad, is_in_ring;
	uint8_t tried, bad; /* replicas, by bit */
	enum merge_source_state state;
};

struct merge_window {
	uint32_t block_max; /* as many as its memory holds */
	uint32_t block_count;
	dev_ptr memory;
	uint32_t crcs[MERGE_WINDOW_BLOCKS_MAX];
	bool is_lost[MERGE_WINDOW_BLOCKS_MAX];
	struct merge_source sources[MERGE_WINDOW_BLOCKS_MAX];
	uint32_t order[MERGE_WINDOW_BLOCKS_MAX]; /* of sources, by place */
	uint32_t source_count, done_count;
	struct merge_frame frames[MERGE_WINDOW_FRAMES_MAX];
	uint32_t frame_count;
	/* The store's place: frame, and block in it. */
	uint32_t frame_at, block_at;
};

struct merge_plan {
	struct merge_input inputs[MERGE_INPUTS_MAX]; /* newest first */
	uint32_t input_count;
	uint8_t newest[CLEAVE_CHUNK_BLOCKS]; /* index of the input + 1; 0: nothing */
	bool has_beneath;                    /* something may lie beneath: tombstones count */
	bool is_staged; /* inputs may stay behind what replaces a part of them */
	bool is_hidden; /* all of it: nothing is kept */
	uint32_t frame_blocks;
	uint32_t at;           /* the first block that no window has had */
	uint64_t stored_bytes; /* of the newest versions, about */
	uint8_t hidden_kind;   /* RECORD_* of a discard of the whole chunk */
};

/* merge_plan_make -- inputs, has_beneath and frame_blocks are set; the runs are loaded. */
void merge_plan_make(struct merge_plan *plan);
/* merge_plan_window -- the next blocks; false: there are none left. */
bool merge_plan_window(struct merge_plan *plan, struct merge_window *window);
/* merge_plan_left_bytes -- stored bytes of the blocks that no window has had, about. */
uint64_t merge_plan_left_bytes(const struct merge_plan *plan);

/* ---- merge_fetch.c: a window's blocks into its memory ---- */

struct mt_merge;
struct merge_read {
	struct mt_call call;
	struct mt_merge *merge;
	struct split_msg *msg; /* has arrived */
	uint32_t first, count; /* of window->order */
	uint32_t next;         /* of them: the first that no job was made for */
	uint32_t job_count;
	uint32_t offset_bytes;
	uint8_t replica_index;
	bool is_out, is_used;
};

/* A run whose index is being loaded. */
struct merge_load {
	struct mt_run_waiter waiter;
	struct mt_merge *merge;
	struct merge_input *input;
	bool is_waiting;
};

struct merge_job {
	struct engine_job job;
	struct mt_merge *merge;
	struct merge_source *source; /* NULL: a store */
	struct merge_read *read;     /* NULL: from the ring */
	bool is_used, is_copying;
};

/* What a port needs for the merge at work. */
struct merge_work {
	uint32_t magic;
	struct mt_port *port;
	struct loop_link queue; /* merges that wait: flushes, then compactions */
	struct mt_merge *merge; /* at work; NULL */
	struct run_writer writer;
	struct merge_plan plan;
	struct merge_window window;
	struct merge_load loads[MERGE_INPUTS_MAX];
	struct merge_read reads[MERGE_READS_MAX];
	uint32_t read_max;
	struct merge_job jobs[MERGE_JOBS_MAX];
	struct merge_job store; /* one at a time: frames are in order */
	uint32_t out_count;     /* calls and jobs */
	uint64_t deadline_ns;   /* of the window's reads */
	uint64_t paid_ns;
	uint32_t budget;         /* engine jobs that this turn of the loop has yet */
	struct loop_timer timer; /* the next turn, or a pause */
	struct loop_task start_task;
};

enum mt_merge_state {
	MERGE_QUEUED,
	MERGE_LOADING,  /* indexes of its runs */
	MERGE_FETCHING, /* a window's blocks */
	MERGE_STORING,  /* its frames, into batches */
	MERGE_PAUSING,  /* clients go first */
	MERGE_ENDING,   /* the last batches are at their replicas */
	MERGE_COMMITTING,
	MERGE_FAILED, /* what is out comes back */
	MERGE_DONE,
	MERGE_STATE_NR
};

struct mt_merge {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* work->queue */
	struct mt_shard *shard;
	struct mt_merge_input input;
	mt_merge_fn fn;
	void *arg;
	uint32_t waiting_count; /* LOADING */
	uint64_t flushed_sequence, cut;
	uint64_t stage_sequence; /* flushed_sequence of the runs of all stages but the last */
	uint64_t stage_bytes;    /* 0: there is only one */
	bool is_last_stage;
	uint64_t read_bytes;
	int rc;
};

/* merge_fetch_begin -- a new window. merge_fetch_step -- at most *@budget jobs; true: all is there. */
void merge_fetch_begin(struct mt_merge *merge);
bool merge_fetch_step(struct mt_merge *merge, uint32_t *budget);
/* merge_fetch_cancel -- FAILED: what has arrived is let go. */
void merge_fetch_cancel(struct mt_merge *merge);

/* ---- merge_store.c: its frames into batches ---- */

/* merge_store_step -- true: the window's frames are in batches. */
bool merge_store_step(struct mt_merge *merge, uint32_t *budget);

/* ---- merge_pace.c ---- */

/* merge_turn_jobs -- engine jobs in this turn of the loop. */
uint32_t merge_turn_jobs(const struct mt_merge *merge);
/*
 * merge_engines -- where the next job runs: in the background, or where those of writes do
 *
 * From PACE_BACKGROUND on it is the latter: where writes keep a machine busy the background stands still.
 */
struct engine_set *merge_engines(const struct mt_merge *merge);
/* merge_pause_ns -- a window of @bytes is done: how long clients go first. */
uint64_t merge_pause_ns(const struct mt_merge *merge, uint64_t bytes);

/* ---- merge_commit.c: stages, and their edits ---- */

/* merge_stage_plan -- the plan is made: in how many stages? merge_stage_begin -- the next. */
void merge_stage_plan(struct mt_merge *merge);
void merge_stage_begin(struct mt_merge *merge);
/* merge_stage_is_over -- so much was written that it is committed before it goes on. */
bool merge_stage_is_over(const struct mt_merge *merge);
/* merge_commit -- ENDING, all is at its replicas. */
void merge_commit(struct mt_merge *merge);

/* ---- merge.c, for the others ---- */
static inline struct merge_work *
merge_work_of(const struct mt_merge *merge)
{
	return merge->shard->port->merge_work;
}
/* merge_pump -- look at everything that may go on. merge_fail -- @rc ends it. */
void merge_pump(struct mt_merge *merge);
void merge_fail(struct mt_merge *merge, int rc);
/* merge_wait -- look again in a little while. */
void merge_wait(struct mt_merge *merge, uint64_t ns);
/* merge_next_window -- or the end of the stage. */
void merge_next_window(struct mt_merge *merge);
/* merge_release_runs -- their indexes. merge_unmark -- inputs that are there still. */
void merge_release_runs(struct mt_merge *merge);
void merge_unmark(struct mt_merge *merge);
/* merge_finish -- the sole exit. */
void merge_finish(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_H */
