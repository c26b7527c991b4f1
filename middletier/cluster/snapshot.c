/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c -- taking a snapshot, or those of several volumes at once: the coordinator, on the main loop of the gateway that was asked
 *
 *	IDLE --> ASKING --> NUMBERING --> BEGINNING --> CONFIRMING --> CHECKING --> READY --> IDLE
 *	            |           |             |              |             |          |
 *	    IDLE <--+-----------+             +--------------+--> VOIDING <+----------+
 *	                                                             |
 *	                                                             +--> IDLE
 *
 *	asking      every shard: it is served, and would begin. Nothing has happened yet
 *	numbering   a transaction takes the next number n, one for each volume, and puts "snapshots/n", pending
 *	beginning   every shard of the cluster, whoever owns it: from now on no answer to a write of the volume
 *	            goes out (it *holds*); what it batches from now on is not in n; what it batched before is
 *	            durable, and so is the cut; it answers with its epoch
 *	confirming  every shard: it has held ever since, under that epoch
 *	checking    the roots: no shard has another epoch by now
 *	ready       one transaction makes all pending keys live ones; then all let go
 *
 * Whatever goes wrong behind that, the keys become "deleted" instead: the numbers are void. If that fails as
 * well, or this gateway dies, holds end by themselves, and whoever finds the key pending for long makes it so
 * (drop.c). Nothing is ever concluded from the absence of a key.
 *
 * A void number stays until every shard has dropped its cut: as long as one of them is not served, none goes.
 * Asking first keeps a snapshot that cannot be from using one up, and from holding up writes; but a shard may go
 * between its answer and its begin, again and again. So no number is taken while MT_SNAPSHOTS_VOID_MAX are
 * void or pending: shard 0's manifest, which mirrors them all, needs room for the rest (manifest_room.c). They are
 * counted in the table of which the key "cluster" was the present one when the number was taken, which the
 * transaction compares: so no gateway exceeds it, however many ask at a time.
 *
 * I5: the snapshot never holds a write w2 without every write w1 that was acknowledged before w2 was issued.
 *
 *	Let the snapshot be made, and w1 not be in it. So w1 was batched by its shard s1 behind the cut of s1.
 *	Let A be the time at which the last shard had answered the begin: every shard cut before A. The owner
 *	of s1 that answered kept w1's answer back from its cut until it was asked to confirm, and said so;
 *	that was after A. Another owner has another epoch, and the root of s1 had the old one when it was
 *	read, after A. So nobody acknowledged w1 before A. Then w2 was issued after A, thus batched behind the
 *	cut of its shard (a shard's cut only grows, and a later owner learns of it from the manifest, where
 *	it was before A): w2 is not in the snapshot either.
 *
 *	Volumes have no part in that. So it holds for those of several volumes taken together as for one: their
 *	numbers are given away at once; a shard cuts all of them in one step, and keeps back the answers to the
 *	writes of all from it on (write/cut.h); and one transaction makes them all, or none. w1 and w2 may be
 *	writes to different ones of them.
 *
 *	It does not change afterwards: what was batched before a cut was acknowledged by its replicas, and is
 *	in the index, before the shard answered the begin.
 */
#include "cluster/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/root.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/status.h"
#include "cluster/cut_ask.h"
#include "cluster/cut_call.h"
#include "cluster/gateway_state.h"
#include "cluster/snapshot_keys.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "write/cut.h"

static const struct sm_state taking_table[MT_TAKING_STATE_NR] = {
	[MT_TAKING_IDLE] = { "idle", SM_TO(MT_TAKING_ASKING), SM_INITIAL },
	[MT_TAKING_ASKING] = { "asking", SM_TO(MT_TAKING_NUMBERING) | SM_TO(MT_TAKING_IDLE), 0 },
	[MT_TAKING_NUMBERING] = { "numbering", SM_TO(MT_TAKING_BEGINNING) | SM_TO(MT_TAKING_IDLE),
	    0 },
	[MT_TAKING_BEGINNING] = { "beginning",
	    SM_TO(MT_TAKING_CONFIRMING) | SM_TO(MT_TAKING_VOIDING), 0 },
	[MT_TAKING_CONFIRMING] = { "confirming",
	    SM_TO(MT_TAKING_CHECKING) | SM_TO(MT_TAKING_VOIDING), 0 },
	[MT_TAKING_CHECKING] = { "checking", SM_TO(MT_TAKING_READY) | SM_TO(MT_TAKING_VOIDING), 0 },
	[MT_TAKING_READY] = { "ready", SM_TO(MT_TAKING_IDLE) | SM_TO(MT_TAKING_VOIDING), 0 },
	[MT_TAKING_VOIDING] = { "voiding", SM_TO(MT_TAKING_IDLE), 0 },
};

/* The snapshots that are being taken. */
struct mt_taking {
	struct sm sm;
	struct mt_gateway *gateway;
	struct mt_snapshot snapshots[CLEAVE_GROUP_VOLUMES_MAX]; /* as they will be */
	uint64_t versions[CLEAVE_GROUP_VOLUMES_MAX];            /* of their pending keys */
	uint32_t count;
	struct mt_cluster
	    cluster; /* as it will be, once the number is taken; its version is of before */
	struct mt_cut_order order;
	uint32_t *epochs; /* that answered the begin */
	struct mt_cut_answer *answers;
	struct mt_cut_calls calls; /* the other gateways */
	uint32_t left_count;       /* of them, and of us: that have not answered */
	struct mt_volumes_waiter waiter;
	int rc;
	char error[MT_ERROR_BYTES];
	mt_taking_fn fn;
	void *arg;
};

static void taking_step(struct mt_taking *taking, enum mt_cut_step step);
static void taking_number(struct mt_taking *taking);

int
mt_taking_init(struct mt_gateway *gateway)
{
	struct mt_taking *taking = mt_calloc(1, sizeof(*taking));

	assert(gateway->taking == NULL);
	list_init(&gateway->cut_asks);
	list_init(&gateway->cut_releases);
	if (taking == NULL)
		return -ENOMEM;
	taking->gateway = gateway;
	sm_init(&taking->sm, "taking", taking_table, MT_TAKING_IDLE, 0);
	gateway->taking = taking;
	return 0;
}

static void
taking_free(struct mt_taking *taking)
{
	mt_cut_calls_fini(&taking->calls);
	mt_free(taking->epochs);
	mt_free(taking->answers);
	taking->epochs = NULL;
	taking->answers = NULL;
}

void
mt_taking_fini(struct mt_gateway *gateway)
{
	mt_cut_asks_drop(gateway);
	mt_cut_releases_drop(gateway);
	taking_free(gateway->taking);
	mt_free(gateway->taking);
	gateway->taking = NULL;
}

/* ---- the end ---- */

/* The last act of whoever calls it. */
static void
taking_finish(struct mt_taking *taking)
{
	mt_taking_fn fn = taking->fn;

	assert(taking->left_count == 0);
	sm_move(&taking->sm, MT_TAKING_IDLE);
	taking->fn = NULL;
	taking_free(taking);
	if (fn != NULL)
		fn(taking->rc, taking->arg);
}

static void
taking_on_voided(int rc, void *arg)
{
	struct mt_taking *taking = arg;

	assert(taking->sm.state == MT_TAKING_VOIDING);
	if (rc != 0)
		log_warn(
		    "snapshot %" PRIu64
		    ": cannot be voided now rc=%s: whichever gateway finds it pending later does "
		    "that",
		    taking->order.number, log_errno(rc));
	taking_finish(taking);
}

static struct mt_snapshot_row
taking_row(const struct mt_taking *taking)
{
	assert(taking->count > 0);
	return (struct mt_snapshot_row){ taking->snapshots, taking->count };
}

/* From now on @taking->rc says why. */
static void
taking_void(struct mt_taking *taking)
{
	struct mt_snapshot_row row = taking_row(taking);
	int rc;

	assert(taking->rc != 0);
	assert(taking->order.number != 0);
	log_info("snapshot %" PRIu64 "%s: void: %s", taking->order.number,
	    taking->count > 1 ? ", and those taken with it" : "", taking->error);
	sm_move(&taking->sm, MT_TAKING_VOIDING);
	taking_step(taking, MT_CUT_STEP_RELEASE);
	rc = mt_snapshot_void_keys(taking->gateway, &row, taking->versions, taking_on_voided,
	    taking);
	if (rc != 0)
		taking_on_voided(rc, taking);
}

static void
taking_fail(struct mt_taking *taking, int rc)
{
	assert(rc < 0 && taking->error[0] != '\0');
	taking->rc = rc;
	if (taking->sm.state <= MT_TAKING_NUMBERING)
		taking_finish(taking); /* without a number there is nothing to undo */
	else
		taking_void(taking);
}

/* ---- steps ---- */

/* The error of the first shard that did not answer as it should. 0: all did. */
static int
taking_judge(struct mt_taking *taking)
{
	const char *step = sm_state_name(&taking->sm);

	assert(taking->left_count == 0);
	for (uint32_t i = 0; i < taking->gateway->cluster.shard_count; i++) {
		const struct mt_cut_answer *answer = &taking->answers[i];

		if (!answer->is_there) {
			(void)snprintf(taking->error, sizeof(taking->error),
			    "no snapshot now (%s): shard %" PRIu32 " is not served by anybody",
			    step, i);
			return -EAGAIN;
		}
		if (answer->rc != 0) {
			(void)snprintf(taking->error, sizeof(taking->error),
			    "no snapshot now (%s): shard %" PRIu32 ": %s", step, i,
			    status_text(status_from_errno(answer->rc)));
			return -EAGAIN;
		}
		if (taking->sm.state <= MT_TAKING_BEGINNING) {
			taking->epochs[i] = answer->epoch;
		} else if (taking->epochs[i] != answer->epoch) {
			(void)snprintf(taking->error, sizeof(taking->error),
			    "no snapshot now (%s): shard %" PRIu32 " has another owner", step, i);
			return -EAGAIN;
		}
	}
	return 0;
}

static void
taking_on_roots(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_taking *taking = arg;
	uint32_t shard_count = taking->gateway->cluster.shard_count, found = 0;

	assert(taking->sm.state == MT_TAKING_CHECKING);
	assert(taking->epochs != NULL);
	for (uint32_t i = 0; i < count && rc == 0 && found < shard_count; i++) {
		char key[MT_ROOT_KEY_BYTES];
		struct mt_root root;
		const char *field;

		mt_root_key(key, found);
		if (strcmp(items[i].key, key) != 0)
			continue;
		if (mt_root_decode(items[i].value, items[i].value_bytes, found, &root, &field) !=
			0 ||
		    root.epoch != taking->epochs[found])
			break;
		found++;
	}
	if (rc == 0 && found < shard_count)
		rc = -EAGAIN;
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error),
		    "no snapshot now: shard %" PRIu32 " may have another owner", found);
		taking_fail(taking, -EAGAIN);
		return;
	}
	sm_move(&taking->sm, MT_TAKING_READY);
	taking->fn(0, taking->arg);
}

static void
taking_check(struct mt_taking *taking)
{
	struct meta *meta = taking->gateway->options.meta;
	int rc;

	assert(taking->sm.state == MT_TAKING_CONFIRMING);
	assert(taking->left_count == 0);
	sm_move(&taking->sm, MT_TAKING_CHECKING);
	rc = meta->ops->list(meta, "shards/", taking_on_roots, taking);
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error), "out of memory");
		taking_fail(taking, rc);
	}
}

/* A port or a gateway that was asked has answered. */
static void
taking_leg_done(struct mt_taking *taking)
{
	int rc;

	assert(taking->left_count > 0);
	if (--taking->left_count > 0)
		return;
	rc = taking_judge(taking);
	if (rc != 0) {
		taking_fail(taking, rc);
	} else if (taking->sm.state == MT_TAKING_ASKING) {
		taking_number(taking);
	} else if (taking->sm.state == MT_TAKING_BEGINNING) {
		sm_move(&taking->sm, MT_TAKING_CONFIRMING);
		taking_step(taking, MT_CUT_STEP_CONFIRM);
	} else {
		taking_check(taking);
	}
}

static void
taking_on_own(struct mt_cut_ask *ask, void *arg)
{
	struct mt_taking *taking = arg;

	assert(ask->gateway == taking->gateway);
	for (uint32_t i = 0; i < ask->gateway->cluster.shard_count; i++) {
		if (ask->answers[i].is_there)
			taking->answers[i] = ask->answers[i];
	}
	taking_leg_done(taking);
}

static void
taking_on_peer(struct mt_cut_calls *calls, void *arg)
{
	assert(calls == &((struct mt_taking *)arg)->calls);
	(void)calls; /* it has left the answers in ours */
	taking_leg_done(arg);
}

/* Nobody waits for it: a hold that is not let go of ends by itself. */
static void
release_on_own(struct mt_cut_ask *ask, void *arg)
{
	(void)ask;
	(void)arg;
}

/* Our own ports, and all others: taking_leg_done when the last has answered; < 0: never. */
static int
taking_ask(struct mt_taking *taking, enum mt_cut_step step)
{
	struct mt_gateway *gateway = taking->gateway;
	int rc;

	assert(step < MT_CUT_STEP_RELEASE);
	assert(taking->left_count == 0);
	memset(taking->answers, 0, gateway->cluster.shard_count * sizeof(*taking->answers));
	taking->left_count = 1;
	rc = mt_cut_ask(gateway, step, &taking->order, taking_on_own, taking);
	if (rc == 0)
		taking->left_count += mt_cut_call(&taking->calls, step, &taking->order,
		    taking->answers, taking_on_peer, taking);
	else
		taking->left_count = 0;
	return rc;
}

static void
taking_step(struct mt_taking *taking, enum mt_cut_step step)
{
	int rc;

	assert(taking->order.number != 0);
	assert(step != MT_CUT_STEP_ASK);
	if (step == MT_CUT_STEP_RELEASE) {
		(void)mt_cut_ask(taking->gateway, step, &taking->order, release_on_own, NULL);
		mt_cut_call_release(taking->gateway, &taking->order);
		return;
	}
	rc = taking_ask(taking, step);
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error),
		    "the gateway is out of memory, or stopping");
		taking_fail(taking, rc);
	}
}

/* ---- numbering ---- */

static void
taking_on_read(int rc, void *arg)
{
	struct mt_taking *taking = arg;
	struct mt_snapshot_row row;

	assert(rc == -ECANCELED || taking->sm.state == MT_TAKING_NUMBERING);
	if (rc == -ECANCELED)
		return; /* the gateway is destroyed */
	row = taking_row(taking);
	if (rc == 0 && !mt_snapshot_read_versions(taking->gateway, &row, taking->versions))
		rc = -EAGAIN;
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error),
		    "the metadata store does not say what was written");
		taking_fail(taking, rc);
		return;
	}
	sm_move(&taking->sm, MT_TAKING_BEGINNING);
	taking_step(taking, MT_CUT_STEP_BEGIN);
}

static void
taking_on_number(int rc, void *arg)
{
	struct mt_taking *taking = arg;

	assert(taking->sm.state == MT_TAKING_NUMBERING);
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error), "no number for a snapshot: %s",
		    status_text(status_from_errno(rc)));
		taking_fail(taking, rc);
		return;
	}
	taking->waiter.fn = taking_on_read;
	taking->waiter.arg = taking;
	mt_volumes_refresh(taking->gateway, &taking->waiter);
}

/* Every shard would begin. */
static void
taking_number(struct mt_taking *taking)
{
	uint32_t void_count = mt_snapshots_void_count(&taking->gateway->volumes.snapshots);
	struct mt_snapshot_row row = taking_row(taking);
	int rc;

	assert(taking->sm.state == MT_TAKING_ASKING);
	if (void_count + taking->count > MT_SNAPSHOTS_VOID_MAX) {
		(void)snprintf(taking->error, sizeof(taking->error),
		    "no snapshot now: %" PRIu32
		    " before it came to nothing, and shards have not dropped them yet",
		    void_count);
		taking_fail(taking, -EAGAIN);
		return;
	}
	sm_move(&taking->sm, MT_TAKING_NUMBERING);
	rc =
	    mt_snapshot_put_keys(taking->gateway, &taking->cluster, &row, taking_on_number, taking);
	if (rc != 0)
		taking_on_number(rc, taking);
}

static void
taking_wish(struct mt_taking *taking, const struct mt_taking_wish *wish, uint64_t first)
{
	const struct mt_volume *volume = wish->volume;
	struct mt_snapshot *snapshot = &taking->snapshots[taking->count];

	assert(taking->count < CLEAVE_GROUP_VOLUMES_MAX);
	*snapshot = (struct mt_snapshot){ .number = first + taking->count,
		.volume_id = volume->id,
		.size_bytes = volume->size_bytes,
		.segment_base = volume->segment_base,
		.segment_count = volume->segment_count,
		.created_s = mt_gateway_time_s(taking->gateway),
		.state = MT_SNAPSHOT_PENDING };
	(void)snprintf(snapshot->name, sizeof(snapshot->name), "%s", wish->name);
	mt_scope_before(&volume->scope, snapshot->number, &snapshot->scope);
	taking->order.segment_bases[taking->count++] = volume->segment_base;
}

int
mt_taking_start(struct mt_gateway *gateway, const struct mt_taking_wish *wishes, uint32_t count,
    mt_taking_fn fn, void *arg)
{
	struct mt_taking *taking = gateway->taking;
	uint32_t shard_count = gateway->cluster.shard_count;
	uint64_t first = gateway->cluster.next_snapshot;
	int rc;

	assert(fn != NULL && shard_count > 0);
	assert(count > 0 && count <= CLEAVE_GROUP_VOLUMES_MAX);
	if (taking->sm.state != MT_TAKING_IDLE)
		return -EBUSY;
	assert(taking->left_count == 0);
	rc = mt_snapshot_check_numbers(gateway, wishes, count);
	if (rc != 0)
		return rc;
	taking->order = (struct mt_cut_order){ .number = first,
		.segment_count = MT_VOLUME_SEGMENTS,
		.volume_count = count };
	taking->count = 0;
	for (uint32_t i = 0; i < count; i++)
		taking_wish(taking, &wishes[i], first);
	for (uint32_t i = 0; i < count && count > 1; i++)
		taking->snapshots[i].group = first;
	/* The tables are of this version of the key, and so is all that is made of them. */
	taking->cluster = gateway->cluster;
	taking->cluster.version = gateway->volumes.snapshots.cluster_version;
	taking->cluster.next_snapshot += count;
	taking->rc = 0;
	taking->error[0] = '\0';
	taking->fn = fn;
	taking->arg = arg;
	taking->epochs = mt_calloc(shard_count, sizeof(*taking->epochs));
	taking->answers = mt_calloc(shard_count, sizeof(*taking->answers));
	rc = taking->epochs == NULL || taking->answers == NULL ||
		mt_cut_calls_init(&taking->calls, gateway) != 0
	    ? -ENOMEM
	    : taking_ask(taking, MT_CUT_STEP_ASK);
	if (rc != 0)
		taking_free(taking);
	else
		sm_move(&taking->sm, MT_TAKING_ASKING);
	return rc;
}

enum mt_taking_state
mt_taking_state(const struct mt_gateway *gateway)
{
	return (enum mt_taking_state)gateway->taking->sm.state;
}

const char *
mt_taking_error(const struct mt_gateway *gateway)
{
	assert(gateway->taking->error[0] != '\0');
	return gateway->taking->error;
}

uint32_t
mt_taking_count(const struct mt_gateway *gateway)
{
	assert(gateway->taking->sm.state == MT_TAKING_READY);
	return gateway->taking->count;
}

const struct mt_snapshot *
mt_taking_snapshot(const struct mt_gateway *gateway, uint32_t index, uint64_t *ret_version)
{
	const struct mt_taking *taking = gateway->taking;

	assert(taking->sm.state == MT_TAKING_READY && index < taking->count);
	assert(taking->versions[index] != 0);
	*ret_version = taking->versions[index];
	return &taking->snapshots[index];
}

void
mt_taking_end(struct mt_gateway *gateway, int rc)
{
	struct mt_taking *taking = gateway->taking;

	assert(taking->sm.state == MT_TAKING_READY);
	assert(taking->left_count == 0 && rc <= 0);
	taking->fn = NULL; /* the caller goes its own way */
	/* Perhaps it happened: then the void's compare fails. */
	if (rc != 0) {
		(void)snprintf(taking->error, sizeof(taking->error), "%s",
		    status_text(status_from_errno(rc)));
		taking_fail(taking, rc);
		return;
	}
	taking_step(taking, MT_CUT_STEP_RELEASE);
	taking_finish(taking);
}
