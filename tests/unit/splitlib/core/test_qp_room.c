/* SPDX-License-Identifier: Apache-2.0 */
/* test_qp_room.c -- how many queue pairs a port has room for, and for whom */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/split_fixture.h"

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(qp_room, .init = setup, .timeout = 100);

BOTH(qp_room, more_than_qp_count_max_is_refused)
{
	struct split_port_options options = { .qp_count_max = 1,
		.receive_count = 16,
		.device_bytes = NUM_MIB(8) };
	struct split_connect_options again = { .peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = &f.client };

	fixture_open(&f, kind, &options, &options);
	fixture_connect_both(&f);
	again.address = f.address;
	cr_assert_null(connect_qp(f.client_port, &again));
	cr_assert_eq(errno, ENOBUFS);
	fixture_close(&f);
}

static struct {
	uint32_t count;
	int rc;
	char peer[SPLIT_ADDRESS_BYTES_MAX];
} full;

static void
on_full(const char *peer, int rc, void *arg)
{
	cr_assert_eq(arg, &full);
	full.count++;
	full.rc = rc;
	(void)snprintf(full.peer, sizeof(full.peer), "%s", peer != NULL ? peer : "");
}

/* Connections: one more than the server's port has room for. */
static void
connect_beyond(enum net_kind kind, struct side *side)
{
	struct split_port_options options = { .qp_count_max = 1,
		.receive_count = 16,
		.device_bytes = NUM_MIB(8),
		.on_full = on_full,
		.on_full_arg = &full };
	struct split_connect_options again = { .peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = side };

	fixture_open(&f, kind, &options, NULL);
	fixture_connect_both(&f);
	again.address = f.address;
	side->qp = connect_qp(f.client_port, &again);
	cr_assert_not_null(side->qp);
}

static struct side newcomer;

static bool
newcomer_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return newcomer.closed_count > wanted;
}

BOTH(qp_room, who_comes_to_a_full_port_is_told_so)
{
	memset(&full, 0, sizeof(full));
	memset(&newcomer, 0, sizeof(newcomer));
	connect_beyond(kind, &newcomer);
	fixture_run(&f, newcomer_closed, 0);
	cr_assert_eq(newcomer.closed_rc, -EBUSY, "%d: %s", newcomer.closed_rc, newcomer.reason);
	cr_assert_str_eq(newcomer.reason,
	    "the peer refused: no room for more connections, it has 1");
	cr_assert_eq(newcomer.ready_count, 0);
	cr_assert_eq(full.count, 1);
	cr_assert_eq(full.rc, -ENOBUFS);
	cr_assert_neq(full.peer[0], '\0');
	cr_assert_eq(f.accept_count, 1);
	cr_assert_eq(f.server_port->counters.qps_refused, 1);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->surplus_count, 0);
	cr_assert_eq(f.server_port->qp_count, 1);
	/* With room again, it comes in. */
	split_qp_close(f.client.qp);
	fixture_run(&f, server_closed, 0);
	fixture_idle(&f);
	f.server.closed_count = f.server.ready_count = f.client.ready_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, both_ready, 0);
	fixture_close(&f);
}

static bool
refused_count_is(struct fixture *fixture, uint64_t wanted)
{
	return fixture->server_port->counters.qps_refused == wanted;
}

static bool
surplus_is_gone(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->server_port->surplus_count == 0;
}

static void
raw_connect(int *fds, uint32_t count)
{
	struct sockaddr_in to = { .sin_family = AF_INET };

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(strrchr(f.address, ':') + 1));
	for (uint32_t i = 0; i < count; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		cr_assert_geq(fds[i], 0);
		cr_assert_eq(connect(fds[i], (const struct sockaddr *)&to, sizeof(to)), 0);
	}
}

/* Whoever holds the places of those to be told has them for a moment; the others see a reset. */
Test(qp_room, silent_connections_beyond_the_room_are_bounded_and_leave)
{
	enum { COUNT = 40 };
	int fds[COUNT];

	memset(&full, 0, sizeof(full));
	memset(&newcomer, 0, sizeof(newcomer));
	connect_beyond(NET_TCP, &newcomer);
	fixture_run(&f, newcomer_closed, 0);
	raw_connect(fds, COUNT);
	fixture_run(&f, refused_count_is, 1 + COUNT);
	cr_assert_eq(f.server_port->surplus_count, 16);
	cr_assert_eq(f.server_port->qp_count, 1);
	cr_assert_eq(full.count, 1 + COUNT);
	fixture_run(&f, surplus_is_gone, 0);
	for (uint32_t i = 0; i < COUNT; i++)
		(void)close(fds[i]); /* nothing was written */
	fixture_close(&f);
}

enum { ROOM = 8, RESERVED = 3, COMERS = ROOM - RESERVED };

static struct {
	struct side comers[ROOM + 1], own[ROOM];
	struct side accepted; /* all of them at the client's port */
	char client_address[SPLIT_ADDRESS_BYTES_MAX];
} room;

static void
on_accept_of_client(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	(void)arg;
	split_qp_accept(qp, &side_ops, &room.accepted, NULL, 0);
}

static void
room_open(enum net_kind kind, uint32_t reserved_count)
{
	struct split_port_options options = { .qp_count_max = ROOM,
		.qp_reserved_count = reserved_count,
		.receive_count = 16,
		.device_bytes = NUM_MIB(8),
		.on_full = on_full,
		.on_full_arg = &full };

	memset(&full, 0, sizeof(full));
	memset(&room, 0, sizeof(room));
	fixture_open(&f, kind, &options, NULL);
	cr_assert_eq(split_listen(f.client_port, fixture_any_address(kind, "sim://client:0"),
			 on_accept_of_client, NULL, room.client_address),
	    0);
}

static struct side *awaited;

static bool
awaited_is_ready(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	(void)wanted;
	return awaited->ready_count == 1;
}

static bool
awaited_is_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	(void)wanted;
	return awaited->closed_count == 1;
}

/* NULL with errno, as connect_qp. */
static struct split_qp *
room_connect(struct split_port *port, const char *address, struct side *side)
{
	awaited = side;
	memset(side, 0, sizeof(*side));
	side->qp = connect_qp(port,
	    &(struct split_connect_options){ .peer_roles = FIXTURE_ROLES,
		.address = address,
		.ops = &side_ops,
		.arg = side,
		.timeout_ns = f.kind == NET_VERBS ? NUM_S(15) : 0 });
	return side->qp;
}

static void
comer_is_let_in(uint32_t index)
{
	cr_assert_not_null(room_connect(f.client_port, f.address, &room.comers[index]));
	fixture_run(&f, awaited_is_ready, 0);
}

static void
comer_is_told_that_there_is_no_room(uint32_t room_count)
{
	char reason[SPLIT_REASON_BYTES_MAX];
	uint32_t full_count = full.count;

	(void)snprintf(reason, sizeof(reason),
	    "the peer refused: no room for more connections, it has %u", room_count);
	cr_assert_not_null(room_connect(f.client_port, f.address, &room.comers[ROOM]));
	fixture_run(&f, awaited_is_closed, 0);
	cr_assert_eq(awaited->closed_rc, -EBUSY, "%d: %s", awaited->closed_rc, awaited->reason);
	cr_assert_str_eq(awaited->reason, reason);
	cr_assert_eq(full.count, full_count + 1);
	cr_assert_eq(full.rc, -ENOBUFS);
	cr_assert_eq(f.server_port->counters.qps_refused, full.count);
}

static void
own_is_let_out(uint32_t index)
{
	cr_assert_not_null(room_connect(f.server_port, room.client_address, &room.own[index]),
	    "%u: %d", index, errno);
	fixture_run(&f, awaited_is_ready, 0);
}

BOTH(qp_room, who_comes_leaves_room_for_those_that_a_port_makes)
{
	room_open(kind, RESERVED);
	for (uint32_t i = 0; i < COMERS; i++)
		comer_is_let_in(i);
	comer_is_told_that_there_is_no_room(COMERS);
	for (uint32_t i = 0; i < RESERVED; i++)
		own_is_let_out(i);
	cr_assert_null(room_connect(f.server_port, room.client_address, &room.own[RESERVED]));
	cr_assert_eq(errno, ENOBUFS);
	comer_is_told_that_there_is_no_room(COMERS);
	/* A connection of its own breaks, as when a node starts again: its place stays free meanwhile. */
	split_qp_close(room.own[0].qp);
	awaited = &room.own[0];
	fixture_run(&f, awaited_is_closed, 0);
	comer_is_told_that_there_is_no_room(COMERS);
	fixture_idle(&f); /* an RDMA device has its lanes for a moment longer */
	own_is_let_out(0);
	/* A connection of theirs ends: there is room for another of them. */
	split_qp_close(room.comers[0].qp);
	f.server.closed_count = 0;
	fixture_run(&f, server_closed, 0);
	fixture_idle(&f);
	comer_is_let_in(0);
	fixture_close(&f);
}

/* As at a port that only connects: a library's, say. */
BOTH(qp_room, what_a_port_makes_has_all_of_the_room)
{
	room_open(kind, RESERVED);
	for (uint32_t i = 0; i < ROOM; i++)
		own_is_let_out(i);
	cr_assert_null(room_connect(f.server_port, room.client_address, &room.own[0]));
	cr_assert_eq(errno, ENOBUFS);
	comer_is_told_that_there_is_no_room(COMERS);
	fixture_close(&f);
}

BOTH(qp_room, at_most_half_is_kept)
{
	room_open(kind, 100);
	for (uint32_t i = 0; i < ROOM / 2; i++)
		comer_is_let_in(i);
	comer_is_told_that_there_is_no_room(ROOM / 2);
	fixture_close(&f);
}
