/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deletes.c -- see deletes.h; for each shard a *shadow*: its newest manifest, read on as it grows
 *
 * A shadow begins anew when the root names another extent. It goes as far as every replica whose node runs
 * has it durable, which is where an owner may count an edit as done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "deletes.h"
#include "invariant.h"
#include "middletier/catalog/root.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/root.h"
#include "middletier/common/settings.h"
#include "middletier/common/shard.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/upkeep/orphans.h"
#include "middletier/upkeep/upkeep.h"

struct shadow {
	struct mt_root root; /* the newest that the store has had */
	bool has_root, has_begun;
	struct mt_manifest_state state;
	uint64_t read_bytes; /* of the extent that the root names */
	uint32_t chain_crc;
};

struct sim_deletes {
	struct sim_cluster *cluster;
	struct shadow shadows[SIM_INVARIANT_SHARDS_MAX];
	uint64_t count, blind_count;
};

struct sim_deletes *
sim_deletes_create(struct sim_cluster *cluster)
{
	struct sim_deletes *deletes = calloc(1, sizeof(*deletes));

	assert(deletes != NULL);
	deletes->cluster = cluster;
	return deletes;
}

static void
shadow_forget(struct shadow *shadow)
{
	if (shadow->has_begun)
		mt_manifest_state_fini(&shadow->state);
	shadow->has_begun = false;
}

void
sim_deletes_destroy(struct sim_deletes *deletes)
{
	for (uint32_t i = 0; i < SIM_INVARIANT_SHARDS_MAX; i++)
		shadow_forget(&deletes->shadows[i]);
	free(deletes);
}

uint64_t
sim_deletes_held_bytes(const struct sim_deletes *deletes)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < SIM_INVARIANT_SHARDS_MAX; i++) {
		const struct mt_manifest_state *state = &deletes->shadows[i].state;

		if (!deletes->shadows[i].has_begun)
			continue;
		bytes += state->extent_max * sizeof(*state->extents) +
		    mt_run_table_bytes(&state->runs) + state->cut_max * sizeof(*state->cuts) +
		    state->volume_max * sizeof(*state->volumes) +
		    state->snapshot_max * sizeof(*state->snapshots) +
		    state->part_max * sizeof(*state->parts);
	}
	return bytes;
}

/* ---- the root ---- */

/* A store that was set back knows of an older epoch, or of no manifest yet: not the newest. */
static bool
root_is_older(const struct mt_root *root, const struct mt_root *than)
{
	return root->epoch < than->epoch ||
	    (root->epoch == than->epoch && !root->has_manifest && than->has_manifest);
}

static void
shadow_look_root(struct sim_deletes *deletes, uint32_t shard)
{
	struct shadow *shadow = &deletes->shadows[shard];
	char key[MT_ROOT_KEY_BYTES];
	struct meta_item *items = NULL;
	uint32_t count = 0;
	struct mt_root root;
	const char *field;

	mt_root_key(key, shard);
	if (sim_store_list(deletes->cluster->store, key, &items, &count) == 0 && count == 1 &&
	    mt_root_decode(items[0].value, items[0].value_bytes, shard, &root, &field) == 0 &&
	    !(shadow->has_root && root_is_older(&root, &shadow->root))) {
		if (!shadow->has_root || !root.has_manifest || !shadow->root.has_manifest ||
		    extent_id_pack(&root.manifest) != extent_id_pack(&shadow->root.manifest) ||
		    root.manifest_sealed_bytes < shadow->read_bytes)
			shadow_forget(shadow);
		shadow->root = root;
		shadow->has_root = true;
	}
	mt_free(items);
}

void
sim_deletes_note(struct sim_deletes *deletes)
{
	for (uint32_t i = 0; i < deletes->cluster->options.shard_count; i++)
		shadow_look_root(deletes, i);
}

uint32_t
sim_deletes_epoch(struct sim_deletes *deletes, uint32_t shard)
{
	shadow_look_root(deletes, shard);
	return deletes->shadows[shard].root.epoch;
}

/* ---- the manifest ---- */

/* An extent of a manifest: where it is, and how far every replica that can be asked has it. */
struct chain {
	struct sim_cluster *cluster;
	const struct extent_id *id;
	const struct mt_replica *replicas;
	uint32_t replica_count;
	uint64_t limit_bytes;
};

/* The replica's copy; false: its node does not run, has lost it, or destroys data. */
static bool
chain_copy(const struct chain *chain, uint32_t i, struct sim_copy *ret_copy)
{
	const struct mt_replica *replica = &chain->replicas[i];
	const struct sim_cluster_node *own = &chain->cluster->nodes[replica->node_id - 1];

	if (replica->node_id - 1 == chain->cluster->spared_node || own->node == NULL ||
	    !own->is_ready)
		return false;
	sim_node_copy(own->node, chain->id, ret_copy);
	return ret_copy->is_held && !ret_copy->is_damaged &&
	    (ret_copy->incarnation == replica->incarnation || replica->incarnation == 0);
}

/* False: there is none to read it from. */
static bool
chain_measure(struct chain *chain)
{
	struct sim_copy copy;
	bool has_any = false;

	for (uint32_t i = 0; i < chain->replica_count; i++) {
		if (!chain_copy(chain, i, &copy))
			continue;
		chain->limit_bytes = num_min(chain->limit_bytes, copy.durable_bytes);
		has_any = true;
	}
	return has_any;
}

typedef int (*chain_fn)(struct mt_manifest_state *state, const struct batch_info *info,
    const uint8_t *head, const char **ret_field);

/* The names at the beginning of the first batch, as manifest_read.c takes them. */
static int
take_parts(struct mt_manifest_state *state, const struct batch_info *info, const uint8_t *head,
    const char **ret_field)
{
	const uint8_t *at = head + BATCH_HEADER_BYTES;
	uint32_t left_bytes = info->desc_bytes;

	for (uint32_t i = 0; i < info->record_count; i++) {
		struct mt_edit edit;
		int bytes = mt_edit_decode(at, left_bytes, &edit, ret_field);

		if (bytes < 0 || edit.kind != MT_EDIT_PART)
			return bytes < 0 ? bytes : 0;
		if (mt_manifest_state_apply(state, &edit, ret_field) != 0)
			return -EBADMSG;
		at += bytes;
		left_bytes -= (uint32_t)bytes;
	}
	return 0;
}

/* Batches of one copy from *@at on. 0; -EBADMSG: the copy does not hold what it should. */
static int
copy_read(const struct chain *chain, uint32_t i, struct mt_manifest_state *state, chain_fn fn,
    uint64_t *at, uint32_t *crc)
{
	const struct disk_sim *disk = chain->cluster->nodes[chain->replicas[i].node_id - 1].disk;
	static uint8_t head[BATCH_HEAD_BYTES_MAX];
	struct sim_copy copy;

	if (!chain_copy(chain, i, &copy))
		return -EBADMSG;
	while (*at < chain->limit_bytes) {
		uint32_t bytes = (uint32_t)num_min(chain->limit_bytes - *at, sizeof(head));
		struct batch_check check = { .id = *chain->id,
			.kind = EXTENT_MANIFEST,
			.offset_bytes = *at,
			.prev_crc = *crc };
		const char *field;

		disk_sim_peek(disk, copy.data_offset + *at, head, bytes);
		if (batch_head_check(head, bytes, &check) != 0)
			return -EBADMSG;
		if (fn(state, &check.info, head, &field) != 0)
			sim_cluster_fail(chain->cluster,
			    "shard %" PRIu32 ": a manifest makes no sense: %s", chain->id->shard,
			    field);
		*at += check.info.batch_bytes;
		*crc = check.info.batch_crc;
		if (fn == take_parts)
			return 0;
	}
	return 0;
}

static bool
chain_read(const struct chain *chain, struct mt_manifest_state *state, chain_fn fn, uint64_t *at,
    uint32_t *crc)
{
	for (uint32_t i = 0; i < chain->replica_count; i++)
		if (copy_read(chain, i, state, fn, at, crc) == 0)
			return true;
	return false;
}

/* The extents before the one that the root names. */
static bool
shadow_read_parts(struct shadow *shadow, const struct chain *head)
{
	struct mt_manifest_state *state = &shadow->state;
	uint32_t crc = batch_chain_seed(head->id, EXTENT_MANIFEST);
	uint64_t at = 0;

	if (!chain_read(head, state, take_parts, &at, &crc))
		return false;
	for (uint32_t i = 0; i < state->part_count; i++) {
		const struct mt_state_extent part = state->parts[i];
		struct chain chain = { .cluster = head->cluster,
			.id = &part.id,
			.replicas = part.replicas,
			.replica_count = part.replica_count,
			.limit_bytes = part.sealed_bytes };

		at = 0;
		crc = batch_chain_seed(&part.id, EXTENT_MANIFEST);
		if (!chain_measure(&chain) || chain.limit_bytes != part.sealed_bytes ||
		    !chain_read(&chain, state, mt_manifest_state_apply_batch, &at, &crc))
			return false;
	}
	return true;
}

/* The newest durable manifest of @shard. NULL: it cannot be seen now. */
static const struct shadow *
shadow_read(struct sim_deletes *deletes, uint32_t shard)
{
	struct shadow *shadow = &deletes->shadows[shard];
	const struct mt_root *root = &shadow->root;
	struct chain chain = { .cluster = deletes->cluster,
		.id = &root->manifest,
		.replicas = root->manifest_replicas,
		.replica_count = root->manifest_replica_count,
		.limit_bytes = root->manifest_sealed_bytes };

	shadow_look_root(deletes, shard);
	chain.replica_count = root->manifest_replica_count;
	chain.limit_bytes = root->manifest_sealed_bytes;
	if (!shadow->has_root || !root->has_manifest || !chain_measure(&chain))
		return NULL;
	if (!shadow->has_begun) {
		mt_manifest_state_init(&shadow->state);
		shadow->has_begun = true;
		shadow->read_bytes = 0;
		shadow->chain_crc = batch_chain_seed(&root->manifest, EXTENT_MANIFEST);
		if (chain.limit_bytes == 0 || !shadow_read_parts(shadow, &chain)) {
			shadow_forget(shadow);
			return NULL;
		}
	}
	if (!chain_read(&chain, &shadow->state, mt_manifest_state_apply_batch, &shadow->read_bytes,
		&shadow->chain_crc))
		return NULL;
	return shadow->state.is_complete ? shadow : NULL;
}

static bool
is_named(const struct mt_state_extent *extents, uint32_t count, uint32_t node_id,
    struct extent_id *ret_id)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < extents[i].replica_count; k++)
			if (extents[i].replicas[k].node_id == node_id) {
				*ret_id = extents[i].id;
				return true;
			}
	return false;
}

bool
sim_deletes_named(struct sim_deletes *deletes, uint32_t shard, uint32_t node_id,
    struct extent_id *ret_id)
{
	const struct shadow *shadow = shadow_read(deletes, shard);
	const struct mt_root *root = &deletes->shadows[shard].root;

	for (uint32_t i = 0; shadow != NULL && i < root->manifest_replica_count; i++)
		if (root->manifest_replicas[i].node_id == node_id) {
			*ret_id = root->manifest;
			return true;
		}
	return shadow != NULL &&
	    (is_named(shadow->state.parts, shadow->state.part_count, node_id, ret_id) ||
		is_named(shadow->state.extents, shadow->state.extent_count, node_id, ret_id));
}

/* ---- judging ---- */

static void __attribute__((format(printf, 3, 4), noreturn))
deletes_fail(const struct sim_deletes *deletes, const struct sim_node_change *change,
    const char *format, ...)
{
	const struct extent_id *id = &change->id;
	char text[400];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sim_cluster_fail(deletes->cluster,
	    "what deletes at nodes: node %" PRIu32 " %s extent %" PRIu32 ".%" PRIu32 ".%" PRIu64
	    " incarnation %" PRIu64 ", made under epoch %" PRIu32 ", by a request of epoch %" PRIu32
	    ": %s",
	    change->node + 1, change->is_delete ? "deletes" : "changes", id->shard, id->epoch,
	    id->counter, change->incarnation, change->maker_epoch, change->owner_epoch, text);
}

static bool
is_this_copy(const struct mt_replica *replica, const struct sim_node_change *change)
{
	return replica->node_id == change->node + 1 &&
	    (replica->incarnation == change->incarnation || replica->incarnation == 0);
}

/* May one of @replicas, other than @change's copy, be good for @bytes, as far as its node can tell? */
static bool
has_another(const struct sim_deletes *deletes, const struct mt_replica *replicas, uint32_t count,
    uint64_t bytes, const struct sim_node_change *change)
{
	const struct sim_cluster *cluster = deletes->cluster;

	for (uint32_t i = 0; i < count; i++) {
		const struct sim_cluster_node *own = &cluster->nodes[replicas[i].node_id - 1];
		struct sim_copy copy;

		if (is_this_copy(&replicas[i], change))
			continue;
		if (own->node == NULL || !own->is_ready)
			return true;
		sim_node_copy(own->node, &change->id, &copy);
		if (copy.is_held && !copy.is_damaged && copy.durable_bytes >= bytes)
			return true;
	}
	return false;
}

static void
judge_extent(const struct sim_deletes *deletes, const struct mt_state_extent *extent,
    const struct sim_node_change *change)
{
	bool is_good = !change->is_damaged &&
	    (!extent->is_sealed || change->durable_bytes >= extent->sealed_bytes);

	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_replica *replica = &extent->replicas[i];

		if (!is_this_copy(replica, change))
			continue;
		/* A taker whose request its node failed counts it as bad, and has as much elsewhere. */
		if (is_good && !extent->is_sealed && change->owner_epoch > change->id.epoch &&
		    has_another(deletes, extent->replicas, extent->replica_count,
			change->durable_bytes, change))
			continue;
		if (is_good && !replica->is_damaged)
			deletes_fail(deletes, change,
			    "the newest durable manifest names this copy as good (rows reclaim, "
			    "repair, sweep: a durable edit that names it no more)");
		if (extent->is_sealed &&
		    !has_another(deletes, extent->replicas, extent->replica_count,
			extent->sealed_bytes, change))
			deletes_fail(deletes, change,
			    "no other copy that the manifest names is good (row repair in place: a "
			    "good copy elsewhere)");
	}
}

static void
judge_by_manifest(struct sim_deletes *deletes, const struct sim_node_change *change)
{
	const struct shadow *shadow = shadow_read(deletes, change->id.shard);
	const struct mt_state_extent *extent;
	const struct mt_root *root;

	deletes->blind_count += shadow == NULL;
	if (shadow == NULL)
		return;
	root = &shadow->root;
	for (uint32_t i = 0; i < root->manifest_replica_count; i++) {
		if (extent_id_pack(&root->manifest) != extent_id_pack(&change->id) ||
		    !is_this_copy(&root->manifest_replicas[i], change))
			continue;
		/* As of a log extent: a copy that its node failed to freeze is a bad one to a taker. */
		if ((!change->is_damaged && change->owner_epoch <= change->id.epoch) ||
		    !has_another(deletes, root->manifest_replicas, root->manifest_replica_count,
			change->is_damaged ? 0 : change->durable_bytes, change))
			deletes_fail(deletes, change,
			    "the root names this copy of the manifest (row a manifest's successor: "
			    "after the root has moved; row a take-over that needs another copy: a bad one "
			    "alone, and a good one elsewhere)");
	}
	for (uint32_t i = 0; i < shadow->state.part_count; i++)
		if (extent_id_pack(&shadow->state.parts[i].id) == extent_id_pack(&change->id))
			judge_extent(deletes, &shadow->state.parts[i], change);
	extent = mt_manifest_state_find(&shadow->state, &change->id);
	if (extent != NULL)
		judge_extent(deletes, extent, change);
}

/* By the records of the owner whose request it is, if it lives. */
static void
judge_sweep(const struct sim_deletes *deletes, const struct mt_shard *shard, uint64_t now_ns,
    const struct sim_node_change *change)
{
	const struct mt_orphans *orphans = &shard->upkeep->sweep.orphans;
	uint64_t grace_ns = shard->port->settings->orphan_grace_ns;

	for (uint32_t i = 0; i < orphans->count; i++) {
		const struct mt_orphan *at = &orphans->entries[i];

		if (at->extent == extent_id_pack(&change->id) && at->node_id == change->node + 1 &&
		    at->incarnation == change->incarnation && at->is_asked && !at->is_known &&
		    !at->is_confirmed && now_ns - at->since_ns < grace_ns)
			deletes_fail(deletes, change,
			    "its owner has seen it as an orphan for %" PRIu64
			    " ms (row sweep: in each list for --orphan-grace, %" PRIu64 " ms)",
			    (now_ns - at->since_ns) / NUM_MS(1), grace_ns / NUM_MS(1));
	}
}

static void
judge_by_owner(const struct sim_deletes *deletes, const struct sim_node_change *change)
{
	const struct sim_cluster *cluster = deletes->cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct sim_cluster_gateway *own = &cluster->gateways[i];

		for (uint32_t k = 0; own->gateway != NULL && k < own->gateway->port_count; k++) {
			const struct mt_port *port = &own->gateway->ports[k];

			for (uint32_t n = 0; n < port->shard_count; n++) {
				const struct mt_shard *shard = &port->shards[n];

				if (shard->index == change->id.shard && shard->upkeep != NULL &&
				    shard->epoch == change->owner_epoch)
					judge_sweep(deletes, shard, loop_now_fresh_ns(own->loop),
					    change);
			}
		}
	}
}

void
sim_deletes_judge(struct sim_deletes *deletes, const struct sim_node_change *change)
{
	if (change->owner_epoch < change->maker_epoch)
		deletes_fail(deletes, change, "its owner is older than the copy's maker");
	if (!change->is_delete)
		return;
	deletes->count++;
	if (change->owner_incarnation != change->incarnation)
		deletes_fail(deletes, change,
		    "its owner saw incarnation %" PRIu64 ", this is another copy",
		    change->owner_incarnation);
	if (change->id.shard >= SIM_INVARIANT_SHARDS_MAX)
		return;
	judge_by_owner(deletes, change);
	if (change->node != deletes->cluster->spared_node)
		judge_by_manifest(deletes, change);
}

uint64_t
sim_deletes_count(const struct sim_deletes *deletes, uint64_t *ret_blind_count)
{
	*ret_blind_count = deletes->blind_count;
	return deletes->count;
}
