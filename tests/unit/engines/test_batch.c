/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_batch.c -- a batch passes at its place behind its predecessor, and nothing else does
 *
 * Wrong batches are made from right ones by patching bytes; "resealed" ones carry a CRC that fits the
 * patch, so that the field's own check must catch it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "support/sanitized.h"
#include "unit/batch_builder.h"

static const enum extent_kind kinds[] = { EXTENT_LOG, EXTENT_RUN, EXTENT_MANIFEST };

/* ---- right batches ---- */

Test(batch, a_right_batch_passes_and_is_decoded)
{
	for (size_t k = 0; k < 3; k++) {
		struct batch_builder *b = builder_sample(kinds[k]);
		uint8_t *bytes = builder_finish(b);
		struct batch_check check = builder_check(&b->info);

		cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), 0);
		cr_assert_null(check.ret_field);
		cr_assert_eq(check.info.id.shard, b->info.id.shard);
		cr_assert_eq(check.info.id.epoch, b->info.id.epoch);
		cr_assert_eq(check.info.id.counter, b->info.id.counter);
		cr_assert_eq(check.info.kind, b->info.kind);
		cr_assert_eq(check.info.record_count, b->info.record_count);
		cr_assert_eq(check.info.offset_bytes, b->info.offset_bytes);
		cr_assert_eq(check.info.mark_bytes, b->info.mark_bytes);
		cr_assert_eq(check.info.base_sequence, b->info.base_sequence);
		cr_assert_eq(check.info.cut, b->info.cut);
		cr_assert_eq(check.info.chunk, b->info.chunk);
		cr_assert_eq(check.info.flushed_sequence, b->info.flushed_sequence);
		cr_assert_eq(check.info.batch_bytes, b->info.batch_bytes);
		cr_assert_eq(check.info.used_bytes, b->info.used_bytes);
		cr_assert_eq(check.info.desc_bytes, b->info.desc_bytes);
		cr_assert_eq(check.info.prev_crc, b->info.prev_crc);
		cr_assert_eq(check.info.batch_crc, b->info.batch_crc);
		free(bytes);
		free(b);
	}
}

Test(batch, its_records_are_walked_in_order)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);
	uint32_t payload_offset_bytes = BATCH_HEADER_BYTES + b->info.desc_bytes;
	static const uint32_t stored[] = { 100, 4096, 0, 777, 0 };
	static const uint32_t counts[] = { 1, 1, 16284, 16, 1 };
	struct record_iter it;
	struct record_desc record;
	const char *field = NULL;

	record_iter_init(&it, bytes, &b->info);
	for (uint32_t i = 0; i < 5; i++) {
		cr_assert_eq(record_iter_next(&it, &record, &field), 1);
		cr_assert_eq(record.sequence, 1000u + i);
		cr_assert_eq(record.stored_bytes, stored[i]);
		cr_assert_eq(record.block_count, counts[i]);
		cr_assert_eq(record.payload_offset_bytes, payload_offset_bytes);
		cr_assert_eq(record.segment, 5u);
		cr_assert_eq(record.block, 3u * 16384 + 100);
		cr_assert_eq(record.attach, 0x0a0b0c0du);
		cr_assert_eq(record.request_id, 0x0102030405060708u);
		if (record.kind == RECORD_WRITE)
			for (uint32_t k = 0; k < record.block_count; k++)
				cr_assert_eq(record.block_crcs[k], 0x01010101u * (k + 1));
		payload_offset_bytes += stored[i];
	}
	cr_assert_eq(record_iter_next(&it, &record, &field), 0);
	cr_assert_null(field);
	cr_assert_eq(payload_offset_bytes, b->info.used_bytes);
	free(bytes);
	free(b);
}

/* Frames of a run: 4 blocks each, a gap of 2 behind. */
Test(batch, a_walk_may_begin_at_a_block)
{
	struct batch_builder *b = builder_create(EXTENT_RUN);
	uint8_t *bytes;
	const char *field = NULL;

	for (uint32_t i = 0; i < 10; i++) {
		struct record_desc record =
		    builder_record(i % 3 == 2 ? RECORD_DISCARD : RECORD_WRITE, ENGINE_NONE, 4,
			i % 3 == 2 ? 0 : 4 * CLEAVE_BLOCK_BYTES);

		record.segment = 5;
		record.block = 3 * 16384 + 100 + 6 * i;
		builder_add(b, record);
	}
	bytes = builder_finish(b);
	for (uint32_t block = 0; block < 200; block++) {
		struct record_iter walk, skip;
		struct record_desc wanted, got;
		int rc, got_rc;

		record_iter_init(&walk, bytes, &b->info);
		record_iter_init(&skip, bytes, &b->info);
		while ((rc = record_iter_next(&walk, &wanted, &field)) == 1 &&
		    wanted.block % 16384 + wanted.block_count <= block) {
		}
		cr_assert_eq(record_iter_skip_to(&skip, block, &field), 0);
		got_rc = record_iter_next(&skip, &got, &field);
		cr_assert_eq(got_rc, rc, "block %u", block);
		cr_assert_eq(skip.payload_offset_bytes, walk.payload_offset_bytes);
		if (rc == 1) {
			cr_assert_eq(got.block, wanted.block);
			cr_assert_eq(got.sequence, wanted.sequence);
			cr_assert_eq(got.payload_offset_bytes, wanted.payload_offset_bytes);
		}
	}
	free(bytes);
	free(b);
}

Test(batch, records_take_40_bytes_and_a_crc_a_block)
{
	uint8_t out[BATCH_DESC_BYTES_MAX];
	struct record_desc record = builder_record(RECORD_WRITE, ENGINE_LZ4, 16, 5000);

	cr_assert_eq(record_encoded_bytes(&record), 104u);
	cr_assert_eq(record_encode(out, &record), 104u);
	record = builder_record(RECORD_DISCARD, ENGINE_NONE, 16284, 0);
	cr_assert_eq(record_encoded_bytes(&record), 40u);
	cr_assert_eq(record_encode(out, &record), 40u);
}

Test(batch, an_empty_one_carries_a_mark)
{
	struct batch_builder *b = builder_create(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	cr_assert_eq(batch_check_run(bytes, 4096, &check), 0);
	cr_assert_eq(check.info.mark_bytes, 8192u);
	free(bytes);
	free(b);
}

Test(batch, the_largest_one_passes)
{
	struct batch_builder *b = builder_create(EXTENT_LOG);
	const uint32_t room = BATCH_BYTES_MAX - BATCH_HEADER_BYTES - 4 * 104;
	uint8_t *bytes;

	for (int i = 0; i < 3; i++)
		builder_add(b, builder_record(RECORD_WRITE, ENGINE_NONE, 16, 65536));
	builder_add(b, builder_record(RECORD_WRITE, ENGINE_LZ4, 16, room - 3 * 65536));
	bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	cr_assert_eq(b->info.batch_bytes, BATCH_BYTES_MAX);
	cr_assert_eq(b->info.used_bytes, BATCH_BYTES_MAX);
	cr_assert_eq(batch_check_run(bytes, BATCH_BYTES_MAX, &check), 0);
	free(bytes);
	free(b);
}

Test(batch, four_hundred_records_pass_one_more_does_not)
{
	struct batch_builder *b = builder_create(EXTENT_LOG);
	uint8_t *bytes;

	for (uint32_t i = 0; i < BATCH_RECORDS_MAX; i++)
		builder_add(b, builder_record(RECORD_DISCARD, ENGINE_NONE, 1, 0));
	bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), 0);
	num_put_le16(bytes + 6, BATCH_RECORDS_MAX + 1);
	builder_reseal(bytes, b->info.batch_bytes);
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "record_count");
	free(bytes);
	free(b);
}

/* ---- the chain ---- */

Test(batch, the_seed_depends_on_all_of_the_identity)
{
	struct extent_id id = { .shard = 1, .epoch = 2, .counter = 3 };
	uint32_t seed = batch_chain_seed(&id, EXTENT_LOG);

	cr_assert_neq(batch_chain_seed(&id, EXTENT_RUN), seed);
	cr_assert_neq(batch_chain_seed(&(struct extent_id){ 2, 2, 3 }, EXTENT_LOG), seed);
	cr_assert_neq(batch_chain_seed(&(struct extent_id){ 1, 3, 3 }, EXTENT_LOG), seed);
	cr_assert_neq(batch_chain_seed(&(struct extent_id){ 1, 2, 4 }, EXTENT_LOG), seed);
	/* For ever: it is in every extent's first batch. */
	cr_assert_eq(batch_chain_seed(&id, EXTENT_LOG), 0xe4a51a66u);
}

Test(batch, each_one_follows_its_predecessor)
{
	struct batch_builder *first = builder_sample(EXTENT_LOG), *second = NULL;
	uint8_t *bytes[2];

	first->info.offset_bytes = first->info.mark_bytes = 0;
	first->info.prev_crc = batch_chain_seed(&first->info.id, EXTENT_LOG);
	bytes[0] = builder_finish(first);
	second = builder_sample(EXTENT_LOG);
	second->info.offset_bytes = first->info.batch_bytes;
	second->info.mark_bytes = 0;
	second->info.prev_crc = first->info.batch_crc;
	bytes[1] = builder_finish(second);

	struct batch_check check = builder_check(&first->info);

	cr_assert_eq(batch_check_run(bytes[0], first->info.batch_bytes, &check), 0);
	check.offset_bytes += check.info.batch_bytes;
	check.prev_crc = check.info.batch_crc;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), 0);
	/* The same behind a gap. */
	check.prev_crc ^= 1;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "prev_crc");
	/* A probe asks for no predecessor and looks at the head alone, but at all of that. */
	check.is_probe = true;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), 0);
	bytes[1][second->info.used_bytes - 1] ^= 1;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), 0);
	bytes[1][BATCH_HEADER_BYTES] ^= 1;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), -EBADMSG);
	check.offset_bytes += 4096;
	cr_assert_eq(batch_check_run(bytes[1], second->info.batch_bytes, &check), -EBADMSG);
	free(bytes[0]);
	free(bytes[1]);
	free(first);
	free(second);
}

/* ---- no batch ---- */

Test(batch, bytes_that_are_not_this_extents_end_a_chain)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b), *zeros = calloc(1, 4096);
	struct batch_check right = builder_check(&b->info), check = right;

	cr_assert_eq(batch_check_run(zeros, 4096, &check), -ENODATA);
	cr_assert_str_eq(check.ret_field, "magic");
	check.id.shard++;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -ENODATA);
	cr_assert_str_eq(check.ret_field, "extent_id");
	check = right;
	check.id.epoch++;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -ENODATA);
	check = right;
	check.id.counter++;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -ENODATA);
	cr_assert_eq(batch_head_check(bytes, b->info.batch_bytes, &check), -ENODATA);
	free(bytes);
	free(zeros);
	free(b);
}

Test(batch, one_that_went_astray_is_damage)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	check.offset_bytes += 4096;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "offset_bytes");
	check = builder_check(&b->info);
	check.kind = EXTENT_MANIFEST;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "kind");
	free(bytes);
	free(b);
}

Test(batch, a_kind_that_does_not_exist_is_refused_even_if_expected)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	bytes[5] = 4;
	check.kind = (enum extent_kind)4;
	builder_reseal(bytes, b->info.batch_bytes);
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "kind");
	free(bytes);
	free(b);
}

/* ---- too few bytes ---- */

Test(batch, truncated_at_each_length)
{
	for (size_t k = 0; k < 3; k++) {
		struct batch_builder *b = builder_sample(kinds[k]);
		uint8_t *bytes = builder_finish(b);
		uint32_t head_bytes = BATCH_HEADER_BYTES + b->info.desc_bytes;

		for (uint32_t have = 0; have < b->info.batch_bytes; have++) {
			uint8_t *part = malloc(have == 0 ? 1 : have);
			struct batch_check check = builder_check(&b->info);
			int expected = have < BATCH_HEADER_BYTES ? -ENODATA : -EMSGSIZE;

			memcpy(part, bytes, have);
			cr_assert_eq(batch_check_run(part, have, &check), expected, "%u", have);
			cr_assert_str_eq(check.ret_field, "bytes");
			if (expected == -EMSGSIZE)
				cr_assert_eq(check.info.batch_bytes, b->info.batch_bytes);
			if (have >= head_bytes)
				expected = 0;
			cr_assert_eq(batch_head_check(part, have, &check), expected, "%u", have);
			free(part);
		}
		free(bytes);
		free(b);
	}
}

/* ---- damage ---- */

Test(batch, a_flipped_bit_anywhere_is_refused)
{
	for (size_t k = 0; k < 3; k++) {
		struct batch_builder *b = builder_sample(kinds[k]);
		uint8_t *bytes = builder_finish(b);

		for (uint32_t bit = 0; bit < 8 * b->info.batch_bytes; bit++) {
			struct batch_check check = builder_check(&b->info);

			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			int rc = batch_check_run(bytes, b->info.batch_bytes, &check);

			/* Magic and identity say "not ours"; a larger size asks for more bytes. */
			cr_assert(rc == -EBADMSG || (bit / 8 < 24 && rc == -ENODATA) ||
				(bit / 8 >= 56 && bit / 8 < 68 && rc == -EMSGSIZE),
			    "bit %u: %d", bit, rc);
			cr_assert_not_null(check.ret_field);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		free(bytes);
		free(b);
	}
}

Test(batch, payload_is_checked_only_when_asked)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	bytes[BATCH_HEADER_BYTES + b->info.desc_bytes + 150] ^= 1;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "stored_crc");
	check.must_check_payload = false;
	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), 0);
	free(bytes);
	free(b);
}

Test(batch, padding_is_zeros)
{
	struct batch_builder *b = builder_sample(EXTENT_MANIFEST);
	uint8_t *bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	bytes[4095] = 1;
	cr_assert_eq(batch_check_run(bytes, 4096, &check), -EBADMSG);
	cr_assert_str_eq(check.ret_field, "padding");
	cr_assert_eq(batch_head_check(bytes, 4096, &check), 0); /* it does not look there */
	free(bytes);
	free(b);
}

/* ---- fields out of range under a good CRC ---- */

struct patch {
	enum extent_kind kind;
	uint32_t at; /* byte in the batch */
	uint32_t bytes;
	uint64_t value;
	const char *field; /* that must be named */
};

static void
apply(const struct patch *patch, uint8_t *bytes)
{
	uint64_t value = htole64(patch->value);

	memcpy(bytes + patch->at, &value, patch->bytes);
}

static void
refused(const struct patch *patch)
{
	struct batch_builder *b = builder_sample(patch->kind);
	uint8_t *bytes = builder_finish(b);
	/* Room behind it, so that sizes that grew are looked at and not only found too long. */
	uint8_t *roomy = calloc(1, 2 * BATCH_BYTES_MAX);
	struct batch_check check = builder_check(&b->info);

	memcpy(roomy, bytes, b->info.batch_bytes);
	apply(patch, roomy);
	builder_reseal(roomy, 2 * BATCH_BYTES_MAX);
	cr_assert_eq(batch_check_run(roomy, 2 * BATCH_BYTES_MAX, &check), -EBADMSG,
	    "byte %u = %llx", patch->at, (unsigned long long)patch->value);
	cr_assert_str_eq(check.ret_field, patch->field, "byte %u = %llx names %s", patch->at,
	    (unsigned long long)patch->value, check.ret_field);
	if (strcmp(patch->field, "padding") != 0)
		cr_assert_eq(batch_head_check(roomy, 2 * BATCH_BYTES_MAX, &check), -EBADMSG);
	free(roomy);
	free(bytes);
	free(b);
}

Test(batch, each_header_field_is_checked_and_named)
{
	/* The sample: 5 records of 44, 44, 40, 104 and 40 bytes and 4973 of payload; used 5373. */
	static const struct patch patches[] = {
		{ EXTENT_LOG, 4, 1, 2, "version" },
		{ EXTENT_LOG, 5, 1, EXTENT_RUN, "kind" },
		{ EXTENT_LOG, 5, 1, 0, "kind" },
		{ EXTENT_LOG, 6, 2, 4, "desc_bytes" },
		{ EXTENT_LOG, 6, 2, 6, "record_count" },
		{ EXTENT_LOG, 6, 2, 401, "record_count" },
		{ EXTENT_LOG, 24, 8, 0, "offset_bytes" },
		{ EXTENT_LOG, 32, 8, 12289, "mark_bytes" },
		{ EXTENT_LOG, 32, 8, UINT64_MAX, "mark_bytes" },
		{ EXTENT_LOG, 40, 8, UINT64_MAX - 4, "base_sequence" },
		{ EXTENT_LOG, 56, 4, 4096, "batch_bytes" },
		{ EXTENT_LOG, 56, 4, 12288, "batch_bytes" },
		{ EXTENT_LOG, 56, 4, 8191, "batch_bytes" },
		{ EXTENT_LOG, 56, 4, 0, "batch_bytes" },
		{ EXTENT_LOG, 60, 4, 0, "used_bytes" },
		{ EXTENT_LOG, 60, 4, 399, "used_bytes" },
		{ EXTENT_LOG, 60, 4, 5372, "used_bytes" },
		{ EXTENT_LOG, 60, 4, 5374, "used_bytes" },
		{ EXTENT_LOG, 60, 4, BATCH_BYTES_MAX + 1, "used_bytes" },
		{ EXTENT_LOG, 60, 4, UINT32_MAX, "used_bytes" },
		{ EXTENT_LOG, 64, 4, BATCH_HEAD_BYTES_MAX - 127, "desc_bytes" },
		{ EXTENT_LOG, 64, 4, UINT32_MAX, "desc_bytes" },
		{ EXTENT_LOG, 64, 4, UINT32_MAX - 127, "desc_bytes" },
		{ EXTENT_LOG, 64, 4, 271, "record_count" },
		{ EXTENT_LOG, 64, 4, 273, "desc_bytes" },
		{ EXTENT_LOG, 64, 4, 0, "record_count" },
		{ EXTENT_LOG, 68, 4, 0, "prev_crc" },
		{ EXTENT_LOG, 72, 8, 1, "chunk" },
		{ EXTENT_MANIFEST, 72, 8, 1, "chunk" },
		{ EXTENT_LOG, 80, 8, 1, "flushed_sequence" },
		{ EXTENT_MANIFEST, 80, 8, 1, "flushed_sequence" },
		{ EXTENT_LOG, 88, 1, 1, "form" },
		{ EXTENT_LOG, 89, 1, 1, "reserved" },
		{ EXTENT_LOG, 123, 1, 0x80, "reserved" },
		{ EXTENT_RUN, 72, 8, 5 * 512 + 4, "chunk" },
		{ EXTENT_RUN, 72, 8, UINT64_MAX, "chunk" },
		{ EXTENT_MANIFEST, 60, 4, 427, "used_bytes" },
		{ EXTENT_MANIFEST, 60, 4, 429, "used_bytes" },
		{ EXTENT_MANIFEST, 64, 4, 301, "used_bytes" },
	};

	for (size_t i = 0; i < NUM_COUNT(patches); i++)
		refused(&patches[i]);
}

#define RECORD0 128u            /* write, LZ4, 1 block, 100 bytes */
#define RECORD1 (RECORD0 + 44u) /* write, raw, 1 block */
#define RECORD2 (RECORD1 + 44u) /* discard up to the chunk's end */
#define RECORD3 (RECORD2 + 40u) /* write, zstd, 16 blocks, 777 bytes */

/* ---- encrypted records ---- */

static int
check_of_one(uint8_t codec_id, uint32_t block_count, uint32_t stored_bytes, uint32_t crc,
    const char **ret_field)
{
	struct batch_builder *b = builder_create(EXTENT_LOG);
	uint8_t *bytes;
	struct batch_check check;
	int rc;

	/* As a right one, whose descriptor is altered then: the encoder would refuse it. */
	builder_add(b, builder_record(RECORD_WRITE, ENGINE_LZ4, block_count, 100));
	b->payload_bytes = stored_bytes;
	b->descs[1] = codec_id;
	num_put_le32(b->descs + 4, stored_bytes);
	memset(b->descs + BATCH_DESC_FIXED_BYTES, 0, 4 * block_count);
	num_put_le32(b->descs + BATCH_DESC_FIXED_BYTES + 4 * (block_count - 1), crc);
	bytes = builder_finish(b);
	check = builder_check(&b->info);
	check.must_check_payload = false;
	rc = batch_check_run(bytes, b->info.batch_bytes, &check);
	*ret_field = check.ret_field;
	free(bytes);
	free(b);
	return rc;
}

Test(batch, an_encrypted_record_is_an_envelope_longer_and_has_no_crcs)
{
	static const struct {
		uint8_t codec;
		uint32_t block_count, stored_bytes, crc;
		const char *field; /* NULL: it passes */
	} cases[] = {
		{ ENGINE_LZ4, 1, 100, 0, NULL },
		{ ENGINE_LZ4, 1, 45, 0, NULL },
		{ ENGINE_LZ4, 1, 44, 0, "stored_bytes" },
		{ ENGINE_LZ4, 1, 1, 0, "stored_bytes" },
		{ ENGINE_ZSTD, 1, 4096 + 44, 0, NULL },
		{ ENGINE_ZSTD, 1, 4096 + 45, 0, "stored_bytes" },
		{ ENGINE_ZSTD, 16, 65536 + 104, 0, NULL },
		{ ENGINE_ZSTD, 16, 65536 + 105, 0, "stored_bytes" },
		{ ENGINE_ZSTD, 16, 105, 0, NULL },
		{ ENGINE_ZSTD, 16, 104, 0, "stored_bytes" },
		{ ENGINE_NONE, 2, 8192 + 48, 0, NULL },
		{ ENGINE_NONE, 2, 8192 + 47, 0, "stored_bytes" },
		{ ENGINE_NONE, 2, 8192, 0, "stored_bytes" },
		{ ENGINE_NONE, 2, 8192 + 49, 0, "stored_bytes" },
		{ ENGINE_LZ4, 1, 100, 1, "block_crcs" },
		{ ENGINE_LZ4, 16, 200, 0x80000000, "block_crcs" },
		{ ENGINE_ID_NR, 1, 100, 0, "codec_id" },
		{ 0x7f, 1, 100, 0, "codec_id" },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		const char *field = NULL;
		int rc = check_of_one(cases[i].codec | ENGINE_ENCRYPTED, cases[i].block_count,
		    cases[i].stored_bytes, cases[i].crc, &field);

		cr_assert_eq(rc, cases[i].field == NULL ? 0 : -EBADMSG, "case %zu: %d", i, rc);
		if (cases[i].field != NULL)
			cr_assert_str_eq(field, cases[i].field, "case %zu: %s", i, field);
	}
}

Test(batch, the_encoder_takes_no_crcs_of_an_encrypted_record, .signal = SIGABRT)
{
	struct record_desc record =
	    builder_record(RECORD_WRITE, ENGINE_LZ4 | ENGINE_ENCRYPTED, 1, 100);
	uint8_t out[BATCH_DESC_BYTES_MAX];

	record.block_crcs[0] = 1;
	(void)record_encode(out, &record);
}

Test(batch, each_record_field_is_checked_and_named)
{
	static const struct patch patches[] = {
		{ EXTENT_LOG, RECORD0 + 0, 1, 0, "record_kind" },
		{ EXTENT_LOG, RECORD0 + 0, 1, 5, "record_kind" },
		{ EXTENT_LOG, RECORD0 + 1, 1, ENGINE_ID_NR, "codec_id" },
		{ EXTENT_LOG, RECORD0 + 1, 1, 255, "codec_id" },
		{ EXTENT_LOG, RECORD0 + 1, 1, ENGINE_NONE, "stored_bytes" },
		{ EXTENT_LOG, RECORD0 + 2, 2, 1, "record_flags" },
		{ EXTENT_LOG, RECORD0 + 2, 2, 0x8000, "record_flags" },
		{ EXTENT_LOG, RECORD0 + 4, 4, 0, "stored_bytes" },
		{ EXTENT_LOG, RECORD0 + 4, 4, 4097, "stored_bytes" },
		{ EXTENT_LOG, RECORD0 + 4, 4, UINT32_MAX, "stored_bytes" },
		{ EXTENT_LOG, RECORD0 + 4, 4, 99, "used_bytes" },
		{ EXTENT_LOG, RECORD1 + 4, 4, 4095, "stored_bytes" },
		{ EXTENT_LOG, RECORD0 + 8, 8, UINT64_MAX, "segment" },
		{ EXTENT_LOG, RECORD0 + 8, 8, UINT64_MAX / 512 + 1, "segment" },
		{ EXTENT_LOG, RECORD0 + 16, 4, 8388608, "block" },
		{ EXTENT_LOG, RECORD0 + 16, 4, UINT32_MAX, "block" },
		{ EXTENT_LOG, RECORD0 + 20, 4, 0, "block_count" },
		{ EXTENT_LOG, RECORD0 + 20, 4, 17, "block_count" },
		{ EXTENT_LOG, RECORD0 + 20, 4, UINT32_MAX, "block_count" },
		{ EXTENT_LOG, RECORD3 + 16, 4, 16384 - 15, "block_count" },
		{ EXTENT_LOG, RECORD3 + 16, 4, 8388608 - 15, "block_count" },
		{ EXTENT_LOG, RECORD2 + 1, 1, ENGINE_LZ4, "codec_id" },
		{ EXTENT_LOG, RECORD2 + 1, 1, ENGINE_ENCRYPTED, "codec_id" },
		{ EXTENT_LOG, RECORD3 + 1, 1, ENGINE_ZSTD | ENGINE_ENCRYPTED, "block_crcs" },
		{ EXTENT_LOG, RECORD2 + 4, 4, 1, "stored_bytes" },
		{ EXTENT_LOG, RECORD2 + 20, 4, 0, "block_count" },
		{ EXTENT_LOG, RECORD2 + 20, 4, 16384 - 99, "block_count" },
		{ EXTENT_LOG, RECORD2 + 20, 4, 16385, "block_count" },
		{ EXTENT_LOG, RECORD2 + 20, 4, UINT32_MAX, "block_count" },
		{ EXTENT_LOG, RECORD2 + 24, 4, 1, "stored_crc" },
		{ EXTENT_LOG, RECORD3 + 24, 4, 1, "stored_crc" },
		{ EXTENT_RUN, RECORD0 + 8, 8, 4, "chunk" },
		{ EXTENT_RUN, RECORD0 + 16, 4, 2 * 16384, "chunk" },
	};

	for (size_t i = 0; i < NUM_COUNT(patches); i++) {
		struct patch patch = patches[i];

		/* The payload's CRC is found by the whole check alone. */
		if (patch.at == RECORD3 + 24) {
			struct batch_builder *b = builder_sample(patch.kind);
			uint8_t *bytes = builder_finish(b);
			struct batch_check check = builder_check(&b->info);

			apply(&patch, bytes);
			builder_reseal(bytes, b->info.batch_bytes);
			cr_assert_eq(batch_head_check(bytes, b->info.batch_bytes, &check), 0);
			cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), -EBADMSG);
			cr_assert_str_eq(check.ret_field, patch.field);
			free(bytes);
			free(b);
			continue;
		}
		refused(&patch);
	}
}

Test(batch, the_last_block_and_the_last_chunk_are_within)
{
	struct batch_builder *b = builder_create(EXTENT_RUN);
	struct record_desc record = builder_record(RECORD_WRITE, ENGINE_LZ4, 16, 65536);
	uint8_t *bytes;

	record.segment = UINT64_MAX / 512;
	record.block = 8388608 - 16;
	b->info.chunk = record.segment * 512 + 511;
	builder_add(b, record);
	record = builder_record(RECORD_ZEROES, ENGINE_NONE, 16384, 0);
	record.segment = UINT64_MAX / 512;
	record.block = 8388608 - 16384;
	builder_add(b, record);
	bytes = builder_finish(b);
	struct batch_check check = builder_check(&b->info);

	cr_assert_eq(batch_check_run(bytes, b->info.batch_bytes, &check), 0, "%s", check.ret_field);
	free(bytes);
	free(b);
}

Test(batch, hostile_bytes_under_a_good_crc_never_overrun)
{
	uint64_t random = 5;

	for (int i = 0; i < TEST_ROUNDS(60000, 6000); i++) {
		struct batch_builder *b = builder_sample(kinds[i % 3]);
		uint8_t *bytes = builder_finish(b);
		struct batch_check check = builder_check(&b->info);
		uint32_t changes = 1 + data_random(&random) % 6;

		while (changes-- > 0) {
			uint32_t at = 32 + data_random(&random) % (b->info.desc_bytes + 96);

			bytes[at] = (uint8_t)data_random(&random);
		}
		builder_reseal(bytes, b->info.batch_bytes);
		check.prev_crc = num_get_le32(bytes + 68);
		int rc = batch_check_run(bytes, b->info.batch_bytes, &check);

		cr_assert(rc == 0 || rc == -EBADMSG || rc == -EMSGSIZE);
		cr_assert_eq(rc == 0, check.ret_field == NULL);
		check.is_unwalked = true;
		if (kinds[i % 3] == EXTENT_RUN &&
		    batch_head_check(bytes, b->info.batch_bytes, &check) == 0) {
			struct record_iter it;
			const char *field = NULL;

			record_iter_init(&it, bytes, &check.info);
			rc = record_iter_skip_to(&it, data_random(&random) % 16384, &field);
			cr_assert_eq(rc == 0, field == NULL);
			cr_assert_leq(it.at, it.end);
		}
		free(bytes);
		free(b);
	}
}

/* ---- our own bugs ---- */

Test(batch, encoding_a_wrong_size_is_a_bug, .signal = SIGABRT)
{
	struct batch_builder *b = builder_sample(EXTENT_LOG);
	uint8_t *bytes = builder_finish(b);

	b->info.batch_bytes += 4096;
	batch_head_encode(bytes, &b->info);
}

Test(batch, encoding_a_wrong_record_is_a_bug, .signal = SIGABRT)
{
	uint8_t out[BATCH_DESC_BYTES_MAX];
	struct record_desc record = builder_record(RECORD_WRITE, ENGINE_LZ4, 17, 100);

	(void)record_encode(out, &record);
}

Test(batch, walking_edits_as_records_is_a_bug, .signal = SIGABRT)
{
	struct batch_builder *b = builder_sample(EXTENT_MANIFEST);
	uint8_t *bytes = builder_finish(b);
	struct record_iter it;

	record_iter_init(&it, bytes, &b->info);
}

/* ---- golden bytes ---- */

/*
 * Version 1 as it lies on disks: a difference means that old extents can no longer be read. With
 * CLEAVE_GOLDEN_WRITE set the files are written instead; do that only with a new BATCH_VERSION.
 */
static void
golden(const char *name, enum extent_kind kind)
{
	const char *root = getenv("CLEAVE_SOURCE_DIR");
	bool is_writing = getenv("CLEAVE_GOLDEN_WRITE") != NULL;
	struct batch_builder *b = builder_sample(kind);
	uint8_t *bytes = builder_finish(b), *expected = calloc(1, b->info.batch_bytes + 1);
	char path[4096];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/tests/golden/%s", root == NULL ? "." : root, name);
	file = fopen(path, is_writing ? "wb" : "rb");
	cr_assert_not_null(file, "%s", path);
	if (is_writing) {
		cr_assert_eq(fwrite(bytes, 1, b->info.batch_bytes, file), b->info.batch_bytes);
	} else {
		cr_assert_eq(fread(expected, 1, b->info.batch_bytes + 1, file),
		    b->info.batch_bytes);
		cr_assert_arr_eq(expected, bytes, b->info.batch_bytes);
	}
	cr_assert_eq(fclose(file), 0);
	free(expected);
	free(bytes);
	free(b);
}

Test(batch, the_bytes_of_version_1_are_for_ever)
{
	golden("batch_log.bin", EXTENT_LOG);
	golden("batch_run.bin", EXTENT_RUN);
	golden("batch_manifest.bin", EXTENT_MANIFEST);
}

/* An encrypted record's descriptor, as it lies on disks. */
Test(batch, the_descriptor_of_an_encrypted_record_is_for_ever)
{
	static const uint8_t golden_bytes[BATCH_DESC_FIXED_BYTES + 8] = { RECORD_WRITE, 0x81, 0, 0,
		0x39, 0x10, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 100, 192, 0, 0, 2, 0, 0, 0, 0x44, 0x33,
		0x22, 0x11, 0x0d, 0x0c, 0x0b, 0x0a, 8, 7, 6, 5, 4, 3, 2, 1 };
	struct record_desc record =
	    builder_record(RECORD_WRITE, ENGINE_LZ4 | ENGINE_ENCRYPTED, 2, 0x1039);
	uint8_t out[BATCH_DESC_BYTES_MAX];

	record.stored_crc = 0x11223344;
	cr_assert_eq(record_encode(out, &record), sizeof(golden_bytes));
	cr_assert_arr_eq(out, golden_bytes, sizeof(golden_bytes));
}
