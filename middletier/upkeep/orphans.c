/* SPDX-License-Identifier: Apache-2.0 */
/* orphans.c -- see orphans.h: one sorted array a shard, and a count a port of what went at each node */
#include "upkeep/orphans.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/search.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/node_link.h"
#include "upkeep/upkeep.h"
#include "upkeep/upkeep_port.h"

#define ORPHANS_GROWTH_MIN 16u
#define ORPHANS_PASS_NONE UINT32_MAX /* known, and no list was over since */

_Static_assert(MT_NODES_MAX <= 64, "a bit each");

static uint64_t
orphans_now_ns(const struct mt_orphans *orphans)
{
	return loop_now_ns(orphans->shard->port->loop);
}

static uint64_t
orphans_grace_ns(const struct mt_orphans *orphans)
{
	return orphans->shard->port->settings->orphan_grace_ns;
}

/* ---- the array ---- */

static int
orphan_compare(const struct mt_orphan *a, const struct mt_orphan *b)
{
	assert(a->node_id != 0 && b->node_id != 0);
	if (a->node_id != b->node_id)
		return a->node_id < b->node_id ? -1 : 1;
	if (a->extent != b->extent)
		return a->extent < b->extent ? -1 : 1;
	if (a->incarnation != b->incarnation)
		return a->incarnation < b->incarnation ? -1 : 1;
	return 0;
}

static uint32_t
orphans_position(const struct mt_orphans *orphans, const struct mt_orphan *key)
{
	uint32_t at;

	assert(orphans->count <= orphans->max);
	SEARCH_FIRST(at, orphans->count, orphan_compare(&orphans->entries[at], key) < 0);
	return at;
}

static struct mt_orphan *
orphans_find(const struct mt_orphans *orphans, const struct mt_orphan *key)
{
	uint32_t at = orphans_position(orphans, key);

	assert(orphans->count <= orphans->max);
	if (at == orphans->count || orphan_compare(&orphans->entries[at], key) != 0)
		return NULL;
	return &orphans->entries[at];
}

/* NULL: there is no room for another. */
static struct mt_orphan *
orphans_add(struct mt_orphans *orphans, const struct mt_orphan *key)
{
	struct mt_orphan *at = orphans_find(orphans, key);

	assert(orphans->count <= MT_ORPHANS_MAX);
	if (at != NULL || orphans->count == MT_ORPHANS_MAX)
		return at;
	if (orphans->count == orphans->max) {
		uint32_t max = (uint32_t)num_min(num_max(2u * orphans->max, ORPHANS_GROWTH_MIN),
		    MT_ORPHANS_MAX);
		struct mt_orphan *entries =
		    mt_realloc(orphans->entries, (size_t)max * sizeof(*entries));

		if (entries == NULL)
			return NULL;
		orphans->entries = entries;
		orphans->max = max;
	}
	at = &orphans->entries[orphans_position(orphans, key)];
	memmove(at + 1, at, (size_t)(orphans->entries + orphans->count - at) * sizeof(*at));
	orphans->count++;
	assert(orphans->count <= orphans->max);
	*at = *key;
	at->since_ns = orphans_now_ns(orphans);
	return at;
}

void
mt_orphans_init(struct mt_orphans *orphans, struct mt_shard *shard)
{
	assert(shard != NULL);
	*orphans = (struct mt_orphans){ .shard = shard, .ripe_ns = UINT64_MAX };
}

void
mt_orphans_fini(struct mt_orphans *orphans)
{
	assert(orphans->count <= orphans->max);
	mt_free(orphans->entries);
	mt_orphans_init(orphans, orphans->shard);
}

/* ---- how many may go ---- */

/* Copies of the port's shards at @link's node, as their last lists say. */
static uint32_t
link_listed_count(const struct mt_link *link)
{
	const struct mt_port *port = link->port;
	uint32_t count = 0;

	assert(link->index < MT_NODES_MAX);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_upkeep *upkeep = port->shards[i].upkeep;

		if (upkeep != NULL)
			count += upkeep->sweep.orphans.listed[link->index];
	}
	return count;
}

static struct mt_orphans_gone *
link_gone(const struct mt_link *link)
{
	assert(link->index < MT_NODES_MAX);
	return &link->port->upkeep->gone[link->index];
}

/* May another copy go in this grace period? False: enough have gone. */
static bool
link_take(struct mt_link *link, uint64_t now_ns, uint64_t grace_ns)
{
	uint32_t limit = (uint32_t)num_max(link_listed_count(link) / MT_ORPHANS_SHARE, 1);
	struct mt_orphans_gone *gone = link_gone(link);

	assert(link->node_id != 0);
	if (now_ns - gone->period_ns >= grace_ns)
		*gone = (struct mt_orphans_gone){ .period_ns = now_ns };
	if (gone->count < limit) {
		gone->count++;
		return true;
	}
	if (!gone->is_hold_logged)
		log_warn(
		    "sweep: node %" PRIu32 ": %" PRIu32
		    " extents that no manifest names were deleted, more are held back until "
		    "--orphan-grace has passed again: `cleave sweep` lists them, `cleave sweep "
		    "--confirm` deletes them now",
		    link->node_id, gone->count);
	gone->is_hold_logged = true;
	return false;
}

uint64_t
mt_orphans_ripe_ns(const struct mt_orphans *orphans, const struct mt_orphan *orphan)
{
	const struct mt_link *link = mt_port_link(orphans->shard->port, orphan->node_id);
	uint64_t grace_ns = orphans_grace_ns(orphans);

	assert(orphan->node_id != 0);
	if (orphan->is_known || orphan->is_confirmed)
		return orphan->since_ns;
	if (orphan->is_held && link != NULL)
		return link_gone(link)->period_ns + grace_ns;
	return orphan->since_ns + grace_ns;
}

/* ---- sweeps ---- */

static bool
orphan_may_go(struct mt_orphans *orphans, struct mt_orphan *orphan, struct mt_link *link)
{
	uint64_t grace_ns = orphans_grace_ns(orphans), now_ns = orphans_now_ns(orphans);

	assert(link->node_id == orphan->node_id);
	/* Asked before, and still there: it has counted. */
	if (orphan->is_known || orphan->is_confirmed || orphan->is_asked || grace_ns == 0)
		return true;
	if (now_ns - orphan->since_ns < grace_ns && !MUTANT(orphan_grace_ignored))
		return false;
	orphan->is_held = !link_take(link, now_ns, grace_ns);
	return !orphan->is_held;
}

bool
mt_orphans_see(struct mt_orphans *orphans, struct mt_link *link, const struct extent_id *id,
    uint64_t incarnation, uint32_t pass)
{
	struct mt_orphan key = { .extent = extent_id_pack(id),
		.incarnation = incarnation,
		.node_id = link->node_id };
	struct mt_orphan any = { .extent = key.extent, .node_id = key.node_id };
	struct mt_orphan *orphan = orphans_add(orphans, &key);
	struct mt_orphan *known = orphans_find(orphans, &any);

	assert(link->index < MT_NODES_MAX);
	assert(link->port == orphans->shard->port);
	/* Where nothing waits, nothing has to be remembered. */
	if (orphan == NULL)
		return orphans_grace_ns(orphans) == 0;
	if (known != NULL && known->is_known) {
		known->pass = pass;
		orphan->is_known = true;
	}
	orphan->pass = pass;
	if (!orphan_may_go(orphans, orphan, link))
		return false;
	orphan->is_asked = true;
	return true;
}

/* Forget those of @node_id that were not seen again. Returns how many wait there. */
static uint32_t
orphans_forget(struct mt_orphans *orphans, uint32_t node_id, uint32_t pass)
{
	uint32_t kept = 0, waiting = 0;

	assert(node_id != 0);
	for (uint32_t i = 0; i < orphans->count; i++) {
		struct mt_orphan *at = &orphans->entries[i];

		/* The list may have been on its way when this owner learnt of it. */
		if (at->node_id == node_id && at->pass == ORPHANS_PASS_NONE)
			at->pass = 0;
		else if (at->node_id == node_id && at->pass != pass)
			continue;
		waiting += at->node_id == node_id && !at->is_asked && !at->is_known;
		orphans->entries[kept++] = *at;
	}
	assert(kept <= orphans->count);
	orphans->count = kept;
	return waiting;
}

static void
orphans_find_ripe(struct mt_orphans *orphans)
{
	assert(orphans->count <= MT_ORPHANS_MAX);
	orphans->ripe_ns = UINT64_MAX;
	for (uint32_t i = 0; i < orphans->count; i++) {
		const struct mt_orphan *at = &orphans->entries[i];

		if (!at->is_asked)
			orphans->ripe_ns =
			    num_min(orphans->ripe_ns, mt_orphans_ripe_ns(orphans, at));
	}
}

void
mt_orphans_end_pass(struct mt_orphans *orphans, struct mt_link *link, uint32_t pass,
    uint32_t listed)
{
	uint64_t bit = UINT64_C(1) << link->index;
	uint32_t waiting = orphans_forget(orphans, link->node_id, pass);

	assert(link->index < MT_NODES_MAX);
	assert(link->port == orphans->shard->port);
	orphans->listed[link->index] = listed;
	if (waiting > 0 && (orphans->told & bit) == 0)
		log_info("sweep: shard %" PRIu32 ": node %" PRIu32 " has %" PRIu32
			 " extents that no manifest names: each is deleted when it was seen for "
			 "%" PRIu64 " s, `cleave sweep` lists them",
		    orphans->shard->index, link->node_id, waiting,
		    orphans_grace_ns(orphans) / NUM_S(1));
	orphans->told = waiting > 0 ? orphans->told | bit : orphans->told & ~bit;
	orphans_find_ripe(orphans);
}

uint64_t
mt_orphans_due(struct mt_orphans *orphans)
{
	uint64_t now_ns = orphans_now_ns(orphans), due = 0;

	assert(orphans->count <= orphans->max);
	if (now_ns < orphans->ripe_ns)
		return 0;
	for (uint32_t i = 0; i < orphans->count; i++) {
		const struct mt_orphan *at = &orphans->entries[i];
		const struct mt_link *link = mt_port_link(orphans->shard->port, at->node_id);

		if (link != NULL && !at->is_asked && mt_orphans_ripe_ns(orphans, at) <= now_ns)
			due |= UINT64_C(1) << link->index;
	}
	/* Looked for anew when those lists are over; one that cannot be asked is when it is back. */
	orphans->ripe_ns = UINT64_MAX;
	return due;
}

/* ---- what others say ---- */

void
mt_orphans_know(struct mt_orphans *orphans, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation)
{
	struct mt_orphan key = { .extent = extent_id_pack(id),
		.incarnation = incarnation,
		.node_id = node_id };
	struct mt_orphan *orphan = orphans_add(orphans, &key);

	assert(node_id != 0);
	/* An orphan that does not fit is seen by a later sweep, and waits like others. */
	if (orphan == NULL)
		return;
	orphan->is_known = true;
	orphan->pass = ORPHANS_PASS_NONE;
}

uint32_t
mt_orphans_confirm(struct mt_orphans *orphans)
{
	uint32_t count = 0;

	assert(orphans->count <= orphans->max);
	for (uint32_t i = 0; i < orphans->count; i++) {
		struct mt_orphan *at = &orphans->entries[i];

		if (at->is_known || at->is_confirmed || at->is_asked)
			continue;
		at->is_confirmed = true;
		count++;
	}
	if (count > 0) {
		orphans->ripe_ns = 0;
		log_info("sweep: shard %" PRIu32 ": %" PRIu32
			 " extents that no manifest names go now: an operator confirmed it",
		    orphans->shard->index, count);
	}
	return count;
}

uint32_t
mt_orphans_count(const struct mt_orphans *orphans, uint32_t *ret_held_count)
{
	uint32_t count = 0, held_count = 0;

	assert(orphans->count <= orphans->max);
	for (uint32_t i = 0; i < orphans->count; i++) {
		const struct mt_orphan *at = &orphans->entries[i];

		if (at->is_known || at->is_asked)
			continue;
		count++;
		held_count += at->is_held;
	}
	assert(held_count <= count);
	*ret_held_count = held_count;
	return count;
}
