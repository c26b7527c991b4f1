/* SPDX-License-Identifier: Apache-2.0 */
/* port_status.c -- what `cleave status` and the metrics are told of a port, copied on its thread */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/balance.h"
#include "extent/extent.h"
#include "extent/failing_node.h"
#include "extent/forgetful_node.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "extent/slow_node.h"
#include "index/index.h"
#include "index/ring.h"
#include "index/run_index.h"
#include "merge/flush.h"
#include "port/port_status.h"
#include "port/throttle.h"
#include "port/waits.h"
#include "read/hot.h"
#include "read/read_path.h"
#include "session/rates.h"
#include "session/session.h"
#include "shard/shard.h"
#include "shard/takeover.h"
#include "upkeep/orphans.h"
#include "upkeep/sweep.h"
#include "upkeep/upkeep.h"
#include "write/write_answer.h"
#include "write/write_path.h"

static void
status_oldest(const struct mt_shard *shard, struct mt_shard_status *status)
{
	const struct mt_write *write = mt_write_oldest(shard);
	const char *name;

	if (write == NULL)
		return;
	assert(write->session != NULL);
	name = write->session->volume.name;
	status->write_age_ns = loop_now_ns(shard->port->loop) - write->stamps.taken_ns;
	(void)snprintf(status->write_volume, sizeof(status->write_volume), "%s", name);
}

/* Sealed extents are counted at a look, open ones now: one that was sealed since, or begun anew, is not counted twice. */
static uint32_t
status_lacking(const struct mt_shard *shard, uint32_t extent_count)
{
	uint32_t all = extent_count + (shard->sm.state == MT_SHARD_SERVING ? 1u : 0u);

	return (
	    uint32_t)num_min(mt_upkeep_lacking_count(shard) + mt_upkeep_open_lacking_count(shard),
	    all);
}

static void
status_shard(const struct mt_shard *shard, struct mt_shard_status *ret_status)
{
	uint32_t extent_count = 0, counts[EXTENT_MANIFEST + 1] = { 0 };
	struct mt_flush_totals runs;

	assert(shard->ring != NULL || shard->sm.state == MT_SHARD_IDLE ||
	    shard->sm.state == MT_SHARD_STOPPED);
	mt_flush_totals(shard, &runs);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		extent_count += shard->extents[i] != NULL;
		if (shard->extents[i] != NULL)
			counts[shard->extents[i]->kind]++;
	}
	*ret_status = (struct mt_shard_status){
		.index = shard->index,
		.wait = mt_shard_wait(shard),
		.failed_why = mt_shard_failed_why(shard),
		.awaited_node = shard->awaited_node,
		.state = (enum mt_shard_state)shard->sm.state,
		.is_serving = shard->sm.state == MT_SHARD_SERVING,
		.takeover_steps = mt_takeover_steps(shard),
		.epoch = shard->epoch,
		.extent_count = extent_count,
		.log_extent_count = counts[EXTENT_LOG],
		.run_extent_count = counts[EXTENT_RUN],
		.lacking_count = status_lacking(shard, extent_count),
		.leaving_count = mt_upkeep_leaving_count(shard),
		.unread_ns = mt_flush_unread_ns(shard),
		.unread_clone = mt_flush_unread_clone(shard),
		.scrub_age_ns = mt_upkeep_scrub_age_ns(shard),
		.request_count = shard->request_count,
		.request_bytes = shard->request_bytes,
		.log_bytes = shard->log_bytes,
		.ring_bytes = shard->ring == NULL ? 0 : shard->ring->size_bytes,
		.is_short = mt_shard_is_short(shard),
		.run_count = runs.run_count,
		.run_bytes = runs.run_bytes,
		.run_live_bytes = runs.live_bytes,
		.run_extent_bytes = runs.extent_bytes,
	};
	ret_status->orphan_count = mt_upkeep_orphan_count(shard, &ret_status->held_count);
	status_oldest(shard, ret_status);
	if (shard->block_index == NULL)
		return;
	ret_status->index_blocks = shard->block_index->key_count;
	ret_status->chunk_count = shard->block_index->chunk_count;
	ret_status->chunk_bytes = mt_index_chunk_bytes(shard->block_index);
	ret_status->index_bytes = shard->block_index->memory_bytes + ret_status->chunk_bytes;
}

static void
status_link(const struct mt_link *node, uint64_t now_ns, struct mt_link_status *ret_status)
{
	*ret_status = (struct mt_link_status){
		.config = node->config,
		.node_id = node->node_id,
		.state = (enum mt_link_state)node->sm.state,
		.is_up = mt_link_is_up(node),
		.is_full = node->slots_free == 0 || node->full_kinds != 0,
		.is_read_only = node->is_read_only,
		.is_direct = node->is_direct,
		.has_ticket_key = node->ticket.key.number != 0,
		.is_displaced = node->is_displaced,
		.is_slow = mt_slow_node_was(node, now_ns),
		.is_failing = mt_failing_node_is(node, now_ns),
		.is_left_out = mt_failing_node_is_left_out(node, now_ns),
		.forgot_count = mt_forgetful_node_is(node, now_ns) ? node->forgetful.count : 0,
		.clock_gap_ms = node->clock_gap_ms,
		.key_expires_s = node->key_expires_s,
		.state_age_ns = now_ns - node->changed_ns,
		.slots_reserved = node->slots_reserved,
		.slots_total = node->slots_total,
		.slots_free = node->slots_free,
		.slot_bytes = node->slot_bytes,
		.level = node->agreed_level,
	};
	memcpy(ret_status->advertise, node->advertise, sizeof(node->advertise));
	memcpy(ret_status->disk, node->disk, sizeof(node->disk));
	memcpy(ret_status->trouble, node->trouble, sizeof(node->trouble));
	memcpy(ret_status->took, node->took, sizeof(node->took));
}

static void
status_shares(const struct mt_port *port, struct mt_link_status *links)
{
	struct mt_balance_node nodes[MT_NODES_MAX];
	uint32_t indexes[MT_NODES_MAX];
	uint32_t count = mt_balance_links(port->links, port->link_count, nodes, indexes);

	assert(port->link_count <= MT_NODES_MAX);
	for (uint32_t i = 0; i < count; i++)
		links[indexes[i]].slots_share = nodes[i].slots_share;
}

void
mt_port_status_take(struct mt_port *port, struct mt_port_status *ret_status)
{
	struct mt_port_status *status = ret_status;
	struct loop_link *link, *next;
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(status->shards == NULL && status->links == NULL);
	status->shards = mt_calloc(num_max(port->shard_count, 1), sizeof(*status->shards));
	status->links = mt_calloc(num_max(port->link_count, 1), sizeof(*status->links));
	status->shard_count = port->shard_count;
	status->link_count = port->link_count;
	status->receives_free = split_port_receives_free(port->split);
	status->connections_max = split_port_accepted_max(port->split);
	status->full_age_ns = port->full.at_ns == 0 ? UINT64_MAX : now_ns - port->full.at_ns;
	status->full_rc = port->full.rc;
	status->run_index_bytes = mt_run_cache_bytes(port);
	status->hot_bytes = (uint64_t)mt_hot_used_count(port->read->hot) * CLEAVE_BLOCK_BYTES;
	status->hot_bytes_max = (uint64_t)mt_hot_slot_count(port->read->hot) * CLEAVE_BLOCK_BYTES;
	status->ring_count = port->ring_count;
	status->ring_max = port->ring_max;
	status->short_count = status->session_count = status->opened_count = 0;
	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		const struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);

		status->session_count++;
		status->opened_count += session->qp != NULL && session->hello.volume_id != 0;
	}
	for (uint32_t i = 0; i < port->shard_count; i++)
		status->short_count += mt_shard_is_short(&port->shards[i]);
	for (uint32_t i = 0; i < port->shard_count && status->shards != NULL; i++)
		status_shard(&port->shards[i], &status->shards[i]);
	for (uint32_t i = 0; i < port->link_count && status->links != NULL; i++)
		status_link(&port->links[i], now_ns, &status->links[i]);
	if (status->links != NULL)
		status_shares(port, status->links);
	if (mt_throttle_is_used(port))
		status->told = mt_calloc(MT_THROTTLE_TOLD_MAX, sizeof(*status->told));
	if (status->told != NULL)
		status->told_count = mt_throttle_tell(port, status->told);
	mt_rebalance_status(port, &status->balance);
	status->room_waits = port->room_waits;
	mt_port_rates_take(port, status);
}

void
mt_port_rates_take(struct mt_port *port, struct mt_port_status *ret_status)
{
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(ret_status->rates == NULL);
	mt_hops_minute(&port->hops, now_ns, &ret_status->write_minute, &ret_status->read_minute);
	ret_status->rates = mt_rates_take(port, now_ns, MT_RATES_TOLD_MAX, &ret_status->rate_count);
}

void
mt_port_reach_take(struct mt_port *port, bool must_ask, struct mt_port_status *ret_status)
{
	assert(ret_status->links == NULL);
	ret_status->domain_count = mt_placement_reach_count(port, UINT64_MAX);
	ret_status->heard_domain_count = mt_placement_reach_count(port, MT_REACH_HEARD_NS);
	for (uint32_t i = 0; i < port->link_count && must_ask; i++)
		mt_link_refresh(&port->links[i]);
}

void
mt_port_load_take(struct mt_port *port, struct mt_port_status *ret_status)
{
	assert(ret_status->shards == NULL);
	ret_status->shards = mt_calloc(num_max(port->shard_count, 1), sizeof(*ret_status->shards));
	ret_status->shard_count = port->shard_count;
	ret_status->ring_count = port->ring_count;
	ret_status->ring_max = port->ring_max;
	for (uint32_t i = 0; i < port->shard_count && ret_status->shards != NULL; i++) {
		const struct mt_shard *shard = &port->shards[i];

		ret_status->shards[i] = (struct mt_shard_status){ .index = shard->index,
			.state = (enum mt_shard_state)shard->sm.state,
			.is_serving = shard->sm.state == MT_SHARD_SERVING,
			.epoch = shard->epoch,
			.request_count = shard->request_count,
			.request_bytes = shard->request_bytes };
	}
}

static void
status_orphan(const struct mt_orphans *orphans, const struct mt_orphan *from,
    struct mt_orphan_status *ret_orphan)
{
	uint64_t now_ns = loop_now_ns(orphans->shard->port->loop);
	uint64_t ripe_ns = mt_orphans_ripe_ns(orphans, from);

	assert(now_ns >= from->since_ns);
	*ret_orphan = (struct mt_orphan_status){ .id = extent_id_unpack(from->extent),
		.node_id = from->node_id,
		.incarnation = from->incarnation,
		.age_ns = now_ns - from->since_ns,
		.left_ns = ripe_ns > now_ns ? ripe_ns - now_ns : 0,
		.is_held = from->is_held,
		.is_confirmed = from->is_confirmed };
}

void
mt_port_status_orphans(struct mt_port *port, bool must_confirm, struct mt_port_status *status)
{
	assert(status->orphans == NULL);
	status->orphans = mt_calloc(MT_ORPHANS_LIST_MAX, sizeof(*status->orphans));
	status->orphan_count = status->orphan_total = status->confirmed_count = 0;
	for (uint32_t i = 0; i < port->shard_count; i++) {
		struct mt_upkeep *upkeep = port->shards[i].upkeep;
		const struct mt_orphans *orphans = &upkeep->sweep.orphans;

		if (!upkeep->is_running)
			continue;
		if (must_confirm)
			status->confirmed_count += mt_sweep_confirm(&upkeep->sweep);
		for (uint32_t k = 0; k < orphans->count; k++) {
			const struct mt_orphan *from = &orphans->entries[k];

			if (from->is_known || from->is_asked)
				continue;
			status->orphan_total++;
			if (status->orphans != NULL && status->orphan_count < MT_ORPHANS_LIST_MAX)
				status_orphan(orphans, from,
				    &status->orphans[status->orphan_count++]);
		}
	}
}

void
mt_port_status_fini(struct mt_port_status *status)
{
	mt_free(status->shards);
	mt_free(status->links);
	mt_free(status->orphans);
	mt_free(status->rates);
	mt_usage_fini(&status->usage);
	mt_volume_use_fini(&status->use);
	mt_free(status->told);
	*status = (struct mt_port_status){ 0 };
}
