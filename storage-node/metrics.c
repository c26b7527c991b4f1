/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- what a node counts and measures: names, and the text that monitors read */
#include "metrics.h"

#include <inttypes.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/num.h"
#include "cleave/health.h"
#include "cleave/secure_options.h"
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

/* A node that has a key. */
struct key_sample {
	uint64_t days_left;
};
static const struct metric_member key_members[] = {
	METRIC_MEMBER(struct key_sample, days_left, "key_days_left", "days",
	    "until this node's key, or its authority's, expires; rounded down", METRIC_GAUGE),
};

/* Bytes of the disk's slots, and whose they are. */
struct disk_sample {
	uint64_t total_bytes, used_bytes, reserved_bytes;
};
#define DISK(member, name, help)                                                                   \
	METRIC_MEMBER(struct disk_sample, member, name, "bytes", help, METRIC_GAUGE)
static const struct metric_member room_members[] = {
	DISK(total_bytes, "disk_bytes", "slots of the disk that can be used"),
	DISK(used_bytes, "disk_used_bytes", "slots with an extent"),
	DISK(reserved_bytes, "disk_reserved_bytes", "free slots that no log extent may take"),
};
#undef DISK

struct info_sample {
	uint64_t one;
};
static const struct metric_member info_members[] = {
	METRIC_MEMBER(struct info_sample, one, "info", "count",
	    "1, of the node's cluster and number", METRIC_GAUGE),
};

static const struct metric_member kind_members[] = {
	{ { "extents", "count", "extents", METRIC_GAUGE }, 0, sizeof(uint32_t) },
};

static void
label_node(const struct node *node, struct metric_object *object)
{
	char cluster[17];

	(void)snprintf(cluster, sizeof(cluster), "%016" PRIx64, node->super.cluster_id);
	metric_label(object, "cluster", cluster);
	metric_label_u64(object, "node", node->super.node_id);
}

static void
write_room(const struct node *node, const struct node_sample *slots, FILE *out)
{
	const struct info_sample info = { .one = 1 };
	const struct disk_sample room = {
		.total_bytes = (uint64_t)(slots->slots_total - slots->slots_bad) *
		    slots->slot_bytes,
		.used_bytes =
		    (uint64_t)(slots->slots_total - slots->slots_bad - slots->slots_free) *
		    slots->slot_bytes,
		.reserved_bytes = (uint64_t)num_min(slots->slots_reserved, slots->slots_free) *
		    slots->slot_bytes,
	};
	struct metric_object object = { .values = &info };

	assert(slots->slots_bad + slots->slots_free <= slots->slots_total);
	label_node(node, &object);
	metrics_write(out, "cleave_storage", info_members, NUM_COUNT(info_members), &object, 1);
	object.values = &room;
	metrics_write(out, "cleave_storage", room_members, NUM_COUNT(room_members), &object, 1);
}

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
	write_room(node, &sample, out);
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
	if (node->key != NULL) {
		const struct key_sample key = { secure_days_left(split_key_expires_s(node->key)) };

		object.values = &key;
		metrics_write(out, "cleave_storage", key_members, NUM_COUNT(key_members), &object,
		    1);
	}
	if (sample.is_ready)
		write_disk(node, out);
	build_info_write(out);
	metrics_write_end(out);
}

bool
node_health_write(const struct node *node, FILE *out)
{
	bool is_displaced = node->options.is_displaced != NULL &&
	    node->options.is_displaced(node->options.arg);

	CHECK_OBJ(node, SN_NODE_MAGIC);
	if (node->is_read_only)
		(void)fprintf(out, "%s: %s\n", health_info(CLEAVE_HEALTH_NODE_READ_ONLY)->name,
		    health_info(CLEAVE_HEALTH_NODE_READ_ONLY)->means);
	else if (is_displaced)
		(void)fprintf(out, "%s: %s\n", health_info(CLEAVE_HEALTH_NODE_DISPLACED)->name,
		    health_info(CLEAVE_HEALTH_NODE_DISPLACED)->means);
	else if (node->sm.state != NODE_READY)
		(void)fputs("it reads its disk, or stops\n", out);
	else
		(void)fputs("ok\n", out);
	return !node->is_read_only && !is_displaced && node->sm.state == NODE_READY;
}
