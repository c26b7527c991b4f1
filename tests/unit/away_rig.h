/* SPDX-License-Identifier: Apache-2.0 */
/*
 * away_rig.h -- merges of the faked shard that other gateways execute
 *
 * These are faked but for their worker, which is the port's own: what the owner gave away is executed by the real one, at
 * the nodes that both know. The first merge makes the run extent that is lent.
 */
#ifndef CLEAVE_TESTS_AWAY_RIG_H
#define CLEAVE_TESTS_AWAY_RIG_H

#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/job.h"
#include "cleave/level.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_index.h"
#include "middletier/merge/merge_away.h"
#include "middletier/merge/merge_by_away.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/run_roll.h"
#include "middletier/merge/told.h"
#include "middletier/worker/worker.h"
#include "unit/fake_merge.h"

#define BLOCKS 512u /* a recipe of two parts */
#define PEERS 2u
#define ANSWER_NS NUM_US(200)

/* A port of another gateway. */
struct peer {
	char address[16];
	struct loop_timer timer;
	struct mt_peer_request *request; /* waits for its answer */
	bool is_answering;               /* from the timer */
	struct wire_job answer;
	uint8_t told[WIRE_JOB_TOLD_BYTES_MAX];
	uint32_t free_count, busy;
	int load_rc;                      /* its answer to JOB_LOAD */
	int part_rc;                      /* and to a first part */
	bool is_silent;                   /* it says nothing to JOB_LOAD */
	bool is_hung;                     /* nor to a last part, and executes nothing */
	bool is_deaf;                     /* nor to JOB_CANCEL */
	struct mt_peer_request *canceled; /* is_deaf: waits for that answer */
	uint32_t load_count, part_count, cancel_count;
};

static struct {
	struct peer peers[PEERS];
	dev_ptr part;                          /* of a message */
	void (*on_told)(struct mt_told *told); /* before the owner hears of it */
	void (*at_work)(void);                 /* a peer has the whole recipe */
	void (*on_asked)(void);                /* a peer was asked for its load */
	struct mt_peer_request *unforgettable; /* its bytes are on their way */
	uint32_t away_count;
	uint64_t lent_bytes;
	uint32_t lent_index;
	uint64_t first_counter, first_bytes; /* of what was lent first: its extent, and its end */
} test;

static inline void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	if (strcmp(sm->name, "run_roll") != 0 || to != RUN_ROLL_LENT)
		return;
	(void)from;
	if (test.away_count++ == 0) {
		test.first_counter = fake.shard.run_roll->extent->id.counter;
		test.first_bytes = fake.shard.run_roll->extent->end_bytes;
	}
	test.lent_bytes = fake.shard.run_roll->extent->end_bytes;
	test.lent_index = fake.shard.run_roll->extent->index;
}

/* ---- the other gateways ---- */

static inline void
peer_answer(struct peer *peer, const struct wire_job *answer)
{
	peer->answer = *answer;
	peer->is_answering = true;
	loop_timer_start(fake.loop, &peer->timer, ANSWER_NS);
}

static inline void
peer_on_timer(struct loop_timer *timer, void *arg)
{
	struct peer *peer = arg;
	struct mt_peer_request *request = peer->request;
	struct wire_header header;
	struct split_msg *msg;

	(void)timer;
	if (request == NULL || !peer->is_answering)
		return;
	peer->request = NULL;
	peer->is_answering = false;
	wire_job_encode(&header, &peer->answer);
	header.payload_bytes = peer->answer.payload_bytes;
	msg = fake_reply_msg(peer->told, peer->answer.payload_bytes);
	msg->header = &header;
	request->fn(request, 0, msg, request->arg);
	split_msg_release(msg);
}

/* The connection to it ends. */
static inline void
peer_cut(struct peer *peer)
{
	struct mt_peer_request *request = peer->request;

	cr_assert_not_null(request);
	peer->request = NULL;
	peer->is_answering = false;
	request->fn(request, -ECONNRESET, NULL, request->arg);
}

static inline void
peer_on_part(struct peer *peer, const struct wire_job *job, const uint8_t *payload)
{
	struct wire_job answer = { .opcode = WIRE_JOB_ASSIGN, .is_reply = true, .job = job->job };
	const struct mt_worker_part part = { .owner = peer,
		.number = job->job,
		.offset_bytes = job->offset_bytes,
		.recipe_bytes = job->recipe_bytes,
		.payload_bytes = job->payload_bytes,
		.payload = test.part };
	bool is_last = job->offset_bytes + job->payload_bytes == job->recipe_bytes;
	const char *field = "";

	peer->part_count++;
	answer.rc = job->offset_bytes == 0 ? peer->part_rc : 0;
	if (is_last && test.at_work != NULL)
		test.at_work();
	if (is_last && peer->is_hung)
		return;
	if (answer.rc == 0 && !peer->is_hung) {
		fake_to_device(test.part, payload, job->payload_bytes);
		answer.rc = mt_worker_take(fake.port.worker, &part, peer, &field);
	}
	cr_assert_eq(answer.rc == 1, is_last && peer->part_rc == 0, "%s", field);
	if (answer.rc != 1)
		peer_answer(peer, &answer);
}

static inline void
on_job_end(struct mt_worker_job *job, const struct mt_worker_end *end, void *arg)
{
	struct peer *peer = end->ticket;
	struct wire_job answer = { .opcode = WIRE_JOB_ASSIGN, .is_reply = true, .rc = end->rc };

	(void)arg;
	if (end->rc == 0) {
		struct mt_told told;

		fake_from_device(peer->told, end->told, end->told_bytes);
		answer.payload_bytes = end->told_bytes;
		if (test.on_told != NULL) {
			/* Changed as who forges it would: with a checksum that fits. */
			told = (struct mt_told){
				.frame_count = num_get_le32(peer->told + 8),
				.part_count = num_get_le32(peer->told + 12),
			};
			for (uint32_t i = 0; i < told.part_count; i++) {
				const uint8_t *at = peer->told + TOLD_HEAD_BYTES +
				    i * TOLD_PART_BYTES;

				told.parts[i] = (struct mt_told_part){ num_get_le32(at),
					num_get_le32(at + 4), num_get_le32(at + 8),
					num_get_le32(at + 12) };
			}
			test.on_told(&told);
			answer.payload_bytes = mt_told_encode(&told, peer->told);
		}
	}
	mt_worker_free(job);
	if (peer->request == NULL)
		return; /* nobody waits for it any more */
	answer.job = ((const struct wire_header *)(const void *)peer->request->message)->object_id;
	peer_answer(peer, &answer);
}

static inline struct peer *
peer_at(const char *address)
{
	for (uint32_t i = 0; i < PEERS; i++) {
		if (strcmp(test.peers[i].address, address) == 0)
			return &test.peers[i];
	}
	cr_assert(false, "%s", address);
	return NULL;
}

static inline int
on_peer(const char *address, struct mt_peer_request *request)
{
	struct peer *peer = peer_at(address);
	const char *field = NULL;
	struct wire_job job;
	struct wire_header header;

	memcpy(&header, request->message, sizeof(header));
	header.payload_bytes = request->message_bytes - WIRE_HEADER_BYTES;
	cr_assert_eq(wire_job_decode(&header, &job, &field), 0, "%s", field);
	cr_assert(!job.is_reply);
	if (job.opcode == WIRE_JOB_CANCEL) {
		peer->cancel_count++;
		(void)mt_worker_cancel(fake.port.worker, peer, job.job, peer);
		if (peer->is_deaf)
			peer->canceled = request;
		return peer->is_deaf ? 0 : -ENOTCONN;
	}
	cr_assert_null(peer->request, "one at a time");
	peer->request = request;
	if (job.opcode == WIRE_JOB_ASSIGN) {
		peer_on_part(peer, &job, request->message + WIRE_HEADER_BYTES);
		return 0;
	}
	peer->load_count++;
	if (test.on_asked != NULL)
		test.on_asked();
	if (!peer->is_silent)
		peer_answer(peer,
		    &(struct wire_job){ .opcode = WIRE_JOB_LOAD,
			.is_reply = true,
			.rc = peer->load_rc,
			.free_count = peer->load_rc == 0 ? peer->free_count : 0,
			.busy = peer->load_rc == 0 ? peer->busy : 0 });
	return 0;
}

static inline void
on_forgotten(struct mt_peer_request *request)
{
	request->is_forgotten = request == test.unforgettable;
	for (uint32_t i = 0; i < PEERS && !request->is_forgotten; i++) {
		if (test.peers[i].canceled == request)
			test.peers[i].canceled = NULL;
		if (test.peers[i].request != request)
			continue;
		test.peers[i].request = NULL;
		test.peers[i].is_answering = false;
	}
}

/* ---- the owner ---- */

static inline void
begin(void)
{
	struct mt_merge_input input = { .level = 1 };

	for (uint32_t i = 0; i < BLOCKS; i++) /* one by one: so that its recipe is long */
		cr_assert_eq(fake_wait(fake_write(i, 1, 4)), 0);
	input.chunk = fake_chunk();
	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static inline void
know(uint32_t count)
{
	struct mt_away_names names = { .count = count };

	for (uint32_t i = 0; i < count; i++)
		(void)snprintf(names.addresses[i], sizeof(names.addresses[i]), "%s",
		    test.peers[i].address);
	mt_merge_by_away_names(fake.port.merge_work, &names);
}

static bool rig_has_recipes; /* what is executed at home is, too */

static inline void
setup_slots(uint64_t slot_bytes)
{
	memset(&test, 0, sizeof(test));
	fake_init(1, false);
	fake_set_slot_bytes(slot_bytes + 12288u);
	fake.settings.has_offload = true;
	fake.settings.worker_jobs = 1;
	fake.settings.offload_bytes_min = 1;
	fake.settings.has_recipes = rig_has_recipes;
	fake.on_peer = on_peer;
	fake.on_forgotten = on_forgotten;
	fake_merges_start();
	cr_assert_eq(mt_worker_init(&fake.port, NUM_MIB(32), on_job_end, NULL), 0);
	test.part = dev_alloc(NULL, WIRE_JOB_PART_BYTES);
	for (uint32_t i = 0; i < PEERS; i++) {
		struct peer *peer = &test.peers[i];

		(void)snprintf(peer->address, sizeof(peer->address), "peer%u", i);
		peer->free_count = 1;
		loop_timer_init(&peer->timer, peer_on_timer, peer);
	}
	begin(); /* nobody is known */
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	know(1);
	sm_set_tracer(on_move);
}

static inline void
setup(void)
{
	setup_slots(NUM_MIB(32));
}

static inline void
teardown(void)
{
	sm_set_tracer(NULL);
	for (uint32_t i = 0; i < PEERS; i++)
		loop_timer_stop(fake.loop, &test.peers[i].timer);
	mt_worker_fini(&fake.port);
	fake_merges_fini();
}

static inline uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

static inline const struct mt_run *
newest(void)
{
	struct mt_run *run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
	struct mt_location location;

	cr_assert_not_null(run->index);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert(mt_run_find(run, i, &location), "block %u", i);
	return run;
}

/* Made elsewhere, and named. */
static inline void
expect_away(uint32_t count)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;

	cr_assert_eq(metric(MT_METRIC_merges_away), count);
	cr_assert_eq(metric(MT_METRIC_jobs_done), count);
	cr_assert_eq(metric(MT_METRIC_merges_recalled) + metric(MT_METRIC_merges_refused), 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	cr_assert_eq(extent->index, test.lent_index);
	cr_assert_eq(newest()->extent_index, extent->index);
	cr_assert_eq(newest()->offset_bytes + newest()->length_bytes, extent->end_bytes);
	cr_assert_eq(extent->acked_bytes, extent->end_bytes);
	cr_assert_eq(extent->use_count, 0);
	/* Times of its parts. */
	cr_assert_gt(metric(MT_METRIC_recipe_bytes), 0);
	cr_assert_gt(metric(MT_METRIC_seen_ns), 0);
	cr_assert_gt(metric(MT_METRIC_jobs_ns), 0);
	cr_assert_leq(metric(MT_METRIC_jobs_ns), metric(MT_METRIC_away_ns));
}

/* Nobody had it: what was lent was so for a moment, and takes what was made at home. */
static inline void
expect_at_home(void)
{
	const struct mt_extent *extent = fake.shard.run_roll->extent;

	cr_assert_eq(metric(MT_METRIC_merges_away), 0);
	cr_assert_eq(metric(MT_METRIC_recipe_bytes) + metric(MT_METRIC_away_ns), 0);
	cr_assert_eq(metric(MT_METRIC_merges_recalled) + metric(MT_METRIC_merges_refused), 0);
	cr_assert_eq(fake.shard.run_roll->sm.state, RUN_ROLL_OPEN);
	cr_assert_eq(newest()->extent_index, extent->index);
	cr_assert_eq(newest()->offset_bytes + newest()->length_bytes, extent->end_bytes);
}

#endif /* CLEAVE_TESTS_AWAY_RIG_H */
