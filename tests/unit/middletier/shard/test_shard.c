/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shard.c -- a shard is taken, lost and taken again, in one process, at the worst moments
 *
 * A real gateway and real nodes in virtual time (mt_rig.h), a client of the real wire (sim_gateway.h),
 * and main's word to the port given by the test. What was acknowledged must be read in every life.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/catalog/root.h"
#include "middletier/common/alloc.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/common/root.h"
#include "middletier/common/root_ops.h"
#include "middletier/common/shard.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_store.h"
#include "middletier/port/port.h"
#include "middletier/port/port_shards.h"
#include "middletier/shard/shard.h"
#include "splitlib/core/alloc.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"
#include "support/sim_gateway.h"

#define BLOCK CLEAVE_BLOCK_BYTES

static struct mt_rig *rig;
static struct sg sg; /* the client's half of it */
static struct sg_qp control, io;
static uint64_t incarnation;
static uint64_t wanted_none[MT_SHARD_SET_WORDS], wanted_all[MT_SHARD_SET_WORDS];

static void
command(const char *text)
{
	int rc = 0;
	json_t *answer = sg_control(&control, text, &rc);

	cr_assert_eq(rc, 0, "%s: %d", text, rc);
	json_decref(answer);
}

/* A session's queue pair; the volume is attached once. */
static void
open_io(void)
{
	struct wire_hello hello = sg_hello(1, 0xa, 1, ++incarnation);

	hello.cluster_id = 0;
	sg_connect(&sg, &io, &hello);
	cr_assert_eq(sg_wait_open(&io), 0);
}

static void
open_client(void)
{
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	command("{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":16777216}");
	command("{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}");
	open_io();
}

static void
setup(void)
{
	memset(wanted_all, 0xff, sizeof(wanted_all));
	rig = mt_rig_create(&(struct mt_rig_options){ .slot_bytes = NUM_KIB(128),
	    .slot_count = 1024,
	    .lease_ns = NUM_S(3600) }); /* the words to the port are the test's alone */
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	open_client();
}

static void
teardown(void)
{
	sg_close(&io);
	sg_close(&control);
	sg_client_close(&sg);
	mt_rig_destroy(rig);
}

TestSuite(shard, .init = setup, .fini = teardown);

static struct mt_shard *
shard(void)
{
	return mt_rig_shard(rig, 0);
}

static void
want(bool is_wanted, int rc)
{
	mt_port_shards(mt_rig_port(rig), is_wanted ? wanted_all : wanted_none, rc);
}

static void
expect_state(enum mt_shard_state state)
{
	cr_assert(mt_rig_wait_state(rig, state), "%d, not %d", (int)shard()->sm.state, (int)state);
}

/* A request; -ECONNRESET, -ETIME: no answer. */
static int
ask(enum wire_opcode opcode, uint32_t block, const uint8_t *data)
{
	struct wire_header header =
	    sg_io(opcode, 1, (uint64_t)block * BLOCK, BLOCK, shard()->epoch);
	uint32_t count = io.reply_count + 1;

	cr_assert_lt(count, SG_REPLIES_MAX);
	if (data != NULL)
		header.payload_crc = crc32c(0, data, BLOCK);
	sg_send(&io, &header, data, data != NULL ? BLOCK : 0);
	if (!sg_wait_replies(&io, count))
		return io.is_closed ? -ECONNRESET : -ETIME;
	return status_to_errno(io.replies[count - 1].header.status);
}

/* Answers gather up to a number: a new queue pair begins anew. */
static void
fresh_io(void)
{
	sg_close(&io);
	open_io();
}

static int
write_block(uint32_t block, uint8_t value)
{
	uint8_t data[BLOCK];

	memset(data, value, sizeof(data));
	return ask(WIRE_WRITE, block, data);
}

static void
expect_value(uint32_t block, uint8_t value)
{
	const char *bytes;

	cr_assert_eq(ask(WIRE_READ, block, NULL), 0);
	bytes = io.replies[io.reply_count - 1].text;
	for (uint32_t i = 0; i < BLOCK; i++)
		cr_assert_eq((uint8_t)bytes[i], value, "block %u is %u, not %u", block,
		    (uint8_t)bytes[i], value);
}

static bool
root_is_released(void)
{
	return shard()->root->is_released;
}

static void
root_on_loaded(int rc, const struct mt_root *root, void *arg)
{
	cr_assert_eq(rc, 0);
	*shard()->root = *root;
	*(bool *)arg = true;
}

static bool
is_true(void *arg)
{
	return *(const bool *)arg;
}

/* shard()->root becomes what the store has. */
static void
load_root(void)
{
	bool is_loaded = false;

	cr_assert_eq(mt_root_load(shard(), root_on_loaded, &is_loaded), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_loaded));
}

static bool
is_idle(void *arg)
{
	(void)arg;
	return shard()->sm.state == MT_SHARD_IDLE;
}

static bool
is_serving(void *arg)
{
	(void)arg;
	return shard()->sm.state == MT_SHARD_SERVING;
}

static void
take(void)
{
	want(true, 0);
	cr_assert(mt_rig_run_until(rig, is_serving, NULL), "%s", sm_state_name(&shard()->sm));
}

static void
lose(int rc)
{
	want(false, rc);
	cr_assert(mt_rig_run_until(rig, is_idle, NULL), "%s", sm_state_name(&shard()->sm));
}

Test(shard, released_and_taken_again_it_knows_all)
{
	uint32_t epoch = shard()->epoch;

	for (uint32_t life = 0; life < 20; life++) {
		cr_assert_eq(write_block(life, (uint8_t)(life + 1)), 0);
		lose(0);
		load_root();
		cr_assert(root_is_released());
		cr_assert_null(shard()->manifest);
		cr_assert_null(shard()->block_index);
		cr_assert_null(shard()->extents);
		cr_assert_eq(ask(WIRE_READ, life, NULL), -EREMCHG);
		cr_assert_eq(io.replies[io.reply_count - 1].header.epoch, epoch + life,
		    "the epoch that it had");
		take();
		cr_assert_eq(shard()->epoch, epoch + life + 1);
		cr_assert_not(root_is_released());
		fresh_io();
		for (uint32_t i = 0; i <= life; i++)
			expect_value(i, (uint8_t)(i + 1));
	}
}

Test(shard, a_lost_lease_stops_it_and_releases_nothing)
{
	cr_assert_eq(write_block(1, 7), 0);
	lose(-ESTALE);
	load_root();
	cr_assert_not(root_is_released());
	cr_assert_eq(ask(WIRE_READ, 1, NULL), -EREMCHG);
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE, "it waits for main's word");
	take();
	expect_value(1, 7);
}

Test(shard, one_that_main_gives_away_after_a_lost_lease_is_released)
{
	lose(-ESTALE);
	want(false, 0);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE);
	load_root();
	cr_assert(root_is_released());
	take();
}

Test(shard, a_loss_is_not_forgotten_when_the_next_set_overtakes_it)
{
	uint32_t epoch = shard()->epoch;

	want(false, -ESTALE);
	want(true, 0);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(shard()->sm.state, MT_SHARD_SERVING);
	cr_assert_eq(shard()->epoch, epoch + 1);
}

/* Main may have its next lease before the port comes by: for what was read until then it says nothing. */
Test(shard, a_lease_that_came_after_a_loss_is_not_the_one_it_was_taken_under)
{
	const struct mt_port *port = mt_rig_port(rig);

	cr_assert(mt_port_has_lease(port));
	want(false, -ESTALE);
	want(true, 0);
	cr_assert(mt_lease_is_held(port->shared, port->loop));
	cr_assert_not(mt_port_has_lease(port));
	expect_state(MT_SHARD_STOPPED);
	cr_assert(mt_port_has_lease(port));
	expect_state(MT_SHARD_SERVING);
}

Test(shard, wanted_again_while_it_stops_it_begins_anew)
{
	uint32_t epoch = shard()->epoch;

	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 40; i++) {
		want(false, 0);
		mt_rig_run(rig, NUM_US(25) * i);
		want(true, 0);
		cr_assert(mt_rig_run_until(rig, is_serving, NULL));
		mt_rig_run(rig, NUM_MS(5));
		cr_assert_eq(shard()->sm.state, MT_SHARD_SERVING);
		cr_assert_eq(shard()->epoch, ++epoch);
		expect_value(1, 7);
	}
}

/* In each state of a take-over: stopped, and taken again. */
static void
lose_at_each_moment(int rc)
{
	uint32_t seen = 0;

	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 480; i++) {
		lose(0);
		want(true, 0);
		mt_rig_run(rig, NUM_US(25) * i);
		seen |= 1u << shard()->sm.state;
		lose(rc);
	}
	take();
	expect_value(1, 7);
	/* All but IDLE and STOPPED. */
	for (uint32_t state = MT_SHARD_CLAIMING; state <= MT_SHARD_SERVING; state++)
		cr_assert_neq(seen & 1u << state, 0, "never lost in state %u", state);
}

Test(shard, released_at_each_moment_of_a_take_over)
{
	lose_at_each_moment(0);
}

Test(shard, lost_at_each_moment_of_a_take_over)
{
	lose_at_each_moment(-ESTALE);
}

/* ---- with requests in flight ---- */

static void
send_some(uint32_t round)
{
	uint8_t data[BLOCK];

	for (uint32_t i = 0; i < 16; i++) {
		enum wire_opcode opcode = i % 4 == 3 ? WIRE_READ : WIRE_WRITE;
		struct wire_header header =
		    sg_io(opcode, 1, (uint64_t)i * BLOCK, BLOCK, shard()->epoch);

		memset(data, (int)(round % 100 + 100), sizeof(data));
		header.request_id = i + 1;
		if (opcode == WIRE_WRITE)
			header.payload_crc = crc32c(0, data, sizeof(data));
		sg_send(&io, &header, data, opcode == WIRE_WRITE ? BLOCK : 0);
	}
}

static void
lose_with_requests(int rc)
{
	uint8_t floors[16] = { 0 };

	for (uint32_t round = 0; round < 80; round++) {
		fresh_io();
		send_some(round);
		mt_rig_run(rig, NUM_US(15) * round);
		lose(rc);
		cr_assert(sg_wait_replies(&io, 16), "every request is answered");
		for (uint32_t i = 0; i < 16; i++) {
			const struct wire_header *reply = &io.replies[i].header;
			int status = status_to_errno(reply->status);

			cr_assert(status == 0 || status == -EREMCHG, "%d", status);
			if (status == 0 && reply->request_id % 4 != 0)
				floors[reply->request_id - 1] = (uint8_t)(round % 100 + 100);
		}
		take();
		fresh_io();
		for (uint32_t i = 0; i < 16; i++) {
			uint8_t got;

			cr_assert_eq(ask(WIRE_READ, i, NULL), 0);
			got = (uint8_t)io.replies[io.reply_count - 1].text[0];
			cr_assert_geq(got, floors[i], "block %u went back in round %u", i, round);
			floors[i] = got;
		}
	}
}

Test(shard, released_with_requests_in_flight)
{
	lose_with_requests(0);
}

Test(shard, lost_with_requests_in_flight)
{
	lose_with_requests(-ESTALE);
}

Test(shard, released_while_nodes_come_and_go)
{
	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 40; i++) {
		want(false, i % 2 == 0 ? 0 : -ESTALE);
		mt_rig_run(rig, NUM_US(20) * i);
		mt_rig_node_kill(rig, i % 3, i % 2 == 0);
		mt_rig_run(rig, NUM_US(100) * i);
		want(true, 0);
		mt_rig_run(rig, NUM_US(100) * i);
		mt_rig_node_start(rig, i % 3);
		cr_assert(mt_rig_run_until(rig, is_serving, NULL), "round %u", i);
		fresh_io();
		expect_value(1, 7);
	}
}

Test(shard, a_store_that_times_out_only_delays_a_release)
{
	meta_store_set_timeouts(rig->store, 300, 300);
	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 10; i++) {
		lose(0);
		take();
		expect_value(1, 7);
	}
}

/* ---- another owner ---- */

static void
put_on_txn(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static void
put(const char *key, const char *value)
{
	bool is_done = false;
	struct meta_op op = { .kind = value != NULL ? META_PUT : META_DELETE,
		.key = key,
		.value = value,
		.value_bytes = value != NULL ? (uint32_t)strlen(value) : 0 };

	cr_assert_eq(rig->meta->ops->txn(rig->meta, &op, 1, put_on_txn, &is_done), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_done));
}

Test(shard, a_living_owner_keeps_it)
{
	char key[MT_ROOT_KEY_BYTES];
	struct mt_root root;
	char *text;

	cr_assert_eq(write_block(1, 7), 0);
	lose(0);
	load_root();
	root = *shard()->root;
	root.is_released = false;
	root.gateway_id = 2;
	root.boot_id = 77;
	text = mt_root_encode(&root);
	mt_root_key(key, 0);
	put(key, text);
	free(text);
	put("gateways/2", "somebody");
	for (uint32_t i = 0; i < 3; i++) {
		want(true, 0);
		expect_state(MT_SHARD_CLAIMING);
		expect_state(MT_SHARD_IDLE);
		mt_rig_run(rig, NUM_S(5));
		cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE, "it asks when it is told to");
		cr_assert_eq(ask(WIRE_READ, 1, NULL), -EREMCHG);
	}
	put("gateways/2", NULL);
	take();
	cr_assert_eq(shard()->epoch, root.epoch + 1);
	expect_value(1, 7);
}

Test(shard, another_claims_it_while_it_is_being_released)
{
	char key[MT_ROOT_KEY_BYTES];
	struct mt_root root = *shard()->root;
	char *text;

	root.epoch++;
	root.gateway_id = 2;
	root.boot_id = 77;
	text = mt_root_encode(&root);
	mt_root_key(key, 0);
	put(key, text);
	lose(0);
	load_root();
	cr_assert_eq(shard()->root->gateway_id, 2, "theirs is left alone");
	cr_assert_not(root_is_released());
	free(text);
}

/* ---- memory ---- */

Test(shard, the_nth_allocation_of_a_life_fails)
{
	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t nth = 1;; nth++) {
		bool has_failed;

		mt_alloc_fail_at(nth);
		lose(0);
		take();
		has_failed = mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		fresh_io();
		expect_value(1, 7);
		if (!has_failed)
			break;
		cr_assert_lt(nth, 300);
	}
}

/* The parts' states, each behind a pointer of its own. */
static void
expect_nothing(const struct mt_shard *of)
{
	cr_assert_null(of->ring);
	cr_assert_null(of->write);
	cr_assert_null(of->extents);
	cr_assert_null(of->block_index);
	cr_assert_null(of->manifest);
	cr_assert_null(of->run_roll);
	cr_assert_null(of->flush);
	cr_assert_null(of->reclaim);
	cr_assert_null(of->upkeep);
	cr_assert_null(of->takeover);
}

/* 0; else what a failed init left has been looked for: memory of the device, of the host, and parts. */
static int
init_again(void)
{
	uint32_t live_count = split_alloc_live_count();
	int rc = mt_shard_init(shard(), mt_rig_port(rig), 0);

	if (rc == 0)
		return 0;
	cr_assert_eq(rc, -ENOMEM);
	cr_assert_eq(split_alloc_live_count(), live_count);
	expect_nothing(shard());
	mt_shard_fini(shard()); /* there is nothing to be ended */
	return rc;
}

/* Parts of a shard want memory of their own; each of them fails to begin. */
Test(shard, the_nth_allocation_of_its_init_fails_and_leaves_nothing)
{
	uint32_t count = 0;

	cr_assert_eq(write_block(1, 7), 0);
	lose(0);
	mt_shard_fini(shard());
	expect_nothing(shard());
	do
		mt_alloc_fail_at(++count);
	while (init_again() != 0);
	mt_alloc_fail_at(0);
	cr_assert_gt(count, 6, "its life, a write path, and five parts more");
	take();
	fresh_io();
	expect_value(1, 7);
}

/* An idle shard has nothing of its port's. */
static void
expect_given_back(uint32_t live_count)
{
	const struct mt_port *port = mt_rig_port(rig);

	cr_assert_eq(port->ring_count, 0);
	cr_assert_null(shard()->ring);
	if (live_count != 0)
		cr_assert_eq(split_alloc_live_count(), live_count);
}

Test(shard, what_it_had_of_its_port_goes_back_when_it_is_quiet)
{
	uint32_t live_count = 0;

	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 10; i++) {
		send_some(i);
		lose(i % 2 == 0 ? 0 : -ESTALE);
		cr_assert(sg_wait_replies(&io, 16));
		sg_close(&io);
		mt_rig_run(rig, NUM_MS(100));
		expect_given_back(live_count);
		live_count = split_alloc_live_count();
		take();
		cr_assert_eq(mt_rig_port(rig)->ring_count, 1);
		open_io();
	}
}

static bool
is_short(void *arg)
{
	(void)arg;
	return mt_shard_is_short(shard());
}

/* The n-th piece of the port's memory is not to be had: it waits, IDLE, with nothing, and is taken when there is one. */
Test(shard, the_nth_piece_of_its_ports_memory_is_missing)
{
	uint32_t nth = 0, live_count;

	cr_assert_eq(write_block(1, 7), 0);
	lose(0);
	expect_given_back(0);
	live_count = split_alloc_live_count();
	for (;;) {
		split_alloc_fail_at(++nth);
		want(true, 0);
		mt_rig_run(rig, NUM_US(1));
		if (!mt_shard_is_short(shard()))
			break;
		cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE);
		expect_given_back(live_count);
		cr_assert_eq(ask(WIRE_READ, 1, NULL), -EREMCHG);
		split_alloc_fail_at(0);
		cr_assert(mt_rig_run_until(rig, is_serving, NULL), "it looks again by itself");
		fresh_io();
		expect_value(1, 7);
		lose(0);
	}
	split_alloc_fail_at(0);
	cr_assert_gt(nth, 2, "a ring, and batches");
	cr_assert(mt_rig_run_until(rig, is_serving, NULL));
}

/* Ends of a shard's wait for memory: main does not want it any more, its lease is lost, the port ends. */
Test(shard, one_that_waits_for_memory_can_be_given_up)
{
	struct mt_port *port = mt_rig_port(rig);
	uint32_t ring_max = port->ring_max;

	cr_assert_eq(write_block(1, 7), 0);
	for (uint32_t i = 0; i < 2; i++) {
		lose(
		    i == 0 ? 0 : -ESTALE); /* its root names us, then: not wanted, it is released */
		port->ring_max = 0;
		want(true, 0);
		cr_assert(mt_rig_run_until(rig, is_short, NULL));
		want(false, i == 0 ? -ESTALE : 0);
		mt_rig_run(rig, NUM_S(2));
		cr_assert_not(mt_shard_is_short(shard()));
		cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE);
		load_root();
		cr_assert(root_is_released());
		port->ring_max = ring_max;
		mt_rig_run(rig, NUM_S(2));
		cr_assert_eq(shard()->sm.state, MT_SHARD_IDLE, "nobody wants it");
		take();
		fresh_io();
		expect_value(1, 7);
	}
	lose(0);
	port->ring_max = 0;
	want(true, 0);
	cr_assert(mt_rig_run_until(rig, is_short, NULL)); /* and the rig ends */
}

/* ---- sessions (I11) ---- */

static void
send_write(uint32_t block, uint8_t value)
{
	struct wire_header header =
	    sg_io(WIRE_WRITE, 1, (uint64_t)block * BLOCK, BLOCK, shard()->epoch);
	uint8_t data[BLOCK];

	memset(data, value, sizeof(data));
	header.payload_crc = crc32c(0, data, sizeof(data));
	sg_send(&io, &header, data, BLOCK);
}

/* Appends of the shard are on their way to nodes that do not answer. */
static void
write_in_flight(uint32_t block, uint8_t value, bool is_out)
{
	for (uint32_t i = 0; i < 3; i++)
		sim_net_cut(rig->nodes[i].host, rig->gateway_host);
	send_write(block, value);
	mt_rig_run(rig, is_out ? NUM_MS(1) : NUM_US(1));
}

static void
heal(void)
{
	for (uint32_t i = 0; i < 3; i++)
		sim_net_heal(rig->nodes[i].host, rig->gateway_host);
}

/* Begin a newer incarnation's queue pair, without waiting for it. */
static void
connect_newer(struct sg_qp *qp)
{
	struct wire_hello hello = sg_hello(1, 0xa, 1, ++incarnation);

	hello.cluster_id = 0;
	sg_connect(&sg, qp, &hello);
}

Test(shard, a_newer_session_waits_for_the_writes_of_the_older)
{
	struct sg_qp newer;

	cr_assert_eq(write_block(1, 7), 0);
	write_in_flight(1, 8, true);
	connect_newer(&newer);
	mt_rig_run(rig, NUM_S(1));
	cr_assert(io.is_closed);
	cr_assert(!newer.is_ready && !newer.is_closed);
	heal();
	cr_assert_eq(sg_wait_open(&newer), 0);
	sg_close(&newer);
	fresh_io();
	cr_assert_eq(write_block(1, 9), 0);
	mt_rig_run(rig, NUM_S(5));
	expect_value(1, 9);
}

Test(shard, of_two_sessions_that_wait_the_newer_is_kept)
{
	struct sg_qp second, third;

	write_in_flight(1, 8, true);
	connect_newer(&second);
	mt_rig_run(rig, NUM_MS(1));
	connect_newer(&third);
	cr_assert_eq(sg_wait_open(&second), -ESHUTDOWN);
	cr_assert(!third.is_closed);
	heal();
	cr_assert_eq(sg_wait_open(&third), 0);
	sg_close(&third);
}

/* The shard stops with them in flight, and is taken again: they end before the newer one is let in. */
Test(shard, a_newer_session_waits_over_the_end_of_a_shard)
{
	for (uint32_t i = 0; i < 20; i++) {
		struct sg_qp newer;
		uint8_t seen;

		write_in_flight(1, (uint8_t)(2 * i + 1), i % 2 == 0);
		want(false, i % 4 < 2 ? 0 : -ESTALE);
		mt_rig_run(rig, NUM_US(50) * i);
		connect_newer(&newer);
		mt_rig_run(rig, NUM_MS(1));
		heal();
		want(true, 0);
		cr_assert_eq(sg_wait_open(&newer), 0);
		cr_assert(mt_rig_run_until(rig, is_serving, NULL));
		sg_close(&newer);
		fresh_io();
		cr_assert_eq(write_block(1, (uint8_t)(2 * i + 2)), 0);
		seen = (uint8_t)(2 * i + 2);
		mt_rig_run(rig, NUM_S(5));
		cr_assert(mt_rig_run_until(rig, is_serving, NULL));
		fresh_io();
		expect_value(1, seen);
	}
}
