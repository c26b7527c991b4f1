/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h -- snapshots are taken of one volume, or several, in all shards: main's side; write/cut.h is the
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
 * calls mt_taking_end at once. Else nothing is held, no number was taken or all are void, and mt_taking_error says
 * what stood in the way.
 */
typedef void (*mt_taking_fn)(int rc, void *arg);

/* A snapshot that is to be taken. */
struct mt_taking_wish {
	const struct mt_volume *volume;
	const char *name; /* without the volume's */
};

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
 * mt_taking_start -- take a number for a snapshot of each volume, and cut all of them in every shard, at once
 *
 * The volumes are different ones. All @wishes are of one point in time, and of one group where there are several.
 * They are copied. A change asks for it, which control_request.c runs one after the other, when it has read the tables anew.
 * Returns 0: @fn is called later; -EBUSY another one is being taken; -EBADMSG a volume names a number that was not
 * given away yet; -ENOSPC; -ENOMEM; -ESHUTDOWN.
 */
int mt_taking_start(struct mt_gateway *gateway, const struct mt_taking_wish *wishes, uint32_t count,
    mt_taking_fn fn, void *arg);
enum mt_taking_state mt_taking_state(const struct mt_gateway *gateway);
/* mt_taking_error -- a sentence for people, where @fn's rc was not 0; until the next start. */
const char *mt_taking_error(const struct mt_gateway *gateway);
/* mt_taking_count, mt_taking_snapshot -- READY: the snapshots, in the order of the wishes, pending so far, and the versions of their keys. */
uint32_t mt_taking_count(const struct mt_gateway *gateway);
const struct mt_snapshot *mt_taking_snapshot(const struct mt_gateway *gateway, uint32_t index,
    uint64_t *ret_version);
/* mt_taking_end -- the transaction was made, or not (@rc): let go of the answers; numbers not used are void. */
void mt_taking_end(struct mt_gateway *gateway, int rc);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_H */
