/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_store.c -- nodes that obey another metadata store than ours; see link_store.h
 *
 * A node that was away during a recovery obeys a store of before. It is not known which one: each time it
 * refuses us, it is told of the next that ours replaces. One that refuses them all obeys a stranger's: the store
 * here is the wrong directory, or an old copy, or `cleave recover` was run elsewhere while this gateway served.
 *
 * A port that so many nodes refuse that the others are too few for --min-replicas stops its shards: none of them
 * can write any more, and what they would serve may be out of date. They begin again, and wait for nodes, which
 * the port goes on to knock at.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/cluster_key.h"
#include "cleave/wire.h"
#include "common/event.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "common/shard_state.h"
#include "extent/link_life.h"
#include "extent/link_store.h"
#include "extent/node_link.h"
#include "extent/node_trouble.h"

void
mt_link_store_hello(struct mt_link *link, struct wire_hello *hello)
{
	const struct mt_cluster *cluster = link->port->cluster;

	hello->session_id = cluster->store_id.high;
	hello->attach = cluster->store_id.low;
	if (cluster->replaced_count == 0)
		return;
	link->life->replaced_at %= cluster->replaced_count;
	hello->volume_id = cluster->replaced[link->life->replaced_at].high;
	hello->incarnation = cluster->replaced[link->life->replaced_at].low;
}

bool
mt_link_store_next(struct mt_link *link)
{
	assert(!mt_link_is_up(link));
	return ++link->life->replaced_at < link->port->cluster->replaced_count;
}

static uint32_t
store_refused_count(const struct mt_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port->link_count; i++)
		count += port->links[i].life->is_refused && !mt_link_is_gone(&port->links[i]) ? 1
											      : 0;
	return count;
}

bool
mt_port_is_refused(const struct mt_port *port)
{
	uint32_t refused = store_refused_count(port), node_count = mt_port_node_count(port);

	assert(refused <= node_count);
	return refused > 0 && node_count - refused < port->settings->min_replicas;
}

/* Shards that are being claimed wait for nodes anyway, and have changed nothing. */
static void
store_stop_shards(struct mt_port *port)
{
	struct store_id store_id = port->cluster->store_id;
	char text[STORE_ID_TEXT_BYTES];

	assert(mt_port_is_refused(port));
	store_id_text(&store_id, text);
	mt_event(port->shared->events, loop_now_ns(port->loop), CLEAVE_EVENT_STORE_REFUSED,
	    "gateway",
	    "gateway: serves nothing: %" PRIu32 " of %" PRIu32
	    " storage nodes obey another metadata store than store_id=%s. Was cleave recover run with "
	    "another --meta, or is this an old copy? Stop this gateway, and start it with the store "
	    "that the nodes obey",
	    store_refused_count(port), mt_port_node_count(port), text);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		enum mt_shard_state state = (enum mt_shard_state)port->shards[i].sm.state;

		if (state != MT_SHARD_IDLE && state != MT_SHARD_CLAIMING)
			mt_shard_stop(&port->shards[i], -ESTALE);
	}
}

void
mt_link_store_refused(struct mt_link *link)
{
	struct mt_port *port = link->port;
	bool was_refused = mt_port_is_refused(port);

	assert(!mt_link_is_up(link));
	if (link->life->is_stopped)
		return;
	mt_trouble_on_other_store(link);
	link->life->is_refused = true;
	if (!was_refused && mt_port_is_refused(port) && port->shard_count > 0)
		store_stop_shards(port);
}
