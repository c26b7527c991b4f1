/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree_copy.c -- an extent that too few good replicas have goes to one more node, before it counts
 *
 *	          a node is found                 copied: one more replica
 *	judge -----------------> COPYING --------------------------------> judge
 *	                          ^   | the node holds an orphan of it
 *	                          |   v
 *	                         LIST, DELETE
 *
 * The new copy takes the place of a damaged replica in the list, else of one that is away, when there
 * is no free one. What leaves the list is an orphan once the list is durable, and swept then; until
 * then the manifest names it, so one that was away and returns is asked, and nothing is made in its
 * place. So is what an earlier take-over left behind that died while it copied: no manifest names it.
 * Such a one is in the way of the next, on the same node; it is looked for, and deleted.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/capacity.h"
#include "extent/copy.h"
#include "extent/list_page.h"
#include "extent/node_link.h"
#include "shard/agree.h"
#include "shard/agree_copy.h"
#include "shard/agree_replica.h"

static void agree_find_orphan(struct mt_agree *agree, uint64_t cursor);

static bool
agree_has_node(const struct mt_agree *agree, uint32_t node_id)
{
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (agree->replicas[i].node_id == node_id)
			return true;
	}
	return false;
}

static bool
agree_has_passed(const struct mt_agree *agree, uint32_t node_id)
{
	assert(agree->passed_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < agree->passed_count; i++) {
		if (agree->passed[i].node_id == node_id)
			return true;
	}
	return false;
}

/* Does a good replica lie in the failure domain of @link? */
static bool
agree_has_domain(const struct mt_agree *agree, const struct mt_link *link)
{
	const struct mt_port *port = agree->shard->port;
	uint32_t depth = mt_domain_depth(port->links, port->link_count);

	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_link *other =
		    mt_port_link(agree->shard->port, agree->replicas[i].node_id);

		if (other != NULL && mt_agree_is_good(&agree->states[i]) &&
		    mt_node_is_same_domain(&other->config, &link->config, depth))
			return true;
	}
	return false;
}

/* The node with most room that may take a copy, and whose slots hold it; one in a domain of its own before all others. */
static struct mt_link *
agree_pick_node(const struct mt_agree *agree)
{
	struct mt_port *port = agree->shard->port;
	struct mt_link *best = NULL;
	bool is_best_apart = false;

	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_link *link = &port->links[i];
		bool is_apart;

		if (!mt_link_is_up(link) || !mt_link_takes_copies(link) || link->slots_free == 0 ||
		    (link->full_kinds & 1u << agree->kind) != 0 ||
		    !mt_capacity_holds(link, agree->agreed_bytes) ||
		    (agree->copy_tried & UINT64_C(1) << i) != 0 ||
		    agree_has_node(agree, link->node_id) || agree_has_passed(agree, link->node_id))
			continue;
		is_apart = !agree_has_domain(agree, link);
		if (best != NULL &&
		    (is_best_apart > is_apart ||
			(is_best_apart == is_apart && best->slots_free >= link->slots_free)))
			continue;
		best = link;
		is_best_apart = is_apart;
	}
	return best;
}

/* Where in the list the new one goes: free, or a damaged one's place, or of one that is away. */
static uint32_t
agree_pick_slot(const struct mt_agree *agree)
{
	if (agree->replica_count < MT_REPLICAS_MAX)
		return agree->replica_count;
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (agree->states[i].sm.state == MT_AGREE_DAMAGED)
			return i;
	}
	for (uint32_t i = 1; i < agree->replica_count; i++) {
		if (!mt_agree_is_good(&agree->states[i]))
			return i;
	}
	return 0; /* there is one that is not good: else it would be enough */
}

static void
agree_add(struct mt_agree *agree, uint64_t incarnation)
{
	uint32_t slot = agree_pick_slot(agree);
	uint32_t chain_crc = 0;

	assert(slot < MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (mt_agree_is_good(&agree->states[i]))
			chain_crc = agree->states[i].chain_crc;
	}
	if (slot < agree->replica_count && agree->states[slot].sm.state == MT_AGREE_UNASKED &&
	    agree->passed_count < MT_REPLICAS_MAX)
		agree->passed[agree->passed_count++] = agree->replicas[slot];
	agree->replicas[slot] =
	    (struct mt_replica){ .node_id = agree->copy_node_id, .incarnation = incarnation };
	agree->replica_count = (uint32_t)num_max(agree->replica_count, slot + 1);
	mt_agree_replica_set_whole(agree, slot, chain_crc);
}

static void
agree_on_copied(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg)
{
	struct mt_agree *agree = arg;

	assert(agree->sm.state == MT_AGREE_COPYING);
	assert(agree->copy == copy);
	agree->copy = NULL;
	if (rc == 0) {
		agree_add(agree, incarnation);
	} else if (rc == -EEXIST) {
		agree_find_orphan(agree, 0);
		return;
	} else {
		log_limited(LOG_WARN,
		    "shard %" PRIu32 ": extent %" PRIu32 ".%" PRIu32 ".%" PRIu64
		    " cannot be copied node=%" PRIu32 " rc=%s",
		    agree->shard->index, agree->id.shard, agree->id.epoch, agree->id.counter,
		    agree->copy_node_id, log_errno(rc));
	}
	mt_agree_placed(agree, rc);
}

static int
agree_copy_to(struct mt_agree *agree, const struct mt_link *link)
{
	struct mt_copy_options options = { .shard = agree->shard,
		.id = agree->id,
		.kind = agree->kind,
		.length_bytes = agree->agreed_bytes,
		.target_node_id = link->node_id,
		.fn = agree_on_copied,
		.arg = agree };

	assert(agree->copy == NULL);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (mt_agree_is_good(&agree->states[i]))
			options.sources[options.source_count++] = agree->replicas[i];
	}
	assert(options.source_count > 0);
	agree->copy_node_id = link->node_id;
	agree->copy = mt_copy_start(&options);
	return agree->copy != NULL ? 0 : -errno;
}

/* For the @index-th of those that gave their place away: one of them that is away still, or -1. */
static int
agree_find_away(const struct mt_agree *agree, uint32_t index)
{
	const struct mt_link *link = mt_port_link(agree->shard->port, agree->passed[index].node_id);

	assert(index < agree->passed_count);
	if (link == NULL || !mt_link_is_up(link))
		return -1;
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		link = mt_port_link(agree->shard->port, agree->replicas[i].node_id);
		if (agree->states[i].sm.state == MT_AGREE_UNASKED &&
		    (link == NULL || !mt_link_is_up(link)))
			return (int)i;
	}
	return -1;
}

bool
mt_agree_recall(struct mt_agree *agree)
{
	assert(agree->sm.state == MT_AGREE_FREEZING);
	for (uint32_t i = 0; i < agree->passed_count; i++) {
		struct mt_replica returned = agree->passed[i];
		int slot = agree_find_away(agree, i);

		if (slot < 0)
			continue;
		agree->passed[i] = agree->replicas[slot];
		agree->replicas[slot] = returned;
		mt_agree_replica_init(agree, (uint32_t)slot);
		return true;
	}
	return false;
}

bool
mt_agree_place(struct mt_agree *agree)
{
	struct mt_link *link;

	assert(agree->sm.state == MT_AGREE_FREEZING && agree->copy == NULL);
	while ((link = agree_pick_node(agree)) != NULL) {
		agree->copy_tried |= UINT64_C(1) << link->index;
		if (agree_copy_to(agree, link) != 0)
			continue;
		log_info("shard %" PRIu32 ": extent %" PRIu32 ".%" PRIu32 ".%" PRIu64
			 " is copied to node %" PRIu32 " bytes=%" PRIu64,
		    agree->shard->index, agree->id.shard, agree->id.epoch, agree->id.counter,
		    link->node_id, agree->agreed_bytes);
		return true;
	}
	return false;
}

/* ---- orphans ---- */

static int
orphan_call(struct mt_agree *agree, const struct wire_node *request, mt_call_fn fn)
{
	struct mt_link *link = mt_port_link(agree->shard->port, agree->copy_node_id);
	int rc = -ENOTCONN;

	assert(agree->copy == NULL);
	agree->call.request = *request;
	agree->call.request.epoch = agree->shard->epoch;
	agree->call.piece_count = 0;
	agree->call.fn = fn;
	agree->call.arg = agree;
	if (link != NULL)
		rc = mt_link_call(link, &agree->call);
	if (rc == 0)
		agree->outstanding_count++;
	return rc;
}

static void
agree_on_orphan_deleted(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree *agree = arg;
	struct mt_link *link = mt_port_link(agree->shard->port, agree->copy_node_id);

	(void)call;
	(void)reply;
	assert(agree->outstanding_count > 0);
	assert(msg == NULL);
	agree->outstanding_count--;
	if (agree->is_stopped)
		return;
	/* Once a pause: what comes back again and again is not an orphan of ours. */
	if (rc == 0 && link != NULL && (agree->orphans_tried & UINT64_C(1) << link->index) == 0) {
		agree->orphans_tried |= UINT64_C(1) << link->index;
		agree->copy_tried &= ~(UINT64_C(1) << link->index);
	}
	mt_agree_placed(agree, rc);
}

struct orphan_look {
	const struct extent_id *id;
	uint64_t incarnation; /* 0: not seen */
};

static int
orphan_take_listed(const struct wire_listed *listed, void *arg)
{
	struct orphan_look *look = arg;

	if (extent_id_pack(&listed->id) == extent_id_pack(look->id))
		look->incarnation = listed->incarnation;
	return 0;
}

static void
agree_on_orphans(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree *agree = arg;
	struct orphan_look look = { .id = &agree->id };
	uint64_t incarnation, cursor = 0;

	assert(agree->outstanding_count > 0);
	agree->outstanding_count--;
	if (rc == 0 && !agree->is_stopped) {
		rc = mt_list_page(agree->shard->port, call, reply, msg, orphan_take_listed, &look);
		cursor = reply->offset_bytes;
	}
	incarnation = look.incarnation;
	if (msg != NULL)
		split_msg_release(msg);
	if (agree->is_stopped)
		return;
	if (rc == 0 && incarnation == 0 && cursor != 0) {
		agree_find_orphan(agree, cursor);
		return;
	}
	if (incarnation != 0)
		rc = orphan_call(agree,
		    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
			.id = agree->id,
			.kind = agree->kind,
			.offset_bytes = incarnation },
		    agree_on_orphan_deleted);
	if (incarnation == 0 || rc != 0)
		mt_agree_placed(agree, rc);
}

static void
agree_find_orphan(struct mt_agree *agree, uint64_t cursor)
{
	int rc = orphan_call(agree,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id.shard = agree->id.shard,
		.offset_bytes = cursor },
	    agree_on_orphans);

	assert(agree->sm.state == MT_AGREE_COPYING);
	if (rc != 0)
		mt_agree_placed(agree, rc);
}
