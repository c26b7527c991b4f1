/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_parts.c -- the extents of a manifest that are full
 *
 * A checkpoint that is longer than an extent goes to several; the root names the last, and that one names
 * those before it (manifest_read.c has the picture). A part is complete before the next extent is made:
 * every byte of it is on all of its replicas, so its length needs no agreement, ever.
 *
 * Nothing is copied when a part loses a replica: the whole manifest is written anew, as for its head.
 */
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"
#include "manifest/edit.h"
#include "manifest/manifest_parts.h"

void
mt_manifest_parts_add(struct mt_manifest_parts *parts, struct mt_extent *extent)
{
	assert(parts->count < MT_MANIFEST_PARTS_MAX);
	assert(extent->acked_bytes == extent->end_bytes);
	assert(extent->kind == EXTENT_MANIFEST);
	mt_extent_seal(extent, extent->acked_bytes);
	mt_extent_truncate_replicas(extent);
	parts->extents[parts->count++] = extent;
}

uint32_t
mt_manifest_parts_encode(const struct mt_manifest_parts *parts, uint8_t *out, uint32_t *ret_bytes)
{
	uint8_t scratch[MT_EDIT_BYTES_MAX];

	assert(parts->count <= MT_MANIFEST_PARTS_MAX);
	*ret_bytes = 0;
	for (uint32_t i = 0; i < parts->count; i++) {
		const struct mt_extent *extent = parts->extents[i];
		struct mt_edit edit = { .kind = MT_EDIT_PART,
			.id = extent->id,
			.extent_kind = EXTENT_MANIFEST,
			.replica_count = extent->replica_count,
			.length_bytes = extent->sealed_bytes };
		uint32_t bytes;

		memcpy(edit.replicas, extent->replicas, sizeof(edit.replicas));
		bytes = mt_edit_encode(scratch, &edit);
		memcpy(out + *ret_bytes, scratch, bytes);
		*ret_bytes += bytes;
	}
	return parts->count;
}

void
mt_manifest_parts_delete(struct mt_manifest_parts *parts)
{
	assert(parts->count <= MT_MANIFEST_PARTS_MAX);
	while (parts->count > 0)
		mt_extent_delete(parts->extents[--parts->count]);
}

void
mt_manifest_parts_free(struct mt_manifest_parts *parts)
{
	assert(parts->count <= MT_MANIFEST_PARTS_MAX);
	while (parts->count > 0)
		mt_extent_free(parts->extents[--parts->count]);
}

void
mt_manifest_parts_on_link(struct mt_manifest_parts *parts, struct mt_link *link, bool is_up)
{
	assert(parts->count <= MT_MANIFEST_PARTS_MAX);
	for (uint32_t i = 0; i < parts->count; i++) {
		struct mt_extent *extent = parts->extents[i];
		int replica = mt_extent_replica(extent, link->node_id);

		if (replica < 0)
			continue;
		/* Asked again: a node that has lost its copy says so, and truncating twice is truncating once. */
		if (is_up)
			extent->replicas[replica].is_truncated = false;
		mt_extent_on_link(extent, link, is_up);
	}
}

/* Until when @replica's node may be away; 0: it is not. */
static uint64_t
part_away_until_ns(const struct mt_extent *extent, const struct mt_replica *replica)
{
	const struct mt_port *port = extent->shard->port;
	const struct mt_link *link = mt_port_link(extent->shard->port, replica->node_id);

	assert(replica->node_id != 0);
	if (link != NULL && mt_link_is_up(link))
		return 0;
	return (link != NULL ? link->changed_ns : extent->placed_ns) +
	    port->settings->repair_after_ns;
}

bool
mt_manifest_parts_lack(const struct mt_manifest_parts *parts, uint32_t domain_count,
    uint64_t *ret_next_ns)
{
	assert(parts->count <= MT_MANIFEST_PARTS_MAX);
	for (uint32_t i = 0; i < parts->count; i++) {
		const struct mt_extent *extent = parts->extents[i];
		uint64_t now_ns = loop_now_ns(extent->shard->port->loop);
		uint32_t good_count = 0;

		if (mt_extent_leaving(extent) >= 0)
			return true;
		for (uint32_t k = 0; k < extent->replica_count; k++) {
			const struct mt_replica *replica = &extent->replicas[k];
			const struct mt_link *link =
			    mt_port_link(extent->shard->port, replica->node_id);
			uint64_t until_ns = part_away_until_ns(extent, replica);

			if (replica->is_damaged || (link != NULL && link->is_read_only) ||
			    (until_ns != 0 && until_ns <= now_ns))
				continue;
			good_count++;
			if (until_ns != 0)
				*ret_next_ns = num_min(*ret_next_ns, until_ns);
		}
		if (good_count < num_min(domain_count, MT_REPLICAS_MAX))
			return true;
	}
	return false;
}
