/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_plan.h -- which blocks go into a backup's frames: block status of a snapshot, and of what has changed
 *
 *	changes: VOLUME@OLD@NEW --1,024 extents an answer--> what has changed
 *	data:    VOLUME@NEW     --a question for each change, PLAN_AHEAD_MAX on their way--> data, or zeros
 *
 * Changes that lie apart have a question each: between them is what nobody asks for. These are asked ahead of the frames,
 * so that a backup of many small changes does not wait for each answer by itself. A full backup has data alone.
 */
#ifndef CLEAVE_COMMAND_PLAN_H
#define CLEAVE_COMMAND_PLAN_H

#include "command_disk.h"
#include "command_frames.h"

#define PLAN_EXTENTS_MAX 1024u /* of an answer */
#define PLAN_AHEAD_MAX                                                                             \
	16u /* questions on their way: they hide a round trip, and leave others their turn */

/* A disk's block status, from a place on. */
struct plan_answer {
	uint64_t at_bytes; /* where extents[next] begins; behind the last one if there is none */
	struct cleave_extent extents[PLAN_EXTENTS_MAX];
	uint32_t next, count;
};

/* A question about data that was asked before a frame came so far. */
struct plan_ahead {
	struct cleave_io io;
	struct cleave_extent extents[PLAN_EXTENTS_MAX];
	bool is_done; /* answered, and io.rc says how */
};

/* Which blocks are told, and how far that is known. */
struct command_plan {
	struct command_disk *data_disk, *changes_disk; /* changes_disk NULL: of a full backup */
	struct plan_answer data, changes;
	struct plan_ahead ahead[PLAN_AHEAD_MAX]; /* by rising offset, used in turn */
	uint32_t first, count;
	uint64_t ahead_bytes; /* of the volume: asked about, ahead, up to here */
	uint64_t size_bytes;
	uint64_t at_bytes; /* of the volume: frames are made up to here */
};

/* command_plan_init -- of @size_bytes, from @at_bytes on. The disks are borrowed until command_plan_fini; @changes: NULL of a full backup. */
void command_plan_init(struct command_plan *plan, struct command_disk *data,
    struct command_disk *changes, uint64_t size_bytes, uint64_t at_bytes);
/*
 * command_plan_frame -- the next frame: its ranges, and where their data will lie in the slot
 *
 * In a full backup all that is not data is zeros. Returns 1; 0: there are no more; a negative errno of a question.
 */
int command_plan_frame(struct command_plan *plan, struct command_frame *slot);
/* command_plan_fini -- wait for questions that are on their way. */
void command_plan_fini(struct command_plan *plan);

#endif /* CLEAVE_COMMAND_PLAN_H */
