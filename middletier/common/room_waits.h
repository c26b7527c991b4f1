/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room_waits.h -- writes that waited for room at the nodes, or were refused for want of it, by volume
 *
 * A port's. An *episode* of a volume begins with its first such write, and ends when there was none for
 * MT_ROOM_EPISODE_NS: that writes wait, and that they are refused, is an event once each.
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_ROOM_WAITS_H
#define CLEAVE_MIDDLETIER_COMMON_ROOM_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/wire.h"

#define MT_ROOM_EPISODE_NS NUM_S(60)
#define MT_ROOM_WAITS_MAX 32u /* volumes of a port: the one that was quiet for longest gives way */

struct mt_events;

struct mt_room_wait {
	uint64_t volume_id; /* 0: none */
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];
	uint64_t waited_count;  /* first in their line, since the port knows the volume */
	uint64_t refused_count; /* answered -ENOSPC */
	uint64_t last_ns;
	bool is_wait_told, is_refusal_told; /* in this episode */
};

/* All zeros is empty. */
struct mt_room_waits {
	struct mt_room_wait volumes[MT_ROOM_WAITS_MAX];
};

/* A write that finds no room: */
enum mt_room_end {
	MT_ROOM_WAITS,
	MT_ROOM_REFUSED,
	MT_ROOM_PINNED, /* refused: too much of its volume stays in memory, for it cannot be merged */
};

/*
 * mt_room_waits_note -- a write of volume @volume_id, @name, finds no room: it waits, or is refused
 *
 * Threads: the port's own. @events: as mt_event's.
 */
void mt_room_waits_note(struct mt_room_waits *waits, struct mt_events *events, uint64_t volume_id,
    const char *name, uint64_t now_ns, enum mt_room_end end);

#endif /* CLEAVE_MIDDLETIER_COMMON_ROOM_WAITS_H */
