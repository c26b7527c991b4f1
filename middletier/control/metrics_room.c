/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_room.c -- see metrics_room.h; each metric has its unit in its name, bytes */
#include "control/metrics_room.h"

#include <inttypes.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "health/health.h"

struct room_sample {
	uint64_t raw, stored, total, usable;
};
#define ROOM(member, name, help)                                                                   \
	METRIC_MEMBER(struct room_sample, member, name, "bytes", help, METRIC_GAUGE)
static const struct metric_member room_members[] = {
	ROOM(raw, "room_raw_bytes", "slots of all nodes, whatever is in them"),
	ROOM(stored, "room_stored_bytes", "slots of all nodes with an extent: all copies"),
	ROOM(total, "room_data_bytes",
	    "extents that all their copies find slots for, in all, at nodes that take data"),
	ROOM(usable, "room_usable_bytes",
	    "of what is left of them: what finds slots now, at nodes that are up"),
};
#undef ROOM

struct node_room_sample {
	uint64_t total, used, reserved;
};
#define NODE_ROOM(member, name, help)                                                              \
	METRIC_MEMBER(struct node_room_sample, member, name, "bytes", help, METRIC_GAUGE)
static const struct metric_member node_room_members[] = {
	NODE_ROOM(total, "disk_bytes", "slots of its disk"),
	NODE_ROOM(used, "disk_used_bytes", "slots with an extent, as last heard"),
	NODE_ROOM(reserved, "disk_reserved_bytes", "free slots that are kept back, as last heard"),
};
#undef NODE_ROOM

struct answer_sample {
	uint64_t one;
};
static const struct metric_member answer_members[] = {
	METRIC_MEMBER(struct answer_sample, one, "info", "count",
	    "1, of the gateway's cluster and number", METRIC_GAUGE),
};
struct partial_sample {
	bool is_partial;
};
static const struct metric_member partial_members[] = {
	METRIC_MEMBER(struct partial_sample, is_partial, "scrape_partial", "bool",
	    "1: a port has not answered for a second, and nothing of it is told", METRIC_GAUGE),
};

static void
write_answer(FILE *out, const struct mt_ask *ask, const char *cluster)
{
	const struct answer_sample one = { .one = 1 };
	const struct partial_sample partial = { .is_partial = ask->silent_count > 0 };
	struct metric_object info = { .values = &one }, object = { .values = &partial };
	char id[17];

	assert(ask->silent_count <= ask->gateway->port_count);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, ask->gateway->options.gateway_id);
	metric_label(&info, "cluster", cluster);
	metric_label(&info, "gateway", id);
	metrics_write(out, "cleave_gateway", answer_members, NUM_COUNT(answer_members), &info, 1);
	metrics_write(out, "cleave_gateway", partial_members, NUM_COUNT(partial_members), &object,
	    1);
	build_info_write(out);
}

static void
take_node(const struct mt_link_status *link, const char *cluster, struct node_room_sample *sample,
    struct metric_object *object)
{
	uint64_t free_count = num_min(link->slots_free, link->slots_total);

	assert(link->slots_total > 0);
	*sample = (struct node_room_sample){
		.total = link->slots_total * link->slot_bytes,
		.used = (link->slots_total - free_count) * link->slot_bytes,
		.reserved = num_min(link->slots_reserved, free_count) * link->slot_bytes,
	};
	object->values = sample;
	metric_label(object, "cluster", cluster);
	metric_label_u64(object, "node", link->node_id);
	metric_label(object, "domain", link->config.domain);
}

/* Nodes as the first port has heard of them that has answered. */
static void
write_nodes(FILE *out, const struct mt_ask *ask, const char *cluster)
{
	struct node_room_sample *samples = mt_calloc(MT_NODES_MAX, sizeof(*samples));
	struct metric_object *objects = mt_calloc(MT_NODES_MAX, sizeof(*objects));
	const struct mt_port_status *status = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count && status == NULL; i++)
		status = ask->legs[i].status.links != NULL ? &ask->legs[i].status : NULL;
	if (samples != NULL && objects != NULL && status != NULL) {
		assert(status->link_count <= MT_NODES_MAX);
		for (uint32_t i = 0; i < status->link_count; i++) {
			const struct mt_link_status *link = &status->links[i];

			/* Not heard of yet, or no longer a member. */
			if (link->slots_total == 0 || mt_node_is_gone(&link->config))
				continue;
			take_node(link, cluster, &samples[count], &objects[count]);
			count++;
		}
	}
	metrics_write(out, "cleave_gateway_node", node_room_members, NUM_COUNT(node_room_members),
	    objects, count);
	mt_free(objects);
	mt_free(samples);
}

void
mt_metrics_write_room(FILE *out, const struct mt_ask *ask, const struct mt_room *room)
{
	const struct room_sample sample = {
		.raw = room->raw_total,
		.stored = room->raw_total - room->raw_free,
		.total = room->data_total,
		.usable = room->data_free,
	};
	struct metric_object object = { .values = &sample };
	char cluster[17];

	assert(room->raw_free <= room->raw_total);
	(void)snprintf(cluster, sizeof(cluster), "%016" PRIx64, ask->gateway->options.cluster_id);
	write_answer(out, ask, cluster);
	metrics_write(out, "cleave_gateway", room_members, NUM_COUNT(room_members), &object, 1);
	write_nodes(out, ask, cluster);
}
