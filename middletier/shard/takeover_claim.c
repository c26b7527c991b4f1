/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover_claim.c -- the first steps of a take-over, in CLAIMING: load_root, look_for_newer, claim
 *
 * After them the root names us as the shard's owner, under a new epoch. Beside all later steps main reads
 * the volumes anew.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/root.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "index/index.h"
#include "read/read_path.h"
#include "session/read_lease.h"
#include "shard/shard_life.h"
#include "shard/stale.h"
#include "shard/takeover.h"
#include "shard/takeover_claim.h"
#include "shard/takeover_stale.h"
#include "write/write_path.h"

#define TAKEOVER_CLAIMS_MAX 5u
#define TAKEOVER_REFRESH_RETRY_NS NUM_MS(50)

/* ---- load_root ---- */

/* A stale root is looked at again when it has changed, or when it has been left alone for long. */
static bool
takeover_is_known_stale(const struct mt_shard *shard, const struct mt_root *root)
{
	const struct mt_stale_root *stale = shard->stale_root;

	assert(shard->sm.state == MT_SHARD_CLAIMING);
	return stale->count > 0 && mt_root_is_equal(root, &stale->root) &&
	    loop_now_ns(shard->port->loop) < stale->until_ns;
}

/* The root that the claim is to store. */
static void
takeover_prepare(struct mt_takeover *takeover, const struct mt_root *root)
{
	struct mt_port *port = takeover->shard->port;
	struct mt_root *wanted = &takeover->wanted;

	assert(takeover->step == TAKEOVER_LOAD_ROOT);
	takeover->looked = *wanted = *root;
	if (takeover_is_known_stale(takeover->shard, root)) {
		mt_shard_stop(takeover->shard, -ESTALE);
		return;
	}
	if (root->epoch >= EXTENT_EPOCH_MAX) {
		mt_takeover_fail(takeover, -EOVERFLOW, "there are no epochs left");
		return;
	}
	takeover->was_ours = root->gateway_id == port->settings->gateway_id &&
	    root->boot_id == port->settings->boot_id;
	wanted->epoch = root->epoch + 1;
	wanted->is_released = false;
	wanted->gateway_id = port->settings->gateway_id;
	wanted->boot_id = port->settings->boot_id;
	memcpy(wanted->port_address, port->address, sizeof(wanted->port_address));
	mt_takeover_next(takeover, 0);
}

static void
takeover_on_loaded(int rc, const struct mt_root *root, void *arg)
{
	static const struct mt_root none = { 0 };
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	assert(takeover->step == TAKEOVER_LOAD_ROOT);
	if (rc == 0)
		takeover_prepare(takeover, root);
	else if (rc == -ENOENT)
		takeover_prepare(takeover, &none);
	else if (rc == -EBADMSG)
		mt_takeover_fail(takeover, rc, "its root cannot be understood");
	else
		mt_takeover_next(takeover, rc);
}

int
mt_takeover_load_root(struct mt_takeover *takeover)
{
	struct mt_shard *shard = takeover->shard;

	assert(takeover->step == TAKEOVER_LOAD_ROOT);
	if (shard->block_index == NULL)
		shard->block_index = mt_index_create(shard);
	if (shard->block_index == NULL)
		return -ENOMEM;
	return mt_root_load(shard, takeover_on_loaded, takeover);
}

/* ---- look_for_newer ---- */

static void
takeover_on_looked(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->step == TAKEOVER_LOOK_FOR_NEWER);
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	takeover->shard->stale_root->count = 0;
	mt_takeover_next(takeover, 0);
}

/* Before the claim: an epoch that cannot be used is not raised. */
int
mt_takeover_look_for_newer(struct mt_takeover *takeover)
{
	struct mt_stale_check *check = &takeover->stale;

	assert(takeover->step == TAKEOVER_LOOK_FOR_NEWER);
	assert(takeover->wanted.epoch > 0);
	mt_stale_fini(check); /* of a claim that somebody else was before */
	check->shard = takeover->shard;
	check->root = takeover->looked;
	check->epoch = takeover->wanted.epoch;
	check->fn = takeover_on_looked;
	check->arg = takeover;
	return mt_stale_start(check);
}

/* ---- beside all that follows the claim: the volumes, as the old owner knew them ---- */

static void
takeover_on_refreshed(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc != 0) {
		loop_timer_start(takeover->shard->port->loop, &takeover->refresh_timer,
		    TAKEOVER_REFRESH_RETRY_NS);
		return;
	}
	takeover->is_refreshed = true;
	if (takeover->step == TAKEOVER_AWAIT_VOLUMES)
		mt_takeover_next(takeover, 0);
}

/*
 * An attach that the old owner knew of is in the store since before the claim, and what is older must not
 * be let in by us (I11).
 */
static void
takeover_refresh(struct mt_takeover *takeover)
{
	int rc = mt_shard_volumes_refresh(takeover->shard, takeover_on_refreshed, takeover);

	assert(!takeover->is_refreshed);
	if (rc != 0)
		takeover_on_refreshed(rc, takeover);
}

void
mt_takeover_on_refresh_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	takeover_refresh(arg);
}

/* ---- claim ---- */

static void
takeover_on_claimed(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_shard *shard = takeover->shard;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	assert(takeover->step == TAKEOVER_CLAIM);
	if (rc == -ESTALE && ++takeover->claim_count < TAKEOVER_CLAIMS_MAX) {
		mt_takeover_retry_from(takeover, TAKEOVER_LOAD_ROOT, rc);
		return;
	}
	if (rc == -ESTALE || rc == -EBUSY) {
		/* A living gateway owns the shard: main says when another try is worth it. */
		shard->life->is_claimed = takeover->was_ours;
		log_debug("shard %" PRIu32 ": not claimed rc=%s", shard->index, log_errno(rc));
		mt_shard_stop(shard, -EREMCHG);
		return;
	}
	if (rc != 0) {
		mt_takeover_next(takeover, rc);
		return;
	}
	takeover->is_retry_logged = false;
	*shard->root = *root;
	shard->epoch = root->epoch;
	shard->next_counter = 1;
	takeover->claimed_ns = loop_now_ns(shard->port->loop);
	mt_read_lease_claimed(shard);
	log_info("shard %" PRIu32 ": claimed epoch=%" PRIu32, shard->index, shard->epoch);
	takeover_refresh(takeover);
	mt_takeover_next(takeover, 0);
	/* Nodes are asked first; then those are told who waited for a claim: clients, and main. */
	mt_write_path_claimed(shard);
	mt_read_path_claimed(shard);
	mt_port_on_shard(shard);
}

int
mt_takeover_claim(struct mt_takeover *takeover)
{
	int rc = mt_root_claim(takeover->shard, &takeover->wanted, takeover_on_claimed, takeover);

	assert(takeover->step == TAKEOVER_CLAIM);
	assert(takeover->wanted.epoch == takeover->looked.epoch + 1);
	takeover->shard->life->is_claimed = true;
	return rc;
}
