/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.h -- what a shard's clients wait for, when they wait: for a client that asks after a
 * second of silence
 */
#ifndef CLEAVE_MIDDLETIER_PORT_WAITS_H
#define CLEAVE_MIDDLETIER_PORT_WAITS_H

struct mt_shard;

enum mt_wait {
	MT_WAIT_NONE,
	MT_WAIT_TAKEOVER, /* it does not serve yet */
	MT_WAIT_AWAY,     /* nor can it, before a node answers */
	MT_WAIT_STALE,    /* nodes know of later owners than the metadata store does */
	MT_WAIT_DEVICE,   /* its port has no ring for it */
	MT_WAIT_FAILED,   /* each take-over of it ends in nothing */
	MT_WAIT_STOPPED,
	MT_WAIT_STORE, /* its nodes obey another metadata store */
	MT_WAIT_LEASE,
	MT_WAIT_NODES,  /* for an extent of the log, on --min-replicas of them */
	MT_WAIT_ROOM,   /* on the nodes */
	MT_WAIT_LOG,    /* merges must make it shorter */
	MT_WAIT_MEMORY, /* likewise, of layers */
	MT_WAIT_EXTENT, /* one is being made */
	MT_WAIT_LIMITS,
	MT_WAIT_ANSWERS, /* appends are out */
	MT_WAIT_NR
};
/* mt_wait_text -- what follows "shard 3 "; NULL of MT_WAIT_NONE. */
const char *mt_wait_text(enum mt_wait wait);
/* mt_shard_wait -- what writes to @shard wait for now. On its port's thread. */
enum mt_wait mt_shard_wait(const struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_PORT_WAITS_H */
