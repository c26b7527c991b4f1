/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hops.c -- how long appends and reads take at this node, hop by hop
 *
 * Times are those of the loop's turns, but for the moment when a gathered write goes to the disk: checks of a turn
 * come before it, and belong to the queue.
 */
#include "hops.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "node_state.h"

static uint64_t
hop_ns(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static uint32_t
hop_us(uint64_t ns)
{
	return (uint32_t)num_min(ns / NUM_US(1), UINT32_MAX);
}

uint32_t
sn_hops_append(struct node *node, const struct sn_stamps *stamps)
{
	struct latency *of = node->hops.of;
	uint64_t now_ns = loop_now_ns(node->loop);
	uint64_t queue_ns = hop_ns(stamps->taken_ns, stamps->began_ns);
	uint64_t write_ns = hop_ns(stamps->began_ns, stamps->written_ns);
	uint64_t flush_ns = hop_ns(stamps->written_ns, now_ns);
	struct wire_node_times times = { hop_us(queue_ns), hop_us(write_ns), hop_us(flush_ns) };

	latency_count(&of[SN_HOP_APPEND_QUEUE], queue_ns);
	latency_count(&of[SN_HOP_APPEND_WRITE], write_ns);
	latency_count(&of[SN_HOP_APPEND_FLUSH], flush_ns);
	latency_count(&of[SN_HOP_APPEND_TOTAL], hop_ns(stamps->taken_ns, now_ns));
	return wire_node_times_encode(&times);
}

void
sn_hops_read(struct node *node, uint64_t began_ns)
{
	latency_count(&node->hops.of[SN_HOP_READ_TOTAL], hop_ns(began_ns, loop_now_ns(node->loop)));
}

void
sn_hops_write(const struct node *node, FILE *out)
{
	static const char *const names[SN_HOP_NR][2] = {
#define SN_HOP_NAMES(symbol, operation, name) [SN_HOP_##symbol] = { operation, name },
		SN_HOP_LIST(SN_HOP_NAMES)
#undef SN_HOP_NAMES
	};
	struct metric_object objects[SN_HOP_NR] = { 0 };

	assert(out != NULL);
	for (uint32_t i = 0; i < SN_HOP_NR; i++) {
		objects[i].values = &node->hops.of[i];
		metric_label(&objects[i], "op", names[i][0]);
		metric_label(&objects[i], "hop", names[i][1]);
	}
	latency_print(out, "cleave_storage_latency", "how long appends and reads took, by hop",
	    objects, SN_HOP_NR);
}
