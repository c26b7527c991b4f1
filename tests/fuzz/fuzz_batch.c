/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_batch.c -- arbitrary bytes as a batch
 *
 * Input: a byte of choices, then the batch. The checker is told to expect the identity and the place
 * that the bytes themselves claim, and, by choice, the CRC is made to fit, so that the fuzzer gets
 * past the first fields. What passes must be consistent: it walks to its end and encodes to itself.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/batch_directory.h"
#include "unit/batch_builder.h"

#define CHOICE_RESEAL 1u
#define CHOICE_PAYLOAD 2u
#define CHOICE_AS_EXPECTED 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_records(const uint8_t *batch, const struct batch_info *info)
{
	struct record_iter it;
	struct record_desc record;
	uint32_t count = 0, at = BATCH_HEADER_BYTES;
	uint8_t again[BATCH_DESC_BYTES_MAX];
	const char *field = NULL;
	int rc;

	record_iter_init(&it, batch, info);
	while ((rc = record_iter_next(&it, &record, &field)) == 1) {
		uint32_t encoded_bytes = record_encode(again, &record);

		assert(memcmp(again, batch + at, encoded_bytes) == 0);
		assert(record.payload_offset_bytes + record.stored_bytes <= info->used_bytes);
		at += encoded_bytes;
		count++;
	}
	assert(rc == 0);
	assert(count == info->record_count);
	assert(at == BATCH_HEADER_BYTES + info->desc_bytes);
}

static void
check_directory(const uint8_t *batch, const struct batch_info *info)
{
	const uint8_t *bytes = batch + BATCH_HEADER_BYTES;
	struct batch_directory directory;
	uint8_t again[BATCH_HEAD_BYTES_MAX] = { 0 };
	const char *field = NULL;
	struct batch_place place;

	assert(batch_directory_decode(bytes, info->desc_bytes, &directory, &field) == 0);
	assert(batch_directory_encode(again, directory.entry_count, directory.bound_count) ==
	    info->desc_bytes);
	for (uint32_t i = 0; i < directory.entry_count; i++) {
		batch_directory_place(&directory, i, &place);
		batch_directory_put_place(again, i, &place);
	}
	for (uint32_t i = 0; i < directory.bound_count; i++)
		batch_directory_put_bound(again, i, batch_directory_bound(&directory, i));
	for (uint32_t i = 0; directory.bound_count == 0 && i < BATCH_SET_BYTES_MAX / 8; i++)
		batch_directory_put_bits(again, i, batch_directory_bits(&directory, i));
	assert(memcmp(again, bytes, info->desc_bytes) == 0);
}

static void
check_passed(const uint8_t *batch, const struct batch_info *info)
{
	uint32_t head_bytes = BATCH_HEADER_BYTES + info->desc_bytes;
	uint8_t head[BATCH_HEAD_BYTES_MAX];
	struct batch_info again = *info;

	if (info->is_directory)
		check_directory(batch, info);
	else if (info->kind != EXTENT_MANIFEST)
		check_records(batch, info);
	assert(head_bytes <= sizeof(head));
	memcpy(head + BATCH_HEADER_BYTES, batch + BATCH_HEADER_BYTES, info->desc_bytes);
	batch_head_encode(head, &again);
	assert(again.batch_crc == info->batch_crc);
	assert(memcmp(head, batch, head_bytes) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct batch_check check = { .kind = EXTENT_LOG };
	uint32_t batch_bytes;
	uint8_t *batch;
	int rc;

	if (bytes < 1 || bytes > 2 * BATCH_BYTES_MAX)
		return 0;
	batch_bytes = (uint32_t)bytes - 1;
	batch = malloc(batch_bytes == 0 ? 1 : batch_bytes);
	assert(batch != NULL);
	memcpy(batch, data + 1, batch_bytes);
	check.must_check_payload = (data[0] & CHOICE_PAYLOAD) != 0;
	if (batch_bytes >= BATCH_HEADER_BYTES && (data[0] & CHOICE_AS_EXPECTED) != 0) {
		num_put_le32(batch, BATCH_MAGIC);
		check.kind = (enum extent_kind)batch[5];
		check.id.shard = num_get_le32(batch + 8);
		check.id.epoch = num_get_le32(batch + 12);
		check.id.counter = num_get_le64(batch + 16);
		check.offset_bytes = num_get_le64(batch + 24);
		check.prev_crc = num_get_le32(batch + 68);
	}
	if (batch_bytes >= BATCH_HEADER_BYTES && (data[0] & CHOICE_RESEAL) != 0)
		builder_reseal(batch, batch_bytes);

	rc = batch_check_run(batch, batch_bytes, &check);
	assert(rc == 0 || rc == -ENODATA || rc == -EBADMSG || rc == -EMSGSIZE);
	assert((rc == 0) == (check.ret_field == NULL));
	if (rc == 0) {
		check_passed(batch, &check.info);
		assert(batch_head_check(batch, batch_bytes, &check) == 0);
	}
	free(batch);
	return 0;
}
