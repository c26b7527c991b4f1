/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_states.c -- the states of a merge's sources and batches say no more than what happens; and nothing of a
 * port's merges points at a shard that went
 */
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/merge/merge_work.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_merge.h"

#define MACHINES 2u

static struct machine {
	const char *name;
	uint32_t state_count;
	const struct sm_state *table;
	uint32_t taken[SM_STATES_MAX];
} machines[MACHINES] = { { "merge_source", MERGE_SOURCE_STATE_NR, NULL, { 0 } },
	{ "run_batch", RUN_BATCH_STATE_NR, NULL, { 0 } } };

static void
setup(void)
{
	fake_init(1, false);
	fake_merges_start();
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(merge_states, .init = setup, .fini = teardown);

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < MACHINES; i++) {
		if (strcmp(sm->name, machines[i].name) == 0) {
			machines[i].table = sm->table;
			machines[i].taken[from] |= SM_TO(to);
		}
	}
}

/* The layers of chunk 0 are to become a run. */
static void
begin_merge(void)
{
	struct mt_chunk *chunk =
	    mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, 0));
	struct mt_merge_input input = { .chunk = chunk, .level = 1 };

	cr_assert_eq(mt_index_freeze(chunk), 0);
	input.newest_layer = LIST_ENTRY(chunk->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(chunk->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static int
merge(void)
{
	begin_merge();
	return fake_merge_end();
}

/* More than the ring holds. */
static void
write_much(void)
{
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(fake_wait(fake_write(16 * i, 16, 4)), 0);
}

static void
fill_nodes(bool is_full)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = fake.nodes[i].is_reserve_full = is_full;
}

/* A byte of the log, in every copy; and their nodes have said so. */
static void
rot_everywhere(void)
{
	for (uint32_t i = 0; i < fake.shard.extents[0]->replica_count; i++)
		fake.shard.extents[0]->replicas[i].is_damaged = true;
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++) {
			struct fake_copy *copy = &fake.nodes[i].copies[k];

			if (copy->exists && copy->id.counter == fake.shard.extents[0]->id.counter)
				copy->bytes[NUM_KIB(32)] ^= 1;
		}
	}
}

Test(merge_states, every_edge_of_sources_and_batches_is_taken)
{
	sm_set_tracer(on_move);
	write_much();
	fill_nodes(true);
	cr_assert_eq(merge(), -ENOSPC); /* a batch fills, another waits for room */
	fill_nodes(false);
	rot_everywhere();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){
			.opcode = i == 0 ? WIRE_EXTENT_READ : WIRE_EXTENT_APPEND,
			.countdown = i == 0 ? 1 : 2,
			.rc = -EIO,
		};
	cr_assert_eq(merge(), 0); /* a node fails, copies are bad, an extent breaks */
	sm_set_tracer(NULL);
	for (uint32_t i = 0; i < MACHINES; i++) {
		const struct machine *machine = &machines[i];

		cr_assert_not_null(machine->table);
		for (uint32_t from = 0; from < machine->state_count; from++)
			cr_assert_eq(machine->table[from].to & ~machine->taken[from], 0,
			    "%s: %s -> %#x", machine->name, machine->table[from].name,
			    machine->table[from].to & ~machine->taken[from]);
	}
}

/* ---- a shard that goes ---- */

static bool
is_writing(void *arg)
{
	(void)arg;
	return fake.port.merge_work->exec.writer.shard != NULL;
}

Test(merge_states, a_shard_that_goes_after_its_merges_is_known_to_nobody)
{
	cr_assert_eq(fake_wait(fake_write(0, 4, 3)), 0);
	cr_assert_eq(merge(), 0);
	mt_merge_fini(&fake.shard);
	cr_assert_null(fake.port.merge_work->exec.writer.shard);
	cr_assert(mt_merge_is_quiet(&fake.shard));
}

Test(merge_states, a_shard_that_goes_in_the_middle_of_a_merge_is_known_to_nobody)
{
	cr_assert_eq(fake_wait(fake_write(0, 4, 3)), 0);
	begin_merge();
	cr_assert_eq(sim_world_run(fake.world, is_writing, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	mt_merge_fini(&fake.shard);
	cr_assert_null(fake.port.merge_work->exec.writer.shard);
	cr_assert_null(fake.port.merge_work->merge);
	cr_assert(mt_merge_is_quiet(&fake.shard));
}

/* ---- one after the other ---- */

#define ORDER_MAX 3u

static struct {
	struct loop_task task;
	uint64_t chunks[ORDER_MAX]; /* merged, in this order */
	uint32_t count;
} order;

static void
order_on_merged(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	order.chunks[order.count++] = *(const uint64_t *)arg;
	if (order.count == 1)
		loop_defer(fake.port.loop, &order.task);
}

static bool
order_is_done(void *arg)
{
	(void)arg;
	return order.count == ORDER_MAX;
}

static void
order_start(uint32_t chunk_index, bool is_flush)
{
	static const uint64_t numbers[] = { 0, 1, 2 };
	struct mt_chunk *chunk = mt_index_chunk(fake.shard.block_index,
	    mt_chunk_number(FAKE_SEGMENT, chunk_index * (uint32_t)CLEAVE_CHUNK_BLOCKS));
	struct mt_merge_input input = { .chunk = chunk, .level = 1 };

	cr_assert_not_null(chunk);
	if (is_flush) {
		cr_assert_eq(mt_index_freeze(chunk), 0);
		input.newest_layer = LIST_ENTRY(chunk->layers.next, struct mt_layer, link);
		input.oldest_layer = LIST_ENTRY(chunk->layers.prev, struct mt_layer, link);
	} else {
		input.newest_run = input.oldest_run =
		    LIST_ENTRY(chunk->runs.next, struct mt_run, link);
	}
	cr_assert_eq(mt_merge_start(&fake.shard, &input, order_on_merged,
			 (void *)(uintptr_t)&numbers[chunk_index]),
	    0);
}

static void
order_on_task(struct loop_task *task, void *arg)
{
	(void)task;
	(void)arg;
	order_start(2, true);
}

/* As flush.c does: the next merge of a shard is looked for in a task, once the last has ended. */
Test(merge_states, a_shard_s_next_merge_is_queued_before_another_begins)
{
	cr_assert_eq(fake_wait(fake_write(0, 4, 3)), 0);
	cr_assert_eq(merge(), 0);
	for (uint32_t i = 1; i < ORDER_MAX; i++)
		cr_assert_eq(fake_wait(fake_write(i * (uint32_t)CLEAVE_CHUNK_BLOCKS, 4, 3)), 0);
	loop_task_init(&order.task, order_on_task, NULL);
	order_start(1, true);
	order_start(0, false);
	cr_assert_eq(sim_world_run(fake.world, order_is_done, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	cr_assert_eq(order.chunks[0], 1);
	cr_assert_eq(order.chunks[1], 2, "a flush goes before a compaction");
	cr_assert_eq(order.chunks[2], 0);
}

/* ---- a run of nothing ---- */

/* Blocks 0 to 3, and zeros in as many behind them, in one record. */
static struct fake_msg *
write_half_zeros(void)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_WRITE, 0, 8);
	uint8_t data[8 * CLEAVE_BLOCK_BYTES] = { 0 };

	cr_assert_not_null(msg);
	for (uint32_t i = 0; i < 4; i++)
		fake_pattern(data + i * CLEAVE_BLOCK_BYTES, i, 3);
	fake_to_device(msg->msg.payload, data, sizeof(data));
	msg->msg.payload_bytes = sizeof(data);
	io.payload_crc = crc32c(0, data, sizeof(data));
	fake_submit(msg, &io);
	return msg;
}

/* The merge makes room for a frame, and only then sees that it is zeros with nothing beneath them. */
Test(merge_states, zeros_beneath_which_nothing_lies_make_no_run)
{
	cr_assert_eq(fake_wait(write_half_zeros()), 0);
	cr_assert_eq(fake_wait(fake_discard(0, 4)), 0);
	cr_assert_eq(merge(), 0);
	cr_assert_eq(fake.shard.block_index->run_count, 0);
	cr_assert_null(mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, 0)));
	fake_expect(0, 0);
	fake_expect(5, 0);
}
