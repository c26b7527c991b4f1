/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stale.c -- see stale.h
 *
 * Best effort by intent: nodes that are away are not waited for beyond what a new manifest needs
 * anyway, so that a take-over is not slower for an operator's mistake that hardly ever happens.
 */
#include "stale.h"

#include <errno.h>
#include <inttypes.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "list_page.h"

#define STALE_MAGIC 0x4c415453u /* "STAL" */
#define STALE_WAIT_NS NUM_MS(200)

struct mt_stale_node {
	struct mt_stale_check *check;
	struct mt_link *link;
	struct mt_call call;
	bool is_out, is_listed;
	bool has_manifest; /* a copy of the root's */
};

static void
stale_finish(struct mt_stale_check *check, int rc)
{
	check->is_running = false;
	loop_timer_stop(check->shard->port->loop, &check->timer);
	check->fn(rc, check->arg);
}

/* The node, if it has been heard; else NULL. */
static const struct mt_stale_node *
stale_node_heard(const struct mt_stale_check *check, uint32_t node_id)
{
	for (uint32_t i = 0; i < check->shard->port->link_count; i++) {
		const struct mt_stale_node *node = &check->nodes[i];

		if (node->link->node_id == node_id)
			return node->is_listed ? node : NULL;
	}
	return NULL;
}

/*
 * Of those that should have the root's manifest more say that they have none. One that lacks it has lost
 * its disk, and the newer manifest is an orphan; one that has it was away when the others deleted theirs.
 */
static bool
stale_is_manifest_gone(const struct mt_stale_check *check)
{
	const struct mt_root *root = &check->shard->root;
	uint32_t have_count = 0, lack_count = 0;

	for (uint32_t i = 0; i < root->manifest_replica_count; i++) {
		const struct mt_stale_node *node =
		    stale_node_heard(check, root->manifest_replicas[i].node_id);

		if (root->manifest_replicas[i].is_damaged || node == NULL)
			continue;
		have_count += node->has_manifest;
		lack_count += !node->has_manifest;
	}
	return lack_count > have_count;
}

static void
stale_try_finish(struct mt_stale_check *check)
{
	const struct mt_port *port = check->shard->port;
	/* A shard that would begin empty must have looked where its manifest would be. */
	uint32_t wanted = check->shard->root.has_manifest
	    ? 1
	    : (uint32_t)num_min(mt_gateway_min_replicas(port->gateway), port->link_count);
	uint32_t listed = 0, connecting = 0;

	if (check->is_stale) {
		stale_finish(check, -ESTALE);
		return;
	}
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (check->nodes[i].is_out)
			return;
		listed += check->nodes[i].is_listed ? 1 : 0;
		connecting += port->links[i].sm.state == MT_LINK_CONNECTING ? 1 : 0;
	}
	if (listed < wanted || (connecting > 0 && !check->has_waited))
		return;
	if (check->has_newer_manifest && stale_is_manifest_gone(check)) {
		log_error("shard %" PRIu32 ": most nodes have no manifest that the root names, and "
			  "there is a newer one",
		    check->shard->index);
		stale_finish(check, -ESTALE);
		return;
	}
	stale_finish(check, 0);
}

static int
stale_take_listed(const struct wire_listed *listed, void *arg)
{
	struct mt_stale_node *node = arg;
	struct mt_stale_check *check = node->check;
	const struct mt_shard *shard = check->shard;
	struct extent_id id = listed->id;
	uint64_t manifest, packed = extent_id_pack(&id);

	if (id.epoch >= shard->epoch || listed->fence_epoch > shard->epoch) {
		log_error("shard %" PRIu32 ": node %" PRIu32 " knows a later epoch than the root: "
			  "extent=%" PRIu32 ".%" PRIu32 ".%" PRIu64 " fence=%" PRIu32
			  " epoch=%" PRIu32,
		    shard->index, node->link->node_id, id.shard, id.epoch, id.counter,
		    listed->fence_epoch, shard->epoch);
		check->is_stale = true;
	}
	if (listed->kind != EXTENT_MANIFEST || !shard->root.has_manifest)
		return 0;
	manifest = extent_id_pack(&shard->root.manifest);
	node->has_manifest |= packed == manifest;
	check->has_newer_manifest |= packed > manifest;
	return 0;
}

static void stale_ask(struct mt_stale_node *node, uint64_t cursor);

static void
stale_on_listed(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_stale_node *node = arg;
	struct mt_stale_check *check = node->check;
	uint64_t cursor = reply == NULL ? 0 : reply->offset_bytes;

	CHECK_OBJ(check, STALE_MAGIC);
	node->is_out = false;
	if (rc == 0 && !check->is_stopped)
		rc = mt_list_page(check->shard->port, call, reply, msg, stale_take_listed, node);
	if (msg != NULL)
		split_msg_release(msg);
	if (!check->is_running)
		return;
	/* A link that was lost is asked again when it is up. */
	if (rc == 0 && cursor != 0 && !check->is_stale) {
		stale_ask(node, cursor);
		return;
	}
	if (rc == 0)
		node->is_listed = true;
	stale_try_finish(check);
}

static void
stale_ask(struct mt_stale_node *node, uint64_t cursor)
{
	struct mt_shard *shard = node->check->shard;

	node->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id = { .shard = shard->index },
		.offset_bytes = cursor,
		.epoch = shard->epoch };
	node->call.fn = stale_on_listed;
	node->call.arg = node;
	node->is_out = mt_link_call(node->link, &node->call) == 0;
}

static void
stale_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_stale_check *check = arg;
	bool must_ask = false;

	CHECK_OBJ(check, STALE_MAGIC);
	check->has_waited = true;
	for (uint32_t i = 0; i < check->shard->port->link_count; i++) {
		struct mt_stale_node *node = &check->nodes[i];

		if (node->is_out || node->is_listed || !mt_link_is_up(node->link))
			continue;
		stale_ask(node, 0); /* it had no room for a call */
		must_ask |= !node->is_out;
	}
	if (must_ask)
		loop_timer_start(check->shard->port->loop, timer, STALE_WAIT_NS);
	stale_try_finish(check);
}

int
mt_stale_start(struct mt_stale_check *check)
{
	struct mt_port *port = check->shard->port;

	assert(!check->is_running);
	check->nodes = mt_calloc(num_max(port->link_count, 1), sizeof(*check->nodes));
	if (check->nodes == NULL)
		return -ENOMEM;
	check->magic = STALE_MAGIC;
	check->is_running = true;
	loop_timer_init(&check->timer, stale_on_timer, check);
	loop_timer_start(port->loop, &check->timer, STALE_WAIT_NS);
	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_stale_node *node = &check->nodes[i];

		node->check = check;
		node->link = &port->links[i];
		if (mt_link_is_up(node->link))
			stale_ask(node, 0);
	}
	return 0;
}

void
mt_stale_on_link(struct mt_stale_check *check, struct mt_link *link, bool is_up)
{
	struct mt_stale_node *node;

	if (!check->is_running)
		return;
	CHECK_OBJ(check, STALE_MAGIC);
	node = &check->nodes[link->index];
	if (is_up && !node->is_out && !node->is_listed)
		stale_ask(node, 0);
}

void
mt_stale_stop(struct mt_stale_check *check)
{
	if (check->magic == 0)
		return;
	check->is_running = false;
	check->is_stopped = true;
	loop_timer_stop(check->shard->port->loop, &check->timer);
}

bool
mt_stale_is_quiet(const struct mt_stale_check *check)
{
	if (check->magic == 0)
		return true;
	for (uint32_t i = 0; i < check->shard->port->link_count; i++) {
		if (check->nodes[i].is_out)
			return false;
	}
	return true;
}

void
mt_stale_fini(struct mt_stale_check *check)
{
	if (check->magic == 0)
		return;
	CHECK_OBJ(check, STALE_MAGIC);
	loop_timer_stop(check->shard->port->loop, &check->timer);
	mt_free(check->nodes);
	*check = (struct mt_stale_check){ 0 };
}
