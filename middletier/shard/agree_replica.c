/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree_replica.c -- what a replica of an extent has answered, and what that is worth
 *
 *	UNASKED <---> ASKED ---> FROZEN    an undamaged chain, with its length
 *	   ^            |          |
 *	   |            +-------> DAMAGED  counts for nothing but its mark
 *	   +--- asked anew --------+
 */
#include "shard/agree_replica.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/event.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "shard/agree.h"

static const struct sm_state replica_table[MT_AGREE_REPLICA_STATE_NR] = {
	[MT_AGREE_UNASKED] = { "unasked", SM_TO(MT_AGREE_ASKED) | SM_TO(MT_AGREE_DAMAGED),
	    SM_INITIAL },
	[MT_AGREE_ASKED] = { "asked",
	    SM_TO(MT_AGREE_UNASKED) | SM_TO(MT_AGREE_FROZEN) | SM_TO(MT_AGREE_DAMAGED), 0 },
	[MT_AGREE_FROZEN] = { "frozen", SM_TO(MT_AGREE_UNASKED) | SM_TO(MT_AGREE_DAMAGED), 0 },
	[MT_AGREE_DAMAGED] = { "damaged", SM_TO(MT_AGREE_UNASKED), 0 },
};

/* ---- words for the log ---- */

const char *
mt_agree_text(const struct mt_agree *agree, char out[MT_AGREE_TEXT_BYTES])
{
	(void)snprintf(out, MT_AGREE_TEXT_BYTES, "%" PRIu32 ".%" PRIu32 ".%" PRIu64,
	    agree->id.shard, agree->id.epoch, agree->id.counter);
	return out;
}

uint32_t
mt_agree_replica_index(const struct mt_agree_replica *replica)
{
	assert(replica >= replica->agree->states &&
	    replica < replica->agree->states + MT_REPLICAS_MAX);
	return (uint32_t)(replica - replica->agree->states);
}

uint32_t
mt_agree_replica_node_id(const struct mt_agree_replica *replica)
{
	return replica->agree->replicas[mt_agree_replica_index(replica)].node_id;
}

/* ---- what it is worth ---- */

bool
mt_agree_is_verdict(int rc)
{
	assert(rc <= 0);
	return rc == -ENOENT || rc == -EUCLEAN || rc == -EIO || rc == -EROFS || rc == -EBADMSG ||
	    rc == -ERANGE || rc == -ENOSPC || rc == -EPERM || rc == -EINVAL || rc == -EMSGSIZE;
}

bool
mt_agree_is_good(const struct mt_agree_replica *replica)
{
	assert(replica->agree != NULL);
	return replica->sm.state == MT_AGREE_FROZEN;
}

void
mt_agree_damage(struct mt_agree_replica *replica, const char *why, int rc)
{
	struct mt_agree *agree = replica->agree;
	char text[MT_AGREE_TEXT_BYTES];

	assert(rc < 0);
	sm_move(&replica->sm, MT_AGREE_DAMAGED);
	if (replica->is_told)
		return; /* it was asked anew */
	replica->is_told = true;
	mt_shard_event(agree->shard, CLEAVE_EVENT_COPY_DAMAGED,
	    "shard %" PRIu32 ": a copy is damaged extent=%s node=%" PRIu32 " length_bytes=%" PRIu64
	    " rc=%s: %s",
	    agree->shard->index, mt_agree_text(agree, text), mt_agree_replica_node_id(replica),
	    replica->length_bytes, log_errno(rc), why);
}

void
mt_agree_replica_take_length(struct mt_agree_replica *replica, const struct wire_node_reply *reply)
{
	assert(replica->sm.state == MT_AGREE_ASKED);
	replica->length_bytes = reply->offset_bytes;
	/* An acknowledgement stays one, whatever has become of the copy that told it. */
	replica->mark_bytes = num_max(replica->mark_bytes, reply->length_bytes);
	replica->chain_crc = reply->chain_crc;
	replica->is_sealed = (reply->flags & WIRE_FLAG_SEALED) != 0;
	replica->is_truncated = replica->is_sealed;
	if ((reply->flags & WIRE_FLAG_DAMAGED) != 0)
		mt_agree_damage(replica, "its node says so", -EUCLEAN);
	else if (!num_is_aligned(replica->length_bytes, BATCH_ALIGN) ||
	    replica->length_bytes > CLEAVE_CHUNK_BYTES)
		mt_agree_damage(replica, "its length is none", -EUCLEAN);
	else if (replica->mark_bytes > replica->length_bytes)
		mt_agree_damage(replica, "it ends below its mark", -EUCLEAN);
	else
		sm_move(&replica->sm, MT_AGREE_FROZEN);
}

/* ---- begun ---- */

void
mt_agree_replica_init(struct mt_agree *agree, uint32_t index)
{
	struct mt_agree_replica *replica = &agree->states[index];

	assert(index < agree->replica_count);
	*replica = (struct mt_agree_replica){ .agree = agree };
	sm_init(&replica->sm, "agree replica", replica_table, MT_AGREE_UNASKED,
	    agree->replicas[index].node_id);
}

void
mt_agree_replica_set_whole(struct mt_agree *agree, uint32_t index, uint32_t chain_crc)
{
	struct mt_agree_replica *replica = &agree->states[index];

	assert(index < agree->replica_count);
	mt_agree_replica_init(agree, index);
	replica->length_bytes = agree->agreed_bytes;
	replica->chain_crc = chain_crc;
	replica->is_sealed = replica->is_truncated = true;
	sm_move(&replica->sm, MT_AGREE_ASKED);
	sm_move(&replica->sm, MT_AGREE_FROZEN);
}
