/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h -- three nodes of different failure domains, by free space and load */
#ifndef CLEAVE_MIDDLETIER_EXTENT_PLACEMENT_H
#define CLEAVE_MIDDLETIER_EXTENT_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"

struct mt_link;
struct mt_port;
struct wire_node;

/* A log extent from the reserve is placed like a kind of its own: other nodes are full for it. */
#define MT_PLACE_RESERVE ((enum extent_kind)0)
#define MT_PLACE_KINDS (EXTENT_MANIFEST + 1u) /* kinds that are placed, from MT_PLACE_RESERVE on */

/* mt_placement_kind -- as what a node places the extent that @create, a WIRE_EXTENT_CREATE, asks for. */
enum extent_kind mt_placement_kind(const struct wire_node *create);

/*
 * mt_placement_pick -- @count nodes, 1 to MT_REPLICAS_MAX, of different failure domains for a new extent
 *
 * Nodes that are avoided do not count, unless without them not even min_replicas were left.
 * Returns 0: their links are in @ret_links; -EHOSTDOWN too few nodes, or domains, are up; -ENOSPC they are up, but
 * full. @ret_links is untouched then, and every node is asked how much room it has.
 */
int mt_placement_pick(struct mt_port *port, enum extent_kind kind, uint32_t count,
    struct mt_link **ret_links);

/* A further copy of an extent that there is, for mt_placement_pick_one. */
struct mt_placement_copy {
	enum extent_kind kind;
	uint64_t
	    bytes; /* its length, which may be 0: a node whose slots are smaller cannot have it */
	const uint32_t *others; /* nodes that it is to be apart from, MT_REPLICAS_MAX at most */
	uint32_t other_count;
};

/* mt_placement_pick_one -- a link outside the domains of @copy's others, or -EHOSTDOWN. */
int mt_placement_pick_one(struct mt_port *port, const struct mt_placement_copy *copy,
    struct mt_link **ret_link);
/* mt_placement_has_one -- would mt_placement_pick_one find one? Nobody is asked how much room there is. */
bool mt_placement_has_one(struct mt_port *port, const struct mt_placement_copy *copy);
/* mt_placement_domain_count -- domains with a node that is up, writable, not avoided; full or not. */
uint32_t mt_placement_domain_count(struct mt_port *port);
/*
 * mt_placement_reach_count -- the same with those that are avoided: domains that writes could do with
 *
 * @heard_ns: only nodes that have answered a call within so long; UINT64_MAX: any that is up.
 */
uint32_t mt_placement_reach_count(struct mt_port *port, uint64_t heard_ns);
/*
 * mt_placement_fits_without -- would a new extent of @kind find its place, if @link were down?
 *
 * Of as many domains as mt_placement_pick then asks for, min_replicas at least, each has a node with room that is not avoided.
 */
bool mt_placement_fits_without(struct mt_port *port, enum extent_kind kind,
    const struct mt_link *link);
/* mt_placement_avoid_ns -- until when the first of those that are avoided now is; UINT64_MAX: none. */
uint64_t mt_placement_avoid_ns(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_EXTENT_PLACEMENT_H */
