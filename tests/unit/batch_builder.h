/* SPDX-License-Identifier: Apache-2.0 */
/* batch_builder.h -- makes whole batches in memory, right ones and, by patching, wrong ones */
#ifndef CLEAVE_TESTS_BATCH_BUILDER_H
#define CLEAVE_TESTS_BATCH_BUILDER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "unit/engine_data.h"

struct batch_builder {
	struct batch_info info;
	uint8_t descs[BATCH_HEAD_BYTES_MAX];
	uint8_t payload[BATCH_BYTES_MAX];
	uint32_t payload_bytes;
};

static inline struct batch_builder *
builder_create(enum extent_kind kind)
{
	struct batch_builder *b = calloc(1, sizeof(*b));

	if (b == NULL)
		abort();
	b->info =
	    (struct batch_info){ .id = { .shard = 7, .epoch = 3, .counter = 0x1122334455667788 },
		    .kind = kind,
		    .offset_bytes = 12288,
		    .mark_bytes = 8192,
		    .base_sequence = 1000,
		    .cut = 2,
		    .prev_crc = 0xdeadbeef };
	if (kind == EXTENT_RUN) {
		b->info.chunk = 5 * 512 + 3;
		b->info.flushed_sequence = 999;
	}
	return b;
}

/* Adds @record; its stored bytes are made up, and their CRC is set. */
static inline void
builder_add(struct batch_builder *b, struct record_desc record)
{
	if (record.kind == RECORD_WRITE) {
		uint8_t *stored = b->payload + b->payload_bytes;

		data_fill(stored, record.stored_bytes, DATA_RANDOM, b->payload_bytes + 1);
		record.stored_crc = crc32c(0, stored, record.stored_bytes);
		for (uint32_t i = 0; i < record.block_count; i++)
			record.block_crcs[i] =
			    (record.codec_id & ENGINE_ENCRYPTED) != 0 ? 0 : 0x01010101u * (i + 1);
		b->payload_bytes += record.stored_bytes;
	}
	b->info.desc_bytes += record_encode(b->descs + b->info.desc_bytes, &record);
	b->info.record_count++;
}

/* A right record of @kind in the run's chunk. */
static inline struct record_desc
builder_record(uint8_t kind, uint8_t codec_id, uint32_t block_count, uint32_t stored_bytes)
{
	return (struct record_desc){ .kind = kind,
		.codec_id = codec_id,
		.stored_bytes = stored_bytes,
		.segment = 5,
		.block = 3 * 16384 + 100,
		.block_count = block_count,
		.attach = 0x0a0b0c0d,
		.request_id = 0x0102030405060708 };
}

/* The batch's bytes, exactly batch_bytes of them on the heap. @b->info is complete then. */
static inline uint8_t *
builder_finish(struct batch_builder *b)
{
	uint8_t *bytes;

	b->info.used_bytes = BATCH_HEADER_BYTES + b->info.desc_bytes + b->payload_bytes;
	b->info.batch_bytes = (uint32_t)num_round_up(b->info.used_bytes, BATCH_ALIGN);
	bytes = calloc(1, b->info.batch_bytes);
	if (bytes == NULL)
		abort();
	memcpy(bytes + BATCH_HEADER_BYTES, b->descs, b->info.desc_bytes);
	memcpy(bytes + BATCH_HEADER_BYTES + b->info.desc_bytes, b->payload, b->payload_bytes);
	batch_head_encode(bytes, &b->info);
	return bytes;
}

/* After a patch: the CRC over what now stands there, within @capacity. */
static inline void
builder_reseal(uint8_t *bytes, uint32_t capacity)
{
	uint32_t desc_bytes = num_get_le32(bytes + 64);
	uint32_t crc = crc32c(0, bytes, 124);

	if (desc_bytes > capacity - BATCH_HEADER_BYTES)
		desc_bytes = capacity - BATCH_HEADER_BYTES;
	num_put_le32(bytes + 124, crc32c(crc, bytes + BATCH_HEADER_BYTES, desc_bytes));
}

/* The builder's batch as a checker would expect it. */
static inline struct batch_check
builder_check(const struct batch_info *info)
{
	return (struct batch_check){ .id = info->id,
		.kind = info->kind,
		.offset_bytes = info->offset_bytes,
		.prev_crc = info->prev_crc,
		.must_check_payload = true };
}

/* A record of each kind: writes of every codec, raw and packed, and both tombstones. */
static inline struct batch_builder *
builder_sample(enum extent_kind kind)
{
	struct batch_builder *b = builder_create(kind);

	if (kind == EXTENT_MANIFEST) {
		data_fill(b->descs, 300, DATA_TEXT, 1);
		b->info.desc_bytes = 300;
		b->info.record_count = 4;
		return b;
	}
	builder_add(b, builder_record(RECORD_WRITE, ENGINE_LZ4, 1, 100));
	builder_add(b, builder_record(RECORD_WRITE, ENGINE_NONE, 1, 4096));
	builder_add(b, builder_record(RECORD_DISCARD, ENGINE_NONE, 16384 - 100, 0));
	builder_add(b, builder_record(RECORD_WRITE, ENGINE_ZSTD, 16, 777));
	builder_add(b, builder_record(RECORD_ZEROES, ENGINE_NONE, 1, 0));
	return b;
}

#endif /* CLEAVE_TESTS_BATCH_BUILDER_H */
