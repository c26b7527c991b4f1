/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_node.c -- a node that is much slower than its peers is left out, as one that is dead
 *
 * A batch waits for the slowest of its replicas, and so does a new extent, so one disk that stalls stops a shard.
 * Evidence comes from the peers alone: the link's oldest append, read or creation has been out for longer than
 * SLOW_NODE_MIN_NS and than 20 times what peers take, while more of them have answered something sent as late
 * than wait like it. When all are slow at once nobody is left out. Nor is one without which writes would have too few
 * nodes. The verdict must hold twice, a moment apart: a gateway that was paused itself finds
 * all its calls old before it has read the answers.
 *
 * A creation tells less than an append. Refused, for want of room, it has met no disk, and is no evidence of a fast one.
 * And to give it up is of use only where an extent of its kind has room without that node: it waits else, and what was
 * sent behind it is judged as if it were not there.
 *
 * A link that is given up comes back like any other, but its node gets no new extents for a while, if
 * there are enough others: 1 s at first, twice as long each time, up to a minute, and from the beginning
 * once it has done well for as long.
 */
#include "extent/slow_node.h"

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/node_link.h"
#include "extent/placement.h"

#define SLOW_TIMES 20u
#define SLOW_SLACK_NS NUM_MS(1) /* sent about as late */
#define SLOW_AGAIN_NS NUM_MS(100)
#define SLOW_CONFIRM_NS NUM_MS(50)
#define SLOW_TOLD_NS NUM_S(5) /* behind a penalty: two looks at the health see it */
#define SLOW_TOLD_MIN_NS NUM_MS(100)
#define SLOW_TOLD_TIMES 10u

static bool
slow_is_create(const struct mt_call *call)
{
	return call->request.opcode == WIRE_EXTENT_CREATE;
}

bool
mt_slow_node_counts(const struct mt_call *call)
{
	return call->request.opcode == WIRE_EXTENT_APPEND ||
	    call->request.opcode == WIRE_EXTENT_READ || call->request.opcode == WIRE_EXTENT_FIND ||
	    call->request.opcode == WIRE_EXTENT_GATHER || slow_is_create(call);
}

void
mt_slow_node_on_answer(struct mt_link *link, const struct mt_call *call)
{
	uint64_t took_ns = loop_now_ns(link->port->loop) - call->sent_ns;

	assert(call->is_answered);
	if (!mt_slow_node_counts(call) || (slow_is_create(call) && call->rc != 0))
		return;
	if (!slow_is_create(call))
		latency_count(&link->took[call->request.opcode == WIRE_EXTENT_APPEND
				      ? MT_LINK_TOOK_APPEND
				      : MT_LINK_TOOK_READ],
		    took_ns);
	link->slow.answered_sent_ns = num_max(link->slow.answered_sent_ns, call->sent_ns);
	link->slow.took_ns = link->slow.took_ns == 0 ? took_ns
						     : (7 * link->slow.took_ns + took_ns) / 8;
}

/* When the oldest call that counts was sent, without creations of the kinds in @but; UINT64_MAX: none is out. */
static uint64_t
slow_oldest_ns(const struct mt_link *link, uint32_t but)
{
	for (const struct loop_link *at = link->calls.next; at != &link->calls; at = at->next) {
		const struct mt_call *call = LIST_ENTRY(at, const struct mt_call, link);

		if (mt_slow_node_counts(call) &&
		    !(slow_is_create(call) && (but & 1u << mt_placement_kind(&call->request)) != 0))
			return call->sent_ns;
	}
	return UINT64_MAX;
}

/* The kinds, a bit each, of which a new extent would find no place without @link. */
static uint32_t
slow_needed_kinds(const struct mt_link *link)
{
	uint32_t kinds = 0;

	for (uint32_t kind = 0; kind < MT_PLACE_KINDS; kind++) {
		if (!mt_placement_fits_without(link->port, (enum extent_kind)kind, link))
			kinds |= 1u << kind;
	}
	return kinds;
}

struct slow_peers {
	uint32_t answered_count; /* something that was sent as late */
	uint32_t waiting_count;  /* keep us waiting as well */
	uint64_t took_ns;        /* the slowest of those that answered */
};

static struct slow_peers
slow_look_round(const struct mt_link *link, uint64_t oldest_ns)
{
	const struct mt_port *port = link->port;
	struct slow_peers peers = { 0 };
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(oldest_ns <= loop_now_ns(link->port->loop));
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *peer = &port->links[i];
		uint64_t peer_oldest_ns;

		if (peer == link || !mt_link_is_up(peer))
			continue;
		peer_oldest_ns = slow_oldest_ns(peer, 0);
		if (peer_oldest_ns != UINT64_MAX &&
		    now_ns - peer_oldest_ns >= (now_ns - oldest_ns) / 2) {
			peers.waiting_count++;
		} else if (peer->slow.answered_sent_ns + SLOW_SLACK_NS >= oldest_ns) {
			peers.answered_count++;
			peers.took_ns = num_max(peers.took_ns, peer->slow.took_ns);
		}
	}
	return peers;
}

/* Would there be enough nodes without it? */
static bool
slow_is_spare(const struct mt_link *link)
{
	bool is_counted = !mt_link_is_avoided(link, loop_now_ns(link->port->loop));

	return mt_placement_domain_count(link->port) >=
	    link->port->settings->min_replicas + (is_counted ? 1 : 0);
}

uint64_t
mt_slow_node_judge(struct mt_link *link, bool *ret_is_slow)
{
	uint64_t oldest_ns = slow_oldest_ns(link, 0);
	uint64_t now_ns = loop_now_ns(link->port->loop);
	struct slow_peers peers;
	uint64_t limit_ns;

	*ret_is_slow = false;
	if (oldest_ns == UINT64_MAX) {
		link->slow.since_ns = 0;
		return UINT64_MAX;
	}
	if (now_ns >= oldest_ns + SLOW_NODE_MIN_NS)
		oldest_ns = slow_oldest_ns(link, slow_needed_kinds(link));
	if (oldest_ns == UINT64_MAX || now_ns < oldest_ns + SLOW_NODE_MIN_NS) {
		link->slow.since_ns = 0;
		return oldest_ns == UINT64_MAX ? now_ns + SLOW_AGAIN_NS
					       : oldest_ns + SLOW_NODE_MIN_NS;
	}
	peers = slow_look_round(link, oldest_ns);
	limit_ns = num_max(SLOW_NODE_MIN_NS, SLOW_TIMES * peers.took_ns);
	if (now_ns - oldest_ns < limit_ns || peers.answered_count <= peers.waiting_count ||
	    !slow_is_spare(link)) {
		link->slow.since_ns = 0;
		return now_ns + SLOW_AGAIN_NS;
	}
	if (link->slow.since_ns == 0)
		link->slow.since_ns = now_ns;
	if (now_ns < link->slow.since_ns + SLOW_CONFIRM_NS)
		return link->slow.since_ns + SLOW_CONFIRM_NS;
	*ret_is_slow = true;
	return UINT64_MAX;
}

/* The link was used in the last seconds, so its mean is of now. */
static bool
slow_is_fresh(const struct mt_link *link, uint64_t now_ns)
{
	return mt_link_is_up(link) && link->slow.took_ns != 0 &&
	    now_ns < link->slow.answered_sent_ns + SLOW_TOLD_NS;
}

/* Each answer comes long before it is given up, and makes everything slow: ten times what most peers take. */
static bool
slow_is_sluggish(const struct mt_link *link, uint64_t now_ns)
{
	const struct mt_port *port = link->port;
	uint32_t peer_count = 0, faster_count = 0;

	if (!slow_is_fresh(link, now_ns) || link->slow.took_ns < SLOW_TOLD_MIN_NS)
		return false;
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *peer = &port->links[i];

		if (peer == link || !slow_is_fresh(peer, now_ns))
			continue;
		peer_count++;
		faster_count += peer->slow.took_ns < link->slow.took_ns / SLOW_TOLD_TIMES;
	}
	return faster_count > peer_count / 2;
}

bool
mt_slow_node_was(const struct mt_link *link, uint64_t now_ns)
{
	return (link->slow.penalty.until_ns != 0 &&
		   now_ns < link->slow.penalty.until_ns + SLOW_TOLD_NS) ||
	    slow_is_sluggish(link, now_ns);
}

void
mt_slow_node_punish(struct mt_link *link)
{
	uint64_t now_ns = loop_now_ns(link->port->loop);

	link->slow.since_ns = 0;
	if (mt_penalty_is_over(&link->slow.penalty, link->slow.penalty.until_ns, now_ns))
		link->slow.penalty.last_ns = 0;
	mt_penalty_add(&link->slow.penalty, now_ns);
	metric_add(&link->port->metrics[MT_METRIC_nodes_slow], 1);
}
