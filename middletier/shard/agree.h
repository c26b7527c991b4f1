/* SPDX-License-Identifier: Apache-2.0 */
/* agree.h -- the replicas of an extent whose owner is gone become one length */
#ifndef CLEAVE_MIDDLETIER_SHARD_AGREE_H
#define CLEAVE_MIDDLETIER_SHARD_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/limits.h"
#include "common/replica.h"
#include "extent/call.h"
#include "shard/agree_replica.h"

struct mt_agree;
struct mt_copy;
struct mt_shard;
struct split_msg;

#define MT_AGREE_READS_MAX 4u
_Static_assert(MT_AGREE_READS_MAX *MT_RECEIVE_BYTES >= BATCH_BYTES_MAX, "reads hold a batch");

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
	MT_AGREE_TRUNCATING,
	MT_AGREE_DONE,
	MT_AGREE_STATE_NR
};

/*
 * In: the first group. Out, when rc is 0: the second, and the replicas: is_damaged and is_truncated, and nodes
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
	uint64_t anew_ns;           /* damaged copies are asked anew then, at the earliest */
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
	/* Replicas that were away, and whose place another has: the manifest names them still. */
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
 * with less than was acknowledged. Damaged ones are asked anew every five seconds while it waits. One that did
 * not answer stays listed, uncut.
 *
 * @fn: 0: every undamaged replica that is up is sealed at agreed_bytes; -ESTALE: a node knows a newer
 * owner. @agree may be finished in it. Returns 0; -ENOMEM: no @fn.
 */
int mt_agree_start(struct mt_agree *agree);
/* mt_agree_on_link -- a link has changed: nodes that were not asked are. Also of one that has not begun, or has ended. */
void mt_agree_on_link(struct mt_agree *agree, struct mt_link *link, bool is_up);
/* mt_agree_stop -- @fn is not called any more; calls that are out end by themselves. */
void mt_agree_stop(struct mt_agree *agree);
/* mt_agree_is_quiet -- no call is out: the memory may go, by mt_agree_fini. Also before the first start. */
bool mt_agree_is_quiet(const struct mt_agree *agree);
void mt_agree_fini(struct mt_agree *agree);

#define AGREE_MAGIC 0x45524741u /* "AGRE" */

/* For agree_repair.c and agree_copy.c. */
/*
 * mt_agree_call -- ask replica @replica_index; @call->request has the opcode, and what is its own
 *
 * 0: @fn follows, and begins with mt_agree_answered. Else why it was not asked: it is when the link comes up, or by
 * the timer.
 */
int mt_agree_call(struct mt_agree *agree, uint32_t replica_index, struct mt_call *call,
    mt_call_fn fn, void *arg);
/* mt_agree_answered -- a call has come back with @rc; true: that is for nobody any more. */
bool mt_agree_answered(struct mt_agree *agree, int rc);
/* mt_agree_step -- in FREEZING: ask who was not asked; judge when all have answered, or those that will. */
void mt_agree_step(struct mt_agree *agree);
/* mt_agree_placed -- COPYING has ended: 0: with one more replica; -ESTALE: a node knows a newer owner; else without. */
void mt_agree_placed(struct mt_agree *agree, int rc);

#endif /* CLEAVE_MIDDLETIER_SHARD_AGREE_H */
