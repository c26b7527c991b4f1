/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c -- which copy of an extent is read next, and when there is no hope
 *
 * The one policy for all who read copies: reads of clients, merges, indexes of runs, replays, new copies.
 * It knows no time: how long a request may wait for a link to come up is its owner's to say.
 */
#include "extent/choose.h"

#include <assert.h>
#include <stddef.h>

#include "cleave/loop.h"
#include "common/port.h"
#include "extent/node_link.h"

_Static_assert(MT_REPLICAS_MAX <= 8, "a bit for every copy");

/* The invariants of @chooser whenever it is looked at. */
static void
chooser_check(const struct mt_chooser *chooser)
{
	assert((chooser->bad & ~chooser->tried) == 0);
	assert(chooser->tried >> MT_REPLICAS_MAX == 0);
}

void
mt_chooser_reset(struct mt_chooser *chooser)
{
	*chooser = (struct mt_chooser){ 0 };
}

/* Is @link, of a copy that is damaged or not, a better choice than @best? Among equals the first stays. */
static bool
is_better(const struct mt_link *link, bool is_damaged, const struct mt_link *best,
    bool is_best_damaged)
{
	if (best == NULL)
		return true;
	if (is_damaged != is_best_damaged)
		return is_best_damaged;
	return link->call_count < best->call_count;
}

/*
 * Requests that go to one node together cost one call to send them, one wake-up of the node, and mostly one call to
 * receive the answers. Spread over three they would cost three of each. Returns the copy at the node that the short
 * requests before went to in this turn, instead of @best_at; where there is none they go to @best from now on.
 */
static uint32_t
chooser_join(const struct mt_chooser *chooser, struct mt_port *port, const struct mt_copies *copies,
    uint32_t best_at, struct mt_link **best)
{
	struct mt_chooser_turn *turn = copies->turn;
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(best_at < copies->count);
	for (uint32_t at = 0; turn->link != NULL && turn->turn_ns == now_ns && at < copies->count;
	     at++) {
		const struct mt_replica *replica = &copies->replicas[at];

		if (replica->node_id != turn->link->node_id || (chooser->tried & 1u << at) != 0 ||
		    replica->is_damaged)
			continue;
		if (!mt_link_is_up(turn->link) ||
		    turn->link->call_count >= (*best)->call_count + CHOOSE_JOIN_MAX)
			break;
		*best = turn->link;
		return at;
	}
	*turn = (struct mt_chooser_turn){ .turn_ns = now_ns, .link = *best };
	return best_at;
}

int
mt_chooser_pick(const struct mt_chooser *chooser, struct mt_port *port,
    const struct mt_copies *copies, struct mt_link **ret_link)
{
	struct mt_link *best = NULL;
	bool is_best_damaged = false;
	uint32_t best_at = 0, first = *copies->rotor;

	chooser_check(chooser);
	assert(copies->count >= 1);
	assert(copies->count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < copies->count; i++) {
		uint32_t at = (first % copies->count + i) % copies->count;
		const struct mt_replica *replica = &copies->replicas[at];
		struct mt_link *link;

		if ((chooser->tried & 1u << at) != 0)
			continue;
		link = mt_port_link(port, replica->node_id);
		if (link == NULL || !mt_link_is_up(link) ||
		    !is_better(link, replica->is_damaged, best, is_best_damaged))
			continue;
		best = link;
		best_at = at;
		is_best_damaged = replica->is_damaged;
	}
	*copies->rotor = first + 1;
	if (best == NULL)
		return -1;
	if (copies->turn != NULL)
		best_at = chooser_join(chooser, port, copies, best_at, &best);
	*ret_link = best;
	return (int)best_at;
}

void
mt_chooser_note_failed(struct mt_chooser *chooser, uint32_t index)
{
	chooser_check(chooser);
	assert(index < MT_REPLICAS_MAX);
	chooser->tried |= (uint8_t)(1u << index);
}

void
mt_chooser_note_bad(struct mt_chooser *chooser, uint32_t index)
{
	mt_chooser_note_failed(chooser, index);
	chooser->bad |= (uint8_t)(1u << index);
}

void
mt_chooser_retry(struct mt_chooser *chooser)
{
	chooser_check(chooser);
	chooser->tried = chooser->bad;
}

uint32_t
mt_chooser_bad_count(const struct mt_chooser *chooser)
{
	chooser_check(chooser);
	return (uint32_t)__builtin_popcount(chooser->bad);
}

bool
mt_chooser_is_hopeless(const struct mt_chooser *chooser, uint32_t count)
{
	uint32_t all = (1u << count) - 1;

	chooser_check(chooser);
	assert(count <= MT_REPLICAS_MAX);
	return (chooser->bad & all) == all;
}
