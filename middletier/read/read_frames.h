/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_frames.h -- frames of runs that a client reads piece by piece: fetched and decompressed once, and ahead of it
 *
 *	a sequential read meets      its node has answered      all its readers have gone,
 *	part of a frame              and it is decompressed      and it is the oldest
 *	FREE ------> FILLING ----------------> READY ----------------------> FREE
 *	                | not this time
 *	                +------> FREE: who waits goes on without it, and says what is wrong
 *
 * A frame is known by its place in an extent. What lies there never changes, and an extent's id is never used again: so
 * no change of the index, and no other owner, makes what is kept here wrong. Which place a block is read from is always
 * the index's word. Frames of encrypted records are not kept: their keys may be taken away.
 *
 * A *fill* asks one copy for a frame and its neighbours behind it, in one READ. It judges no copy: where anything is not
 * as it should be, readers fetch the frame by themselves (read_piece.c), and find out.
 */
#ifndef CLEAVE_MIDDLETIER_READ_READ_FRAMES_H
#define CLEAVE_MIDDLETIER_READ_READ_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"

struct mt_location;
struct mt_port;
struct mt_read_frames;
struct mt_run;
struct mt_shard;

#define READ_FRAMES_MAX 32u /* of a port */
#define READ_FRAMES_MIN                                                                            \
	8u /* fewer would be gone before they are read: a port that has no room keeps none */
#define READ_FRAMES_SHARE 64u   /* of the port's device memory: one part in so many, at most */
#define READ_FILLS_MAX 4u       /* of a port, at a time */
#define READ_FILL_FRAMES_MAX 8u /* of a fill */
#define READ_FILL_BLOCKS_MAX 16u

enum read_frame_state {
	READ_FRAME_FREE,
	READ_FRAME_FILLING,
	READ_FRAME_READY,
	READ_FRAME_STATE_NR
};

struct read_frame {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* frames->all: the one that was used last is last */
	uint64_t extent;       /* extent_id_pack */
	uint32_t offset_bytes, stored_bytes, stored_crc;
	uint32_t chunk_block; /* of its first block */
	uint8_t codec_id, block_count;
	bool is_last;        /* of its fill: who comes to it has the next ones filled */
	uint32_t hold_count; /* jobs that read it */
	dev_ptr plain;
	uint32_t crcs[ENGINE_RECORD_BLOCKS_MAX];
	struct loop_link waiters; /* FILLING */
};

/* A reader that waits for a frame. */
struct read_frame_waiter {
	struct loop_link link;
	/* The frame is READY, or will not be. Never from within a call of whoever waits. */
	void (*fn)(bool is_ready, void *arg);
	void *arg;
};

/* mt_read_frames_device_bytes -- what mt_read_frames_init takes of a port's @device_bytes of device memory. */
uint64_t mt_read_frames_device_bytes(uint32_t frame_bytes, uint64_t device_bytes);
/*
 * mt_read_frames_init -- after mt_read_path_init: port->read->frames, or NULL where there is no room for enough of them
 *
 * @device_bytes: the port's device memory, of which mt_read_frames_device_bytes is taken; 0: none is kept. 0; -ENOMEM.
 */
int mt_read_frames_init(struct mt_port *port, uint64_t device_bytes);
/* mt_read_frames_fini -- no call and no job is out. NULL is none. */
void mt_read_frames_fini(struct mt_read_frames *frames);

/*
 * mt_read_frames_find -- the frame at that place of the extent, FILLING or READY; NULL: it is not kept
 *
 * @extent: packed id. Threads: the port's, as all of these.
 */
struct read_frame *mt_read_frames_find(struct mt_read_frames *frames, uint64_t extent,
    uint32_t offset_bytes);
/*
 * mt_read_frames_fill -- begin to fill the frame of @chunk_block, and those behind it, in @run, whose index is loaded
 *
 * Returns: that frame, FILLING; NULL: not now, or it is none that is kept, or it is kept already. The shard is not quiet
 * (read_count) until the fill has ended.
 */
struct read_frame *mt_read_frames_fill(struct mt_read_frames *frames, struct mt_shard *shard,
    struct mt_run *run, uint32_t chunk_block);
/* mt_read_frame_wait -- FILLING: @waiter->fn once, when it is not any more. */
void mt_read_frame_wait(struct read_frame *frame, struct read_frame_waiter *waiter);
/* mt_read_frame_hold -- READY: it stays so until mt_read_frame_release. */
void mt_read_frame_hold(struct read_frame *frame);
void mt_read_frame_release(struct read_frame *frame);
/* mt_read_frame_spoil -- its memory is not what it was: nobody finds it any more. Held by the caller. */
void mt_read_frame_spoil(struct read_frame *frame);

#endif /* CLEAVE_MIDDLETIER_READ_READ_FRAMES_H */
