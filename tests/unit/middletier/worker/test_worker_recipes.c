/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker_recipes.c -- a worker is sent recipes that pass, and are of nothing that there is
 *
 * A shard's own recipe is taken, changed in a field or a few, and given a checksum that fits, as by who would do harm. Whatever
 * comes of it is refused or fails: the worker goes on.
 */
#include "base/num.h"
#include "cleave/job.h"
#include "cleave/wire.h"
#include "middletier/extent/peer_link.h"
#include "middletier/index/memtable.h"
#include "middletier/merge/merge_away.h"
#include "middletier/merge/merge_by_away.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/recipe.h"
#include "middletier/merge/recipe_decode.h"
#include "middletier/worker/worker.h"
#include "support/sanitized.h"
#include "unit/fake_merge.h"

#define BLOCKS 64u
#define ROUNDS TEST_ROUNDS(600, 60)

static struct {
	uint8_t recipe[RECIPE_BYTES_MAX];
	uint32_t recipe_bytes;
	struct mt_peer_request *request; /* with the last part: it is never answered */
	struct loop_timer timer;
	struct mt_peer_request *load;
	dev_ptr part;
	uint32_t end_count, done_count;
} test;

/* ---- a recipe, taken from its owner ---- */

static void
on_load_timer(struct loop_timer *timer, void *arg)
{
	const struct wire_job answer = { .opcode = WIRE_JOB_LOAD,
		.is_reply = true,
		.free_count = 1 };
	struct mt_peer_request *request = test.load;
	struct wire_header header;
	struct split_msg *msg;

	(void)timer;
	(void)arg;
	wire_job_encode(&header, &answer);
	msg = fake_reply_msg(NULL, 0);
	msg->header = &header;
	request->fn(request, 0, msg, request->arg);
	split_msg_release(msg);
}

static int
on_peer(const char *address, struct mt_peer_request *request)
{
	const struct wire_header *header = (const void *)request->message;

	(void)address;
	if (header->opcode == WIRE_JOB_CANCEL)
		return -ENOTCONN;
	if (header->opcode == WIRE_JOB_LOAD) {
		test.load = request;
		loop_timer_start(fake.loop, &test.timer, NUM_US(100));
		return 0;
	}
	test.recipe_bytes = header->length_bytes;
	cr_assert_eq(header->length_bytes, request->message_bytes - WIRE_HEADER_BYTES, "one part");
	memcpy(test.recipe, request->message + WIRE_HEADER_BYTES, test.recipe_bytes);
	test.request = request;
	return 0;
}

static void
on_forgotten(struct mt_peer_request *request)
{
	(void)request;
}

static void
on_job_end(struct mt_worker_job *job, const struct mt_worker_end *end, void *arg)
{
	(void)arg;
	test.end_count++;
	test.done_count += end->rc == 0;
	mt_worker_free(job);
}

static void
merge_begin(void)
{
	struct mt_merge_input input = { .level = 1 };

	for (uint32_t i = 0; i < BLOCKS; i += i % 3 + 1)
		cr_assert_eq(fake_wait(fake_write(i, (uint8_t)num_min(i % 3 + 1, BLOCKS - i), 4)),
		    0);
	input.chunk = fake_chunk();
	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static void
setup(void)
{
	struct mt_away_names names = { .count = 1, .addresses = { "peer" } };

	memset(&test, 0, sizeof(test));
	fake_init(1, false);
	fake.settings.has_offload = true;
	fake.settings.worker_jobs = 1;
	fake.settings.offload_bytes_min = 1;
	fake.on_peer = on_peer;
	fake.on_forgotten = on_forgotten;
	fake_merges_start();
	cr_assert_eq(mt_worker_init(&fake.port, NUM_MIB(32), on_job_end, NULL), 0);
	loop_timer_init(&test.timer, on_load_timer, NULL);
	merge_begin();
	cr_assert_eq(fake_merge_end(), 0);
	mt_merge_by_away_names(fake.port.merge_work, &names);
	merge_begin();
	cr_assert_eq(fake_merge_end(), 0); /* by the plan, for nobody answers */
	cr_assert_gt(test.recipe_bytes, 0);
	test.part = dev_alloc(NULL, WIRE_JOB_PART_BYTES);
}

static void
teardown(void)
{
	loop_timer_stop(fake.loop, &test.timer);
	mt_worker_fini(&fake.port);
	fake_merges_fini();
}

TestSuite(worker_recipes, .init = setup, .fini = teardown, .timeout = 240);

/* ---- changed ---- */

static uint32_t
below(uint32_t end)
{
	return (uint32_t)loop_random_below(fake.loop, end);
}

/* A place of @bytes, a few of them, in the head or in one of what follows it. */
static uint32_t
any_place(const struct mt_recipe_head *head)
{
	uint32_t extents_at = RECIPE_HEAD_BYTES,
		 sources_at = extents_at + head->extent_count * RECIPE_EXTENT_BYTES,
		 frames_at = sources_at + head->source_count * RECIPE_SOURCE_BYTES,
		 crcs_at = frames_at + head->frame_count * RECIPE_FRAME_BYTES;

	switch (below(4)) {
	case 0:
		return 6 + below(RECIPE_LENGTH_AT - 6);
	case 1:
		return extents_at + below(sources_at - extents_at);
	case 2:
		return sources_at + below(frames_at - sources_at);
	default:
		return frames_at + below(crcs_at - frames_at);
	}
}

static void
change(uint8_t *bytes, const struct mt_recipe_head *head)
{
	uint32_t at = any_place(head);

	switch (below(5)) {
	case 0:
		bytes[at] = (uint8_t)below(256);
		break;
	case 1:
		bytes[at] ^= (uint8_t)(1u << below(8));
		break;
	case 2:
		bytes[at] = 0;
		break;
	case 3: /* a whole field */
		memset(bytes + num_round_down(at, 8), below(2) == 0 ? 0xff : 0, 8);
		break;
	default: /* another one's */
		memcpy(bytes + num_round_down(at, 8), bytes + num_round_down(any_place(head), 8),
		    8);
	}
}

static bool
has_ended(void *arg)
{
	return test.end_count > *(const uint32_t *)arg;
}

static int
give(const uint8_t *bytes, uint64_t number)
{
	const struct mt_worker_part part = { .owner = &test,
		.number = number,
		.recipe_bytes = test.recipe_bytes,
		.payload_bytes = test.recipe_bytes,
		.payload = test.part };
	uint32_t before = test.end_count;
	const char *field = "";
	int rc;

	fake_to_device(test.part, bytes, test.recipe_bytes);
	rc = mt_worker_take(fake.port.worker, &part, &test, &field);
	if (rc == 1)
		cr_assert_eq(sim_world_run(fake.world, has_ended, &before,
				 sim_world_now_ns(fake.world) + NUM_S(120)),
		    0);
	return rc;
}

Test(worker_recipes, whatever_passes_does_no_harm)
{
	static uint8_t bytes[RECIPE_BYTES_MAX];
	struct mt_recipe recipe;
	const char *field;
	uint32_t run_count = 0;

	cr_assert_eq(mt_recipe_decode(test.recipe, test.recipe_bytes, &recipe, &field), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		memcpy(bytes, test.recipe, test.recipe_bytes);
		for (uint32_t k = below(3) + 1; k > 0; k--)
			change(bytes, &recipe.head);
		num_put_le32(bytes + RECIPE_LENGTH_AT, test.recipe_bytes);
		num_put_le32(bytes + RECIPE_CRC_AT, mt_recipe_checksum(bytes, test.recipe_bytes));
		run_count += give(bytes, i + 1) == 1;
	}
	cr_log_info("%u of %u were executed", run_count, ROUNDS);
	cr_assert_gt(run_count, 0);
	cr_assert_eq(mt_worker_free_count(&fake.port), 1);
}
