/* SPDX-License-Identifier: Apache-2.0 */
/* replay_head.c -- see replay_head.h */
#include "extent/replay_head.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/head_mirror.h"
#include "extent/replay.h"
#include "extent/replay_guess.h"

/* The expected head is whole, and has passed. */
static int
replay_on_head(struct mt_replay *replay, const struct batch_info *info)
{
	const struct mt_replay_source *source = &replay->sources[replay->source_index];
	int rc = 0;

	assert(replay->head_bytes >= BATCH_HEADER_BYTES);
	if (info->batch_bytes > source->length_bytes - replay->at_bytes)
		return -EBADMSG; /* it would end behind the agreed length */
	if (!MUTANT(last_batch_dropped) || source->kind != EXTENT_LOG ||
	    replay->at_bytes + info->batch_bytes < source->length_bytes)
		rc = replay->on_batch(replay, source, info, replay->head, replay->arg);
	if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
		replay->batch_rc = rc;
		return -EPROTO; /* not this copy's fault */
	}
	if (rc != 0)
		return rc;
	mt_replay_guess_add(&replay->guess, info->batch_bytes,
	    BATCH_HEADER_BYTES + info->desc_bytes);
	replay->done_bytes += info->batch_bytes;
	replay->at_bytes += info->batch_bytes;
	replay->prev_crc = info->batch_crc;
	replay->head_bytes = 0;
	return 0;
}

bool
mt_replay_needs_read(const struct mt_replay *replay, const struct mt_replay_read *read)
{
	return read->source_index == replay->source_index &&
	    replay->at_bytes + replay->head_bytes < read->offset_bytes + read->bytes;
}

int
mt_replay_take_head(struct mt_replay *replay, const struct mt_replay_read *read)
{
	const struct mt_replay_source *source = &replay->sources[replay->source_index];
	uint64_t end_bytes = read->offset_bytes + read->bytes;
	uint32_t need_bytes = BATCH_HEADER_BYTES;

	assert(read->source_index == replay->source_index);
	assert(replay->at_bytes + replay->head_bytes >= read->offset_bytes);
	for (;;) {
		struct batch_check check = { .id = source->id,
			.kind = source->kind,
			.offset_bytes = replay->at_bytes,
			.prev_crc = replay->prev_crc };
		uint64_t from_bytes = replay->at_bytes + replay->head_bytes;
		uint32_t bytes;
		int rc;

		if (replay->head_bytes < need_bytes) {
			if (from_bytes >= end_bytes)
				return 0;
			if (replay->head_bytes == 0)
				replay->head_replica = read->replica_index;
			bytes = (uint32_t)num_min(need_bytes - replay->head_bytes,
			    end_bytes - from_bytes);
			dev_copy_to_host(replay->shard->port->split,
			    replay->head + replay->head_bytes,
			    dev_ptr_add(read->msg->payload, from_bytes - read->offset_bytes),
			    bytes);
			replay->head_bytes += bytes;
			continue;
		}
		rc = batch_head_check(replay->head, replay->head_bytes, &check);
		if (rc == -EMSGSIZE) {
			/* The header has passed so far, the descriptors are still to come. */
			need_bytes = BATCH_HEADER_BYTES + check.info.desc_bytes;
			assert(need_bytes <= BATCH_HEAD_BYTES_MAX);
			continue;
		}
		if (rc != 0)
			return -EBADMSG;
		rc = replay_on_head(replay, &check.info);
		if (rc != 0)
			return rc;
		if (replay->shard->port->head_mirror != NULL)
			metric_add(&replay->shard->port->metrics[MT_METRIC_heads_missed], 1);
		replay->was_mirrored = false;
		return 1;
	}
}

int
mt_replay_distrust(struct mt_replay *replay)
{
	const struct mt_replay_source *source = &replay->sources[replay->source_index];

	log_error("shard %" PRIu32 ": what another gateway has sent of extent %" PRIu32 ".%" PRIu32
		  ".%" PRIu64 " does not fit what nodes have offset_bytes=%" PRIu64
		  ": it is read from those",
	    replay->shard->index, source->id.shard, source->id.epoch, source->id.counter,
	    replay->at_bytes);
	mt_head_mirror_clear(replay->shard->port->head_mirror);
	return -EAGAIN;
}

/* Would nothing be behind it? Then nothing but itself says that it is the extent's: a node has it. */
static bool
replay_is_last(const struct mt_replay *replay, const struct batch_info *info)
{
	uint64_t length_bytes = replay->sources[replay->source_index].length_bytes;

	assert(replay->at_bytes < length_bytes);
	return info->batch_bytes >= length_bytes - replay->at_bytes;
}

int
mt_replay_take_mirrored(struct mt_replay *replay)
{
	const struct mt_replay_source *source = &replay->sources[replay->source_index];
	struct mt_port *port = replay->shard->port;
	struct batch_check check = { .id = source->id,
		.kind = source->kind,
		.offset_bytes = replay->at_bytes,
		.prev_crc = replay->prev_crc,
		.is_probe = MUTANT(mirror_unchecked) };
	uint32_t bytes;
	int rc;

	assert(replay->source_index < replay->source_count);
	if (port->head_mirror == NULL || replay->head_bytes > 0)
		return 0;
	bytes = mt_head_mirror_get(port->head_mirror, &source->id, replay->at_bytes, replay->head);
	if (bytes == 0)
		return 0;
	/* Memory of a gateway that may be wrong, or gone mad: what it says has to fit what nodes have behind it. */
	rc = batch_head_check(replay->head, bytes, &check);
	if (rc == 0 && replay_is_last(replay, &check.info) && !MUTANT(mirror_last_believed))
		return 0;
	if (rc == 0) {
		replay->head_bytes = bytes;
		rc = replay_on_head(replay, &check.info);
		replay->head_bytes = 0;
		if (rc != 0 && rc != -EBADMSG && rc != -EPROTO)
			return rc;
	}
	if (rc != 0) {
		mt_head_mirror_forget(port->head_mirror, &source->id, replay->at_bytes);
		metric_add(&port->metrics[MT_METRIC_heads_refused], 1);
		/* Some edits of a manifest's batch may have been taken. */
		return rc == -EPROTO && source->kind != EXTENT_LOG ? -EAGAIN : 0;
	}
	metric_add(&port->metrics[MT_METRIC_heads_taken], 1);
	replay->was_mirrored = true;
	return 1;
}
