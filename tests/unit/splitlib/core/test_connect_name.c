/* SPDX-License-Identifier: Apache-2.0 */
/* test_connect_name.c -- queue pairs to names: their addresses in turn, in time; closed at any moment */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "splitlib/core/alloc.h"
#include "unit/lookup.h"
#include "unit/split_fixture.h"

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(connect_name, .init = setup, .timeout = 60);

/* A server at 127.0.0.1, and @name with its port. */
static void
open_as(const char *name)
{
	fixture_open(&f, NET_TCP, NULL, NULL);
	memmove(f.server.hello, strrchr(f.address, ':'), 8);
	(void)snprintf(f.address, sizeof(f.address), "tcp://%s%s", name, f.server.hello);
	memset(f.server.hello, 0, sizeof(f.server.hello));
}

static void
expect_refused(const char *text)
{
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNREFUSED, "%d", f.client.closed_rc);
	cr_assert_not_null(strstr(f.client.reason, text), "'%s': '%s'", text, f.client.reason);
	cr_assert_eq(f.client.ready_count, 0);
}

Test(connect_name, a_name_is_connected_to)
{
	static const char *const addresses[] = { "127.0.0.1" };

	lookup_set(addresses, 1);
	open_as("gw1.example");
	fixture_connect(&f, &side_ops);
	cr_assert_str_eq(split_qp_peer(f.client.qp), f.address, "its name until it is known");
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(strncmp(split_qp_peer(f.client.qp), "tcp://127.0.0.1:", 16), 0);
	fixture_close(&f);
}

Test(connect_name, the_system_knows_this_machines_name)
{
	open_as("LOCALHOST"); /* no number, in these letters; ::1 may be its first address */
	fixture_connect_both(&f);
	fixture_close(&f);
}

Test(connect_name, a_number_is_not_looked_up)
{
	lookup_set(NULL, 0);
	open_as("127.0.0.1");
	fixture_connect_both(&f);
	cr_assert_eq(lookup_table.asked_count, 0);
	cr_assert_null(f.client_port->desk);
	fixture_close(&f);
}

Test(connect_name, the_first_that_is_there_wins)
{
	static const char *const addresses[] = { "127.0.0.2", "::1", "127.0.0.3", "127.0.0.1" };

	lookup_set(addresses, 4);
	open_as("gw1.example");
	fixture_connect_both(&f);
	cr_assert_eq(f.client.closed_count, 0, "nobody hears of those where nobody is");
	cr_assert_eq(f.accept_count, 1);
	cr_assert_eq(f.client_port->qp_count, 1);
	fixture_close(&f);
}

Test(connect_name, all_that_refuse_are_one_refusal)
{
	static const char *const addresses[] = { "127.0.0.2", "127.0.0.3" };

	lookup_set(addresses, 2);
	open_as("gw1.example");
	fixture_connect(&f, &side_ops);
	expect_refused("Connection refused (127.0.0.3:");
	cr_assert_not_null(strstr(f.client.reason, "2 of 2"));
	fixture_close(&f);
}

Test(connect_name, a_name_of_nobody_says_so)
{
	lookup_set(NULL, 0);
	open_as("nobody.example");
	fixture_connect(&f, &side_ops);
	expect_refused("nobody.example: Name or service not known");
	fixture_close(&f);
}

/* A socket that answers nobody: its backlog is full. */
static void
silent_open(const char *host, const char *port, int fds[4])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	cr_assert_eq(inet_pton(AF_INET, host, &at.sin_addr), 1);
	for (uint32_t i = 0; i < 4; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(fds[0], (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fds[0], 0), 0);
	for (uint32_t i = 1; i < 4; i++)
		(void)connect(fds[i], (struct sockaddr *)&at, sizeof(at));
}

Test(connect_name, a_silent_address_has_a_part_of_the_time)
{
	static const char *const addresses[] = { "127.0.0.2", "127.0.0.1" };
	int fds[4];

	lookup_set(addresses, 2);
	open_as("gw1.example");
	silent_open("127.0.0.2", strrchr(f.address, ':') + 1, fds);
	fixture_connect(&f, &side_ops); /* 5 s, of which this one may have half */
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(f.client.closed_count, 0);
	for (uint32_t i = 0; i < 4; i++)
		(void)close(fds[i]);
	fixture_close(&f);
}

Test(connect_name, a_look_up_that_hangs_ends_in_time_and_holds_nobody)
{
	static const char *const addresses[] = { "127.0.0.1" };
	struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
		.timeout_ns = NUM_MS(100),
		.ops = &side_ops,
		.arg = &f.client };
	char name[SPLIT_ADDRESS_BYTES_MAX];
	struct side hung;

	lookup_set(addresses, 1);
	open_as("gw1.example");
	(void)snprintf(name, sizeof(name), "tcp://held.example%s", strrchr(f.address, ':'));
	options.address = name;
	cr_assert_not_null(connect_qp(f.client_port, &options));
	lookup_wait_asked(1);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	cr_assert_not_null(strstr(f.client.reason, "held.example: the name was not looked up"));
	hung = f.client;
	memset(&f.client, 0, sizeof(f.client));
	fixture_connect_both(&f);
	cr_assert_eq(hung.ready_count, 0);
	fixture_close(&f);
	lookup_drain();
}

Test(connect_name, one_is_closed_while_its_name_is_looked_up)
{
	static const char *const addresses[] = { "127.0.0.1" };

	lookup_set(addresses, 1);
	open_as("held.example");
	fixture_connect(&f, &side_ops);
	lookup_wait_asked(1);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, 0);
	lookup_drain();
	fixture_idle(&f);
	cr_assert_eq(f.client.ready_count, 0);
	cr_assert_eq(f.accept_count, 0);
	fixture_close(&f);
}

Test(connect_name, a_port_and_its_loop_end_while_a_name_is_looked_up)
{
	static const char *const addresses[] = { "127.0.0.1" };

	lookup_set(addresses, 1);
	open_as("held.example");
	fixture_connect(&f, &side_ops);
	lookup_wait_asked(1);
	fixture_close(&f);
	lookup_drain();
	while (split_alloc_live_count() > 0)
		(void)sched_yield();
}

Test(connect_name, one_is_closed_between_two_addresses)
{
	static const char *const addresses[] = { "127.0.0.2", "127.0.0.1" };
	int fds[4];

	lookup_set(addresses, 2);
	open_as("gw1.example");
	silent_open("127.0.0.2", strrchr(f.address, ':') + 1, fds);
	fixture_connect(&f, &side_ops);
	lookup_wait_asked(1);
	fixture_idle(&f); /* it is at the first one now */
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, 0);
	cr_assert_eq(f.accept_count, 0);
	for (uint32_t i = 0; i < 4; i++)
		(void)close(fds[i]);
	fixture_close(&f);
}

/* A gateway's move to another machine, as whoever knows its name sees it. */
Test(connect_name, who_has_moved_is_found_again)
{
	static const char *const before[] = { "127.0.0.1" }, *const after[] = { "127.0.0.3" };
	char moved[SPLIT_ADDRESS_BYTES_MAX];

	lookup_set(before, 1);
	open_as("gw1.example");
	fixture_connect_both(&f);
	/* The machine that it was at is gone, and with it who listened there. */
	split_qp_close(f.server.qp);
	fixture_run(&f, client_closed, 0);
	split_port_close(f.server_port);
	f.server_port = open_roce_instance(&(struct split_port_options){ .loop = f.server_loop });
	(void)snprintf(moved, sizeof(moved), "tcp://127.0.0.3%s", strrchr(f.address, ':'));
	cr_assert_eq(split_listen(f.server_port, moved, fixture_on_accept, &f, NULL), 0);
	memset(&f.client, 0, sizeof(f.client));
	memset(&f.server, 0, sizeof(f.server));
	fixture_connect(&f, &side_ops);
	expect_refused("127.0.0.1:"); /* the name server does not know yet */
	lookup_set(after, 1);
	memset(&f.client, 0, sizeof(f.client));
	f.server_ops = &(
	    struct split_qp_ops){ .on_ready = side_on_ready, .on_closed = side_on_closed };
	fixture_connect(&f, f.server_ops);
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(strncmp(split_qp_peer(f.client.qp), "tcp://127.0.0.3:", 16), 0);
	cr_assert_eq(lookup_table.asked_count, 3, "at each attempt");
	fixture_close(&f);
}

Test(connect_name, a_refusal_is_an_answer)
{
	static const char *const addresses[] = { "127.0.0.1", "127.0.0.1" };

	lookup_set(addresses, 2);
	open_as("gw1.example");
	f.is_rejecting = true;
	fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_neq(f.client.closed_rc, -ECONNREFUSED);
	cr_assert_eq(f.accept_count, 1, "it is not asked for elsewhere");
	fixture_close(&f);
}

Test(connect_name, a_port_listens_at_a_name)
{
	static const char *const addresses[] = { "192.0.2.1", "127.0.0.1" };
	static const char *const strangers[] = { "192.0.2.1" };
	char address[SPLIT_ADDRESS_BYTES_MAX];

	fixture_open(&f, NET_TCP, NULL, NULL);
	lookup_set(addresses, 2);
	cr_assert_eq(split_listen(f.server_port, "tcp://gw1.example:0", fixture_on_accept, &f,
			 address),
	    0);
	cr_assert_eq(strncmp(address, "tcp://127.0.0.1:", 16), 0);
	lookup_set(strangers, 1);
	cr_assert_eq(split_listen(f.server_port, "tcp://gw1.example:0", fixture_on_accept, &f,
			 address),
	    -EADDRNOTAVAIL);
	cr_assert_str_eq(split_port_reason(f.server_port),
	    "gw1.example is no address of this machine");
	lookup_set(NULL, 0);
	cr_assert_eq(split_listen(f.server_port, "tcp://gw1.example:0", fixture_on_accept, &f,
			 address),
	    -EADDRNOTAVAIL);
	cr_assert_str_eq(split_port_reason(f.server_port),
	    "gw1.example: Name or service not known");
	fixture_close(&f);
}

Test(connect_name, the_nth_allocation_fails)
{
	static const char *const addresses[] = { "127.0.0.2", "127.0.0.1" };
	struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = &f.client };
	bool has_failed = true;

	lookup_set(addresses, 2);
	open_as("gw1.example");
	options.address = f.address;
	for (uint32_t nth = 1; has_failed; nth++) {
		memset(&f.client, 0, sizeof(f.client));
		memset(&f.server, 0, sizeof(f.server));
		split_alloc_fail_at(nth);
		f.client.qp = connect_qp(f.client_port, &options);
		if (f.client.qp == NULL)
			cr_assert_eq(errno, ENOMEM);
		while (
		    f.client.qp != NULL && f.client.closed_count == 0 && f.client.ready_count == 0)
			(void)fixture_run_for(&f, client_closed, 0, NUM_MS(20));
		has_failed = alloc_has_failed(ALLOC_SPLIT);
		split_alloc_fail_at(0);
		if (f.client.qp == NULL || f.client.closed_count > 0)
			continue;
		split_qp_close(f.client.qp);
		fixture_run(&f, client_closed, 0);
	}
	fixture_close(&f);
}
