/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_volume.c -- what is asked about volumes: create, list, delete
 *
 * control_request.c has read the volumes anew before each of these runs. A change that another gateway's came
 * before is run again, from the beginning.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/json.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/trash.h"
#include "catalog/volume_table.h"
#include "catalog/wish.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/volume_change.h"
#include "common/replica.h"
#include "control/control_allow.h"
#include "control/control_change.h"
#include "control/control_data_key.h"
#include "control/control_reads.h"
#include "control/control_request.h"
#include "control/control_room.h"
#include "control/control_show.h"
#include "control/control_snapshot_delete.h"
#include "control/control_trash.h"
#include "control/control_volume.h"

static void
control_on_created(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_data_keys_done(request->gateway, rc == 0);
	if (rc != 0) {
		mt_control_fail_volume(request, rc);
		return;
	}
	mt_control_event(request, CLEAVE_EVENT_VOLUME_CREATED, volume->name,
	    "volume: created name=%s size_bytes=%" PRIu64, volume->name, volume->size_bytes);
	if (volume->key_id != 0)
		mt_control_event(request, CLEAVE_EVENT_KEY_MADE, volume->name,
		    "audit: data key made volume=%s key=%" PRIu32, volume->name, volume->key_id);
	mt_control_finish(request, json_pack("{s:o}", "volume", mt_json_volume(volume)));
}

/* Engine and level: what was asked for, else what the service class means. */
static const char *
control_take_engine(struct mt_volume *volume, const char *engine_name, const int64_t *level)
{
	static const uint8_t defaults[SERVICE_CLASS_NR] = {
		[SERVICE_STANDARD] = ENGINE_LZ4,
		[SERVICE_LATENCY] = ENGINE_NONE,
		[SERVICE_CAPACITY] = ENGINE_ZSTD,
	};
	struct mt_wish wish;
	bool is_known = engine_name != NULL ? mt_wish_by_name(engine_name, &wish)
					    : mt_wish_by_id(defaults[volume->service_class], &wish);

	assert(volume->service_class < SERVICE_CLASS_NR);
	if (!is_known)
		return "engine: must be auto, none, lz4, snappy, deflate or zstd";
	volume->codec_id = wish.codec_id;
	volume->level = wish.level_default;
	if (*level == INT64_MIN)
		return NULL;
	if (*level < wish.level_min || *level > wish.level_max)
		return "level: out of the engine's range";
	volume->level = (int)*level;
	return NULL;
}

static const char *
control_take_wish(struct mt_control_request *request, const char *service_class, const char *engine,
    const int64_t *level)
{
	struct mt_volume *volume = &request->volume;
	uint32_t min_replicas = request->gateway->options.min_replicas;

	assert(request->volume.replica_count <= MT_REPLICAS_MAX);
	if (volume->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return "size_bytes: must be a multiple of 4096";
	if (service_class != NULL &&
	    service_class_parse(service_class, &volume->service_class) != 0)
		return "service_class: must be standard, latency or capacity";
	if (volume->replica_count < min_replicas)
		return "replicas: fewer than the gateway's --min-replicas";
	return control_take_engine(volume, engine, level);
}

/*
 * The name is free, and there is room for one more. False, and the request has ended. The name first: who has lost the
 * answer, and asks again, hears that the volume is there, and not that there is no room for it.
 */
static bool
control_is_room_for_volume(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;

	assert(request->volume.name[0] != '\0');
	if (mt_volumes_by_name(&gateway->volumes, request->volume.name) != NULL) {
		mt_control_fail_volume(request, -EEXIST);
		return false;
	}
	if (!mt_control_has_room(request))
		return false;
	if (mt_cluster_has_volume(&gateway->cluster))
		return true;
	mt_control_refuse(request, -ENOSPC,
	    "the cluster has had as many volumes as it can: no more can be made in it");
	return false;
}

void
mt_control_volume_create(struct mt_control_request *request)
{
	struct mt_volume *volume = &request->volume;
	const char *name = NULL, *service_class = NULL, *engine = NULL, *kek = NULL, *problem;
	const char *reads = NULL;
	bool is_encrypted = false;
	uint64_t replicas = MT_REPLICAS_MAX;
	int64_t level = INT64_MIN;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "size_bytes", READER_U64, true, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX,
		    { .u64 = &volume->size_bytes } },
		{ "service_class", READER_TEXT, false, 0, 0, { .text = &service_class } },
		{ "engine", READER_TEXT, false, 0, 0, { .text = &engine } },
		{ "level", READER_I64, false, 0, 0, { .i64 = &level } },
		{ "replicas", READER_U64, false, 1, MT_REPLICAS_MAX, { .u64 = &replicas } },
		{ "encrypt", READER_BOOL, false, 0, 0, { .flag = &is_encrypted } },
		{ "kek", READER_TEXT, false, 0, 0, { .text = &kek } },
		{ "reads", READER_TEXT, false, 0, 0, { .text = &reads } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	volume->replica_count = (uint32_t)replicas;
	problem = control_take_wish(request, service_class, engine, &level);
	if (problem != NULL) {
		mt_control_fail(request, -EINVAL, problem);
		return;
	}
	volume->reads = MT_READS_GATEWAY;
	if ((reads != NULL && !mt_control_take_reads(request, reads)) ||
	    !control_is_room_for_volume(request) || !mt_control_may_count(request))
		return;
	volume->key_id = 0;
	if (is_encrypted || kek != NULL) {
		if (!mt_control_data_key_is_made(request, request->gateway->cluster.next_volume_id,
			kek))
			return; /* it runs again, or has ended */
		volume->key_id = (uint32_t)mt_data_keys_made(request->gateway)->id;
	}
	rc = mt_volume_create(request->gateway, volume, control_on_created, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

void
mt_control_volume_list(struct mt_control_request *request)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const char *after = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "after", READER_TEXT, false, 0, CLEAVE_VOLUME_NAME_BYTES_MAX,
		    { .text = &after } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	uint32_t count = 0;
	bool is_more = false;
	json_t *list;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	list = json_array();
	for (uint32_t i = mt_volumes_after(volumes, after); i < volumes->count && !is_more; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		if (mt_volume_is_trashed(volume) || !mt_control_sees(request, volume->name))
			continue;
		is_more = count++ == MT_VOLUMES_PER_LIST;
		if (!is_more)
			json_array_append_new(list, mt_json_volume_told(request, volume));
	}
	mt_control_finish(request, json_pack("{s:o, s:b}", "volumes", list, "more", is_more));
}

/* Deleting: nobody new may come in, nobody may be there (or is put out), then the durable mark. */

static void
control_on_sessions_closed(struct mt_ask *ask, void *arg)
{
	assert(ask->kind == MT_ASK_DELETE);
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	(void)ask;
	mt_control_finish(arg, json_object());
}

static void
control_on_deleted(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		mt_control_event(request, CLEAVE_EVENT_VOLUME_DELETED, volume->name,
		    "volume: deleted name=%s id=%" PRIu64, volume->name, volume->id);
		rc = mt_ask_ports(request->gateway, MT_ASK_DELETE, volume,
		    control_on_sessions_closed, request);
	}
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
control_on_users(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_volumes *volumes = &request->gateway->volumes;
	struct mt_volume_entry *entry = mt_change_when_unused_entry(request, answer);
	uint32_t snapshot_count = 0;
	int rc;

	if (entry == NULL)
		return;
	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (!request->has_snapshots)
		snapshot_count = mt_snapshots_live_count(&volumes->snapshots, entry->volume.id);
	if (snapshot_count > 0) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%s' has %" PRIu32 " snapshots: delete them first, or all with it "
		    "(--snapshots)",
		    request->volume.name, snapshot_count);
		return;
	}
	if (mt_control_trash_is_kept(request)) {
		if (!mt_control_refuse_obstacle(request, entry->volume.id))
			mt_control_trash_move(request, entry);
		return;
	}
	if (mt_control_delete_snapshots(request, entry->volume.id, mt_control_volume_delete))
		return; /* it runs again, or has ended */
	rc = mt_volume_delete(request->gateway, request->volume.name, control_on_deleted, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

void
mt_control_volume_delete(struct mt_control_request *request)
{
	const char *name = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
		{ "snapshots", READER_BOOL, false, 0, 0, { .flag = &request->has_snapshots } },
		{ "purge", READER_BOOL, false, 0, 0, { .flag = &request->trash.is_purge } },
		{ "keep_s", READER_U64, false, 1, MT_TRASH_KEEP_S_MAX,
		    { .u64 = &request->trash.keep_s } },
		{ "id", READER_U64, false, 1, INT64_MAX, { .u64 = &request->trash.id } },
	};
	const struct mt_volume_entry *entry;
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (mt_control_trash_refuse(request))
		return;
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	/* The client may know the id of the volume that it means; the name may be another volume's by now. */
	if (request->trash.id != 0 && request->trash.id != entry->volume.id)
		mt_change_fail_another(request);
	else
		mt_change_when_unused(request, control_on_users);
}
