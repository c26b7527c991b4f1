/* SPDX-License-Identifier: Apache-2.0 */
/* room.h -- how much room all nodes together have, in bytes: the one sum that status, page, metrics and health tell */
#ifndef CLEAVE_MIDDLETIER_EXTENT_ROOM_H
#define CLEAVE_MIDDLETIER_EXTENT_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct mt_node_config;

/* A node that has told its slots, and has not left. */
struct mt_room_node {
	const struct mt_node_config *config;
	uint64_t slots_total, slots_free, slots_reserved, slot_bytes;
	bool is_read_only;
	bool is_ready; /* it is up, and not left out because its disk fails writes */
};

/* data_free <= data_total - data_used, always. */
struct mt_room {
	uint64_t raw_total, raw_free; /* slots of all nodes; those without an extent */
	/* Extents that all copies find slots for, at nodes that take data: in all; and of these in use. */
	uint64_t data_total, data_used;
	uint32_t used_percent; /* data_used of data_total */
	uint64_t
	    data_free; /* of what is not in use: what finds slots now, at nodes that are ready */
};

/*
 * mt_room_of -- the room of @nodes
 *
 * A node that drains, or is read-only, takes no data: its disk alone is counted. One that is away for a while, or whose
 * disk fails writes now, makes the others no fuller, and has nothing now. Where fewer domains than @min_copies are ready,
 * counted as copies are placed (mt_node_taking_count), nothing can be written now. Nodes whose disks fail writes are
 * tried all the same then, but what they would take is no room to rely on.
 */
void mt_room_of(const struct mt_room_node *nodes, uint32_t count, uint32_t min_copies,
    struct mt_room *ret_room);

#endif /* CLEAVE_MIDDLETIER_EXTENT_ROOM_H */
