/* SPDX-License-Identifier: Apache-2.0 */
/* test_verify.c -- a whole copy is read and checked, behind everybody else's back */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "storage-node/verify.h"
#include "support/node_rig.h"

#define SLOT_BYTES NUM_MIB(4)

static struct node_rig *rig;
static struct rig_extent extent;

static void
make(const struct rig_options *options)
{
	rig = rig_create(options);
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
}

static void
setup(void)
{
	make(&(struct rig_options){ .slot_bytes = SLOT_BYTES, .slot_count = 8 });
}

static void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

TestSuite(verify, .init = setup, .fini = teardown);

static void
append_many(uint32_t count, uint32_t blocks)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(rig_append(rig, &extent, blocks), 0);
}

static void
rot(uint64_t offset_bytes)
{
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, offset_bytes), 3);
}

static uint16_t
listed_flags(void)
{
	struct wire_extent_entry entries[8];
	int count = rig_list(rig, 3, entries, 8);

	for (int i = 0; i < count; i++)
		if (entries[i].extent == extent_id_pack(&extent.id))
			return entries[i].flags;
	cr_assert(false, "not listed");
	return 0;
}

Test(verify, good_copies_pass_in_every_state)
{
	struct wire_node_reply reply;

	cr_assert_eq(rig_verify(rig, &extent, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 0);
	append_many(20, 30);
	for (int i = 0; i < 4; i++) {
		if (i == 1)
			cr_assert_eq(rig_freeze(rig, &extent, 5, NULL), 0);
		else if (i == 2)
			cr_assert_eq(rig_cut(rig, &extent, 5, extent.end_bytes), 0);
		else if (i == 3)
			rig_kill(rig, true), rig_up(rig);
		cr_assert_eq(rig_verify(rig, &extent, &reply), 0, "%d", i);
		cr_assert_eq(reply.offset_bytes, extent.end_bytes, "%d", i);
		cr_assert_eq(reply.flags, 0);
	}
	cr_assert_eq(node_counters(rig->node)->verifies, 1); /* since the restart */
	cr_assert_geq(node_counters(rig->node)->verified_bytes, extent.end_bytes);
}

Test(verify, finds_every_planted_flip)
{
	struct wire_node_reply reply;

	append_many(12, 7);
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.end_bytes), 0);
	for (uint32_t i = 0; i < extent.batch_count; i++) {
		/* A header's, a descriptor's, a payload's byte. */
		static const uint32_t places[] = { 30, 150, 5000 };
		uint64_t at = extent.batches[i].offset_bytes;

		for (size_t j = 0; j < NUM_COUNT(places); j++) {
			rot(at + places[j]);
			cr_assert_eq(rig_verify(rig, &extent, &reply), -EBADMSG, "%u %zu", i, j);
			cr_assert_eq(reply.offset_bytes, at, "%u %zu", i, j);
			cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
			cr_assert_eq(listed_flags(), WIRE_FLAG_DAMAGED);
			rot(at + places[j]); /* and back */
		}
	}
	cr_assert_eq(rig_verify(rig, &extent, &reply), 0);
	cr_assert_eq(listed_flags(), 0); /* it was the reading */
	cr_assert_eq(node_counters(rig->node)->verifies_bad, 36);
}

Test(verify, mark_of_damage_is_in_memory_and_goes_with_the_copy)
{
	struct wire_node_reply reply;

	append_many(3, 3);
	rot(5000);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EBADMSG);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	cr_assert_eq(rig_cut(rig, &extent, 6, extent.end_bytes), 0);
	rig_kill(rig, true);
	rig_up(rig);
	/* A sealed extent is trusted at a start. */
	cr_assert_eq(listed_flags(), 0);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EBADMSG);
	cr_assert_eq(rig_delete(rig, &extent, 6), 0);
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 6, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(listed_flags(), 0);
}

Test(verify, lost_and_misdirected_writes_are_found)
{
	struct wire_node_reply reply;

	append_many(4, 3);
	disk_sim_lose_next_write(rig->disk);
	append_many(1, 3);
	append_many(1, 3);
	cr_assert_eq(rig_verify(rig, &extent, &reply), -EBADMSG);
	cr_assert_eq(reply.offset_bytes, extent.batches[4].offset_bytes);
	/* A batch of another extent lands here. */
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	append_many(4, 3);
	disk_sim_misdirect_next_write(rig->disk, rig_data_offset(rig, 1, 16384));
	append_many(1, 3);
	cr_assert_eq(rig_verify(rig, &extent, &reply), -EBADMSG);
	cr_assert_eq(reply.offset_bytes, 16384);
}

Test(verify, sealed_length_that_the_chain_does_not_have)
{
	/* The last batch is another good one at the same place: only the state page can tell. */
	uint8_t page[2 * 4096];
	struct batch_info info = { .kind = EXTENT_LOG, .used_bytes = 128, .batch_bytes = 4096 };

	append_many(1, 1);
	cr_assert_eq(rig_cut(rig, &extent, 5, 8192), 0);
	memset(page, 0, sizeof(page));
	info.id = extent.id;
	info.prev_crc = batch_chain_seed(&extent.id, EXTENT_LOG);
	batch_head_encode(page, &info);
	info.prev_crc = info.batch_crc;
	info.offset_bytes = 4096;
	batch_head_encode(page + 4096, &info);
	disk_sim_poke(rig->disk, rig_data_offset(rig, 0, 0), page, sizeof(page));
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EBADMSG);
}

Test(verify, unreadable_bytes_are_told)
{
	struct wire_node_reply reply;

	append_many(10, 63); /* 256 KiB each: no read may be longer than what is asked again */
	cr_assert_eq(disk_sim_set_bad(rig->disk,
			 rig_data_offset(rig, 0, extent.batches[6].offset_bytes + 200 * 1024),
			 4096),
	    0);
	cr_assert_eq(rig_verify(rig, &extent, &reply), -EIO);
	cr_assert_eq(reply.offset_bytes, extent.batches[6].offset_bytes);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
}

static void
reads_fail(bool do_fail)
{
	disk_sim_set_faults(rig->disk,
	    &(struct disk_sim_faults){ .read_fails = do_fail ? 1000 : 0 });
}

/* A take-over asks for nothing else: a moment of the disk must not be told for ever. */
Test(verify, a_freeze_looks_again_at_what_could_not_be_read)
{
	struct wire_node_reply reply;

	append_many(20, 30);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	reads_fail(false);
	cr_assert_eq(listed_flags(), WIRE_FLAG_DAMAGED);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0); /* the same again */
	cr_assert_eq(reply.flags, 0);
	cr_assert_eq(reply.offset_bytes, extent.end_bytes);
	cr_assert_eq(listed_flags(), 0);
	cr_assert_eq(rig_cut(rig, &extent, 6, extent.end_bytes), 0);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	reads_fail(false);
	cr_assert_eq(rig_freeze(rig, &extent, 7, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_SEALED);
}

Test(verify, a_freeze_does_not_believe_what_is_rotten)
{
	struct wire_node_reply reply;

	append_many(20, 30);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	reads_fail(false);
	rot(extent.batches[19].offset_bytes + 5000);
	for (uint32_t epoch = 6; epoch < 8; epoch++) {
		cr_assert_eq(rig_freeze(rig, &extent, epoch, &reply), 0);
		cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
		cr_assert_eq(reply.offset_bytes, extent.end_bytes);
		cr_assert_eq(rig_freeze(rig, &extent, epoch, &reply), 0);
		cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	}
}

/* A gateway gives up a node that does not answer. */
Test(verify, a_freeze_does_not_look_for_long)
{
	struct wire_node_reply reply;

	append_many(15, 63);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	reads_fail(false);
	disk_sim_set_slowness(rig->disk, 6000);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_DAMAGED);
	cr_assert_eq(node_counters(rig->node)->verifies_bad, 1, "it was not read to its end");
	disk_sim_set_slowness(rig->disk, 1);
	cr_assert_eq(rig_freeze(rig, &extent, 6, &reply), 0);
	cr_assert_eq(reply.flags, 0);
}

Test(verify, a_delete_waits_for_a_freeze_that_looks_again)
{
	struct rig_call *freeze, *remove;

	append_many(10, 63);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	reads_fail(false);
	freeze = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = extent.id, .epoch = 6 }, NULL,
	    0);
	remove = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = extent.id,
		.offset_bytes = extent.incarnation,
		.epoch = 6 },
	    NULL, 0);
	cr_assert_eq(rig_wait(remove), 0);
	cr_assert(freeze->is_answered);
	cr_assert_eq(freeze->rc, 0);
	cr_assert_eq(freeze->reply.flags, 0);
	rig_done(freeze);
	rig_done(remove);
}

Test(verify, a_freeze_that_looks_again_fails_with_its_fence)
{
	append_many(10, 63);
	reads_fail(true);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EIO);
	disk_sim_set_faults(rig->disk, &(struct disk_sim_faults){ .flush_fails = 1000 });
	cr_assert_lt(rig_freeze(rig, &extent, 6, NULL), 0);
}

Test(verify, what_is_not_there)
{
	struct rig_extent none;

	rig_extent_init(&none, 3, 5, 99, EXTENT_LOG);
	cr_assert_eq(rig_verify(rig, &none, NULL), -ENOENT);
	rig_extent_fini(&none);
}

Test(verify, a_few_at_a_time_others_try_again)
{
	struct rig_call *calls[SN_VERIFIES_MAX + 2];

	append_many(10, 60);
	for (uint32_t i = 0; i < NUM_COUNT(calls); i++)
		calls[i] = rig_verify_post(rig, &extent);
	for (uint32_t i = 0; i < NUM_COUNT(calls); i++) {
		cr_assert_eq(rig_wait(calls[i]), i < SN_VERIFIES_MAX ? 0 : -EBUSY, "%u", i);
		rig_done(calls[i]);
	}
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
}

Test(verify, keeps_to_its_budget)
{
	uint64_t began_ns, took_ns;

	teardown();
	make(&(struct rig_options){ .slot_bytes = SLOT_BYTES,
	    .slot_count = 8,
	    .verify_bytes_s = NUM_MIB(1) });
	append_many(12, 63);
	began_ns = sim_world_now_ns(rig->world);
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
	took_ns = sim_world_now_ns(rig->world) - began_ns;
	/* 3 MiB; the last piece is not waited for. */
	cr_assert_geq(took_ns, NUM_MS(2400));
	cr_assert_leq(took_ns, NUM_MS(3500));
}

Test(verify, appends_and_reads_go_on_meanwhile)
{
	struct rig_call *call;
	uint64_t length = 0;
	uint8_t out[4096];

	teardown();
	make(&(struct rig_options){ .slot_bytes = SLOT_BYTES,
	    .slot_count = 8,
	    .verify_bytes_s = NUM_MIB(4) });
	append_many(8, 60);
	length = extent.end_bytes;
	call = rig_verify_post(rig, &extent);
	for (uint32_t i = 0; i < 30; i++) {
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
		cr_assert_eq(rig_read(rig, &extent, 4096, 4096, out), 0);
	}
	cr_assert_not(call->is_answered);
	cr_assert_eq(rig_wait(call), 0);
	/* The length that was durable when it came. */
	cr_assert_eq(call->reply.offset_bytes, length);
	rig_done(call);
}

Test(verify, gives_way_but_not_for_ever)
{
	struct rig_call *call;

	append_many(8, 60);
	/* A read that the disk holds on to. */
	disk_sim_set_slowness(rig->disk, 10000);
	call = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent.id,
		.length_bytes = 4096 },
	    NULL, 0);
	rig_run(rig, NUM_MS(1));
	disk_sim_set_slowness(rig->disk, 1);
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
	cr_assert_not(call->is_answered);
	cr_assert_eq(rig_wait(call), 0);
	rig_done(call);
}

static void
ends_at_every_moment(void (*meanwhile)(void), int rc)
{
	/* In line, waiting for its budget, while a piece is being read. */
	static const uint64_t moments_us[] = { 0, 50, 200, 600, 5000, 130000, 300000 };

	for (size_t i = 0; i < NUM_COUNT(moments_us); i++) {
		struct rig_call *call;

		teardown();
		make(&(struct rig_options){ .slot_bytes = SLOT_BYTES,
		    .slot_count = 8,
		    .verify_bytes_s = NUM_MIB(4) });
		append_many(12, 60);
		call = rig_verify_post(rig, &extent);
		rig_run(rig, NUM_US(moments_us[i]));
		meanwhile();
		cr_assert_eq(rig_wait(call), rc, "%zu: %d", i, call->rc);
		rig_done(call);
	}
}

static void
do_delete(void)
{
	cr_assert_eq(rig_delete(rig, &extent, 5), 0);
	/* The extent's slot, and its name, are used again at once. */
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
}

/* Below where the verification is, perhaps. */
static void
do_cut_deep(void)
{
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.batches[1].offset_bytes), 0);
}

static void
do_cut(void)
{
	cr_assert_eq(rig_cut(rig, &extent, 5, extent.batches[6].offset_bytes), 0);
}

static void
do_stop(void)
{
	cr_assert_eq(rig_stop(rig), 0);
}

Test(verify, deleted_meanwhile)
{
	ends_at_every_moment(do_delete, -ENOENT);
}

Test(verify, cut_meanwhile)
{
	ends_at_every_moment(do_cut, 0);
}

Test(verify, truncated_below_where_it_is)
{
	ends_at_every_moment(do_cut_deep, 0);
}

Test(verify, node_stops_meanwhile)
{
	struct rig_call *calls[3];

	teardown();
	make(&(struct rig_options){ .slot_bytes = SLOT_BYTES,
	    .slot_count = 8,
	    .verify_bytes_s = NUM_KIB(64) });
	append_many(12, 60);
	for (int i = 0; i < 3; i++)
		calls[i] = rig_verify_post(rig, &extent);
	rig_run(rig, NUM_MS(20));
	do_stop();
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rig_wait(calls[i]), -EHOSTDOWN, "%d", calls[i]->rc);
		rig_done(calls[i]);
	}
}

Test(verify, peer_gone_meanwhile)
{
	struct rig_call *call;
	uint64_t bytes;

	teardown();
	make(&(struct rig_options){ .slot_bytes = SLOT_BYTES,
	    .slot_count = 8,
	    .verify_bytes_s = NUM_MIB(1) });
	append_many(12, 60);
	call = rig_verify_post(rig, &extent);
	rig_run(rig, NUM_MS(20));
	rig_disconnect(rig);
	rig_done(call);
	rig_run(rig, NUM_S(1));
	bytes = node_counters(rig->node)->verified_bytes;
	cr_assert_leq(bytes, 2 * SN_VERIFY_BUFFER_BYTES);
	rig_run(rig, NUM_S(5));
	cr_assert_eq(node_counters(rig->node)->verified_bytes, bytes);
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
}

Test(verify, killed_meanwhile)
{
	struct rig_call *call;

	append_many(12, 60);
	for (uint64_t us = 0; us < 40000; us += 1700) {
		call = rig_verify_post(rig, &extent);
		rig_run(rig, NUM_US(us));
		rig_kill(rig, us % 2 == 0);
		rig_done(call);
		rig_up(rig);
	}
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
}

Test(verify, read_only_disk_can_be_verified)
{
	append_many(3, 3);
	*disk_sim_fault(rig->disk) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_append(rig, &extent, 1), -EIO);
	cr_assert(node_is_read_only(rig->node));
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
}

Test(verify, every_read_fails)
{
	append_many(9, 60);
	for (uint64_t nth = 1;; nth++) {
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		int rc;

		*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_READ),
			.at_count = nth,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		rc = rig_verify(rig, &extent, NULL);
		cr_assert(rc == 0 || rc == -EIO, "%d", rc);
		if (!fault->is_hit) {
			cr_assert_eq(rc, 0);
			cr_assert_gt(nth, 4);
			break;
		}
	}
}
