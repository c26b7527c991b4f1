/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_away.h -- a recipe goes to another gateway, and what has come of it comes back; one at a time, a port
 *
 * Nothing of what comes back is believed here: it is checked that it can be (told.h), no more. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_AWAY_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_AWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"
#include "common/limits.h"

struct merge_away;
struct mt_port;
struct mt_recipe;
struct mt_told;

/* A merge of less stored bytes costs more to give away than to execute. */
#define MERGE_AWAY_BYTES_MIN (1024u * 1024u)

/* Ports of other gateways, which may have room for jobs. */
struct mt_away_names {
	uint32_t count;
	char addresses[MT_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX];
};

/*
 * mt_merge_away_create -- of a port that has peer_links; nobody is known yet
 *
 * @tell is called with @arg, from the loop or from within a call of peer_link.h, when mt_merge_away_step may have something
 * else to say. 0 and *@ret_away; -ENOMEM.
 */
int mt_merge_away_create(struct mt_port *port, void (*tell)(void *arg), void *arg,
    struct merge_away **ret_away);
/* mt_merge_away_destroy -- nothing comes back any more. NULL is none. */
void mt_merge_away_destroy(struct merge_away *away);
/* mt_merge_away_names -- these count from the next merge on. Copied. */
void mt_merge_away_names(struct merge_away *away, const struct mt_away_names *names);
/* mt_merge_away_is_hopeful -- nothing of an earlier one is out, and somebody may have room. NULL: false. */
bool mt_merge_away_is_hopeful(const struct merge_away *away);
/*
 * mt_merge_away_begin -- hopeful: who has room is asked, and one of them gets the recipe
 *
 * @recipe, which has a target, and @bytes, @recipe_bytes of them, which it was decoded from, are borrowed until a step
 * has said that it is over, or mt_merge_away_cancel. 0; -ENOTCONN: nobody can be asked now.
 */
int mt_merge_away_begin(struct merge_away *away, const struct mt_recipe *recipe,
    const uint8_t *bytes, uint32_t recipe_bytes);
/*
 * mt_merge_away_step -- STEP_AGAIN: tell follows. STEP_DONE: mt_merge_away_told is what has come of it
 *
 * Negative: nothing has: -EAGAIN: nobody has room; -ETIMEDOUT: it took too long; what the other one says; why the
 * connection has ended. It is over after both; where it is only given up, the other one is told to, and until he has
 * said so, or a second has passed, it is not hopeful.
 */
int mt_merge_away_step(struct merge_away *away);
/* mt_merge_away_told -- a step has said STEP_DONE: that could have come of the recipe. */
const struct mt_told *mt_merge_away_told(const struct merge_away *away);
/* mt_merge_away_is_given -- somebody was sent all of the recipe begun last: he may append, for a while yet. */
bool mt_merge_away_is_given(const struct merge_away *away);
/* mt_merge_away_peer -- who got the recipe begun last, or is about to: an address. "": nobody. */
const char *mt_merge_away_peer(const struct merge_away *away);
/* mt_merge_away_is_watched -- who got it is new, or has failed or lied of late: all that it makes is read back. */
bool mt_merge_away_is_watched(const struct merge_away *away);
/* mt_merge_away_note -- was what the last one told believed? Who lied, or failed, is asked later, each time more so. */
void mt_merge_away_note(struct merge_away *away, bool is_good);
/* mt_merge_away_cancel -- it is over: who executes it is told to end. A no-op when it is over. */
void mt_merge_away_cancel(struct merge_away *away);
/* mt_merge_away_forget -- the process is being taken down: likewise, and nobody is told. */
void mt_merge_away_forget(struct merge_away *away);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_AWAY_H */
