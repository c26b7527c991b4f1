/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_hops.c -- how long appends and reads take at a node: counted, told in replies, written for monitors */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "storage-node/hops.h"
#include "storage-node/node_state.h"
#include "unit/extent_fixture.h"

TestSuite(node_hops, .init = setup, .fini = teardown);

static const struct latency *
of(enum sn_hop hop)
{
	return &rig->node->hops.of[hop];
}

Test(node_hops, of_an_append_are_counted_and_told)
{
	struct rig_call *call = rig_append_post(rig, &extent, 2);
	struct wire_node_times times;
	uint64_t sum_ns;

	cr_assert_eq(rig_wait(call), 0);
	cr_assert_neq(call->reply.length_bytes, 0, "it tells");
	times = wire_node_times_decode(call->reply.length_bytes);
	rig_done(call);
	cr_assert_eq(latency_total(of(SN_HOP_APPEND_TOTAL)), 1);
	cr_assert_eq(latency_total(of(SN_HOP_APPEND_FLUSH)), 1);
	sum_ns = of(SN_HOP_APPEND_QUEUE)->sum_ns + of(SN_HOP_APPEND_WRITE)->sum_ns +
	    of(SN_HOP_APPEND_FLUSH)->sum_ns;
	cr_assert_eq(of(SN_HOP_APPEND_TOTAL)->sum_ns, sum_ns, "they are the whole");
	cr_assert_gt(of(SN_HOP_APPEND_WRITE)->sum_ns, 0, "the simulated disk takes its time");
	cr_assert_leq(times.write_us, of(SN_HOP_APPEND_WRITE)->sum_ns / NUM_US(1));
	cr_assert_geq(times.write_us, of(SN_HOP_APPEND_WRITE)->sum_ns / NUM_US(1) * 29 / 30);
}

Test(node_hops, of_what_was_refused_are_not)
{
	struct wire_node_reply reply;
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, &extent, 1, 0, &bytes);

	cr_assert_neq(rig_call_rc(rig,
			  &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
			      .id = extent.id,
			      .kind = EXTENT_LOG,
			      .offset_bytes = 8192,
			      .length_bytes = bytes,
			      .epoch = 5 },
			  batch, bytes, &reply),
	    0);
	cr_assert_eq(reply.length_bytes, 0, "it tells no times");
	cr_assert_eq(latency_total(of(SN_HOP_APPEND_TOTAL)), 0);
}

Test(node_hops, of_reads_and_all_of_them_are_for_monitors)
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
	cr_assert_gt(latency_total(of(SN_HOP_READ_TOTAL)), 0);
	sn_hops_write(rig->node, out);
	cr_assert_eq(fclose(out), 0);
	cr_assert_not_null(strstr(text, "# TYPE cleave_storage_latency_seconds histogram\n"));
	cr_assert_not_null(
	    strstr(text, "cleave_storage_latency_seconds_count{op=\"append\",hop=\"flush\"} 1\n"));
	cr_assert_not_null(strstr(text,
	    "cleave_storage_latency_seconds_bucket{op=\"read\",hop=\"total\",le=\"+Inf\"} "));
	free(text);
}
