/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing_node.c -- a node whose disk fails writes, and no flush, gets no new extents for a while
 *
 * A flush that fails makes a disk read-only, and its node says so. A write that fails is the misfortune of one extent,
 * where the place is a bad one. But a thin pool that is full, or the file system below the disk's file, fails every write
 * to a place that has no block yet, and its flushes pass: such a node is up, has free slots and little to do, and would be
 * picked again and again.
 *
 * An extent, or a copy, *begins* at a node with its CREATE and its first batch. Two in a row whose beginning the disk has
 * failed (-EIO), none between that began well, and the node is avoided as a slow one is (placement.c): 1 s at first,
 * twice as long each time, up to a minute. Then it is on trial: it gets new extents, and a single one that fails puts it
 * out for twice as long. A first batch that is written does not end that: such a pool fails now and then, as blocks are
 * freed. A minute in which no beginning fails does, from one that began well on.
 */
#include "extent/failing_node.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/event.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/call.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"

#define FAILING_COUNT 2u /* in a row; one may be a bad place */

static bool
failing_is_over(const struct failing_node *failing, uint64_t now_ns)
{
	return failing->well_ns != 0 &&
	    mt_penalty_is_over(&failing->penalty, failing->well_ns, now_ns);
}

bool
mt_failing_node_is(const struct mt_link *link, uint64_t now_ns)
{
	return link->failing.penalty.last_ns != 0 && !failing_is_over(&link->failing, now_ns);
}

bool
mt_failing_node_is_left_out(const struct mt_link *link, uint64_t now_ns)
{
	return now_ns < link->failing.penalty.until_ns;
}

/* Each shard looks: extents with fewer copies are to have more, or may have none there. */
static void
failing_tell_shards(struct mt_link *link)
{
	for (uint32_t i = 0; i < link->port->shard_count; i++)
		mt_extent_upkeep(&link->port->shards[i]);
}

static void
failing_on_failed(struct mt_link *link, uint64_t now_ns)
{
	struct failing_node *failing = &link->failing;

	assert(now_ns >= failing->penalty.until_ns);
	failing->well_ns = 0;
	if (failing->penalty.last_ns == 0 && ++failing->count < FAILING_COUNT)
		return;
	if (failing->penalty.last_ns == 0)
		mt_event_of(link->port->shared->events, now_ns, CLEAVE_EVENT_NODE_FAILING, "node",
		    link->node_id,
		    "node %u: its disk fails writes, new data goes elsewhere rc=-EIO address=%s: is "
		    "it full, or what is below it (df, lvs)? Its log and the kernel's there say more",
		    link->node_id, link->config.address);
	if (!MUTANT(failing_ignored))
		mt_penalty_add(&failing->penalty, now_ns);
	failing_tell_shards(link);
}

static void
failing_on_written(struct mt_link *link, uint64_t now_ns)
{
	struct failing_node *failing = &link->failing;

	failing->count = 0;
	if (failing->penalty.last_ns == 0 || failing->well_ns != 0)
		return;
	failing->well_ns = now_ns;
	failing_tell_shards(link);
}

/* Any answer will do to see that a minute is over: where no extent begins it is told, too. */
static void
failing_try_end(struct mt_link *link, uint64_t now_ns)
{
	if (!failing_is_over(&link->failing, now_ns))
		return;
	link->failing = (struct failing_node){ 0 };
	mt_event_of(link->port->shared->events, now_ns, CLEAVE_EVENT_NODE_WRITES, "node",
	    link->node_id, "node %u: its disk takes writes again", link->node_id);
}

void
mt_failing_node_on_answer(struct mt_link *link, const struct mt_call *call)
{
	const struct wire_node *request = &call->request;
	bool is_first = request->opcode == WIRE_EXTENT_APPEND && request->offset_bytes == 0;
	uint64_t now_ns = loop_now_ns(link->port->loop);

	assert(call->is_answered);
	failing_try_end(link, now_ns);
	/* While it is avoided, answers are to what was asked before, or of those that have no other. */
	if ((!is_first && request->opcode != WIRE_EXTENT_CREATE) ||
	    mt_failing_node_is_left_out(link, now_ns))
		return;
	if (call->rc == -EIO)
		failing_on_failed(link, now_ns);
	else if (call->rc == 0 && is_first)
		failing_on_written(link, now_ns);
}
