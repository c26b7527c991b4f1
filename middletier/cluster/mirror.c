/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror.c -- the volumes, the snapshots and the cluster's key, once more in the manifest of shard 0
 *
 * Extents tell everything about the blocks of a cluster and nothing about its volumes. So that a lost
 * metadata store can be made anew (rebuild.c), the gateway that owns shard 0 keeps a copy there:
 *
 *	main: the table changed, or shard 0 serves here --> a copy of the table, posted to shard 0's port
 *	port: compares it with the manifest's state, commits what differs, step by step --> posts back
 *	main: changed meanwhile? once more
 *
 * Nobody waits for it: a change that was made just before everything was lost may be missing in it,
 * and rebuild_store.c leaves room for that. Of encrypted volumes it has the wrapped data keys, and their names as
 * mirror_names.c has them: nodes' disks may be stolen. One copy is under way at a time, however often the table
 * changes. While it is out, it belongs to the port.
 *
 * A store may be set back to a backup under gateways that run. Then the manifest knows of volumes, numbers and attaches that
 * the copy lacks, and is all that does: nothing is taken out of it, and no number taken back, before the tables are read anew
 * and found to be no older. Else the gateway ends, as one does that takes shard 0 over with an old store (store_age.h).
 *
 * A copy looks at all volumes, and each client that comes changes one. So it rests between two, the longer the more
 * there are, that a thousand clients at once do not cost a million looks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "cluster/mirror.h"
#include "cluster/trash.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/root_ops.h"
#include "common/shard.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_state.h"

#define MIRROR_SHARD 0u
#define MIRROR_RETRY_NS NUM_S(1)
#define MIRROR_REST_VOLUMES 64u /* a millisecond for so many; fewer need none */

/* ---- on the port ---- */

static void mirror_step(struct mt_mirror *mirror);
static void mirror_on_done(struct loop_post *post, void *arg);

/* The last act of the port: @mirror is main's again. */
static void
mirror_finish(struct mt_mirror *mirror, int rc)
{
	assert(mirror->is_out && rc <= 0);
	assert(mirror->gateway->mirror == mirror);
	mirror->rc = rc;
	mirror->post = (struct loop_post){ .fn = mirror_on_done, .arg = mirror };
	loop_post(mirror->gateway->options.loop, &mirror->post);
}

static void
mirror_on_commit(int rc, void *arg)
{
	struct mt_mirror *mirror = arg;

	assert(mirror->is_out && mirror->edit_count > 0);
	if (rc != 0)
		mirror_finish(mirror, rc);
	else
		mirror_step(mirror);
}

static struct mt_shard *
mirror_shard(struct mt_mirror *mirror)
{
	struct mt_port *port = &mirror->gateway->ports[MIRROR_SHARD];
	struct mt_shard *shard =
	    port->shard_by_number == NULL ? NULL : port->shard_by_number[MIRROR_SHARD];

	assert(mirror->is_out);
	return shard != NULL && shard->sm.state == MT_SHARD_SERVING ? shard : NULL;
}

static bool
edits_are_equal(const struct mt_edit *a, const struct mt_edit *b)
{
	uint8_t a_bytes[MT_EDIT_BYTES_MAX], b_bytes[MT_EDIT_BYTES_MAX];

	assert(a->kind == b->kind);
	(void)mt_edit_encode(a_bytes, a);
	(void)mt_edit_encode(b_bytes, b);
	return memcmp(a_bytes, b_bytes, sizeof(a_bytes)) == 0;
}

/* The edit that would make @volume, or a snapshot, what it is. */
static struct mt_edit
mirror_volume(const struct mt_volume *volume)
{
	return (struct mt_edit){ .kind = MT_EDIT_VOLUME, .volume = *volume };
}

static struct mt_edit
mirror_snapshot(const struct mt_snapshot *snapshot)
{
	return (struct mt_edit){ .kind = MT_EDIT_SNAPSHOT, .snapshot = *snapshot };
}

static void
mirror_add(struct mt_mirror *mirror, const struct mt_edit *edit, bool is_deleted)
{
	assert(mirror->edit_count <= MT_MIRROR_EDITS_MAX);
	if (mirror->edit_count == MT_MIRROR_EDITS_MAX)
		return;
	mirror->edits[mirror->edit_count] = *edit;
	mirror->edits[mirror->edit_count++].is_deleted = is_deleted;
	mirror->takes_back = mirror->takes_back || is_deleted;
}

static void
mirror_compare_snapshots(struct mt_mirror *mirror, const struct mt_manifest_state *state)
{
	uint32_t i = 0, k = 0;

	while (mirror->edit_count < MT_MIRROR_EDITS_MAX &&
	    (i < state->snapshot_count || k < mirror->snapshot_count)) {
		uint64_t old = i < state->snapshot_count ? state->snapshots[i].number : UINT64_MAX;
		uint64_t wanted = k < mirror->snapshot_count ? mirror->snapshots[k].number
							     : UINT64_MAX;
		struct mt_edit old_edit = { 0 }, edit = { 0 };

		if (old <= wanted)
			old_edit = mirror_snapshot(&state->snapshots[i++]);
		if (wanted <= old)
			edit = mirror_snapshot(&mirror->snapshots[k++]);
		if (old < wanted && !mirror->is_incomplete)
			mirror_add(mirror, &old_edit, true);
		if (wanted < old || (wanted == old && !edits_are_equal(&old_edit, &edit)))
			mirror_add(mirror, &edit, false);
	}
}

static void
mirror_compare_volumes(struct mt_mirror *mirror, const struct mt_manifest_state *state)
{
	uint32_t i = 0, k = 0;

	while (mirror->edit_count < MT_MIRROR_EDITS_MAX &&
	    (i < state->volume_count || k < mirror->volume_count)) {
		uint64_t old = i < state->volume_count ? state->volumes[i].id : UINT64_MAX;
		uint64_t wanted = k < mirror->volume_count ? mirror->volumes[k].id : UINT64_MAX;
		struct mt_edit old_edit = { 0 }, edit = { 0 };

		if (old <= wanted)
			old_edit = mirror_volume(&state->volumes[i++]);
		if (wanted <= old)
			edit = mirror_volume(&mirror->volumes[k++]);
		if (old == wanted && edit.volume.attach < old_edit.volume.attach)
			mirror->takes_back = true;
		if (old < wanted && !mirror->is_incomplete)
			mirror_add(mirror, &old_edit, true);
		if (wanted < old || (wanted == old && !edits_are_equal(&old_edit, &edit)))
			mirror_add(mirror, &edit, false);
	}
}

static bool
data_keys_are_equal(const struct mt_data_key *a, const struct mt_data_key *b)
{
	const struct mt_edit a_edit = { .kind = MT_EDIT_DATA_KEY, .data_key = *a };
	const struct mt_edit b_edit = { .kind = MT_EDIT_DATA_KEY, .data_key = *b };

	return edits_are_equal(&a_edit, &b_edit);
}

static void
mirror_compare_data_keys(struct mt_mirror *mirror, const struct mt_manifest_state *state)
{
	uint32_t i = 0, k = 0;

	while (mirror->edit_count < MT_MIRROR_EDITS_MAX &&
	    (i < state->data_key_count || k < mirror->data_key_count)) {
		const struct mt_data_key *old = i < state->data_key_count ? &state->data_keys[i]
									  : NULL;
		const struct mt_data_key *wanted =
		    k < mirror->data_key_count ? &mirror->data_keys[k] : NULL;
		uint64_t old_id = old == NULL ? UINT64_MAX : old->id;
		uint64_t wanted_id = wanted == NULL ? UINT64_MAX : wanted->id;
		struct mt_edit edit = { .kind = MT_EDIT_DATA_KEY };

		i += old_id <= wanted_id;
		k += wanted_id <= old_id;
		edit.data_key = wanted_id <= old_id ? *wanted : *old;
		if (old_id < wanted_id && !mirror->are_keys_incomplete)
			mirror_add(mirror, &edit, true);
		if (wanted_id < old_id ||
		    (wanted_id == old_id && !data_keys_are_equal(old, wanted)))
			mirror_add(mirror, &edit, false);
	}
}

static void
mirror_compare_names(struct mt_mirror *mirror, const struct mt_shard *shard)
{
	const struct mt_manifest_state *state = mt_manifest_state(shard);
	struct mt_mirror_names_at at = { 0 };
	struct mt_edit edit;

	while (mirror->edit_count < MT_MIRROR_EDITS_MAX &&
	    mt_mirror_names_next(&mirror->names, state, shard->port->keys, mirror->is_incomplete,
		&at, &edit))
		mirror_add(mirror, &edit, edit.is_deleted);
}

/* The first edits that make the state what the copy is. All is sorted by id. */
static void
mirror_compare(struct mt_mirror *mirror, const struct mt_shard *shard)
{
	const struct mt_manifest_state *state = mt_manifest_state(shard);
	struct mt_cluster *cluster = &mirror->cluster, known;
	uint32_t level;

	assert(mirror->edit_count <= MT_MIRROR_EDITS_MAX && cluster->shard_count > 0);
	mirror->edit_count = 0;
	mt_manifest_state_counts(state, &known);
	mirror->takes_back = mt_cluster_is_behind(cluster, &known);
	cluster->next_volume_id = num_max(cluster->next_volume_id, state->next_volume_id);
	cluster->next_segment = num_max(cluster->next_segment, state->next_segment);
	cluster->next_snapshot = num_max(cluster->next_snapshot, state->next_snapshot);
	cluster->next_clone = num_max(cluster->next_clone, state->next_clone);
	cluster->next_key = num_max(cluster->next_key, state->next_key);
	cluster->level = (uint32_t)num_max(cluster->level, state->level);
	level = cluster->level < CLEAVE_LEVEL_STORED ? 0 : cluster->level;
	/* The ids first: those of a volume are never to be given again. */
	if (state->shard_count != cluster->shard_count ||
	    state->next_volume_id != cluster->next_volume_id ||
	    state->next_segment != cluster->next_segment ||
	    state->next_snapshot != cluster->next_snapshot ||
	    state->next_clone != cluster->next_clone || state->next_key != cluster->next_key ||
	    state->level != level)
		mirror->edits[mirror->edit_count++] = (struct mt_edit){ .kind = MT_EDIT_CLUSTER,
			.next_volume_id = cluster->next_volume_id,
			.next_segment = cluster->next_segment,
			.next_snapshot = cluster->next_snapshot,
			.next_clone = cluster->next_clone,
			.next_key = cluster->next_key,
			.shard_count = cluster->shard_count,
			.level = level };
	mirror_compare_data_keys(mirror, state);
	mirror_compare_volumes(mirror, state);
	mirror_compare_snapshots(mirror, state);
	mirror_compare_names(mirror, shard);
}

/* -ESTALE: main has said why, and ends the gateway. Any other error: the tables could not be read, and are once more. */
static void
mirror_on_checked(int rc, void *arg)
{
	struct mt_mirror *mirror = arg;

	assert(mirror->is_out && mirror->takes_back);
	mirror->is_checked = rc == 0;
	if (rc == 0)
		mirror_step(mirror);
	else
		mirror_finish(mirror, rc == -ESTALE ? rc : -ENOBUFS);
}

static void
mirror_step(struct mt_mirror *mirror)
{
	struct mt_shard *shard = mirror_shard(mirror);
	int rc = 0;

	assert(mirror->is_out && mirror->volumes != NULL);
	if (shard != NULL) {
		mirror_compare(mirror, shard);
		if (mirror->takes_back && !mirror->is_checked && !MUTANT(backup_mirrored)) {
			rc = mt_shard_mirror_check(shard, mt_manifest_state(shard),
			    mirror_on_checked, mirror);
			if (rc == 0)
				return;
		} else if (mirror->edit_count > 0) {
			rc = mt_manifest_commit(shard, mirror->edits, mirror->edit_count,
			    mirror_on_commit, mirror);
			if (rc == 0)
				return;
		}
	}
	mirror_finish(mirror, rc);
}

static void
mirror_on_port(struct loop_post *post, void *arg)
{
	struct mt_mirror *mirror = arg;

	(void)post;
	mirror->is_checked = false;
	mirror_step(mirror);
}

/* ---- on main ---- */

static int
volume_compare_ids(const void *a, const void *b)
{
	uint64_t a_id = ((const struct mt_volume *)a)->id;
	uint64_t b_id = ((const struct mt_volume *)b)->id;

	if (a_id == b_id)
		return strcmp(((const struct mt_volume *)a)->name,
		    ((const struct mt_volume *)b)->name);
	return a_id < b_id ? -1 : a_id > b_id;
}

static void
mirror_free(struct mt_mirror *mirror)
{
	mt_free(mirror->volumes);
	mt_free(mirror->snapshots);
	mt_free(mirror->data_keys);
	mirror->volumes = NULL;
	mirror->snapshots = NULL;
	mirror->data_keys = NULL;
}

/*
 * Two keys of the store with one volume's id: somebody has written into the store. The manifest has room for one
 * of them, and would be given each in the other's place, for ever.
 */
static void
mirror_drop_doubles(struct mt_mirror *mirror)
{
	uint32_t kept = 0;

	assert(!mirror->is_out);
	for (uint32_t i = 0; i < mirror->volume_count; i++) {
		if (kept > 0 && mirror->volumes[kept - 1].id == mirror->volumes[i].id) {
			log_limited(LOG_ERROR,
			    "gateway: volumes %s and %s have one id in the metadata store, and share their "
			    "blocks: copy what is wanted, and delete one id=%" PRIu64,
			    mirror->volumes[kept - 1].name, mirror->volumes[i].name,
			    mirror->volumes[i].id);
			continue;
		}
		mirror->volumes[kept++] = mirror->volumes[i];
	}
	mirror->volume_count = kept;
}

static int
mirror_copy(struct mt_mirror *mirror)
{
	const struct mt_volumes *volumes = &mirror->gateway->volumes;
	const struct mt_snapshots *snapshots = &volumes->snapshots;
	const struct mt_data_keys *keys = &mirror->gateway->data_keys;

	assert(!mirror->is_out && mirror->volumes == NULL && mirror->snapshots == NULL);
	mirror->volumes = mt_calloc(num_max(volumes->count, 1), sizeof(*mirror->volumes));
	mirror->snapshots = mt_calloc(num_max(snapshots->count, 1), sizeof(*mirror->snapshots));
	mirror->data_keys = mt_calloc(num_max(keys->table.count, 1), sizeof(*mirror->data_keys));
	if (mirror->volumes == NULL || mirror->snapshots == NULL || mirror->data_keys == NULL) {
		mirror_free(mirror);
		return -ENOMEM;
	}
	mirror->data_key_count = keys->table.count;
	for (uint32_t i = 0; i < keys->table.count; i++) {
		mirror->data_keys[i] = keys->table.entries[i];
		mirror->data_keys[i].version = 0;
	}
	mirror->are_keys_incomplete = !keys->is_loaded || keys->bad_count > 0;
	mirror->snapshot_count = snapshots->count;
	for (uint32_t i = 0; i < snapshots->count; i++)
		mirror->snapshots[i] = snapshots->entries[i].snapshot;
	mirror->volume_count = volumes->count;
	for (uint32_t i = 0; i < volumes->count; i++)
		mirror->volumes[i] = volumes->entries[i].volume;
	qsort(mirror->volumes, mirror->volume_count, sizeof(*mirror->volumes), volume_compare_ids);
	mirror_drop_doubles(mirror);
	if (mirror->gateway->cluster.next_key != 0 &&
	    mt_mirror_names_take(&mirror->names, mirror->volumes, mirror->volume_count,
		mirror->snapshots, mirror->snapshot_count) != 0) {
		mirror_free(mirror);
		return -ENOMEM;
	}
	mirror->cluster = mirror->gateway->cluster;
	/* Volumes may have been made since the key was read. */
	for (uint32_t i = 0; i < mirror->volume_count; i++) {
		const struct mt_volume *volume = &mirror->volumes[i];

		mirror->cluster.next_volume_id =
		    num_max(mirror->cluster.next_volume_id, volume->id + 1);
		mirror->cluster.next_segment = num_max(mirror->cluster.next_segment,
		    wire_segment_root(volume->segment_base) + UINT64_C(1) * volume->segment_count);
	}
	/* Snapshots are unknown before the first refresh. */
	mirror->is_incomplete = volumes->is_incomplete || snapshots->is_incomplete ||
	    snapshots->cluster_version == 0;
	return 0;
}

static void
mirror_retry(struct mt_mirror *mirror, int rc)
{
	assert(rc < 0 && !mirror->is_out);
	log_limited(LOG_WARN, "gateway: shard 0 has no new copy of the volumes, trying again rc=%s",
	    log_errno(rc));
	loop_timer_start(mirror->gateway->options.loop, &mirror->timer, MIRROR_RETRY_NS);
}

static void
mirror_on_done(struct loop_post *post, void *arg)
{
	struct mt_mirror *mirror = arg;

	assert(mirror->is_out);
	(void)post;
	mirror->rest_until_ns = loop_now_ns(mirror->gateway->options.loop) +
	    mirror->volume_count / MIRROR_REST_VOLUMES * NUM_MS(1);
	mirror_free(mirror);
	mirror->is_out = false;
	if (mirror->is_dirty)
		mt_mirror_kick(mirror->gateway);
	else if (mirror->rc == -ENOMEM || mirror->rc == -ENOBUFS)
		mirror_retry(mirror, mirror->rc);
	/* After any other error the shard has stopped: its next owner mirrors anew. */
}

static void
mirror_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	mt_mirror_kick(arg);
}

void
mt_mirror_kick(struct mt_gateway *gateway)
{
	struct mt_mirror *mirror = gateway->mirror;
	uint64_t now_ns;

	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (gateway->sm.state < MT_GATEWAY_TAKING || gateway->sm.state >= MT_GATEWAY_FAILED ||
	    !gateway->volumes.is_loaded || !mirror->is_owner)
		return;
	mirror->is_dirty = mirror->is_out;
	if (mirror->is_out)
		return;
	now_ns = loop_now_ns(gateway->options.loop);
	if (now_ns < mirror->rest_until_ns) {
		loop_timer_start(gateway->options.loop, &mirror->timer,
		    mirror->rest_until_ns - now_ns);
		return;
	}
	if (mirror_copy(mirror) != 0) {
		mirror_retry(mirror, -ENOMEM);
		return;
	}
	mirror->is_out = true;
	mirror->post = (struct loop_post){ .fn = mirror_on_port, .arg = mirror };
	loop_post(gateway->ports[MIRROR_SHARD].loop, &mirror->post);
}

void
mt_mirror_on_shard(struct mt_gateway *gateway, uint32_t shard, enum mt_shard_state state)
{
	assert(shard < gateway->cluster.shard_count && state < MT_SHARD_STATE_NR);
	if (shard != MIRROR_SHARD)
		return;
	gateway->mirror->is_owner = state == MT_SHARD_SERVING;
	mt_mirror_kick(gateway);
	mt_trash_kick(gateway);
}

int
mt_mirror_init(struct mt_gateway *gateway)
{
	struct mt_mirror *mirror = mt_calloc(1, sizeof(*mirror));

	assert(gateway->mirror == NULL);
	if (mirror == NULL)
		return -ENOMEM;
	mirror->gateway = gateway;
	loop_timer_init(&mirror->timer, mirror_on_timer, gateway);
	gateway->mirror = mirror;
	return 0;
}

void
mt_mirror_fini(struct mt_gateway *gateway)
{
	loop_timer_stop(gateway->options.loop, &gateway->mirror->timer);
	mirror_free(gateway->mirror);
	mt_mirror_names_fini(&gateway->mirror->names);
	mt_free(gateway->mirror);
	gateway->mirror = NULL;
}
