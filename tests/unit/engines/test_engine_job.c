/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_job.c -- each kind of job, each of its errors, each wrong shape */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/crc32c.h"
#include "cleave/batch.h"
#include "unit/engine_data.h"

#define BLOCK CLEAVE_BLOCK_BYTES

static struct engine_set *
set_create(void)
{
	struct engine_set_options options = { 0 };
	struct engine_set *set = engine_set_create(NULL, &options);

	cr_assert_not_null(set);
	return set;
}

/* Runs @job on a set of its own. */
static int
run(struct engine_job *job)
{
	struct engine_set *set = set_create();
	int rc = engine_submit(set, job);

	engine_set_destroy(set);
	return rc;
}

/* A STORE of @blocks blocks at @plain, all inputs right. */
static struct engine_job
store_of(uint8_t codec_id, const uint8_t *plain, uint8_t blocks, uint8_t *stored)
{
	return (struct engine_job){ .kind = ENGINE_JOB_STORE,
		.codec_id = codec_id,
		.level = engine_by_id(codec_id)->level_default,
		.src = data_dev_ptr(plain),
		.src_bytes = blocks * BLOCK,
		.dst = data_dev_ptr(stored),
		.dst_cap_bytes = blocks * BLOCK,
		.payload_crc = crc32c(0, plain, blocks * BLOCK),
		.block_count = blocks };
}

/* The LOAD that reads blocks [first, first + count) of what @store stored. */
static struct engine_job
load_of(const struct engine_job *store, uint8_t first, uint8_t count, uint8_t *dst)
{
	struct engine_job load = { .kind = ENGINE_JOB_LOAD,
		.codec_id = store->ret_codec_id,
		.src = store->dst,
		.src_bytes = store->dst_bytes,
		.dst = data_dev_ptr(dst),
		.dst_cap_bytes = count * BLOCK,
		.stored_crc = store->stored_crc,
		.record_blocks = store->block_count,
		.first_block = first,
		.block_count = count };

	memcpy(load.block_crcs, store->block_crcs + first, count * sizeof(uint32_t));
	return load;
}

/* ---- STORE ---- */

static void
check_store(const struct engine_job *job, const uint8_t *plain, const uint8_t *stored)
{
	cr_assert_eq(job->rc, 0);
	cr_assert_eq(job->stored_crc, crc32c(0, stored, job->dst_bytes));
	for (int i = 0; i < job->block_count; i++)
		cr_assert_eq(job->block_crcs[i], crc32c(0, plain + i * BLOCK, BLOCK));
}

Test(engine_store, keeps_what_compresses_well)
{
	for (uint8_t codec = ENGINE_LZ4; codec < ENGINE_ID_NR; codec++)
		for (uint8_t blocks = 1; blocks <= 16; blocks += 5) {
			uint8_t *plain = data_create(blocks * BLOCK, DATA_TEXT, blocks);
			uint8_t *stored = malloc(blocks * BLOCK);
			struct engine_job job = store_of(codec, plain, blocks, stored);

			cr_assert_eq(run(&job), 1);
			check_store(&job, plain, stored);
			cr_assert_eq(job.ret_codec_id, codec);
			cr_assert_leq(job.dst_bytes, blocks * BLOCK / 8 * 7);
			free(plain);
			free(stored);
		}
}

Test(engine_store, stores_raw_what_saves_too_little)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		uint8_t *plain = data_create(3 * BLOCK, DATA_RANDOM, codec);
		uint8_t *stored = malloc(3 * BLOCK);
		struct engine_job job = store_of(codec, plain, 3, stored);

		cr_assert_eq(run(&job), 1);
		check_store(&job, plain, stored);
		cr_assert_eq(job.ret_codec_id, ENGINE_NONE);
		cr_assert_eq(job.dst_bytes, 3 * BLOCK);
		cr_assert_arr_eq(stored, plain, 3 * BLOCK);
		free(plain);
		free(stored);
	}
}

/* Random tail after a compressible head: the size grows with the tail, and the rule cuts at 7/8. */
Test(engine_store, one_eighth_is_the_line)
{
	uint8_t *plain = malloc(BLOCK), *stored = malloc(BLOCK), *whole = malloc(2 * BLOCK);
	const struct engine_ops *ops = engine_by_id(ENGINE_LZ4);
	void *state = ops->create();
	bool has_kept = false, has_given_up = false;

	for (uint32_t tail = 3000; tail < BLOCK; tail += 8) {
		struct engine_job job;
		uint32_t bytes = 0;

		data_fill(plain, BLOCK, DATA_ZERO, 1);
		data_fill(plain + BLOCK - tail, tail, DATA_RANDOM, 1);
		job = store_of(ENGINE_LZ4, plain, 1, stored);
		cr_assert_eq(run(&job), 1);
		cr_assert_eq(ops->compress(state, 1, plain, BLOCK, whole, 2 * BLOCK, &bytes), 0);
		cr_assert_eq(job.ret_codec_id, bytes <= BLOCK / 8 * 7 ? ENGINE_LZ4 : ENGINE_NONE);
		has_kept = has_kept || job.ret_codec_id == ENGINE_LZ4;
		has_given_up = has_given_up || job.ret_codec_id == ENGINE_NONE;
	}
	cr_assert(has_kept && has_given_up);
	ops->destroy(state);
	free(plain);
	free(stored);
	free(whole);
}

Test(engine_store, refuses_a_payload_that_is_not_what_the_sender_sent)
{
	uint8_t *plain = data_create(2 * BLOCK, DATA_TEXT, 1), *stored = malloc(2 * BLOCK);
	struct engine_job job = store_of(ENGINE_LZ4, plain, 2, stored);

	job.payload_crc ^= 1;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -EBADMSG);
	job = store_of(ENGINE_LZ4, plain, 2, stored);
	plain[BLOCK + 17] ^= 0x10;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -EBADMSG);
	cr_assert_eq(job.dst_bytes, 0u);
	free(plain);
	free(stored);
}

Test(engine_store, stores_nothing_of_zeros)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++)
		for (uint8_t blocks = 1; blocks <= 16; blocks += 5) {
			uint8_t *plain = calloc(blocks, BLOCK), *stored = malloc(blocks * BLOCK);
			struct engine_job job = store_of(codec, plain, blocks, stored);

			memset(stored, 0x5a, blocks * BLOCK);
			cr_assert_eq(run(&job), 1);
			cr_assert_eq(job.rc, 0);
			cr_assert(job.is_zero);
			cr_assert_eq(job.dst_bytes, 0u);
			cr_assert_eq(job.ret_codec_id, ENGINE_NONE);
			for (int i = 0; i < blocks; i++)
				cr_assert_eq(job.block_crcs[i], crc32c(0, plain, BLOCK));
			for (int i = 0; i < blocks * (int)BLOCK; i++)
				cr_assert_eq(stored[i], 0x5a);
			free(plain);
			free(stored);
		}
}

Test(engine_store, a_single_bit_is_not_nothing)
{
	static const uint32_t places[] = { 0, 7, 8, 9, BLOCK - 1, BLOCK, 2 * BLOCK - 1 };
	uint8_t *plain = calloc(2, BLOCK), *stored = malloc(2 * BLOCK);

	for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct engine_job job;

		plain[places[i]] = 0x80;
		job = store_of(ENGINE_LZ4, plain, 2, stored);
		job.is_zero = true; /* what an earlier job left there */
		cr_assert_eq(run(&job), 1);
		check_store(&job, plain, stored);
		cr_assert_not(job.is_zero);
		cr_assert_gt(job.dst_bytes, 0u);
		plain[places[i]] = 0;
	}
	free(plain);
	free(stored);
}

Test(engine_store, zeros_have_to_be_what_the_sender_sent)
{
	uint8_t *plain = calloc(1, BLOCK), *stored = malloc(BLOCK);
	struct engine_job job = store_of(ENGINE_LZ4, plain, 1, stored);

	job.payload_crc ^= 1;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -EBADMSG);
	cr_assert_not(job.is_zero);
	free(plain);
	free(stored);
}

Test(engine_store, the_probe_tells_dense_payloads_from_others)
{
	for (uint8_t blocks = 1; blocks <= 16; blocks++)
		for (int kind = DATA_TEXT; kind < DATA_KIND_NR; kind++) {
			uint8_t *plain = data_create(blocks * BLOCK, (enum data_kind)kind, blocks);
			uint8_t *stored = malloc(blocks * BLOCK);
			struct engine_job job = store_of(ENGINE_LZ4, plain, blocks, stored);

			job.probe = ENGINE_PROBE_REPORT;
			cr_assert_eq(run(&job), 1);
			check_store(&job, plain, stored);
			cr_assert_eq(job.is_dense, kind == DATA_RANDOM);
			cr_assert_eq(job.dst_bytes < blocks * BLOCK, kind != DATA_RANDOM);
			free(plain);
			free(stored);
		}
}

/* Looks random where the probe looks, and repeats itself between: left out when told so. */
Test(engine_store, a_payload_that_looks_dense_is_stored_raw_when_asked)
{
	uint8_t *plain = data_create(2 * BLOCK, DATA_RANDOM, 1), *stored = malloc(2 * BLOCK);

	memcpy(plain + BLOCK, plain, BLOCK);
	for (int probe = ENGINE_PROBE_NONE; probe <= ENGINE_PROBE_SKIP; probe++) {
		struct engine_job job = store_of(ENGINE_LZ4, plain, 2, stored);

		job.probe = (enum engine_probe)probe;
		cr_assert_eq(run(&job), 1);
		check_store(&job, plain, stored);
		cr_assert_eq(job.is_dense, probe != ENGINE_PROBE_NONE);
		cr_assert_eq(job.ret_codec_id,
		    probe == ENGINE_PROBE_SKIP ? ENGINE_NONE : ENGINE_LZ4);
	}
	free(plain);
	free(stored);
}

/* ---- LOAD ---- */

static void
load_every_part(uint8_t codec, enum data_kind kind)
{
	uint8_t *plain = data_create(5 * BLOCK, kind, 3), *stored = malloc(5 * BLOCK);
	struct engine_set *set = set_create();
	struct engine_job store = store_of(codec, plain, 5, stored);

	cr_assert_eq(engine_submit(set, &store), 1);
	stored = realloc(stored, store.dst_bytes);
	store.dst = data_dev_ptr(stored);
	for (uint8_t first = 0; first < 5; first++)
		for (uint8_t count = 1; first + count <= 5; count++) {
			uint8_t *dst = malloc(count * BLOCK);
			struct engine_job load = load_of(&store, first, count, dst);

			cr_assert_eq(engine_submit(set, &load), 1);
			cr_assert_eq(load.rc, 0);
			cr_assert_eq(load.dst_bytes, count * BLOCK);
			cr_assert_arr_eq(dst, plain + first * BLOCK, count * BLOCK);
			free(dst);
		}
	engine_set_destroy(set);
	free(plain);
	free(stored);
}

Test(engine_load, gives_back_any_part_of_a_record)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		load_every_part(codec, DATA_TEXT);
		load_every_part(codec, DATA_RANDOM);
	}
}

struct load_fixture {
	uint8_t *plain, *stored, *dst;
	struct engine_job store, load;
};

static void
load_setup(struct load_fixture *f, uint8_t codec)
{
	f->plain = data_create(4 * BLOCK, DATA_TEXT, 9);
	f->stored = malloc(4 * BLOCK);
	f->dst = malloc(4 * BLOCK);
	f->store = store_of(codec, f->plain, 4, f->stored);
	cr_assert_eq(run(&f->store), 1);
	f->load = load_of(&f->store, 1, 2, f->dst);
}

static void
load_teardown(struct load_fixture *f)
{
	free(f->plain);
	free(f->stored);
	free(f->dst);
}

Test(engine_load, refuses_stored_bytes_that_have_changed)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		struct load_fixture f;

		load_setup(&f, codec);
		for (uint32_t at = 0; at < f.store.dst_bytes; at += 1 + f.store.dst_bytes / 97) {
			f.stored[at] ^= 4;
			cr_assert_eq(run(&f.load), 1);
			cr_assert_eq(f.load.rc, -EBADMSG, "codec %d byte %u", codec, at);
			f.stored[at] ^= 4;
		}
		cr_assert_eq(run(&f.load), 1);
		cr_assert_eq(f.load.rc, 0);
		load_teardown(&f);
	}
}

/* Each bit of a record, whichever part of it is wanted: also of what an early stop never comes to. */
Test(engine_load, refuses_each_flipped_bit_for_each_block, .timeout = 100)
{
	uint8_t *plain = data_create(4 * BLOCK, DATA_TEXT, 9), *stored = malloc(4 * BLOCK);
	uint8_t *dst = malloc(BLOCK);
	struct engine_set *set = set_create();

	for (uint8_t codec = ENGINE_LZ4; codec <= ENGINE_ZSTD; codec++) {
		struct engine_job store = store_of(codec, plain, 4, stored);

		cr_assert_eq(engine_submit(set, &store), 1);
		for (uint32_t bit = 0; bit < 8 * store.dst_bytes; bit++) {
			struct engine_job load = load_of(&store, bit % 4, 1, dst);

			stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert_eq(engine_submit(set, &load), 1);
			cr_assert_eq(load.rc, -EBADMSG, "codec %d bit %u", codec, bit);
			cr_assert_eq(load.dst_bytes, 0u);
			stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	engine_set_destroy(set);
	free(plain);
	free(stored);
	free(dst);
}

/*
 * A record that yields more blocks than it says, under a good CRC: refused as a whole, and to its end. Of a front its
 * blocks are given where they are what was written, and no others; no byte is written beyond them.
 */
Test(engine_load, a_record_that_claims_too_many_bytes)
{
	uint8_t *plain = data_create(8 * BLOCK, DATA_TEXT, 9), *stored = malloc(8 * BLOCK);
	uint8_t *dst = malloc(5 * BLOCK);

	for (uint8_t codec = ENGINE_LZ4; codec < ENGINE_ID_NR; codec++) {
		struct engine_job store = store_of(codec, plain, 8, stored);

		cr_assert_eq(run(&store), 1);
		store.block_count = 4; /* is what the index says of it */
		for (uint8_t first = 0; first < 4; first++)
			for (uint8_t count = 1; first + count <= 4; count++) {
				struct engine_job load = load_of(&store, first, count, dst);
				bool is_front = first + count < 4;

				memset(dst, 0x5a, 5 * BLOCK);
				cr_assert_eq(run(&load), 1);
				cr_assert(load.rc == -EBADMSG || (is_front && load.rc == 0));
				cr_assert_eq(dst[count * BLOCK], 0x5a);
				if (load.rc == 0)
					cr_assert_arr_eq(dst, plain + first * BLOCK, count * BLOCK);
				load.block_crcs[count - 1] ^= 1;
				cr_assert_eq(run(&load), 1);
				cr_assert_eq(load.rc, -EBADMSG);
			}
	}
	free(plain);
	free(stored);
	free(dst);
}

Test(engine_load, a_front_is_written_nowhere_else)
{
	uint8_t *plain = data_create(4 * BLOCK, DATA_TEXT, 9), *stored = malloc(4 * BLOCK);
	struct data_fence fence = data_fence_create(3 * BLOCK);

	for (uint8_t codec = ENGINE_LZ4; codec < ENGINE_ID_NR; codec++) {
		struct engine_job store = store_of(codec, plain, 4, stored);

		cr_assert_eq(run(&store), 1);
		for (uint8_t count = 1; count <= 2; count++) {
			uint8_t *dst = fence.end - count * BLOCK;
			struct engine_job load = load_of(&store, 0, count, dst);

			dst[-1] = 0xa5;
			cr_assert_eq(run(&load), 1);
			cr_assert_eq(load.rc, 0);
			cr_assert_arr_eq(dst, plain, count * BLOCK);
			cr_assert_eq(dst[-1], 0xa5);
		}
	}
	data_fence_destroy(&fence);
	free(plain);
	free(stored);
}

/* The stored CRC passes, the block is not the one that was written: a misdirected or stale read. */
Test(engine_load, refuses_blocks_that_are_not_those_asked_for)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++)
		for (int block = 0; block < 2; block++) {
			struct load_fixture f;

			load_setup(&f, codec);
			f.load.block_crcs[block] ^= 0x8000;
			cr_assert_eq(run(&f.load), 1);
			cr_assert_eq(f.load.rc, -EBADMSG);
			load_teardown(&f);
		}
}

/* Damage below a CRC that was made to match: the decompressor itself must notice or stay inside. */
Test(engine_load, survives_hostile_bytes_under_a_good_crc)
{
	uint64_t random = 11;
	struct engine_set *set = set_create();

	for (int i = 0; i < 4000; i++) {
		uint8_t codec = (uint8_t)(i % ENGINE_ID_NR);
		uint8_t blocks = (uint8_t)(1 + data_random(&random) % 16);
		uint32_t bytes = 1 + (uint32_t)(data_random(&random) % ENGINE_RECORD_BYTES_MAX);
		uint8_t *src = data_create(bytes, DATA_RANDOM, data_random(&random));
		uint8_t *dst = malloc(blocks * BLOCK);
		struct engine_job job = { .kind = ENGINE_JOB_LOAD,
			.codec_id = codec,
			.src = data_dev_ptr(src),
			.src_bytes = bytes,
			.dst = data_dev_ptr(dst),
			.dst_cap_bytes = blocks * BLOCK,
			.stored_crc = crc32c(0, src, bytes),
			.record_blocks = blocks,
			.block_count = blocks };

		cr_assert_eq(engine_submit(set, &job), 1);
		cr_assert_eq(job.rc, -EBADMSG);
		free(src);
		free(dst);
	}
	engine_set_destroy(set);
}

Test(engine_load, refuses_a_raw_record_of_another_length)
{
	struct load_fixture f;

	load_setup(&f, ENGINE_NONE);
	f.load.src_bytes = 3 * BLOCK;
	f.load.stored_crc = crc32c(0, f.stored, 3 * BLOCK);
	cr_assert_eq(run(&f.load), 1);
	cr_assert_eq(f.load.rc, -EBADMSG);
	load_teardown(&f);
}

Test(engine_load, refuses_more_bytes_than_a_record_has)
{
	uint8_t *src = data_create(ENGINE_RECORD_BYTES_MAX + 1, DATA_ZERO, 1), *dst = malloc(BLOCK);
	struct engine_job job = { .kind = ENGINE_JOB_LOAD,
		.codec_id = ENGINE_LZ4,
		.src = data_dev_ptr(src),
		.src_bytes = ENGINE_RECORD_BYTES_MAX + 1,
		.dst = data_dev_ptr(dst),
		.dst_cap_bytes = BLOCK,
		.stored_crc = crc32c(0, src, ENGINE_RECORD_BYTES_MAX + 1),
		.record_blocks = 1,
		.block_count = 1 };

	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -EBADMSG);
	free(src);
	free(dst);
}

/* ---- the simple ones ---- */

Test(engine_job, crc_is_that_of_the_source)
{
	uint8_t *src = data_create(10001, DATA_RANDOM, 1);
	struct engine_job job = { .kind = ENGINE_JOB_CRC,
		.src = data_dev_ptr(src),
		.src_bytes = 10001 };

	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, 0);
	cr_assert_eq(job.payload_crc, crc32c(0, src, 10001));
	free(src);
}

Test(engine_job, copy_copies_and_zero_zeroes)
{
	uint8_t *src = data_create(5000, DATA_RANDOM, 1), *dst = data_create(6000, DATA_TEXT, 2);
	struct engine_job job = { .kind = ENGINE_JOB_COPY,
		.src = data_dev_ptr(src),
		.src_bytes = 5000,
		.dst = data_dev_ptr(dst),
		.dst_cap_bytes = 6000 };
	uint8_t behind = dst[5000];

	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, 0);
	cr_assert_eq(job.dst_bytes, 5000u);
	cr_assert_arr_eq(dst, src, 5000);
	cr_assert_eq(dst[5000], behind);
	job.kind = ENGINE_JOB_ZERO;
	job.src = DEV_PTR_NULL;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.dst_bytes, 5000u);
	for (int i = 0; i < 5000; i++)
		cr_assert_eq(dst[i], 0);
	cr_assert_eq(dst[5000], behind);
	free(src);
	free(dst);
}

Test(engine_job, copy_may_overlap)
{
	uint8_t *data = data_create(5000, DATA_RANDOM, 1),
		*before = data_create(5000, DATA_RANDOM, 1);
	struct engine_job job = { .kind = ENGINE_JOB_COPY,
		.src = data_dev_ptr(data),
		.src_bytes = 4000,
		.dst = data_dev_ptr(data + 1000),
		.dst_cap_bytes = 4000 };

	cr_assert_eq(run(&job), 1);
	cr_assert_arr_eq(data + 1000, before, 4000);
	free(data);
	free(before);
}

Test(engine_job, compress_and_decompress_are_inverse)
{
	uint8_t *plain = data_create(10000, DATA_TEXT, 1), *again = malloc(10000);

	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		uint8_t *stored = malloc(10000);
		struct engine_job job = { .kind = ENGINE_JOB_COMPRESS,
			.codec_id = codec,
			.level = engine_by_id(codec)->level_default,
			.src = data_dev_ptr(plain),
			.src_bytes = 10000,
			.dst = data_dev_ptr(stored),
			.dst_cap_bytes = 10000 };

		cr_assert_eq(run(&job), 1);
		cr_assert_eq(job.rc, 0);
		cr_assert_eq(job.ret_codec_id, codec);
		struct engine_job back = { .kind = ENGINE_JOB_DECOMPRESS,
			.codec_id = codec,
			.src = data_dev_ptr(stored),
			.src_bytes = job.dst_bytes,
			.dst = data_dev_ptr(again),
			.dst_cap_bytes = 10000 };

		cr_assert_eq(run(&back), 1);
		cr_assert_eq(back.rc, 0);
		cr_assert_eq(back.dst_bytes, 10000u);
		cr_assert_arr_eq(again, plain, 10000);
		back.dst_cap_bytes = 9999;
		cr_assert_eq(run(&back), 1);
		cr_assert_eq(back.rc, -EBADMSG);
		job.dst_cap_bytes = 10;
		cr_assert_eq(run(&job), 1);
		cr_assert_eq(job.rc, -ENOSPC);
		free(stored);
	}
	free(plain);
	free(again);
}

Test(engine_job, batch_reports_what_the_check_found)
{
	uint8_t *data = data_create(4096, DATA_ZERO, 1);
	struct batch_check check = { .id = { .shard = 3, .epoch = 4, .counter = 5 },
		.kind = EXTENT_LOG,
		.must_check_payload = true };
	struct batch_info info = { .id = check.id,
		.kind = EXTENT_LOG,
		.batch_bytes = 4096,
		.used_bytes = BATCH_HEADER_BYTES };
	struct engine_job job = { .kind = ENGINE_JOB_BATCH,
		.src = data_dev_ptr(data),
		.src_bytes = 4096,
		.batch = &check };

	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -ENODATA);
	batch_head_encode(data, &info);
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, 0);
	data[100] ^= 1;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, -EBADMSG);
	free(data);
}

/* ---- shapes ---- */

/* A job that is right in all its fields for every kind. */
static struct engine_job
good_job(enum engine_job_kind kind, uint8_t *src, uint8_t *dst, struct batch_check *check)
{
	return (struct engine_job){ .kind = kind,
		.codec_id = ENGINE_LZ4,
		.level = 1,
		.src = data_dev_ptr(src),
		.src_bytes = BLOCK,
		.dst = data_dev_ptr(dst),
		.dst_cap_bytes = BLOCK,
		.record_blocks = 1,
		.block_count = 1,
		.batch = check };
}

#define REFUSED(kind, change)                                                                      \
	do {                                                                                       \
		struct engine_job job = good_job(kind, src, dst, &check);                          \
                                                                                                   \
		cr_assert_eq(engine_submit(set, &job), 1);                                         \
		job = good_job(kind, src, dst, &check);                                            \
		change;                                                                            \
		cr_assert_eq(engine_submit(set, &job), -EINVAL, "%s %s", #kind, #change);          \
		cr_assert_eq(engine_submit_urgent(set, &job), -EINVAL);                            \
	} while (0)

Test(engine_job, a_wrong_shape_is_einval)
{
	uint8_t *src = data_create(BLOCK, DATA_TEXT, 1), *dst = malloc(BLOCK);
	struct batch_check check = { .kind = EXTENT_LOG };
	struct engine_set *set = set_create();
	struct engine_job unknown = good_job(ENGINE_JOB_KIND_NR, src, dst, &check);

	cr_assert_eq(engine_submit(set, &unknown), -EINVAL);
	unknown.kind = (enum engine_job_kind)99;
	cr_assert_eq(engine_submit(set, &unknown), -EINVAL);

	REFUSED(ENGINE_JOB_STORE, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_STORE, job.dst = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_STORE, job.src_bytes = BLOCK - 1);
	REFUSED(ENGINE_JOB_STORE, job.src_bytes = 2 * BLOCK);
	REFUSED(ENGINE_JOB_STORE, job.dst_cap_bytes = BLOCK - 1);
	REFUSED(ENGINE_JOB_STORE, job.block_count = 0);
	REFUSED(ENGINE_JOB_STORE, (job.block_count = 17, job.src_bytes = 17 * BLOCK));
	REFUSED(ENGINE_JOB_STORE, job.codec_id = ENGINE_ID_NR);
	REFUSED(ENGINE_JOB_STORE, job.level = 13);
	REFUSED(ENGINE_JOB_STORE, job.level = -65);
	REFUSED(ENGINE_JOB_LOAD, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_LOAD, job.dst = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_LOAD, job.src_bytes = 0);
	REFUSED(ENGINE_JOB_LOAD, job.dst_cap_bytes = BLOCK - 1);
	REFUSED(ENGINE_JOB_LOAD, job.record_blocks = 0);
	REFUSED(ENGINE_JOB_LOAD, job.record_blocks = 17);
	REFUSED(ENGINE_JOB_LOAD, job.block_count = 0);
	REFUSED(ENGINE_JOB_LOAD, job.block_count = 2);
	REFUSED(ENGINE_JOB_LOAD, job.first_block = 1);
	REFUSED(ENGINE_JOB_LOAD, (job.first_block = 255, job.block_count = 2));
	REFUSED(ENGINE_JOB_LOAD, job.codec_id = 255);
	REFUSED(ENGINE_JOB_BATCH, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_BATCH, job.src_bytes = 0);
	REFUSED(ENGINE_JOB_BATCH, job.batch = NULL);
	REFUSED(ENGINE_JOB_CRC, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_CRC, job.src_bytes = 0);
	REFUSED(ENGINE_JOB_COPY, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_COPY, job.dst = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_COPY, job.dst_cap_bytes = BLOCK - 1);
	REFUSED(ENGINE_JOB_ZERO, job.dst = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_ZERO, job.dst_cap_bytes = BLOCK - 1);
	REFUSED(ENGINE_JOB_ZERO, job.src_bytes = 0);
	REFUSED(ENGINE_JOB_COMPRESS, job.src = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_COMPRESS, job.src_bytes = 256 * 1024 + 1);
	REFUSED(ENGINE_JOB_COMPRESS, job.dst_cap_bytes = 0);
	REFUSED(ENGINE_JOB_COMPRESS, job.codec_id = ENGINE_ID_NR);
	REFUSED(ENGINE_JOB_COMPRESS, job.level = 1000);
	REFUSED(ENGINE_JOB_DECOMPRESS, job.src_bytes = 256 * 1024 + 1);
	REFUSED(ENGINE_JOB_DECOMPRESS, job.dst_cap_bytes = 256 * 1024 + 1);
	REFUSED(ENGINE_JOB_DECOMPRESS, job.dst = DEV_PTR_NULL);
	REFUSED(ENGINE_JOB_DECOMPRESS, job.codec_id = ENGINE_ID_NR);
	engine_set_destroy(set);
	free(src);
	free(dst);
}

Test(engine_job, raw_takes_whatever_level_is_left_there)
{
	uint8_t *plain = data_create(BLOCK, DATA_TEXT, 1), *stored = malloc(BLOCK);
	struct engine_job job = store_of(ENGINE_NONE, plain, 1, stored);

	job.level = 9;
	cr_assert_eq(run(&job), 1);
	cr_assert_eq(job.rc, 0);
	free(plain);
	free(stored);
}
