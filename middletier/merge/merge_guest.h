/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_guest.h -- an executing part that knows a shard by a recipe alone: a guest of somebody else's
 *
 * Its shard has a number, an epoch, and the extents that the recipe names, as objects of its own; it has no ring, no
 * index and no manifest. It appends to the open run extent that its owner has lent (run_roll.h), in the owner's epoch,
 * and to no other: where that is full or breaks, its execution fails.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_GUEST_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/shard.h"
#include "index/ring.h"
#include "merge/merge_exec.h"
#include "merge/recipe.h"

struct mt_port;
struct mt_recipe;

struct merge_guest {
	struct merge_exec exec;
	struct mt_shard shard;
	struct mt_ring ring;                  /* of nothing */
	uint32_t extents[RECIPE_EXTENTS_MAX]; /* of the recipe: their indexes in shard */
	uint32_t pressure;                    /* of its owner's logs, as the recipe says */
	bool is_on;
};

/* mt_merge_guest_init, _fini -- as those of merge_exec.h; all zeros before. _fini: it is off. */
int mt_merge_guest_init(struct merge_guest *guest, struct mt_port *port, uint64_t window_bytes,
    void (*writer_fn)(void *arg), void *arg);
void mt_merge_guest_fini(struct merge_guest *guest);
/*
 * mt_merge_guest_begin -- off: what @recipe says is executed next; it has a target
 *
 * guest->exec has begun, and its writer. 0; -ENOMEM: it is off.
 */
int mt_merge_guest_begin(struct merge_guest *guest, const struct mt_recipe *recipe,
    void (*tell)(int rc, void *arg), void *arg);
/* mt_merge_guest_end -- nothing is left of its shard; what is out at nodes comes back unseen. Off: does nothing. */
void mt_merge_guest_end(struct merge_guest *guest);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_GUEST_H */
