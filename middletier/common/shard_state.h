/* SPDX-License-Identifier: Apache-2.0 */
/* shard_state.h -- the states of a shard; shard/shard.c has the picture */
#ifndef CLEAVE_MIDDLETIER_COMMON_SHARD_STATE_H
#define CLEAVE_MIDDLETIER_COMMON_SHARD_STATE_H

enum mt_shard_state {
	MT_SHARD_IDLE,
	MT_SHARD_CLAIMING, /* root key: epoch + 1, owner */
	MT_SHARD_AGREEING, /* freeze, repair and cut the manifest extent, read it; then open extents */
	MT_SHARD_OPENING,   /* new manifest extent, which holds all agreed lengths */
	MT_SHARD_REPLAYING, /* read descriptors into the index */
	MT_SHARD_SERVING,
	MT_SHARD_STOPPED, /* not wanted, lost, or shutting down: what is out comes back, then IDLE */
	MT_SHARD_STATE_NR
};

#endif /* CLEAVE_MIDDLETIER_COMMON_SHARD_STATE_H */
