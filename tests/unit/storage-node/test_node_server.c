/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_server.c -- who may connect, what closes a queue pair, reads, control, stopping */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/disk.h"
#include "cleave/status.h"
#include "storage-node/node_state.h"
#include "support/node_rig.h"

static struct node_rig *rig;
static struct rig_extent extent;

static void
setup(void)
{
	rig = rig_create(NULL);
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(rig_append(rig, &extent, 2), 0);
}

static void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

TestSuite(node_server, .init = setup, .fini = teardown);

Test(node_server, hello)
{
	struct wire_hello hello;
	const char *field;

	cr_assert_eq(wire_hello_decode(rig->hello, WIRE_HELLO_BYTES, &hello, &field), 0);
	cr_assert_eq(hello.role, WIRE_ROLE_NODE);
	cr_assert_eq(hello.node_id, RIG_NODE_ID);
	cr_assert_eq(hello.cluster_id, RIG_CLUSTER_ID);
}

Test(node_server, refuses_who_does_not_belong)
{
	static const struct {
		struct wire_hello hello;
		int rc;
	} table[] = {
		{ { .role = WIRE_ROLE_GATEWAY, .cluster_id = 1 }, -EXDEV },
		{ { .role = WIRE_ROLE_GATEWAY, .cluster_id = 0 }, -EXDEV },
		{ { .role = WIRE_ROLE_CLIENT, .cluster_id = 1 }, -EXDEV },
		{ { .role = WIRE_ROLE_NODE, .node_id = 3, .cluster_id = RIG_CLUSTER_ID }, -EPROTO },
		{ { .role = WIRE_ROLE_CLIENT, .volume_id = 5, .cluster_id = RIG_CLUSTER_ID },
		    -EPROTO },
		{ { .role = WIRE_ROLE_CLIENT, .cluster_id = 0 }, 0 },
		{ { .role = WIRE_ROLE_CLIENT, .cluster_id = RIG_CLUSTER_ID }, 0 },
	};

	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		rig_disconnect(rig);
		cr_assert_eq(rig_connect_as(rig, &table[i].hello), table[i].rc, "hello %zu", i);
	}
	cr_assert_eq(node_counters(rig->node)->connections_refused, 5);
}

Test(node_server, client_may_only_ask)
{
	char *text;

	rig_disconnect(rig);
	cr_assert_eq(rig_connect_as(rig, &(struct wire_hello){ .role = WIRE_ROLE_CLIENT }), 0);
	cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
	free(text);
	cr_assert_eq(rig_freeze(rig, &extent, 9, NULL), -ECONNRESET);
	cr_assert(rig->is_closed);
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(rig_freeze(rig, &extent, 5, NULL), 0);
}

Test(node_server, echo)
{
	struct wire_header header = { .opcode = WIRE_ECHO };
	uint8_t data[10000];

	memset(data, 5, sizeof(data));
	cr_assert_eq(rig_send_raw(rig, &header, data, sizeof(data)), 0);
	cr_assert_eq(rig_send_raw(rig, &header, NULL, 0), 0);
}

Test(node_server, bad_message_closes_its_queue_pair_alone)
{
	static const struct wire_header table[] = {
		{ .opcode = 0x50 },
		{ .opcode = WIRE_WRITE },
		{ .opcode = WIRE_EXTENT_CREATE, .engine = 9 },
		{ .opcode = WIRE_EXTENT_CREATE, .engine = EXTENT_LOG, .flags = 1 },
		{ .opcode = WIRE_EXTENT_READ, .length_bytes = 0 },
		{ .opcode = WIRE_EXTENT_READ, .length_bytes = 262145 },
		{ .opcode = WIRE_EXTENT_TRUNCATE, .offset_bytes = 1 },
		{ .opcode = WIRE_EXTENT_FREEZE, .object_id = UINT64_MAX },
		{ .opcode = WIRE_SHARD_FENCE, .object_id = 5000 },
		{ .opcode = WIRE_EXTENT_LIST, .vm_id = 1 },
		{ .opcode = WIRE_EXTENT_FREEZE, .epoch = 1u << 24 },
		{ .opcode = WIRE_CONTROL, .epoch = 1 },
	};

	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		cr_assert_eq(rig_send_raw(rig, &table[i], NULL, 0), -ECONNRESET, "message %zu", i);
		cr_assert_eq(node_counters(rig->node)->messages_bad, i + 1);
		cr_assert_eq(rig_connect(rig), 0);
	}
	cr_assert_eq(split_port_receives_free(node_port(rig->node)), rig->node->request_count);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
}

Test(node_server, reads_any_range)
{
	uint8_t *out = malloc(WIRE_PAYLOAD_BYTES_MAX);

	for (int i = 0; i < 200; i++) {
		uint64_t at = rig_random(rig, extent.end_bytes);
		uint32_t bytes = 1 + (uint32_t)rig_random(rig, extent.end_bytes - at);

		cr_assert_eq(rig_read(rig, &extent, at, bytes, out), 0);
		cr_assert_arr_eq(out, extent.data + at, bytes);
	}
	cr_assert_eq(rig_read(rig, &extent, extent.end_bytes - 1, 2, out), -ERANGE);
	cr_assert_eq(rig_read(rig, &extent, extent.end_bytes, 1, out), -ERANGE);
	free(out);
}

Test(node_server, read_of_more_than_a_receive_holds)
{
	struct rig_extent big;
	uint8_t *out = malloc(WIRE_PAYLOAD_BYTES_MAX);

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_bytes = NUM_MIB(4), .slot_count = 4 });
	rig_up(rig);
	rig_extent_init(&extent, 1, 1, 1, EXTENT_LOG);
	rig_extent_init(&big, 3, 5, 2, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, &big), 0);
	cr_assert_eq(rig_append(rig, &big, 60), 0);
	cr_assert_eq(rig_append(rig, &big, 60), 0);
	cr_assert_eq(rig_read(rig, &big, 0, WIRE_PAYLOAD_BYTES_MAX, out), 0);
	cr_assert_arr_eq(out, big.data, WIRE_PAYLOAD_BYTES_MAX);
	cr_assert_eq(rig_read(rig, &big, 1, WIRE_PAYLOAD_BYTES_MAX, out), -EMSGSIZE);
	cr_assert_eq(rig_read(rig, &big, 100, WIRE_PAYLOAD_BYTES_MAX - 4096, out), 0);
	cr_assert_arr_eq(out, big.data + 100, WIRE_PAYLOAD_BYTES_MAX - 4096);
	rig_extent_fini(&big);
	free(out);
}

Test(node_server, failed_read_is_an_error_once)
{
	uint8_t byte;

	*disk_sim_fault(rig->disk) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_READ),
		.at_count = 1,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(rig_read(rig, &extent, 0, 1, &byte), -EIO);
	cr_assert_eq(rig_read(rig, &extent, 0, 1, &byte), 0);
	cr_assert_eq(node_counters(rig->node)->reads_failed, 1);
	cr_assert_eq(rig_append(rig, &extent, 1), 0, "appends go on");
}

Test(node_server, status)
{
	char *text;

	cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
	cr_assert_not_null(strstr(text, "\"role\":\"node\""));
	cr_assert_not_null(strstr(text, "\"node_id\":7"));
	cr_assert_not_null(strstr(text, "\"cluster_id\":\"1122334455667788\""));
	cr_assert_not_null(strstr(text, "\"slots_total\":16"));
	cr_assert_not_null(strstr(text, "\"slots_free\":15"));
	cr_assert_not_null(strstr(text, "\"slot_bytes\":65536"));
	cr_assert_not_null(strstr(text, "\"read_only\":false"));
	cr_assert_not_null(strstr(text, "\"appends\":2"));
	free(text);
	cr_assert_eq(rig_control(rig, "{\"op\":\"format\"}", &text), -ENOTSUP);
	cr_assert_not_null(strstr(text, "error"));
	free(text);
	static const char *const bad[] = { "", "{", "[]", "{}", "{\"op\":1}", "\xff\xfe",
		"{\"op\":\"status\",\"op\":\"status\"}" };
	for (size_t i = 0; i < NUM_COUNT(bad); i++) {
		cr_assert_eq(rig_control(rig, bad[i], &text), -EINVAL, "%s", bad[i]);
		free(text);
	}
}

Test(node_server, stop_finishes_what_is_in_flight)
{
	struct rig_call *calls[3];

	for (int i = 0; i < 3; i++)
		calls[i] = rig_append_post(rig, &extent, 1);
	rig_run(rig, NUM_US(150)); /* they are there, and not yet durable */
	cr_assert_eq(rig_stop(rig), 0);
	rig_run(rig, NUM_MS(1));
	for (int i = 0; i < 3; i++) {
		cr_assert(calls[i]->is_answered);
		cr_assert(calls[i]->rc == 0 || calls[i]->rc == -EHOSTDOWN);
		if (calls[i]->rc == 0)
			extent.acked_bytes = calls[i]->reply.offset_bytes;
		rig_done(calls[i]);
	}
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

Test(node_server, stop_does_not_wait_for_ever)
{
	struct rig_call *call;

	disk_sim_stall(rig->disk, NUM_S(3600));
	call = rig_append_post(rig, &extent, 1);
	rig_run(rig, NUM_MS(1));
	cr_assert_eq(rig_stop(rig), -ETIMEDOUT);
	rig_kill(rig, false);
	rig_done(call);
}

Test(node_server, stopping_refuses_new_work)
{
	disk_sim_stall(rig->disk, NUM_MS(500));
	struct rig_call *call = rig_append_post(rig, &extent, 1);

	rig_run(rig, NUM_MS(1));
	rig->is_stopped = false;
	node_stop(rig->node, NULL, NULL);
	cr_assert_eq(rig_fence(rig, 3, 9), -EHOSTDOWN);
	cr_assert_eq(rig_wait(call), 0);
	rig_done(call);
}

static void
on_stopped(struct node *node, int rc, void *arg)
{
	(void)node;
	(void)arg;
	cr_assert_not(rig->is_stopped, "once");
	cr_assert_eq(rc, 0);
	rig->is_stopped = true;
}

/* The last request of a start is done, and its handler runs next: somebody stops the node in the same turn. */
static void
stop_at_a_flush(const struct disk_sim_event *event, void *arg)
{
	bool *is_asked = arg;

	if (event->op != DISK_FLUSH || *is_asked)
		return;
	*is_asked = true;
	node_stop(rig->node, on_stopped, NULL);
}

Test(node_server, stop_in_the_turn_in_which_a_start_ends)
{
	bool is_asked = false;

	rig_kill(rig, false);
	rig_start_begin(rig);
	disk_sim_trace(rig->disk, stop_at_a_flush, &is_asked);
	rig_run(rig, NUM_MS(100));
	disk_sim_trace(rig->disk, NULL, NULL);
	cr_assert(is_asked);
	cr_assert(rig->is_stopped);
	cr_assert_not(rig->is_ready_called);
	cr_assert_eq(rig_connect(rig), -ECONNREFUSED);
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

/* Stops a start after @at_ns; the node is left alone for a while before it is destroyed. Returns whether it had ended. */
static bool
stop_a_start(uint64_t at_ns)
{
	bool was_ready_called;

	rig_kill(rig, false);
	rig_start_begin(rig);
	rig_run(rig, at_ns);
	was_ready_called = rig->is_ready_called;
	node_stop(rig->node, on_stopped, NULL);
	cr_assert_not(rig->is_stopped, "never from inside");
	rig_run(rig, NUM_MS(100));
	cr_assert(rig->is_stopped);
	cr_assert_eq(rig->is_ready_called, was_ready_called, "at %lu", (unsigned long)at_ns);
	return was_ready_called;
}

Test(node_server, stop_at_any_time_of_a_start)
{
	uint64_t at_ns = 0;

	while (!stop_a_start(at_ns))
		at_ns += NUM_US(20);
	cr_assert_gt(at_ns, NUM_MS(1));
	rig_kill(rig, false);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

Test(node_server, stop_at_any_time_of_a_start_that_fails)
{
	cr_assert_eq(disk_sim_set_bad(rig->disk, ondisk_fence_offset(1, 0), 8192), 0);
	for (uint64_t at_ns = 0; !stop_a_start(at_ns); at_ns += NUM_US(20))
		;
	cr_assert_eq(rig->ready_rc, -EIO);
}

Test(node_server, many_requests_at_once_all_answered)
{
	struct rig_call *calls[60];

	for (int i = 0; i < 60; i++) {
		uint64_t at = rig_random(rig, extent.end_bytes - 4096);

		calls[i] = rig_post(rig,
		    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
			.id = extent.id,
			.offset_bytes = at,
			.length_bytes = 4096 },
		    NULL, 0);
	}
	for (int i = 0; i < 60; i++) {
		cr_assert_eq(rig_wait(calls[i]), 0);
		cr_assert_arr_eq(calls[i]->payload, extent.data + calls[i]->request.offset_bytes,
		    4096);
		rig_done(calls[i]);
	}
	cr_assert_eq(rig->node->requests_busy_count, 0);
	cr_assert_eq(rig->node->replies_count, 0);
}
