/* SPDX-License-Identifier: Apache-2.0 */
/* log_roll.h -- which extent the log goes to */
#ifndef CLEAVE_MIDDLETIER_WRITE_LOG_ROLL_H
#define CLEAVE_MIDDLETIER_WRITE_LOG_ROLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"

struct mt_extent;
struct mt_link;
struct mt_write_state;

enum log_roll_state {
	LOG_ROLL_STEADY,  /* shard->log takes appends */
	LOG_ROLL_TURNING, /* it is broken, full or missing: its last appends end, a spare is made */
	LOG_ROLL_COMMITTING, /* the manifest edit that seals the old and opens the new is on its way */
	LOG_ROLL_STOPPED,
	LOG_ROLL_STATE_NR
};

struct log_roll {
	struct sm sm;
	struct mt_extent *spare; /* CREATING or OPEN, in no manifest; COMMITTING: the next log */
	struct loop_timer retry_timer;
	bool is_offered;        /* the spare is in shard->extents, and may be in the manifest */
	uint32_t attempt_count; /* to make a spare, since the last pause */
	bool is_commit_failed;  /* pauses before it commits again */
	bool is_reserve_tried;  /* the last spare was asked of the reserve */
	bool is_full;           /* nor for one from the reserve: nothing can be written */
	bool must_seal;         /* there is no spare: the old extent is sealed without one */
	bool is_trimming;       /* the log turns as soon as there is a spare */
	bool is_wait_logged;
};

/* mt_log_roll_init -- STEADY, without a spare. */
void mt_log_roll_init(struct mt_write_state *state);
/* mt_log_roll_start -- the shard serves: its log, if it has one, takes appends. */
void mt_log_roll_start(struct mt_write_state *state);
/* mt_log_roll_step -- go on as far as can be; cheap when there is nothing to do. */
void mt_log_roll_step(struct mt_write_state *state);
/* mt_log_roll_over -- the log takes no more: it is broken, or full. */
void mt_log_roll_over(struct mt_write_state *state);
/*
 * mt_log_roll_trim -- the log goes to another extent soon, so that what is in this one can go
 *
 * It costs a slot for what has been written, so it is for logs that do not turn by themselves. Nothing
 * happens to an empty one; and none, too, where there is no room: ask again.
 */
void mt_log_roll_trim(struct mt_write_state *state);
/* mt_log_roll_tend -- see mt_write_path_tend. */
uint64_t mt_log_roll_tend(struct mt_write_state *state, uint32_t domain_count);
/* mt_log_roll_is_short -- there is room for tombstones alone. */
bool mt_log_roll_is_short(const struct mt_write_state *state);
/* mt_log_roll_on_room -- there may be room for a spare now. */
void mt_log_roll_on_room(struct mt_write_state *state);
/* mt_log_roll_on_link -- a link came up or went down: a spare may break, a node that was missing may be there. */
void mt_log_roll_on_link(struct mt_write_state *state, struct mt_link *link, bool is_up);
/* mt_log_roll_stop -- for good, after is_stopped is set: a spare that no manifest names is deleted. */
void mt_log_roll_stop(struct mt_write_state *state);
/* mt_log_roll_fini -- free a spare that no manifest may name. */
void mt_log_roll_fini(struct mt_write_state *state);

#endif /* CLEAVE_MIDDLETIER_WRITE_LOG_ROLL_H */
