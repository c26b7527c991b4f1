/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_verbs.c -- every error of the RDMA transport, on a fake of its libraries
 *
 * What a device or the connection manager can do to a port: refuse a call, break a queue pair, go
 * silent, go away. Whatever it does, the queue pair closes with a reason, each send completes once,
 * each receive comes back, and nothing leaks. (tests/vm/inside runs the same transport on a kernel.)
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "splitlib/core/dev_ptr_raw.h"
#include "splitlib/verbs/verbs.h"
#include "unit/verbs_fixture.h"

#define SENDS_MAX 600u

static struct fixture f;
static struct test_send sends[SENDS_MAX];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	verbs_fixture_begin();
}

static void
teardown(void)
{
	verbs_fixture_end();
}

TestSuite(transport_verbs, .init = setup, .fini = teardown, .timeout = 100);

static void
open_pair(void)
{
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
}

static const struct verbs_qp *
verbs_qp_of(const struct split_qp *qp)
{
	return qp->transport;
}

static uint32_t
data_number(const struct split_qp *qp)
{
	return verbs_qp_of(qp)->data.ibv->qp_num;
}

static void
send_many(uint32_t count, dev_ptr payload, uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, bytes);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
}

static bool
both_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

/* The pair is gone: each send has completed once, and the pools are whole. */
static void
check_all_is_back(uint32_t send_count)
{
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	f.server.held_count = 0;
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count + f.client.failed_count, send_count);
	cr_assert_eq(f.client.sent_after_close_count, 0);
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	fixture_close(&f);
}

static bool
ready_or_closed(struct fixture *fixture, uint64_t wanted)
{
	return both_ready(fixture, wanted) || client_closed(fixture, wanted);
}

Test(transport_verbs, each_call_that_fails_while_connecting_is_a_clean_error)
{
	static const char *const names[] = { "rdma_create_event_channel", "rdma_create_id",
		"rdma_bind_addr", "rdma_listen", "rdma_resolve_addr", "address",
		"rdma_resolve_route", "route", "rdma_connect", "unreachable", "rdma_accept",
		"rdma_establish", "rdma_init_qp_attr", "ibv_query_device", "ibv_alloc_pd",
		"ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq", "ibv_create_srq",
		"ibv_create_qp", "ibv_modify_qp", "ibv_post_recv", "ibv_post_srq_recv",
		"ibv_req_notify_cq", "ibv_poll_cq" };
	struct split_port_options small = { .receive_count = 32,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(1) };

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		uint32_t nth = 1;

		do {
			struct split_connect_options options = { .ops = &side_ops,
				.arg = &f.client };
			char address[SPLIT_ADDRESS_BYTES_MAX];
			int rc;

			setup();
			f.kind = NET_VERBS;
			f.client_loop = f.server_loop = loop_ev_create(1);
			f.server_port = fixture_open_port(&f, true, &small);
			f.client_port = fixture_open_port(&f, false, &small);
			fake_verbs.fail_name = names[i];
			fake_verbs.fail_nth = nth++;
			rc = split_listen(f.server_port, "verbs://10.0.0.1:0", fixture_on_accept,
			    &f, address);
			/* A device whose queues cannot be asked is as good as none. */
			cr_assert(rc == 0 || rc == -ENOMEM || rc == -ENODEV, "%s: %d", names[i],
			    rc);
			options.address = rc == 0 ? address : "verbs://10.0.0.1:7";
			f.client.qp = connect_qp(f.client_port, &options);
			if (f.client.qp == NULL)
				cr_assert_eq(errno, ENOMEM, "%s", names[i]);
			else
				(void)fixture_run_for(&f, ready_or_closed, 0, NUM_S(2));
			if (f.client.closed_count > 0)
				cr_assert_neq(f.client.reason[0], '\0', "%s", names[i]);
			fixture_close(&f);
			cr_assert_eq(fake_verbs.object_count, 0, "%s, call %u", names[i], nth - 1);
		} while (fake_verbs.fail_count > 0);
		cr_assert_gt(nth, 2, "%s is never called", names[i]);
	}
}

Test(transport_verbs, memory_that_cannot_be_locked_names_the_limit)
{
	struct rlimit limit = { .rlim_cur = 65536, .rlim_max = 65536 };
	struct split_port_options options = { 0 };

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	f.client_loop = loop_ev_create(1);
	f.client_port = fixture_open_port(&f, false, &options);
	fake_verbs.fail_name = "ibv_reg_mr";
	fake_verbs.fail_nth = 2;
	cr_assert_eq(split_listen(f.client_port, "verbs://10.0.0.1:0", fixture_on_accept, &f, NULL),
	    -ENOMEM);
	cr_assert_not_null(strstr(split_port_reason(f.client_port), "RLIMIT_MEMLOCK"));
	cr_assert_not_null(strstr(split_port_reason(f.client_port), "now 64 KiB"));
	split_port_close(f.client_port);
	loop_destroy(f.client_loop);
}

Test(transport_verbs, an_address_without_a_device_is_refused)
{
	struct split_port_options options = { 0 };
	struct split_connect_options connect = { .address = "verbs://10.0.0.1:5", .ops = NULL };

	fake_verbs.has_no_device = true;
	f.client_loop = loop_ev_create(1);
	f.client_port = fixture_open_port(&f, false, &options);
	cr_assert_eq(split_listen(f.client_port, "verbs://10.0.0.1:0", fixture_on_accept, &f, NULL),
	    -ENODEV);
	cr_assert_not_null(strstr(split_port_reason(f.client_port), "no RDMA device"));
	cr_assert_not_null(strstr(split_port_reason(f.client_port), "verbs://10.0.0.1:0"));
	f.client.qp = connect_qp(f.client_port, &connect);
	cr_assert_not_null(f.client.qp);
	cr_assert_eq(dev_wait_ready(f.client.qp), -ENODEV);
	split_qp_close(f.client.qp);
	split_port_close(f.client_port);
	loop_destroy(f.client_loop);
}

/* Which address has no GID, and who looked for it. */
Test(transport_verbs, a_peer_that_the_device_does_not_reach_is_named)
{
	static const char *const names[] = { "rdma_resolve_addr", "address", "rdma_resolve_route",
		"route" };
	struct split_connect_options options = { .address = "verbs://10.0.0.77:5",
		.ops = &side_ops,
		.arg = &f.client };

	fixture_open(&f, NET_VERBS, NULL, NULL);
	for (size_t i = 0; i < 2 * NUM_COUNT(names); i++) {
		bool is_listening = i % 2 == 1; /* then it has an address of its own */
		struct split_port *port = is_listening ? f.server_port : f.client_port;

		f.client.closed_count = 0;
		fake_verbs.fail_name = names[i / 2];
		fake_verbs.fail_nth = 1;
		f.client.qp = connect_qp(port, &options);
		fixture_run(&f, client_closed, 0);
		cr_assert_eq(f.client.closed_rc, -ECONNREFUSED);
		cr_assert_not_null(strstr(f.client.reason, "10.0.0.77:5"), "%s", f.client.reason);
		cr_assert_not_null(strstr(f.client.reason, "RDMA device"), "%s", f.client.reason);
		if (is_listening) {
			cr_assert_not_null(strstr(f.client.reason, "fake0"));
			cr_assert_not_null(strstr(f.client.reason, "from verbs://10.0.0.1"));
		}
	}
	fixture_close(&f);
}

Test(transport_verbs, a_device_with_short_queues_is_refused)
{
	fake_verbs.max_srq_wr = 100;
	f.kind = NET_VERBS;
	f.server_loop = loop_ev_create(1);
	f.server_port = fixture_open_port(&f, true, NULL);
	cr_assert_eq(split_listen(f.server_port, "verbs://10.0.0.1:0", fixture_on_accept, &f, NULL),
	    -EINVAL);
	cr_assert_not_null(strstr(split_port_reason(f.server_port), "short"));
	split_port_close(f.server_port);
	loop_destroy(f.server_loop);
}

static struct side others[1024];

static bool
all_are_answered(struct fixture *fixture, uint64_t wanted)
{
	uint64_t count = 0;

	(void)fixture;
	for (uint32_t i = 0; i < wanted; i++)
		count += others[i].ready_count + others[i].closed_count;
	return count == wanted;
}

/* The device has room for fewer queue pairs than the port: a part of them is still the port's own. */
Test(transport_verbs, a_small_device_keeps_room_for_what_the_port_makes)
{
	enum { RESERVED = 40 };
	struct split_port_options options = { .qp_count_max = 4096,
		.qp_reserved_count = RESERVED,
		.host_bytes = NUM_MIB(16),
		.receive_count = 16,
		.device_bytes = NUM_MIB(8) };
	struct split_connect_options connect = { .ops = &side_ops };
	uint32_t count;

	fake_verbs.max_cqe = VERBS_SEND_BUDGET + VERBS_ONE_SIDED_MAX + 16 + 256;
	fixture_open(&f, NET_VERBS, &options, NULL);
	count = f.server_port->qp_room - RESERVED;
	cr_assert_lt(count, NUM_COUNT(others) - RESERVED - 1);
	fake_verbs.max_cqe = 65536; /* the client's */
	connect.address = f.address;
	for (uint32_t i = 0; i < count + 1; i++) {
		connect.arg = &others[i];
		cr_assert_not_null(connect_qp(f.client_port, &connect));
		fixture_run(&f, all_are_answered, i + 1);
	}
	cr_assert_eq(others[count].closed_rc, -EBUSY, "%s", others[count].reason);
	cr_assert_eq(f.server_port->counters.qps_refused, 1);
	cr_assert_eq(split_listen(f.client_port, "verbs://10.0.0.1:0", fixture_on_accept, &f,
			 f.address),
	    0);
	for (uint32_t i = 0; i < RESERVED; i++) {
		connect.arg = &others[count + 1 + i];
		cr_assert_not_null(connect_qp(f.server_port, &connect));
	}
	fixture_run(&f, all_are_answered, count + 1 + RESERVED);
	cr_assert_eq(f.server_port->counters.qps_opened, count + RESERVED);
	fixture_close(&f);
}

Test(transport_verbs, a_port_has_one_kind_of_transport)
{
	struct split_connect_options options = { .address = "tcp://127.0.0.1:1", .ops = &side_ops };

	fixture_open(&f, NET_VERBS, NULL, NULL);
	cr_assert_null(connect_qp(f.server_port, &options));
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(split_listen(f.server_port, "tcp://127.0.0.1:0", fixture_on_accept, &f, NULL),
	    -EXDEV);
	fixture_close(&f);
}

/* A host has several devices: connections stay with the port's. */
Test(transport_verbs, connections_come_from_where_the_port_listens)
{
	struct split_connect_options options = { .ops = &side_ops, .arg = &f.client };

	fixture_open(&f, NET_VERBS, NULL, NULL);
	options.address = f.address;
	f.client.qp = connect_qp(f.server_port, &options);
	cr_assert_not_null(f.client.qp);
	cr_assert_eq(fake_verbs.source_ip, 0x0a000001);
	cr_assert_eq(fake_verbs.bound_count, 1);
	fixture_close(&f);
}

Test(transport_verbs, connections_that_are_routed_elsewhere_are_asked_for_again)
{
	struct split_connect_options options = { .ops = &side_ops, .arg = &f.client };
	struct split_qp *first;

	fixture_open(&f, NET_VERBS, NULL, NULL);
	first = fixture_connect(&f, NULL); /* that gives the port its device */
	options.address = f.address;
	fake_verbs.fail_name = "route to the port's device";
	fake_verbs.fail_nth = 1;
	f.client.qp = connect_qp(f.client_port, &options);
	cr_assert_not_null(f.client.qp);
	cr_assert_eq(fake_verbs.bound_count, 0);
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(fake_verbs.fail_count, 1);
	cr_assert_eq(fake_verbs.bound_count, 1);
	cr_assert_eq(fake_verbs.source_ip, 0x0a000009);
	/* Where that does not help, it is an error. */
	fake_verbs.fail_nth = 1;
	f.client.closed_count = 0;
	f.client.qp = connect_qp(f.client_port, &options);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EXDEV);
	cr_assert_not_null(strstr(f.client.reason, "one RDMA device"));
	split_qp_close(first);
	fixture_close(&f);
}

Test(transport_verbs, a_hello_with_bytes_where_the_transport_has_its_own_is_refused)
{
	struct split_connect_options options = { .ops = &side_ops, .hello_bytes = 16 };
	uint8_t hello[16] = { 0 };

	fixture_open(&f, NET_VERBS, NULL, NULL);
	options.address = f.address;
	options.hello = hello;
	hello[13] = 1;
	cr_assert_null(connect_qp(f.client_port, &options));
	cr_assert_eq(errno, EINVAL);
	fixture_close(&f);
}

Test(transport_verbs, a_queue_pair_in_error_gives_everything_back_once)
{
	dev_ptr payload;

	open_pair();
	payload = pattern_alloc(f.client_port, 4096, 1);
	fake_verbs.is_deaf = true;
	send_many(48, payload, 4096);
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count, 0);
	fake_verbs_break(data_number(f.client.qp));
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_eq(f.client.failed_count, 48);
	cr_assert_eq(f.client.failed_rc, -ECONNRESET);
	check_all_is_back(48);
}

Test(transport_verbs, closing_waits_for_what_the_device_has)
{
	dev_ptr payload;

	open_pair();
	payload = pattern_alloc(f.client_port, 4096, 1);
	fake_verbs.is_deaf = true;
	send_many(10, payload, 4096);
	fixture_idle(&f);
	split_qp_close(f.client.qp);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, 0);
	cr_assert_eq(f.client.failed_count, 10);
	cr_assert_eq(f.client.failed_rc, -ECANCELED);
	check_all_is_back(10);
}

Test(transport_verbs, a_device_that_gives_nothing_back_is_not_waited_for)
{
	dev_ptr payload;

	open_pair();
	payload = pattern_alloc(f.client_port, 4096, 1);
	fake_verbs.is_deaf = fake_verbs.is_stuck = true;
	send_many(10, payload, 4096);
	fixture_idle(&f);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.failed_count, 10);
	fake_verbs.is_stuck = false;
	fixture_run(&f, both_closed, 0);
	check_all_is_back(10);
}

Test(transport_verbs, a_port_that_closes_gives_everything_back)
{
	dev_ptr payload;

	open_pair();
	payload = pattern_alloc(f.client_port, 4096, 1);
	fake_verbs.is_deaf = fake_verbs.is_stuck = true;
	send_many(10, payload, 4096);
	fixture_idle(&f);
	fixture_close(&f);
	cr_assert_eq(f.client.failed_count, 10);
	cr_assert_eq(f.client.closed_count, 1);
}

/* How a queue pair ends when a send completes with a status. */
static void
check_status(enum ibv_wc_status status, int rc, const char *reason)
{
	setup();
	open_pair();
	fake_verbs.next_status = status;
	send_many(3, DEV_PTR_NULL, 0);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, rc, "%d", f.client.closed_rc);
	cr_assert_not_null(strstr(f.client.reason, reason), "%s", f.client.reason);
	cr_assert_eq(f.client.failed_count, 3);
	check_all_is_back(3);
	teardown();
}

Test(transport_verbs, a_status_becomes_a_reason)
{
	check_status(IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT, "the peer is silent, or the path");
	check_status(IBV_WC_REM_INV_REQ_ERR, -EMSGSIZE, "longer than the peer's receive");
	check_status(IBV_WC_REM_ACCESS_ERR, -ECONNRESET, "remote access");
	check_status(IBV_WC_LOC_PROT_ERR, -ECONNRESET, "local protection");
	check_status(IBV_WC_WR_FLUSH_ERR, -ECONNRESET, "in error");
}

/* Receives of the pool: those of dev_mixed_recv are in test_dev_event.c. */
Test(transport_verbs, a_message_longer_than_the_peers_receives_ends_both_ends)
{
	struct split_port_options options = { .receive_count = 256,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(8) };
	dev_ptr payload;

	fixture_open(&f, NET_VERBS, &options, NULL);
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 8192, 1);
	send_many(1, payload, 4096);
	fixture_run(&f, server_got, 1);
	test_send_init(&sends[1], &f.client, WIRE_ECHO, 1, payload, 8192);
	cr_assert_eq(split_send(f.client.qp, &sends[1].send), 0);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EMSGSIZE, "%s", f.client.reason);
	cr_assert_eq(f.server.closed_rc, -EMSGSIZE, "%s", f.server.reason);
	cr_assert_not_null(strstr(f.client.reason, "longer than the peer's receive"));
	cr_assert_not_null(strstr(f.server.reason, "longer than its receive"));
	check_all_is_back(2);
}

Test(transport_verbs, a_silent_peer_is_found_without_a_send)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.keepalive_ns = NUM_MS(40) };

	fixture_open(&f, NET_VERBS, &options, &options);
	fixture_connect_both(&f);
	fixture_idle(&f);
	cr_assert_eq(f.client.closed_count, 0); /* its probes are acknowledged */
	fake_verbs.is_deaf = true;
	fixture_idle(&f);
	cr_assert(verbs_qp_of(f.client.qp)->is_probing);
	fake_verbs_time_out();
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	check_all_is_back(0);
}

Test(transport_verbs, a_peer_that_dies_before_it_confirms_is_found)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.keepalive_ns = NUM_MS(40) };

	fixture_open(&f, NET_VERBS, &options, NULL);
	fake_verbs.fail_name = "confirmation";
	fake_verbs.fail_nth = 1;
	fixture_connect_both(&f);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.server.closed_rc, -ETIMEDOUT);
	cr_assert_not_null(strstr(f.server.reason, "confirm"), "%s", f.server.reason);
	check_all_is_back(0);
}

/* A GID that is none, or an MTU that the path has not: the device refuses the move. */
Test(transport_verbs, a_wrong_gid_or_mtu_is_named)
{
	for (uint32_t nth = 3; nth <= 4; nth++) {
		setup();
		fixture_open(&f, NET_VERBS, NULL, NULL);
		fake_verbs.fail_name = "ibv_modify_qp";
		fake_verbs.fail_nth = nth;
		fake_verbs.fail_errno = EINVAL;
		(void)fixture_connect(&f, &side_ops);
		fixture_run(&f, both_closed, 0);
		cr_assert_not_null(strstr(f.server.reason, "GID or MTU"), "%s", f.server.reason);
		cr_assert_not_null(strstr(f.server.reason, "RDMA device fake0"));
		check_all_is_back(0);
	}
}

Test(transport_verbs, events_of_the_device_end_queue_pairs)
{
	static const struct {
		enum ibv_event_type type;
		bool is_of_qp;
	} events[] = { { IBV_EVENT_QP_FATAL, true }, { IBV_EVENT_QP_ACCESS_ERR, true },
		{ IBV_EVENT_DEVICE_FATAL, false }, { IBV_EVENT_CQ_ERR, false } };

	for (size_t i = 0; i < NUM_COUNT(events); i++) {
		setup();
		open_pair();
		fake_verbs_async_event(IBV_EVENT_PORT_ACTIVE, 0); /* nothing happens */
		fake_verbs_async_event(events[i].type,
		    events[i].is_of_qp ? data_number(f.client.qp) : 0);
		fixture_run(&f, both_closed, 0);
		check_all_is_back(0);
	}
}

Test(transport_verbs, events_of_the_connection_end_queue_pairs)
{
	static const enum rdma_cm_event_type events[] = { RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_DEVICE_REMOVAL,
		RDMA_CM_EVENT_UNREACHABLE };

	for (size_t i = 0; i < NUM_COUNT(events); i++) {
		setup();
		open_pair();
		fake_verbs_cm_event(data_number(f.client.qp), RDMA_CM_EVENT_TIMEWAIT_EXIT);
		fake_verbs_cm_event(data_number(f.client.qp), events[i]);
		fixture_run(&f, both_closed, 0);
		cr_assert_eq(f.client.closed_rc,
		    events[i] == RDMA_CM_EVENT_UNREACHABLE ? -ETIMEDOUT : -ECONNRESET);
		check_all_is_back(0);
	}
}

Test(transport_verbs, a_post_that_fails_in_the_middle_loses_nothing)
{
	for (uint32_t nth = 1; nth <= 40; nth += 13) {
		setup();
		open_pair();
		fake_verbs.fail_name = "ibv_post_send";
		fake_verbs.fail_nth = nth;
		send_many(40, DEV_PTR_NULL, 0);
		fixture_run(&f, both_closed, 0);
		cr_assert_eq(fake_verbs.fail_count, 1);
		check_all_is_back(40);
	}
}

Test(transport_verbs, many_sends_ring_once_and_few_ask_for_completions)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.qp_credits_max = 128 };
	uint32_t posts;

	fixture_open(&f, NET_VERBS, &options, NULL);
	fixture_connect_both(&f);
	posts = fake_verbs.post_count;
	fake_verbs.signaled_count = fake_verbs.wr_count = 0;
	send_many(64, DEV_PTR_NULL, 0);
	fixture_run(&f, client_sent, 64);
	cr_assert_leq(fake_verbs.post_count - posts, 4); /* of 32, and a credit message */
	cr_assert_leq(fake_verbs.signaled_count, 8);
	cr_assert_geq(fake_verbs.inline_count, 64);
	fixture_run(&f, server_got, 64);
	fixture_close(&f);
}

/* Calls that a request and its answer cost, both ends together, with many in flight. */
Test(transport_verbs, a_stream_of_messages_costs_few_calls)
{
	struct split_port_options options = { .receive_count = 512,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(8),
		.qp_credits_max = 256 };
	dev_ptr payload;

	fixture_open(&f, NET_VERBS, &options, &options);
	fixture_connect_both(&f);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	payload = pattern_alloc(f.client_port, 4096, 1);
	fixture_idle(&f);
	fake_verbs.post_count = fake_verbs.srq_post_count = fake_verbs.arm_count = 0;
	fake_verbs.signaled_count = fake_verbs.wr_count = 0;
	for (uint32_t round = 1; round <= 10; round++) {
		send_many(128, payload, 4096);
		fixture_run(&f, client_got, round * 128);
	}
	cr_assert_eq(fake_verbs.wr_count, 2560);
	cr_assert_leq(fake_verbs.post_count, 2560 / 16);
	cr_assert_leq(fake_verbs.srq_post_count, 2560 / 16);
	cr_assert_leq(fake_verbs.signaled_count, 2560 / 8);
	cr_assert_leq(fake_verbs.arm_count, 160, "it sleeps too soon");
	fixture_close(&f);
}

Test(transport_verbs, a_device_without_inline_sends_from_memory)
{
	fake_verbs.has_no_inline = true;
	open_pair();
	f.server.mode = SIDE_ANSWER;
	send_many(20, DEV_PTR_NULL, 0);
	fixture_run(&f, client_got, 20);
	cr_assert_eq(fake_verbs.inline_count, 0);
	fixture_close(&f);
}

/* Scattered pieces, more than the device has entries for. */
Test(transport_verbs, pieces_beyond_the_devices_entries_are_spilled_once)
{
	struct dev_piece pieces[SPLIT_PIECES_MAX];
	dev_ptr payload;

	fake_verbs.max_sge = 4;
	open_pair();
	payload = pattern_alloc(f.client_port, 64000, 5);
	/* Three long ones in front; the others are short, and do not touch. */
	for (uint32_t i = 0; i < SPLIT_PIECES_MAX; i++)
		pieces[i] = (struct dev_piece){ dev_ptr_add(payload, i * 1000), i < 2 ? 900 : 8 };
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 1, payload, 0);
	sends[0].send.pieces = pieces;
	sends[0].send.piece_count = SPLIT_PIECES_MAX;
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
	fixture_run(&f, server_got, 1);
	cr_assert_eq(fake_verbs.sge_count_max, 4);
	cr_assert_eq(f.client_port->counters.spill_bytes, 62 * 8);
	cr_assert_eq(f.server.held[0]->payload_bytes, 1800 + 62 * 8);
	pattern_check(f.server_port, f.server.held[0]->payload, 900, 5, 0);
	pattern_check(f.server_port, dev_ptr_add(f.server.held[0]->payload, 1800 + 61 * 8), 8, 5,
	    63000);
	fixture_close(&f);
}

Test(transport_verbs, pieces_that_touch_are_one_entry)
{
	struct dev_piece pieces[SPLIT_PIECES_MAX];
	dev_ptr payload;

	fake_verbs.max_sge = 2;
	open_pair();
	payload = pattern_alloc(f.client_port, 64000, 5);
	for (uint32_t i = 0; i < SPLIT_PIECES_MAX; i++)
		pieces[i] = (struct dev_piece){ dev_ptr_add(payload, i * 1000), 1000 };
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 1, payload, 0);
	sends[0].send.pieces = pieces;
	sends[0].send.piece_count = SPLIT_PIECES_MAX;
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
	fixture_run(&f, server_got, 1);
	cr_assert_eq(f.client_port->counters.spill_bytes, 0);
	pattern_check(f.server_port, f.server.held[0]->payload, 64000, 5, 0);
	fixture_close(&f);
}

Test(transport_verbs, memory_of_no_arena_is_refused)
{
	static uint8_t foreign[64];

	open_pair();
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 1, dev_ptr_of(foreign), sizeof(foreign));
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EINVAL);
	cr_assert_eq(f.client.failed_count, 1);
	fixture_close(&f);
}

Test(transport_verbs, more_sends_than_the_device_takes_wait_their_turn)
{
	struct split_port_options options = { .receive_count = 512,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(8),
		.qp_credits_max = 512 };

	fixture_open(&f, NET_VERBS, &options, &options);
	fixture_connect_both(&f);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	send_many(SENDS_MAX, DEV_PTR_NULL, 0);
	fixture_run(&f, client_got, SENDS_MAX);
	cr_assert_eq(f.client.sent_count, SENDS_MAX);
	fixture_close(&f);
}

/* Credits go both ways for long: the control lane never runs into a peer without a receive. */
Test(transport_verbs, the_control_lane_always_has_receives)
{
	struct split_port_options options = { .receive_count = 4, .device_bytes = NUM_MIB(2) };

	fixture_open(&f, NET_VERBS, &options, &options);
	fixture_connect_both(&f);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	send_many(500, DEV_PTR_NULL, 0);
	fixture_run(&f, client_got, 500);
	cr_assert_eq(fake_verbs.not_ready_count, 0);
	fixture_close(&f);
}

Test(transport_verbs, an_idle_port_sleeps_on_its_channel)
{
	const struct verbs_port *verbs;

	open_pair();
	fixture_idle(&f);
	verbs = f.client_port->verbs;
	cr_assert(verbs->is_armed);
	cr_assert_not(verbs->poll_task.is_queued);
	fixture_close(&f);
}
