/* SPDX-License-Identifier: Apache-2.0 */
/* test_qp.c -- a queue pair's life, from hello to on_closed, over TCP and the simulated network */
#include "splitlib/core/alloc.h"
#include "splitlib/core/device_memory.h"
#include "unit/split_fixture.h"

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(qp, .init = setup, .timeout = 100);

static bool
server_asked(struct fixture *fixture, uint64_t wanted)
{
	return fixture->accept_count >= wanted;
}

BOTH(qp, hellos_are_exchanged)
{
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	cr_assert_eq(f.accept_count, 1);
	cr_assert_str_eq(f.server.hello, "client");
	cr_assert_str_eq(f.client.hello, "server");
	cr_assert_eq(f.client.hello_bytes, 6);
	cr_assert_eq(split_qp_port(f.client.qp), f.client_port);
	cr_assert_eq(split_qp_arg(f.client.qp), &f.client);
	cr_assert_str_eq(split_qp_peer(f.client.qp), f.address);
	cr_assert_eq(f.client_port->counters.qps_opened, 1);
	fixture_close(&f);
	cr_assert_eq(f.client.closed_count, 1);
	cr_assert_eq(f.client.closed_rc, 0);
	cr_assert_eq(f.server.closed_count, 1);
}

BOTH(qp, hello_of_56_bytes_passes_and_57_is_refused)
{
	uint8_t hello[WIRE_HELLO_BYTES + 1] = { 1, 2, 3 };
	struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
		.hello = hello,
		.ops = &side_ops,
		.arg = &f.client };

	fixture_open(&f, kind, NULL, NULL);
	options.address = f.address;
	options.hello_bytes = WIRE_HELLO_BYTES + 1;
	cr_assert_null(connect_qp(f.client_port, &options));
	cr_assert_eq(errno, EINVAL);
	options.hello_bytes = WIRE_HELLO_BYTES;
	f.client.qp = connect_qp(f.client_port, &options);
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(f.server.hello_bytes, WIRE_HELLO_BYTES);
	cr_assert_arr_eq(f.server.hello, hello, WIRE_HELLO_BYTES);
	fixture_close(&f);
}

BOTH(qp, rejection_tells_why)
{
	fixture_open(&f, kind, NULL, NULL);
	f.is_rejecting = true;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EXDEV);
	cr_assert_eq(f.client.ready_count, 0);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->qp_count, 0);
	cr_assert_eq(f.client_port->qp_count, 0);
	fixture_close(&f);
	cr_assert_eq(f.client.closed_count, 1);
	cr_assert_eq(f.server.closed_count, 0);
}

BOTH(qp, accept_may_come_later)
{
	fixture_open(&f, kind, NULL, NULL);
	f.is_undecided = true;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, server_asked, 1);
	fixture_idle(&f);
	cr_assert_eq(f.client.ready_count, 0);
	split_qp_accept(f.server.qp, &side_ops, &f.server, NULL, 0);
	cr_assert_eq(f.server.ready_count, 0); /* not from inside */
	fixture_run(&f, both_ready, 0);
	cr_assert_eq(f.client.hello_bytes, 0);
	fixture_close(&f);
}

BOTH(qp, accept_of_one_that_died_meanwhile_ends_in_on_closed)
{
	fixture_open(&f, kind, NULL, NULL);
	f.is_undecided = true;
	split_qp_close(fixture_connect(&f, &side_ops)); /* before anything: on_closed alone */
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, 0);
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, server_asked, 1);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	fixture_idle(&f);
	/* The RDMA connection manager tells nobody of a request that was withdrawn before its answer. */
	if (kind != NET_VERBS)
		cr_assert_eq(split_qp_state(f.server.qp), SPLIT_QP_CLOSED);
	split_qp_accept(f.server.qp, &side_ops, &f.server, NULL, 0);
	cr_assert_eq(f.server.closed_count, 0); /* not from inside */
	fixture_run(&f, server_closed, 0);
	if (kind != NET_VERBS)
		cr_assert_eq(f.server.ready_count, 0);
	cr_assert_eq(f.server.closed_rc, -ECONNRESET);
	cr_assert_eq(f.server_port->qp_count, 0);
	fixture_close(&f);
}

BOTH(qp, port_may_close_while_a_queue_pair_is_undecided)
{
	fixture_open(&f, kind, NULL, NULL);
	f.is_undecided = true;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, server_asked, 1);
	split_port_close(f.server_port);
	f.server_port = NULL;
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.server.closed_count, 0); /* its owner never took it */
	split_port_close(NULL);
	fixture_close(&f);
}

BOTH(qp, reject_of_one_that_died_meanwhile_frees_it)
{
	fixture_open(&f, kind, NULL, NULL);
	f.is_undecided = true;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, server_asked, 1);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	fixture_idle(&f);
	split_qp_reject(f.server.qp, -EXDEV);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->qp_count, 0);
	fixture_close(&f);
}

BOTH(qp, nobody_listening_is_refused)
{
	fixture_open(&f, kind, NULL, NULL);
	split_port_close(f.server_port);
	f.server_port = NULL;
	(void)fixture_connect(&f, &side_ops);
	cr_assert_eq(f.client.closed_count, 0);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNREFUSED);
	fixture_close(&f);
}

BOTH(qp, listener_that_never_answers_times_out)
{
	struct split_connect_options options = {
		.peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = &f.client,
		.timeout_ns = NUM_MS(20),
	};

	if (kind == NET_VERBS)
		options.timeout_ns = NUM_S(1);
	fixture_open(&f, kind, NULL, NULL);
	f.is_undecided = true;
	options.address = f.address;
	f.client.qp = connect_qp(f.client_port, &options);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT);
	fixture_idle(&f);
	/* On a busy machine the time may be over before the listener was asked. */
	if (f.server.qp != NULL)
		split_qp_reject(f.server.qp, -EBUSY);
	fixture_close(&f);
}

BOTH(qp, undecided_accept_times_out_with_keepalive)
{
	/* A handshake goes before it: that takes a while on a busy machine. */
	struct split_port_options options = { .receive_count = 16,
		.keepalive_ns = fixture_is_sealed() ? NUM_MS(500) : NUM_MS(10),
		.device_bytes = NUM_MIB(8) };

	fixture_open(&f, kind, &options, NULL);
	f.is_undecided = true;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET, "%d", f.client.closed_rc);
	cr_assert_eq(split_qp_state(f.server.qp), SPLIT_QP_CLOSED);
	split_qp_accept(f.server.qp, &side_ops, &f.server, NULL, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -ETIMEDOUT);
	fixture_close(&f);
}

BOTH(qp, bad_addresses_and_options_are_refused)
{
	static const char *const bad[] = { "", "tcp", "tcp://", "udp://127.0.0.1:1",
		"tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:70000", "tcp://:1",
		"tcp://[::1:1", "tcp://::1:1", "tcp://example..org:1", "tcp://127.0.0.1:-1",
		"sim://", "sim://nobody:1", "sim://client", "sim://client:x" };
	struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = &f.client };
	struct split_port_options no_pool = { .receive_count = 0 };

	fixture_open(&f, kind, NULL, &no_pool);
	/* A port with RDMA refuses other transports before it looks at their addresses. */
	for (size_t i = 0; i < NUM_COUNT(bad) && kind != NET_VERBS; i++) {
		options.address = bad[i];
		errno = 0;
		cr_assert_null(connect_qp(f.server_port, &options), "%s", bad[i]);
		cr_assert_eq(errno, EINVAL, "%s", bad[i]);
		cr_assert_eq(split_listen(f.server_port, bad[i], fixture_on_accept, &f, NULL),
		    -EINVAL, "%s", bad[i]);
	}
	/* Handlers that take messages need a pool. */
	options.address = f.address;
	cr_assert_null(connect_qp(f.client_port, &options));
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(split_listen(f.server_port, f.address, fixture_on_accept, &f, NULL),
	    -EADDRINUSE);
	fixture_close(&f);
}

BOTH(qp, requests_are_answered_in_order_with_their_bytes)
{
	static struct test_send sends[64];
	dev_ptr payload;

	fixture_open(&f, kind, NULL, NULL);
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 65536, 7);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, (i * 1031u) % 65537u);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
		cr_assert_eq(f.client.sent_count, 0); /* not from inside */
	}
	fixture_run(&f, client_got, NUM_COUNT(sends));
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		struct split_msg *msg = f.client.held[i];

		cr_assert_eq(f.client.request_ids[i], i);
		cr_assert_eq(msg->header->opcode, WIRE_ECHO | WIRE_REPLY);
		cr_assert_eq(msg->payload_bytes, (i * 1031u) % 65537u);
		pattern_check(f.client_port, msg->payload, msg->payload_bytes, 7, 0);
		split_msg_release(msg);
	}
	cr_assert_eq(f.client.sent_count, NUM_COUNT(sends));
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	cr_assert_eq(f.server_port->counters.messages_in, NUM_COUNT(sends));
	cr_assert_eq(f.server_port->counters.messages_out, NUM_COUNT(sends));
	cr_assert_eq(f.server_port->counters.device_bytes_in,
	    f.client_port->counters.device_bytes_out);
	cr_assert_eq(f.server_port->counters.host_bytes_in, f.client_port->counters.host_bytes_out);
	fixture_close(&f);
}

BOTH(qp, header_beyond_64_bytes_is_the_payloads_beginning)
{
	static struct test_send send;
	static uint8_t head[SPLIT_HEADER_BYTES_MAX];
	uint8_t found[SPLIT_HEADER_BYTES_MAX];
	struct dev_piece pieces[3];
	dev_ptr payload;

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 20000, 3);
	test_send_init(&send, &f.client, WIRE_ECHO, 1, payload, 0);
	for (size_t i = WIRE_HEADER_BYTES; i < sizeof(head); i++)
		head[i] = (uint8_t)i;
	memcpy(head, &send.header, WIRE_HEADER_BYTES);
	send.send.header = (struct wire_header *)head;
	send.send.header_bytes = sizeof(head);
	pieces[0] = (struct dev_piece){ payload, 9000 };
	pieces[1] = (struct dev_piece){ payload, 0 };
	pieces[2] = (struct dev_piece){ dev_ptr_add(payload, 9000), 11000 };
	send.send.pieces = pieces;
	send.send.piece_count = 3;
	cr_assert_eq(split_send(f.client.qp, &send.send), 0);
	fixture_run(&f, server_got, 1);
	cr_assert_eq(f.server.held[0]->payload_bytes, sizeof(head) - WIRE_HEADER_BYTES + 20000);
	dev_copy_to_host(f.server_port, found, f.server.held[0]->payload,
	    sizeof(head) - WIRE_HEADER_BYTES);
	cr_assert_arr_eq(found, head + WIRE_HEADER_BYTES, sizeof(head) - WIRE_HEADER_BYTES);
	pattern_check(f.server_port,
	    dev_ptr_add(f.server.held[0]->payload, sizeof(head) - WIRE_HEADER_BYTES), 20000, 3, 0);
	fixture_close(&f);
}

BOTH(qp, send_of_a_wrong_shape_is_refused)
{
	static struct test_send send;
	struct split_port_options options = { .receive_count = 16,
		.qp_send_depth_max = 2,
		.device_bytes = NUM_MIB(8) };
	static struct test_send more[3];
	struct dev_piece big = { .bytes = WIRE_PAYLOAD_BYTES_MAX + 1 };

	fixture_open(&f, kind, NULL, &options);
	fixture_connect_both(&f);
	test_send_init(&send, &f.client, WIRE_ECHO, 1, DEV_PTR_NULL, 0);
	send.send.header_bytes = WIRE_HEADER_BYTES - 1;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	send.send.header_bytes = SPLIT_HEADER_BYTES_MAX + 1;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	send.send.header_bytes = WIRE_HEADER_BYTES;
	send.send.piece_count = SPLIT_PIECES_MAX + 1;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	send.send.pieces = &big;
	send.send.piece_count = 1;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EMSGSIZE);
	send.send.piece_count = 0;
	send.header.opcode = WIRE_CREDIT;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	send.header.opcode = WIRE_HELLO | WIRE_REPLY;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	/* A reply that nobody asked for. */
	send.header.opcode = WIRE_ECHO | WIRE_REPLY;
	cr_assert_eq(split_send(f.client.qp, &send.send), -EINVAL);
	for (uint32_t i = 0; i < 3; i++) {
		test_send_init(&more[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &more[i].send), i < 2 ? 0 : -ENOBUFS);
	}
	fixture_close(&f);
	cr_assert_eq(f.client.failed_count, 2);
	cr_assert_eq(f.client.failed_rc, -ECANCELED);
}

BOTH(qp, send_before_ready_is_not_connected)
{
	static struct test_send send;

	fixture_open(&f, kind, NULL, NULL);
	(void)fixture_connect(&f, &side_ops);
	test_send_init(&send, &f.client, WIRE_ECHO, 1, DEV_PTR_NULL, 0);
	cr_assert_eq(split_send(f.client.qp, &send.send), -ENOTCONN);
	fixture_close(&f);
}

BOTH(qp, close_flushes_what_is_queued)
{
	static struct test_send sends[10], late;

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	split_qp_close(f.client.qp);
	split_qp_close(f.client.qp); /* idempotent */
	cr_assert_eq(f.client.failed_count, 0);
	cr_assert_eq(f.client.closed_count, 0);
	test_send_init(&late, &f.client, WIRE_ECHO, 99, DEV_PTR_NULL, 0);
	cr_assert_eq(split_send(f.client.qp, &late.send), -ENOTCONN);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.failed_count, NUM_COUNT(sends));
	cr_assert_eq(f.client.failed_rc, -ECANCELED);
	cr_assert_eq(f.client.closed_rc, 0);
	cr_assert_eq(f.client.sent_after_close_count, 0);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -ECONNRESET);
	cr_assert_eq(f.client_port->counters.qps_closed, 1);
	cr_assert_eq(f.client_port->credits.reserved_count, 0);
	cr_assert_eq(f.server_port->credits.granted_count, 0);
	fixture_close(&f);
}

BOTH(qp, held_messages_survive_their_queue_pair)
{
	static struct test_send sends[4];
	struct wire_header header;
	dev_ptr payload;

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 4096, 1);
	for (uint32_t i = 0; i < 4; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, 4096);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, server_got, 4);
	/* An answer is on its way out when the queue pair closes. */
	side_answer(f.server.held[0]);
	split_qp_close(f.server.qp);
	fixture_run(&f, server_closed, 0);
	for (uint32_t i = 1; i < 4; i++)
		cr_assert_null(f.server.held[i]->qp);
	pattern_check(f.server_port, f.server.held[1]->payload, 4096, 1, 0);
	cr_assert_eq(split_port_receives_free(f.server_port), 253);
	split_msg_release(f.server.held[1]);
	split_msg_release(f.server.held[2]);
	header = *f.server.held[3]->header;
	header.opcode |= WIRE_REPLY;
	split_msg_reply(f.server.held[3], &header, NULL, 0, NULL, NULL);
	fixture_idle(&f);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	fixture_close(&f);
}

static uint32_t reply_done_count;
static int reply_done_rc;

static void
on_reply_done(int rc, void *arg)
{
	cr_assert_eq(arg, &f);
	reply_done_count++;
	reply_done_rc = rc;
}

BOTH(qp, reply_tells_when_its_pieces_are_free)
{
	static struct test_send sends[2];
	struct wire_header header = { .opcode = WIRE_ECHO | WIRE_REPLY };
	struct dev_piece pieces[SPLIT_REPLY_PIECES_MAX];
	dev_ptr payload;

	reply_done_count = 0;
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	payload = pattern_alloc(f.server_port, SPLIT_REPLY_PIECES_MAX * 200u, 5);
	for (uint32_t i = 0; i < 2; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	for (uint32_t i = 0; i < SPLIT_REPLY_PIECES_MAX; i++)
		pieces[i] = (struct dev_piece){ dev_ptr_add(payload, 200 * i), 200 };
	fixture_run(&f, server_got, 2);
	split_msg_reply(f.server.held[0], &header, pieces, SPLIT_REPLY_PIECES_MAX, on_reply_done,
	    &f);
	cr_assert_eq(reply_done_count, 0);
	fixture_run(&f, client_got, 1);
	cr_assert_eq(reply_done_count, 1);
	cr_assert_eq(reply_done_rc, 0);
	cr_assert_eq(f.client.held[0]->payload_bytes, SPLIT_REPLY_PIECES_MAX * 200u);
	pattern_check(f.client_port, f.client.held[0]->payload, SPLIT_REPLY_PIECES_MAX * 200u, 5,
	    0);
	split_qp_close(f.server.qp);
	fixture_run(&f, server_closed, 0);
	split_msg_reply(f.server.held[1], &header, NULL, 0, on_reply_done, &f);
	cr_assert_eq(reply_done_count, 1);
	fixture_idle(&f);
	cr_assert_eq(reply_done_count, 2);
	cr_assert_eq(reply_done_rc, -ECONNRESET);
	fixture_close(&f);
}

/* Does a receive at @memory hold a piece of what secret_fill has put there? */
static bool
secret_is_there(dev_ptr memory)
{
	static uint8_t found[4096];
	uint32_t length = 0;

	dev_copy_to_host(f.server_port, found, memory, sizeof(found));
	for (uint32_t i = 0; i < sizeof(found) && length < 16; i++)
		length = found[i] == 0xa5 ? length + 1 : 0;
	return length == 16;
}

static void
secret_fill(struct split_msg *msg)
{
	static uint8_t secret[4096];

	memset(secret, 0xa5, sizeof(secret));
	dev_copy_from_host(f.server_port, msg->payload, secret, sizeof(secret));
	msg->is_secret = true;
}

/* Whichever way its receive goes back: answered, released, or answered when the queue pair has gone. */
BOTH(qp, secret_stays_in_no_receive)
{
	static struct test_send sends[3];
	struct wire_header header = { .opcode = WIRE_ECHO | WIRE_REPLY };
	struct dev_piece piece = { .bytes = 4096 };
	dev_ptr payloads[3];

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < 3; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, server_got, 3);
	for (uint32_t i = 0; i < 3; i++) {
		payloads[i] = f.server.held[i]->payload;
		secret_fill(f.server.held[i]);
		cr_assert(secret_is_there(payloads[i]));
	}
	piece.ptr = payloads[0];
	split_msg_reply(f.server.held[0], &header, &piece, 1, NULL, NULL);
	fixture_run(&f, client_got, 1);
	cr_assert_eq(f.client.held[0]->payload_bytes, 4096);
	split_msg_release(f.server.held[1]);
	cr_assert_not(secret_is_there(payloads[1]));
	split_qp_close(f.server.qp);
	fixture_run(&f, server_closed, 0);
	split_msg_reply(f.server.held[2], &header, &piece, 1, NULL, NULL);
	fixture_idle(&f);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_not(secret_is_there(payloads[i]), "receive %u", i);
	fixture_close(&f);
}

BOTH(qp, cancel_takes_back_what_has_not_left)
{
	static struct test_send sends[3];

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < 3; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	cr_assert_eq(split_send_cancel(f.client.qp, &sends[1].send), 1);
	cr_assert_eq(split_send_cancel(f.client.qp, &sends[1].send), 0);
	fixture_run(&f, server_got, 2);
	cr_assert_eq(f.server.request_ids[0], 0);
	cr_assert_eq(f.server.request_ids[1], 2);
	cr_assert_eq(f.client.sent_count, 2);
	cr_assert_eq(split_send_cancel(f.client.qp, &sends[0].send), 0);
	/* The request's credit and its reply's receive are free again. */
	cr_assert_eq(f.client_port->credits.reserved_count, 2);
	cr_assert_eq(split_send(f.client.qp, &sends[1].send), 0);
	fixture_run(&f, server_got, 3);
	fixture_close(&f);
}

BOTH(qp, handler_may_close_in_the_middle_of_a_batch)
{
	static struct test_send sends[40];

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, server_got, 1);
	split_qp_close(f.server.qp);
	fixture_run(&f, server_closed, 0);
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.sent_count + f.client.failed_count, NUM_COUNT(sends));
	fixture_close(&f);
}

BOTH(qp, what_came_before_the_peers_end_is_delivered)
{
	static struct test_send sends[20];

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	/* The server is busy with other things until all has come. */
	if (kind == NET_SIM)
		sim_loop_pause(f.server_loop, NUM_S(1));
	fixture_run(&f, client_sent, NUM_COUNT(sends));
	split_qp_close(f.client.qp);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.message_count, NUM_COUNT(sends));
	fixture_close(&f);
}

BOTH(qp, port_close_calls_everything_once)
{
	static struct test_send sends[8];

	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	split_port_close(f.client_port);
	f.client_port = NULL;
	cr_assert_eq(f.client.failed_count, 8);
	cr_assert_eq(f.client.closed_count, 1);
	cr_assert_eq(f.client.sent_after_close_count, 0);
	fixture_run(&f, server_closed, 0);
	fixture_close(&f);
}

static uint32_t many_ready_count, many_closed_count;

static void
many_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)qp;
	(void)hello;
	(void)hello_bytes;
	(void)arg;
	many_ready_count++;
}

static void
many_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
	many_closed_count++;
}

static const struct split_qp_ops many_ops = {
	.on_ready = many_on_ready,
	.on_messages = side_on_messages,
	.on_closed = many_on_closed,
};

static bool
many_ready(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return many_ready_count == wanted;
}

static uint32_t many_accepted_count;

static void
many_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	many_accepted_count++;
	split_qp_accept(qp, &many_ops, arg, NULL, 0);
}

BOTH(qp, an_allocation_that_fails_is_a_clean_error)
{
	uint32_t live_count = split_alloc_live_count();

	for (uint32_t nth = 1; nth < 200; nth++) {
		struct split_port_options options = { .receive_count = 4,
			.receive_payload_bytes = 4096,
			.device_bytes = NUM_MIB(1) };
		struct split_connect_options connect = { .peer_roles = FIXTURE_ROLES,
			.ops = &side_ops,
			.arg = &f.client };
		struct split_qp *qp = NULL;
		bool has_failed;
		int rc = 0;

		setup();
		fixture_open(&f, kind, NULL, NULL);
		split_port_close(f.client_port);
		split_alloc_fail_at(nth);
		options.loop = f.client_loop;
		options.sim_host = f.client_host;
		options.key = f.client_key;
		options.security = f.client_security;
		f.client_port = open_roce_instance(&options);
		if (f.client_port == NULL)
			cr_assert_eq(errno, ENOMEM);
		else
			rc = split_listen(f.client_port,
			    fixture_any_address(kind, "sim://client:0"), fixture_on_accept, &f,
			    NULL);
		cr_assert(rc == 0 || rc == -ENOMEM);
		if (f.client_port != NULL) {
			connect.address = f.address;
			qp = connect_qp(f.client_port, &connect);
			if (qp == NULL)
				cr_assert_eq(errno, ENOMEM);
		}
		/* On the accepting side a failure is a reset, or silence. */
		if (qp != NULL) {
			f.client.qp = qp;
			(void)fixture_run_for(&f, both_ready, 0,
			    kind != NET_SIM ? NUM_MS(50) : NUM_S(30));
			cr_assert(
			    f.client.ready_count + f.client.closed_count > 0 || kind != NET_SIM);
		}
		has_failed = f.client.ready_count == 0 || f.server.ready_count == 0;
		split_alloc_fail_at(0);
		fixture_close(&f);
		cr_assert_eq(split_alloc_live_count(), live_count, "leak at allocation %u", nth);
		if (!has_failed && rc == 0) {
			cr_assert_gt(nth, 6);
			return;
		}
	}
	cr_assert_fail("an allocation always fails");
}

BOTH(qp, a_thousand_connections)
{
	enum { COUNT = 1000 };
	struct split_port_options options = { .receive_count = 64,
		.receive_payload_bytes = 4096,
		.qp_count_max = COUNT,
		.device_bytes = NUM_MIB(2) };
	uint32_t count = COUNT;

	fixture_open(&f, kind, &options, &options);
	/* A software RDMA device is slow, and so are handshakes under sanitizers: each has its time. */
	if (kind == NET_VERBS)
		count = 40;
	else if (kind != NET_SIM && f.client_key != NULL)
		count = 100;
	many_ready_count = many_closed_count = many_accepted_count = 0;
	cr_assert_eq(split_listen(f.server_port, fixture_any_address(kind, "sim://server:0"),
			 many_on_accept, &f.server, f.address),
	    0);
	for (uint32_t i = 0; i < count; i++) {
		struct split_connect_options connect = { .peer_roles = FIXTURE_ROLES,
			.address = f.address,
			.timeout_ns = NUM_S(20),
			.ops = &many_ops,
			.arg = &f.client };

		cr_assert_not_null(connect_qp(f.client_port, &connect));
	}
	fixture_run(&f, many_ready, 2 * count);
	cr_assert_eq(many_accepted_count, count);
	cr_assert_leq(f.server_port->credits.granted_count, 64);
	fixture_close(&f);
	cr_assert_eq(many_closed_count, 2 * count);
}
