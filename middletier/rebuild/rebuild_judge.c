/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_judge.c -- see rebuild_judge.h */
#include "rebuild/rebuild_judge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/place.h"
#include "catalog/root.h"
#include "catalog/volume_table.h"
#include "common/port.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_nodes.h"
#include "rebuild/rebuild_read.h"
#include "rebuild/rebuild_store.h"

static void __attribute__((format(printf, 3, 0)))
judge_object(struct mt_rebuild_judge *judge, int rc, const char *format, va_list args)
{
	assert(rc < 0);
	(void)vsnprintf(judge->text, sizeof(judge->text), format, args); /* cut where too long */
	judge->rc = rc;
}

/* Forced or not. */
static bool __attribute__((format(printf, 3, 4)))
judge_refuse(struct mt_rebuild_judge *judge, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	judge_object(judge, rc, format, args);
	va_end(args);
	return false;
}

bool
mt_rebuild_judge_may(struct mt_rebuild_judge *judge, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	judge_object(judge, rc, format, args);
	va_end(args);
	if (judge->is_forced)
		log_warn("recover: %s: forced", judge->text);
	return judge->is_forced;
}

bool
mt_rebuild_judge_stores(struct mt_rebuild_judge *judge, const struct mt_rebuild_store *store,
    const struct mt_rebuild_nodes *nodes, bool is_copy)
{
	const struct mt_rebuild_node *first = NULL;

	assert(nodes->port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < nodes->port->link_count; i++) {
		const struct mt_rebuild_node *node = &nodes->node[i];

		if (!node->is_listed || mt_rebuild_store_is_known(store, &node->obeyed))
			continue;
		if (is_copy)
			return judge_refuse(judge, -EXDEV,
			    "node %" PRIu32
			    " obeys another metadata store: this one is of before a "
			    "recovery or a move, was loaded elsewhere, or is of another cluster",
			    node->node_id);
		if (first == NULL)
			first = node;
		if (!store_id_is_equal(&node->obeyed, &first->obeyed) &&
		    !mt_rebuild_judge_may(judge, -EXDEV,
			"nodes %" PRIu32 " and %" PRIu32
			" obey two metadata stores: one of them is of "
			"another cluster, or was away during a recovery; leave it out, or say --force",
			first->node_id, node->node_id))
			return false;
	}
	return true;
}

bool
mt_rebuild_mirror_is_ahead(const struct mt_manifest_state *mirror, const struct mt_cluster *cluster)
{
	struct mt_cluster counts;

	mt_manifest_state_counts(mirror, &counts);
	return mirror->shard_count != 0 && mt_cluster_is_behind(cluster, &counts);
}

bool
mt_rebuild_mirror_is_later(const struct mt_manifest_state *mirror, const char *key,
    const void *value, uint32_t value_bytes, char ret_name[MT_NAME_BYTES])
{
	const struct mt_volume *mirrored;
	struct mt_volume volume;
	const char *field;

	if (strncmp(key, MT_VOLUME_PREFIX, strlen(MT_VOLUME_PREFIX)) != 0 ||
	    mt_volume_decode(key + strlen(MT_VOLUME_PREFIX), value, value_bytes, &volume, &field) !=
		0)
		return false;
	mirrored = mt_manifest_state_volume(mirror, volume.id);
	if (mirrored == NULL || mirrored->attach <= volume.attach)
		return false;
	memcpy(ret_name, volume.name, MT_NAME_BYTES);
	return true;
}

/* Was a volume of the store opened since? */
static bool
judge_was_attached(const struct mt_rebuild_store *store, const struct mt_manifest_state *mirror)
{
	char name[MT_NAME_BYTES];

	for (uint32_t i = 0; i < store->old_count; i++) {
		const struct mt_rebuild_key *old = &store->old[i];

		if (old->text != NULL &&
		    mt_rebuild_mirror_is_later(mirror, old->key, old->text,
			(uint32_t)strlen(old->text), name))
			return true;
	}
	return false;
}

bool
mt_rebuild_judge_is_current(const struct mt_rebuild_store *store,
    const struct mt_rebuild_plan *plan)
{
	assert(plan->shard_count > 0 && plan->obeyed_count <= MT_NODES_MAX);
	/* An unfinished store is to be finished, however new its roots are. */
	if (!store->has_cluster || store->is_unfinished ||
	    store->cluster.shard_count != plan->shard_count)
		return false;
	/* A gateway that was started on it has claimed epochs, and given up when it saw this: its roots look new. */
	if (mt_rebuild_mirror_is_ahead(plan->mirror, &store->cluster) ||
	    judge_was_attached(store, plan->mirror))
		return false;
	for (uint32_t i = 0; i < plan->obeyed_count; i++) {
		if (!mt_rebuild_store_is_known(store, &plan->obeyed[i]))
			return false;
	}
	for (uint32_t i = 0; i < plan->shard_count; i++) {
		const struct mt_rebuild_shard *shard = &plan->shards[i];
		struct mt_root root;

		if (!mt_rebuild_store_root(store, i, &root) || root.epoch < shard->epoch_seen)
			return false;
		if (shard->has_manifest &&
		    (!root.has_manifest ||
			extent_id_pack(&root.manifest) < extent_id_pack(&shard->manifest.id)))
			return false;
	}
	return true;
}

/* A store that knows all that the nodes do is left alone. */
static bool
judge_age(struct mt_rebuild_judge *judge, const struct mt_rebuild_store *store,
    const struct mt_rebuild_plan *plan)
{
	assert(plan->shard_count > 0);
	if (!mt_rebuild_judge_is_current(store, plan))
		return true;
	if (mt_place_is_other(store->meta, &store->cluster))
		return mt_rebuild_judge_may(judge, -EEXIST,
		    "the metadata store is a copy, and not older than what the nodes hold: if its "
		    "original is gone for good, run cleave-gateway --accept-copy instead");
	return mt_rebuild_judge_may(judge, -EEXIST,
	    "the metadata store is not older than what the nodes hold");
}

/*
 * A node that has copies, and that nobody has named, would be none of the cluster's nodes: what it has would lack, and its
 * place in extents be waited for. Where addresses did not answer, it may be one of those.
 */
static bool
judge_unseen(struct mt_rebuild_judge *judge, const struct mt_rebuild_reader *reader)
{
	const struct mt_rebuild_unseen *first = &reader->unseen[0];

	assert(reader->unseen_count <= MT_NODES_MAX);
	if (reader->unseen_count <= mt_rebuild_nodes_unlisted(reader->nodes))
		return true;
	return mt_rebuild_judge_may(judge, -ENODATA,
	    "node %" PRIu32 " has copies of %" PRIu32
	    " extents, and is at none of the addresses of --node (%" PRIu32 " such nodes, %" PRIu32
	    " addresses without an answer): name its address, too, also where it does not run; or "
	    "say --force, if it is gone for good",
	    first->node_id, first->extent_count, reader->unseen_count,
	    mt_rebuild_nodes_unlisted(reader->nodes));
}

bool
mt_rebuild_judge_plan(struct mt_rebuild_judge *judge, const struct mt_rebuild_store *store,
    const struct mt_rebuild_reader *reader, const struct mt_rebuild_plan *plan)
{
	assert(plan->shards == reader->shards);
	if (!judge_age(judge, store, plan) || !judge_unseen(judge, reader))
		return false;
	for (uint32_t i = 0; i < reader->shard_count; i++) {
		const struct mt_rebuild_shard *shard = &reader->shards[i];

		if (shard->is_uncertain &&
		    !mt_rebuild_judge_may(judge, -ENODATA,
			"shard %" PRIu32 ": its newest manifest cannot be read", i))
			return false;
		if (!shard->has_manifest &&
		    !mt_rebuild_judge_may(judge, -ENODATA,
			"shard %" PRIu32 ": no manifest was found; it would begin empty", i))
			return false;
	}
	if (reader->mirror.shard_count == 0)
		return mt_rebuild_judge_may(judge, -ENODATA,
		    "no node tells of the volumes: they are taken from the old store");
	return reader->mirror.shard_count == reader->shard_count ||
	    mt_rebuild_judge_may(judge, -ENODATA,
		"the nodes hold %" PRIu32 " shards, but the cluster was made with %" PRIu32,
		reader->shard_count, reader->mirror.shard_count);
}
