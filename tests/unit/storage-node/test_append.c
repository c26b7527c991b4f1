/* SPDX-License-Identifier: Apache-2.0 */
/* test_append.c -- appends: refused, merged, made durable, acknowledged in order, failed */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/disk.h"
#include "storage-node/append.h"
#include "storage-node/node_state.h"
#include "unit/extent_fixture.h"

TestSuite(append, .init = setup, .fini = teardown);

Test(append, is_acknowledged_and_read_back)
{
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 3), 0);
	cr_assert_eq(extent.acked_bytes, extent.end_bytes);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
	cr_assert_eq(node_counters(rig->node)->appends, 2);
	cr_assert_eq(node_counters(rig->node)->append_bytes, extent.end_bytes);
}

Test(append, survives_power_loss_once_acknowledged)
{
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

Test(append, of_every_kind)
{
	struct rig_extent run, manifest;

	rig_extent_init(&run, 3, 5, 2, EXTENT_RUN);
	rig_extent_init(&manifest, 3, 5, 3, EXTENT_MANIFEST);
	cr_assert_eq(rig_extent_create(rig, &run), 0);
	cr_assert_eq(rig_extent_create(rig, &manifest), 0);
	cr_assert_eq(rig_append(rig, &run, 2), 0);
	cr_assert_eq(rig_append(rig, &manifest, 2), 0);
	cr_assert(rig_extent_matches(rig, &run, run.end_bytes));
	cr_assert(rig_extent_matches(rig, &manifest, manifest.end_bytes));
	rig_extent_fini(&run);
	rig_extent_fini(&manifest);
}

#define TURN_APPENDS 3 /* two turns fit into the slot */

/* Posts TURN_APPENDS appends at once, and waits until all are acknowledged, each after those before. */
static void
append_a_turn(void)
{
	struct rig_call *calls[TURN_APPENDS];
	uint64_t acked = 0;

	for (int i = 0; i < TURN_APPENDS; i++)
		calls[i] = rig_append_post(rig, &extent, 1);
	for (int i = 0; i < TURN_APPENDS; i++) {
		cr_assert_eq(rig_wait(calls[i]), 0);
		cr_assert_geq(calls[i]->reply.offset_bytes, acked, "cumulative");
		acked = calls[i]->reply.offset_bytes;
		rig_done(calls[i]);
	}
	cr_assert_eq(acked, extent.end_bytes);
	extent.acked_bytes = acked;
}

Test(append, of_one_turn_share_a_write_and_a_flush)
{
	static const struct sim_link_options even = { .latency_min_ns = 1000,
		.latency_max_ns = 1000 };
	uint64_t writes, flushes;

	sim_net_set_links(rig->net, &even); /* all of a turn arrive at one time */
	append_a_turn();                    /* a connection has few receives before it wants more */
	writes = node_counters(rig->node)->writes;
	flushes = node_counters(rig->node)->flushes;
	append_a_turn();
	cr_assert_eq(node_counters(rig->node)->writes - writes, 1, "merged");
	cr_assert_eq(node_counters(rig->node)->flushes - flushes, 1);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
}

static int
append_raw(uint64_t offset, uint32_t epoch, enum extent_kind kind, uint16_t flags,
    const uint8_t *batch, uint32_t bytes)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent.id,
		.kind = kind,
		.offset_bytes = offset,
		.length_bytes = bytes,
		.epoch = epoch,
		.flags = flags },
	    batch, bytes, NULL);
}

Test(append, refuses_what_the_table_says)
{
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, &extent, 1, 0, &bytes);
	struct rig_extent other;

	cr_assert_eq(append_raw(4096, 5, EXTENT_LOG, 0, batch, bytes), -ESPIPE);
	cr_assert_eq(append_raw(0, 4, EXTENT_LOG, 0, batch, bytes), -ESTALE);
	cr_assert_eq(append_raw(0, 6, EXTENT_LOG, 0, batch, bytes), -ESTALE);
	cr_assert_eq(append_raw(0, 5, EXTENT_RUN, 0, batch, bytes), -EINVAL);
	cr_assert_eq(append_raw(0, 5, EXTENT_LOG, WIRE_FLAG_RECOVERY, batch, bytes), -EINVAL);
	rig_extent_init(&other, 3, 5, 99, EXTENT_LOG);
	cr_assert_eq(rig_append(rig, &other, 1), -ENOENT);
	rig_extent_fini(&other);
	/* None of it left a trace. */
	cr_assert_eq(append_raw(0, 5, EXTENT_LOG, 0, batch, bytes), 0);
	cr_assert_eq(append_raw(0, 5, EXTENT_LOG, 0, batch, bytes), -ESPIPE, "sent twice");
}

Test(append, refuses_states_that_take_none)
{
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	extent.epoch = 6;
	cr_assert_eq(rig_append(rig, &extent, 1), -EACCES);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 7), -ESTALE);
	cr_assert_eq(rig_append_again(rig, &extent, 1, 6), 0, "recovery");
	cr_assert_eq(rig_cut(rig, &extent, 6, extent.end_bytes), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), -EPERM);
	cr_assert_eq(rig_append_again(rig, &extent, 2, 6), -EPERM);
}

Test(append, refuses_what_does_not_fit)
{
	while (extent.end_bytes + 8192 <= rig_capacity(rig))
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), -ERANGE);
}

Test(append, bad_batch_changes_nothing)
{
	uint32_t bytes;
	const uint8_t *good = rig_batch(rig, &extent, 2, 0, &bytes);
	uint8_t *bad = malloc(bytes);

	/* A flip in header, descriptors, payload and padding. */
	static const uint32_t at[] = { 0, 8, 24, 32, 60, 90, 124, 140, 200, 5000, 12287 };
	for (size_t i = 0; i < NUM_COUNT(at); i++) {
		memcpy(bad, good, bytes);
		bad[at[i]] ^= 0x10;
		cr_assert_eq(append_raw(0, 5, EXTENT_LOG, 0, bad, bytes), -EBADMSG, "byte %u",
		    at[i]);
	}
	cr_assert_eq(node_counters(rig->node)->batches_bad, NUM_COUNT(at));
	cr_assert_eq(append_raw(0, 5, EXTENT_LOG, 0, good, bytes), 0);
	free(bad);
}

Test(append, bad_batch_takes_those_behind_it_along)
{
	struct rig_call *calls[3];
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, &extent, 1, 0, &bytes);

	((uint8_t *)(uintptr_t)batch)[5000] ^= 1;
	calls[0] = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent.id,
		.kind = EXTENT_LOG,
		.length_bytes = bytes,
		.epoch = 5 },
	    batch, bytes);
	calls[1] = rig_append_post(rig, &extent, 1);
	calls[2] = rig_append_post(rig, &extent, 1);
	cr_assert_eq(rig_wait(calls[0]), -EBADMSG);
	cr_assert_eq(rig_wait(calls[1]), -ESPIPE);
	cr_assert_eq(rig_wait(calls[2]), -ESPIPE);
	for (int i = 0; i < 3; i++)
		rig_done(calls[i]);
}

Test(append, two_batches_in_one_message_are_refused)
{
	uint32_t first, second;
	const uint8_t *batch = rig_batch(rig, &extent, 1, 0, &first);

	(void)rig_batch(rig, &extent, 1, 0, &second);
	cr_assert_eq(append_raw(0, 5, EXTENT_LOG, 0, batch, first + second), -EBADMSG);
}

Test(append, failed_write_fails_it_and_those_behind_it)
{
	struct disk_fault *fault = disk_sim_fault(rig->disk);
	struct wire_node_reply reply;
	struct rig_call *first, *second;
	struct rig_extent other;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	first = rig_append_post(rig, &extent, 1);
	rig_run(rig, NUM_US(60)); /* another turn, another write */
	second = rig_append_post(rig, &extent, 1);
	cr_assert_eq(rig_wait(first), -EIO);
	cr_assert_neq(rig_wait(second), 0);
	rig_done(first);
	rig_done(second);
	/* No plain append ever again; its length is what was acknowledged. */
	cr_assert_eq(rig_append(rig, &extent, 1), -EIO);
	cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
	cr_assert_eq(reply.offset_bytes, extent.acked_bytes);
	/* The others go on. */
	rig_extent_init(&other, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &other), 0);
	cr_assert_eq(rig_append(rig, &other, 1), 0);
	rig_extent_fini(&other);
}

Test(append, failed_flush_makes_the_disk_read_only_for_ever)
{
	struct disk_fault *fault = disk_sim_fault(rig->disk);
	struct rig_extent other;
	char *text;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	rig_extent_init(&other, 4, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &other), 0);
	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_append(rig, &extent, 1), -EIO);
	/* Every extent, every change; reads go on. */
	for (int life = 0; life < 2; life++) {
		cr_assert(node_is_read_only(rig->node));
		cr_assert_eq(rig_append(rig, &other, 1), -EROFS);
		cr_assert_eq(rig_append(rig, &extent, 1), -EROFS);
		cr_assert_eq(rig_freeze(rig, &extent, 9, NULL), -EROFS);
		cr_assert_eq(rig_fence(rig, 3, 9), -EROFS);
		cr_assert_eq(rig_delete(rig, &other, 9), -EROFS);
		cr_assert_eq(rig_cut(rig, &other, 9, 0), -EROFS);
		cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
		cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
		cr_assert_not_null(strstr(text, "\"read_only\":true"));
		free(text);
		if (life == 0) {
			rig_kill(rig, false);
			rig_up(rig);
		}
	}
	rig_extent_fini(&other);
}

/* A start that cannot read @copy of the superblock sees the mark in the other one. */
static void
mark_is_seen_without(uint32_t copy)
{
	struct disk_fault *fault = disk_sim_fault(rig->disk);

	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_append(rig, &extent, 1), -EIO);
	rig_run(rig, NUM_MS(50));
	rig_kill(rig, false);
	cr_assert_eq(disk_sim_set_bad(rig->disk, ondisk_super_offset(copy), ONDISK_PAGE_BYTES), 0);
	rig_up(rig);
	cr_assert(node_is_read_only(rig->node));
	cr_assert_eq(rig_append(rig, &extent, 1), -EROFS);
}

Test(append, failed_flush_is_remembered_without_copy_0_of_the_superblock)
{
	mark_is_seen_without(0);
}

Test(append, failed_flush_is_remembered_without_copy_1_of_the_superblock)
{
	mark_is_seen_without(1);
}

static bool
a_write_was_durable(void)
{
	for (uint32_t i = 0; i < rig->node->request_count; i++)
		if (rig->node->appender->writes[i].io.is_durable)
			return true;
	return false;
}

Test(append, that_is_alone_takes_its_flush_along)
{
	uint64_t flushes = node_counters(rig->node)->flushes;

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert(a_write_was_durable());
	cr_assert_eq(node_counters(rig->node)->flushes - flushes, 1);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

/* While others write, wait, come: what is answered afterwards is no success (I3). */
Test(append, failed_flush_of_one_alone_breaks_the_disk)
{
	struct disk_sim_rule rule = { .ops = DISK_FAULT_OP(DISK_FLUSH), .rc = -EIO, .count = 1 };
	struct rig_extent other;

	rig_extent_init(&other, 4, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &other), 0);
	for (uint64_t delay_ns = NUM_US(20); delay_ns < NUM_US(600); delay_ns += NUM_US(20)) {
		struct rig_call *first, *second;
		bool was_answered;
		int rc;

		cr_assert_eq(disk_sim_add_rule(rig->disk, &rule), 0);
		first = rig_append_post(rig, &extent, 1);
		rig_run(rig, delay_ns);
		second = rig_append_post(rig, &other, 1);
		rc = rig_wait(first);
		cr_assert_eq(rc, -EIO);
		was_answered = second->is_answered;
		rc = rig_wait(second);
		cr_assert(was_answered || rc == -EIO || rc == -EROFS, "%d after %llu ns", rc,
		    (unsigned long long)delay_ns);
		rig_done(first);
		rig_done(second);
		cr_assert(node_is_read_only(rig->node));
		teardown();
		rig_extent_fini(&other);
		setup();
		rig_extent_init(&other, 4, 5, 2, EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &other), 0);
	}
	rig_extent_fini(&other);
}

Test(append, in_flight_when_the_peer_goes_is_finished)
{
	struct wire_node_reply reply;
	struct rig_call *call = rig_append_post(rig, &extent, 1);

	rig_run(rig, NUM_US(100));
	rig_disconnect(rig);
	rig_done(call);
	rig_run(rig, NUM_MS(50));
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 5, &reply), 0);
	cr_assert(reply.offset_bytes == 0 || reply.offset_bytes == extent.end_bytes);
}

Test(append, protected_cache_needs_no_flush)
{
	uint64_t flushes;

	rig_kill(rig, false);
	rig->options.write_cache = NODE_CACHE_PROTECTED;
	rig_up(rig);
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 6, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	flushes = node_counters(rig->node)->flushes;
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(node_counters(rig->node)->flushes, flushes);
}

/* Each n-th request fails once, or all from there on: the answers are honest in every case. */
static void
fail_loop(enum disk_op op, bool is_sticky)
{
	for (uint64_t n = 1;; n++) {
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		struct wire_node_reply reply;
		struct rig_extent e;
		uint64_t seen;
		int rc;

		*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
			.at_count = n,
			.is_sticky = is_sticky,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		rig_extent_init(&e, 8, 5, 1, EXTENT_LOG);
		if (rig_extent_create(rig, &e) == 0)
			for (int i = 0; i < 3 && rig_append(rig, &e, 1) == 0; i++)
				;
		rc = rig_freeze(rig, &e, 6, &reply);
		if (rc == 0 && e.incarnation != 0)
			cr_assert_geq(reply.offset_bytes, e.acked_bytes);
		if (rc == 0)
			(void)rig_cut(rig, &e, 6, e.acked_bytes);
		seen = fault->seen_count;
		*fault = (struct disk_fault){ 0 };
		rig_kill(rig, true);
		rig_up(rig);
		if (e.acked_bytes > 0)
			cr_assert(rig_extent_matches(rig, &e, e.acked_bytes), "n=%lu",
			    (unsigned long)n);
		rig_extent_fini(&e);
		/* A fresh disk for the next round. */
		teardown();
		setup();
		if (seen < n)
			return;
	}
}

Test(append, every_write_fails_once)
{
	fail_loop(DISK_WRITE, false);
}

Test(append, every_write_fails_from_some_on)
{
	fail_loop(DISK_WRITE, true);
}

Test(append, every_flush_fails_once)
{
	fail_loop(DISK_FLUSH, false);
}

Test(append, every_flush_fails_from_some_on)
{
	fail_loop(DISK_FLUSH, true);
}

/* Every edge of the table that can be taken was, and no other exists. */
static uint32_t edges[APPEND_STATE_NR];

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	if (sm->table == append_table)
		edges[from] |= SM_TO(to);
}

Test(append, takes_every_edge)
{
	struct disk_fault *fault;
	struct rig_call *calls[2];

	sm_set_tracer(on_move);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	/* A check that fails. */
	{
		uint8_t zeros[4096] = { 0 };

		cr_assert_eq(append_raw(extent.end_bytes, 5, EXTENT_LOG, 0, zeros, 4096), -EBADMSG);
	}
	/* A write that fails while a later one of the extent is through. */
	fault = disk_sim_fault(rig->disk);
	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	calls[0] = rig_append_post(rig, &extent, 1);
	rig_run(rig, NUM_US(60));
	calls[1] = rig_append_post(rig, &extent, 1);
	(void)rig_wait(calls[0]);
	(void)rig_wait(calls[1]);
	rig_done(calls[0]);
	rig_done(calls[1]);
	/* A flush that fails. */
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_append(rig, &extent, 1), -EIO);
	sm_set_tracer(NULL);
	cr_assert_eq(edges[APPEND_CHECKING], SM_TO(APPEND_QUEUED) | SM_TO(APPEND_FAILED));
	cr_assert_neq(edges[APPEND_QUEUED] & SM_TO(APPEND_WRITING), 0);
	cr_assert_eq(edges[APPEND_WRITING], SM_TO(APPEND_SYNCING) | SM_TO(APPEND_FAILED));
	cr_assert_eq(edges[APPEND_SYNCING], SM_TO(APPEND_DURABLE) | SM_TO(APPEND_FAILED));
	cr_assert_neq(edges[APPEND_DURABLE] & SM_TO(APPEND_ACKED), 0);
}
