/* SPDX-License-Identifier: Apache-2.0 */
/* repair_view.h -- which copies of an extent are good, and where another may go */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_REPAIR_VIEW_H
#define CLEAVE_MIDDLETIER_UPKEEP_REPAIR_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct mt_extent;
struct mt_link;
struct mt_repair;

/* The finds of a look at an extent. */
struct repair_view {
	uint32_t good_count; /* those whose node is away for a little while included */
	uint32_t up_count;   /* copies, good or not, whose node can be asked */
	int victim;          /* whose place a new copy takes; -1: nobody's */
	int damaged;         /* a damaged copy whose node can be asked; -1: there is none */
	int leaving;         /* a good copy whose node drains; -1: there is none */
	bool is_uncut;       /* a node that is up has not confirmed the sealed length */
	uint64_t next_ns;    /* when a node has been away for too long */
};

/* mt_repair_now_ns -- the time of the shard's loop. mt_repair_link -- the link of a node; NULL: this gateway knows none. */
uint64_t mt_repair_now_ns(const struct mt_repair *repair);
struct mt_link *mt_repair_link(const struct mt_repair *repair, uint32_t node_id);

/* mt_repair_is_ours -- is @extent sealed, in the manifest, with something in it, and not on its way out? May be NULL. */
bool mt_repair_is_ours(const struct mt_repair *repair, const struct mt_extent *extent);
/* mt_repair_object -- the extent being repaired, though its deletion be asked for; NULL: it is no more. */
struct mt_extent *mt_repair_object(const struct mt_repair *repair);
/* mt_repair_view_of -- @extent as its replicas and their links say now. */
struct repair_view mt_repair_view_of(const struct mt_repair *repair,
    const struct mt_extent *extent);
/*
 * mt_repair_find_node -- a node for a new copy, outside the domains of all replicas; else of all but @victim
 *
 * @victim: the replica that gives way, -1: none. It may be the victim's own. NULL: no node can take one now.
 */
struct mt_link *mt_repair_find_node(const struct mt_repair *repair, const struct mt_extent *extent,
    int victim);
/*
 * mt_repair_find_target -- a node for the copy that @extent lacks, in the place of view->victim
 *
 * An extent of two copies lacks one more, and has no victim. Where no node can have that, a damaged one of the two is made
 * anew, and is the victim. NULL: no node can take one now.
 */
struct mt_link *mt_repair_find_target(const struct mt_repair *repair,
    const struct mt_extent *extent, struct repair_view *view);
/* mt_repair_has_node -- would mt_repair_find_node find one? Changes nothing, and asks nobody. */
bool mt_repair_has_node(const struct mt_repair *repair, const struct mt_extent *extent, int victim);
/* mt_repair_find_good -- the node of an undamaged copy that can be asked; 0: there is none. */
uint32_t mt_repair_find_good(const struct mt_repair *repair, const struct mt_extent *extent);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_REPAIR_VIEW_H */
