/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep.h -- the background work of a shard that serves: repair, sweep, scrub
 *
 *	upkeep.c   when: a link changed, a copy was found bad, time has passed; never while nothing is due
 *	repair.c   extents with too few good copies get new ones
 *	sweep.c    what nodes hold and nobody names goes; what they should hold and do not is found
 *	scrub.c    every copy is read and checked now and then, and those that are suspect at once
 */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_H
#define CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "upkeep/repair.h"
#include "upkeep/scrub.h"
#include "upkeep/sweep.h"

struct mt_link;
struct mt_shard;

/* mt_upkeep_init -- shard->upkeep, stopped. 0; -ENOMEM. mt_upkeep_fini -- in any state, also without init. */
int mt_upkeep_init(struct mt_shard *shard);
/* mt_upkeep_start -- the shard is SERVING. */
void mt_upkeep_start(struct mt_shard *shard);
/* mt_upkeep_stop -- nothing begins any more; what is out at nodes ends unseen. */
void mt_upkeep_stop(struct mt_shard *shard);
/* mt_upkeep_is_quiet -- stopped, and no call to a node is out. */
bool mt_upkeep_is_quiet(const struct mt_shard *shard);
/* mt_upkeep_on_link -- a link has changed: copies are counted anew; a node that came is swept. */
void mt_upkeep_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
void mt_upkeep_fini(struct mt_shard *shard);
/* mt_upkeep_lacking_count -- sealed extents with fewer good copies than there should be. */
uint32_t mt_upkeep_lacking_count(const struct mt_shard *shard);
/* mt_upkeep_orphan_count -- copies that no manifest names and that wait; some of them held back. */
uint32_t mt_upkeep_orphan_count(const struct mt_shard *shard, uint32_t *ret_held_count);
/* mt_upkeep_scrub_age_ns -- since every copy was verified last, or the shard began to be served here; 0: it is not. */
uint64_t mt_upkeep_scrub_age_ns(const struct mt_shard *shard);
/* mt_upkeep_leaving_count -- extents, open ones too, that lack nothing and have a copy at a node that drains. */
uint32_t mt_upkeep_leaving_count(const struct mt_shard *shard);
/* mt_upkeep_open_lacking_count -- open ones, the manifest's too: they are made anew within seconds. */
uint32_t mt_upkeep_open_lacking_count(const struct mt_shard *shard);

#define UPKEEP_NEVER UINT64_MAX /* of a time: nothing is due before somebody tells */
#define UPKEEP_SOON_NS NUM_S(1) /* until what could not be done now is tried again */

struct mt_upkeep {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_task task;
	struct loop_timer timer;
	bool is_running;
	struct mt_repair repair;
	struct mt_sweep sweep;
	struct mt_scrub scrub;
};

#endif /* CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_H */
