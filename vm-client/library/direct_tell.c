/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_tell.c -- what gateways are told of reads past them, with each LEASE: how many there were, for people to see, and
 * which copies did not hold what a map says, so that these are verified
 *
 * A LEASE tells of one copy, on the connection of its shard, whose owner alone can see to it.
 */
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "direct.h"
#include "internal.h"

void
direct_note_read(struct direct *direct, uint32_t bytes)
{
	if (direct->untold_count == UINT32_MAX)
		return;
	direct->untold_count++;
	direct->untold_bytes += bytes;
}

void
direct_note_suspect(struct direct_request *request)
{
	struct direct *direct = request->read->direct;
	const struct direct_suspect suspect = { .extent = request->source.extent,
		.node_id = request->node->id };
	struct direct_suspect *room = NULL;

	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX; i++) {
		if (direct->suspects[i].extent == suspect.extent &&
		    direct->suspects[i].node_id == suspect.node_id)
			return;
		if (direct->suspects[i].extent == 0)
			room = &direct->suspects[i];
	}
	if (room != NULL)
		*room = suspect;
}

void
direct_tell(const struct connection *connection, struct wire_lease *lease)
{
	struct cleave_volume *volume = connection->volume;
	const struct direct *direct = volume->direct;

	if (direct == NULL)
		return;
	lease->read_count = direct->untold_count;
	lease->read_bytes = direct->untold_bytes;
	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX && lease->suspect == 0; i++) {
		uint64_t extent = direct->suspects[i].extent;

		if (extent == 0 ||
		    volume_connection_of(volume, extent_id_unpack(extent).shard) != connection)
			continue;
		lease->suspect = extent;
		lease->suspect_node = direct->suspects[i].node_id;
	}
}

void
direct_told(struct cleave_volume *volume, const struct wire_lease *lease)
{
	struct direct *direct = volume->direct;

	if (direct == NULL)
		return;
	direct->untold_count -= lease->read_count;
	direct->untold_bytes -= lease->read_bytes;
	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX; i++) {
		if (direct->suspects[i].extent == lease->suspect &&
		    direct->suspects[i].node_id == lease->suspect_node)
			memset(&direct->suspects[i], 0, sizeof(direct->suspects[i]));
	}
}
