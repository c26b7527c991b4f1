/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.h -- a shard begins: every start is a take-over, also the same gateway's */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "common/root.h"
#include "extent/replay.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "shard/agree.h"
#include "shard/stale.h"

struct mt_extent;
struct mt_link;
struct mt_shard;

/* mt_takeover_start -- the shard is IDLE. Ends in mt_shard_start, or in mt_shard_stop; the log says why. */
void mt_takeover_start(struct mt_shard *shard);
/* mt_takeover_on_link -- a link has changed: whatever waits for nodes looks again. */
void mt_takeover_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
/* mt_takeover_fini -- in any state, also without init. */
void mt_takeover_fini(struct mt_shard *shard);

/* mt_takeover_init -- before mt_takeover_start, which cannot fail then. -ENOMEM. */
int mt_takeover_init(struct mt_shard *shard);
/* mt_takeover_stop -- wherever it is; it calls nobody any more. */
void mt_takeover_stop(struct mt_shard *shard);
/* mt_takeover_steps -- grows while a take-over comes further in its present state. */
uint64_t mt_takeover_steps(const struct mt_shard *shard);
/* mt_takeover_is_quiet -- no call to a node is out. */
bool mt_takeover_is_quiet(const struct mt_shard *shard);
/* mt_takeover_reset -- quiet: ready for the next mt_takeover_start. */
void mt_takeover_reset(struct mt_shard *shard);
/*
 * mt_takeover_on_stale -- a node knows a newer owner of @shard
 *
 * Reads the root again and stops the shard either way: it is another's, or the metadata store is stale.
 */
void mt_takeover_on_stale(struct mt_shard *shard);

/* In the order in which they run; takeover.c says what each does. */
enum mt_takeover_step {
	TAKEOVER_LOAD_ROOT,
	TAKEOVER_LOOK_FOR_NEWER,
	TAKEOVER_CLAIM,
	TAKEOVER_AGREE_MANIFEST,
	TAKEOVER_STORE_LENGTH,
	TAKEOVER_READ_MANIFEST,
	TAKEOVER_CHECK_MIRROR,
	TAKEOVER_AGREE_EXTENTS,
	TAKEOVER_AWAIT_NODES,
	TAKEOVER_OPEN_MANIFEST,
	TAKEOVER_REPLAY,
	TAKEOVER_AWAIT_VOLUMES,
	TAKEOVER_SERVE,
	TAKEOVER_STEP_NR
};
#define TAKEOVER_DONE 1 /* a step's start: there is nothing to wait for, on to the next step */

#define TAKEOVER_MAGIC 0x4f454b54u /* "TKEO" */

struct mt_takeover {
	uint32_t magic;
	struct mt_shard *shard;
	enum mt_takeover_step step; /* at work, or to be started by retry_timer */
	struct loop_timer retry_timer;
	struct mt_stale_check stale;
	struct mt_agree agree;
	struct mt_replay replay;
	struct mt_manifest_read read;   /* by replay */
	struct mt_root wanted;          /* being stored */
	struct mt_root looked;          /* as it was loaded, before the claim */
	struct mt_manifest_state state; /* of the old manifest, as it grows */
	uint32_t state_at;              /* extents before this are agreed upon, or restored */
	uint32_t run_at, cut_at;        /* runs and cuts before these are in the index */
	struct mt_replay_source *sources;
	uint32_t source_count;
	struct mt_extent **empties; /* extents in which nothing was written: to be deleted */
	uint32_t empty_count;
	uint32_t claim_count;
	struct loop_timer progress_timer;
	struct loop_timer refresh_timer;
	bool is_refreshed; /* main has read the volumes since the claim, and told the ports */
	bool was_ours;     /* the root named this very process before the claim */
	bool is_retry_logged;
	/*
	 * takeover_stale.c is at work, beside the step and not instead of it: the new manifest may hear of a
	 * newer owner from several nodes, while the log is still replayed, and long after that.
	 */
	bool is_checking_stale;
	struct loop_timer stale_timer; /* its next try */
	uint64_t started_ns, claimed_ns;
	uint64_t replay_began_ns, replay_ns; /* replay_ns: how long it took */
	uint64_t record_count;
	uint64_t next_sequence; /* behind the last record replayed */
};

/* mt_takeover_is_stopped -- the shard was stopped meanwhile: an answer is for nobody any more. */
bool mt_takeover_is_stopped(const struct mt_takeover *takeover);
/* mt_takeover_give_up -- the shard stops for good, and the log says why. */
void mt_takeover_give_up(struct mt_takeover *takeover, int rc, const char *why);
/*
 * mt_takeover_fail -- as mt_takeover_give_up, where each further try will come to the same end: health tells of it
 *
 * @why: static. An event where it is not what the last try ended with.
 */
void mt_takeover_fail(struct mt_takeover *takeover, int rc, const char *why);
/* Why one is given up that was replayed from heads in memory, and finds them gone the next time. */
#define TAKEOVER_DISTRUST_TEXT "heads in memory were not its own: it is read from storage nodes"
/* mt_takeover_next -- the present step has ended: 0: start the next one; else the same again, later. */
void mt_takeover_next(struct mt_takeover *takeover, int rc);
/* mt_takeover_run -- start the present step, also once more, and those after it that need not wait. */
void mt_takeover_run(struct mt_takeover *takeover);
/* mt_takeover_retry_from -- go on with @step, later, because of @rc. */
void mt_takeover_retry_from(struct mt_takeover *takeover, enum mt_takeover_step step, int rc);
/* mt_takeover_pause -- @timer fires in a while; the log says once what is waited for, by @rc. */
void mt_takeover_pause(struct mt_takeover *takeover, struct loop_timer *timer, int rc);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_H */
