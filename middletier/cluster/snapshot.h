/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h -- a snapshot is taken of all shards of a volume: main's side; write/cut.h is the
 * shard's
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H

#include <stdint.h>

#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "common/limits.h"
#include "write/cut.h"

struct mt_cut_answer;
struct mt_gateway;
struct mt_peer_call;

enum mt_cut_step {
	MT_CUT_STEP_ASK,
	MT_CUT_STEP_BEGIN,
	MT_CUT_STEP_CONFIRM,
	MT_CUT_STEP_RELEASE,
	MT_CUT_STEP_NR
};

/*
 * @rc 0: every shard of the cluster has cut, and holds; the caller makes what it wants by one transaction and
 * calls mt_taking_end at once. Else nothing is held, no number was taken or it is void, and
 * gateway->taking->error says what stood in the way.
 */
typedef void (*mt_taking_fn)(int rc, void *arg);

enum mt_taking_state {
	MT_TAKING_IDLE,
	MT_TAKING_ASKING,    /* would they all begin? */
	MT_TAKING_NUMBERING, /* a number, and its pending key */
	MT_TAKING_BEGINNING,
	MT_TAKING_CONFIRMING,
	MT_TAKING_CHECKING, /* whose shards they are now */
	MT_TAKING_READY,    /* the caller's transaction */
	MT_TAKING_VOIDING,
	MT_TAKING_STATE_NR
};

struct mt_taking {
	struct sm sm;
	struct mt_gateway *gateway;
	struct mt_snapshot snapshot; /* as it will be */
	struct mt_cluster
	    cluster;      /* as it will be, once the number is taken; its version is of before */
	uint64_t version; /* of its pending key */
	struct mt_cut_order order;
	uint32_t *epochs; /* that answered the begin */
	struct mt_cut_answer *answers;
	struct mt_peer_call *calls; /* MT_GATEWAYS_MAX */
	uint64_t peers[MT_GATEWAYS_MAX];
	uint32_t peer_count, left_count;
	struct mt_volumes_waiter waiter;
	int rc;
	char error[MT_ERROR_BYTES];
	mt_taking_fn fn;
	void *arg;
};
/* mt_taking_init -- 0; -ENOMEM. */
int mt_taking_init(struct mt_gateway *gateway);
void mt_taking_fini(struct mt_gateway *gateway);
/*
 * mt_taking_start -- a number for a snapshot of @volume, and cut it in every shard
 *
 * One at a time: of a change, which control.c runs one after the other, when it has read the tables anew.
 * Returns 0 and @fn later; -EBUSY, -ENOMEM, -ESHUTDOWN.
 */
int mt_taking_start(struct mt_gateway *gateway, const struct mt_volume *volume, const char *name,
    mt_taking_fn fn, void *arg);
/* mt_taking_end -- the transaction was made, or not (@rc): let go of the answers; a number not used is void. */
void mt_taking_end(struct mt_gateway *gateway, int rc);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H */
