/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_runs.h -- runs at the storage nodes of fake_port.h, as a merge would have left them
 *
 * An extent is begun, batches of frames go into it, and a range of it becomes a run of a chunk.
 */
#ifndef CLEAVE_TESTS_FAKE_RUNS_H
#define CLEAVE_TESTS_FAKE_RUNS_H

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/replica.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "unit/fake_port.h"

/* The run extent that is being written, on the first three nodes. */
static struct fake_run_extent {
	struct mt_extent *extent;
	uint64_t length, run_from;
	uint32_t chain_crc;
	struct batch_info info;
	uint8_t descs[BATCH_HEAD_BYTES_MAX];
	uint8_t payload[BATCH_BYTES_MAX];
	uint32_t payload_bytes;
} fake_runs;

/* Frames from now on are compressed by this codec, where it makes them smaller. */
static uint8_t fake_runs_codec = ENGINE_NONE;

static inline struct fake_copy *
fake_runs_copy(const struct mt_extent *extent, uint32_t node)
{
	struct fake_copy *copy = fake_copy_find(&fake.nodes[node], &extent->id);

	cr_assert_not_null(copy);
	return copy;
}

static inline void
fake_runs_extent(void)
{
	static uint64_t counter = 1000;
	struct extent_id id = { fake.shard.index, fake.shard.epoch, ++counter };
	struct mt_replica replicas[3];

	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node request = { .id = id, .kind = EXTENT_RUN };
		struct wire_node_reply reply;

		cr_assert_eq(fake_do_create(&fake.nodes[i], &request, &reply), 0);
		replicas[i] =
		    (struct mt_replica){ .node_id = i + 1, .incarnation = reply.offset_bytes };
	}
	fake_runs.extent = mt_extent_restore(&fake.shard, &id, EXTENT_RUN, replicas, 3);
	cr_assert_not_null(fake_runs.extent);
	cr_assert_eq(mt_shard_extent_add(&fake.shard, fake_runs.extent), 0);
	fake_runs.length = fake_runs.run_from = 0;
	fake_runs.chain_crc = batch_chain_seed(&id, EXTENT_RUN);
}

static inline void
fake_runs_batch(uint64_t chunk, uint64_t flushed_sequence, uint64_t cut)
{
	fake_runs.info = (struct batch_info){ .id = fake_runs.extent->id,
		.kind = EXTENT_RUN,
		.offset_bytes = fake_runs.length,
		.chunk = chunk,
		.flushed_sequence = flushed_sequence,
		.cut = cut,
		.prev_crc = fake_runs.chain_crc };
	fake_runs.payload_bytes = 0;
}

static inline void
fake_runs_compress(uint8_t *stored, struct record_desc *frame)
{
	static uint8_t packed[ENGINE_RECORD_BYTES_MAX];
	const struct engine_ops *ops = engine_by_id(fake_runs_codec);
	void *state = ops->create();
	uint32_t bytes;

	if (ops->compress(state, ops->level_default, stored, frame->stored_bytes, packed,
		frame->stored_bytes * 7 / 8, &bytes) == 0) {
		memcpy(stored, packed, bytes);
		frame->stored_bytes = bytes;
		frame->codec_id = fake_runs_codec;
	}
	ops->destroy(state);
}

/* A frame of @count blocks from @block of the chunk on; a WRITE holds their patterns of @version. */
static inline void
fake_runs_frame(uint8_t kind, uint32_t block, uint32_t count, uint64_t version)
{
	uint8_t *stored = fake_runs.payload + fake_runs.payload_bytes;
	uint64_t chunk = fake_runs.info.chunk;
	struct record_desc frame = { .kind = kind,
		.segment = chunk / CLEAVE_SEGMENT_CHUNKS,
		.block = (uint32_t)(chunk % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS) + block,
		.block_count = count };

	if (kind == RECORD_WRITE) {
		frame.stored_bytes = count * CLEAVE_BLOCK_BYTES;
		for (uint32_t i = 0; i < count; i++) {
			fake_pattern(stored + i * CLEAVE_BLOCK_BYTES, frame.block + i, version);
			frame.block_crcs[i] =
			    crc32c(0, stored + i * CLEAVE_BLOCK_BYTES, CLEAVE_BLOCK_BYTES);
		}
		if (fake_runs_codec != ENGINE_NONE)
			fake_runs_compress(stored, &frame);
		frame.stored_crc = crc32c(0, stored, frame.stored_bytes);
		fake_runs.payload_bytes += frame.stored_bytes;
	}
	fake_runs.info.desc_bytes +=
	    record_encode(fake_runs.descs + fake_runs.info.desc_bytes, &frame);
	fake_runs.info.record_count++;
}

static inline void
fake_runs_batch_end(void)
{
	static uint8_t bytes[BATCH_BYTES_MAX];
	struct batch_info *info = &fake_runs.info;

	info->used_bytes = BATCH_HEADER_BYTES + info->desc_bytes + fake_runs.payload_bytes;
	info->batch_bytes = (uint32_t)num_round_up(info->used_bytes, BATCH_ALIGN);
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes + BATCH_HEADER_BYTES, fake_runs.descs, info->desc_bytes);
	memcpy(bytes + BATCH_HEADER_BYTES + info->desc_bytes, fake_runs.payload,
	    fake_runs.payload_bytes);
	batch_head_encode(bytes, info);
	for (uint32_t i = 0; i < 3; i++) {
		struct fake_copy *copy = fake_runs_copy(fake_runs.extent, i);

		cr_assert_leq(copy->length + info->batch_bytes, fake.slot_bytes);
		memcpy(copy->bytes + copy->length, bytes, info->batch_bytes);
		copy->length += info->batch_bytes;
	}
	fake_runs.length += info->batch_bytes;
	fake_runs.chain_crc = info->batch_crc;
}

/* A run is made of what was written since the extent's last run. */
static inline struct mt_run *
fake_runs_end(void)
{
	struct mt_run like = { .extent_index = fake_runs.extent->index,
		.offset_bytes = (uint32_t)fake_runs.run_from,
		.length_bytes = (uint32_t)(fake_runs.length - fake_runs.run_from),
		.flushed_sequence = fake_runs.info.flushed_sequence,
		.cut = fake_runs.info.cut };
	struct mt_run *run = mt_index_add_run(fake.shard.block_index, fake_runs.info.chunk, &like);

	cr_assert_not_null(run);
	fake_runs.run_from = fake_runs.length;
	return run;
}

/* A run of one batch with one frame of blocks of the first chunk of FAKE_SEGMENT. */
static inline struct mt_run *
fake_runs_one(uint64_t flushed_sequence, uint32_t block, uint32_t count, uint64_t version)
{
	if (fake_runs.extent == NULL)
		fake_runs_extent();
	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), flushed_sequence, 0);
	fake_runs_frame(RECORD_WRITE, block, count, version);
	fake_runs_batch_end();
	return fake_runs_end();
}

/* fake_runs_even -- a run of @frame_count frames of @frame_blocks each, all blocks of one version, from the chunk's first on. */
static inline struct mt_run *
fake_runs_even(uint64_t flushed_sequence, uint32_t frame_count, uint32_t frame_blocks,
    uint64_t version)
{
	fake_runs_batch(mt_chunk_number(FAKE_SEGMENT, 0), flushed_sequence, 0);
	for (uint32_t i = 0; i < frame_count; i++)
		fake_runs_frame(RECORD_WRITE, i * frame_blocks, frame_blocks, version);
	fake_runs_batch_end();
	return fake_runs_end();
}

/* fake_runs_start, fake_runs_fini -- a fake port that serves, with an extent for runs: and all of it again. */
static inline void
fake_runs_start(uint64_t seed)
{
	fake_init(seed, false);
	fake_start();
	fake_run_for(NUM_MS(10));
	memset(&fake_runs, 0, sizeof(fake_runs));
	fake_runs_extent();
}

static inline void
fake_runs_fini(void)
{
	cr_assert_eq(fake_replies_held(), 0, "every reply of a node was released");
	fake_fini();
}

/* READs that the nodes have got. */
static inline uint32_t
fake_read_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[WIRE_EXTENT_READ];
	return count;
}

#endif /* CLEAVE_TESTS_FAKE_RUNS_H */
