/* SPDX-License-Identifier: Apache-2.0 */
/* test_transport_sim.c -- what the simulated network does to queue pairs, on purpose */
#include "unit/split_fixture.h"

static struct fixture f;
static struct test_send sends[1024];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	fixture_open(&f, NET_SIM, NULL, NULL);
}

TestSuite(transport_sim, .init = setup, .timeout = 60);

static void
send_requests(struct side *side, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		test_send_init(&sends[i], side, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(side->qp, &sends[i].send), 0);
	}
}

static uint64_t
now_ns(void)
{
	return sim_world_now_ns(f.world);
}

Test(transport_sim, latency_is_within_its_bounds)
{
	struct sim_link_options link = { .latency_min_ns = NUM_MS(5), .latency_max_ns = NUM_MS(6) };
	uint64_t start_ns;

	fixture_connect_both(&f);
	sim_net_set_links(f.net, &link);
	f.server.mode = SIDE_ANSWER;
	start_ns = now_ns();
	send_requests(&f.client, 0, 1);
	fixture_run(&f, client_got, 1);
	cr_assert_geq(now_ns() - start_ns, NUM_MS(10));
	cr_assert_leq(now_ns() - start_ns, NUM_MS(12) + NUM_US(1));
	fixture_close(&f);
}

Test(transport_sim, a_slow_message_holds_up_those_behind_it)
{
	struct sim_link_options link = { .latency_min_ns = NUM_US(1),
		.latency_max_ns = NUM_US(1),
		.tail_ppm = 200000,
		.tail_ns = NUM_MS(1) };

	fixture_connect_both(&f);
	sim_net_set_link(f.client_host, f.server_host, &link);
	for (uint32_t i = 0; i < 60; i++)
		send_requests(&f.client, i, 1);
	fixture_run(&f, server_got, 60);
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(f.server.request_ids[i], i);
	fixture_close(&f);
}

Test(transport_sim, bandwidth_is_shared)
{
	struct sim_link_options link = { .latency_min_ns = 1,
		.latency_max_ns = 1,
		.bytes_per_s = 1000000 };
	dev_ptr payload;
	uint64_t start_ns;

	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 65536, 1);
	sim_net_set_link(f.client_host, f.server_host, &link);
	start_ns = now_ns();
	for (uint32_t i = 0; i < 10; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, 49936);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, server_got, 10); /* half a megabyte at one a second */
	cr_assert_geq(now_ns() - start_ns, NUM_MS(499));
	cr_assert_leq(now_ns() - start_ns, NUM_MS(501));
	fixture_close(&f);
}

Test(transport_sim, a_short_cut_only_delays)
{
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	sim_net_cut(f.client_host, f.server_host);
	cr_assert(sim_net_is_cut(f.client_host, f.server_host));
	cr_assert(!sim_net_is_cut(f.server_host, f.client_host));
	send_requests(&f.client, 0, 5);
	(void)fixture_run_for(&f, never, 0, NUM_S(3));
	cr_assert_eq(f.server.message_count, 0);
	sim_net_heal(f.client_host, f.server_host);
	fixture_run(&f, client_got, 5);
	cr_assert_eq(f.client.closed_count, 0);
	/* The other direction: the answers wait. */
	sim_net_cut(f.server_host, f.client_host);
	send_requests(&f.client, 5, 5);
	(void)fixture_run_for(&f, never, 0, NUM_S(3));
	cr_assert_eq(f.server.message_count, 10);
	cr_assert_eq(f.client.message_count, 5);
	sim_net_heal_all(f.net);
	fixture_run(&f, client_got, 10);
	(void)fixture_run_for(&f, never, 0, NUM_S(30));
	cr_assert_eq(f.client.closed_count, 0);
	fixture_close(&f);
}

Test(transport_sim, a_long_cut_in_one_direction_ends_both_sides)
{
	uint64_t start_ns;

	fixture_connect_both(&f);
	start_ns = now_ns();
	sim_net_cut(f.server_host, f.client_host);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	cr_assert_eq(f.server.closed_rc, -ETIMEDOUT);
	cr_assert_geq(now_ns() - start_ns, NUM_S(10)); /* keepalive_ns */
	cr_assert_leq(now_ns() - start_ns, NUM_S(11));
	fixture_close(&f);
}

Test(transport_sim, connecting_across_a_partition_times_out)
{
	sim_net_partition(f.client_host, f.server_host);
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	cr_assert_eq(f.accept_count, 0);
	/* The OPEN that was held comes late, to a process that has nothing for it. */
	sim_net_join(f.client_host, f.server_host);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->qp_count, 0);
	fixture_close(&f);
}

Test(transport_sim, reset_breaks_both_ends_at_once)
{
	fixture_connect_both(&f);
	send_requests(&f.client, 0, 10);
	cr_assert_eq(sim_net_reset(f.client_host, f.server_host), 1);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_eq(f.server.closed_rc, -ECONNRESET);
	cr_assert_eq(f.client.sent_count + f.client.failed_count, 10);
	fixture_close(&f);
}

Test(transport_sim, what_is_stranded_is_heard_after_its_sender_has_left)
{
	uint64_t start_ns;

	fixture_connect_both(&f);
	send_requests(&f.client, 0, 3);
	(void)fixture_run_for(&f, never, 0, NUM_US(10)); /* out, and not there yet */
	start_ns = now_ns();
	cr_assert_eq(sim_net_strand(f.client_host, f.server_host, NUM_S(3)), 3);
	cr_assert_eq(sim_net_strand(f.server_host, f.client_host, NUM_S(3)), 0);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_lt(now_ns() - start_ns, NUM_S(3));
	cr_assert_eq(f.server.message_count, 0);
	fixture_run(&f, server_got, 3);
	cr_assert_geq(now_ns() - start_ns, NUM_S(3));
	fixture_run(&f, server_closed, 0);
	fixture_close(&f);
}

static void
kill_server(enum sim_death death)
{
	sim_host_kill(f.server_host, death);
	loop_destroy(f.server_loop);
	f.server_port = NULL;
}

Test(transport_sim, a_process_that_dies_resets)
{
	uint64_t start_ns;

	fixture_connect_both(&f);
	send_requests(&f.client, 0, 10);
	fixture_run(&f, server_got, 1);
	start_ns = now_ns();
	kill_server(SIM_DEATH_RESET);
	cr_assert(!sim_host_is_up(f.server_host));
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_lt(now_ns() - start_ns, NUM_MS(1));
	cr_assert_eq(f.server.closed_count, 0); /* the dead are not told */
	fixture_close(&f);
}

Test(transport_sim, a_machine_that_dies_is_found_by_its_silence)
{
	uint64_t start_ns;

	fixture_connect_both(&f);
	start_ns = now_ns();
	kill_server(SIM_DEATH_SILENT);
	send_requests(&f.client, 0, 3);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	cr_assert_geq(now_ns() - start_ns, NUM_S(10));
	fixture_close(&f);
}

static void
restart_server(void)
{
	sim_host_start(f.server_host);
	f.server_loop = sim_loop_create(f.world, "server again");
	f.server_port = fixture_open_port(&f, true, NULL);
	cr_assert_eq(split_listen(f.server_port, f.address, fixture_on_accept, &f, NULL), 0);
}

Test(transport_sim, a_machine_that_comes_back_resets_what_it_forgot)
{
	uint64_t start_ns;

	fixture_connect_both(&f);
	kill_server(SIM_DEATH_SILENT);
	(void)fixture_run_for(&f, never, 0, NUM_S(1));
	restart_server();
	start_ns = now_ns();
	send_requests(&f.client, 0, 1);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_lt(now_ns() - start_ns, NUM_MS(1));
	f.client.closed_count = 0;
	f.client.ready_count = f.server.ready_count = 0;
	fixture_connect_both(&f);
	fixture_close(&f);
}

Test(transport_sim, an_idle_peer_finds_a_restart_too)
{
	fixture_connect_both(&f);
	kill_server(SIM_DEATH_SILENT);
	(void)fixture_run_for(&f, never, 0, NUM_S(1));
	restart_server();
	fixture_run(&f, client_closed, 0);
	fixture_close(&f);
}

Test(transport_sim, nobody_is_up_there)
{
	kill_server(SIM_DEATH_RESET);
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	fixture_close(&f);
}

static uint32_t calls_after_death;
static bool is_server_dead;

static void
dying_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)arg;
	calls_after_death += is_server_dead;
	/* Something half done, then the end. */
	side_answer(msgs[0]);
	if (count > 1)
		split_msg_release(msgs[1]);
	split_qp_close(qp);
	is_server_dead = true;
	loop_destroy(f.server_loop);
	sim_host_kill(f.server_host, SIM_DEATH_RESET);
	f.server_port = NULL;
}

static void
dying_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
	calls_after_death += is_server_dead;
}

static void
dying_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	static const struct split_qp_ops ops = { .on_messages = dying_on_messages,
		.on_closed = dying_on_closed };

	(void)hello;
	(void)hello_bytes;
	split_qp_accept(qp, &ops, arg, NULL, 0);
}

static bool
client_ready(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.ready_count > 0;
}

Test(transport_sim, a_process_may_die_in_its_own_handler)
{
	calls_after_death = 0;
	is_server_dead = false;
	cr_assert_eq(split_listen(f.server_port, "sim://server:0", dying_on_accept, NULL,
			 f.address),
	    0);
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_ready, 0);
	send_requests(&f.client, 0, 30);
	fixture_run(&f, client_closed, 0);
	fixture_idle(&f);
	cr_assert(is_server_dead);
	cr_assert_eq(calls_after_death, 0);
	fixture_close(&f);
}

Test(transport_sim, a_paused_process_goes_on_where_it_stopped)
{
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	sim_loop_pause(f.server_loop, NUM_S(2));
	send_requests(&f.client, 0, 20);
	(void)fixture_run_for(&f, never, 0, NUM_S(1));
	cr_assert_eq(f.server.message_count, 0);
	fixture_run(&f, client_got, 20);
	fixture_close(&f);
}

static void
pausing_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	side_on_messages(qp, msgs, count, arg);
	sim_loop_pause(f.server_loop, NUM_MS(1));
}

static const struct split_qp_ops pausing_ops = {
	.on_ready = side_on_ready,
	.on_messages = pausing_on_messages,
	.on_closed = side_on_closed,
};

static void
pausing_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	(void)arg;
	split_qp_accept(qp, &pausing_ops, &f.server, NULL, 0);
}

Test(transport_sim, a_pause_from_a_handler_loses_nothing)
{
	f.server.mode = SIDE_ANSWER;
	cr_assert_eq(split_listen(f.server_port, "sim://server:0", pausing_on_accept, NULL,
			 f.address),
	    0);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < 10; i++)
		send_requests(&f.client, i * 20, 20);
	fixture_run(&f, client_got, 200);
	split_qp_close(f.client.qp);
	fixture_run(&f, server_closed, 0);
	fixture_close(&f);
}

Test(transport_sim, a_full_pipe_blocks_its_sender)
{
	enum { COUNT = 64 };
	struct split_port_options big = { .receive_count = 200,
		.receive_payload_bytes = WIRE_PAYLOAD_BYTES_MAX,
		.device_bytes = NUM_MIB(64) };
	dev_ptr payload;

	split_port_close(f.server_port);
	f.server_port = fixture_open_port(&f, true, &big);
	cr_assert_eq(split_listen(f.server_port, f.address, fixture_on_accept, &f, NULL), 0);
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, WIRE_PAYLOAD_BYTES_MAX, 1);
	sim_net_cut(f.client_host, f.server_host);
	for (uint32_t i = 0; i < COUNT; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, WIRE_PAYLOAD_BYTES_MAX);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count, SIM_PIPE_BYTES_MAX / WIRE_PAYLOAD_BYTES_MAX);
	sim_net_heal(f.client_host, f.server_host);
	fixture_run(&f, server_got, COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_eq(f.server.request_ids[i], i);
	fixture_close(&f);
}

static uint64_t
history(uint64_t seed)
{
	uint64_t hash;

	memset(&f, 0, sizeof(f));
	f.kind = NET_SIM;
	f.world = sim_world_create(seed);
	f.net = sim_net_create(f.world);
	f.client_loop = sim_loop_create(f.world, "client");
	f.server_loop = sim_loop_create(f.world, "server");
	f.client_host = sim_host_create(f.net, "client");
	f.server_host = sim_host_create(f.net, "server");
	f.server_port = fixture_open_port(&f, true, NULL);
	f.client_port = fixture_open_port(&f, false, NULL);
	cr_assert_eq(split_listen(f.server_port, "sim://server:0", fixture_on_accept, &f,
			 f.address),
	    0);
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	send_requests(&f.client, 0, 100);
	fixture_run(&f, client_got, 50);
	(void)sim_net_reset(f.client_host, f.server_host);
	fixture_run(&f, client_closed, 0);
	hash = sim_world_trace_hash(f.world);
	fixture_close(&f);
	return hash;
}

Test(transport_sim, the_same_seed_gives_the_same_history)
{
	fixture_close(&f);
	cr_assert_eq(history(7), history(7));
	cr_assert_neq(history(7), history(8));
}

Test(transport_sim, names_of_hosts)
{
	cr_assert_null(sim_host_create(f.net, "client"));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(sim_host_create(f.net, "a:b"));
	cr_assert_null(sim_host_create(f.net, "a name that is by far too long for a host"));
	cr_assert_str_eq(sim_host_name(f.client_host), "client");
	cr_assert_eq(split_listen(f.server_port, "sim://client:1", fixture_on_accept, &f, NULL),
	    -EADDRNOTAVAIL);
	cr_assert_eq(split_listen(f.server_port, "tcp://127.0.0.1:0", fixture_on_accept, &f, NULL),
	    -ENOTSUP);
	fixture_close(&f);
}
