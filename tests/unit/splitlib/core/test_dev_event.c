/* SPDX-License-Identifier: Apache-2.0 */
/* test_dev_event.c -- the paper's calls and their events, over TCP and the simulated network */
#include "splitlib/core/port.h"
#include "unit/split_fixture.h"

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	f.is_without_handlers = true;
}

TestSuite(dev_event, .init = setup, .timeout = 60);

/* Both ends without handlers, ready. */
static void
open_pair(enum net_kind kind, const struct split_port_options *options)
{
	struct split_port_options no_pool = { .receive_count = 0 };

	fixture_open(&f, kind, options != NULL ? options : &no_pool,
	    options != NULL ? options : &no_pool);
	(void)fixture_connect(&f, NULL);
	cr_assert_eq(dev_wait_ready(f.client.qp), 0);
	cr_assert_eq(dev_wait_ready(f.server.qp), 0);
}

static struct dev_completion
poll_event(struct dev_event *event)
{
	struct dev_completion completion;

	cr_assert_not_null(event, "errno %d", errno);
	cr_assert_eq(dev_poll(event, &completion), 0);
	cr_assert_eq(completion.event, event);
	return completion;
}

static struct wire_header *
header_alloc(struct split_port *port, uint8_t opcode, uint64_t request_id, uint32_t bytes)
{
	struct wire_header *header = host_alloc(port, bytes);

	cr_assert_not_null(header);
	memset(header, 0, bytes);
	header->opcode = opcode;
	header->request_id = request_id;
	return header;
}

BOTH(dev_event, a_message_is_cut_where_the_receiver_says)
{
	static const uint32_t h_sizes[] = { 64, 65, 100, 4096, 16384 };
	uint32_t payload_bytes = 9000;
	dev_ptr out, in;

	open_pair(kind, NULL);
	out = pattern_alloc(f.client_port, payload_bytes, 5);
	in = dev_alloc(f.server_port, payload_bytes);
	for (size_t i = 0; i < NUM_COUNT(h_sizes); i++) {
		struct wire_header *to_send = header_alloc(f.client_port, WIRE_ECHO, i, 64);
		uint8_t *head = host_alloc(f.server_port, h_sizes[i]);
		uint32_t in_host = (uint32_t)num_min(h_sizes[i] - 64, payload_bytes);
		uint32_t in_device = payload_bytes - in_host;
		struct dev_event *received, *sent;
		struct dev_completion completion;

		received = dev_mixed_recv(f.server.qp, head, h_sizes[i], in, payload_bytes);
		sent = dev_mixed_send(f.client.qp, to_send, 64, out, payload_bytes);
		completion = poll_event(sent);
		cr_assert_eq(completion.rc, 0);
		cr_assert_eq(completion.bytes, payload_bytes);
		completion = poll_event(received);
		cr_assert_eq(completion.rc, 0);
		cr_assert_eq(completion.bytes, in_device);
		cr_assert_eq(((struct wire_header *)(void *)head)->request_id, i);
		cr_assert_eq(((struct wire_header *)(void *)head)->payload_bytes, payload_bytes);
		pattern_check(f.server_port, in, in_device, 5, in_host);
		for (uint32_t k = 0; k < in_host; k++)
			cr_assert_eq(head[64 + k],
			    (uint8_t)(num_mix_u64(5 + k / 8) >> (8 * (k % 8))));
	}
	fixture_close(&f);
}

BOTH(dev_event, pieces_are_assembled)
{
	struct wire_header *header;
	struct dev_piece pieces[SPLIT_PIECES_MAX];
	struct dev_event *received, *sent;
	struct dev_completion completion;
	uint8_t *head;
	dev_ptr out, in;

	open_pair(kind, NULL);
	out = pattern_alloc(f.client_port, 64000, 5);
	in = dev_alloc(f.server_port, 65536);
	head = host_alloc(f.server_port, 64);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 200);
	for (uint32_t i = 0; i < SPLIT_PIECES_MAX; i++)
		pieces[i] = (struct dev_piece){ dev_ptr_add(out, i * 1000), 1000 };
	received = dev_mixed_recv(f.server.qp, head, 64, in, 65536);
	sent = dev_mixed_sendv(f.client.qp, header, 200, pieces, SPLIT_PIECES_MAX);
	memset(pieces, 0, sizeof(pieces)); /* they were copied */
	cr_assert_eq(poll_event(sent).bytes, 64000);
	completion = poll_event(received);
	cr_assert_eq(completion.bytes, 64000 + 136);
	pattern_check(f.server_port, dev_ptr_add(in, 136), 64000, 5, 0);
	cr_assert_null(dev_mixed_sendv(f.client.qp, header, 64, pieces, SPLIT_PIECES_MAX + 1));
	cr_assert_eq(errno, EINVAL);
	fixture_close(&f);
}

/* There is no consuming it over RDMA: the queue pair ends, and both sides learn why. */
static void
longer_than_posted_ends_both(struct dev_event *first, struct dev_event *second,
    struct wire_header *header, dev_ptr out)
{
	struct dev_event *sent = dev_mixed_send(f.client.qp, header, 64, out, 100000);

	cr_assert_eq(poll_event(sent).rc, -ECONNRESET);
	cr_assert_eq(poll_event(first).rc, -ECONNRESET);
	cr_assert_eq(poll_event(second).rc, -ECONNRESET);
	cr_assert_eq(dev_wait_ready(f.server.qp), -EMSGSIZE, "%s", f.server.qp->reason);
	cr_assert_eq(dev_wait_ready(f.client.qp), -EMSGSIZE, "%s", f.client.qp->reason);
	split_qp_close(f.server.qp);
	split_qp_close(f.client.qp);
	fixture_close(&f);
}

BOTH(dev_event, a_message_longer_than_both_is_consumed)
{
	struct wire_header *header;
	struct dev_event *first, *second;
	struct dev_completion completion;
	uint8_t *head;
	dev_ptr out, in;

	open_pair(kind, NULL);
	out = pattern_alloc(f.client_port, 100000, 5);
	in = dev_alloc(f.server_port, 65536);
	head = host_alloc(f.server_port, 256);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 128);
	first = dev_mixed_recv(f.server.qp, head, 80, in, 1000);
	second = dev_mixed_recv(f.server.qp, head + 128, 64, dev_ptr_add(in, 4096), 8192);
	if (kind == NET_VERBS) {
		longer_than_posted_ends_both(first, second, header, out);
		return;
	}
	cr_assert_eq(poll_event(dev_mixed_send(f.client.qp, header, 64, out, 100000)).rc, 0);
	cr_assert_eq(poll_event(dev_mixed_send(f.client.qp, header, 64, out, 8192)).rc, 0);
	completion = poll_event(first);
	cr_assert_eq(completion.rc, -EMSGSIZE);
	pattern_check(f.server_port, in, 1000, 5, 16);
	completion = poll_event(second);
	cr_assert_eq(completion.rc, 0);
	cr_assert_eq(completion.bytes, 8192);
	pattern_check(f.server_port, dev_ptr_add(in, 4096), 8192, 5, 0);
	cr_assert_eq(split_qp_state(f.server.qp), SPLIT_QP_READY);
	fixture_close(&f);
}

BOTH(dev_event, a_short_message_leaves_device_memory_alone)
{
	struct wire_header *header;
	struct dev_event *received;
	uint8_t *head;
	dev_ptr in;

	open_pair(kind, NULL);
	in = pattern_alloc(f.server_port, 4096, 9);
	head = host_alloc(f.server_port, 64);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 64);
	received = dev_mixed_recv(f.server.qp, head, 64, in, 4096);
	cr_assert_eq(poll_event(dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, 0)).bytes, 0);
	cr_assert_eq(poll_event(received).bytes, 0);
	pattern_check(f.server_port, in, 4096, 9, 0);
	fixture_close(&f);
}

BOTH(dev_event, request_and_reply)
{
	struct wire_header *header, *answer;
	struct dev_event *received, *replied, *answered;
	uint8_t *head;

	open_pair(kind, NULL);
	head = host_alloc(f.server_port, 64);
	answer = host_alloc(f.client_port, 64);
	header = header_alloc(f.client_port, WIRE_ECHO, 77, 64);
	for (uint32_t i = 0; i < 50; i++) {
		/* The answer's receive is posted only after the request was sent: it waits. */
		received = dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0);
		cr_assert_eq(poll_event(dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, 0))
				 .rc,
		    0);
		cr_assert_eq(poll_event(received).rc, 0);
		((struct wire_header *)(void *)head)->opcode |= WIRE_REPLY;
		replied = dev_mixed_send(f.server.qp, head, 64, DEV_PTR_NULL, 0);
		/* Over RDMA the sender's device keeps it until there is a receive. */
		if (kind != NET_VERBS)
			cr_assert_eq(poll_event(replied).rc, 0);
		if (i % (kind == NET_VERBS ? 16 : 2) == 0)
			fixture_idle(&f);
		answered = dev_mixed_recv(f.client.qp, answer, 64, DEV_PTR_NULL, 0);
		if (kind == NET_VERBS)
			cr_assert_eq(poll_event(replied).rc, 0);
		cr_assert_eq(poll_event(answered).rc, 0);
		cr_assert_eq(answer->request_id, 77);
	}
	fixture_close(&f);
}

BOTH(dev_event, wrong_shapes_are_refused)
{
	struct wire_header *header;
	uint8_t *head;

	open_pair(kind, NULL);
	head = host_alloc(f.server_port, SPLIT_HEADER_BYTES_MAX + 1);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 64);
	cr_assert_null(dev_mixed_recv(f.server.qp, head, 63, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(
	    dev_mixed_recv(f.server.qp, head, SPLIT_HEADER_BYTES_MAX + 1, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_mixed_recv(f.server.qp, NULL, 64, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 10));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_mixed_send(f.client.qp, header, 63, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, UINT64_C(1) << 33));
	cr_assert_eq(errno, EMSGSIZE);
	cr_assert_null(
	    dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, WIRE_PAYLOAD_BYTES_MAX + 1));
	cr_assert_eq(errno, EMSGSIZE);
	cr_assert_null(dev_func(f.client_port, DEV_PTR_NULL, 1, DEV_PTR_NULL, 1, DEV_ENGINE_COPY));
	cr_assert_eq(errno, ENOTSUP);
	fixture_close(&f);
}

BOTH(dev_event, events_are_bounded_and_come_back)
{
	/* A receive that an RDMA device has cannot be taken back. */
	int can_cancel = kind == NET_VERBS ? 0 : 1;
	struct split_port_options options = { .event_count_max = 4 };
	struct dev_completion completions[8];
	uint8_t *head;

	open_pair(kind, &options);
	head = host_alloc(f.server_port, 64 * 8);
	for (uint32_t round = 0; round < 3; round++) {
		struct dev_event *events[4];

		for (uint32_t i = 0; i < 4; i++) {
			events[i] = dev_mixed_recv(f.server.qp, head + 64 * i, 64, DEV_PTR_NULL, 0);
			cr_assert_not_null(events[i]);
		}
		cr_assert_null(dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0));
		cr_assert_eq(errno, ENOBUFS);
		cr_assert_eq(dev_poll_many(f.server_port, completions, 8), 0);
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_eq(dev_event_cancel(events[i]), can_cancel);
		if (can_cancel == 0)
			break;
		cr_assert_eq(dev_event_cancel(events[0]), 0);
		cr_assert_eq(dev_poll_many(f.server_port, completions, 3), 3);
		cr_assert_eq(dev_poll_many(f.server_port, completions + 3, 8), 1);
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_eq(completions[i].rc, -ECANCELED);
	}
	fixture_close(&f);
}

static uint32_t called_count;
static struct dev_completion called_with;

static void
on_event(const struct dev_completion *completion, void *arg)
{
	cr_assert_eq(arg, &f);
	called_count++;
	called_with = *completion;
}

static bool
handler_called(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return called_count >= wanted;
}

BOTH(dev_event, a_handler_is_called_once_and_not_from_inside)
{
	struct wire_header *header;
	struct dev_event *received, *sent;
	struct dev_completion completion;
	uint8_t *head;

	called_count = 0;
	open_pair(kind, NULL);
	head = host_alloc(f.server_port, 64);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 64);
	received = dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0);
	dev_event_on(received, on_event, &f);
	sent = dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, 0);
	fixture_run(&f, handler_called, 1);
	cr_assert_eq(called_with.rc, 0);
	cr_assert_eq(called_with.event, received);
	/* An event that is done already. */
	fixture_idle(&f);
	dev_event_on(sent, on_event, &f);
	cr_assert_eq(called_count, 1);
	fixture_run(&f, handler_called, 2);
	fixture_idle(&f);
	cr_assert_eq(called_count, 2);
	cr_assert_eq(dev_poll_many(f.server_port, &completion, 1), 0);
	cr_assert_eq(dev_poll_many(f.client_port, &completion, 1), 0);
	fixture_close(&f);
}

static struct dev_event *polled_inside;
static int poll_rc_inside;

static void
on_poll_inside(struct loop_task *task, void *arg)
{
	struct dev_completion completion;

	(void)task;
	(void)arg;
	poll_rc_inside = dev_poll(polled_inside, &completion);
	called_count++;
}

BOTH(dev_event, poll_does_not_block_in_a_handler)
{
	struct loop_task task;
	struct dev_completion completion;
	uint8_t *head;

	called_count = 0;
	open_pair(kind, NULL);
	head = host_alloc(f.server_port, 64);
	polled_inside = dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0);
	loop_task_init(&task, on_poll_inside, NULL);
	loop_defer(f.server_loop, &task);
	fixture_run(&f, handler_called, 1);
	cr_assert_eq(poll_rc_inside, -EAGAIN);
	if (kind == NET_VERBS)
		split_qp_close(f.server.qp); /* the device has it */
	else
		cr_assert_eq(dev_event_cancel(polled_inside), 1);
	fixture_idle(&f);
	loop_defer(f.server_loop, &task);
	fixture_run(&f, handler_called, 2);
	cr_assert_eq(poll_rc_inside, 0);
	cr_assert_eq(dev_poll_many(f.server_port, &completion, 1), 0); /* released */
	fixture_close(&f);
}

BOTH(dev_event, a_send_is_cancelled_while_it_waits)
{
	struct wire_header *header;
	struct dev_event *sent;

	open_pair(kind, NULL);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 64);
	/* Nothing is posted there: no credit. */
	sent = dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, 0);
	fixture_idle(&f);
	cr_assert_eq(dev_event_cancel(sent), 1);
	cr_assert_eq(poll_event(sent).rc, -ECANCELED);
	fixture_close(&f);
}

BOTH(dev_event, events_end_with_their_queue_pair)
{
	struct wire_header *header;
	struct dev_event *here, *there;
	uint8_t *head;

	open_pair(kind, NULL);
	head = host_alloc(f.server_port, 128);
	header = header_alloc(f.client_port, WIRE_ECHO, 1, 64);
	here = dev_mixed_recv(f.client.qp, host_alloc(f.client_port, 64), 64, DEV_PTR_NULL, 0);
	there = dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0);
	split_qp_close(f.client.qp);
	cr_assert_null(dev_mixed_recv(f.client.qp, head, 64, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, ENOTCONN);
	cr_assert_null(dev_mixed_send(f.client.qp, header, 64, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, ENOTCONN);
	cr_assert_eq(poll_event(here).rc, -ECANCELED);
	cr_assert_eq(poll_event(there).rc, -ECONNRESET);
	/* Nobody told the server's owner: the queue pair is there until it is closed. */
	cr_assert_eq(split_qp_state(f.server.qp), SPLIT_QP_CLOSED);
	cr_assert_null(dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0));
	cr_assert_eq(errno, ENOTCONN);
	cr_assert_eq(dev_wait_ready(f.server.qp), -ECONNRESET);
	split_qp_close(f.server.qp);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->qp_count, 0);
	fixture_close(&f);
}

BOTH(dev_event, wait_ready_tells_of_refusal)
{
	struct split_port_options no_pool = { .receive_count = 0 };

	fixture_open(&f, kind, &no_pool, &no_pool);
	f.is_rejecting = true;
	(void)fixture_connect(&f, NULL);
	cr_assert_eq(dev_wait_ready(f.client.qp), -EXDEV);
	split_qp_close(f.client.qp);
	/* With handlers the queue pair is gone by then. */
	split_port_close(f.client_port);
	f.client_port = fixture_open_port(&f, false, NULL);
	(void)fixture_connect(&f, &side_ops);
	cr_assert_eq(dev_wait_ready(f.client.qp), -EXDEV);
	cr_assert_eq(f.client.closed_count, 1);
	fixture_close(&f);
}

BOTH(dev_event, a_posted_receive_goes_before_the_pool)
{
	static struct test_send sends[3];
	struct dev_event *received;
	uint8_t *head;

	f.is_without_handlers = false;
	fixture_open(&f, kind, NULL, NULL);
	fixture_connect_both(&f);
	head = host_alloc(f.server_port, 64);
	received = dev_mixed_recv(f.server.qp, head, 64, DEV_PTR_NULL, 0);
	for (uint32_t i = 0; i < 3; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	cr_assert_eq(poll_event(received).rc, 0);
	cr_assert_eq(((struct wire_header *)(void *)head)->request_id, 0);
	fixture_run(&f, server_got, 2);
	cr_assert_eq(f.server.request_ids[0], 1);
	cr_assert_eq(f.server.held_count, 2);
	cr_assert_eq(f.server_port->credits.held_requests_count, 2);
	fixture_close(&f);
}

static uint32_t called_before_closed_count;

static void
counting_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	called_before_closed_count = called_count;
	side_on_closed(qp, rc, reason, arg);
}

BOTH(dev_event, on_closed_is_the_last_call)
{
	static const struct split_qp_ops ops = { .on_ready = side_on_ready,
		.on_messages = side_on_messages,
		.on_closed = counting_on_closed };
	struct dev_event *received, *sent;

	called_count = called_before_closed_count = 0;
	fixture_open(&f, kind, NULL, NULL);
	(void)fixture_connect(&f, &ops);
	cr_assert_eq(dev_wait_ready(f.client.qp), 0);
	received = dev_mixed_recv(f.client.qp, host_alloc(f.client_port, 64), 64, DEV_PTR_NULL, 0);
	sent = dev_mixed_send(f.client.qp, header_alloc(f.client_port, WIRE_ECHO, 1, 64), 64,
	    DEV_PTR_NULL, 0);
	dev_event_on(received, on_event, &f);
	dev_event_on(sent, on_event, &f);
	split_qp_close(f.client.qp);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(called_before_closed_count, 2);
	cr_assert_eq(called_with.rc, -ECANCELED);
	fixture_close(&f);
}

BOTH(dev_event, engines_run_between_receive_and_send)
{
	struct engine_set_options inline_set = { .thread_count = 0 };
	struct split_port_options options = { .receive_count = 0,
		.engine_ops = &engine_set_gate_ops };
	struct dev_completion completion;
	dev_ptr plain, packed, again;
	uint8_t zeros[4096] = { 0 };
	static const enum dev_engine pairs[][2] = {
		{ DEV_ENGINE_COMPRESS_LZ4, DEV_ENGINE_DECOMPRESS_LZ4 },
		{ DEV_ENGINE_COMPRESS_ZSTD, DEV_ENGINE_DECOMPRESS_ZSTD },
		{ DEV_ENGINE_COPY, DEV_ENGINE_COPY },
	};

	fixture_open(&f, kind, NULL, NULL);
	split_port_close(f.client_port);
	options.engines = engine_set_create(f.client_loop, &inline_set);
	f.client_port = fixture_open_port(&f, false, &options);
	plain = dev_alloc(f.client_port, 4096);
	packed = dev_alloc(f.client_port, 8192);
	again = dev_alloc(f.client_port, 4096);
	dev_copy_from_host(f.client_port, plain, zeros, 4096);
	for (size_t i = 0; i < NUM_COUNT(pairs); i++) {
		completion = poll_event(
		    dev_func(f.client_port, plain, 4096, packed, 8192, pairs[i][0]));
		cr_assert_eq(completion.rc, 0);
		cr_assert(completion.bytes < 200 || pairs[i][0] == DEV_ENGINE_COPY);
		completion = poll_event(
		    dev_func(f.client_port, packed, completion.bytes, again, 4096, pairs[i][1]));
		cr_assert_eq(completion.rc, 0);
		cr_assert_eq(completion.bytes, 4096);
	}
	cr_assert_null(dev_func(f.client_port, plain, 4096, packed, 8192, DEV_ENGINE_NR));
	cr_assert_eq(errno, EINVAL);
	/* A handler, and one that does not fit. */
	called_count = 0;
	dev_event_on(dev_func(f.client_port, plain, 4096, packed, 8192, DEV_ENGINE_COMPRESS_LZ4),
	    on_event, &f);
	cr_assert_eq(called_count, 0);
	fixture_run(&f, handler_called, 1);
	cr_assert_eq(called_with.rc, 0);
	completion = poll_event(
	    dev_func(f.client_port, plain, 4096, packed, 3, DEV_ENGINE_COMPRESS_LZ4));
	cr_assert_eq(completion.rc, -ENOSPC);
	split_port_close(f.client_port);
	f.client_port = NULL;
	engine_set_destroy(options.engines);
	fixture_close(&f);
}
