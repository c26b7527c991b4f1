/* SPDX-License-Identifier: Apache-2.0 */
/* join_plan.c -- see join_plan.h */
#include "join_plan.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/slot_sizes.h"
#include "format/ondisk.h"

static void
plan_read_node(struct reader *reader, const json_t *object, struct join_node *node)
{
	assert(node->id == 0);
	node->id = (uint32_t)reader_range(reader, object, "id", 1, UINT32_MAX);
	reader_text(reader, object, "member", node->member, sizeof(node->member));
	reader_text(reader, object, "address", node->address, sizeof(node->address));
	reader_text(reader, object, "disk", node->disk, sizeof(node->disk));
	node->has_domain = json_object_get(object, "domain") != NULL;
	if (node->has_domain)
		reader_text(reader, object, "domain", node->domain, sizeof(node->domain));
}

int
join_plan_read(const char *reply, struct join_cluster *ret_cluster)
{
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, reply, strlen(reply));
	struct join_cluster cluster = { 0 };
	const json_t *nodes;
	char id[17] = "";
	int rc;

	assert(ret_cluster != NULL);
	reader_text(&reader, root, "cluster_id", id, sizeof(id));
	if (storage_parse_hex(id, &cluster.cluster_id) != 0)
		reader_fail(&reader, "cluster_id");
	nodes = reader_array(&reader, root, "nodes", 0, JOIN_NODES_MAX);
	cluster.count = (uint32_t)json_array_size(nodes);
	for (uint32_t i = 0; i < cluster.count; i++)
		plan_read_node(&reader, json_array_get(nodes, i), &cluster.nodes[i]);
	rc = reader_rc(&reader);
	json_decref(root);
	if (rc != 0)
		return rc == -ENOMEM ? rc : -EPROTO;
	*ret_cluster = cluster;
	return 0;
}

/* false: the node tells no slots that a disk could have, or does not count. */
static bool
plan_read_slots(const json_t *node, struct slot_size *ret_slots)
{
	const char *member = json_string_value(json_object_get(node, "member"));
	json_int_t count = json_integer_value(json_object_get(node, "slots_total"));
	json_int_t bytes = json_integer_value(json_object_get(node, "slot_bytes"));

	assert(ret_slots != NULL);
	if (count <= 0 || count > (json_int_t)ONDISK_SLOTS_MAX ||
	    bytes < (json_int_t)ONDISK_SLOT_BYTES_MIN ||
	    bytes > (json_int_t)ONDISK_SLOT_BYTES_MAX ||
	    !num_is_aligned((uint64_t)bytes, ONDISK_PAGE_BYTES) ||
	    (member != NULL && strcmp(member, "draining") == 0))
		return false;
	*ret_slots = (struct slot_size){ (uint64_t)bytes, (uint64_t)count };
	return true;
}

int
join_plan_read_slots(const char *reply, uint64_t *ret_slot_bytes)
{
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, reply, strlen(reply));
	const json_t *nodes = reader_array(&reader, root, "nodes", 0, JOIN_LIST_MAX);
	struct slot_size slots[JOIN_LIST_MAX];
	uint32_t count = 0;
	int rc = reader_rc(&reader);

	assert(ret_slot_bytes != NULL);
	for (size_t i = 0; rc == 0 && i < json_array_size(nodes); i++)
		count += plan_read_slots(json_array_get(nodes, i), &slots[count]);
	json_decref(root);
	if (rc != 0)
		return rc == -ENOMEM ? rc : -EPROTO;
	*ret_slot_bytes = slot_sizes_usual(slots, count);
	return 0;
}

int
join_plan_read_up(const char *reply, uint32_t id)
{
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, reply, strlen(reply));
	const json_t *nodes = reader_array(&reader, root, "nodes", 0, JOIN_LIST_MAX);
	int rc = reader_rc(&reader), is_up = 0;

	assert(id != 0);
	for (size_t i = 0; rc == 0 && i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const char *state = json_string_value(json_object_get(node, "state"));

		if (json_integer_value(json_object_get(node, "id")) == (json_int_t)id)
			is_up = state != NULL && strcmp(state, "up") == 0;
	}
	json_decref(root);
	if (rc != 0)
		return rc == -ENOMEM ? rc : -EPROTO;
	return is_up;
}

static bool
plan_is_gone(const struct join_node *node)
{
	assert(node->id != 0);
	return strcmp(node->member, "in") != 0 && strcmp(node->member, "draining") != 0;
}

enum join_step
join_plan(const struct join_disk *disk, const struct join_cluster *cluster,
    const struct join_node **ret_node)
{
	enum join_step step = JOIN_ADD;

	assert((disk->content == FORMAT_DISK) == (disk->uuid[0] != '\0'));
	assert(cluster->cluster_id != 0 && cluster->count <= JOIN_NODES_MAX);
	*ret_node = NULL;
	if (disk->content != FORMAT_DISK || disk->format.cluster_id != cluster->cluster_id)
		return JOIN_FORMAT;
	for (uint32_t i = 0; i < cluster->count; i++) {
		const struct join_node *node = &cluster->nodes[i];
		bool is_id = node->id == disk->format.node_id;
		bool is_disk = strcmp(node->disk, disk->uuid) == 0;

		if (!is_id && !is_disk)
			continue;
		*ret_node = node;
		/* A node that was imported before its disk was known is told by its number. */
		if (is_id && (is_disk || node->disk[0] == '\0'))
			return plan_is_gone(node) ? JOIN_LEFT : JOIN_MEMBER;
		step = plan_is_gone(node) ? JOIN_LEFT : JOIN_TAKEN;
	}
	return step;
}
