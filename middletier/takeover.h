/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.h -- what takeover.c, up to the agreement, and takeover_open.c, from there on, share */
#ifndef CLEAVE_MIDDLETIER_TAKEOVER_H
#define CLEAVE_MIDDLETIER_TAKEOVER_H

#include "manifest.h"
#include "recovery.h"
#include "stale.h"

#define TAKEOVER_MAGIC 0x4f454b54u /* "TKEO" */

struct mt_takeover {
	uint32_t magic;
	struct mt_shard *shard;
	struct mt_stale_check stale;
	struct mt_agree agree;
	struct mt_replay replay;
	struct mt_manifest_read read;   /* by replay */
	bool is_agreeing, is_replaying; /* which of the two is at work */
	bool is_awaiting_nodes;         /* before OPENING, for a third node; retry_timer runs */
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
	struct loop_timer retry_timer;
	void (*retry_fn)(struct mt_takeover *takeover);
	struct loop_timer progress_timer;
	struct loop_timer refresh_timer;
	bool is_refreshed; /* main has read the volumes since the claim, and told the ports */
	bool is_replayed;  /* only that is waited for */
	bool was_ours;     /* the root named this very process before the claim */
	bool is_retry_logged;
	bool is_checking_stale;
	uint64_t started_ns, claimed_ns;
	uint64_t record_count;
	uint64_t next_sequence; /* behind the last record replayed */
};

bool mt_takeover_is_stopped(const struct mt_takeover *takeover);
/* mt_takeover_give_up -- the shard stops for good, and the log says why. */
void mt_takeover_give_up(struct mt_takeover *takeover, int rc, const char *why);
/* mt_takeover_retry -- call @fn again in a while. */
void mt_takeover_retry(struct mt_takeover *takeover, void (*fn)(struct mt_takeover *), int rc);
/* mt_takeover_end_replay -- one that failed may have reads out: its memory stays. */
void mt_takeover_end_replay(struct mt_takeover *takeover, int rc);

/* ---- takeover_open.c ---- */

/* mt_takeover_open -- every extent of takeover->state has its length: OPENING, and all that follows. */
void mt_takeover_open(struct mt_takeover *takeover);
void mt_takeover_open_fini(struct mt_takeover *takeover);
/* mt_takeover_try_serve -- when everything is replayed and the volumes are known. */
void mt_takeover_try_serve(struct mt_takeover *takeover);
void mt_takeover_on_progress(struct loop_timer *timer, void *arg);

#endif /* CLEAVE_MIDDLETIER_TAKEOVER_H */
