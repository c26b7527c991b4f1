/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stale.c -- see stale.h
 *
 * Best effort by intent: nodes that are away are not waited for beyond what a new manifest needs
 * anyway, so that a take-over is not slower for an operator's mistake that hardly ever happens.
 */
#include "shard/stale.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/root.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/list_page.h"
#include "extent/node_link.h"

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
	assert(check->is_running && rc <= 0);
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
 * Most nodes that should have the root's manifest say that they have none: then it was deleted, and a node
 * that still has it was away. Where a few lack it, they lost their disks, and a newer manifest is an orphan.
 */
static bool
stale_is_manifest_gone(const struct mt_stale_check *check)
{
	const struct mt_root *root = &check->root;
	uint32_t have_count = 0, lack_count = 0;

	assert(root->has_manifest);
	assert(root->manifest_replica_count <= MT_REPLICAS_MAX);
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

/*
 * How many have been heard of those that can tell. Where the root has a manifest, these are the nodes that should have
 * it: whatever has come after it has been there, too, while another node need never have held anything of the shard.
 */
static uint32_t
stale_heard_count(const struct mt_stale_check *check)
{
	const struct mt_root *root = &check->root;
	uint32_t count = 0;

	assert(root->manifest_replica_count <= MT_REPLICAS_MAX);
	if (root->has_manifest && !MUTANT(any_node_tells)) {
		for (uint32_t i = 0; i < root->manifest_replica_count; i++)
			count += stale_node_heard(check, root->manifest_replicas[i].node_id) !=
			    NULL;
		return count;
	}
	for (uint32_t i = 0; i < check->shard->port->link_count; i++)
		count += check->nodes[i].is_listed ? 1 : 0;
	return count;
}

/* How many that must be: a shard that would begin empty must know that nobody holds anything of it. */
static uint32_t
stale_wanted(const struct mt_stale_check *check)
{
	const struct mt_port *port = check->shard->port;
	uint32_t node_count = mt_port_node_count(port);
	uint32_t copies = (uint32_t)num_min(port->settings->min_replicas, node_count);

	assert(port->settings->min_replicas > 0);
	if (check->root.has_manifest)
		return 1;
	return (uint32_t)num_max(node_count - copies + 1, copies);
}

static void
stale_log_wait(struct mt_stale_check *check, uint32_t heard, uint32_t wanted)
{
	assert(heard < wanted);
	if (!check->has_waited || check->is_wait_logged)
		return;
	check->is_wait_logged = true;
	log_warn("shard %" PRIu32 ": waits for nodes %sto say what they hold of it heard=%" PRIu32
		 " wanted=%" PRIu32,
	    check->shard->index, check->root.has_manifest ? "that have its manifest " : "", heard,
	    wanted);
}

static void
stale_try_finish(struct mt_stale_check *check)
{
	const struct mt_port *port = check->shard->port;
	uint32_t wanted = stale_wanted(check);
	uint32_t heard = stale_heard_count(check), connecting = 0;

	assert(check->is_running);
	if (check->is_stale) {
		stale_finish(check, -ESTALE);
		return;
	}
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (check->nodes[i].is_out)
			return;
		connecting += port->links[i].sm.state == MT_LINK_CONNECTING ? 1 : 0;
	}
	if (heard < wanted)
		stale_log_wait(check, heard, wanted);
	if (heard < wanted || (connecting > 0 && !check->has_waited))
		return;
	if (check->has_newer_manifest && stale_is_manifest_gone(check)) {
		(void)snprintf(check->text, sizeof(check->text),
		    "most nodes have no manifest that the root names, and there is a newer one");
		stale_finish(check, -ESTALE);
		return;
	}
	stale_finish(check, 0);
}

/* The first finding is the one that is told. */
static void __attribute__((format(printf, 3, 4)))
stale_found(struct mt_stale_check *check, const struct wire_listed *listed, const char *format, ...)
{
	va_list args;
	int bytes;

	if (check->is_stale)
		return;
	check->is_stale = true;
	va_start(args, format);
	bytes = vsnprintf(check->text, sizeof(check->text), format, args);
	va_end(args);
	(void)snprintf(check->text + bytes, sizeof(check->text) - (size_t)bytes,
	    ": extent=%" PRIu32 ".%" PRIu32 ".%" PRIu64 " fence=%" PRIu32, listed->id.shard,
	    listed->id.epoch, listed->id.counter, listed->fence_epoch); /* all of it fits */
}

static int
stale_take_listed(const struct wire_listed *listed, void *arg)
{
	struct mt_stale_node *node = arg;
	struct mt_stale_check *check = node->check;
	const struct mt_root *root = &check->root;
	uint64_t manifest, packed = extent_id_pack(&listed->id);

	if (listed->id.epoch >= check->epoch || listed->fence_epoch > check->epoch)
		stale_found(check, listed, "node %" PRIu32 " knows a later epoch than %" PRIu32,
		    node->link->node_id, check->epoch - 1);
	if (listed->kind != EXTENT_MANIFEST && !root->has_manifest && !root->may_be_empty &&
	    !MUTANT(empty_root_trusted))
		stale_found(check, listed,
		    "node %" PRIu32 " holds data of a shard that has no manifest",
		    node->link->node_id);
	if (listed->kind != EXTENT_MANIFEST || !root->has_manifest)
		return 0;
	manifest = extent_id_pack(&root->manifest);
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
	assert(node->is_out);
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

	assert(!node->is_out);
	node->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id = { .shard = shard->index },
		.offset_bytes = cursor,
		.epoch = node->check->epoch };
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
	assert(check->is_running);
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

	assert(check->fn != NULL && check->epoch > 0);
	assert(!check->is_running);
	/* Nodes may be added meanwhile: theirs are asked as well. */
	check->nodes = mt_calloc(MT_NODES_MAX, sizeof(*check->nodes));
	if (check->nodes == NULL)
		return -ENOMEM;
	check->magic = STALE_MAGIC;
	check->is_running = true;
	loop_timer_init(&check->timer, stale_on_timer, check);
	loop_timer_start(port->loop, &check->timer, STALE_WAIT_NS);
	for (uint32_t i = 0; i < MT_NODES_MAX; i++) {
		struct mt_stale_node *node = &check->nodes[i];

		node->check = check;
		node->link = &port->links[i];
		if (i < port->link_count && mt_link_is_up(node->link))
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
	assert(link->index < check->shard->port->link_count);
	node = &check->nodes[link->index];
	if (is_up && !node->is_out && !node->is_listed)
		stale_ask(node, 0);
}

void
mt_stale_stop(struct mt_stale_check *check)
{
	assert(check->magic == 0 || check->magic == STALE_MAGIC);
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
