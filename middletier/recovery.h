/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovery.h -- the steps of a take-over: agree upon an extent's length, read extents in order
 */
#ifndef CLEAVE_MIDDLETIER_RECOVERY_H
#define CLEAVE_MIDDLETIER_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* ---- takeover.c ---- */

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

/* ---- agree.c ---- */

#define MT_AGREE_READS_MAX 4u
_Static_assert(MT_AGREE_READS_MAX *MT_RECEIVE_BYTES >= BATCH_BYTES_MAX, "reads hold a batch");

enum mt_agree_replica_state {
	MT_AGREE_UNASKED,
	MT_AGREE_ASKED,   /* FREEZE is out */
	MT_AGREE_FROZEN,  /* its length is known */
	MT_AGREE_DAMAGED, /* it counts for nothing but its mark */
	MT_AGREE_REPLICA_STATE_NR
};

struct mt_agree;
struct mt_copy;
struct mt_agree_replica {
	struct mt_agree *agree;
	struct sm sm;
	struct mt_call call; /* FREEZE, APPEND or CUT */
	uint64_t length_bytes;
	uint64_t mark_bytes;
	uint32_t chain_crc;
	bool is_sealed; /* the node says so */
	bool is_cut;
};

/* A batch on its way from one replica to another: the messages that hold it. */
struct mt_agree_repair {
	uint32_t from, to;      /* replica indexes */
	struct batch_info info; /* once its head has passed */
	struct mt_call reads[MT_AGREE_READS_MAX];
	struct split_msg *msgs[MT_AGREE_READS_MAX];
	uint32_t read_count, read_outstanding_count;
	int read_rc; /* the first failure */
};

typedef void (*mt_agree_fn)(struct mt_agree *agree, int rc, void *arg);

enum mt_agree_state {
	MT_AGREE_FREEZING,  /* every replica is asked */
	MT_AGREE_STUCK,     /* the answers contradict each other: asked again later */
	MT_AGREE_READING,   /* a batch that a replica lacks */
	MT_AGREE_APPENDING, /* it goes there */
	MT_AGREE_COPYING,   /* the whole extent goes to one more node */
	MT_AGREE_CUTTING,
	MT_AGREE_DONE,
	MT_AGREE_STATE_NR
};

/*
 * In: the first group. Out, when rc is 0: the second, and the replicas: is_damaged and is_cut, and nodes
 * to which it was copied, in the place of others or behind them.
 */
struct mt_agree {
	uint32_t magic;
	struct mt_shard *shard;
	struct extent_id id;
	enum extent_kind kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t deadline_ns; /* until then every replica is waited for */
	mt_agree_fn fn;
	void *arg;

	uint64_t agreed_bytes;

	struct sm sm;
	struct mt_agree_replica states[MT_REPLICAS_MAX];
	struct mt_agree_repair repair;
	uint8_t *head; /* BATCH_HEAD_BYTES_MAX */
	struct loop_timer timer;
	uint64_t log_ns;            /* when waiting was last logged */
	uint32_t wanted_count;      /* undamaged answers that prove a length */
	uint32_t outstanding_count; /* calls at nodes */
	bool is_stuck_logged, is_short_logged;
	bool is_stopped;
	/* agree_copy.c's. */
	struct mt_copy *copy; /* COPYING */
	struct mt_call call;  /* COPYING: an orphan is in the way */
	uint32_t copy_node_id;
	uint64_t copy_tried; /* links, by bit, since the last pause */
	uint64_t orphans_tried;
	/* Those that were away, and whose place another has: the manifest names them still. */
	struct mt_replica passed[MT_REPLICAS_MAX];
	uint32_t passed_count;
};

/*
 * mt_agree_start -- freeze @agree's extent under the shard's epoch and make its replicas one length
 *
 * Waits for every replica until deadline_ns, then goes on with those that have answered, as soon as
 * that is safe: two undamaged copies, or a sealed one, have answered (one will do where the extent has
 * but one, or min_replicas is 1); what may not have been acknowledged is on min_replicas nodes before it is agreed upon,
 * copied to further ones where there are too few. A replica that is damaged counts for nothing; when no
 * other reaches the highest mark seen, it stays waiting with an ERROR in the log: the shard never starts
 * with less than was acknowledged. One that did not answer stays listed, uncut.
 *
 * @fn: 0: every undamaged replica that is up is sealed at agreed_bytes; -ESTALE: a node knows a newer
 * owner. @agree may be finished in it. Returns 0; -ENOMEM: no @fn.
 */
int mt_agree_start(struct mt_agree *agree);
void mt_agree_on_link(struct mt_agree *agree, struct mt_link *link, bool is_up);
/* mt_agree_stop -- @fn is not called any more; calls that are out end by themselves. */
void mt_agree_stop(struct mt_agree *agree);
/* mt_agree_is_quiet -- no call is out: the memory may go. */
bool mt_agree_is_quiet(const struct mt_agree *agree);
void mt_agree_fini(struct mt_agree *agree);

#define AGREE_MAGIC 0x45524741u /* "AGRE" */

/* For agree_repair.c and agree_copy.c. */
/* mt_agree_call -- 0, or why it was not asked; asked again when the link comes up, or by the timer. */
int mt_agree_call(struct mt_agree *agree, uint32_t replica_index, struct mt_call *call,
    mt_call_fn fn, void *arg);
/* mt_agree_answered -- true when the answer is for nobody any more. */
bool mt_agree_answered(struct mt_agree *agree, int rc);
/* mt_agree_is_verdict -- an error by which the node has spoken: its copy is of no use. */
bool mt_agree_is_verdict(int rc);
void mt_agree_damage(struct mt_agree_replica *replica, const char *why, int rc);
/* mt_agree_step -- in FREEZING: ask who was not asked; judge when all have answered, or those that will. */
void mt_agree_step(struct mt_agree *agree);

/* ---- agree_repair.c ---- */

/* mt_agree_repair -- the batch that replica @to lacks, from @from. READING; ends in mt_agree_step. */
void mt_agree_repair(struct mt_agree *agree, uint32_t from, uint32_t to);

/* ---- agree_copy.c ---- */

/* mt_agree_recall -- one whose place was given away is back: it is a replica again, to be asked. */
bool mt_agree_recall(struct mt_agree *agree);
/* mt_agree_replica_init -- replica @index is one that was not asked yet. */
void mt_agree_replica_init(struct mt_agree *agree, uint32_t index);
/* mt_agree_place -- begin to copy to one more node; false: none can take it. Ends in mt_agree_placed. */
bool mt_agree_place(struct mt_agree *agree);
void mt_agree_placed(struct mt_agree *agree, int rc);
/* mt_agree_replica_set_whole -- replica @index is a new copy, cut at the agreed length. */
void mt_agree_replica_set_whole(struct mt_agree *agree, uint32_t index, uint32_t chain_crc);
bool mt_agree_is_good(const struct mt_agree_replica *replica);

/* ---- replay.c ---- */

#define MT_REPLAY_READS_MAX 16u /* in flight, or waiting for those before them */
#define MT_REPLAY_RECENT 8u

/* An extent to be read from its beginning to an agreed length. */
struct mt_replay_source {
	struct extent_id id;
	enum extent_kind kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t length_bytes;
	uint32_t extent_index; /* the caller's */
};

struct mt_replay;
/*
 * @head: a batch's checked head. 0; -ENOMEM, having changed nothing: called again with it later;
 * another error ends the replay.
 */
typedef int (*mt_replay_batch_fn)(struct mt_replay *replay, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head, void *arg);
typedef void (*mt_replay_fn)(struct mt_replay *replay, int rc, void *arg);

struct mt_replay_read {
	struct mt_replay *replay;
	struct mt_call call;
	struct split_msg *msg;
	uint32_t source_index;
	uint32_t replica_index;
	uint64_t offset_bytes;
	uint32_t bytes;
	int rc;
	bool is_out;
};

enum mt_replay_state {
	MT_REPLAY_RUNNING,
	MT_REPLAY_DRAINING, /* a read or a batch was bad: what is out comes back first */
	MT_REPLAY_WAITING,  /* no copy can be read now */
	MT_REPLAY_DONE,
	MT_REPLAY_STATE_NR
};

/* The first group is the caller's; sources are read in their order, and borrowed until @fn. */
struct mt_replay {
	uint32_t magic;
	struct mt_shard *shard;
	const struct mt_replay_source *sources;
	uint32_t source_count;
	mt_replay_batch_fn on_batch;
	mt_replay_fn fn;
	void *arg;

	uint64_t total_bytes, done_bytes; /* for progress */

	struct sm sm;
	struct mt_replay_read reads[MT_REPLAY_READS_MAX]; /* a ring */
	uint32_t read_first, read_count;
	uint32_t ask_source; /* what is asked for next */
	uint64_t ask_offset_bytes;
	uint32_t source_index; /* what is expected next: the batch at at_bytes */
	uint64_t at_bytes;
	uint32_t prev_crc;
	uint8_t *head; /* of that batch, as far as it is here; BATCH_HEAD_BYTES_MAX */
	uint32_t head_bytes;
	/* The last batches: how long, and how much of that is head. */
	uint32_t recent_bytes[MT_REPLAY_RECENT], recent_head_bytes[MT_REPLAY_RECENT];
	uint32_t recent_count; /* since the last surprise */
	uint32_t tried;        /* bit set: replicas of source_index that have failed */
	bool is_content_bad;   /* one of them by what it returned */
	bool must_wait;        /* before the next try, whichever copy it is */
	struct loop_timer timer;
	uint64_t log_ns;
	bool is_stopped;
};

/*
 * mt_replay_start -- read all sources, batch by batch, each from any replica whose batch passes
 *
 * @fn: 0; -ESTALE a node knows a newer owner; what on_batch returned. Waits for nodes as long as it
 * takes. Returns 0; -ENOMEM: no @fn.
 */
int mt_replay_start(struct mt_replay *replay);
void mt_replay_on_link(struct mt_replay *replay, struct mt_link *link, bool is_up);
/* mt_replay_stop -- @fn and on_batch are not called any more; reads that are out end by themselves. */
void mt_replay_stop(struct mt_replay *replay);
bool mt_replay_is_quiet(const struct mt_replay *replay);
void mt_replay_fini(struct mt_replay *replay);

#endif /* CLEAVE_MIDDLETIER_RECOVERY_H */
