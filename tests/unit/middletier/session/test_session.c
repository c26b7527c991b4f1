/* SPDX-License-Identifier: Apache-2.0 */
/* test_session.c -- who may connect, what a session may ask for, and who gives way to whom (I11) */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/control/control_request.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "support/sim_gateway.h"

#define SESSION_A UINT64_C(0xa)
#define SESSION_B UINT64_C(0xb)
#define VOLUME_BYTES (UINT64_C(1) << 20)

static struct sg sg;
static struct sg_qp control;

static void
command(const char *text)
{
	int rc = 0;
	json_t *answer = sg_control(&control, text, &rc);

	cr_assert_eq(rc, 0, "%s: %d", text, rc);
	json_decref(answer);
}

static void
attach(uint64_t session_id)
{
	char text[128];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"%016" PRIx64
	    "\",\"take\":true}",
	    session_id);
	command(text);
}

static void
setup(void)
{
	sg_init(&sg, 2);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	command("{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1048576}");
}

static void
teardown(void)
{
	sg_close(&control);
	sg_fini(&sg);
}

TestSuite(session, .init = setup, .fini = teardown);

/* Connect and wait: 0, or why not. */
static int
open_session(struct sg_qp *qp, uint64_t session_id, uint64_t attach_number, uint64_t incarnation)
{
	struct wire_hello hello = sg_hello(1, session_id, attach_number, incarnation);

	sg_connect(&sg, qp, &hello);
	return sg_wait_open(qp);
}

/* A request and its answer's status as an errno; -ETIME: none came. */
static int
ask(struct sg_qp *qp, const struct wire_header *header)
{
	uint32_t count = qp->reply_count + 1;

	sg_send(qp, header, NULL, 0);
	if (!sg_wait_replies(qp, count))
		return qp->is_closed ? -ECONNRESET : -ETIME;
	return status_to_errno(qp->replies[count - 1].header.status);
}

/* The shards' epoch, once they are claimed. */
static uint32_t
epoch(void)
{
	return sg.gateway->ports[0].shards[0].epoch;
}

static void
send_write(struct sg_qp *qp)
{
	static uint8_t block[4096];
	struct wire_header header = sg_io(WIRE_WRITE, 1, 0, sizeof(block), epoch());

	header.payload_crc = crc32c(0, block, sizeof(block));
	sg_send(qp, &header, block, sizeof(block));
	sg_run_for(&sg, NUM_MS(1)); /* it is parked in its shard, which waits for nodes */
}

static uint64_t
metric(enum mt_metric index)
{
	return mt_gateway_metric(sg.gateway, index);
}

/* Nobody has the volume: neither the one that had it, nor one without an id that knows its attach number. */
Test(session, nobody_writes_a_volume_that_was_closed)
{
	struct sg_qp qp;

	attach(SESSION_A);
	command("{\"op\":\"volume.detach\",\"id\":1,\"session\":\"000000000000000a\"}");
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), -ESHUTDOWN);
	cr_assert_eq(open_session(&qp, 0, 1, 1), -ESHUTDOWN);
}

Test(session, an_unknown_volume_is_refused)
{
	struct wire_hello hello = sg_hello(77, SESSION_A, 1, 1);
	struct sg_qp qp;

	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -ENOENT);
	cr_assert_eq(metric(MT_METRIC_sessions_refused), 1);
}

Test(session, another_cluster_is_refused)
{
	struct wire_hello hello = sg_hello(1, SESSION_A, 1, 1);
	struct sg_qp qp;

	hello.cluster_id++;
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -EXDEV);
}

Test(session, only_clients_are_let_in_to_a_volume)
{
	struct wire_hello hello = sg_hello(1, SESSION_A, 1, 1);
	struct sg_qp qp;

	hello.role = WIRE_ROLE_GATEWAY;
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -EPROTO);
	hello = (struct wire_hello){ .role = WIRE_ROLE_NODE, .cluster_id = SG_CLUSTER_ID };
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -EPROTO);
	hello.role = WIRE_ROLE_GATEWAY;
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), 0);
	sg_close(&qp);
}

Test(session, attach_number_and_session_must_be_the_newest)
{
	struct sg_qp qp;

	/* Nobody has attached yet. */
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), -ESHUTDOWN);
	attach(SESSION_A);
	attach(SESSION_B);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), -ESHUTDOWN);
	cr_assert_eq(open_session(&qp, SESSION_A, 2, 1), -ESHUTDOWN);
	cr_assert_eq(open_session(&qp, SESSION_B, 3, 1), -ESHUTDOWN);
	cr_assert_eq(open_session(&qp, SESSION_B, 2, 1), 0);
	sg_close(&qp);
}

Test(session, a_newer_incarnation_replaces_the_older)
{
	struct sg_qp first, second, stale;

	attach(SESSION_A);
	cr_assert_eq(open_session(&first, SESSION_A, 1, 5), 0);
	cr_assert_eq(open_session(&stale, SESSION_A, 1, 5), -ESHUTDOWN);
	cr_assert_eq(open_session(&stale, SESSION_A, 1, 4), -ESHUTDOWN);
	cr_assert(!first.is_closed);
	cr_assert_eq(open_session(&second, SESSION_A, 1, 6), 0);
	cr_assert(sg_wait_closed(&first));
	sg_close(&second);
	/* Nobody is there any more: any incarnation will do. */
	sg_run_for(&sg, NUM_MS(1));
	cr_assert_eq(open_session(&first, SESSION_A, 1, 2), 0);
	sg_close(&first);
}

Test(session, an_attach_closes_the_session_before_it)
{
	struct sg_qp first, second;

	attach(SESSION_A);
	cr_assert_eq(open_session(&first, SESSION_A, 1, 1), 0);
	attach(SESSION_B);
	cr_assert(sg_wait_closed(&first));
	cr_assert_eq(open_session(&second, SESSION_B, 2, 1), 0);
	sg_close(&second);
}

static void
send_control(struct sg_qp *qp, uint64_t request_id, const char *text)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = request_id };

	sg_send(qp, &header, text, (uint32_t)strlen(text));
}

/* In line behind other changes, of a client that dies before its turn comes. */
Test(session, an_attach_whose_client_has_gone_closes_nobody)
{
	struct sg_qp first, second, gone;
	char text[128];

	attach(SESSION_A);
	cr_assert_eq(open_session(&first, SESSION_A, 1, 1), 0);
	sg_connect(&sg, &gone, NULL);
	cr_assert_eq(sg_wait_open(&gone), 0);
	for (uint32_t i = 0; i < 2; i++) {
		(void)snprintf(text, sizeof(text),
		    "{\"op\":\"volume.create\",\"name\":\"w%u\",\"size_bytes\":4096}", i);
		send_control(&gone, i, text);
	}
	send_control(&gone, 2,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000b\"}");
	for (uint32_t i = 0; i < 1000 && !sg.gateway->ports[0].control_requests[2].is_busy; i++)
		sg_run_for(&sg, NUM_US(5));
	cr_assert(sg.gateway->ports[0].control_requests[2].is_busy, "it is in line");
	sg_close(&gone);
	sg_run_for(&sg, NUM_S(1));
	command("{\"op\":\"volume.show\",\"name\":\"w1\"}"); /* its turn had come */
	cr_assert(!first.is_closed);
	cr_assert_eq(open_session(&second, SESSION_A, 1, 2), 0);
	sg_close(&second);
	/* A session that lives gets what it asks for. */
	attach(SESSION_B);
	cr_assert(sg_wait_closed(&second));
}

/*
 * A client that fell silent and is not yet known to be gone has the volume, and gets it once more when its turn comes:
 * either way the next one need not wait until it is known.
 */
Test(session, a_client_that_fell_silent_keeps_nobody_waiting)
{
	struct sim_host *host = sim_host_create(sg.net, "silent");
	struct split_port *living = sg.client, *silent;
	struct sg_qp holder, asker, next;
	uint64_t begin_ns;

	silent = open_roce_instance(&(struct split_port_options){ .loop = sg.client_loop,
	    .sim_host = host,
	    .receive_count = 16 });
	cr_assert_not_null(silent);
	sg.client = silent;
	attach(SESSION_A);
	cr_assert_eq(open_session(&holder, SESSION_A, 1, 1), 0);
	sg_connect(&sg, &asker, NULL);
	cr_assert_eq(sg_wait_open(&asker), 0);
	send_control(&asker, 0, "{\"op\":\"volume.create\",\"name\":\"w\",\"size_bytes\":4096}");
	send_control(&asker, 1,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}");
	for (uint32_t i = 0; i < 1000 && !sg.gateway->ports[0].control_requests[1].is_busy; i++)
		sg_run_for(&sg, NUM_US(5));
	cr_assert(sg.gateway->ports[0].control_requests[1].is_busy, "it is in line");
	sim_net_partition(host, sg.gateway_host);
	begin_ns = sim_world_now_ns(sg.world);
	sg.client = living;
	attach(SESSION_B); /* the third */
	cr_assert_eq(open_session(&next, SESSION_B, 3, 1), 0);
	cr_assert_lt(sim_world_now_ns(sg.world) - begin_ns, NUM_MS(100));
	cr_assert(!holder.is_closed && !asker.is_closed);
	sg_close(&next);
	sg_close(&asker);
	sg_close(&holder);
	split_port_close(silent);
}

/* I11: what the older one has waiting for a shard is not made any more. */
Test(session, what_waits_for_a_shard_goes_with_its_session)
{
	struct sg_qp first, second;

	attach(SESSION_A);
	cr_assert_eq(open_session(&first, SESSION_A, 1, 1), 0);
	send_write(&first);
	cr_assert_eq(metric(MT_METRIC_requests_refused), 0);
	cr_assert_eq(open_session(&second, SESSION_A, 1, 2), 0);
	cr_assert(sg_wait_closed(&first));
	cr_assert_eq(metric(MT_METRIC_requests_refused), 1);
	send_write(&second);
	cr_assert_eq(second.reply_count, 0, "it waits in its turn");
	sg_close(&second);
}

/* Reads hold nobody up. */
Test(session, a_newer_one_does_not_wait_for_reads)
{
	struct wire_header header = sg_io(WIRE_READ, 1, 0, 4096, epoch());
	struct sg_qp first, second;

	attach(SESSION_A);
	cr_assert_eq(open_session(&first, SESSION_A, 1, 1), 0);
	sg_send(&first, &header, NULL, 0);
	sg_run_for(&sg, NUM_MS(1));
	cr_assert_eq(open_session(&second, SESSION_A, 1, 2), 0);
	sg_close(&second);
}

Test(session, a_volume_in_use_is_not_deleted)
{
	struct sg_qp qp;
	json_t *answer;
	int rc;

	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	answer = sg_control(&control, "{\"op\":\"volume.delete\",\"name\":\"v\"}", &rc);
	json_decref(answer);
	cr_assert_eq(rc, -ENOTEMPTY);
	cr_assert(!qp.is_closed);
	command("{\"op\":\"volume.delete\",\"name\":\"v\",\"force\":true}");
	cr_assert(sg_wait_closed(&qp));
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 2), -ENOENT);
}

Test(session, requests_beyond_the_volume_are_refused_and_the_session_lives)
{
	struct wire_header header;
	struct sg_qp qp;

	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	/* The volume may have grown: that is asked for first. */
	header = sg_io(WIRE_READ, 1, VOLUME_BYTES, 4096, 0);
	cr_assert_eq(ask(&qp, &header), -EBUSY);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	header = sg_io(WIRE_READ, 1, VOLUME_BYTES - 4096, 8192, 0);
	cr_assert_eq(ask(&qp, &header), -EBUSY);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	header = sg_io(WIRE_READ, 0, 0, 4096, 0);
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	header = sg_io(WIRE_DISCARD, 2, 0, 4096, 0);
	cr_assert_eq(ask(&qp, &header), -EBUSY);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	header = sg_io(WIRE_HOLES, 2, 0, WIRE_HOLES_BYTES, 0);
	cr_assert_eq(ask(&qp, &header), -EBUSY);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	header = sg_io(WIRE_HOLES, 1, 0, WIRE_HOLES_BYTES, 0);
	cr_assert_eq(ask(&qp, &header), 0);
	header = sg_io(WIRE_READ, UINT64_MAX, 0, 4096, 0);
	cr_assert_eq(ask(&qp, &header), -ERANGE);
	cr_assert(!qp.is_closed);
	cr_assert_eq(metric(MT_METRIC_requests_refused), 10);
	sg_close(&qp);
}

/* Maps are for sessions with read leases, of volumes that have them. */
Test(session, a_map_is_refused_to_who_has_no_lease)
{
	struct wire_header header;
	struct sg_qp qp;

	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	header = sg_io(WIRE_CHUNK_MAP, 1, 0, 4096, 0);
	cr_assert_eq(ask(&qp, &header), -ENOTSUP);
	cr_assert(!qp.is_closed);
	cr_assert_eq(metric(MT_METRIC_chunk_maps), 0);
	sg_close(&qp);
}

Test(session, a_volume_grows_under_its_session)
{
	struct wire_header header;
	struct sg_qp qp;
	json_t *answer;
	char text[200];
	int rc;

	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":%llu,\"id\":77}",
	    (unsigned long long)(2 * VOLUME_BYTES));
	answer = sg_control(&control, text, &rc);
	json_decref(answer);
	cr_assert_eq(rc, -ENOENT, "another volume was meant");
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":%llu,\"id\":1}",
	    (unsigned long long)(2 * VOLUME_BYTES));
	command(text);
	header = sg_io(WIRE_READ, 1, VOLUME_BYTES, 4096, 0);
	rc = ask(&qp, &header);
	if (rc == -EBUSY) {
		sg_run_for(&sg, NUM_MS(10));
		rc = ask(&qp, &header);
	}
	cr_assert_neq(rc, -ERANGE);
	cr_assert(!qp.is_closed);
	sg_close(&qp);
}

Test(session, a_stale_epoch_is_told_the_new_one)
{
	struct wire_header header = sg_io(WIRE_READ, 1, 0, 4096, 99);
	struct mt_port *port = &sg.gateway->ports[0];
	struct sg_qp qp;

	attach(SESSION_A);
	/* As if they were claimed: that takes nodes, and here are none. */
	for (uint32_t i = 0; i < port->shard_count; i++) {
		port->shards[i].epoch = 5;
		sm_move(&port->shards[i].sm, MT_SHARD_AGREEING);
	}
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	cr_assert_eq(ask(&qp, &header), -ESTALE);
	cr_assert_eq(qp.replies[0].header.epoch, epoch());
	sg_close(&qp);
}

Test(session, a_control_session_does_no_io)
{
	struct wire_header header = sg_io(WIRE_READ, 1, 0, 4096, 0);

	cr_assert_eq(ask(&control, &header), -EINVAL);
}

Test(session, a_header_that_is_out_of_range_closes_it)
{
	struct wire_header header = sg_io(WIRE_READ, 1, 0, 4096, 0);
	struct sg_qp qp;

	header.length_bytes = 100;
	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	cr_assert_eq(ask(&qp, &header), -ECONNRESET);
	header = (struct wire_header){ .opcode = WIRE_EXTENT_APPEND };
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 2), 0);
	cr_assert_eq(ask(&qp, &header), -ECONNRESET);
}

Test(session, echo_comes_back)
{
	struct wire_header header = { .opcode = WIRE_ECHO, .request_id = 9 };
	uint32_t count = control.reply_count + 1;

	sg_send(&control, &header, "hello", 5);
	cr_assert(sg_wait_replies(&control, count));
	cr_assert_str_eq(control.replies[count - 1].text, "hello");
	cr_assert_eq(control.replies[count - 1].header.request_id, 9);
}

/* Requests in flight when the queue pair goes: the session stays until they end, then is freed. */
Test(session, a_client_that_leaves_with_requests_in_flight_leaks_nothing)
{
	struct sg_qp qp;

	attach(SESSION_A);
	cr_assert_eq(open_session(&qp, SESSION_A, 1, 1), 0);
	send_write(&qp);
	sg_close(&qp);
	sg_run_for(&sg, NUM_MS(10));
	sg_close(&control);
	sg_stop(&sg);
	cr_assert_eq(sg_start(&sg), 0);
}
