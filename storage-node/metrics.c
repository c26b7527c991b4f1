/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- what a node counts and measures: names, and the text that monitors read */
#include "metrics.h"

#include "base/check.h"
#include "base/num.h"
#include "extent.h"
#include "hops.h"
#include "node_state.h"

const struct metric_member sn_counter_members[SN_COUNTER_NR] = {
#define COUNTER_MEMBER(name, unit, help)                                                           \
	METRIC_MEMBER(struct node_counters, name, #name, unit, help, METRIC_COUNTER),
	NODE_COUNTER_LIST(COUNTER_MEMBER)
#undef COUNTER_MEMBER
};

const struct metric_member sn_split_members[SN_SPLIT_NR] = {
#define SPLIT_MEMBER(name, unit, help)                                                             \
	METRIC_MEMBER(struct split_counters, name, #name, unit, help, METRIC_COUNTER),
	SPLIT_COUNTER_LIST(SPLIT_MEMBER)
#undef SPLIT_MEMBER
};

#define NODE(member, name, unit, help)                                                             \
	METRIC_MEMBER(struct node_sample, member, name, unit, help, METRIC_GAUGE)

/* Members of every node, also while it reads its disk. */
struct node_sample {
	bool is_ready, is_read_only;
	uint32_t slots_total, slots_free, slots_bad, slots_reserved, damaged_count, receives_free;
	uint64_t slot_bytes;
};
static const struct metric_member state_members[] = {
	NODE(is_ready, "ready", "bool", "1 while gateways are served"),
	NODE(is_read_only, "read_only", "bool", "1 after a failed flush: nothing more is written"),
};

/* Members of a node that is ready. */
static const struct metric_member disk_members[] = {
	NODE(slots_total, "slots", "count", "slots of the disk"),
	NODE(slots_free, "slots_free", "count", "slots without an extent"),
	NODE(slots_bad, "slots_bad", "count", "slots that cannot be used"),
	NODE(slots_reserved, "slots_reserved", "count", "free slots that no log extent may take"),
	NODE(slot_bytes, "slot_bytes", "bytes", "of a slot"),
	NODE(damaged_count, "extents_damaged", "count", "copies that are known to be damaged"),
	NODE(receives_free, "receives_free", "count", "receives that nobody holds"),
};
#undef NODE

static const struct metric_member kind_members[] = {
	{ { "extents", "count", "extents", METRIC_GAUGE }, 0, sizeof(uint32_t) },
};

static void
write_disk(const struct node *node, FILE *out)
{
	static const char *const kinds[] = {
		[EXTENT_LOG] = "log",
		[EXTENT_RUN] = "run",
		[EXTENT_MANIFEST] = "manifest",
	};
	struct node_sample sample = {
		.slots_total = node->super.slot_count,
		.slots_free = sn_extent_free_count(node),
		.slots_bad = node->bad_count,
		.slots_reserved = sn_extent_reserve(node, EXTENT_LOG),
		.slot_bytes = node->super.slot_bytes,
		.damaged_count = sn_extent_damaged_count(node),
		.receives_free = split_port_receives_free(node->port),
	};
	struct metric_object object = { .values = &sample }, by_kind[3] = { 0 };

	assert(node->sm.state == NODE_READY);
	metrics_write(out, "cleave_storage", disk_members, NUM_COUNT(disk_members), &object, 1);
	for (uint32_t i = 0; i < NUM_COUNT(by_kind); i++) {
		by_kind[i].values = &node->kind_counts[EXTENT_LOG + i];
		metric_label(&by_kind[i], "kind", kinds[EXTENT_LOG + i]);
	}
	metrics_write(out, "cleave_storage", kind_members, NUM_COUNT(kind_members), by_kind,
	    NUM_COUNT(by_kind));
	object.values = split_port_counters(node->port);
	metrics_write(out, "cleave_storage_split", sn_split_members, SN_SPLIT_NR, &object, 1);
}

void
node_metrics_write(const struct node *node, FILE *out)
{
	struct node_sample sample = {
		.is_ready = node->sm.state == NODE_READY,
		.is_read_only = node->is_read_only,
	};
	struct metric_object object = { .values = &sample };

	CHECK_OBJ(node, SN_NODE_MAGIC);
	metrics_write(out, "cleave_storage", state_members, NUM_COUNT(state_members), &object, 1);
	object.values = &node->counters;
	metrics_write(out, "cleave_storage", sn_counter_members, SN_COUNTER_NR, &object, 1);
	sn_hops_write(node, out);
	if (sample.is_ready)
		write_disk(node, out);
	metrics_write_end(out);
}
