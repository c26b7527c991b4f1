/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_tcp.c -- what a peer on a raw socket can do to a port
 *
 * The raw peer cuts the stream where it likes, breaks the protocol, says nothing, or dies. Whatever
 * it does, messages arrive whole or the queue pair closes with a reason, and no receive is lost.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "cleave/status.h"
#include "splitlib/core/port.h"
#include "splitlib/core/wire.h"
#include "splitlib/tcp/tcp.h"
#include "unit/split_fixture.h"

#define STREAM_BYTES_MAX (16u << 20)

static struct fixture f;
static uint8_t stream[STREAM_BYTES_MAX];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(transport_tcp, .init = setup, .timeout = 100);

/* Turns of the loop that do not sleep. */
static uint32_t spins_left;

static void
on_spin(struct loop_task *task, void *arg)
{
	struct loop *loop = arg;

	if (spins_left > 0)
		loop_defer(loop, task);
}

static bool
spin_is_over(void *arg)
{
	(void)arg;
	return spins_left == 0 || --spins_left == 0;
}

static void
spin(uint32_t turns)
{
	struct loop_task task;

	loop_task_init(&task, on_spin, f.server_loop);
	spins_left = turns;
	loop_defer(f.server_loop, &task);
	(void)loop_run(f.server_loop, spin_is_over, NULL);
	loop_task_cancel(f.server_loop, &task);
}

static struct sockaddr_in
raw_address(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	const char *colon = strrchr(address, ':');

	to.sin_port = htons((uint16_t)atoi(colon + 1));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return to;
}

static int
raw_connect(void)
{
	struct sockaddr_in to = raw_address(f.address);
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	return fd;
}

static void
raw_send(int fd, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	while (count > 0) {
		ssize_t sent = send(fd, at, count, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0) {
			cr_assert_eq(errno, EAGAIN);
			spin(4);
			continue;
		}
		at += sent;
		count -= (size_t)sent;
	}
}

/* Everything the library wrote. Returns the bytes; *@ret_is_closed: and then it closed. */
static size_t
raw_receive(int fd, void *bytes, size_t cap, bool *ret_is_closed)
{
	size_t have = 0;

	*ret_is_closed = false;
	for (uint32_t idle = 0; idle < 200 && have < cap;) {
		ssize_t got = recv(fd, (uint8_t *)bytes + have, cap - have, MSG_DONTWAIT);

		if (got > 0) {
			have += (size_t)got;
			idle = 0;
		} else if (got == 0 || errno != EAGAIN) {
			*ret_is_closed = true;
			break;
		} else {
			spin(2);
			idle++;
		}
	}
	return have;
}

static size_t
put_message(uint8_t *at, uint8_t opcode, uint64_t request_id, uint32_t payload_bytes)
{
	struct wire_header header = { .opcode = opcode, .request_id = request_id };

	wire_frame_stamp(&header, payload_bytes, 0);
	memcpy(at, &header, sizeof(header));
	for (uint32_t i = 0; i < payload_bytes; i++)
		at[sizeof(header) + i] = (uint8_t)(request_id * 7 + i * 13 + i / 256);
	return sizeof(header) + payload_bytes;
}

static void
check_message(struct split_msg *msg, uint64_t request_id, uint32_t payload_bytes)
{
	static uint8_t found[WIRE_PAYLOAD_BYTES_MAX];

	cr_assert_eq(msg->header->request_id, request_id);
	cr_assert_eq(msg->payload_bytes, payload_bytes);
	dev_copy_to_host(f.server_port, found, msg->payload, payload_bytes);
	for (uint32_t i = 0; i < payload_bytes; i++)
		cr_assert_eq(found[i], (uint8_t)(request_id * 7 + i * 13 + i / 256),
		    "message %u of %u bytes, byte %u", (unsigned)request_id, payload_bytes, i);
}

static void
open_server(uint32_t receive_count, uint32_t credits)
{
	struct split_port_options server = { .receive_count = receive_count,
		.qp_credits_max = credits,
		.device_bytes = (uint64_t)receive_count * 69632 + NUM_MIB(1) };
	struct split_port_options client = { .device_bytes = NUM_MIB(1) };

	fixture_open(&f, NET_TCP, &server, &client);
}

/* A raw peer behind its hello, and the answer read. */
static int
raw_connect_ready(void)
{
	struct wire_header answer;
	uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];
	uint32_t ready_count = f.server.ready_count;
	bool is_closed;
	int fd = raw_connect();

	raw_send(fd, hello, put_message(hello, WIRE_HELLO, 0, 4));
	cr_assert_eq(raw_receive(fd, &answer, sizeof(answer), &is_closed), sizeof(answer));
	cr_assert_eq(answer.opcode, WIRE_HELLO | WIRE_REPLY);
	cr_assert_eq(answer.status, 0);
	cr_assert_eq(answer.payload_bytes, 6);
	cr_assert_eq(raw_receive(fd, hello, 6, &is_closed), 6);
	cr_assert_eq(f.server.ready_count, ready_count + 1);
	return fd;
}

static void
release_held(void)
{
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	f.server.held_count = 0;
}

Test(transport_tcp, every_cut_of_a_stream)
{
	static const uint32_t sizes[] = { 70, 70, 0, 33, 200, 200, 64 };
	size_t bytes = 0;
	int fd;

	open_server(64, 32);
	for (uint32_t i = 0; i < NUM_COUNT(sizes); i++)
		bytes += put_message(stream + bytes, WIRE_ECHO, i, sizes[i]);
	fd = raw_connect_ready();
	for (size_t cut = 0; cut <= bytes; cut++) {
		raw_send(fd, stream, cut);
		spin(3);
		raw_send(fd, stream + cut, bytes - cut);
		fixture_run(&f, server_got, (cut + 1) * NUM_COUNT(sizes));
		cr_assert_eq(f.server.held_count, NUM_COUNT(sizes));
		for (uint32_t i = 0; i < NUM_COUNT(sizes); i++)
			check_message(f.server.held[i], i, sizes[i]);
		release_held();
		cr_assert_eq(split_port_receives_free(f.server_port), 64);
		spin(2);
	}
	(void)close(fd);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -ECONNRESET);
	fixture_close(&f);
}

Test(transport_tcp, every_pair_of_cuts_of_two_messages)
{
	size_t bytes = put_message(stream, WIRE_ECHO, 0, 9);
	uint32_t rounds = 0;
	int fd;

	open_server(64, 32);
	bytes += put_message(stream + bytes, WIRE_ECHO, 1, 5);
	fd = raw_connect_ready();
	for (size_t a = 0; a <= bytes; a += 3)
		for (size_t b = a; b <= bytes; b++) {
			raw_send(fd, stream, a);
			spin(2);
			raw_send(fd, stream + a, b - a);
			spin(2);
			raw_send(fd, stream + b, bytes - b);
			fixture_run(&f, server_got, 2u * ++rounds);
			check_message(f.server.held[0], 0, 9);
			check_message(f.server.held[1], 1, 5);
			release_held();
		}
	(void)close(fd);
	fixture_close(&f);
}

/* Mixed sizes, random cuts: guesses go wrong at every boundary. */
static void
mixed_run(uint64_t seed, bool is_uniform)
{
	static const uint32_t edges[] = { 0, 1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 8193,
		65536 };
	enum { COUNT = 300 };
	static uint32_t sizes[COUNT];
	uint64_t state[4];
	size_t bytes = 0, at = 0;
	uint64_t spill_bytes;
	int fd;

	setup();
	random_seed(state, seed);
	open_server(800, 600);
	f.server.mode = SIDE_HOLD;
	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t pick = random_below(state, 4);

		sizes[i] = 4096;
		if (!is_uniform && pick == 0)
			sizes[i] = edges[random_below(state, NUM_COUNT(edges))];
		else if (!is_uniform && pick == 1)
			sizes[i] = (uint32_t)random_below(state, 9000);
		else if (!is_uniform && i > 0)
			sizes[i] = sizes[i - 1];
		bytes += put_message(stream + bytes, WIRE_ECHO, i, sizes[i]);
	}
	fd = raw_connect_ready();
	while (at < bytes) {
		size_t part = (size_t)num_min(bytes - at,
		    1 + random_below(state, random_below(state, 2) == 0 ? 300 : 100000));

		raw_send(fd, stream + at, part);
		at += part;
		spin((uint32_t)random_below(state, 4));
	}
	fixture_run(&f, server_got, COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		check_message(f.server.held[i], i, sizes[i]);
	release_held();
	spill_bytes = f.server_port->counters.spill_bytes;
	cr_assert_leq(spill_bytes, bytes, "seed %u", (unsigned)seed);
	cr_assert_eq(spill_bytes == 0, is_uniform, "seed %u", (unsigned)seed);
	cr_assert_eq(f.server_port->counters.device_bytes_in, bytes - COUNT * WIRE_HEADER_BYTES);
	cr_assert_eq(split_port_receives_free(f.server_port), 800);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, mixed_sizes_and_random_cuts)
{
	for (uint64_t seed = 1; seed <= 12; seed++)
		mixed_run(seed, false);
}

Test(transport_tcp, one_size_is_never_copied_again)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		mixed_run(seed, true);
}

Test(transport_tcp, one_readv_fills_many_receives)
{
	enum { COUNT = 320 };
	size_t bytes = 0;
	int fd;

	open_server(800, 600);
	for (uint32_t i = 0; i < COUNT; i++)
		bytes += put_message(stream + bytes, WIRE_ECHO, i, 4096);
	fd = raw_connect_ready();
	raw_send(fd, stream, bytes);
	fixture_run(&f, server_got, COUNT);
	cr_assert_lt(f.server_port->counters.receive_calls, COUNT / 8);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, one_readv_takes_many_of_lengths_that_vary)
{
	enum { COUNT = 320 };
	size_t bytes = 0;
	int fd;

	open_server(800, 600);
	for (uint32_t i = 0; i < COUNT; i++)
		bytes += put_message(stream + bytes, WIRE_ECHO, i, 500 + i * 7 % 400);
	fd = raw_connect_ready();
	raw_send(fd, stream, bytes);
	fixture_run(&f, server_got, COUNT);
	cr_assert_lt(f.server_port->counters.receive_calls, COUNT / 8);
	(void)close(fd);
	fixture_close(&f);
}

/* Whoever sends one request at a time reads each answer once, and does not ask whether there is more. */
Test(transport_tcp, the_only_answer_that_is_due_takes_one_call)
{
	enum { ROUNDS = 200 };
	struct split_port_options options = { .receive_count = 64,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(2) };
	struct test_send send;
	uint64_t before;

	fixture_open(&f, NET_TCP, &options, &options);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	fixture_connect_both(&f);
	before = f.client_port->counters.receive_calls;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		test_send_init(&send, &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &send.send), 0);
		fixture_run(&f, client_got, i + 1);
	}
	cr_assert_leq(f.client_port->counters.receive_calls - before, ROUNDS + ROUNDS / 10);
	fixture_close(&f);
}

Test(transport_tcp, guesses_need_spare_receives_and_do_without)
{
	/* All that the pool has is promised: no guess, no spill, and it works. */
	enum { COUNT = 9 };
	size_t bytes = 0;
	int fd;

	open_server(12, 9);
	for (uint32_t i = 0; i < COUNT; i++)
		bytes += put_message(stream + bytes, WIRE_ECHO, i, i % 2 == 0 ? 4096 : 100);
	fd = raw_connect_ready();
	raw_send(fd, stream, bytes);
	fixture_run(&f, server_got, COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		check_message(f.server.held[i], i, i % 2 == 0 ? 4096 : 100);
	(void)close(fd);
	fixture_close(&f);
}

/* A broken message closes its queue pair, names the field, and leaves the port well. */
static void
broken_check(const struct wire_header *header, bool must_seal, const char *field)
{
	struct wire_header broken = *header;
	uint64_t errors = f.server_port->counters.protocol_errors;
	int fd;

	f.server.closed_count = 0;
	fd = raw_connect_ready();
	if (must_seal)
		broken.header_crc = crc32c(0, &broken, 60);
	raw_send(fd, &broken, sizeof(broken));
	fixture_run(&f, server_closed, 0);
	cr_assert(f.server.closed_rc == -EPROTO || f.server.closed_rc == -EPROTONOSUPPORT);
	cr_assert_not_null(strstr(f.server.reason, field), "%s is not in: %s", field,
	    f.server.reason);
	cr_assert_eq(f.server_port->counters.protocol_errors, errors + 1);
	cr_assert_eq(f.server.message_count, 0);
	cr_assert_eq(split_port_receives_free(f.server_port), 64);
	(void)close(fd);
	f.server.closed_count = 0;
}

Test(transport_tcp, broken_messages_close_their_queue_pair)
{
	struct wire_header good = { .opcode = WIRE_ECHO }, bad;

	open_server(64, 32);
	wire_frame_stamp(&good, 0, 0);
	bad = good;
	bad.magic++;
	broken_check(&bad, true, "magic");
	bad = good;
	bad.version++;
	broken_check(&bad, true, "version");
	bad = good;
	bad.header_crc++;
	broken_check(&bad, false, "header_crc");
	bad = good;
	bad.reserved = 1;
	broken_check(&bad, true, "reserved");
	bad = good;
	bad.payload_bytes = WIRE_PAYLOAD_BYTES_MAX + 1;
	broken_check(&bad, true, "payload_bytes");
	bad.payload_bytes = 65537; /* more than a receive of this pool holds */
	broken_check(&bad, true, "payload_bytes");
	bad = good;
	bad.opcode = WIRE_ECHO | WIRE_REPLY;
	broken_check(&bad, true, "nothing was asked");
	bad.opcode = WIRE_HELLO;
	broken_check(&bad, true, "opcode");
	bad.opcode = WIRE_CREDIT | WIRE_REPLY;
	broken_check(&bad, true, "opcode");
	bad.opcode = WIRE_CREDIT;
	bad.payload_bytes = 1;
	broken_check(&bad, true, "payload_bytes");
	bad.payload_bytes = 0;
	bad.flags = 0x8000;
	broken_check(&bad, true, "flags");
	bad.flags = 0;
	bad.length_bytes = 1;
	broken_check(&bad, true, "length_bytes");
	bad.flags = WIRE_CREDIT_RETURN;
	bad.length_bytes = 33; /* it was granted 32 */
	broken_check(&bad, true, "length_bytes");
	fixture_close(&f);
}

Test(transport_tcp, credits_beyond_all_reason_are_refused)
{
	size_t bytes = 0;
	int fd;

	open_server(64, 32);
	fd = raw_connect_ready();
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_header header = { .opcode = WIRE_CREDIT };

		wire_frame_stamp(&header, 0, UINT16_MAX);
		memcpy(stream + bytes, &header, sizeof(header));
		bytes += sizeof(header);
	}
	raw_send(fd, stream, bytes);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EPROTO);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, request_without_credit_closes)
{
	size_t bytes = 0;
	int fd;

	open_server(64, 4);
	fd = raw_connect_ready();
	for (uint32_t i = 0; i < 5; i++)
		bytes += put_message(stream + bytes, WIRE_ECHO, i, 0);
	raw_send(fd, stream, bytes);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EPROTO);
	cr_assert_not_null(strstr(f.server.reason, "no credit"));
	cr_assert_eq(f.server.message_count, 4); /* those that had one */
	release_held();
	cr_assert_eq(split_port_receives_free(f.server_port), 64);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, random_bytes_close_the_connection_only)
{
	uint64_t state[4];

	open_server(64, 32);
	random_seed(state, 5);
	for (uint32_t round = 0; round < 50; round++) {
		uint8_t noise[512];
		bool is_closed;
		int fd = raw_connect();

		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)random_u64(state);
		raw_send(fd, noise, WIRE_HEADER_BYTES + random_below(state, 400));
		cr_assert_eq(raw_receive(fd, noise, sizeof(noise), &is_closed), 0);
		cr_assert(is_closed);
		(void)close(fd);
	}
	spin(5);
	cr_assert_eq(f.accept_count, 0);
	cr_assert_eq(f.server_port->qp_count, 0);
	cr_assert_eq(f.server_port->counters.protocol_errors, 50);
	(void)close(raw_connect_ready());
	fixture_close(&f);
}

Test(transport_tcp, first_message_that_is_no_hello_closes)
{
	bool is_closed;
	int fd;

	open_server(64, 32);
	fd = raw_connect();
	raw_send(fd, stream, put_message(stream, WIRE_ECHO, 1, 4));
	cr_assert_eq(raw_receive(fd, stream, 64, &is_closed), 0);
	cr_assert(is_closed);
	(void)close(fd);
	fd = raw_connect();
	raw_send(fd, stream, put_message(stream, WIRE_HELLO, 1, WIRE_HELLO_BYTES + 1));
	cr_assert_eq(raw_receive(fd, stream, 64, &is_closed), 0);
	cr_assert(is_closed);
	(void)close(fd);
	cr_assert_eq(f.accept_count, 0);
	fixture_close(&f);
}

Test(transport_tcp, hello_of_another_version_is_told)
{
	struct wire_header hello = { .opcode = WIRE_HELLO }, answer;
	bool is_closed;
	int fd;

	open_server(64, 32);
	fd = raw_connect();
	wire_frame_stamp(&hello, 0, 0);
	hello.version++;
	hello.header_crc = crc32c(0, &hello, 60);
	raw_send(fd, &hello, sizeof(hello));
	cr_assert_eq(raw_receive(fd, &answer, sizeof(answer), &is_closed), sizeof(answer));
	cr_assert_eq(answer.opcode, WIRE_HELLO | WIRE_REPLY);
	cr_assert_eq(answer.status, CLEAVE_STATUS_VERSION);
	cr_assert_eq(raw_receive(fd, stream, 1, &is_closed), 0);
	cr_assert(is_closed);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, slow_loris_is_cut_off)
{
	struct split_port_options options = { .receive_count = 16,
		.device_bytes = NUM_MIB(4),
		.keepalive_ns = NUM_MS(50) };
	struct pollfd poll_fd;
	bool is_closed;
	int fd;

	fixture_open(&f, NET_TCP, &options, NULL);
	fd = raw_connect();
	(void)put_message(stream, WIRE_HELLO, 0, 0);
	for (uint32_t i = 0; i < 10; i++) {
		raw_send(fd, stream + i, 1);
		spin(2);
	}
	cr_assert_eq(f.server_port->qp_count, 1);
	(void)fixture_run_for(&f, never, 0, NUM_MS(120));
	cr_assert_eq(f.server_port->qp_count, 0);
	poll_fd = (struct pollfd){ .fd = fd, .events = POLLIN };
	cr_assert_eq(poll(&poll_fd, 1, 1000), 1);
	cr_assert_eq(raw_receive(fd, stream, 1, &is_closed), 0);
	cr_assert(is_closed);
	cr_assert_eq(f.accept_count, 0);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, death_in_the_middle_of_a_message_loses_no_receive)
{
	size_t bytes = put_message(stream, WIRE_ECHO, 0, 100);

	open_server(64, 32);
	bytes += put_message(stream + bytes, WIRE_ECHO, 1, 20000);
	for (size_t cut = 1; cut < bytes; cut += cut < 300 ? 7 : 2500) {
		int fd = raw_connect_ready();

		f.server.closed_count = 0;
		raw_send(fd, stream, cut);
		spin(3);
		(void)close(fd);
		fixture_run(&f, server_closed, 0);
		f.server.closed_count = 0;
		cr_assert_eq(f.server.closed_rc, -ECONNRESET);
		for (uint32_t i = 0; i < f.server.held_count; i++)
			cr_assert_null(f.server.held[i]->qp);
		release_held();
		cr_assert_eq(split_port_receives_free(f.server_port), 64);
		cr_assert_eq(f.server_port->credits.granted_count, 0);
	}
	fixture_close(&f);
}

static uint32_t turn_count;

static bool
count_turns(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	(void)wanted;
	turn_count++;
	return false;
}

Test(transport_tcp, running_out_of_descriptors_does_not_spin)
{
	struct rlimit old, low;
	int fd, fds[64], fd_count = 0;

	open_server(64, 32);
	fd = raw_connect();
	/* Fill the table up to a limit just above what is open. */
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)fd + 2;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (fd_count < 64 && (fds[fd_count] = dup(0)) >= 0)
		fd_count++;
	turn_count = 0;
	(void)fixture_run_for(&f, count_turns, 0, NUM_MS(50));
	cr_assert_lt(turn_count, 20, "the loop spins");
	cr_assert_eq(f.server_port->qp_count, 0);
	cr_assert_geq(f.server_port->counters.accept_pauses, 1,
	    "whoever reads the log hears of it");
	while (fd_count > 0)
		(void)close(fds[--fd_count]);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	(void)fixture_run_for(&f, never, 0, NUM_MS(150));
	cr_assert_eq(f.server_port->qp_count, 1);
	(void)close(fd);
	fixture_close(&f);
}

Test(transport_tcp, ipv6_and_localhost)
{
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct split_connect_options options = { .address = address,
		.ops = &side_ops,
		.arg = &f.client };
	int rc;

	fixture_open(&f, NET_TCP, NULL, NULL);
	cr_assert_eq(split_listen(f.server_port, "tcp://localhost:0", fixture_on_accept, &f,
			 address),
	    0);
	cr_assert_eq(strncmp(address, "tcp://127.0.0.1:", 16), 0);
	rc = split_listen(f.server_port, "tcp://[::1]:0", fixture_on_accept, &f, address);
	if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT) {
		fixture_close(&f);
		cr_skip_test("no IPv6 here");
	}
	cr_assert_eq(rc, 0);
	cr_assert_eq(strncmp(address, "tcp://[::1]:", 12), 0);
	f.client.qp = connect_qp(f.client_port, &options);
	fixture_run(&f, both_ready, 0);
	cr_assert_str_eq(split_qp_peer(f.client.qp), address);
	fixture_close(&f);
}

Test(transport_tcp, sockets_are_set_up)
{
	static const struct {
		int level, option, value;
	} wanted[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 10000 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 7 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 1 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
	};
	const struct tcp_qp *tcp;

	fixture_open(&f, NET_TCP, NULL, NULL);
	fixture_connect_both(&f);
	tcp = f.client.qp->transport;
	for (size_t i = 0; i < NUM_COUNT(wanted); i++) {
		socklen_t bytes = sizeof(int);
		int value = 0;

		cr_assert_eq(getsockopt(tcp->watcher.fd, wanted[i].level, wanted[i].option, &value,
				 &bytes),
		    0);
		cr_assert_eq(value, wanted[i].value, "option %zu: %d", i, value);
	}
	fixture_close(&f);
}

/* The library as the connector, a raw listener that is slow to read. */
Test(transport_tcp, a_slow_reader_blocks_nothing_but_itself)
{
	enum { COUNT = 48 };
	static struct test_send sends[COUNT];
	struct sockaddr_in here = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(here);
	struct wire_header answer = { .opcode = WIRE_HELLO | WIRE_REPLY };
	struct wire_header hello;
	size_t wanted = COUNT * (size_t)(WIRE_HEADER_BYTES + WIRE_PAYLOAD_BYTES_MAX), have;
	bool is_closed;
	dev_ptr payload;
	int listen_fd = socket(AF_INET, SOCK_STREAM, 0), fd;

	fixture_open(&f, NET_TCP, NULL, NULL);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listen_fd, (struct sockaddr *)&here, sizeof(here)), 0);
	cr_assert_eq(listen(listen_fd, 1), 0);
	cr_assert_eq(getsockname(listen_fd, (struct sockaddr *)&here, &bytes), 0);
	(void)snprintf(f.address, sizeof(f.address), "tcp://127.0.0.1:%u", ntohs(here.sin_port));
	(void)fixture_connect(&f, &side_ops);
	spin(3);
	fd = accept(listen_fd, NULL, NULL);
	cr_assert_geq(fd, 0);
	cr_assert_eq(raw_receive(fd, &hello, sizeof(hello), &is_closed), sizeof(hello));
	cr_assert_eq(hello.opcode, WIRE_HELLO);
	cr_assert_eq(raw_receive(fd, stream, 6, &is_closed), 6);
	wire_frame_stamp(&answer, 0, 1000);
	raw_send(fd, &answer, sizeof(answer));
	spin(5);
	cr_assert_eq(f.client.ready_count, 1);

	payload = pattern_alloc(f.client_port, WIRE_PAYLOAD_BYTES_MAX, 1);
	for (uint32_t i = 0; i < COUNT; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, WIRE_PAYLOAD_BYTES_MAX);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	spin(20);
	cr_assert_lt(f.client.sent_count, COUNT); /* the socket's buffers are full */
	have = raw_receive(fd, stream, wanted, &is_closed);
	cr_assert_eq(have, wanted);
	cr_assert_eq(f.client.sent_count, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		const uint8_t *at = stream +
		    i * (size_t)(WIRE_HEADER_BYTES + WIRE_PAYLOAD_BYTES_MAX);
		const char *field = NULL;
		struct wire_header header;

		memcpy(&header, at, sizeof(header));
		cr_assert_eq(wire_frame_check(&header, &field), 0, "%s", field);
		cr_assert_eq(header.request_id, i);
		cr_assert_eq(memcmp(at + 64, stream + 64, WIRE_PAYLOAD_BYTES_MAX), 0);
	}
	(void)close(fd);
	(void)close(listen_fd);
	fixture_close(&f);
}

Test(transport_tcp, a_blocked_sender_can_close)
{
	static struct test_send sends[40];
	struct split_port_options options = { .device_bytes = NUM_MIB(2) };
	dev_ptr payload;

	f.is_without_handlers = true;
	fixture_open(&f, NET_TCP, &options, NULL);
	(void)fixture_connect(&f, &side_ops);
	spin(10);
	cr_assert_eq(f.client.ready_count, 1);
	payload = pattern_alloc(f.client_port, WIRE_PAYLOAD_BYTES_MAX, 1);
	f.client.qp->credits = 40; /* as if receives had been posted */
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, WIRE_PAYLOAD_BYTES_MAX);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	spin(20);
	cr_assert_lt(f.client.sent_count, NUM_COUNT(sends));
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.sent_count + f.client.failed_count, NUM_COUNT(sends));
	cr_assert_eq(f.client.failed_rc, -ECANCELED);
	fixture_close(&f);
}
