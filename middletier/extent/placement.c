/* SPDX-License-Identifier: Apache-2.0 */
/*
 * placement.c -- which nodes get a new extent: of different failure domains, by free space and load
 *
 * Candidates are the port's links that are up, writable and have a free slot. They are ranked by the
 * share of their slots that is free, times their weight (in PLACEMENT_STEPS steps, so that a slot more or less
 * does not decide), then by calls outstanding, then by chance; the best of each failure domain is taken until
 * there are enough. A node without a configured domain is a domain of its own; how
 * many parts of a domain count, mt_domain_depth says. A node that was given up
 * as slow lately (slow_node.c), or is in maintenance, is no candidate, unless too few are left without it. One that is
 * draining is none in any case: it would never be empty.
 *
 * A copy of an extent goes to nodes whose slots hold it alone: slots differ where disks do (capacity.h).
 *
 * What a node keeps back for manifest and run extents is the node's to judge: it answers -ENOSPC, and
 * its link then counts as full for that kind until its status is known anew. Whoever finds too little
 * room asks for it.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "extent/capacity.h"
#include "extent/node_link.h"
#include "extent/placement.h"

#define PLACEMENT_STEPS 16u

struct candidate {
	struct mt_link *link;
	uint64_t free_steps;
	uint64_t tie;
	bool is_avoided;
};

static bool
candidate_is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->is_avoided != b->is_avoided)
		return b->is_avoided;
	if (a->free_steps != b->free_steps)
		return a->free_steps > b->free_steps;
	if (a->link->call_count != b->link->call_count)
		return a->link->call_count < b->link->call_count;
	return a->tie < b->tie;
}

/* Is a node of @link's domain, of @depth, among the first @count of @links? */
static bool
placement_has_domain(struct mt_link *const *links, uint32_t count, const struct mt_link *link,
    uint32_t depth)
{
	assert(count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (mt_node_is_same_domain(&links[i]->config, &link->config, depth))
			return true;
	}
	return false;
}

static bool
placement_takes(const struct mt_link *link)
{
	return mt_link_is_up(link) &&
	    (mt_link_takes_copies(link) ||
		(MUTANT(draining_taken) && !mt_link_is_gone(link) && !link->is_read_only));
}

/* Domains that have a node that is up and writable, full or not, and has answered within @heard_ns. */
static uint32_t
placement_count_domains(struct mt_port *port, bool is_avoided_counted, uint64_t heard_ns)
{
	struct mt_link *seen[MT_NODES_MAX];
	uint32_t depth = mt_domain_depth(port->links, port->link_count);
	uint64_t now_ns = loop_now_ns(port->loop);
	uint32_t count = 0;

	assert(port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_link *link = &port->links[i];

		if (placement_takes(link) &&
		    (is_avoided_counted || !mt_link_is_avoided(link, now_ns)) &&
		    now_ns - link->heard_ns <= heard_ns &&
		    !placement_has_domain(seen, count, link, depth))
			seen[count++] = link;
	}
	return count;
}

uint32_t
mt_placement_domain_count(struct mt_port *port)
{
	return placement_count_domains(port, false, UINT64_MAX);
}

uint32_t
mt_placement_reach_count(struct mt_port *port, uint64_t heard_ns)
{
	return placement_count_domains(port, true, heard_ns);
}

enum extent_kind
mt_placement_kind(const struct wire_node *create)
{
	assert(create->opcode == WIRE_EXTENT_CREATE);
	return (create->flags & WIRE_FLAG_RESERVE) != 0 ? MT_PLACE_RESERVE : create->kind;
}

uint64_t
mt_placement_avoid_ns(struct mt_port *port)
{
	uint64_t now_ns = loop_now_ns(port->loop), first_ns = UINT64_MAX;

	for (uint32_t i = 0; i < port->link_count; i++) {
		if (mt_link_is_avoided(&port->links[i], now_ns))
			first_ns = num_min(first_ns, mt_link_avoid_until_ns(&port->links[i]));
	}
	return first_ns;
}

/* May an extent of @kind go there now, whatever its domain, and whatever its length? */
static bool
placement_is_candidate(const struct mt_link *link, enum extent_kind kind, bool is_avoided_taken,
    uint64_t now_ns)
{
	return placement_takes(link) && link->slots_free > 0 &&
	    (link->full_kinds & 1u << kind) == 0 &&
	    (is_avoided_taken || !mt_link_is_avoided(link, now_ns));
}

bool
mt_placement_fits_without(struct mt_port *port, enum extent_kind kind, const struct mt_link *link)
{
	struct mt_link *up[MT_NODES_MAX], *roomy[MT_NODES_MAX];
	uint32_t depth = mt_domain_depth(port->links, port->link_count);
	uint32_t up_count = 0, roomy_count = 0;
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(kind < MT_PLACE_KINDS && port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_link *other = &port->links[i];

		if (other == link || !placement_takes(other) || mt_link_is_avoided(other, now_ns))
			continue;
		if (!placement_has_domain(up, up_count, other, depth))
			up[up_count++] = other;
		if (placement_is_candidate(other, kind, false, now_ns) &&
		    !placement_has_domain(roomy, roomy_count, other, depth))
			roomy[roomy_count++] = other;
	}
	return up_count >= port->settings->min_replicas &&
	    roomy_count >= num_min(up_count, MT_REPLICAS_MAX);
}

/* @copy_bytes: the length of what is copied; 0: nothing, or a new extent, which is as long as its nodes' slots let it be. */
static uint32_t
placement_candidates(struct mt_port *port, enum extent_kind kind, uint64_t copy_bytes,
    bool is_avoided_taken, struct candidate out[MT_NODES_MAX])
{
	uint64_t now_ns = loop_now_ns(port->loop);
	uint32_t count = 0;

	assert(port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_link *link = &port->links[i];

		if (!placement_is_candidate(link, kind, is_avoided_taken, now_ns) ||
		    (copy_bytes > 0 && !mt_capacity_holds(link, copy_bytes)))
			continue;
		assert(link->slots_free <= link->slots_total);
		out[count++] = (struct candidate){ .link = link,
			.is_avoided = mt_link_is_avoided(link, now_ns),
			.free_steps = link->slots_free * PLACEMENT_STEPS *
			    mt_node_weight(&link->config) /
			    (link->slots_total * MT_NODE_WEIGHT_DEFAULT),
			.tie = loop_random_u64(port->loop) };
	}
	return count;
}

/* The best candidate whose domain is none of those of @taken; NULL: there is none. */
static struct mt_link *
placement_best(const struct candidate *candidates, uint32_t candidate_count,
    struct mt_link *const *taken, uint32_t taken_count, uint32_t depth)
{
	const struct candidate *best = NULL;

	assert(taken_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < candidate_count; i++) {
		if (placement_has_domain(taken, taken_count, candidates[i].link, depth))
			continue;
		if (best == NULL || candidate_is_better(&candidates[i], best))
			best = &candidates[i];
	}
	return best != NULL ? best->link : NULL;
}

static void
placement_refresh(struct mt_port *port)
{
	for (uint32_t i = 0; i < port->link_count; i++)
		mt_link_refresh(&port->links[i]);
}

static int
placement_fill(struct mt_port *port, enum extent_kind kind, bool is_avoided_taken, uint32_t count,
    struct mt_link **ret_links)
{
	struct candidate candidates[MT_NODES_MAX];
	struct mt_link *picked[MT_REPLICAS_MAX];
	uint32_t candidate_count =
	    placement_candidates(port, kind, 0, is_avoided_taken, candidates);
	uint32_t depth = mt_domain_depth(port->links, port->link_count);

	assert(count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		picked[i] = placement_best(candidates, candidate_count, picked, i, depth);
		if (picked[i] == NULL)
			return -ENOSPC;
	}
	memcpy(ret_links, picked, count * sizeof(picked[0]));
	return 0;
}

int
mt_placement_pick(struct mt_port *port, enum extent_kind kind, uint32_t count,
    struct mt_link **ret_links)
{
	uint32_t domain_count = placement_count_domains(port, false, UINT64_MAX);
	bool is_avoided_taken = domain_count < port->settings->min_replicas;

	assert(count >= 1);
	assert(count <= MT_REPLICAS_MAX);
	if (is_avoided_taken)
		domain_count = placement_count_domains(port, true, UINT64_MAX);
	if (domain_count < count) {
		placement_refresh(port);
		return -EHOSTDOWN;
	}
	if (placement_fill(port, kind, is_avoided_taken, count, ret_links) == 0 ||
	    (!is_avoided_taken && placement_fill(port, kind, true, count, ret_links) == 0))
		return 0; /* a slow node before a full one */
	placement_refresh(port);
	return -ENOSPC;
}

/* The links of @copy's others, as far as there are any. */
static uint32_t
placement_links(struct mt_port *port, const struct mt_placement_copy *copy,
    struct mt_link *ret_links[MT_REPLICAS_MAX])
{
	uint32_t count = 0;

	assert(copy->other_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < copy->other_count; i++) {
		ret_links[count] = mt_port_link(port, copy->others[i]);
		count += ret_links[count] != NULL;
	}
	return count;
}

bool
mt_placement_has_one(struct mt_port *port, const struct mt_placement_copy *copy)
{
	struct mt_link *taken[MT_REPLICAS_MAX];
	uint32_t taken_count = placement_links(port, copy, taken);
	uint32_t depth = mt_domain_depth(port->links, port->link_count);
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(copy->other_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (placement_is_candidate(&port->links[i], copy->kind, false, now_ns) &&
		    mt_capacity_holds(&port->links[i], copy->bytes) &&
		    !placement_has_domain(taken, taken_count, &port->links[i], depth))
			return true;
	}
	return false;
}

int
mt_placement_pick_one(struct mt_port *port, const struct mt_placement_copy *copy,
    struct mt_link **ret_link)
{
	struct candidate candidates[MT_NODES_MAX];
	struct mt_link *taken[MT_REPLICAS_MAX];
	uint32_t taken_count = placement_links(port, copy, taken);
	uint32_t candidate_count =
	    placement_candidates(port, copy->kind, copy->bytes, false, candidates);

	assert(copy->other_count <= MT_REPLICAS_MAX);
	*ret_link = placement_best(candidates, candidate_count, taken, taken_count,
	    mt_domain_depth(port->links, port->link_count));
	if (*ret_link != NULL)
		return 0;
	placement_refresh(port);
	return -EHOSTDOWN;
}
