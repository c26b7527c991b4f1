/* SPDX-License-Identifier: Apache-2.0 */
/* agree_replica.h -- what a replica of an extent has answered, and what that is worth */
#ifndef CLEAVE_MIDDLETIER_SHARD_AGREE_REPLICA_H
#define CLEAVE_MIDDLETIER_SHARD_AGREE_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "extent/call.h"

struct mt_agree;
struct wire_node_reply;

enum mt_agree_replica_state {
	MT_AGREE_UNASKED,
	MT_AGREE_ASKED,   /* FREEZE is out */
	MT_AGREE_FROZEN,  /* its length is known */
	MT_AGREE_DAMAGED, /* it counts for nothing but its mark */
	MT_AGREE_REPLICA_STATE_NR
};

struct mt_agree_replica {
	struct mt_agree *agree;
	struct sm sm;
	struct mt_call call; /* FREEZE, APPEND or TRUNCATE */
	uint64_t length_bytes;
	uint64_t mark_bytes; /* the highest that its node has told */
	uint32_t chain_crc;
	bool is_sealed; /* the node says so */
	bool is_truncated;
	bool is_told; /* that it is damaged */
	int refused_rc; /* why its node froze nothing when it was asked last; 0: it did, or was not asked */
};

#define MT_AGREE_TEXT_BYTES 48u

/* mt_agree_text -- the extent's name for the log, in @out. */
const char *mt_agree_text(const struct mt_agree *agree, char out[MT_AGREE_TEXT_BYTES]);
/* mt_agree_replica_index -- of @replica in its agree's lists. mt_agree_replica_node_id -- its node. */
uint32_t mt_agree_replica_index(const struct mt_agree_replica *replica);
uint32_t mt_agree_replica_node_id(const struct mt_agree_replica *replica);
/* mt_agree_is_verdict -- @rc is an error by which the node has spoken: its copy is of no use. */
bool mt_agree_is_verdict(int rc);
/* mt_agree_is_good -- it has answered, and its chain is undamaged. */
bool mt_agree_is_good(const struct mt_agree_replica *replica);
/* mt_agree_damage -- DAMAGED; an event says why, the first time. UNASKED, ASKED or FROZEN before. */
void mt_agree_damage(struct mt_agree_replica *replica, const char *why, int rc);
/* mt_agree_replica_take_length -- ASKED: FREEZE was answered with @reply. FROZEN, or DAMAGED where that cannot be. */
void mt_agree_replica_take_length(struct mt_agree_replica *replica,
    const struct wire_node_reply *reply);
/* mt_agree_replica_init -- replica @index is one that was not asked yet. */
void mt_agree_replica_init(struct mt_agree *agree, uint32_t index);
/* mt_agree_replica_set_whole -- replica @index is a new copy, truncated at the agreed length. */
void mt_agree_replica_set_whole(struct mt_agree *agree, uint32_t index, uint32_t chain_crc);

#endif /* CLEAVE_MIDDLETIER_SHARD_AGREE_REPLICA_H */
