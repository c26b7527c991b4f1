/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_frames.h -- frames of a backup on their way to a volume or from it: several at a time, given back in order
 *
 *	room --> filled by the caller --> submit --> wait: the oldest, whose requests have all come --> release
 */
#ifndef CLEAVE_COMMAND_FRAMES_H
#define CLEAVE_COMMAND_FRAMES_H

#include "backup/backup_format.h"
#include "command.h"

#define COMMAND_FRAMES_MAX 8u /* in flight: 8 MiB, which keeps all ports of a volume busy */

struct command_frame {
	struct backup_frame frame;
	uint8_t *data; /* BACKUP_DATA_BYTES_MAX: what ranges of data point into */
	int rc;        /* of the first request that failed; 0: none has */
	struct cleave_io ios[BACKUP_RANGES_MAX];
	uint32_t left_count; /* requests that have not come yet */
};

struct command_frames {
	struct command_session *session;
	struct cleave_volume *volume;
	struct command_frame *slots; /* COMMAND_FRAMES_MAX, used in turn */
	uint32_t first, count;       /* in flight */
};

/* command_frames_init -- 0, or -ENOMEM with session->error set; @volume is borrowed until command_frames_fini. */
int command_frames_init(struct command_frames *frames, struct command_session *session,
    struct cleave_volume *volume);
/* command_frames_fini -- wait for what is in flight. */
void command_frames_fini(struct command_frames *frames);
/* command_frames_room -- a frame to be filled and submitted; NULL: all are in flight. */
struct command_frame *command_frames_room(struct command_frames *frames);
/* command_frames_submit -- @op, READ or WRITE, for each range of data of the last room; @zero_op for the others, where @has_zeros. */
void command_frames_submit(struct command_frames *frames, enum cleave_op op, bool has_zeros,
    enum cleave_op zero_op);
/* command_frames_wait -- the oldest in flight, all of whose requests have come; NULL: none is in flight. */
struct command_frame *command_frames_wait(struct command_frames *frames);
/* command_frames_release -- it is room again. */
void command_frames_release(struct command_frames *frames);

#endif /* CLEAVE_COMMAND_FRAMES_H */
