/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphans.h -- copies at nodes that no manifest names: since when they were seen, when they may go
 *
 *	seen by a sweep ---> waits for the grace ---> goes, a sixteenth of the node's extents in a grace
 *	                         |        |               ^
 *	   not listed any more,  |        +-- held back --+  the operator confirms: at once
 *	   or another owner  <---+
 *
 * What no manifest names may be what a store has forgotten. So it goes only when it was in every list
 * of its node for --orphan-grace, and only a few at a time, so that somebody who made a mistake can
 * still see it. Two things need no waiting: a copy that this owner itself has given up, by an edit that
 * is durable or by ending what made it (*known*), and what an operator has confirmed.
 *
 * What is remembered is the present owner's alone, in memory: a take-over begins anew. It is bounded by
 * MT_ORPHANS_MAX a shard; what does not fit is not remembered, and so stays until others have gone.
 *
 * "A node's extents" are, to a port, those that its shards' last lists of the node had, together. Every
 * extent is of one shard, and a shard of one port at a time, so over all ports no more than a sixteenth,
 * and one a port, go in one grace period. The period is the link's, so it outlives a shard's owner.
 */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_ORPHANS_H
#define CLEAVE_MIDDLETIER_UPKEEP_ORPHANS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"

struct extent_id;
struct mt_link;
struct mt_shard;

#define MT_ORPHANS_MAX 1024u     /* of a shard: 40 bytes each */
#define MT_ORPHANS_SHARE 16u     /* this part of a node's extents may go in one grace period */
#define MT_ORPHANS_LIST_MAX 256u /* in the answer to one `cleave sweep`, of each port */

struct mt_orphan {
	uint64_t extent;      /* packed */
	uint64_t incarnation; /* 0, of a known one: any */
	uint64_t since_ns;
	uint32_t node_id;
	uint32_t pass; /* the sweep that saw it last */
	bool is_known;
	bool is_confirmed;
	bool is_held;  /* ripe, but enough have gone */
	bool is_asked; /* its node was told to delete it */
};

struct mt_orphans {
	struct mt_shard *shard;
	struct mt_orphan *entries; /* by node, extent, incarnation */
	uint32_t count, max;
	uint64_t told;                 /* bit set: links of whose orphans the log was told */
	uint32_t listed[MT_NODES_MAX]; /* copies in the last list of each link's node */
	uint64_t ripe_ns;              /* a sweep is due again then; UINT64_MAX: never */
};

/* mt_orphans_init -- none is known. mt_orphans_fini -- the same again: all are forgotten. */
void mt_orphans_init(struct mt_orphans *orphans, struct mt_shard *shard);
void mt_orphans_fini(struct mt_orphans *orphans);
/* mt_orphans_see -- the sweep @pass has seen one at @link's node; true: it is to be deleted now. */
bool mt_orphans_see(struct mt_orphans *orphans, struct mt_link *link, const struct extent_id *id,
    uint64_t incarnation, uint32_t pass);
/* mt_orphans_end_pass -- the list of @link's node, of @listed copies, is over: forget who was not in it. */
void mt_orphans_end_pass(struct mt_orphans *orphans, struct mt_link *link, uint32_t pass,
    uint32_t listed);
/* mt_orphans_know -- this owner has given that copy up; @incarnation 0: whichever is there. */
void mt_orphans_know(struct mt_orphans *orphans, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation);
/* mt_orphans_confirm -- an operator says that all that wait now may go. Returns how many. */
uint32_t mt_orphans_confirm(struct mt_orphans *orphans);
/* mt_orphans_due -- bit set of the links at whose nodes something has become ripe. */
uint64_t mt_orphans_due(struct mt_orphans *orphans);
/* mt_orphans_count -- the orphans that wait; *@ret_held_count: how many of them are held back. */
uint32_t mt_orphans_count(const struct mt_orphans *orphans, uint32_t *ret_held_count);
/* mt_orphans_ripe_ns -- the time of the shard's loop from which on a sweep may delete @orphan. */
uint64_t mt_orphans_ripe_ns(const struct mt_orphans *orphans, const struct mt_orphan *orphan);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_ORPHANS_H */
