/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forgetful_node.c -- a node that does not have what it acknowledged is told of, though it is up and its copies are made anew
 *
 * A manifest names a copy when its node has made it durable. So one that is gone was forgotten, and so was the end of one
 * whose node has confirmed the length at which it is sealed: an older image of the disk was put back, an empty disk got
 * the node's number, or the disk lies about its flushes. Each such copy is damaged, and replaced, and no acknowledged
 * write is lost by one such disk. But who keeps that disk has less safety than it looks, and two of them at once lose
 * writes: so it is a reason of its own.
 *
 * A copy that is short, and whose node has not confirmed the length to this owner, says nothing: a take-over seals an
 * extent at what the others have, and who was away then may never have had its end, which nobody was told of.
 *
 * It is noticed as sweeps and verifications meet the copies: with a node's link, and every sweep_interval. An open
 * extent's copy is not looked at here: it is agreed upon by all that hold it, and sealed without those that are short.
 */
#include "extent/forgetful_node.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "cleave/loop.h"
#include "common/event.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/node_link.h"

bool
mt_forgetful_node_is(const struct mt_link *link, uint64_t now_ns)
{
	assert(now_ns >= link->forgetful.last_ns);
	return link->forgetful.count > 0 && now_ns - link->forgetful.last_ns < MT_FORGETFUL_NS;
}

void
mt_forgetful_node_note(const struct mt_extent *extent, const struct mt_replica *replica, int rc)
{
	struct mt_port *port = extent->shard->port;
	struct mt_link *link = mt_port_link(port, replica->node_id);
	uint64_t now_ns = loop_now_ns(port->loop);
	bool is_known;

	assert(rc < 0);
	if (link == NULL || extent->sm.state != MT_EXTENT_SEALED ||
	    (rc != -ENOENT && (rc != -ERANGE || !replica->is_truncated)))
		return;
	is_known = mt_forgetful_node_is(link, now_ns);
	link->forgetful.count = is_known ? link->forgetful.count + 1 : 1;
	link->forgetful.last_ns = now_ns;
	if (!is_known)
		mt_event_of(port->shared->events, now_ns, CLEAVE_EVENT_NODE_FORGETFUL, "node",
		    link->node_id,
		    "node %" PRIu32
		    ": it does not have copies that it had address=%s disk=%s: was an older image of "
		    "its disk put back, or another disk? They are made anew",
		    link->node_id, link->config.address, link->disk);
}
