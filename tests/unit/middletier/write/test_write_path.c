/* SPDX-License-Identifier: Apache-2.0 */
/* test_write_path.c -- answers, roll-over, failures; with inline engines and with threads */
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/catalog/wish.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/common/replica.h"
#include "middletier/extent/extent.h"
#include "middletier/index/ring.h"
#include "middletier/manifest/edit.h"
#include "middletier/write/auto_engine.h"
#include "middletier/write/write_answer.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

static void
setup(void)
{
	fake_init(21, false);
}

static void
teardown(void)
{
	fake_fini();
}

TestSuite(write_path, .init = setup, .fini = teardown);

/* The same with engine threads, in the tests that ask for it. */
static void
with_threads(void)
{
	fake_fini();
	fake_init(22, true);
}

static uint64_t
metric(enum mt_metric which)
{
	return fake.port.metrics[which];
}

static struct fake_node *
log_node(uint32_t replica_index)
{
	return &fake.nodes[fake.shard.log->replicas[replica_index].node_id - 1];
}

/* Each replica of a sealed extent has what the manifest says, byte for byte. */
static void
check_replicas(void)
{
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		const struct mt_extent *extent = fake.shard.extents[i];
		const uint8_t *first = NULL;

		for (uint32_t k = 0; k < extent->replica_count; k++) {
			struct fake_copy *copy =
			    fake_copy_find(&fake.nodes[extent->replicas[k].node_id - 1],
				&extent->id);

			cr_assert_not_null(copy);
			cr_assert_geq(copy->length, extent->acked_bytes);
			if (first == NULL)
				first = copy->bytes;
			cr_assert_eq(memcmp(first, copy->bytes, extent->acked_bytes), 0);
		}
	}
}

Test(write_path, waits_for_its_shard)
{
	struct fake_msg *msg = fake_write(1, 1, 1);

	fake_run_for(NUM_S(1));
	cr_assert_not(msg->is_answered);
	fake_start();
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(msg->reply.epoch, 5);
	cr_assert_eq(metric(MT_METRIC_writes), 1);
	cr_assert_eq(metric(MT_METRIC_write_bytes), 4096);
	cr_assert_lt(metric(MT_METRIC_stored_bytes), 4096);
	cr_assert_eq(fake.edit_count, 1);
	cr_assert_eq(fake.edits[0].kind, MT_EDIT_EXTENT_OPENED);
	cr_assert_eq(fake.session.write_count, 0);
	cr_assert_eq(fake.shard.next_sequence, 101);
}

Test(write_path, uses_the_log_that_the_take_over_opened)
{
	fake_start_quiet();
	cr_assert_eq(fake.edit_count, 1);
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	cr_assert_eq(fake.edit_count, 1);
}

Test(write_path, is_not_acknowledged_before_every_replica)
{
	struct fake_msg *msg;

	fake_start_quiet();
	for (uint32_t i = 0; i < 3; i++) {
		log_node(i)->is_stalled = true;
		msg = fake_write(1, 1, 1 + i);
		fake_run_for(NUM_S(1));
		cr_assert_not(msg->is_answered);
		fake_node_resume(log_node(i)->index);
		cr_assert_eq(fake_wait(msg), 0);
	}
}

Test(write_path, the_oldest_write_without_an_answer_is_known)
{
	for (uint32_t round = 0; round < 2; round++) {
		const struct mt_write *oldest;
		uint64_t first_ns;

		if (round == 1)
			with_threads();
		fake_start_quiet();
		cr_assert_null(mt_write_oldest(&fake.shard));
		fake_stall_all(true);
		first_ns = loop_now_ns(fake.shard.port->loop);
		for (uint32_t i = 0; i < 40; i++) {
			(void)fake_write(16 * i, 16, 4);
			fake_run_for(NUM_MS(10));
			oldest = mt_write_oldest(&fake.shard);
			cr_assert_not_null(oldest);
			cr_assert_eq(oldest->stamps.taken_ns, first_ns, "write %u hides the first",
			    i);
		}
		fake_stall_all(false);
		cr_assert(fake_run_quiet());
		cr_assert_null(mt_write_oldest(&fake.shard));
	}
}

Test(write_path, what_batches_cannot_take_waits_its_turn)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		fake_stall_all(true);
		for (uint32_t i = 0; i < 40; i++)
			(void)fake_write(16 * i, 16, 4);
		fake_run_for(NUM_MS(10));
		cr_assert(write_is_any_parked(fake.shard.write));
		fake_stall_all(false);
		cr_assert(fake_run_quiet());
		cr_assert_eq(metric(MT_METRIC_writes), 40);
		check_replicas();
	}
}

Test(write_path, answers_come_in_order_of_arrival)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct fake_msg *msgs[40];

		if (round == 1)
			with_threads();
		fake_start_quiet();
		for (uint32_t i = 0; i < 40; i++)
			msgs[i] = fake_write(i % 7, 1 + i % 3, 1 + i);
		cr_assert(fake_run_quiet());
		for (uint32_t i = 0; i < 40; i++) {
			cr_assert_eq(msgs[i]->reply.rc, 0);
			cr_assert_eq(msgs[i]->answer_number, i + 1);
		}
		cr_assert_eq(fake.shard.next_sequence, 140);
	}
}

Test(write_path, the_last_of_overlapping_writes_is_what_is_read)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		for (uint32_t i = 1; i <= 30; i++)
			(void)fake_write(10 + i % 3, 3, i);
		cr_assert(fake_run_quiet());
		fake_expect(10, 30);
		fake_expect(11, 30);
		fake_expect(12, 30);
		fake_expect(13, 29);
		fake_expect(14, 29);
	}
}

Test(write_path, a_payload_that_does_not_match_its_crc_is_not_stored)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct fake_msg *msg, *next;
		struct wire_io io;

		if (round == 1)
			with_threads();
		fake_start_quiet();
		cr_assert_eq(fake_wait(fake_write(1, 1, 7)), 0);
		msg = fake_msg_take();
		io = fake_io(WIRE_WRITE, 1, 1);
		io.payload_crc = 12345;
		fake_submit(msg, &io);
		next = fake_write(2, 1, 8);
		cr_assert(fake_run_quiet());
		cr_assert_eq(msg->reply.rc, -EBADMSG);
		cr_assert_eq(next->reply.rc, 0);
		cr_assert_eq(metric(MT_METRIC_payload_crc_errors), 1);
		cr_assert_eq(metric(MT_METRIC_records), 2);
		fake_expect(1, 7);
		fake_expect(2, 8);
	}
}

Test(write_path, discards_and_zero_writes_are_tombstones_in_order)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct fake_msg *zeroes;
		struct wire_io io;

		if (round == 1)
			with_threads();
		fake_start_quiet();
		(void)fake_write(0, 4, 1);
		(void)fake_discard(1, 16384 - 1);
		(void)fake_write(2, 1, 2);
		zeroes = fake_msg_take();
		io = fake_io(WIRE_WRITE_ZEROES, 3, 1);
		fake_submit(zeroes, &io);
		cr_assert(fake_run_quiet());
		fake_expect(0, 1);
		fake_expect(1, 0);
		fake_expect(2, 2);
		fake_expect(3, 0);
		cr_assert_eq(metric(MT_METRIC_discards), 2);
		cr_assert_eq(fake.shard.block_index->key_count, 4);
	}
}

static struct fake_msg *
write_zeros(uint32_t block, uint32_t block_count, uint8_t service_class)
{
	static const uint8_t zeros[ENGINE_RECORD_BYTES_MAX];
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_WRITE, block, block_count);

	cr_assert_not_null(msg);
	fake_to_device(msg->msg.payload, zeros, io.length_bytes);
	io.payload_crc = crc32c(0, zeros, io.length_bytes);
	io.service_class = service_class;
	fake_submit(msg, &io);
	return msg;
}

Test(write_path, a_write_of_zeros_stores_nothing_and_keeps_its_place)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct fake_msg *msgs[5];

		if (round == 1)
			with_threads();
		fake_start_quiet();
		msgs[0] = fake_write(0, 4, 5);
		msgs[1] = write_zeros(1, 2, SERVICE_STANDARD);
		msgs[2] = fake_write(2, 1, 6);
		msgs[3] = write_zeros(3, 1, SERVICE_LATENCY);
		msgs[4] = write_zeros(100, 16, SERVICE_STANDARD);
		cr_assert(fake_run_quiet());
		for (uint32_t i = 0; i < NUM_COUNT(msgs); i++) {
			cr_assert_eq(msgs[i]->reply.rc, 0);
			cr_assert_eq(msgs[i]->answer_number, i + 1);
		}
		fake_expect(0, 5);
		fake_expect(1, 0);
		fake_expect(2, 6);
		fake_expect(3, 0);
		fake_expect(107, 0);
		cr_assert_eq(metric(MT_METRIC_writes), 5);
		cr_assert_eq(metric(MT_METRIC_discards), 0);
		cr_assert_lt(metric(MT_METRIC_stored_bytes), 2 * CLEAVE_BLOCK_BYTES);
		cr_assert_eq(fake.shard.block_index->key_count, 4);
		check_replicas();
	}
}

Test(write_path, the_latency_class_is_not_compressed_and_keeps_its_place)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct fake_msg *msgs[3];

		if (round == 1)
			with_threads();
		fake_start_quiet();
		for (uint32_t i = 0; i < 3; i++) {
			msgs[i] = fake_msg_take();
			struct wire_io io = fake_io(WIRE_WRITE, 4, 1);
			uint8_t data[CLEAVE_BLOCK_BYTES];

			fake_pattern(data, 4, 1 + i);
			fake_to_device(msgs[i]->msg.payload, data, sizeof(data));
			io.payload_crc = crc32c(0, data, sizeof(data));
			io.service_class = i == 1 ? SERVICE_LATENCY : SERVICE_STANDARD;
			fake_submit(msgs[i], &io);
		}
		cr_assert(fake_run_quiet());
		cr_assert_gt(metric(MT_METRIC_stored_bytes), 4096);
		cr_assert_lt(metric(MT_METRIC_stored_bytes), 8192);
		fake_expect(4, 3);
	}
}

/* With a clock that stands still only the saving counts: zstd in the end, and what is dense is raw. */
Test(write_path, auto_measures_settles_and_stores_what_is_read_back)
{
	for (uint32_t round = 0; round < 2; round++) {
		uint64_t before;

		if (round == 1)
			with_threads();
		fake_start_quiet();
		fake.session.volume.codec_id = MT_CODEC_AUTO;
		for (uint32_t i = 0; i < 120; i++)
			cr_assert_eq(fake_wait(fake_write(i, 1, 1 + 4 * i)), 0);
		cr_assert(fake.session.autos[SERVICE_STANDARD].is_settled);
		before = metric(MT_METRIC_stored_bytes);
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_eq(fake_wait(fake_write(120 + i, 1, 4)), 0); /* dense */
		cr_assert_geq(metric(MT_METRIC_stored_bytes) - before, 4 * 4096);
		for (uint32_t i = 0; i < 120; i++)
			fake_expect(i, 1 + 4 * i);
		fake_expect(121, 4);
		cr_assert_not(fake.session.autos[SERVICE_CAPACITY].is_settled);
	}
}

Test(write_path, an_unknown_codec_is_an_error_not_a_crash)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		fake.session.volume.codec_id = 77;
		cr_assert_eq(fake_wait(fake_write(1, 1, 1)), -EIO);
		fake.session.volume.codec_id = ENGINE_LZ4;
		cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	}
}

Test(write_path, a_full_engine_queue_is_tried_again)
{
	struct fake_msg *msg;

	with_threads();
	fake_start_quiet();
	fake.engines.is_refusing = true;
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_MS(20));
	cr_assert_not(msg->is_answered);
	fake.engines.is_refusing = false;
	cr_assert_eq(fake_wait(msg), 0);
}

/* ---- failures of replicas ---- */

/* Each replica fails at each of the appends of a run of writes; all are acknowledged all the same. */
Test(write_path, each_replica_fails_at_each_append)
{
	for (uint32_t replica = 0; replica < 3; replica++) {
		for (uint32_t at = 1; at <= 4; at++) {
			for (uint32_t kind = 0; kind < 4; kind++) {
				struct fake_msg *msgs[12];

				fake_fini();
				fake_init(replica * 100 + at * 10 + kind, kind == 3);
				fake_start_quiet();
				log_node(replica)->fault =
				    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND,
					    .countdown = at,
					    .rc = -EIO,
					    .is_done_anyway = kind == 1,
					    .is_link_lost = kind >= 2 };
				for (uint32_t i = 0; i < 12; i++) {
					msgs[i] = fake_write(i % 5, 1, 1 + i);
					fake_run_for(NUM_US(5));
				}
				cr_assert(fake_run_quiet());
				for (uint32_t i = 0; i < 12; i++) {
					cr_assert_eq(msgs[i]->reply.rc, 0);
					cr_assert_eq(msgs[i]->answer_number, i + 1);
				}
				fake_run_for(NUM_MS(10));
				check_replicas();
				for (uint32_t i = 7; i < 12; i++)
					fake_expect(i % 5, 1 + i);
				cr_assert_eq(fake.done_count, 17, "each is answered once");
			}
		}
	}
}

Test(write_path, a_broken_log_is_sealed_before_anything_is_sent_again)
{
	struct mt_extent *old;

	fake_start_quiet();
	old = fake.shard.log;
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	log_node(1)->is_stalled = true;
	(void)fake_write(1, 1, 2);
	fake_run_for(NUM_MS(5));
	fake_node_down(log_node(1)->index, 1);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_batches_resent), 1);
	cr_assert_eq(old->sm.state, MT_EXTENT_SEALED);
	cr_assert_eq(old->sealed_bytes, 4096);
	cr_assert_eq(fake.edit_count, 3);
	cr_assert_eq(fake.edits[1].kind, MT_EDIT_EXTENT_SEALED);
	cr_assert_eq(fake.edits[1].length_bytes, 4096);
	cr_assert_eq(fake.edits[1].id.counter, old->id.counter);
	cr_assert_eq(fake.edits[2].kind, MT_EDIT_EXTENT_OPENED);
	cr_assert_eq(fake.edits[2].replica_count, 3);
	fake_run_for(NUM_MS(5));
	cr_assert(old->replicas[0].is_truncated);
	fake_expect(1, 2);
}

Test(write_path, too_few_nodes_wait_and_go_on)
{
	struct fake_msg *msg;

	fake_start_quiet();
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_S(30));
	cr_assert_not(msg->is_answered);
	fake_node_up(0);
	fake_run_for(NUM_MS(10));
	cr_assert(msg->is_answered, "a link that comes up is enough, no timer");
	cr_assert_eq(msg->reply.rc, 0);
}

Test(write_path, waiting_is_bounded_by_the_batches)
{
	fake_start_quiet();
	for (uint32_t i = 0; i < 3; i++)
		fake_node_down(i, 0);
	for (uint32_t i = 0; i < FAKE_MSGS; i++)
		(void)fake_write(16 * i, 16, 4);
	fake_run_for(NUM_S(5));
	cr_assert_eq(fake.done_count, 0);
	fake_node_up(2);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), FAKE_MSGS);
}

Test(write_path, no_space_is_answered_and_looked_at_again_once_a_second)
{
	uint32_t creates;

	fake_start_quiet();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = fake.nodes[i].is_reserve_full = true;
	log_node(0)->fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND, .countdown = 1, .rc = -ENOSPC };
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), -ENOSPC);
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_EXTENT_SEALED,
	    "what was sent may come true later");
	creates = fake.nodes[0].counts[WIRE_EXTENT_CREATE];
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), -ENOSPC);
	cr_assert_eq(fake_wait(fake_read(1, 1)), 0, "reads go on");
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_full = fake.nodes[i].is_reserve_full = false;
	fake_run_for(NUM_MS(1500));
	cr_assert_leq(fake.nodes[0].counts[WIRE_EXTENT_CREATE], creates + 1);
	cr_assert_eq(fake_wait(fake_write(1, 1, 3)), 0);
	fake_expect(1, 3);
}

Test(write_path, one_full_node_is_stepped_around)
{
	fake_start_quiet();
	fake.nodes[0].is_full = true;
	fake_node_down(fake.shard.log->replicas[0].node_id - 1, 0);
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
}

Test(write_path, a_node_that_knows_a_newer_owner_stops_the_shard)
{
	static const int causes[] = { -ESTALE, -EACCES };

	for (uint32_t i = 0; i < 2; i++) {
		struct fake_msg *msg, *later;

		fake_fini();
		fake_init(i, false);
		fake_start_quiet();
		log_node(2)->fault = (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND,
			.countdown = 1,
			.rc = causes[i] };
		msg = fake_write(1, 1, 1);
		cr_assert_eq(fake_wait(msg), -EREMCHG);
		cr_assert_eq(fake.stop_rc, -ESTALE);
		later = fake_write(1, 1, 2);
		cr_assert_eq(fake_wait(later), -EREMCHG);
		cr_assert_eq(fake_wait(fake_read(1, 1)), -EREMCHG);
	}
}

Test(write_path, a_creation_that_finds_a_newer_owner_stops_the_shard)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_CREATE,
			.countdown = 1,
			.rc = -ESTALE };
	fake_start();
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), -EREMCHG);
	cr_assert_eq(fake.stop_rc, -ESTALE);
}

Test(write_path, a_manifest_of_another_owner_stops_the_shard)
{
	fake.commit_rc = -ESTALE;
	fake_start();
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), -EREMCHG);
	cr_assert_eq(fake.stop_rc, -ESTALE);
}

Test(write_path, a_manifest_that_fails_is_asked_again)
{
	struct fake_msg *msg;

	fake.commit_rc = -EIO;
	fake_start();
	msg = fake_write(1, 1, 1);
	fake_run_for(NUM_S(3));
	cr_assert_not(msg->is_answered);
	fake.commit_rc = 0;
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(fake.shard.extent_count, 1, "the same extent is offered again");
}

Test(write_path, stopping_answers_everything_once)
{
	for (uint32_t round = 0; round < 3; round++) {
		struct fake_msg *msgs[40];
		uint32_t acked = 0;

		fake_fini();
		fake_init(round, round == 2);
		fake_start_quiet();
		fake_stall_all(true);
		for (uint32_t i = 0; i < 40; i++) {
			msgs[i] = fake_write(16 * i, 16, 4);
			fake_run_for(NUM_US(10));
		}
		fake_stop(-ECANCELED);
		fake_stop(-EIO);
		if (round == 1)
			for (uint32_t i = 0; i < FAKE_NODES; i++)
				fake_node_down(i, 0);
		fake_stall_all(false);
		cr_assert(fake_run_quiet());
		for (uint32_t i = 0; i < 40; i++) {
			cr_assert(msgs[i]->is_answered);
			cr_assert(msgs[i]->reply.rc == 0 || msgs[i]->reply.rc == -ECANCELED);
			acked += msgs[i]->reply.rc == 0;
		}
		cr_assert_eq(fake.done_count, 40);
		cr_assert(round == 1 ? acked == 0 : acked > 0);
	}
}

/* At any moment: whatever is going on, everything is answered, and nothing is left over. */
Test(write_path, stopping_at_each_moment)
{
	for (uint32_t at = 0; at < 120; at++) {
		fake_fini();
		fake_init(at, at % 2 == 1);
		fake_start();
		for (uint32_t i = 0; i < 30; i++)
			(void)fake_write(16 * i, 16, 4);
		fake_run_for(NUM_US(13) * at);
		fake_stop(-ESTALE);
		cr_assert(fake_run_quiet());
		fake_run_for(NUM_MS(10));
		cr_assert_eq(list_is_empty(&fake.shard.write->ready), true);
	}
}

/* ---- from one extent to the next ---- */

Test(write_path, a_full_log_rolls_over)
{
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 1)
			with_threads();
		fake_start_quiet();
		for (uint32_t i = 0; i < 300; i++) {
			if (fake_msg_take_is_empty())
				cr_assert(fake_run_quiet());
			(void)fake_write(16 * (i % 50), 16, 4 * (1 + i / 50));
		}
		cr_assert(fake_run_quiet());
		cr_assert_gt(fake.shard.extent_count, 30);
		cr_assert_eq(metric(MT_METRIC_batches_resent), 0);
		fake_run_for(NUM_MS(10));
		check_replicas();
		for (uint32_t i = 0; i + 1 < fake.shard.extent_count; i++) {
			const struct mt_extent *extent = fake.shard.extents[i];

			cr_assert_eq(extent->sm.state, MT_EXTENT_SEALED);
			cr_assert(extent->replicas[0].is_truncated);
			cr_assert_gt(extent->sealed_bytes, 0);
		}
		for (uint32_t i = 0; i < 50; i++)
			fake_expect(16 * i + 3, 24);
	}
}

Test(write_path, a_spare_is_made_ahead)
{
	fake_start_quiet();
	while (fake.shard.log->end_bytes <= fake.shard.log->capacity_bytes / 4 * 3) {
		cr_assert_null(fake.shard.write->roll.spare);
		cr_assert_eq(fake_wait(fake_write(1, 8, 4)), 0);
	}
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(fake.shard.write->roll.spare);
	cr_assert_eq(fake.shard.write->roll.spare->sm.state, MT_EXTENT_OPEN);
	cr_assert_eq(fake.edit_count, 1, "in no manifest yet");
	/* A node of it fails: another extent is made. */
	fake_node_down(fake.shard.write->roll.spare->replicas[0].node_id - 1, 0);
	cr_assert_eq(fake_wait(fake_write(1, 8, 4)), 0);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(fake_wait(fake_write(1, 8, 4)), 0);
	fake_expect(3, 4);
}

Test(write_path, slots_smaller_than_a_batch_hold_smaller_batches)
{
	fake_set_slot_bytes(NUM_KIB(64) + 12288u);
	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(1, 16, 4)), -EMSGSIZE);
	for (uint32_t i = 0; i < 100; i++) {
		if (fake_msg_take_is_empty())
			cr_assert(fake_run_quiet());
		(void)fake_write(8 * (i % 10), 8, 4 * (1 + i / 10));
	}
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), 100);
	for (uint32_t i = 0; i < 10; i++)
		fake_expect(8 * i + 7, 40);
}

/* ---- memory ---- */

/* 0, or what a part of it that failed has left: nothing. */
static int
init_and_take(void)
{
	int rc = mt_write_path_init(&fake.shard);

	if (rc != 0)
		return rc;
	rc = mt_write_path_take(&fake.shard);
	if (rc != 0)
		mt_write_path_fini(&fake.shard);
	return rc;
}

/* Each allocation of a shard's start fails once; nothing is left over. */
Test(write_path, initialisation_survives_each_failure)
{
	uint32_t nth = 0;
	int rc;

	for (uint32_t is_threaded = 0; is_threaded < 2; is_threaded++) {
		fake_fini();
		fake_init(1, is_threaded == 1);
		do {
			mt_write_path_fini(&fake.shard);
			mt_ring_destroy(fake.shard.ring, &fake.port);
			fake.device_used -= FAKE_RING_BYTES;
			fake.shard.ring = mt_ring_create(&fake.port, FAKE_RING_BYTES);
			cr_assert_not_null(fake.shard.ring);
			fake.hosts_until_failure = 0;
			mt_alloc_fail_at(++nth);
			rc = init_and_take();
			cr_assert(rc == 0 || rc == -ENOMEM);
			cr_assert_eq(rc != 0, mt_alloc_has_failed());
		} while (rc != 0);
		cr_assert_geq(nth, 3);
		nth = 0;
		mt_alloc_fail_at(0);
		mt_write_path_give(&fake.shard);
		for (uint32_t i = 1; i <= WRITE_BATCHES_MAX * MT_REPLICAS_MAX; i++) {
			fake.hosts_until_failure = i;
			cr_assert_eq(mt_write_path_take(&fake.shard), -ENOMEM);
			cr_assert_null(fake.shard.write->writes);
		}
		fake.hosts_until_failure = 0;
		cr_assert_eq(mt_write_path_take(&fake.shard), 0);
		fake_fini();
		fake_init(1, is_threaded == 1);
	}
}

/*
 * Each allocation while an extent is made fails once: writes wait, and go on. Without memory for its
 * place in the index one is refused.
 */
Test(write_path, running_survives_each_failure)
{
	for (uint32_t nth = 1; nth < 12; nth++) {
		struct fake_msg *msg;
		int rc;

		fake_fini();
		fake_init(nth, false);
		fake_start();
		mt_alloc_fail_at(nth);
		msg = fake_write(1, 1, 4);
		fake_run_for(NUM_MS(100));
		fake_node_down(0, 0);
		rc = fake_wait(msg);
		cr_assert(rc == 0 || (rc == -ENOMEM && fake.shard.block_index->key_count == 0));
		cr_assert_eq(fake_wait(fake_write(1, 1, 5)), 0);
		mt_alloc_fail_at(0);
		fake_expect(1, 5);
	}
}

Test(write_path, an_index_that_cannot_grow_refuses_the_write)
{
	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(1, 1, 4)), 0);
	for (uint32_t nth = 1; nth < 4; nth++) {
		struct fake_msg *msg;

		mt_alloc_fail_at(nth);
		msg = fake_write(nth * CLEAVE_CHUNK_BLOCKS, 1, 8);
		cr_assert_eq(fake_wait(msg), -ENOMEM, "%u", nth);
	}
	mt_alloc_fail_at(0);
	fake_expect(1, 4);
}

Test(write_path, a_ring_that_is_held_makes_writes_wait)
{
	uint64_t position;

	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(0, 16, 4)), 0);
	position = index_look(fake.shard.block_index, FAKE_SEGMENT, 0)->ring_position;
	mt_ring_hold(fake.shard.ring, position);
	for (uint32_t i = 1; i < 60; i++)
		(void)fake_write(16 * i, 16, 4);
	fake_run_for(NUM_S(2));
	cr_assert_lt(fake.done_count, 60);
	mt_ring_release(fake.shard.ring, position);
	mt_write_path_kick(&fake.shard);
	cr_assert(fake_run_quiet());
	cr_assert_eq(metric(MT_METRIC_writes), 60);
}
