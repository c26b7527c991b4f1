/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c -- reads extents from their beginning to their agreed lengths, and looks at each batch's head
 *
 *	            a read fails, or a batch does not pass
 *	RUNNING ------------------------------------------> DRAINING
 *	   |  ^                                               |  |
 *	   |  +------ another copy of this extent ------------+  | no copy is left to try
 *	   |  |                                                  v
 *	   |  +------ later, or a node came back ------------ WAITING
 *	   v
 *	 DONE
 *
 * Reads of MT_RECEIVE_BYTES run ahead of what is looked at, over the ends of extents. They are looked
 * at in order: of each piece only the heads are copied to the host, one that lies across two pieces in
 * two steps. Every batch is checked with the chain of those before it, so that a copy can neither
 * skip nor repeat one.
 *
 * Payloads are most of a log, and nothing here needs them. When the last batches were long and all but of
 * one length, as they are under load, the next ones' heads can be guessed: then only *windows* are
 * read, in which a head must begin. A wrong guess is found by the gap that it leaves, or, at the end of the
 * last extent, by there being nothing left to ask for; it costs a few batches that are read whole.
 *
 * Each read goes to the copy that choose.h names, so pieces of one extent come from several copies. One
 * that fails, for whatever reason, is left for another, at the batch that was expected. When all have
 * failed, it waits and asks all of them again: an extent whose length was agreed upon is never cut short.
 * A head whose two parts are of two copies, and which does not pass, is read again from one.
 *
 * Where the port keeps heads of others' batches (head_mirror.h), one that is there is not read. It passes the same checks,
 * behind the same predecessor, so what is there can be old, wrong or missing, and comes to the same. Behind a gap there may
 * be more of them: one read is asked for there, not sixteen. One that is none of the extent's, and passes, shows when no
 * copy's batch fits behind it: then all heads in memory go, and the replay ends, to be begun again without. An extent's last
 * head has no batch behind it, and is read.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/node_link.h"
#include "extent/replay.h"
#include "extent/replay_ahead.h"
#include "extent/replay_guess.h"
#include "extent/replay_head.h"

#define REPLAY_MAGIC 0x594c5052u /* "RPLY" */
#define REPLAY_RETRY_NS NUM_S(1)
#define REPLAY_LOG_NS NUM_S(5)
#define REPLAY_MIRRORED_MAX 64u /* heads from memory in a turn: some ms */

_Static_assert(MT_RECEIVE_BYTES >= BATCH_HEAD_BYTES_MAX,
    "a head that is read again is in one piece");

static const struct sm_state replay_table[MT_REPLAY_STATE_NR] = {
	[MT_REPLAY_RUNNING] = { "running", SM_TO(MT_REPLAY_DRAINING) | SM_TO(MT_REPLAY_DONE),
	    SM_INITIAL },
	[MT_REPLAY_DRAINING] = { "draining",
	    SM_TO(MT_REPLAY_RUNNING) | SM_TO(MT_REPLAY_WAITING) | SM_TO(MT_REPLAY_DONE), 0 },
	[MT_REPLAY_WAITING] = { "waiting", SM_TO(MT_REPLAY_RUNNING), 0 },
	[MT_REPLAY_DONE] = { "done", 0, SM_FINAL },
};

static void replay_run(struct mt_replay *replay);

static const struct mt_replay_source *
replay_source(const struct mt_replay *replay)
{
	assert(replay->source_index < replay->source_count);
	return &replay->sources[replay->source_index];
}

/* ---- where it is ---- */

static void
replay_enter_source(struct mt_replay *replay, uint32_t index)
{
	assert(index <= replay->source_count);
	/* An empty extent has nothing to say. */
	while (index < replay->source_count && replay->sources[index].length_bytes == 0)
		index++;
	/* The first extent once more, behind the last. */
	if (MUTANT(replay_twice) && index == replay->source_count && index > 0 &&
	    replay->sources[0].length_bytes > 0 && replay->done_bytes == replay->total_bytes) {
		index = replay->ask_source = 0;
		replay->ask_offset_bytes = 0;
	}
	replay->source_index = index;
	replay->at_bytes = 0;
	replay->head_bytes = 0;
	mt_chooser_reset(&replay->chooser);
	if (index < replay->source_count)
		replay->prev_crc =
		    batch_chain_seed(&replay->sources[index].id, replay->sources[index].kind);
}

static struct mt_replay_read *
replay_first(struct mt_replay *replay)
{
	return &replay->reads[replay->read_first];
}

static void
replay_pop(struct mt_replay *replay)
{
	struct mt_replay_read *read = replay_first(replay);

	assert(!read->is_out);
	assert(replay->read_count > 0);
	if (read->msg != NULL)
		split_msg_release(read->msg);
	read->msg = NULL;
	replay->read_first = (replay->read_first + 1) % MT_REPLAY_READS_MAX;
	replay->read_count--;
}

/* ---- asking ---- */

/*
 * The copies of @source_index that are known not to serve. Those of an extent that is not looked at yet are not
 * known: they are found when its turn comes.
 */
static struct mt_chooser
replay_chooser(const struct mt_replay *replay, uint32_t source_index)
{
	return source_index == replay->source_index ? replay->chooser : (struct mt_chooser){ 0 };
}

/* A copy of @source_index by what @chooser knows, or -1. */
static int
replay_pick(struct mt_replay *replay, uint32_t source_index, const struct mt_chooser *chooser,
    struct mt_link **ret_link)
{
	const struct mt_replay_source *source = &replay->sources[source_index];
	struct mt_copies copies = { .replicas = source->replicas,
		.count = source->replica_count,
		.rotor = &replay->rotor };

	assert(source_index < replay->source_count);
	return mt_chooser_pick(chooser, replay->shard->port, &copies, ret_link);
}

static void
replay_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_replay_read *read = arg;
	struct mt_replay *replay = read->replay;

	(void)call;
	(void)reply;
	CHECK_OBJ(replay, REPLAY_MAGIC);
	assert(read->is_out);
	read->is_out = false;
	read->rc = rc;
	read->msg = msg;
	if (replay->is_stopped) {
		if (msg != NULL)
			split_msg_release(msg);
		read->msg = NULL;
		return;
	}
	replay_run(replay);
}

/* Sends a read behind the last. Returns 0; -EHOSTDOWN: no copy can be asked now. */
static int
replay_ask(struct mt_replay *replay, uint64_t from, uint64_t to)
{
	uint32_t slot = (replay->read_first + replay->read_count) % MT_REPLAY_READS_MAX;
	const struct mt_replay_source *source = &replay->sources[replay->ask_source];
	struct mt_replay_read *read = &replay->reads[slot];
	struct mt_chooser chooser = replay_chooser(replay, replay->ask_source);
	struct mt_link *link;
	int index;

	assert(from < to);
	assert(to - from <= MT_RECEIVE_BYTES);
	assert(replay->read_count < MT_REPLAY_READS_MAX);
	assert(!read->is_out);
	read->replay = replay;
	read->source_index = replay->ask_source;
	read->offset_bytes = from;
	read->bytes = (uint32_t)(to - from);
	read->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = source->id,
		.offset_bytes = read->offset_bytes,
		.length_bytes = read->bytes,
		.epoch = replay->shard->epoch };
	read->call.fn = replay_on_read;
	read->call.arg = read;
	for (;;) {
		index = replay_pick(replay, replay->ask_source, &chooser, &link);
		if (index < 0)
			return -EHOSTDOWN;
		if (mt_link_call(link, &read->call) == 0)
			break;
		/* For this read alone: a link that is busy is none that has failed. */
		mt_chooser_note_failed(&chooser, (uint32_t)index);
	}
	read->replica_index = (uint32_t)index;
	read->is_out = true;
	read->rc = 0;
	replay->read_count++;
	replay->ask_offset_bytes = to;
	return 0;
}

/* The extent in which something is left to be asked for; false: there is none. */
static bool
replay_sync_ask(struct mt_replay *replay)
{
	if (replay->ask_source < replay->source_index) {
		replay->ask_source = replay->source_index;
		replay->ask_offset_bytes = 0;
	}
	/* Heads before it came from memory. */
	if (replay->shard->port->head_mirror != NULL && replay->ask_source == replay->source_index)
		replay->ask_offset_bytes = num_max(replay->ask_offset_bytes, replay->at_bytes);
	while (replay->ask_source < replay->source_count &&
	    replay->ask_offset_bytes == replay->sources[replay->ask_source].length_bytes) {
		replay->ask_source++;
		replay->ask_offset_bytes = 0;
	}
	return replay->ask_source < replay->source_count;
}

/* Keep the ring full. When not even the next piece can be asked for, it waits. */
static void
replay_fill(struct mt_replay *replay)
{
	uint32_t reads_max = mt_replay_reads_max(replay);

	assert(replay->sm.state == MT_REPLAY_RUNNING);
	while (replay->read_count < reads_max && replay_sync_ask(replay)) {
		uint64_t from, to;

		mt_replay_window(replay, &from, &to);
		if (from == replay->sources[replay->ask_source].length_bytes) {
			replay->ask_offset_bytes = from;
			continue;
		}
		if (from == to)
			return;
		if (replay_ask(replay, from, to) == 0)
			continue;
		if (replay->read_count == 0) {
			replay->must_wait = true;
			sm_move(&replay->sm, MT_REPLAY_DRAINING);
		}
		return;
	}
}

/* ---- looking ---- */

/* Does @read begin behind what is to be looked at next? The guess was wrong. */
static bool
replay_has_gap(const struct mt_replay *replay, const struct mt_replay_read *read)
{
	return replay->source_index < replay->source_count &&
	    (read->source_index > replay->source_index ||
		(read->source_index == replay->source_index &&
		    read->offset_bytes > replay->at_bytes + replay->head_bytes));
}

/* The piece that comes next. 0: all of it was looked at; -EAGAIN: read the expected head again; an error. */
static int
replay_take_piece(struct mt_replay *replay, const struct mt_replay_read *read)
{
	uint64_t end_bytes = read->offset_bytes + read->bytes;
	uint64_t length_bytes = replay_source(replay)->length_bytes;
	int rc = 1;

	assert(read->msg->payload_bytes == read->bytes);
	assert(read->source_index == replay->source_index);
	while (rc == 1 && replay->at_bytes + replay->head_bytes < end_bytes)
		rc = mt_replay_take_head(replay, read);
	if (rc == 0 && replay->at_bytes < length_bytes && end_bytes == length_bytes)
		rc = -EBADMSG; /* a head that the length cuts in two */
	/* The batch's two parts are of two copies, and either may be the bad one: it is read again, whole. */
	if (rc == -EBADMSG && replay->head_replica != read->replica_index)
		return -EAGAIN;
	if (rc < 0)
		return rc;
	if (replay->at_bytes == length_bytes)
		replay_enter_source(replay, replay->source_index + 1);
	return 0;
}

/* Heads that are in memory. 0: the next one is not; 1: enough for this turn; an error. */
static int
replay_take_mirrored(struct mt_replay *replay)
{
	for (uint32_t i = 0; i < REPLAY_MIRRORED_MAX; i++) {
		int rc;

		if (replay->source_index == replay->source_count)
			return 0;
		rc = mt_replay_take_mirrored(replay);
		if (rc != 1)
			return rc;
		if (replay->at_bytes == replay_source(replay)->length_bytes)
			replay_enter_source(replay, replay->source_index + 1);
	}
	return 1;
}

/* ---- moving on ---- */

static void
replay_finish(struct mt_replay *replay, int rc)
{
	assert(rc <= 0);
	mt_replay_stop(replay);
	sm_move(&replay->sm, MT_REPLAY_DONE);
	replay->fn(replay, rc, replay->arg);
}

static void
replay_wait(struct mt_replay *replay)
{
	const struct mt_replay_source *source = replay_source(replay);
	uint64_t now_ns = loop_now_ns(replay->shard->port->loop);
	bool is_bad = replay->chooser.bad != 0;

	assert(replay->sm.state == MT_REPLAY_DRAINING);
	if (now_ns - replay->log_ns >= REPLAY_LOG_NS) {
		replay->log_ns = now_ns;
		log_at(is_bad ? LOG_ERROR : LOG_INFO,
		    "shard %" PRIu32 ": serves nothing, %s of extent %" PRIu32 ".%" PRIu32
		    ".%" PRIu64 " can be read offset_bytes=%" PRIu64
		    ": start the storage nodes that are down (cleave node list)",
		    replay->shard->index, is_bad ? "no good copy" : "no copy", source->id.shard,
		    source->id.epoch, source->id.counter, replay->at_bytes);
	}
	mt_chooser_reset(&replay->chooser); /* bad ones, too: without them the shard stands still */
	replay->must_wait = false;
	sm_move(&replay->sm, MT_REPLAY_WAITING);
	loop_timer_start(replay->shard->port->loop, &replay->timer, REPLAY_RETRY_NS);
}

/* From the batch that is expected, with a copy that has not failed yet. */
static void
replay_restart(struct mt_replay *replay)
{
	assert(replay->read_count == 0);
	loop_timer_stop(replay->shard->port->loop, &replay->timer);
	replay->ask_source = replay->source_index;
	replay->ask_offset_bytes = replay->at_bytes;
	replay->head_bytes = 0;
	sm_move(&replay->sm, MT_REPLAY_RUNNING);
	replay_run(replay);
}

static void
replay_drain(struct mt_replay *replay)
{
	struct mt_link *link;

	assert(replay->sm.state == MT_REPLAY_DRAINING);
	for (uint32_t i = 0; i < replay->read_count; i++) {
		if (replay->reads[(replay->read_first + i) % MT_REPLAY_READS_MAX].is_out)
			return;
	}
	while (replay->read_count > 0)
		replay_pop(replay);
	/* The last head was taken, and what failed was only the payload behind it. */
	if (replay->source_index < replay->source_count &&
	    replay->at_bytes == replay_source(replay)->length_bytes)
		replay_enter_source(replay, replay->source_index + 1);
	if (replay->source_index == replay->source_count)
		replay_restart(replay);
	else if (!replay->must_wait &&
	    replay_pick(replay, replay->source_index, &replay->chooser, &link) >= 0)
		replay_restart(replay);
	else if (replay->was_mirrored &&
	    mt_chooser_is_hopeless(&replay->chooser, replay_source(replay)->replica_count))
		replay_finish(replay, mt_replay_distrust(replay));
	else
		replay_wait(replay);
}

/* From the expected head on, and without a guess: no copy is to blame. */
static void
replay_read_again(struct mt_replay *replay)
{
	assert(replay->sm.state == MT_REPLAY_RUNNING);
	mt_replay_guess_reset(&replay->guess);
	sm_move(&replay->sm, MT_REPLAY_DRAINING);
	replay_drain(replay);
}

/* @read, or the batch in it, cannot be used. */
static void
replay_fail(struct mt_replay *replay, const struct mt_replay_read *read, int rc)
{
	const struct mt_replay_source *source = replay_source(replay);

	assert(rc < 0);
	if (rc != -ENOMEM) {
		if (rc == -EBADMSG)
			mt_chooser_note_bad(&replay->chooser, read->replica_index);
		else
			mt_chooser_note_failed(&replay->chooser, read->replica_index);
		metric_add(&replay->shard->port->metrics[MT_METRIC_replica_read_errors], 1);
		log_limited(LOG_WARN,
		    "shard %" PRIu32 ": cannot read a copy, another is tried extent=%" PRIu32
		    ".%" PRIu32 ".%" PRIu64 " node=%" PRIu32 " offset_bytes=%" PRIu64 " rc=%s",
		    replay->shard->index, source->id.shard, source->id.epoch, source->id.counter,
		    source->replicas[read->replica_index].node_id, replay->at_bytes, log_errno(rc));
	} else {
		replay->must_wait = true; /* then the same again */
	}
	sm_move(&replay->sm, MT_REPLAY_DRAINING);
	replay_drain(replay);
}

/* True: enough was done in this turn, or all is over; else what is next is to be read. */
static bool
replay_look_mirrored(struct mt_replay *replay)
{
	int rc = replay_take_mirrored(replay);

	assert(replay->sm.state == MT_REPLAY_RUNNING);
	if (rc == 0)
		return false;
	if (rc == 1) {
		loop_timer_start(replay->shard->port->loop, &replay->timer, 0);
	} else if (rc == -ENOMEM) {
		replay->must_wait = true;
		sm_move(&replay->sm, MT_REPLAY_DRAINING);
		replay_drain(replay);
	} else {
		replay_finish(replay, rc == -EPROTO ? replay->batch_rc : rc);
	}
	return true;
}

/* Look at what has come, in order, then ask for more. */
static void
replay_run(struct mt_replay *replay)
{
	if (replay->sm.state == MT_REPLAY_DRAINING) {
		replay_drain(replay);
		return;
	}
	assert(replay->sm.state == MT_REPLAY_RUNNING);
	if (replay_look_mirrored(replay))
		return;
	while (replay->read_count > 0 && !replay_first(replay)->is_out) {
		struct mt_replay_read *read = replay_first(replay);
		int rc = read->rc;

		if (rc != -ESTALE && replay_has_gap(replay, read)) {
			replay_read_again(replay);
			return;
		}
		if (rc != -ESTALE && !mt_replay_needs_read(replay, read)) {
			rc = 0; /* whatever came of it */
		} else if (rc == 0) {
			rc = replay_take_piece(replay, read);
			if (rc == -EAGAIN) {
				replay_read_again(replay);
				return;
			}
		}
		if (rc == -ESTALE || rc == -EPROTO) {
			replay_finish(replay, rc == -EPROTO ? replay->batch_rc : rc);
			return;
		}
		if (rc != 0) {
			replay_fail(replay, read, rc);
			return;
		}
		replay_pop(replay);
		if (replay_look_mirrored(replay))
			return;
	}
	if (replay->source_index == replay->source_count) {
		if (replay->read_count == 0)
			replay_finish(replay, 0);
		return;
	}
	replay_fill(replay);
	if (replay->sm.state == MT_REPLAY_DRAINING)
		replay_drain(replay);
	else if (replay->read_count == 0)
		replay_read_again(replay); /* asked for all, and the end is missing */
}

static void
replay_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_replay *replay = arg;

	(void)timer;
	CHECK_OBJ(replay, REPLAY_MAGIC);
	assert(timer == &replay->timer);
	if (replay->sm.state == MT_REPLAY_WAITING)
		replay_restart(replay);
	else if (replay->sm.state == MT_REPLAY_RUNNING)
		replay_run(replay); /* the very first time */
}

/* ---- its life ---- */

int
mt_replay_start(struct mt_replay *replay)
{
	struct loop *loop = replay->shard->port->loop;

	assert(replay->on_batch != NULL && replay->fn != NULL);
	replay->head = mt_calloc(1, BATCH_HEAD_BYTES_MAX);
	if (replay->head == NULL)
		return -ENOMEM;
	replay->magic = REPLAY_MAGIC;
	sm_init(&replay->sm, "replay", replay_table, MT_REPLAY_RUNNING, replay->shard->index);
	replay->total_bytes = replay->done_bytes = 0;
	replay->batch_rc = -EBADMSG;
	for (uint32_t i = 0; i < replay->source_count; i++)
		replay->total_bytes += replay->sources[i].length_bytes;
	replay->read_first = replay->read_count = 0;
	mt_replay_guess_reset(&replay->guess);
	replay->ask_source = 0;
	replay->ask_offset_bytes = replay->log_ns = 0;
	replay->rotor = replay->shard->index; /* shards begin at different copies */
	replay->is_stopped = replay->must_wait = replay->was_mirrored = false;
	replay_enter_source(replay, 0);
	loop_timer_init(&replay->timer, replay_on_timer, replay);
	loop_timer_start(loop, &replay->timer, 0); /* its end is told from the loop, always */
	return 0;
}

void
mt_replay_on_link(struct mt_replay *replay, struct mt_link *link, bool is_up)
{
	(void)link;
	if (replay->magic == 0)
		return; /* none has begun, or it has ended */
	CHECK_OBJ(replay, REPLAY_MAGIC);
	if (is_up && !replay->is_stopped && replay->sm.state == MT_REPLAY_WAITING)
		replay_restart(replay);
}

void
mt_replay_stop(struct mt_replay *replay)
{
	if (replay->magic == 0)
		return; /* it has ended */
	CHECK_OBJ(replay, REPLAY_MAGIC);
	replay->is_stopped = true;
	loop_timer_stop(replay->shard->port->loop, &replay->timer);
	for (uint32_t i = 0; i < MT_REPLAY_READS_MAX; i++) {
		struct mt_replay_read *read = &replay->reads[i];

		if (read->msg != NULL)
			split_msg_release(read->msg);
		read->msg = NULL;
	}
}

bool
mt_replay_is_quiet(const struct mt_replay *replay)
{
	for (uint32_t i = 0; i < MT_REPLAY_READS_MAX; i++) {
		if (replay->reads[i].is_out)
			return false;
	}
	return true;
}

void
mt_replay_fini(struct mt_replay *replay)
{
	if (replay->magic == 0)
		return;
	CHECK_OBJ(replay, REPLAY_MAGIC);
	loop_timer_stop(replay->shard->port->loop, &replay->timer);
	mt_free(replay->head);
	replay->head = NULL;
	replay->magic = 0;
}
