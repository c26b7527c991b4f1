/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_verbs_lane.c -- what a device or a peer can do to one-sided reads and writes
 *
 * On the fake of the libraries. What goes wrong with a lane costs the reads and writes on it, or a
 * try; messages go on, unless the connection itself is gone.
 */
#include <sys/resource.h>

#include "cleave/status.h"
#include "splitlib/core/one_sided.h"
#include "splitlib/core/send_assemble.h"
#include "splitlib/core/send_post.h"
#include "splitlib/verbs/verbs.h"
#include "unit/verbs_fixture.h"

#define EVENTS 24u

static struct fixture f;
static struct test_send sends[8];
static dev_ptr memory, local;
static struct dev_remote remote;
static struct dev_region *region;
static uint32_t done_count;
static int done_rc[EVENTS];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	verbs_fixture_begin();
	done_count = 0;
}

static void
teardown(void)
{
	verbs_fixture_end();
}

TestSuite(transport_verbs_lane, .init = setup, .fini = teardown, .timeout = 100);

static void
open_pair(void)
{
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	memory = pattern_alloc(f.server_port, 65536, 3);
	local = pattern_alloc(f.client_port, 65536, 4);
	region = dev_region_open(f.server_port, memory, 65536, DEV_REGION_READ, &remote);
	cr_assert_not_null(region);
}

static struct verbs_qp *
verbs_qp_of(const struct split_qp *qp)
{
	return qp->transport;
}

static void
on_done(const struct dev_completion *completion, void *arg)
{
	done_rc[(size_t)(uintptr_t)arg] = completion->rc;
	done_count++;
}

static void
read_many(uint32_t count)
{
	done_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct dev_event *event =
		    dev_read(f.client.qp, dev_ptr_add(local, i * 64), 64, &remote, i * 64);

		cr_assert_not_null(event);
		dev_event_on(event, on_done, (void *)(uintptr_t)i);
	}
}

static bool
all_done(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return done_count >= wanted;
}

static void
check_messages_flow(void)
{
	uint32_t before = f.client.message_count;

	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, local, 512);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, client_got, before + NUM_COUNT(sends));
}

static bool
both_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

Test(transport_verbs_lane, a_lane_is_made_when_it_is_needed)
{
	open_pair();
	cr_assert_null(verbs_qp_of(f.client.qp)->mine.ibv);
	read_many(EVENTS);
	fixture_run(&f, all_done, EVENTS);
	cr_assert_eq(verbs_qp_of(f.client.qp)->lane_state, VERBS_LANE_OPEN);
	cr_assert_null(verbs_qp_of(f.client.qp)->theirs.ibv);
	cr_assert_not_null(verbs_qp_of(f.server.qp)->theirs.ibv);
	cr_assert_null(verbs_qp_of(f.server.qp)->mine.ibv);
	pattern_check(f.client_port, local, EVENTS * 64, 3, 0);
	fixture_close(&f);
}

/* Each call that makes a lane, at either end, fails once. */
Test(transport_verbs_lane, a_lane_that_cannot_be_made_costs_reads_alone)
{
	static const char *const names[] = { "ibv_create_qp", "ibv_modify_qp" };

	for (size_t i = 0; i < NUM_COUNT(names); i++)
		for (uint32_t nth = 1;; nth++) {
			uint32_t failures;

			setup();
			open_pair();
			fake_verbs.fail_name = names[i];
			fake_verbs.fail_nth = nth;
			read_many(3);
			fixture_run(&f, all_done, 3);
			failures = fake_verbs.fail_count;
			for (uint32_t k = 0; k < 3; k++)
				/* Without inline data it is tried once more. */
				cr_assert(done_rc[k] == (failures > 0 ? -ENOBUFS : 0) ||
					(done_rc[k] == 0 && i == 0),
				    "%s, call %u: %d", names[i], nth, done_rc[k]);
			fake_verbs.fail_name = NULL;
			check_messages_flow();
			read_many(3);
			fixture_run(&f, all_done, 3);
			cr_assert_eq(done_rc[0], 0, "%s, call %u", names[i], nth);
			fixture_close(&f);
			teardown();
			if (failures == 0) {
				cr_assert_gt(nth, 2, "%s is never called", names[i]);
				break;
			}
		}
}

Test(transport_verbs_lane, a_lane_over_a_connection_that_is_ending_ends_with_it)
{
	for (uint32_t nth = 1; nth <= 6; nth++) {
		setup();
		open_pair();
		fake_verbs.fail_name = "rdma_init_qp_attr";
		fake_verbs.fail_nth = nth;
		read_many(3);
		fixture_run(&f, both_closed, 0);
		cr_assert_eq(f.client.closed_rc, -ECONNRESET);
		cr_assert_eq(done_rc[0], -ECONNRESET);
		fixture_close(&f);
		teardown();
	}
}

Test(transport_verbs_lane, a_post_that_fails_ends_the_queue_pair)
{
	open_pair();
	read_many(1);
	fixture_run(&f, all_done, 1);
	fake_verbs.fail_name = "ibv_post_send";
	fake_verbs.fail_nth = 3;
	read_many(EVENTS);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_not_null(strstr(f.client.reason, "one-sided"), "%s", f.client.reason);
	cr_assert_eq(done_count, EVENTS);
	cr_assert_eq(done_rc[EVENTS - 1], -ECONNRESET);
	fixture_close(&f);
}

Test(transport_verbs_lane, what_the_device_says_of_one_costs_that_one)
{
	static const struct {
		enum ibv_wc_status status;
		int rc;
	} statuses[] = { { IBV_WC_REM_ACCESS_ERR, -EKEYREVOKED },
		{ IBV_WC_REM_INV_REQ_ERR, -EKEYREVOKED }, { IBV_WC_REM_OP_ERR, -EIO },
		{ IBV_WC_LOC_PROT_ERR, -EIO } };

	open_pair();
	for (size_t i = 0; i < NUM_COUNT(statuses); i++) {
		fake_verbs.next_status = statuses[i].status;
		fake_verbs.is_for_one_sided = true;
		read_many(EVENTS);
		fixture_run(&f, all_done, EVENTS);
		cr_assert_eq(done_rc[0], statuses[i].rc);
		for (uint32_t k = 1; k < EVENTS; k++)
			cr_assert_eq(done_rc[k], 0, "%u: %d", k, done_rc[k]);
		check_messages_flow();
	}
	fixture_close(&f);
}

Test(transport_verbs_lane, a_silent_peer_ends_the_queue_pair)
{
	open_pair();
	fake_verbs.next_status = IBV_WC_RETRY_EXC_ERR;
	fake_verbs.is_for_one_sided = true;
	read_many(EVENTS);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	cr_assert_eq(done_count, EVENTS);
	for (uint32_t i = 0; i < EVENTS; i++)
		cr_assert_eq(done_rc[i], -ECONNRESET);
	fixture_close(&f);
}

Test(transport_verbs_lane, closing_waits_for_what_the_device_has)
{
	for (uint32_t is_stuck = 0; is_stuck < 2; is_stuck++) {
		setup();
		open_pair();
		read_many(1);
		fixture_run(&f, all_done, 1);
		fake_verbs.is_deaf = true;
		fake_verbs.is_stuck = is_stuck;
		read_many(EVENTS);
		fixture_idle(&f);
		cr_assert_eq(done_count, 0);
		cr_assert_eq(f.client_port->verbs->one_sided_count, ONE_SIDED_PIECES);
		split_qp_close(f.client.qp);
		fixture_run(&f, client_closed, 0);
		cr_assert_eq(done_count, EVENTS);
		cr_assert_eq(done_rc[0], -ECANCELED);
		cr_assert_eq(f.client_port->verbs->one_sided_count, 0);
		fixture_close(&f);
		teardown();
	}
}

Test(transport_verbs_lane, a_region_that_cannot_be_locked_names_the_limit)
{
	struct rlimit limit = { .rlim_cur = 65536, .rlim_max = 65536 };

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	open_pair();
	fake_verbs.fail_name = "ibv_reg_mr";
	fake_verbs.fail_nth = 1;
	cr_assert_null(dev_region_open(f.server_port, memory, 4096, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENOMEM);
	cr_assert_not_null(strstr(split_port_reason(f.server_port), "RLIMIT_MEMLOCK"));
	fixture_close(&f);
}

Test(transport_verbs_lane, a_region_needs_a_device)
{
	struct split_port_options options = { 0 };
	struct split_connect_options connect = { .address = "verbs://10.0.0.1:5" };

	f.client_loop = loop_ev_create(1);
	f.client_port = fixture_open_port(&f, false, &options);
	f.client.qp = connect_qp(f.client_port, &connect); /* that is not known yet */
	cr_assert_not_null(f.client.qp);
	memory = dev_alloc(f.client_port, 64);
	cr_assert_null(dev_region_open(f.client_port, memory, 64, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENOTCONN);
	split_qp_close(f.client.qp);
	split_port_close(f.client_port);
	loop_destroy(f.client_loop);
}

/* Regions come and go while others read: each read sees all of it, or is refused. */
Test(transport_verbs_lane, lanes_are_made_again_and_again)
{
	open_pair();
	for (uint32_t round = 0; round < 20; round++) {
		dev_region_close(region);
		read_many(EVENTS);
		fixture_run(&f, all_done, EVENTS);
		for (uint32_t i = 0; i < EVENTS; i++)
			cr_assert_eq(done_rc[i], -EKEYREVOKED);
		region = dev_region_open(f.server_port, memory, 65536, DEV_REGION_READ, &remote);
		cr_assert_not_null(region);
		read_many(EVENTS);
		fixture_run(&f, all_done, EVENTS);
		for (uint32_t i = 0; i < EVENTS; i++)
			cr_assert_eq(done_rc[i], 0);
	}
	check_messages_flow();
	cr_assert_eq(fake_verbs.refused_count, 20 * EVENTS);
	fixture_close(&f);
}

Test(transport_verbs_lane, lane_messages_that_make_no_sense_are_refused)
{
	struct wire_header header = { .opcode = WIRE_LANE };
	struct verbs_qp *vq;

	open_pair();
	vq = verbs_qp_of(f.server.qp);
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO); /* neither */
	header.flags = 3;
	header.object_id = 20;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO); /* both */
	header.flags = 2;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO); /* nobody asked */
	header.flags = 1;
	header.object_id = 0;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO);
	header.object_id = 0x1000000;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO);
	header.object_id = 0;
	header.status = CLEAVE_STATUS_NO_MEMORY;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO);
	header.status = CLEAVE_STATUS_NR;
	header.object_id = 20;
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO);
	header.status = 0;
	cr_assert_eq(verbs_on_lane_message(vq, &header), 0);
	cr_assert_eq(verbs_on_lane_message(vq, &header), -EPROTO); /* before it was answered */
	fixture_close(&f);
}

/* One-sided messages do not belong on the lane of messages. */
Test(transport_verbs_lane, one_sided_messages_are_not_spoken_over_rdma)
{
	open_pair();
	test_send_init(&sends[0], &f.client, WIRE_DEV_READ, 0, DEV_PTR_NULL, 0);
	sends[0].header.length_bytes = 64;
	send_post_library(f.client.qp, &sends[0].send);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EPROTO);
	cr_assert_not_null(strstr(f.server.reason, "opcode"));
	fixture_close(&f);
}
