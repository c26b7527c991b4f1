/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch_directory.c -- a run's directory as bytes: what passes, what is refused by which name, and golden bytes */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cleave/batch_directory.h"
#include "unit/batch_builder.h"

#define AT BATCH_HEADER_BYTES

static struct batch_builder *builder;
static uint8_t *bytes;

static const struct batch_place places[] = { { 0, 0x11121314, 1000, 7 },
	{ 8192, 0xdeadbeef, 168, 300 } };

/* Batches of blocks 7 to 99 and 300 to 309, and of the chunk's last, as bounds or as bits. */
static void
make(bool has_bits)
{
	static const uint32_t bounds[] = { 7, 100, 300, 310, 16383, 16384 };

	builder = builder_create(EXTENT_RUN);
	builder->info.is_directory = true;
	builder->info.desc_bytes =
	    batch_directory_encode(builder->descs, 2, has_bits ? 0 : NUM_COUNT(bounds));
	for (uint32_t i = 0; i < 2; i++)
		batch_directory_put_place(builder->descs, i, &places[i]);
	for (uint32_t i = 0; i < NUM_COUNT(bounds) && !has_bits; i++)
		batch_directory_put_bound(builder->descs, i, bounds[i]);
	if (has_bits) {
		batch_directory_put_bits(builder->descs, 0, ~UINT64_C(0x7f));
		batch_directory_put_bits(builder->descs, 1, UINT64_C(0xfffffffff));
		batch_directory_put_bits(builder->descs, 4, UINT64_C(0x3ff) << 44);
		batch_directory_put_bits(builder->descs, 255, UINT64_C(1) << 63);
	}
	bytes = builder_finish(builder);
}

static void
done(void)
{
	free(bytes);
	free(builder);
}

static int
check(struct batch_check *check)
{
	*check = builder_check(&builder->info);
	return batch_check_run(bytes, builder->info.batch_bytes, check);
}

Test(batch_directory, passes_and_comes_back)
{
	for (uint32_t has_bits = 0; has_bits < 2; has_bits++) {
		struct batch_directory directory;
		struct batch_check checked;
		struct batch_place place;
		const char *field = NULL;

		make(has_bits != 0);
		cr_assert_eq(check(&checked), 0, "%s", checked.ret_field);
		cr_assert(checked.info.is_directory);
		cr_assert_eq(checked.info.record_count, 0);
		cr_assert_eq(batch_head_check(bytes, AT + builder->info.desc_bytes, &checked), 0);
		cr_assert_eq(batch_directory_decode(bytes + AT, builder->info.desc_bytes,
				 &directory, &field),
		    0);
		cr_assert_eq(directory.entry_count, 2);
		for (uint32_t i = 0; i < 2; i++) {
			batch_directory_place(&directory, i, &place);
			cr_assert_eq(memcmp(&place, &places[i], sizeof(place)), 0);
		}
		cr_assert_eq(directory.bound_count, has_bits ? 0 : 6);
		if (has_bits)
			cr_assert_eq(batch_directory_bits(&directory, 4), UINT64_C(0x3ff) << 44);
		else
			cr_assert_eq(batch_directory_bound(&directory, 3), 310);
		done();
	}
}

static const struct patch {
	uint32_t at, bytes, value;
	const char *field;
} patches[] = {
	{ 6, 2, 1, "record_count" },
	{ 88, 1, 2, "form" },
	{ 88, 1, 0, "desc_bytes" }, /* as records they are nothing */
	{ 89, 1, 1, "reserved" },
	{ 68, 4, 1, "directory_crc" },
	{ 64, 4, 7, "directory_bytes" },
	{ AT, 2, 2, "directory_version" },
	{ AT + 2, 2, 0, "directory_entries" },
	{ AT + 2, 2, 3, "directory_bytes" },
	{ AT + 2, 2, 65535, "directory_bytes" },
	{ AT + 4, 2, 5, "directory_bounds" },
	{ AT + 4, 2, 4, "directory_bytes" },
	{ AT + 4, 2, 0, "directory_bytes" },
	{ AT + 6, 2, 1, "directory_reserved" },
	{ AT + 8, 4, 1, "directory_offset" },
	{ AT + 8, 4, 8192, "directory_offset" },
	{ AT + 16, 2, 128, "directory_head" },
	{ AT + 16, 2, 8193, "directory_offset" }, /* the next one would be in it */
	{ AT + 18, 2, 8, "directory_block" },
	{ AT + 18, 2, 300, "directory_block" },
	{ AT + 20, 4, 12288, "directory_offset" },
	{ AT + 28, 2, 0, "directory_head" },
	{ AT + 28, 2, 16385, "directory_head" },
	{ AT + 30, 2, 7, "directory_block" },
	{ AT + 30, 2, 299, "directory_block" },
	{ AT + 30, 2, 16384, "directory_block" },
	{ AT + 32, 2, 8, "directory_block" },
	{ AT + 34, 2, 7, "directory_bounds" },
	{ AT + 38, 2, 300, "directory_bounds" },
	{ AT + 42, 2, 16385, "directory_bounds" },
};

Test(batch_directory, wrong_fields_are_named)
{
	for (uint32_t i = 0; i < NUM_COUNT(patches); i++) {
		const struct patch *patch = &patches[i];
		struct batch_check checked;

		make(false);
		checked = builder_check(&builder->info);
		for (uint32_t k = 0; k < patch->bytes; k++)
			bytes[patch->at + k] = (uint8_t)(patch->value >> 8 * k);
		if (patch->at == 64) /* shorter: all of the batch is */
			num_put_le32(bytes + 60, AT + 7);
		if (patch->at == 68)
			checked.prev_crc = 1;
		builder_reseal(bytes, builder->info.batch_bytes);
		cr_assert_eq(batch_check_run(bytes, builder->info.batch_bytes, &checked), -EBADMSG,
		    "patch %u", i);
		cr_assert_str_eq(checked.ret_field, patch->field, "patch %u: %s", i,
		    checked.ret_field);
		done();
	}
}

Test(batch_directory, no_log_or_manifest_has_one)
{
	static const enum extent_kind kinds[] = { EXTENT_LOG, EXTENT_MANIFEST };

	for (uint32_t i = 0; i < NUM_COUNT(kinds); i++) {
		struct batch_check checked;

		make(false);
		bytes[5] = (uint8_t)kinds[i];
		memset(bytes + 72, 0, 16);
		builder_reseal(bytes, builder->info.batch_bytes);
		checked = builder_check(&builder->info);
		checked.kind = kinds[i];
		cr_assert_eq(batch_check_run(bytes, builder->info.batch_bytes, &checked), -EBADMSG);
		cr_assert_str_eq(checked.ret_field, "form");
		done();
	}
}

/* As it lies on disks. With CLEAVE_GOLDEN_WRITE set the file is written instead. */
static void
golden(const char *name, bool has_bits)
{
	const char *root = getenv("CLEAVE_SOURCE_DIR");
	bool is_writing = getenv("CLEAVE_GOLDEN_WRITE") != NULL;
	uint8_t expected[2 * BATCH_ALIGN];
	char path[4096];
	FILE *file;

	make(has_bits);
	cr_assert_eq(builder->info.batch_bytes, BATCH_ALIGN);
	(void)snprintf(path, sizeof(path), "%s/tests/golden/%s", root == NULL ? "." : root, name);
	file = fopen(path, is_writing ? "wb" : "rb");
	cr_assert_not_null(file, "%s", path);
	if (is_writing) {
		cr_assert_eq(fwrite(bytes, 1, BATCH_ALIGN, file), BATCH_ALIGN);
	} else {
		cr_assert_eq(fread(expected, 1, sizeof(expected), file), BATCH_ALIGN);
		cr_assert_arr_eq(expected, bytes, BATCH_ALIGN);
	}
	cr_assert_eq(fclose(file), 0);
	done();
}

Test(batch_directory, the_bytes_of_version_1_are_for_ever)
{
	golden("batch_directory.bin", false);
	golden("batch_directory_bits.bin", true);
}
