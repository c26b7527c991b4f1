/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_engine_codec.c -- what every codec owes: exact round trips, and bounds whatever it is fed
 *
 * Hostile sources and tight destinations end at a page that faults: the codecs' libraries are not
 * built with a sanitizer, which would therefore not see them.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "unit/engine_data.h"

#define CODEC_BYTES_MAX (256u * 1024u)
#define MUTATIONS 20000

static const uint32_t sizes[] = { 1, 2, 7, 12, 13, 100, 4095, 4096, 4097, 8192, 40000, 65536,
	CODEC_BYTES_MAX };

static const struct engine_ops *
codec_at(size_t index)
{
	return engine_at((uint32_t)index);
}

static uint8_t *
compress_all(const struct engine_ops *ops, void *state, const uint8_t *plain, uint32_t plain_bytes,
    uint32_t *ret_bytes)
{
	uint32_t cap_bytes = plain_bytes + plain_bytes / 100 + 1024;
	uint8_t *stored = malloc(cap_bytes);

	cr_assert_eq(ops->compress(state, ops->level_default, plain, plain_bytes, stored, cap_bytes,
			 ret_bytes),
	    0);
	stored = realloc(stored, *ret_bytes);
	cr_assert_not_null(stored);
	return stored;
}

static void
round_trip(const struct engine_ops *ops, void *state, int level, uint32_t bytes,
    enum data_kind kind)
{
	uint8_t *plain = data_create(bytes, kind, bytes);
	uint32_t cap_bytes = bytes + bytes / 100 + 1024, stored_bytes = 0;
	uint8_t *stored = malloc(cap_bytes);
	uint8_t *again = malloc(bytes);

	cr_assert_eq(ops->compress(state, level, plain, bytes, stored, cap_bytes, &stored_bytes), 0,
	    "%s level %d bytes %u", ops->name, level, bytes);
	stored = realloc(stored, stored_bytes);
	cr_assert_eq(ops->decompress(state, stored, stored_bytes, again, bytes), 0);
	cr_assert_arr_eq(again, plain, bytes);
	free(plain);
	free(stored);
	free(again);
}

Test(engine_codec, gives_back_what_it_was_given)
{
	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();

		cr_assert_not_null(state);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (int kind = 0; kind < DATA_KIND_NR; kind++)
				round_trip(ops, state, ops->level_default, sizes[i],
				    (enum data_kind)kind);
		ops->destroy(state);
	}
}

Test(engine_codec, works_at_every_level)
{
	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();

		for (int level = ops->level_min; level <= ops->level_max; level++) {
			round_trip(ops, state, level, 4096, DATA_TEXT);
			round_trip(ops, state, level, 65536, DATA_MIXED);
			round_trip(ops, state, level, 4096, DATA_RANDOM);
		}
		/* The hungriest of all: its memory was set aside at creation. */
		round_trip(ops, state, ops->level_max, CODEC_BYTES_MAX, DATA_MIXED);
		round_trip(ops, state, ops->level_max, CODEC_BYTES_MAX, DATA_RANDOM);
		ops->destroy(state);
	}
}

Test(engine_codec, more_effort_does_not_store_more)
{
	static const int lz4_levels[] = { -32, 1, 9 }, zstd_levels[] = { -7, 1, 9, 19 };
	uint8_t *plain = data_create(65536, DATA_TEXT, 3), *stored = malloc(65536);
	const struct engine_ops *ops = engine_by_name("lz4");
	uint32_t bytes, before = UINT32_MAX;
	void *state = ops->create();

	for (size_t i = 0; i < 3; i++, before = bytes) {
		cr_assert_eq(ops->compress(state, lz4_levels[i], plain, 65536, stored, 65536,
				 &bytes),
		    0);
		cr_assert_leq(bytes, before);
	}
	ops->destroy(state);
	ops = engine_by_name("zstd");
	state = ops->create();
	before = UINT32_MAX;
	for (size_t i = 0; i < 4; i++, before = bytes) {
		cr_assert_eq(ops->compress(state, zstd_levels[i], plain, 65536, stored, 65536,
				 &bytes),
		    0);
		cr_assert_leq(bytes, before);
	}
	ops->destroy(state);
	free(plain);
	free(stored);
}

/* Every capacity from 0 to what is needed: -ENOSPC, not a byte beyond; and the state survives. */
Test(engine_codec, what_does_not_fit_is_enospc)
{
	uint8_t *plain = data_create(4096, DATA_MIXED, 4);
	struct data_fence fence = data_fence_create(8192);

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();
		uint32_t needed = 0, ignored = 77;
		uint8_t *stored = compress_all(ops, state, plain, 4096, &needed);

		for (uint32_t cap = 0; cap < needed; cap += 1 + cap / 50) {
			int rc = ops->compress(state, ops->level_default, plain, 4096,
			    fence.end - cap, cap, &ignored);

			/* Near the end a codec may find a smaller form; it still stays inside. */
			if (rc != 0) {
				cr_assert_eq(rc, -ENOSPC, "%s capacity %u", ops->name, cap);
				cr_assert_eq(ignored, 77u);
			} else {
				cr_assert_leq(ignored, cap);
				ignored = 77;
			}
		}
		round_trip(ops, state, ops->level_default, 4096, DATA_TEXT);
		ops->destroy(state);
		free(stored);
	}
	data_fence_destroy(&fence);
	free(plain);
}

Test(engine_codec, a_truncated_source_is_refused_at_each_length)
{
	uint8_t *plain = data_create(4096, DATA_TEXT, 5);
	uint8_t *again = malloc(4096);

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();
		uint32_t bytes = 0;
		uint8_t *stored = compress_all(ops, state, plain, 4096, &bytes);

		for (uint32_t cut = 0; cut < bytes; cut++) {
			uint8_t *part = malloc(cut + 1);

			memcpy(part, stored, cut);
			part = realloc(part, cut == 0 ? 1 : cut);
			cr_assert_eq(ops->decompress(state, part, cut, again, 4096), -EBADMSG,
			    "%s cut at %u of %u", ops->name, cut, bytes);
			free(part);
		}
		ops->destroy(state);
		free(stored);
	}
	free(plain);
	free(again);
}

Test(engine_codec, another_length_than_stored_is_refused)
{
	static const uint32_t wrong[] = { 1, 4095, 4097, 8192 };
	uint8_t *plain = data_create(4096, DATA_TEXT, 6);

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();
		uint32_t bytes = 0;
		uint8_t *stored = compress_all(ops, state, plain, 4096, &bytes);

		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			uint8_t *dst = malloc(wrong[i]);

			cr_assert_eq(ops->decompress(state, stored, bytes, dst, wrong[i]), -EBADMSG,
			    "%s to %u", ops->name, wrong[i]);
			free(dst);
		}
		ops->destroy(state);
		free(stored);
	}
	free(plain);
}

/* The front of @plain in every length that matters, with not a byte behind it. */
static void
check_fronts(const struct engine_ops *ops, void *state, const uint8_t *plain, uint32_t plain_bytes)
{
	struct data_fence fence = data_fence_create(plain_bytes + 1);
	uint32_t stored_bytes = 0;
	uint8_t *stored = compress_all(ops, state, plain, plain_bytes, &stored_bytes);

	for (uint32_t bytes = 1; bytes <= plain_bytes; bytes += bytes < 40 ? 1 : 317) {
		uint8_t *dst = fence.end - bytes;

		memset(dst, 0x5a, bytes);
		dst[-1] = 0xa5;
		cr_assert_eq(ops->decompress_front(state, stored, stored_bytes, dst, bytes), 0,
		    "%s %u of %u", ops->name, bytes, plain_bytes);
		cr_assert_arr_eq(dst, plain, bytes);
		cr_assert_eq(dst[-1], 0xa5);
	}
	free(stored);
	data_fence_destroy(&fence);
}

Test(engine_codec, a_front_is_that_of_the_whole)
{
	uint32_t checked_count = 0;

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();

		for (int kind = 0; kind < DATA_KIND_NR && ops->decompress_front != NULL; kind++) {
			uint8_t *plain = data_create(65536, (enum data_kind)kind, 12);

			check_fronts(ops, state, plain, 65536);
			free(plain);
			checked_count++;
		}
		ops->destroy(state);
	}
	cr_assert_gt(checked_count, 0u);
}

Test(engine_codec, a_front_longer_than_the_whole_is_refused)
{
	uint8_t *plain = data_create(4096, DATA_TEXT, 5), *again = malloc(8192);

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();
		uint32_t bytes = 0;
		uint8_t *stored = compress_all(ops, state, plain, 4096, &bytes);

		if (ops->decompress_front != NULL) {
			cr_assert_eq(ops->decompress_front(state, stored, bytes, again, 4097),
			    -EBADMSG);
			cr_assert_eq(ops->decompress_front(state, stored, bytes / 2, again, 4096),
			    -EBADMSG);
		}
		ops->destroy(state);
		free(stored);
	}
	free(plain);
	free(again);
}

/* Mutated and invented sources: any answer but an overrun, and the state works afterwards. */
static void
attack(const struct engine_ops *ops, void *state, const uint8_t *stored, uint32_t stored_bytes)
{
	struct data_fence src_fence = data_fence_create(stored_bytes + 16);
	struct data_fence dst_fence = data_fence_create(70000);
	uint64_t random = 8;

	for (int i = 0; i < MUTATIONS; i++) {
		uint32_t src_bytes = 1 + (uint32_t)(data_random(&random) % (stored_bytes + 16));
		uint32_t dst_bytes = i % 2 ? 4096 : 1 + data_random(&random) % 69990;
		uint8_t *src = src_fence.end - src_bytes;
		uint8_t *dst = dst_fence.end - dst_bytes;
		uint32_t flips = 1 + data_random(&random) % 8;
		int rc;

		data_fill(src, src_bytes, DATA_RANDOM, data_random(&random));
		if (i % 4 != 0) {
			memcpy(src, stored, stored_bytes < src_bytes ? stored_bytes : src_bytes);
			while (flips-- > 0)
				src[data_random(&random) % src_bytes] ^=
				    (uint8_t)(1u << data_random(&random) % 8);
		}
		dst[-1] = 0xa5;
		rc = ops->decompress(state, src, src_bytes, dst, dst_bytes);
		cr_assert(rc == 0 || rc == -EBADMSG, "%s: %d", ops->name, rc);
		cr_assert_eq(dst[-1], 0xa5);
		if (ops->decompress_front == NULL)
			continue;
		rc = ops->decompress_front(state, src, src_bytes, dst, dst_bytes);
		cr_assert(rc == 0 || rc == -EBADMSG, "%s front: %d", ops->name, rc);
		cr_assert_eq(dst[-1], 0xa5);
	}
	data_fence_destroy(&src_fence);
	data_fence_destroy(&dst_fence);
}

Test(engine_codec, hostile_sources_never_overrun, .timeout = 100)
{
	uint8_t *plain = data_create(4096, DATA_MIXED, 7);

	for (size_t codec = 0; codec < engine_count(); codec++) {
		const struct engine_ops *ops = codec_at(codec);
		void *state = ops->create();
		uint32_t bytes = 0;
		uint8_t *stored = compress_all(ops, state, plain, 4096, &bytes);

		attack(ops, state, stored, bytes);
		round_trip(ops, state, ops->level_default, 4096, DATA_TEXT);
		ops->destroy(state);
		free(stored);
	}
	free(plain);
}

/* A zstd frame may claim a huge window or content; the answer takes no memory for it. */
Test(engine_codec, a_boastful_zstd_frame_is_refused)
{
	static const uint8_t window[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00 };
	static const uint8_t content[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0x7f, 0x01, 0x00, 0x00 };
	static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 0x04, 0x00, 0x00, 0x00, 1, 2,
		3, 4 };
	const struct engine_ops *ops = engine_by_name("zstd");
	uint8_t *dst = malloc(4096);
	void *state = ops->create();

	cr_assert_eq(ops->decompress(state, window, sizeof(window), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, content, sizeof(content), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, skippable, sizeof(skippable), dst, 4096), -EBADMSG);
	ops->destroy(state);
	free(dst);
}

/* Both say, or unfold to, more than there is room for. */
Test(engine_codec, a_boastful_snappy_block_is_refused)
{
	static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'a' };
	static const uint8_t endless[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	/* 4096 bytes promised, 64 given; then a copy from before the beginning. */
	static const uint8_t little[] = { 0x80, 0x20, 0x00, 'a', 0xfe, 0x01, 0x00 };
	static const uint8_t before[] = { 0x80, 0x20, 0x00, 'a', 0xfe, 0x02, 0x00 };
	const struct engine_ops *ops = engine_by_name("snappy");
	uint8_t *dst = malloc(4096);
	void *state = ops->create();

	cr_assert_eq(ops->decompress(state, huge, sizeof(huge), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, endless, sizeof(endless), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, little, sizeof(little), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, before, sizeof(before), dst, 4096), -EBADMSG);
	ops->destroy(state);
	free(dst);
}

Test(engine_codec, deflate_stops_at_the_room_there_is)
{
	uint8_t *plain = calloc(1, 65536), *dst = malloc(65536), stored[1024];
	const struct engine_ops *ops = engine_by_name("deflate");
	static const uint8_t reserved[] = { 0x07, 0x00, 0x00 };
	void *state = ops->create();
	uint32_t bytes = 0;

	cr_assert_eq(ops->compress(state, 0, plain, 65536, stored, sizeof(stored), &bytes), 0);
	memset(dst, 0x5a, 65536);
	cr_assert_eq(ops->decompress(state, stored, bytes, dst, 4096), -EBADMSG);
	for (int i = 4096; i < 65536; i++)
		cr_assert_eq(dst[i], 0x5a);
	cr_assert_eq(ops->decompress(state, reserved, sizeof(reserved), dst, 4096), -EBADMSG);
	cr_assert_eq(ops->decompress(state, stored, bytes, dst, 65536), 0);
	ops->destroy(state);
	free(plain);
	free(dst);
}
