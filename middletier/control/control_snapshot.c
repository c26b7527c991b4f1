/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_snapshot.c -- what is asked about snapshots and clones, but deletions, and how they are taken (control_take.c)
 *
 * What makes a scope name a cut that it did not name before also puts the key "cluster", which is what drop.c
 * compares; and a snapshot's making puts its volume's key, so that no volume is deleted beside it.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/snapshot.h"
#include "control/control_allow.h"
#include "control/control_answer.h"
#include "control/control_change.h"
#include "control/control_data_key.h"
#include "control/control_request.h"
#include "control/control_room.h"
#include "control/control_snapshot.h"

#define SNAPSHOTS_PER_LIST 256u
#define ROLL_BACK_NAME "rolled-back" /* of the key that keeps a roll-back's cut */

json_t *
mt_control_json_snapshot(const struct mt_control_request *request,
    const struct mt_snapshot *snapshot)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const struct mt_volume_entry *volume = mt_volumes_by_id(volumes, snapshot->volume_id);
	json_t *object = mt_json_snapshot(snapshot);

	assert(snapshot->number != 0);
	if (object != NULL && volume != NULL)
		json_object_set_new(object, "volume", json_string(volume->volume.name));
	return object;
}

/* ---- what is made ---- */

/* A snapshot and a volume, as they shall be, and what they were made from. */
struct made {
	struct mt_cluster cluster; /* its version is the present one's */
	struct mt_snapshot snapshot;
	uint64_t snapshot_version; /* of its key, as it is */
	struct mt_volume volume;
	uint64_t volume_version;                /* 0: it is new */
	const struct mt_snapshot_entry *origin; /* must be as it is; NULL: none */
	const struct mt_data_key *data_key;     /* the volume's, which is new; NULL: none */
};

/* The transaction is the same, whatever is made: see the top for why it puts all three keys. Then @fn. */
static void
made_submit(struct mt_control_request *request, const struct made *made,
    void (*fn)(struct mt_control_request *request))
{
	char key[MT_SNAPSHOT_KEY_BYTES], name_key[MT_VOLUME_KEY_BYTES],
	    origin_key[MT_SNAPSHOT_KEY_BYTES];
	char *text = mt_snapshot_encode(&made->snapshot, NULL);
	char *volume_text = mt_volume_encode(&made->volume);
	char *cluster_text = mt_cluster_encode(&made->cluster);
	char *data_text = made->data_key == NULL ? NULL : mt_data_key_encode(made->data_key);
	char data_key[MT_DATA_KEY_KEY_BYTES];
	struct meta_op ops[9];
	uint32_t count = 0;

	assert(made->snapshot_version != 0 && made->cluster.version != 0);
	mt_snapshot_key(made->snapshot.number, key);
	mt_volume_key(made->volume.name, name_key);
	ops[count++] = mt_change_compare("cluster", made->cluster.version);
	ops[count++] = mt_change_compare(key, made->snapshot_version);
	ops[count++] = mt_change_compare(name_key, made->volume_version);
	if (made->origin != NULL) {
		mt_snapshot_key(made->origin->snapshot.number, origin_key);
		ops[count++] = mt_change_compare(origin_key, made->origin->version);
	}
	ops[count++] = mt_change_put("cluster", cluster_text);
	ops[count++] = mt_change_put(key, text);
	ops[count++] = mt_change_put(name_key, volume_text);
	if (made->data_key != NULL) {
		mt_data_key_key(made->data_key->id, data_key);
		ops[count++] = mt_change_compare(data_key, 0);
		ops[count++] = mt_change_put(data_key, data_text);
	}
	assert(count <= NUM_COUNT(ops));
	mt_control_change(request, ops, count, fn);
	free(data_text);
	free(cluster_text);
	free(volume_text);
	free(text);
}

/* ---- list ---- */

static bool
list_is_seen(struct mt_control_request *request, const struct mt_snapshot *snapshot)
{
	const struct mt_volume_entry *volume =
	    mt_volumes_by_id(&request->gateway->volumes, snapshot->volume_id);

	if (mt_control_subject(request) == NULL)
		return true;
	return volume != NULL &&
	    mt_control_sees(request,
		mt_volume_is_trashed(&volume->volume) ? volume->volume.trash.name
						      : volume->volume.name);
}

void
mt_control_snapshot_list(struct mt_control_request *request)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const struct mt_volume_entry *volume = NULL;
	const char *name = NULL;
	uint64_t after = 0;
	bool is_more = false;
	uint32_t count = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, false, 0, 0, { .text = &name } },
		{ "after", READER_U64, false, 0, 0, { .u64 = &after } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	json_t *list;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (name != NULL) {
		if (!mt_change_take_name(request, name, request->volume.name))
			return;
		volume = mt_change_find_volume(request);
		if (volume == NULL)
			return;
	}
	list = json_array();
	for (uint32_t i = 0; i < volumes->snapshots.count && !is_more; i++) {
		const struct mt_snapshot *snapshot = &volumes->snapshots.entries[i].snapshot;

		if (snapshot->state != MT_SNAPSHOT_LIVE || snapshot->number <= after ||
		    (volume != NULL && snapshot->volume_id != volume->volume.id) ||
		    !list_is_seen(request, snapshot))
			continue;
		is_more = count++ == SNAPSHOTS_PER_LIST;
		if (!is_more)
			json_array_append_new(list, mt_control_json_snapshot(request, snapshot));
	}
	mt_control_finish(request, json_pack("{s:o, s:b}", "snapshots", list, "more", is_more));
}

/* ---- roll back ---- */

/* A write of whoever was put out may not be mixed with what is there now, at whichever gateway. */
static void
rollback_on_told(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (answer->unknown_gateway == 0) {
		mt_change_on_volume(request);
		return;
	}
	mt_control_refuse(request, -ETIMEDOUT,
	    "volume '%.63s' is rolled back, but gateway %" PRIu64
	    " does not say that it knows: sessions that had the volume open may write there until it "
	    "does; close them, and roll back again",
	    request->volume.name, answer->unknown_gateway);
}

static void
rollback_on_made(struct mt_control_request *request)
{
	struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (entry == NULL) {
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	mt_control_let_in(request);
	rc = mt_holder_tell(request->gateway, &entry->volume, rollback_on_told, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
rollback_on_taken(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_gateway *gateway = request->gateway;
	const struct mt_volume_entry *entry =
	    mt_volumes_by_name(&gateway->volumes, request->volume.name);
	const struct mt_snapshot_entry *snapshot =
	    mt_snapshots_by_number(&gateway->volumes.snapshots, request->change.snapshot.number);
	struct made made = { .cluster = gateway->cluster, .origin = snapshot };
	struct mt_scope scope;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, mt_taking_error(gateway));
		return;
	}
	/* The mark that keeps the cut. */
	made.snapshot = *mt_taking_snapshot(gateway, 0, &made.snapshot_version);
	/* Names may have changed meanwhile: another volume that has this one's name now keeps its content. */
	if (entry == NULL || snapshot == NULL || snapshot->snapshot.state != MT_SNAPSHOT_LIVE ||
	    !mt_change_is_still_unused(request, &entry->volume) ||
	    entry->volume.id != snapshot->snapshot.volume_id ||
	    entry->volume.size_bytes != made.snapshot.size_bytes ||
	    mt_scope_above(entry->volume.segment_base, made.snapshot.number,
		&snapshot->snapshot.scope, &scope) != 0) {
		mt_taking_end(gateway, -EAGAIN);
		mt_control_fail_volume(request, -EAGAIN);
		return;
	}
	made.snapshot.state = MT_SNAPSHOT_DELETED;
	made.volume = entry->volume;
	made.volume_version = entry->version;
	made.volume.scope = scope;
	made.volume.size_bytes = snapshot->snapshot.size_bytes;
	made.volume.segment_count = snapshot->snapshot.segment_count;
	made.volume.attach++; /* whoever has it open now sees what was */
	made.volume.session_id = 0;
	made_submit(request, &made, rollback_on_made);
}

static void
rollback_take_number(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	int rc = mt_taking_start(request->gateway,
	    &(struct mt_taking_wish){ &entry->volume, ROLL_BACK_NAME }, 1, rollback_on_taken,
	    request);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
rollback_on_alone(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_volume_entry *entry = mt_change_when_unused_entry(request, answer);

	if (entry != NULL)
		mt_change_fence(request, entry, rollback_take_number);
}

static bool
rollback_take(struct mt_control_request *request)
{
	const char *name = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
		{ "shrink", READER_BOOL, false, 0, 0, { .flag = &request->change.must_shrink } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return mt_change_take_snapshot(request, name);
	mt_control_fail(request, rc, error);
	return false;
}

/* Data behind the snapshot's end goes: only for a request that has said so. */
static bool
rollback_keeps_size(struct mt_control_request *request, const struct mt_snapshot *snapshot)
{
	const struct mt_volume_entry *volume = mt_change_find_volume(request);

	assert(snapshot->number != 0);
	if (volume == NULL)
		return false;
	if (request->change.must_shrink || snapshot->size_bytes >= volume->volume.size_bytes)
		return true;
	mt_control_refuse(request, -EINVAL,
	    "volume '%s' has %" PRIu64 " bytes, its snapshot '%s' %" PRIu64
	    ": it would become smaller; --shrink says that it may",
	    request->volume.name, volume->volume.size_bytes, request->change.snapshot_name,
	    snapshot->size_bytes);
	return false;
}

void
mt_control_snapshot_rollback(struct mt_control_request *request)
{
	const struct mt_snapshot_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (!rollback_take(request))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL || !rollback_keeps_size(request, &entry->snapshot))
		return;
	if (entry->snapshot.scope.span_count == MT_SPANS_MAX) {
		mt_control_refuse(request, -ENOTSUP,
		    "snapshot '%s@%s' lies %u clones or roll-backs deep: one more is not "
		    "possible: copy it (cleave export, cleave import)",
		    request->volume.name, request->change.snapshot_name, MT_SPANS_MAX);
		return;
	}
	if (!mt_control_has_room(request) || !mt_control_may_count(request))
		return;
	request->change.snapshot = entry->snapshot;
	mt_change_when_unused(request, rollback_on_alone);
}

/* ---- clone ---- */

static bool
clone_take(struct mt_control_request *request, bool *ret_is_encrypted, const char **ret_kek)
{
	const char *name = "", *new_name = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "new", READER_TEXT, true, 0, 0, { .text = &new_name } },
		{ "encrypt", READER_BOOL, false, 0, 0, { .flag = ret_is_encrypted } },
		{ "kek", READER_TEXT, false, 0, 0, { .text = ret_kek } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return mt_change_take_snapshot(request, name) &&
		    mt_change_take_name(request, new_name, request->change.new_name);
	mt_control_fail(request, rc, error);
	return false;
}

/*
 * A clone of an encrypted volume is encrypted, with a key of its own and, where nothing else was said, by the same KEK;
 * one of another volume is if that was asked for. False: its key is being made, or the request has ended.
 */
static bool
clone_encrypt(struct mt_control_request *request, struct made *made, bool is_encrypted,
    const char *kek)
{
	struct mt_gateway *gateway = request->gateway;
	const struct mt_data_key *origin =
	    mt_data_key_table_find(&gateway->data_keys.table, made->volume.key_id);

	if (made->volume.key_id == 0 && !is_encrypted && kek == NULL)
		return true;
	if (kek == NULL && origin != NULL)
		kek = origin->kek;
	if (!mt_control_data_key_is_made(request, made->volume.id, kek))
		return false;
	made->data_key = mt_data_keys_made(gateway);
	made->volume.key_id = (uint32_t)made->data_key->id;
	made->cluster.next_key = made->data_key->id + 1;
	return true;
}

void
mt_control_clone(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	const struct mt_snapshot_entry *entry;
	struct made made = { .cluster = gateway->cluster };
	struct mt_volume *volume = &made.volume;
	bool is_encrypted = false;
	const char *kek = NULL;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (!clone_take(request, &is_encrypted, &kek))
		return;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return;
	if (mt_volumes_by_name(&gateway->volumes, request->change.new_name) != NULL) {
		mt_control_refuse(request, -EEXIST,
		    "there is a volume '%s' already: choose another name",
		    request->change.new_name);
		return;
	}
	if (!mt_control_has_room(request) || !mt_control_may_count(request))
		return;
	if (gateway->cluster.next_clone > CLEAVE_CLONE_MAX ||
	    gateway->cluster.next_volume_id > MT_NUMBER_MAX) {
		mt_control_refuse(request, -ENOSPC,
		    "the cluster has had as many clones as it can: copy the snapshot instead "
		    "(cleave export, cleave import)");
		return;
	}
	*volume = mt_volumes_by_name(&gateway->volumes, request->volume.name)->volume;
	volume->id = made.cluster.next_volume_id++;
	volume->segment_base = wire_segment((uint32_t)made.cluster.next_clone++,
	    wire_segment_root(entry->snapshot.segment_base));
	volume->size_bytes = entry->snapshot.size_bytes;
	volume->segment_count = entry->snapshot.segment_count;
	volume->attach = volume->session_id = 0;
	volume->origin = entry->snapshot.number;
	volume->limits = (struct cleave_limits){ 0 };
	memcpy(volume->name, request->change.new_name, sizeof(volume->name));
	if (mt_scope_above(volume->segment_base, 0, &entry->snapshot.scope, &volume->scope) != 0) {
		mt_control_refuse(request, -ENOTSUP,
		    "snapshot '%s@%s' lies %u clones or roll-backs deep: one more is not "
		    "possible: copy it (cleave export, cleave import)",
		    request->volume.name, request->change.snapshot_name, MT_SPANS_MAX);
		return;
	}
	if (!clone_encrypt(request, &made, is_encrypted, kek))
		return; /* it runs again, or has ended */
	made.snapshot = entry->snapshot;
	made.snapshot.clone_count++;
	made.snapshot_version = entry->version;
	made_submit(request, &made, mt_change_on_volume);
}

/* ---- open for reading ---- */

static void
open_on_map(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	json_t *volume = mt_json_volume(&request->volume);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (volume != NULL)
		json_object_set(volume, "name", json_object_get(request->in, "name"));
	mt_control_finish(request,
	    json_pack("{s:o, s:I, s:b, s:o}", "volume", volume, "attach",
		(json_int_t)request->volume.attach, "read_only", 1, "map",
		mt_json_map(ask->gateway, ask)));
}

/* VOLUME@OLD@NEW and VOLUME@OLD@: what has changed since OLD until NEW, or now. */
static int
open_difference(struct mt_control_request *request, const char *name)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const char *last = strrchr(name, '@');
	char first[2 * MT_NAME_BYTES];
	const struct mt_snapshot_entry *since, *until;
	uint64_t id = MT_SNAPSHOT_ID;

	assert(strchr(name, '@') != strrchr(name, '@'));
	(void)snprintf(first, sizeof(first), "%.*s", (int)(last - name), name);
	if (!mt_change_take_snapshot(request, first))
		return 1;
	since = mt_change_find_snapshot(request);
	if (since == NULL)
		return 1;
	if (last[1] == '\0') {
		id |= MT_SNAPSHOT_OF_VOLUME | since->snapshot.volume_id;
	} else {
		if (!mt_change_take_name(request, last + 1, request->change.snapshot_name))
			return 1;
		until = mt_change_find_snapshot(request);
		if (until == NULL)
			return 1;
		id |= until->snapshot.number;
	}
	return mt_snapshot_session(volumes, id, since->snapshot.number + 1, &request->volume);
}

static int
open_one(struct mt_control_request *request, const char *name)
{
	const struct mt_snapshot_entry *entry;

	assert(strchr(name, '@') != NULL);
	if (!mt_change_take_snapshot(request, name))
		return 1;
	entry = mt_change_find_snapshot(request);
	if (entry == NULL)
		return 1;
	return mt_snapshot_session(&request->gateway->volumes,
	    entry->snapshot.number | MT_SNAPSHOT_ID, 1, &request->volume);
}

void
mt_control_open_snapshot(struct mt_control_request *request, const char *name)
{
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(strchr(name, '@') != NULL);
	rc = strchr(name, '@') == strrchr(name, '@') ? open_one(request, name)
						     : open_difference(request, name);
	if (rc > 0)
		return; /* the request has ended */
	if (rc == 0 &&
	    (mt_change_is_other_opened(request, &request->volume) ||
		mt_control_data_key_lacks(request, &request->volume, name)))
		return;
	if (rc == 0)
		rc = mt_ask_ports(request->gateway, MT_ASK_STATUS, NULL, open_on_map, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}
