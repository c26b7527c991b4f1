/* SPDX-License-Identifier: Apache-2.0 */
/* write_room.h -- is there room for a write? */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_ROOM_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_ROOM_H

#include <stdint.h>

struct mt_shard;
struct mt_write;
struct mt_write_state;

/* mt_write_path_on_freed -- write_room.c: @bytes of the log are about to go. */
void mt_write_path_on_freed(struct mt_shard *shard, uint64_t bytes);

/* How fast the log may get longer. */
struct write_room {
	uint64_t paid_ns;
	uint64_t pressed_ns; /* when a batch went to the log under pressure, last */
};

/*
 * mt_write_check -- may @write, which waits first in its line, be admitted?
 *
 * 0; -EAGAIN: not yet; else its answer.
 */
int mt_write_check(struct mt_write_state *state, struct mt_write *write);
/* mt_write_room_take -- a batch of @bytes goes to the log. */
void mt_write_room_take(struct mt_write_state *state, uint32_t bytes);
/* mt_write_path_on_room -- extents have gone, or will not go: look at what waits for room. */
void mt_write_path_on_room(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_ROOM_H */
