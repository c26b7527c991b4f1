/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_paths.c -- random writes, discards and reads of one shard while its nodes fail, against a model
 *
 * Versions grow with each write, and a block's content tells its version. What the model knows of a
 * block is the *floor*, the newest version that was acknowledged or has been read, and the versions
 * issued since. A read must give the floor that held when it was issued, or something newer. In the
 * end all nodes are healed, everything is read, and the log is replayed from each replica.
 */
#include "base/crc32c.h"
#include "base/guard.h"
#include "base/num.h"
#include "base/random.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/common/replica.h"
#include "middletier/common/settings.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/index_apply.h"
#include "middletier/index/memtable.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "middletier/read/read_piece.h"
#include "middletier/write/cut.h"
#include "middletier/write/write_path.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_runs.h"

#define BLOCKS 700u
#define HISTORY 4096u

enum { KIND_WRITE = 1, KIND_TOMBSTONE = 2 };

struct op {
	struct wire_io io;
	uint64_t version;
	uint64_t floors[ENGINE_RECORD_BLOCKS_MAX];
	bool is_read;
};

static struct {
	uint64_t random[4];
	uint64_t floor[BLOCKS];
	uint8_t kind[HISTORY][BLOCKS]; /* by version: what it did to each block */
	uint64_t version;
	uint32_t ok_count, failed_count;
	struct op ops[FAKE_MSGS];
	bool must_succeed;
} model;

static uint32_t
below(uint32_t limit)
{
	return (uint32_t)random_below(model.random, limit);
}

/* ---- answers ---- */

static bool
has_tombstone_since(uint32_t block, uint64_t version)
{
	for (uint64_t v = version; v <= model.version; v++)
		if (model.kind[v][block] == KIND_TOMBSTONE)
			return true;
	return version == 0;
}

static void
check_block(const uint8_t *content, uint32_t block, uint64_t floor)
{
	uint8_t expected[CLEAVE_BLOCK_BYTES];
	uint64_t version;

	memcpy(&version, content, sizeof(version));
	if (version == 0) {
		memset(expected, 0, sizeof(expected));
		cr_assert_eq(memcmp(content, expected, sizeof(expected)), 0);
		cr_assert(has_tombstone_since(block, floor), "block %u lost %lu", block, floor);
		return;
	}
	cr_assert_leq(version, model.version);
	fake_pattern(expected, block, version);
	cr_assert_eq(memcmp(content, expected, sizeof(expected)), 0, "block %u torn", block);
	cr_assert_eq(model.kind[version][block], KIND_WRITE);
	cr_assert_geq(version, floor, "block %u went back", block);
	if (version > model.floor[block])
		model.floor[block] = version;
}

static void
on_read_reply(struct fake_msg *msg, const struct op *op)
{
	uint32_t first = (uint32_t)(op->io.offset_bytes / CLEAVE_BLOCK_BYTES);
	int rc = msg->reply.rc;

	cr_assert(rc == 0 || rc == -EHOSTDOWN || rc == -EIO, "rc %d", rc);
	cr_assert(rc == 0 || !model.must_succeed, "rc %d", rc);
	for (uint32_t i = 0; rc == 0 && i < op->io.length_bytes / CLEAVE_BLOCK_BYTES; i++)
		check_block(msg->payload + i * CLEAVE_BLOCK_BYTES, first + i, op->floors[i]);
}

/* I4: what was acknowledged is on every replica of its extent. */
static void
check_replicas_hold(void)
{
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		const struct mt_extent *extent = fake.shard.extents[i];

		for (uint32_t k = 0; k < extent->replica_count; k++) {
			const struct fake_copy *copy =
			    fake_copy_find(&fake.nodes[extent->replicas[k].node_id - 1],
				&extent->id);

			cr_assert_not_null(copy);
			cr_assert_geq(copy->length, extent->acked_bytes);
		}
	}
}

static void
on_write_reply(struct fake_msg *msg, const struct op *op)
{
	uint32_t first = (uint32_t)(op->io.offset_bytes / CLEAVE_BLOCK_BYTES);
	int rc = msg->reply.rc;

	cr_assert(rc == 0 || rc == -ENOSPC, "rc %d", rc);
	cr_assert(rc == 0 || !model.must_succeed);
	for (uint32_t i = 0; rc == 0 && i < op->io.length_bytes / CLEAVE_BLOCK_BYTES; i++)
		if (op->version > model.floor[first + i])
			model.floor[first + i] = op->version;
	if (rc == 0 && below(8) == 0)
		check_replicas_hold();
	if (rc == 0)
		model.ok_count++;
	else
		model.failed_count++;
}

static void
on_reply(struct fake_msg *msg, void *arg)
{
	const struct op *op = arg;

	if (op->is_read)
		on_read_reply(msg, op);
	else
		on_write_reply(msg, op);
}

/* ---- requests ---- */

static struct op *
op_prepare(struct fake_msg *msg, enum wire_opcode opcode)
{
	struct op *op = &model.ops[msg - fake.msgs];
	uint32_t count = below(3) == 0 ? 1 + below(16) : 1 + below(2);
	uint32_t first = below((below(2) == 0 ? BLOCKS / 20 : BLOCKS) - count + 1);

	*op = (struct op){ .io = fake_io(opcode, first, count), .is_read = opcode == WIRE_READ };
	if (below(10) == 0)
		op->io.service_class = SERVICE_LATENCY;
	msg->on_reply = on_reply;
	msg->arg = op;
	if (op->is_read) {
		for (uint32_t i = 0; i < count; i++)
			op->floors[i] = model.floor[first + i];
		return op;
	}
	op->version = ++model.version;
	for (uint32_t i = 0; i < count; i++)
		model.kind[op->version][first + i] = opcode == WIRE_WRITE ? KIND_WRITE
									  : KIND_TOMBSTONE;
	return op;
}

static void
issue(enum wire_opcode opcode)
{
	struct fake_msg *msg = fake_msg_take();
	uint8_t data[ENGINE_RECORD_BYTES_MAX];
	struct op *op;

	if (msg == NULL)
		return;
	op = op_prepare(msg, opcode);
	if (opcode == WIRE_WRITE) {
		uint32_t first = (uint32_t)(op->io.offset_bytes / CLEAVE_BLOCK_BYTES);

		for (uint32_t i = 0; i < op->io.length_bytes / CLEAVE_BLOCK_BYTES; i++)
			fake_pattern(data + i * CLEAVE_BLOCK_BYTES, first + i, op->version);
		fake_to_device(msg->msg.payload, data, op->io.length_bytes);
		msg->msg.payload_bytes = op->io.length_bytes;
		op->io.payload_crc = crc32c(0, data, op->io.length_bytes);
	}
	fake_submit(msg, &op->io);
}

static void
issue_some(void)
{
	uint32_t kind = below(20);

	issue(kind < 10         ? WIRE_WRITE
		: kind < 18     ? WIRE_READ
		: below(2) == 0 ? WIRE_DISCARD
				: WIRE_WRITE_ZEROES);
}

/* ---- faults ---- */

static void
heal(void)
{
	fake.commit_rc = 0;
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_rotten = fake.nodes[i].is_full = false;
		fake.nodes[i].fault.countdown = 0;
		fake_node_up(i);
		fake_node_resume(i);
	}
}

static void
fault_some(void)
{
	static const enum wire_opcode opcodes[] = { WIRE_EXTENT_APPEND, WIRE_EXTENT_APPEND,
		WIRE_EXTENT_READ, WIRE_EXTENT_CREATE, WIRE_EXTENT_TRUNCATE };
	static const int causes[] = { -EIO, -ENOSPC, -EROFS, -EBUSY, -ESPIPE };
	uint32_t at = below(FAKE_NODES);
	struct fake_node *node = &fake.nodes[at];

	switch (below(8)) {
	case 0:
		fake_node_down(at, below(4));
		break;
	case 1:
		heal();
		break;
	case 2:
		fake_node_up(at);
		break;
	case 3:
		node->is_stalled = true;
		loop_timer_stop(fake.loop, &node->timer);
		break;
	case 4:
		fake_node_resume(at);
		break;
	case 5:
		node->fault = (struct fake_fault){ .opcode = opcodes[below(NUM_COUNT(opcodes))],
			.countdown = 1 + below(6),
			.rc = causes[below(NUM_COUNT(causes))],
			.is_done_anyway = below(2) == 0,
			.is_link_lost = below(3) == 0 };
		break;
	case 6:
		for (uint32_t i = 0; i < FAKE_NODES; i++)
			fake.nodes[i].is_rotten = i == at && below(2) == 0;
		break;
	default:
		node->is_full = below(4) == 0;
		fake.commit_rc = below(6) == 0 ? -EIO : 0;
		break;
	}
}

/* ---- the end ---- */

static void
replay_extent(struct mt_index *index, const struct mt_extent *extent, uint32_t replica)
{
	const struct fake_copy *copy =
	    fake_copy_find(&fake.nodes[extent->replicas[replica % extent->replica_count].node_id -
			       1],
		&extent->id);
	uint32_t prev_crc = batch_chain_seed(&extent->id, extent->kind);
	uint64_t offset = 0;

	while (offset < extent->acked_bytes) {
		struct batch_check check = { .id = extent->id,
			.kind = extent->kind,
			.offset_bytes = offset,
			.prev_crc = prev_crc,
			.must_check_payload = true };
		struct record_iter it;
		struct record_desc record;
		const char *field;

		cr_assert_eq(batch_check_run(copy->bytes + offset,
				 (uint32_t)(extent->acked_bytes - offset), &check),
		    0);
		record_iter_init(&it, copy->bytes + offset, &check.info);
		while (record_iter_next(&it, &record, &field) == 1) {
			cr_assert_eq((record.codec_id & ENGINE_ENCRYPTED) != 0,
			    record.kind == RECORD_WRITE && fake.session.volume.key_id != 0);
			cr_assert_eq(mt_index_apply(index, &record, 0, extent->index, offset, 0),
			    0);
		}
		prev_crc = check.info.batch_crc;
		offset += check.info.batch_bytes;
	}
}

/* Replayed from any replica, the index is the same. */
static void
check_replay(uint32_t replica)
{
	struct mt_index *index = mt_index_create(&fake.shard);

	for (uint32_t i = 0; i < fake.shard.extent_count; i++)
		replay_extent(index, fake.shard.extents[i], replica);
	cr_assert_eq(index->key_count, fake.shard.block_index->key_count);
	for (uint32_t block = 0; block < BLOCKS; block++) {
		const struct mt_location *at = index_look(index, FAKE_SEGMENT, block), *b;
		struct mt_location copy = at == NULL ? (struct mt_location){ 0 } : *at, *a = &copy;

		b = index_look(fake.shard.block_index, FAKE_SEGMENT, block);
		cr_assert_eq(at == NULL, b == NULL);
		if (at == NULL)
			continue;
		cr_assert_eq(a->extent_index, b->extent_index);
		cr_assert_eq(a->offset_bytes, b->offset_bytes);
		cr_assert_eq(a->block_crc, b->block_crc);
		cr_assert_eq(a->stored_bytes, b->stored_bytes);
	}
	mt_index_destroy(index);
}

static void
check_all(void)
{
	model.must_succeed = true;
	for (uint32_t block = 0; block < BLOCKS; block++) {
		struct fake_msg *msg = fake_read(block, 1);
		uint64_t floor = model.floor[block];

		cr_assert_eq(fake_wait(msg), 0);
		check_block(msg->payload, block, floor);
	}
	check_replicas_hold();
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++)
		check_replay(i);
}

static void
run_seed(uint64_t seed, bool is_threaded, uint32_t fault_one_in)
{
	memset(&model, 0, sizeof(model));
	random_seed(model.random, seed);
	fake_ring_bytes = NUM_KIB(768) << below(2);
	fake_init(seed, is_threaded);
	if (below(2) == 0)
		fake_set_slot_bytes(NUM_KIB(160) + 12288u);
	fake_start();
	for (uint32_t step = 0; step < 1500; step++) {
		uint32_t count = below(4);

		for (uint32_t i = 0; i < count; i++)
			issue_some();
		if (fault_one_in != 0 && below(fault_one_in) == 0)
			fault_some();
		fake_run_for(below(10) == 0 ? NUM_MS(below(400)) : NUM_US(below(150)));
	}
	heal();
	cr_assert(fake_run_quiet(), "seed %lu", seed);
	fake_run_for(NUM_S(2));
	heal();
	check_all();
	cr_assert_eq(fake_replies_held(), 0);
	cr_assert_eq(fake.session.write_count, 0);
	cr_assert_gt(model.ok_count, 100);
	if (getenv("PATHS_VERBOSE") != NULL)
		fprintf(stderr,
		    "seed %lu: acknowledged %u refused %u resent %lu broken %lu "
		    "rolled %u reads %lu bad %lu EIO %lu time %lu ms\n",
		    seed, model.ok_count, model.failed_count,
		    fake.port.metrics[MT_METRIC_batches_resent],
		    fake.port.metrics[MT_METRIC_extents_broken], fake.shard.extent_count,
		    fake.port.metrics[MT_METRIC_reads],
		    fake.port.metrics[MT_METRIC_replica_read_errors],
		    fake.port.metrics[MT_METRIC_unreadable_blocks],
		    (sim_world_now_ns(fake.world) - 1000000000) / 1000000);
	fake_fini();
}

/* The guard by mprotect costs a system call each time it opens: fewer seeds do. */
static uint64_t
seeds(uint64_t count)
{
	return guard_init() == GUARD_MPROTECT ? num_max(count / 10, 2) : count;
}

Test(paths, without_faults)
{
	for (uint64_t seed = 1; seed <= seeds(4); seed++)
		run_seed(seed, seed % 2 == 0, 0);
}

Test(paths, with_few_faults)
{
	for (uint64_t seed = 100; seed < 100 + seeds(20); seed++)
		run_seed(seed, seed % 2 == 0, 40);
}

Test(paths, with_many_faults)
{
	for (uint64_t seed = 200; seed < 200 + seeds(20); seed++)
		run_seed(seed, seed % 2 == 0, 6);
}

/* The same seed gives the same history. */
Test(paths, histories_repeat)
{
	uint64_t hashes[2];

	for (uint32_t i = 0; i < 2; i++) {
		memset(&model, 0, sizeof(model));
		random_seed(model.random, 9);
		fake_init(9, true);
		fake_start();
		for (uint32_t step = 0; step < 300; step++) {
			issue_some();
			if (below(10) == 0)
				fault_some();
			fake_run_for(NUM_US(below(150)));
		}
		hashes[i] = sim_world_trace_hash(fake.world);
		heal();
		cr_assert(fake_run_quiet());
		fake_fini();
	}
	cr_assert_eq(hashes[0], hashes[1]);
}

/* ---- the tables of states say no more than what happens ---- */

static struct {
	const struct sm_state *table;
	const char *name;
	uint32_t taken[SM_STATES_MAX];
} machines[16];

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	uint32_t i = 0;

	if (strcmp(sm->name, "run_load") == 0 || strcmp(sm->name, "cut") == 0)
		return; /* test_run_index.c, test_cut.c */
	while (machines[i].table != NULL && machines[i].table != sm->table)
		i++;
	machines[i].table = sm->table;
	machines[i].name = sm->name;
	machines[i].taken[from] |= SM_TO(to);
}

/* States that others go through: here no frames are kept (test_read_ahead.c), and no blocks (test_read_hot.c). */
static uint32_t
states_elsewhere(const char *name)
{
	return strcmp(name, "read_piece") == 0
	    ? SM_TO(READ_PIECE_FILLING) | SM_TO(READ_PIECE_KEEPING)
	    : 0;
}

static uint32_t
missing_edges(bool is_verbose)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; machines[i].table != NULL; i++) {
		for (uint32_t from = 0; from < SM_STATES_MAX; from++) {
			uint32_t left;

			if (from > 0 && machines[i].taken[from] == 0)
				continue;
			left = machines[i].table[from].to & ~machines[i].taken[from] &
			    ~states_elsewhere(machines[i].name);
			missing += left != 0;
			if (left != 0 && is_verbose)
				fprintf(stderr, "%s: %s -> %#x\n", machines[i].name,
				    machines[i].table[from].name, left);
		}
	}
	return missing;
}

/* A run under the blocks that holds none of them, whose index comes and goes. */
static void
cool_run(struct mt_run *run)
{
	if (run != NULL && run->index != NULL && run->load == NULL && below(4) == 0)
		mt_run_cache_drop(run);
}

static void
on_cut(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

/* A snapshot begins, or its hold ends. */
static void
cut_some(void)
{
	struct mt_shard *shard = &fake.shard;
	const struct mt_cut_order order = { .number = shard->cut + 1,
		.segment_count = 1,
		.volume_count = 1,
		.segment_bases = { FAKE_SEGMENT } };

	if (shard->log != NULL && below(8) == 0)
		(void)mt_cut_begin(shard, &order, on_cut, NULL);
	if (below(4) == 0)
		mt_cut_release(shard, shard->cut);
}

/*
 * More than there are pieces for. Now and then from nodes that keep silent for longer than a read
 * waits: some reads fail while they wait for pieces themselves.
 */
static void
read_much(void)
{
	bool is_silent = below(2) == 0;

	for (uint32_t i = 0; is_silent && i < FAKE_NODES; i++) {
		fake.nodes[i].is_stalled = true;
		loop_timer_stop(fake.loop, &fake.nodes[i].timer);
	}
	for (uint32_t i = 0; i < 200; i++)
		issue(WIRE_READ);
	if (is_silent)
		fake_run_for(2 * fake.settings.node_timeout_ns);
}

/* Load, faults, and a stop at any moment. */
static void
run_until_stopped(uint64_t seed)
{
	struct mt_run *run = NULL;

	memset(&model, 0, sizeof(model));
	random_seed(model.random, seed);
	fake_ring_bytes = NUM_KIB(768) << below(2);
	fake_init(seed, seed % 2 == 0);
	fake_runs.extent = NULL;
	if (seed % 4 == 0)
		run = fake_runs_one(1, 10000, 1, 1);
	for (uint32_t step = below(400), start_at = below(step + 40); step > 0; step--) {
		if (step == start_at)
			fake_start();
		for (uint32_t i = below(8); i > 0; i--)
			issue_some();
		if (below(40) == 0)
			read_much();
		cool_run(run);
		if (seed % 8 == 3)
			cut_some();
		if (below(8) == 0)
			fault_some();
		fake_run_for(below(10) == 0 ? NUM_MS(below(400)) : NUM_US(below(150)));
	}
	for (uint32_t i = 0; i < FAKE_MSGS; i++)
		fake.msgs[i].on_reply = NULL;
	fake_stop(below(2) == 0 ? -ESTALE : -ECANCELED);
	mt_run_stop(&fake.shard);
	heal();
	cr_assert(fake_run_quiet(), "seed %lu", seed);
	fake_run_for(NUM_MS(10));
	cr_assert_eq(fake_replies_held(), 0);
	fake_fini();
}

Test(paths, stops_at_any_moment_and_every_edge_is_taken)
{
	uint64_t seed = 1000;

	sm_set_tracer(on_move);
	do {
		run_until_stopped(seed++);
	} while (seed < 1000 + seeds(40) ||
	    (missing_edges(false) > 0 && seed < 1000 + seeds(400) && seeds(40) == 40));
	sm_set_tracer(NULL);
	if (seeds(40) == 40)
		cr_assert_eq(missing_edges(true), 0);
}
