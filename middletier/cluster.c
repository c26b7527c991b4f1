/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- the key "cluster" of the metadata store: JSON, read and written */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "control.h"

char *
mt_cluster_encode(const struct mt_cluster *cluster)
{
	char id[17];
	json_t *object;
	char *text;

	(void)snprintf(id, sizeof(id), "%016" PRIx64, cluster->cluster_id);
	object = json_pack("{s:i, s:s, s:i, s:I, s:I, s:I, s:I}", "format", (int)MT_CLUSTER_FORMAT,
	    "cluster_id", id, "shard_count", (int)cluster->shard_count, "next_volume_id",
	    (json_int_t)cluster->next_volume_id, "next_segment", (json_int_t)cluster->next_segment,
	    "next_snapshot", (json_int_t)num_max(cluster->next_snapshot, 1), "next_clone",
	    (json_int_t)num_max(cluster->next_clone, 1));
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

int
mt_cluster_decode(const void *value, uint32_t bytes, struct mt_cluster *ret_cluster,
    const char **ret_field)
{
	static _Thread_local char error[MT_CONTROL_ERROR_BYTES];
	struct mt_cluster cluster = { .next_snapshot = 1, .next_clone = 1 };
	uint64_t format = 0, shard_count = 0;
	const char *id = NULL;
	const struct mt_json_member members[] = {
		{ "format", MT_JSON_U64, true, MT_CLUSTER_FORMAT, MT_CLUSTER_FORMAT,
		    { .u64 = &format } },
		{ "cluster_id", MT_JSON_TEXT, true, 0, 0, { .text = &id } },
		{ "shard_count", MT_JSON_U64, true, 1, CLEAVE_SHARDS_MAX, { .u64 = &shard_count } },
		{ "next_volume_id", MT_JSON_U64, true, 1, 0, { .u64 = &cluster.next_volume_id } },
		{ "next_segment", MT_JSON_U64, true, 1, 0, { .u64 = &cluster.next_segment } },
		{ "next_snapshot", MT_JSON_U64, false, 1, 0, { .u64 = &cluster.next_snapshot } },
		{ "next_clone", MT_JSON_U64, false, 1, CLEAVE_CLONE_MAX + UINT64_C(1),
		    { .u64 = &cluster.next_clone } },
	};
	json_t *object = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	int rc = -EINVAL;

	*ret_field = "not a JSON object";
	if (json_is_object(object)) {
		rc = mt_json_read(object, members, NUM_COUNT(members), error);
		*ret_field = error;
	}
	if (rc == 0 && mt_hex_parse(id, &cluster.cluster_id) != 0) {
		*ret_field = "cluster_id";
		rc = -EINVAL;
	}
	json_decref(object);
	if (rc != 0)
		return rc;
	cluster.shard_count = (uint32_t)shard_count;
	*ret_cluster = cluster;
	return 0;
}
