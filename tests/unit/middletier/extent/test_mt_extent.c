/* SPDX-License-Identifier: Apache-2.0 */
/* test_mt_extent.c -- an extent's life, its appends, and each replica's failure at each point */
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/replica.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/replicate.h"
#include "unit/fake_port.h"

#define BATCHES 4u

struct result {
	uint32_t count;
	int rc;
	struct mt_extent *extent;
};

static struct mt_append batches[BATCHES];
static int batch_rcs[BATCHES];
static uint32_t batch_order[BATCHES], batch_done_count;

static void
on_batch(struct mt_append *batch, int rc, void *arg)
{
	uint32_t index = (uint32_t)(batch - batches);

	(void)arg;
	cr_assert_eq(batch->unanswered_count, 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		struct loop_link *link, *next;

		LIST_FOREACH_SAFE(&fake.links[i].calls, link, next)
			for (uint32_t k = 0; k < MT_REPLICAS_MAX; k++)
				cr_assert_neq(link, &batch->calls[k].link,
				    "a buffer is still in use");
	}
	batch_rcs[index] = rc;
	batch_order[batch_done_count++] = index;
}

static void
setup(void)
{
	fake_init(11, false);
	batch_done_count = 0;
	for (uint32_t i = 0; i < BATCHES; i++) {
		cr_assert_eq(mt_append_init(&batches[i], &fake.port), 0);
		batches[i].fn = on_batch;
		batch_rcs[i] = 1;
	}
}

static void
teardown(void)
{
	for (uint32_t i = 0; i < BATCHES; i++)
		mt_append_fini(&batches[i], &fake.port);
	fake_fini();
}

TestSuite(mt_extent, .init = setup, .fini = teardown);

static void
on_extent(struct mt_extent *extent, int rc, void *arg)
{
	struct result *result = arg;

	result->count++;
	result->rc = rc;
	result->extent = rc == 0 ? extent : NULL;
}

static struct result
create(void)
{
	struct result result = { .rc = 1 };
	struct mt_extent *extent =
	    mt_extent_create(&fake.shard, EXTENT_MANIFEST, on_extent, &result);

	cr_assert_not_null(extent);
	cr_assert_eq(extent->sm.state, MT_EXTENT_CREATING);
	cr_assert_eq(result.count, 0, "not within the call");
	fake_run_for(NUM_MS(10));
	cr_assert_eq(result.count, 1);
	return result;
}

static struct mt_extent *
create_open(void)
{
	struct result result = create();

	cr_assert_eq(result.rc, 0);
	cr_assert_eq(result.extent->sm.state, MT_EXTENT_OPEN);
	cr_assert_eq(mt_shard_extent_add(&fake.shard, result.extent), 0);
	return result.extent;
}

/* A manifest batch: edit bytes, no payload. */
static void
fill(struct mt_append *batch, uint32_t desc_bytes)
{
	memset(batch->hosts[0] + WIRE_HEADER_BYTES + BATCH_HEADER_BYTES, 0x5a, desc_bytes);
	batch->info = (struct batch_info){ .record_count = 1,
		.desc_bytes = desc_bytes,
		.used_bytes = BATCH_HEADER_BYTES + desc_bytes,
		.batch_bytes =
		    (uint32_t)num_round_up(BATCH_HEADER_BYTES + desc_bytes, BATCH_ALIGN) };
}

static int
append(struct mt_extent *extent, uint32_t index)
{
	fill(&batches[index], 100 + index);
	return mt_extent_append(extent, &batches[index]);
}

static uint32_t
copies_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++)
			count += fake.nodes[i].copies[k].exists;
	return count;
}

static struct fake_node *
node_of(const struct mt_extent *extent, uint32_t replica_index)
{
	return &fake.nodes[extent->replicas[replica_index].node_id - 1];
}

Test(mt_extent, is_created_at_three_nodes)
{
	struct mt_extent *extent = create_open();

	cr_assert_eq(extent->replica_count, 3);
	cr_assert_eq(extent->capacity_bytes, FAKE_SLOT_BYTES - 12288);
	cr_assert_eq(copies_count(), 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_neq(extent->replicas[i].incarnation, 0);
	cr_assert_eq(fake.shard.next_counter, 1);
}

Test(mt_extent, too_few_nodes_is_hostdown)
{
	for (uint32_t i = 2; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	cr_assert_eq(create().rc, -EHOSTDOWN);
	cr_assert_eq(copies_count(), 0);
}

Test(mt_extent, min_replicas_lets_it_go_on_with_fewer)
{
	fake.settings.min_replicas = 2;
	for (uint32_t i = 2; i < FAKE_NODES; i++)
		fake_node_down(i, 0);
	cr_assert_eq(create_open()->replica_count, 2);
}

Test(mt_extent, full_nodes_are_enospc)
{
	for (uint32_t i = 0; i < 3; i++)
		fake.nodes[i].is_full = true;
	cr_assert_eq(create().rc, -ENOSPC);
}

Test(mt_extent, each_failure_of_a_creation_deletes_what_there_is)
{
	static const int causes[][2] = { { -ENOSPC, -ENOSPC }, { -EROFS, -EHOSTDOWN },
		{ -EIO, -EHOSTDOWN }, { -ESTALE, -ESTALE }, { -ETIMEDOUT, -EHOSTDOWN } };

	fake.port.link_count = 3;
	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t k = 0; k < NUM_COUNT(causes); k++) {
			fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_CREATE,
				.countdown = 1,
				.rc = causes[k][0] };
			cr_assert_eq(create().rc, causes[k][1]);
			fake_run_for(NUM_MS(10));
			cr_assert_eq(copies_count(), 0);
		}
	}
}

Test(mt_extent, a_link_lost_while_creating_is_hostdown)
{
	struct result result = { 0 };

	fake.port.link_count = 3;
	cr_assert_not_null(mt_extent_create(&fake.shard, EXTENT_LOG, on_extent, &result));
	fake_node_down(1, 0);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(result.count, 1);
	cr_assert_eq(result.rc, -EHOSTDOWN);
	cr_assert_eq(copies_count(), 0);
}

Test(mt_extent, a_fence_counts_more_than_no_space)
{
	fake.port.link_count = 3;
	fake.nodes[0].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_CREATE, .countdown = 1, .rc = -ESTALE };
	fake.nodes[1].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_CREATE, .countdown = 1, .rc = -ENOSPC };
	cr_assert_eq(create().rc, -ESTALE);
}

Test(mt_extent, an_epoch_runs_out_of_numbers)
{
	struct result result = { 0 };

	fake.shard.next_counter = EXTENT_COUNTER_MAX + 1;
	cr_assert_null(mt_extent_create(&fake.shard, EXTENT_LOG, on_extent, &result));
	cr_assert_eq(errno, ENOSPC);
}

Test(mt_extent, can_be_freed_while_it_is_being_created)
{
	struct result result = { 0 };
	struct mt_extent *extent = mt_extent_create(&fake.shard, EXTENT_LOG, on_extent, &result);

	mt_extent_free(extent);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(result.count, 0);
}

Test(mt_extent, appends_are_identical_on_each_replica_and_chained)
{
	struct mt_extent *extent = create_open();

	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(append(extent, i), 0);
	cr_assert_eq(extent->append_count, 3);
	cr_assert_eq(batch_done_count, 0, "not within the call");
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_done_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct fake_node *node = node_of(extent, i);

		cr_assert_eq(batch_order[i], i);
		cr_assert_eq(batch_rcs[i], 0);
		cr_assert_eq(node->copies[0].length, 3 * 4096);
		cr_assert_eq(memcmp(node->copies[0].bytes, node_of(extent, 0)->copies[0].bytes,
				 3 * 4096),
		    0);
	}
	cr_assert_eq(extent->acked_bytes, 3 * 4096);
	cr_assert_eq(batches[2].info.mark_bytes, 0);
	cr_assert_eq(append(extent, 0), 0);
	cr_assert_eq(batches[0].info.mark_bytes, 3 * 4096);
	fake_run_for(NUM_MS(10));
}

Test(mt_extent, a_batch_that_does_not_fit_is_enospc)
{
	struct mt_extent *extent = create_open();

	extent->capacity_bytes = 8192;
	cr_assert_eq(append(extent, 0), 0);
	cr_assert_eq(append(extent, 1), 0);
	cr_assert_eq(append(extent, 2), -ENOSPC);
	cr_assert_eq(extent->sm.state, MT_EXTENT_OPEN);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_done_count, 2);
}

Test(mt_extent, nothing_is_acknowledged_before_all_replicas)
{
	struct mt_extent *extent = create_open();
	struct fake_node *slow = node_of(extent, 2);

	slow->is_stalled = true;
	cr_assert_eq(append(extent, 0), 0);
	fake_run_for(NUM_S(1));
	cr_assert_eq(batch_done_count, 0);
	cr_assert_eq(extent->acked_bytes, 0);
	fake_node_resume(slow->index);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_done_count, 1);
}

/* Each replica fails at each of three appends that are all in flight. */
Test(mt_extent, each_replica_fails_at_each_append)
{
	static const int causes[] = { -EIO, -ENOSPC, -EROFS, -ESPIPE, -ESTALE };

	for (uint32_t replica = 0; replica < 3; replica++) {
		for (uint32_t at = 0; at < 3; at++) {
			int cause = causes[(replica + at) % NUM_COUNT(causes)];
			struct mt_extent *extent = create_open();

			batch_done_count = 0;
			node_of(extent, replica)->fault =
			    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND,
				    .countdown = at + 1,
				    .rc = cause };
			for (uint32_t i = 0; i < 3; i++)
				cr_assert_eq(append(extent, i), 0);
			fake_run_for(NUM_MS(10));
			cr_assert_eq(extent->sm.state, MT_EXTENT_BROKEN);
			cr_assert_eq(batch_done_count, 3);
			for (uint32_t i = 0; i < 3; i++) {
				cr_assert_eq(batch_order[i], i);
				cr_assert_eq(batch_rcs[i] == 0, i < at);
			}
			cr_assert_eq(batch_rcs[at], cause);
			cr_assert_eq(extent->acked_bytes, at * 4096);
			cr_assert_eq(append(extent, 3), -EPIPE);
		}
	}
}

Test(mt_extent, a_lost_link_breaks_it_and_gives_the_buffers_back)
{
	for (uint32_t done_count = 0; done_count <= 2; done_count++) {
		struct mt_extent *extent = create_open();
		struct fake_node *node = node_of(extent, done_count);

		batch_done_count = 0;
		node->is_stalled = true;
		cr_assert_eq(append(extent, 0), 0);
		cr_assert_eq(append(extent, 1), 0);
		fake_run_for(NUM_MS(5));
		cr_assert_eq(batch_done_count, 0);
		fake_node_down(node->index, done_count);
		cr_assert_eq(batch_done_count, 2);
		cr_assert_lt(batch_rcs[0], 0, "durable there, but nobody said so");
		cr_assert_lt(batch_rcs[1], 0);
		cr_assert_eq(extent->sm.state, MT_EXTENT_BROKEN);
		cr_assert_eq(extent->acked_bytes, 0);
		fake_node_up(node->index);
	}
}

Test(mt_extent, a_link_that_is_down_before_the_append_breaks_it)
{
	struct mt_extent *extent = create_open();

	fake.nodes[extent->replicas[1].node_id - 1].is_up = false;
	cr_assert_eq(append(extent, 0), -EPIPE);
	cr_assert_eq(extent->sm.state, MT_EXTENT_BROKEN);
	cr_assert_eq(extent->append_count, 0);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_done_count, 0);
}

Test(mt_extent, an_idle_one_breaks_when_its_link_is_lost)
{
	struct mt_extent *extent = create_open();

	fake_node_down(extent->replicas[0].node_id - 1, 0);
	cr_assert_eq(extent->sm.state, MT_EXTENT_BROKEN);
	cr_assert_eq(fake.port.metrics[MT_METRIC_extents_broken], 1);
}

Test(mt_extent, a_broken_batch_goes_to_another_extent_unchanged)
{
	struct mt_extent *first = create_open(), *second;
	const struct fake_copy *copy;

	node_of(first, 1)->fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND, .countdown = 1, .rc = -EIO };
	cr_assert_eq(append(first, 0), 0);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_rcs[0], -EIO);
	second = create_open();
	cr_assert_eq(mt_extent_append(second, &batches[0]), 0);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(batch_rcs[0], 0);
	copy = fake_copy_find(node_of(second, 0), &second->id);
	cr_assert_eq(copy->length, 4096);
	cr_assert_eq(copy->bytes[BATCH_HEADER_BYTES + 99], 0x5a);
}

Test(mt_extent, a_sealed_one_is_cut_at_each_replica_also_later)
{
	struct mt_extent *extent = create_open();
	struct fake_node *away = node_of(extent, 2);

	cr_assert_eq(append(extent, 0), 0);
	fake_run_for(NUM_MS(10));
	fake_node_down(away->index, 0);
	mt_extent_seal(extent, extent->acked_bytes);
	mt_extent_truncate_replicas(extent);
	mt_extent_truncate_replicas(extent); /* asked already: not twice */
	fake_run_for(NUM_MS(10));
	cr_assert(extent->replicas[0].is_truncated && extent->replicas[1].is_truncated);
	cr_assert_not(extent->replicas[2].is_truncated);
	cr_assert_eq(node_of(extent, 0)->counts[WIRE_EXTENT_TRUNCATE], 1);
	fake_node_up(away->index);
	fake_run_for(NUM_MS(10));
	cr_assert(extent->replicas[2].is_truncated);
	cr_assert_eq(away->copies[0].sealed_bytes, 4096);
	cr_assert_eq(append(extent, 1), -EPIPE);
}

Test(mt_extent, a_short_copy_is_damaged)
{
	struct mt_extent *extent = create_open();

	cr_assert_eq(append(extent, 0), 0);
	fake_run_for(NUM_MS(10));
	node_of(extent, 1)->copies[0].length = 0;
	mt_extent_seal(extent, extent->acked_bytes);
	mt_extent_truncate_replicas(extent);
	fake_run_for(NUM_MS(10));
	cr_assert(extent->replicas[1].is_damaged);
	cr_assert_not(extent->replicas[1].is_truncated);
	cr_assert_eq(fake.port.metrics[MT_METRIC_copies_damaged], 1);
}

/* Two take-overs that died may have sealed copies at different lengths, and at none of a batch's ends. */
Test(mt_extent, a_copy_that_can_never_have_the_length_is_damaged)
{
	static const int verdicts[] = { -EPERM, -EINVAL };

	for (uint32_t i = 0; i < NUM_COUNT(verdicts); i++) {
		struct mt_extent *extent = create_open();

		node_of(extent, 1)->fault = (struct fake_fault){ .opcode = WIRE_EXTENT_TRUNCATE,
			.countdown = 1,
			.rc = verdicts[i] };
		mt_extent_seal(extent, extent->acked_bytes);
		mt_extent_truncate_replicas(extent);
		fake_run_for(NUM_MS(10));
		cr_assert(extent->replicas[1].is_damaged, "%d", verdicts[i]);
		cr_assert_not(extent->replicas[1].is_truncated);
		cr_assert_eq(fake.port.metrics[MT_METRIC_copies_damaged], i + 1);
	}
}

/* A node that could not do it now is asked again when its link comes up. */
Test(mt_extent, a_copy_that_is_not_cut_for_now_is_not_damaged)
{
	struct mt_extent *extent = create_open();

	node_of(extent, 1)->fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_TRUNCATE, .countdown = 1, .rc = -EBUSY };
	mt_extent_seal(extent, extent->acked_bytes);
	mt_extent_truncate_replicas(extent);
	fake_run_for(NUM_MS(10));
	cr_assert_not(extent->replicas[1].is_damaged || extent->replicas[1].is_truncated);
	fake_node_down(extent->replicas[1].node_id - 1, 0);
	fake_node_up(extent->replicas[1].node_id - 1);
	fake_run_for(NUM_MS(10));
	cr_assert(extent->replicas[1].is_truncated);
}

Test(mt_extent, a_deleted_one_is_gone_from_the_nodes_that_are_up)
{
	struct mt_extent *extent = create_open();

	mt_shard_extent_remove(&fake.shard, extent);
	fake_node_down(extent->replicas[0].node_id - 1, 0);
	mt_extent_delete(extent);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(copies_count(), 1);
}

Test(mt_extent, a_restored_one_can_only_be_sealed)
{
	struct mt_replica replicas[2] = { { .node_id = 1, .incarnation = 4 },
		{ .node_id = 2, .incarnation = 5, .is_damaged = true } };
	struct extent_id id = { 3, 4, 17 };
	struct mt_extent *extent = mt_extent_restore(&fake.shard, &id, EXTENT_LOG, replicas, 2);

	cr_assert_eq(mt_shard_extent_add(&fake.shard, extent), 0);
	cr_assert_eq(extent->sm.state, MT_EXTENT_BROKEN);
	cr_assert_eq(append(extent, 0), -EPIPE);
	mt_extent_seal(extent, 8192);
	cr_assert_eq(extent->sealed_bytes, 8192);
	cr_assert(extent->replicas[1].is_damaged);
}

/* Nobody answers, and nothing leaks. */
Test(mt_extent, requests_of_a_killed_process_are_forgotten)
{
	struct result result = { 0 };
	struct mt_extent *extent = create_open(), *other;

	mt_shard_extent_remove(&fake.shard, extent);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
	mt_extent_delete(extent);
	other = mt_extent_create(&fake.shard, EXTENT_LOG, on_extent, &result);
	mt_extent_free(other);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		list_init(&fake.links[i].calls);
	mt_extent_requests_fini(&fake.shard);
	cr_assert_eq(result.count, 0);
}
