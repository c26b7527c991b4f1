/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover_manifest.c -- the steps of a take-over in AGREEING: what did the last owner leave?
 *
 * agree_manifest, store_length, read_manifest, check_mirror, agree_extents, await_nodes. After them
 * takeover->state names every extent of the shard, sealed at an agreed length. A new shard has no manifest,
 * and one whose length is in the root already was agreed upon before: the steps that are not needed then
 * are done at once.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "extent/replay.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "shard/agree.h"
#include "shard/takeover.h"
#include "shard/takeover_manifest.h"

static bool
takeover_is_manifest_open(const struct mt_takeover *takeover)
{
	const struct mt_root *root = takeover->shard->root;

	return root->has_manifest && root->manifest_sealed_bytes == MT_ROOT_OPEN;
}

static int
takeover_start_agree(struct mt_takeover *takeover, const struct mt_state_extent *extent,
    mt_agree_fn fn)
{
	struct mt_agree *agree = &takeover->agree;

	assert(takeover->shard->sm.state == MT_SHARD_AGREEING);
	agree->shard = takeover->shard;
	agree->id = extent->id;
	agree->kind = extent->kind;
	memcpy(agree->replicas, extent->replicas, sizeof(agree->replicas));
	agree->replica_count = extent->replica_count;
	/* A single wait for all nodes that are away, not one for each extent. */
	agree->deadline_ns = takeover->claimed_ns +
	    takeover->shard->port->settings->node_timeout_ns;
	agree->fn = fn;
	agree->arg = takeover;
	return mt_agree_start(agree);
}

/* ---- agree_manifest ---- */

static void
takeover_on_manifest_agreed(struct mt_agree *agree, int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->step == TAKEOVER_AGREE_MANIFEST);
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	takeover->wanted = *takeover->shard->root;
	takeover->wanted.manifest_sealed_bytes = agree->agreed_bytes;
	takeover->wanted.manifest_replica_count = agree->replica_count;
	memcpy(takeover->wanted.manifest_replicas, agree->replicas, sizeof(agree->replicas));
	mt_agree_fini(agree);
	mt_takeover_next(takeover, 0);
}

int
mt_takeover_agree_manifest(struct mt_takeover *takeover)
{
	const struct mt_root *root = takeover->shard->root;
	struct mt_state_extent extent = { .id = root->manifest,
		.kind = EXTENT_MANIFEST,
		.replica_count = root->manifest_replica_count };

	assert(takeover->step == TAKEOVER_AGREE_MANIFEST);
	if (!takeover_is_manifest_open(takeover))
		return TAKEOVER_DONE;
	memcpy(extent.replicas, root->manifest_replicas, sizeof(extent.replicas));
	return takeover_start_agree(takeover, &extent, takeover_on_manifest_agreed);
}

/* ---- store_length ---- */

static void
takeover_on_length_stored(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	assert(takeover->step == TAKEOVER_STORE_LENGTH);
	if (rc == -ESTALE) {
		mt_takeover_give_up(takeover, rc, "another gateway has taken it over");
		return;
	}
	if (rc == 0) {
		takeover->is_retry_logged = false;
		*takeover->shard->root = *root;
	}
	mt_takeover_next(takeover, rc);
}

int
mt_takeover_store_length(struct mt_takeover *takeover)
{
	assert(takeover->step == TAKEOVER_STORE_LENGTH);
	if (!takeover_is_manifest_open(takeover))
		return TAKEOVER_DONE;
	return mt_root_store(takeover->shard, &takeover->wanted, takeover_on_length_stored,
	    takeover);
}

/* ---- read_manifest ---- */

static void
takeover_on_manifest_read(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->step == TAKEOVER_READ_MANIFEST);
	if (rc == -ESTALE)
		mt_takeover_on_stale(takeover->shard);
	else if (rc == -ENOMEM)
		mt_takeover_next(takeover, rc);
	else if (rc == -EPROTONOSUPPORT)
		mt_takeover_fail(takeover, rc,
		    "a newer release has written its manifest: start that one here");
	else if (rc == -EAGAIN)
		mt_takeover_give_up(takeover, rc, TAKEOVER_DISTRUST_TEXT);
	else if (rc != 0)
		mt_takeover_fail(takeover, rc, "its manifest cannot be understood");
	else if (!takeover->state.is_complete)
		mt_takeover_fail(takeover, -EBADMSG, "its manifest has no whole checkpoint");
	else if (takeover->state.epoch > takeover->shard->epoch)
		mt_takeover_fail(takeover, -ESTALE,
		    "the metadata store is stale: its manifest is of a later epoch; is the store an "
		    "old copy: put the newest back, or cleave recover");
	else
		mt_takeover_next(takeover, 0);
}

int
mt_takeover_read_manifest(struct mt_takeover *takeover)
{
	const struct mt_root *root = takeover->shard->root;
	struct mt_manifest_read *read = &takeover->read;

	assert(takeover->step == TAKEOVER_READ_MANIFEST);
	if (!root->has_manifest)
		return TAKEOVER_DONE;
	mt_manifest_state_fini(&takeover->state);
	read->head = (struct mt_replay_source){ .id = root->manifest,
		.kind = EXTENT_MANIFEST,
		.replica_count = root->manifest_replica_count,
		.length_bytes = root->manifest_sealed_bytes };
	memcpy(read->head.replicas, root->manifest_replicas, sizeof(root->manifest_replicas));
	takeover->replay.shard = takeover->shard;
	read->replay = &takeover->replay;
	read->state = &takeover->state;
	read->fn = takeover_on_manifest_read;
	read->arg = takeover;
	return mt_manifest_read_start(read);
}

/* ---- check_mirror ---- */

static void
takeover_on_mirror_checked(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	assert(takeover->step == TAKEOVER_CHECK_MIRROR);
	if (rc == -ESTALE)
		mt_takeover_fail(takeover, rc,
		    "the metadata store is stale; is it an old copy: put the newest back, or cleave "
		    "recover");
	else
		mt_takeover_next(takeover, rc);
}

/* An older copy of the store may have epochs that pass: those of its last owner. Its ids do not. */
int
mt_takeover_check_mirror(struct mt_takeover *takeover)
{
	assert(takeover->step == TAKEOVER_CHECK_MIRROR);
	if (takeover->state.shard_count == 0)
		return TAKEOVER_DONE; /* nothing is known of volumes */
	return mt_shard_mirror_check(takeover->shard, &takeover->state, takeover_on_mirror_checked,
	    takeover);
}

/* ---- agree_extents ---- */

static void
takeover_on_extent_agreed(struct mt_agree *agree, int rc, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_state_extent *extent;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->step == TAKEOVER_AGREE_EXTENTS);
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	extent = &takeover->state.extents[takeover->state_at++];
	extent->is_sealed = true;
	extent->sealed_bytes = agree->agreed_bytes;
	extent->replica_count = agree->replica_count;
	memcpy(extent->replicas, agree->replicas, sizeof(extent->replicas));
	mt_agree_fini(agree);
	mt_takeover_run(takeover);
}

/* Extents are sealed one after the other: the step is started again until all are sealed. */
int
mt_takeover_agree_extents(struct mt_takeover *takeover)
{
	struct mt_manifest_state *state = &takeover->state;

	assert(takeover->step == TAKEOVER_AGREE_EXTENTS);
	assert(takeover->state_at <= state->extent_count);
	while (takeover->state_at < state->extent_count &&
	    state->extents[takeover->state_at].is_sealed)
		takeover->state_at++;
	if (takeover->state_at == state->extent_count)
		return TAKEOVER_DONE;
	return takeover_start_agree(takeover, &state->extents[takeover->state_at],
	    takeover_on_extent_agreed);
}

/* ---- await_nodes ---- */

/*
 * A shard's first extents are on as many nodes as there are: later, two copies must answer a take-over,
 * and one of two that is away holds it up. So nodes that may be about to come are waited for, as
 * long as replicas are in agree.c. Until when; 0: nobody is.
 */
static uint64_t
takeover_nodes_until_ns(const struct mt_takeover *takeover)
{
	struct mt_port *port = takeover->shard->port;
	uint64_t timeout_ns = port->settings->node_timeout_ns, until_ns = 0;

	if (mt_placement_domain_count(port) >= MT_REPLICAS_MAX)
		return 0;
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *link = &port->links[i];

		if (!mt_link_is_up(link) && !mt_link_is_gone(link))
			until_ns = num_max(until_ns,
			    num_min(takeover->claimed_ns, link->changed_ns) + timeout_ns);
	}
	return until_ns;
}

/* Started again when that time has come, and with each link that changes. */
int
mt_takeover_await_nodes(struct mt_takeover *takeover)
{
	struct loop *loop = takeover->shard->port->loop;
	uint64_t until_ns = takeover_nodes_until_ns(takeover), now_ns = loop_now_ns(loop);

	assert(takeover->step == TAKEOVER_AWAIT_NODES);
	if (now_ns < until_ns) {
		loop_timer_start(loop, &takeover->retry_timer, until_ns - now_ns);
		return 0;
	}
	loop_timer_stop(loop, &takeover->retry_timer);
	takeover->state_at = 0;
	return TAKEOVER_DONE;
}
