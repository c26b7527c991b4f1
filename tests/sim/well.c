/* SPDX-License-Identifier: Apache-2.0 */
/* well.c -- see well.h */
#include "well.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "middletier/common/replica.h"
#include "middletier/gateway/gateway.h"
#include "middletier/health/health.h"

#define WELL_LIMIT_NS NUM_S(120) /* for nodes that were slow, and avoided for some time */
#define TOLD_LIMIT_NS NUM_S(5)
#define LOOK_NS NUM_MS(100)

struct look {
	struct sim_cluster *cluster;
	uint32_t node;  /* index, of sim_check_told */
	char text[512]; /* what stands against it; "": nothing */
};

/* Has a bit of the disk of @object, a node, turned? Where that is in a slot's header, it has lost a copy that it had. */
static bool
is_rotten(const struct sim_cluster *cluster, const char *object)
{
	char name[MT_HEALTH_OBJECT_BYTES];

	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		(void)snprintf(name, sizeof(name), "node %u", i + 1);
		if (strcmp(name, object) == 0)
			return disk_sim_counts(cluster->nodes[i].disk)->rotten_bits > 0;
	}
	return false;
}

/* Reasons that a run may end with: its disks are small, or rot, and some of its nodes or releases are others. */
static bool
is_so(const struct sim_cluster *cluster, const struct mt_health_reason *reason)
{
	bool has_all = sim_cluster_here_count(cluster) == cluster->options.node_count;

	switch (reason->code) {
	case CLEAVE_HEALTH_ROOM_LOW:
	case CLEAVE_HEALTH_ROOM_END:
	case CLEAVE_HEALTH_NODE_FULL:
	case CLEAVE_HEALTH_STORE_FULL:
	case CLEAVE_HEALTH_LEVELS_MIXED:
		return true;
	case CLEAVE_HEALTH_NODE_DOWN:
	case CLEAVE_HEALTH_NODE_MAINTENANCE:
		return !has_all;
	case CLEAVE_HEALTH_DOMAINS_FEW:
		return !has_all || cluster->options.node_count < MT_REPLICAS_MAX;
	case CLEAVE_HEALTH_NODE_FORGETFUL:
		return is_rotten(cluster, reason->object);
	default:
		return false;
	}
}

static bool
all_are_well(struct look *look)
{
	const struct sim_cluster *cluster = look->cluster;
	static struct mt_health health;

	look->text[0] = '\0';
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		struct mt_gateway *gateway = cluster->gateways[i].gateway;

		if (gateway == NULL || mt_gateway_health(gateway, &health) != 0)
			continue;
		for (uint32_t k = 0; k < health.count; k++) {
			if (!is_so(cluster, &health.reasons[k]))
				(void)snprintf(look->text, sizeof(look->text), "gateway %u: %s: %s",
				    i + 1, health_info(health.reasons[k].code)->name,
				    health.reasons[k].text);
		}
	}
	return look->text[0] == '\0';
}

static bool
is_told(struct look *look)
{
	const struct sim_cluster *cluster = look->cluster;
	static struct mt_health health;
	char object[MT_HEALTH_OBJECT_BYTES];

	look->text[0] = '\0';
	(void)snprintf(object, sizeof(object), "node %u", look->node + 1);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		struct mt_gateway *gateway = cluster->gateways[i].gateway;
		bool has_it = false;

		if (gateway == NULL || mt_gateway_health(gateway, &health) != 0)
			continue;
		for (uint32_t k = 0; k < health.count; k++)
			has_it = has_it ||
			    (health.reasons[k].code == CLEAVE_HEALTH_NODE_DOWN &&
				strncmp(health.reasons[k].object, "node ", 5) == 0);
		if (!has_it)
			(void)snprintf(look->text, sizeof(look->text),
			    "gateway %u does not say that %s is away: %u reasons, the first: %s",
			    i + 1, object, health.count,
			    health.count == 0 ? "" : health.reasons[0].text);
	}
	return look->text[0] == '\0';
}

static void
wait_until(struct look *look, bool (*is_fine)(struct look *look), uint64_t limit_ns,
    const char *what)
{
	struct sim_cluster *cluster = look->cluster;
	uint64_t end_ns = sim_world_now_ns(cluster->world) + limit_ns;

	while (!is_fine(look)) {
		if (sim_world_now_ns(cluster->world) >= end_ns)
			sim_cluster_fail(cluster, "%s: %s", what, look->text);
		sim_cluster_run(cluster, LOOK_NS);
	}
}

void
sim_check_well(struct sim_cluster *cluster)
{
	struct look look = { .cluster = cluster };

	wait_until(&look, all_are_well, WELL_LIMIT_NS, "is whole, and not said to be well");
}

void
sim_check_told(struct sim_cluster *cluster, uint32_t index)
{
	struct look look = { .cluster = cluster, .node = index };

	assert(index < cluster->options.node_count);
	wait_until(&look, is_told, TOLD_LIMIT_NS, "a node is away, and nobody is told");
}
