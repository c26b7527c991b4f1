/* SPDX-License-Identifier: Apache-2.0 */
/* test_holder.c -- who has a volume open for writing, and when another one may */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/gateway/gateway.h"
#include "support/sim_gateway.h"

#define SESSION_NS NUM_S(10) /* the gateway's default */

static struct sg sg;
static struct sg_qp control;

static json_t *
command(const char *text, int wanted_rc)
{
	int rc = 0;
	json_t *answer = sg_control(&control, text, &rc);

	cr_assert_eq(rc, wanted_rc, "%s: %d", text, rc);
	return answer;
}

/* volume.attach as session @session_id; the answer. */
static json_t *
attach(uint64_t session_id, bool is_take, int wanted_rc)
{
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"%016" PRIx64
	    "\",\"client\":\"vm%" PRIu64 "\",\"take\":%s}",
	    session_id, session_id, is_take ? "true" : "false");
	return command(text, wanted_rc);
}

static void
detach(uint64_t session_id)
{
	char text[128];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.detach\",\"id\":1,\"session\":\"%016" PRIx64 "\"}", session_id);
	json_decref(command(text, 0));
}

static void
setup(void)
{
	sg_init(&sg, 2);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(command("{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1048576}", 0));
}

static void
teardown(void)
{
	sg_close(&control);
	sg_fini(&sg);
}

TestSuite(holder, .init = setup, .fini = teardown);

static int
open_session(struct sg_qp *qp, uint64_t session_id, uint64_t attach_number)
{
	struct wire_hello hello = sg_hello(1, session_id, attach_number, 1);

	sg_connect(&sg, qp, &hello);
	return sg_wait_open(qp);
}

static int
ask(struct sg_qp *qp, const struct wire_header *header)
{
	uint32_t count = qp->reply_count + 1;

	sg_send(qp, header, NULL, 0);
	return sg_wait_replies(qp, count) ? status_to_errno(qp->replies[count - 1].header.status)
					  : -ETIME;
}

static uint64_t
metric(enum mt_metric index)
{
	return mt_gateway_metric(sg.gateway, index);
}

/* A virtual second, and the control connection's keep-alive never comes into it. */
static void
wait_ns(uint64_t ns)
{
	sg_run_for(&sg, ns);
}

static const char *
error_of(const json_t *answer)
{
	return json_string_value(json_object_get(answer, "error"));
}

Test(holder, a_second_writer_is_refused_and_told_who_it_is)
{
	struct sg_qp first;
	json_t *answer, *holder;

	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&first, 0xa, 1), 0);
	for (uint32_t i = 0; i < 5; i++) {
		answer = attach(0xb, false, -EUSERS);
		cr_assert(strstr(error_of(answer), "in use by vm10 at ") != NULL, "%s",
		    error_of(answer));
		cr_assert(strstr(error_of(answer), "--take") != NULL);
		cr_assert_null(json_object_get(answer, "retry_ms"), "it is there");
		holder = json_object_get(answer, "holder");
		cr_assert_str_eq(json_string_value(json_object_get(holder, "client")), "vm10");
		json_decref(answer);
		wait_ns(NUM_S(7)); /* idle, and alive */
	}
	cr_assert(!first.is_closed);
	cr_assert_eq(metric(MT_METRIC_sessions_held), 5);
	answer = command("{\"op\":\"volume.list\"}", 0);
	holder = json_object_get(json_array_get(json_object_get(answer, "volumes"), 0), "holder");
	cr_assert_str_eq(json_string_value(json_object_get(holder, "client")), "vm10");
	json_decref(answer);
	sg_close(&first);
}

Test(holder, take_takes_and_is_counted)
{
	struct sg_qp first, second;

	json_decref(attach(0xa, true, 0));
	cr_assert_eq(metric(MT_METRIC_sessions_taken), 0, "nobody had it");
	cr_assert_eq(open_session(&first, 0xa, 1), 0);
	json_decref(attach(0xb, true, 0));
	cr_assert(sg_wait_closed(&first));
	cr_assert_eq(open_session(&second, 0xb, 2), 0);
	cr_assert_eq(metric(MT_METRIC_sessions_taken), 1);
	sg_close(&second);
}

/* An attach whose answer was lost comes again: it is no other. */
Test(holder, the_same_session_asks_again)
{
	struct sg_qp qp;

	json_decref(attach(0xa, false, 0));
	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&qp, 0xa, 2), 0);
	cr_assert_eq(metric(MT_METRIC_sessions_taken), 0);
	sg_close(&qp);
}

Test(holder, a_session_that_closes_lets_the_next_one_in_at_once)
{
	struct sg_qp qp;

	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&qp, 0xa, 1), 0);
	detach(0xb); /* it is not that one's to close */
	json_decref(attach(0xb, false, -EUSERS));
	detach(0xa);
	json_decref(attach(0xb, false, 0));
	cr_assert(sg_wait_closed(&qp));
	detach(0xa); /* long gone */
	json_decref(attach(0xc, false, -EUSERS));
	cr_assert_eq(open_session(&qp, 0xa, 1), -ESHUTDOWN, "a closed session is over");
}

/* The time counts from the last that was seen of it: its queue pair's end, or an attempt to come back. */
Test(holder, who_is_silent_for_the_session_time_has_left)
{
	struct sg_qp qp;
	json_t *answer;

	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&qp, 0xa, 1), 0);
	wait_ns(NUM_S(30));
	sg_close(&qp);
	wait_ns(SESSION_NS - NUM_S(1));
	answer = attach(0xb, false, -EUSERS);
	cr_assert_gt(json_integer_value(json_object_get(answer, "retry_ms")), 900);
	cr_assert_leq(json_integer_value(json_object_get(answer, "retry_ms")), 1001);
	json_decref(answer);
	cr_assert_eq(open_session(&qp, 0xa, 1), 0, "it is back");
	sg_close(&qp);
	wait_ns(SESSION_NS - NUM_S(1));
	json_decref(attach(0xb, false, -EUSERS));
	wait_ns(NUM_S(1) + NUM_MS(1));
	json_decref(attach(0xb, false, 0));
	cr_assert_eq(metric(MT_METRIC_sessions_taken), 1);
}

/* The client attached, and died before it came to a port. */
Test(holder, who_never_comes_has_the_session_time)
{
	json_decref(attach(0xa, false, 0));
	wait_ns(SESSION_NS - NUM_MS(100));
	json_decref(attach(0xb, false, -EUSERS));
	wait_ns(NUM_MS(101));
	json_decref(attach(0xb, false, 0));
}

/* The gateway's knowledge has gone with it: nobody is let in before the session could come back. */
Test(holder, a_gateway_that_restarts_waits_for_the_session)
{
	struct sg_qp qp;

	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&qp, 0xa, 1), 0);
	wait_ns(NUM_S(60));
	sg_kill(&sg);
	cr_assert(sg_wait_closed(&qp) && sg_wait_closed(&control));
	sg_close(&qp);
	sg_close(&control);
	wait_ns(NUM_S(60));
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(attach(0xb, false, -EUSERS));
	cr_assert_eq(open_session(&qp, 0xa, 1), 0, "it is back");
	wait_ns(2 * SESSION_NS);
	json_decref(attach(0xb, false, -EUSERS));
	sg_close(&qp);
	wait_ns(SESSION_NS + NUM_MS(1));
	json_decref(attach(0xb, false, 0));
}

Test(holder, readers_come_and_stay_beside_the_writer)
{
	struct wire_header header;
	struct sg_qp writer, reader, other;
	json_t *answer;

	answer = command("{\"op\":\"volume.open\",\"name\":\"v\"}", 0);
	cr_assert_eq(json_integer_value(json_object_get(answer, "attach")), 0);
	cr_assert(json_is_true(json_object_get(answer, "read_only")));
	cr_assert_not_null(json_object_get(answer, "map"));
	json_decref(answer);
	cr_assert_eq(open_session(&reader, 1, 0), 0);
	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&writer, 0xa, 1), 0);
	cr_assert_eq(open_session(&other, 2, 0), 0);
	json_decref(attach(0xb, true, 0));
	cr_assert(sg_wait_closed(&writer));
	cr_assert(!reader.is_closed && !other.is_closed, "readers are not fenced");
	sg_close(&reader);
	header = sg_io(WIRE_DISCARD, 1, 0, 4096, 0);
	cr_assert_eq(ask(&other, &header), -EROFS);
	/* Another size is found by going beyond the old one. */
	json_decref(command("{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":2097152}", 0));
	header = sg_io(WIRE_READ, 1, NUM_MIB(1), 4096, 0);
	cr_assert_eq(ask(&other, &header), -EBUSY);
	wait_ns(NUM_MS(10));
	cr_assert_neq(ask(&other, &header), -ERANGE);
	/* Deletion ends them, and they are a reason against it. */
	detach(0xb);
	answer = command("{\"op\":\"volume.delete\",\"name\":\"v\"}", -ENOTEMPTY);
	cr_assert(strstr(error_of(answer), "being read by 1") != NULL, "%s", error_of(answer));
	json_decref(answer);
	cr_assert(!other.is_closed);
	json_decref(command("{\"op\":\"volume.delete\",\"name\":\"v\",\"force\":true}", 0));
	cr_assert(sg_wait_closed(&other));
	cr_assert_eq(open_session(&other, 2, 0), -ENOENT);
}

Test(holder, what_a_volume_in_use_refuses_names_the_user)
{
	static const char *const texts[] = {
		"{\"op\":\"volume.delete\",\"name\":\"v\"}",
		"{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":4096,\"shrink\":true}",
	};
	struct sg_qp qp;

	json_decref(attach(0xa, false, 0));
	cr_assert_eq(open_session(&qp, 0xa, 1), 0);
	sg_close(&qp); /* not closed: it may come back */
	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		json_t *answer = command(texts[i], -ENOTEMPTY);

		cr_assert(strstr(error_of(answer), "in use by vm10 at ") != NULL, "%s",
		    error_of(answer));
		cr_assert(strstr(error_of(answer), "--force") != NULL);
		json_decref(answer);
	}
	cr_assert_eq(open_session(&qp, 0xa, 1), 0, "it may come, when nothing came of it");
	sg_close(&qp);
	detach(0xa);
	for (size_t i = NUM_COUNT(texts); i-- > 0;)
		json_decref(command(texts[i], 0));
}

Test(holder, whatever_it_calls_itself)
{
	json_t *answer;

	json_decref(
	    command("{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"00000000000000aa\","
		    "\"client\":\"a \\u00fc\\u0007 \\\"name\\\" that is much, much longer than "
		    "anybody would want to read it in a line of a log\"}",
		0));
	answer = attach(0xb, false, -EUSERS);
	cr_assert(strstr(error_of(answer), "in use by a ??? ?name? that is") != NULL, "%s",
	    error_of(answer));
	json_decref(answer);
	json_decref(
	    command("{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"0000000000000000\"}",
		-EINVAL));
}
