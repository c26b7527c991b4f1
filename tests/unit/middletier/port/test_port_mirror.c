/* SPDX-License-Identifier: Apache-2.0 */
/* test_port_mirror.c -- heads of batches that come to a port: what is kept, who is refused, which bytes close the connection */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/extent/head_mirror.h"
#include "middletier/gateway/gateway.h"
#include "support/sim_gateway.h"

static const struct wire_hello gateway_hello = { .level = 2,
	.role = WIRE_ROLE_GATEWAY,
	.cluster_id = SG_CLUSTER_ID };
static const struct wire_mirror_entry entry = { { 1, 3, 7 }, 8192, BATCH_HEADER_BYTES };

static struct sg sg;
static struct sg_qp qp;
static uint8_t payload[2 * (WIRE_MIRROR_ENTRY_BYTES + BATCH_HEADER_BYTES)];

static void
setup(void)
{
	sg_init(&sg, 5);
	sg.options.mirror_bytes = NUM_MIB(1);
}

static void
teardown(void)
{
	sg_fini(&sg);
}

TestSuite(port_mirror, .init = setup, .fini = teardown);

static struct mt_port *
port(void)
{
	return &sg.gateway->ports[0];
}

static void
send_payload(uint32_t bytes)
{
	const struct wire_mirror mirror = { .request_id = 9, .payload_bytes = bytes };
	struct wire_header header;

	wire_mirror_encode(&header, &mirror);
	sg_send(&qp, &header, payload, bytes);
}

/* A connection by @hello, and a message of two heads on it. */
static void
send_heads(const struct wire_hello *hello)
{
	struct wire_mirror_entry second = entry;
	uint8_t head[BATCH_HEADER_BYTES];

	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_connect(&sg, &qp, hello);
	cr_assert_eq(sg_wait_open(&qp), 0);
	second.offset_bytes += BATCH_ALIGN;
	memset(head, 5, sizeof(head));
	(void)wire_mirror_entry_encode(payload, &entry, head);
	(void)wire_mirror_entry_encode(payload + sizeof(payload) / 2, &second, head);
	send_payload(sizeof(payload));
}

static int
answer_rc(void)
{
	struct wire_mirror answer;
	const char *field;

	cr_assert(sg_wait_replies(&qp, 1));
	cr_assert_eq(wire_mirror_decode(&qp.replies[0].header, &answer, &field), 0);
	cr_assert(answer.is_reply && answer.request_id == 9);
	return answer.rc;
}

Test(port_mirror, heads_of_another_gateway_are_kept)
{
	uint8_t head[BATCH_HEAD_BYTES_MAX];

	send_heads(&gateway_hello);
	cr_assert_eq(answer_rc(), 0);
	cr_assert_eq(port()->metrics[MT_METRIC_heads_kept], 2);
	cr_assert_eq(mt_head_mirror_get(port()->head_mirror, &entry.id, entry.offset_bytes, head),
	    BATCH_HEADER_BYTES);
	cr_assert_eq(head[100], 5);
}

Test(port_mirror, a_port_that_keeps_none_says_so)
{
	sg.options.mirror_bytes = 0;
	send_heads(&gateway_hello);
	cr_assert_eq(answer_rc(), -ENOTSUP);
}

Test(port_mirror, a_clients_are_not_taken)
{
	const struct wire_hello client = { .level = 2, .role = WIRE_ROLE_CLIENT };

	send_heads(&client);
	cr_assert(sg_wait_closed(&qp));
	cr_assert_eq(port()->metrics[MT_METRIC_heads_kept], 0);
}

Test(port_mirror, a_gateway_of_before_has_no_such_message)
{
	struct wire_hello old = gateway_hello;

	old.level = 1;
	send_heads(&old);
	cr_assert(sg_wait_closed(&qp));
	cr_assert_eq(port()->metrics[MT_METRIC_heads_kept], 0);
}

Test(port_mirror, a_wrong_entry_ends_the_connection)
{
	send_heads(&gateway_hello);
	cr_assert_eq(answer_rc(), 0);
	payload[sizeof(payload) / 2 + 8] ^= 1; /* the second one's place */
	send_payload(sizeof(payload));
	cr_assert(sg_wait_closed(&qp));
	cr_assert_eq(port()->metrics[MT_METRIC_heads_kept], 3);
}

Test(port_mirror, a_gateway_has_no_volume)
{
	struct wire_hello hello = gateway_hello;

	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	hello.volume_id = 1;
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -EPROTO);
	hello.volume_id = hello.cluster_id = 0;
	sg_connect(&sg, &qp, &hello);
	cr_assert_eq(sg_wait_open(&qp), -EXDEV, "it knows its cluster");
}
