/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h -- a snapshot is taken of all shards of a volume: main's side; write/cut.h is the
 * shard's
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H

#include <stdint.h>

struct mt_gateway;
struct mt_snapshot;
struct mt_volume;

/*
 * @rc 0: every shard of the cluster has cut, and holds; the caller makes what it wants by one transaction and
 * calls mt_taking_end at once. Else nothing is held, no number was taken or it is void, and mt_taking_error says
 * what stood in the way.
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

/* mt_taking_init -- 0; -ENOMEM. */
int mt_taking_init(struct mt_gateway *gateway);
/* mt_taking_fini -- nobody runs the ports' loops any more; no @fn is called. */
void mt_taking_fini(struct mt_gateway *gateway);
/*
 * mt_taking_start -- take a number for a snapshot of @volume, and cut it in every shard
 *
 * A change asks for it, which control_request.c runs one after the other, when it has read the tables anew.
 * Returns 0: @fn is called later; -EBUSY another one is being taken; -ENOMEM; -ESHUTDOWN.
 */
int mt_taking_start(struct mt_gateway *gateway, const struct mt_volume *volume, const char *name,
    mt_taking_fn fn, void *arg);
enum mt_taking_state mt_taking_state(const struct mt_gateway *gateway);
/* mt_taking_error -- a sentence for people, where @fn's rc was not 0; until the next start. */
const char *mt_taking_error(const struct mt_gateway *gateway);
/* mt_taking_snapshot -- READY: the snapshot, pending so far, and the version of its key. */
const struct mt_snapshot *mt_taking_snapshot(const struct mt_gateway *gateway,
    uint64_t *ret_version);
/* mt_taking_end -- the transaction was made, or not (@rc): let go of the answers; a number not used is void. */
void mt_taking_end(struct mt_gateway *gateway, int rc);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H */
