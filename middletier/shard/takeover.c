/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.c -- a shard begins: every start is a take-over, also the same gateway's
 *
 * A take-over is a list of steps. They run in this order, and the shard is in the state on the left:
 *
 *	CLAIMING   load_root        what is the shard's root?
 *	           look_for_newer   does a node know more of the shard than the root does (stale.h)?
 *	           claim            store the root with epoch + 1 and us as owner
 *	AGREEING   agree_manifest   freeze the manifest extent under the new epoch, agree on its length
 *	           store_length     record that length in the root
 *	           read_manifest    read the manifest
 *	           check_mirror     is the metadata store older than what the manifest says of volumes?
 *	           agree_extents    each extent that the manifest left open: freeze it, agree on its length
 *	           await_nodes      wait a moment for nodes that are about to come, if there are too few
 *	OPENING    open_manifest    runs and cuts into the index, some thousand runs a turn of the loop; a new
 *	                            manifest extent: a checkpoint with all lengths; the root moves to it
 *	REPLAYING  replay           every log extent in order: descriptors into the index
 *	           await_volumes    until main has read the volumes anew since the claim
 *	SERVING    serve            mt_shard_start
 *
 * mt_takeover_run below drives them: it alone goes from step to step, and moves the shard's state.
 *
 * A length counts only once it is durable, in the root or the manifest, and nothing is replayed before
 * that: a second take-over in the middle of ours comes to the same lengths.
 *
 * Each step waits for what it needs as long as it takes, and says for what. A step never goes on with
 * less: a shard does not start without an extent that its manifest names. It stops only when it is
 * another's or not wanted here any more, when the metadata store is older than what nodes have seen, or
 * when a manifest passes its checksums and still makes no sense, or a newer release has written it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "common/shard_state.h"
#include "extent/replay.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "shard/agree.h"
#include "shard/shard_life.h"
#include "shard/stale.h"
#include "shard/takeover.h"
#include "shard/takeover_claim.h"
#include "shard/takeover_manifest.h"
#include "shard/takeover_open.h"
#include "shard/takeover_stale.h"

#define TAKEOVER_RETRY_NS NUM_MS(200)
#define TAKEOVER_STEP_RUNS 1024u /* as many restored runs count as one step */

/*
 * start: 0: a callback follows, and ends in mt_takeover_next; TAKEOVER_DONE: there is nothing to wait for;
 * a negative errno: nothing was begun, start it again later.
 */
struct takeover_step {
	enum mt_shard_state state; /* of the shard, from here on */
	int (*start)(struct mt_takeover *takeover);
};

static const struct takeover_step steps[TAKEOVER_STEP_NR] = {
	[TAKEOVER_LOAD_ROOT] = { MT_SHARD_CLAIMING, mt_takeover_load_root },
	[TAKEOVER_LOOK_FOR_NEWER] = { MT_SHARD_CLAIMING, mt_takeover_look_for_newer },
	[TAKEOVER_CLAIM] = { MT_SHARD_CLAIMING, mt_takeover_claim },
	[TAKEOVER_AGREE_MANIFEST] = { MT_SHARD_AGREEING, mt_takeover_agree_manifest },
	[TAKEOVER_STORE_LENGTH] = { MT_SHARD_AGREEING, mt_takeover_store_length },
	[TAKEOVER_READ_MANIFEST] = { MT_SHARD_AGREEING, mt_takeover_read_manifest },
	[TAKEOVER_CHECK_MIRROR] = { MT_SHARD_AGREEING, mt_takeover_check_mirror },
	[TAKEOVER_AGREE_EXTENTS] = { MT_SHARD_AGREEING, mt_takeover_agree_extents },
	[TAKEOVER_AWAIT_NODES] = { MT_SHARD_AGREEING, mt_takeover_await_nodes },
	[TAKEOVER_OPEN_MANIFEST] = { MT_SHARD_OPENING, mt_takeover_open_manifest },
	[TAKEOVER_REPLAY] = { MT_SHARD_REPLAYING, mt_takeover_replay },
	[TAKEOVER_AWAIT_VOLUMES] = { MT_SHARD_REPLAYING, mt_takeover_await_volumes },
	[TAKEOVER_SERVE] = { MT_SHARD_SERVING, mt_takeover_serve },
};

/* ---- the driver ---- */

void
mt_takeover_run(struct mt_takeover *takeover)
{
	struct mt_shard *shard = takeover->shard;
	int rc = TAKEOVER_DONE;

	assert(!mt_takeover_is_stopped(takeover));
	assert(takeover->step < TAKEOVER_STEP_NR);
	while (rc == TAKEOVER_DONE) {
		const struct takeover_step *step = &steps[takeover->step];

		if (shard->sm.state != step->state)
			sm_move(&shard->sm, step->state);
		rc = step->start(takeover);
		if (rc == TAKEOVER_DONE)
			takeover->step++;
	}
	if (rc < 0)
		mt_takeover_retry_from(takeover, takeover->step, rc);
}

void
mt_takeover_next(struct mt_takeover *takeover, int rc)
{
	assert(rc <= 0);
	assert(takeover->step < TAKEOVER_SERVE);
	if (rc != 0) {
		mt_takeover_retry_from(takeover, takeover->step, rc);
		return;
	}
	takeover->step++;
	mt_takeover_run(takeover);
}

void
mt_takeover_retry_from(struct mt_takeover *takeover, enum mt_takeover_step step, int rc)
{
	assert(rc < 0 && step <= takeover->step);
	takeover->step = step;
	mt_takeover_pause(takeover, &takeover->retry_timer, rc);
}

void
mt_takeover_pause(struct mt_takeover *takeover, struct loop_timer *timer, int rc)
{
	struct loop *loop = takeover->shard->port->loop;

	assert(rc < 0);
	if (!takeover->is_retry_logged)
		log_warn("shard %" PRIu32 ": waits for %s state=%s rc=%s", takeover->shard->index,
		    rc == -ENOMEM ? "memory" : "the metadata store",
		    sm_state_name(&takeover->shard->sm), log_errno(rc));
	takeover->is_retry_logged = true;
	loop_timer_start(loop, timer,
	    TAKEOVER_RETRY_NS / 2 + loop_random_below(loop, TAKEOVER_RETRY_NS));
}

static void
takeover_on_retry(struct loop_timer *timer, void *arg)
{
	struct mt_takeover *takeover = arg;

	(void)timer;
	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	mt_takeover_run(takeover);
}

bool
mt_takeover_is_stopped(const struct mt_takeover *takeover)
{
	return takeover->shard->sm.state == MT_SHARD_STOPPED;
}

void
mt_takeover_give_up(struct mt_takeover *takeover, int rc, const char *why)
{
	assert(rc < 0);
	mt_shard_event(takeover->shard, CLEAVE_EVENT_SHARD_STOPPED,
	    "shard %" PRIu32 ": stopped: %s epoch=%" PRIu32 " rc=%s", takeover->shard->index, why,
	    takeover->shard->epoch, log_errno(rc));
	mt_shard_stop(takeover->shard, rc);
}

void
mt_takeover_fail(struct mt_takeover *takeover, int rc, const char *why)
{
	struct mt_shard *shard = takeover->shard;
	const char *last = shard->life->failed_why;

	assert(rc < 0 && why != NULL);
	shard->life->failed_why = why;
	if (last == NULL || strcmp(last, why) != 0) {
		mt_takeover_give_up(takeover, rc, why);
		return;
	}
	log_debug("shard %" PRIu32 ": stopped again: %s epoch=%" PRIu32 " rc=%s", shard->index, why,
	    shard->epoch, log_errno(rc));
	mt_shard_stop(shard, rc);
}

void
mt_takeover_on_stale(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover) || takeover->is_checking_stale)
		return;
	takeover->is_checking_stale = true;
	mt_takeover_check_stale(takeover);
}

/* ---- its life ---- */

static void
takeover_init(struct mt_takeover *takeover, struct mt_shard *shard)
{
	assert(shard != NULL);
	*takeover = (struct mt_takeover){ .magic = TAKEOVER_MAGIC, .shard = shard };
	mt_manifest_state_init(&takeover->state);
	loop_timer_init(&takeover->retry_timer, takeover_on_retry, takeover);
	loop_timer_init(&takeover->stale_timer, mt_takeover_on_stale_timer, takeover);
	loop_timer_init(&takeover->refresh_timer, mt_takeover_on_refresh_timer, takeover);
	loop_timer_init(&takeover->progress_timer, mt_takeover_on_progress, takeover);
}

int
mt_takeover_init(struct mt_shard *shard)
{
	struct mt_takeover *takeover = mt_calloc(1, sizeof(*takeover));

	assert(shard->takeover == NULL);
	shard->stale_root = mt_calloc(1, sizeof(*shard->stale_root));
	if (takeover == NULL || shard->stale_root == NULL) {
		mt_free(shard->stale_root);
		mt_free(takeover);
		shard->stale_root = NULL;
		return -ENOMEM;
	}
	takeover_init(takeover, shard);
	shard->takeover = takeover;
	return 0;
}

void
mt_takeover_start(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(shard->sm.state == MT_SHARD_IDLE);
	takeover->started_ns = loop_now_ns(shard->port->loop);
	takeover->step = TAKEOVER_LOAD_ROOT;
	mt_takeover_run(takeover);
}

void
mt_takeover_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	mt_stale_on_link(&takeover->stale, link, is_up);
	mt_agree_on_link(&takeover->agree, link, is_up);
	mt_replay_on_link(&takeover->replay, link, is_up);
	if (takeover->step == TAKEOVER_AWAIT_NODES && !mt_takeover_is_stopped(takeover))
		mt_takeover_run(takeover);
}

static void
takeover_stop_timers(struct mt_takeover *takeover)
{
	struct loop *loop = takeover->shard->port->loop;

	loop_timer_stop(loop, &takeover->retry_timer);
	loop_timer_stop(loop, &takeover->stale_timer);
	loop_timer_stop(loop, &takeover->refresh_timer);
	loop_timer_stop(loop, &takeover->progress_timer);
}

void
mt_takeover_stop(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover_stop_timers(takeover);
	mt_stale_stop(&takeover->stale);
	mt_agree_stop(&takeover->agree);
	mt_replay_stop(&takeover->replay);
}

uint64_t
mt_takeover_steps(const struct mt_shard *shard)
{
	const struct mt_takeover *takeover = shard->takeover;

	return takeover == NULL ? 0
				: ((uint64_t)takeover->state_at << 20) +
		takeover->run_at / TAKEOVER_STEP_RUNS + takeover->replay.done_bytes / NUM_MIB(1);
}

bool
mt_takeover_is_quiet(const struct mt_shard *shard)
{
	const struct mt_takeover *takeover = shard->takeover;

	return mt_stale_is_quiet(&takeover->stale) && mt_agree_is_quiet(&takeover->agree) &&
	    mt_replay_is_quiet(&takeover->replay);
}

static void
takeover_fini(struct mt_takeover *takeover)
{
	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover_stop_timers(takeover);
	mt_stale_fini(&takeover->stale);
	mt_agree_fini(&takeover->agree);
	mt_replay_fini(&takeover->replay);
	mt_manifest_read_fini(&takeover->read);
	mt_manifest_state_fini(&takeover->state);
	mt_takeover_open_fini(takeover);
	takeover->magic = 0;
}

void
mt_takeover_reset(struct mt_shard *shard)
{
	assert(mt_takeover_is_quiet(shard));
	takeover_fini(shard->takeover);
	takeover_init(shard->takeover, shard);
}

void
mt_takeover_fini(struct mt_shard *shard)
{
	if (shard->takeover == NULL)
		return;
	takeover_fini(shard->takeover);
	mt_free(shard->takeover);
	mt_free(shard->stale_root);
	shard->takeover = NULL;
	shard->stale_root = NULL;
}
