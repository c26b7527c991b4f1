/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_envelope.c -- encrypted records: there and back, what must not open, what is drawn, what is allocated
 *
 * tests/golden/envelope.bin is one, made by Python's cryptography as engines/envelope.h says; it is never
 * written anew. Beside it stands what is in it: the golden test names the fields.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/envelope.h"
#include "cleave/keyring.h"
#include "tests/unit/allocation_count.h"
#include "unit/engine_data.h"

#define BLOCK CLEAVE_BLOCK_BYTES
#define KEY_ID 7u
#define LEAD ENGINE_ENVELOPE_BYTES

static const uint8_t key_bytes[KEYRING_KEY_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
	15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 };

/* A set, its keyring, a writer, a record's memory. */
static struct keyring *keys;
static struct engine_set *set;
static struct envelope_writer writer;
static uint8_t *plain, *stored, *loaded;

static int
fill_counted(void *arg, uint8_t *out, size_t bytes)
{
	uint8_t *count = arg;

	memset(out, ++*count, bytes);
	return 0;
}

static int
fill_fails(void *arg, uint8_t *out, size_t bytes)
{
	(void)arg;
	(void)out;
	(void)bytes;
	return -EIO;
}

static void
begin(void)
{
	struct engine_set_options options = { 0 };

	keys = keyring_create();
	cr_assert_not_null(keys);
	cr_assert_eq(keyring_put(keys, KEY_ID, key_bytes), 0);
	options.keys = keys;
	set = engine_set_create(NULL, &options);
	cr_assert_not_null(set);
	envelope_writer_init(&writer, NULL, NULL);
	plain = malloc(ENGINE_RECORD_BYTES_MAX);
	stored = malloc(ENGINE_STORED_BYTES_MAX);
	loaded = malloc(ENGINE_RECORD_BYTES_MAX);
	cr_assert(plain != NULL && stored != NULL && loaded != NULL);
}

static void
end(void)
{
	engine_set_destroy(set);
	keyring_destroy(keys);
	free(plain);
	free(stored);
	free(loaded);
}

TestSuite(envelope, .init = begin, .fini = end);

/* A STORE of @blocks blocks of `plain` that encrypts. */
static struct engine_job
store_of(uint8_t codec_id, uint8_t blocks)
{
	struct engine_job job = { .kind = ENGINE_JOB_STORE,
		.codec_id = codec_id,
		.level = engine_by_id(codec_id)->level_default,
		.src = data_dev_ptr(plain),
		.src_bytes = blocks * BLOCK,
		.dst = data_dev_ptr(stored),
		.dst_cap_bytes = blocks * BLOCK + LEAD(blocks),
		.payload_crc = crc32c(0, plain, blocks * BLOCK),
		.block_count = blocks,
		.envelope = { .key_id = KEY_ID, .segment = 5, .block = 1234 } };

	cr_assert_eq(envelope_draw(&writer, &job.envelope), 0);
	return job;
}

static struct engine_job
load_of(const struct engine_job *store, uint8_t first, uint8_t count)
{
	return (struct engine_job){ .kind = ENGINE_JOB_LOAD,
		.codec_id = store->ret_codec_id,
		.src = store->dst,
		.src_bytes = store->dst_bytes,
		.dst = data_dev_ptr(loaded),
		.dst_cap_bytes = count * BLOCK,
		.stored_crc = store->stored_crc,
		.record_blocks = store->block_count,
		.first_block = first,
		.block_count = count,
		.envelope = { .segment = 5, .block = 1234 } };
}

static int
run(struct engine_job *job)
{
	cr_assert_eq(engine_submit(set, job), 1);
	return job->rc;
}

static int
rc_of_load(struct engine_job load)
{
	return run(&load);
}

/* Is any 16 bytes of @needle in the stored bytes? */
static bool
stored_has(const struct engine_job *store, const void *needle, uint32_t bytes)
{
	return memmem(stored, store->dst_bytes, needle, bytes) != NULL;
}

/* ---- there and back ---- */

static void
check_store(const struct engine_job *store, uint8_t codec_id)
{
	uint32_t blocks = store->block_count;

	cr_assert_eq(store->rc, 0);
	cr_assert_eq(store->ret_codec_id & ENGINE_ENCRYPTED, ENGINE_ENCRYPTED);
	cr_assert(ENGINE_CODEC(store->ret_codec_id) == codec_id ||
	    ENGINE_CODEC(store->ret_codec_id) == ENGINE_NONE);
	cr_assert_eq(store->stored_crc, crc32c(0, stored, store->dst_bytes));
	cr_assert_leq(store->dst_bytes, blocks * BLOCK + LEAD(blocks));
	if (ENGINE_CODEC(store->ret_codec_id) == ENGINE_NONE)
		cr_assert_eq(store->dst_bytes, blocks * BLOCK + LEAD(blocks));
	else
		cr_assert_leq(store->dst_bytes, blocks * BLOCK / 8 * 7 + LEAD(blocks));
	for (uint32_t i = 0; i < blocks; i++) {
		uint8_t crc[4];

		cr_assert_eq(store->block_crcs[i], 0, "the CRCs are for nobody");
		num_put_le32(crc, crc32c(0, plain + i * BLOCK, BLOCK));
		cr_assert_not(memmem(stored, LEAD(blocks), crc, sizeof(crc)) != NULL);
		cr_assert_not(stored_has(store, plain + i * BLOCK, 16));
	}
}

Test(envelope, gives_back_what_was_stored)
{
	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		for (uint8_t blocks = 1; blocks <= 16; blocks += 5) {
			for (int kind = DATA_TEXT; kind <= DATA_RANDOM; kind++) {
				struct engine_job store, load;

				data_fill(plain, blocks * BLOCK, kind, blocks);
				store = store_of(codec, blocks);
				cr_assert_eq(run(&store), 0);
				check_store(&store, codec);
				load = load_of(&store, blocks / 2, blocks - blocks / 2);
				cr_assert_eq(run(&load), 0);
				cr_assert_eq(load.ret_key_id, KEY_ID);
				cr_assert_arr_eq(loaded, plain + blocks / 2 * BLOCK,
				    load.block_count * BLOCK);
				for (int i = 0; i < load.block_count; i++)
					cr_assert_eq(load.block_crcs[i],
					    crc32c(0, loaded + i * BLOCK, BLOCK));
				for (uint8_t first = 0; first < blocks; first++) {
					load = load_of(&store, first, 1);
					cr_assert_eq(run(&load), 0);
					cr_assert_arr_eq(loaded, plain + first * BLOCK, BLOCK);
				}
			}
		}
	}
}

Test(envelope, zeros_are_stored_nowhere)
{
	struct engine_job store;

	memset(plain, 0, BLOCK);
	store = store_of(ENGINE_LZ4, 1);
	cr_assert_eq(run(&store), 0);
	cr_assert(store.is_zero);
	cr_assert_eq(store.dst_bytes, 0);
	cr_assert_eq(store.ret_codec_id, ENGINE_NONE);
}

Test(envelope, a_payload_that_changed_is_refused)
{
	struct engine_job store;

	data_fill(plain, BLOCK, DATA_TEXT, 1);
	store = store_of(ENGINE_LZ4, 1);
	store.payload_crc ^= 1;
	cr_assert_eq(run(&store), -EBADMSG);
	cr_assert_eq(store.dst_bytes, 0);
}

Test(envelope, without_a_key_id_nothing_is_encrypted)
{
	struct engine_job store, load;

	data_fill(plain, BLOCK, DATA_TEXT, 1);
	store = store_of(ENGINE_LZ4, 1);
	store.envelope.key_id = 0;
	cr_assert_eq(run(&store), 0);
	cr_assert_eq(store.ret_codec_id, ENGINE_LZ4);
	cr_assert_eq(store.block_crcs[0], crc32c(0, plain, BLOCK));
	load = load_of(&store, 0, 1);
	load.block_crcs[0] = store.block_crcs[0];
	cr_assert_eq(run(&load), 0);
	cr_assert_eq(load.ret_key_id, 0);
}

Test(envelope, needs_room_for_itself)
{
	struct engine_job store;

	data_fill(plain, 2 * BLOCK, DATA_TEXT, 1);
	store = store_of(ENGINE_LZ4, 2);
	store.dst_cap_bytes--;
	cr_assert_eq(engine_submit(set, &store), -EINVAL);
	store.dst_cap_bytes++;
	store.codec_id |= ENGINE_ENCRYPTED; /* a result, and never a wish */
	cr_assert_eq(engine_submit(set, &store), -EINVAL);
}

/* ---- what must not open ---- */

/* Flips each byte of the stored ones, with a stored CRC that fits: only the tag can tell. */
static void
check_flips(uint8_t codec_id, uint8_t blocks, int kind)
{
	struct engine_job store;

	data_fill(plain, blocks * BLOCK, kind, 3);
	store = store_of(codec_id, blocks);
	cr_assert_eq(run(&store), 0);
	for (uint32_t i = 0; i < store.dst_bytes; i++) {
		struct engine_job load = load_of(&store, 0, blocks);
		int rc;

		stored[i] ^= 1u << i % 8;
		cr_assert_eq(rc_of_load(load), -EBADMSG, "byte %u: the stored CRC", i);
		cr_assert_eq(rc_of_load(load_of(&store, 0, 1)), -EBADMSG, "byte %u: a front", i);
		load.stored_crc = crc32c(0, stored, store.dst_bytes);
		rc = rc_of_load(load);
		/* Another key_id names a key that is not there. */
		cr_assert_eq(rc, i >= 4 && i < 8 ? -ENOKEY : -EBADMSG, "byte %u: %d", i, rc);
		stored[i] ^= 1u << i % 8;
	}
	cr_assert_eq(rc_of_load(load_of(&store, 0, blocks)), 0);
}

Test(envelope, every_byte_counts)
{
	check_flips(ENGINE_LZ4, 2, DATA_TEXT);
	check_flips(ENGINE_NONE, 1, DATA_RANDOM);
}

Test(envelope, every_length_but_its_own_fails)
{
	struct engine_job store, load;

	data_fill(plain, 2 * BLOCK, DATA_TEXT, 3);
	store = store_of(ENGINE_ZSTD, 2);
	cr_assert_eq(run(&store), 0);
	for (uint32_t bytes = 1; bytes <= store.dst_bytes; bytes++) {
		load = load_of(&store, 0, 2);
		load.src_bytes = bytes;
		load.stored_crc = crc32c(0, stored, bytes);
		cr_assert_eq(rc_of_load(load), bytes == store.dst_bytes ? 0 : -EBADMSG);
	}
	load = load_of(&store, 0, 2);
	load.src_bytes = ENGINE_STORED_BYTES_MAX;
	load.stored_crc = crc32c(0, stored, ENGINE_STORED_BYTES_MAX);
	cr_assert_eq(rc_of_load(load), -EBADMSG);
}

Test(envelope, opens_at_its_place_alone)
{
	struct engine_job store, load;

	data_fill(plain, 2 * BLOCK, DATA_TEXT, 3);
	store = store_of(ENGINE_LZ4, 2);
	cr_assert_eq(run(&store), 0);
#define FAILS(change)                                                                              \
	do {                                                                                       \
		load = load_of(&store, 0, 1);                                                      \
		change;                                                                            \
		cr_assert_eq(rc_of_load(load), -EBADMSG, #change);                                 \
	} while (0)
	FAILS(load.envelope.segment = 6);
	FAILS(load.envelope.segment = 5 | UINT64_C(1) << 40);
	FAILS(load.envelope.block = 1235);
	FAILS(load.envelope.block = 1234 + 16384);
	FAILS(load.codec_id = ENGINE_NONE | ENGINE_ENCRYPTED);
	FAILS(load.codec_id = ENGINE_ZSTD | ENGINE_ENCRYPTED);
	FAILS(load.codec_id = ENGINE_LZ4); /* as if it were no envelope */
	FAILS(load.record_blocks = 1);
	FAILS(load.record_blocks = 3);
#undef FAILS
	cr_assert_eq(rc_of_load(load_of(&store, 1, 1)), 0);
}

Test(envelope, another_key_does_not_open_it)
{
	uint8_t other[KEYRING_KEY_BYTES];
	struct engine_job store, load;

	data_fill(plain, BLOCK, DATA_TEXT, 3);
	store = store_of(ENGINE_LZ4, 1);
	cr_assert_eq(run(&store), 0);
	memcpy(other, key_bytes, sizeof(other));
	other[31] ^= 1;
	keyring_remove(keys, KEY_ID);
	cr_assert_eq(keyring_put(keys, KEY_ID, other), 0);
	load = load_of(&store, 0, 1);
	cr_assert_eq(run(&load), -EBADMSG);
}

Test(envelope, a_missing_key_is_told_apart)
{
	struct engine_set_options options = { 0 };
	struct engine_set *without = engine_set_create(NULL, &options);
	struct engine_job store, load, again;

	data_fill(plain, BLOCK, DATA_TEXT, 3);
	store = store_of(ENGINE_LZ4, 1);
	cr_assert_eq(run(&store), 0);
	load = load_of(&store, 0, 1);
	cr_assert_eq(engine_submit(without, &load), 1);
	cr_assert_eq(load.rc, -ENOKEY, "a set without a keyring");
	keyring_remove(keys, KEY_ID); /* the subkey is at hand, and must not be used */
	load = load_of(&store, 0, 1);
	cr_assert_eq(run(&load), -ENOKEY);
	load.stored_crc ^= 1;
	cr_assert_eq(run(&load), -EBADMSG, "a bad copy is one without any key");
	again = store_of(ENGINE_LZ4, 1);
	cr_assert_eq(run(&again), -ENOKEY);
	cr_assert_eq(again.dst_bytes, 0);
	cr_assert_eq(keyring_put(keys, KEY_ID, key_bytes), 0);
	cr_assert_eq(run(&again), 0);
	load = load_of(&again, 0, 1);
	cr_assert_eq(run(&load), 0);
	engine_set_destroy(without);
}

Test(envelope, the_source_is_left_alone)
{
	uint8_t *before = malloc(ENGINE_STORED_BYTES_MAX);
	struct engine_job store;

	for (uint8_t codec = ENGINE_NONE; codec < ENGINE_ID_NR; codec++) {
		data_fill(plain, 3 * BLOCK, DATA_TEXT, codec);
		store = store_of(codec, 3);
		cr_assert_eq(run(&store), 0);
		memcpy(before, stored, store.dst_bytes);
		cr_assert_eq(rc_of_load(load_of(&store, 1, 1)), 0);
		cr_assert_eq(rc_of_load(load_of(&store, 0, 3)), 0);
		cr_assert_arr_eq(stored, before, store.dst_bytes);
		data_fill(loaded, 3 * BLOCK, DATA_TEXT, codec);
		cr_assert_arr_eq(plain, loaded, 3 * BLOCK, "nor does a STORE alter it");
	}
	free(before);
}

/* ---- salts and counters ---- */

Test(envelope, equal_blocks_do_not_show)
{
	struct engine_job store;
	uint8_t *first = malloc(ENGINE_STORED_BYTES_MAX);

	data_fill(plain, BLOCK, DATA_TEXT, 3);
	store = store_of(ENGINE_NONE, 1);
	cr_assert_eq(run(&store), 0);
	memcpy(first, stored, store.dst_bytes);
	store = store_of(ENGINE_NONE, 1);
	cr_assert_eq(run(&store), 0);
	for (uint32_t i = LEAD(0); i + 16 < store.dst_bytes; i += 16)
		cr_assert_neq(memcmp(first + i, stored + i, 16), 0, "byte %u", i);
	free(first);
}

Test(envelope, a_writer_never_draws_the_same_twice)
{
	uint8_t salt_count = 0;
	struct engine_envelope drawn = { 0 }, before = { 0 };

	envelope_writer_init(&writer, fill_counted, &salt_count);
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert_eq(envelope_draw(&writer, &drawn), 0);
		cr_assert_eq(drawn.counter, i);
		cr_assert_eq(drawn.salt[0], 1);
	}
	writer.next = ENVELOPE_COUNTERS - 2;
	for (uint32_t i = 0; i < 5; i++) {
		before = drawn;
		cr_assert_eq(envelope_draw(&writer, &drawn), 0);
		cr_assert(drawn.counter > before.counter || drawn.salt[0] > before.salt[0]);
	}
	cr_assert_eq(drawn.counter, 2);
	cr_assert_eq(drawn.salt[0], 2, "the counter has wrapped: another salt");
	cr_assert_eq(salt_count, 2);
}

Test(envelope, writers_that_begin_draw_other_salts)
{
	struct envelope_writer other;
	struct engine_envelope a = { 0 }, b = { 0 };

	envelope_writer_init(&other, NULL, NULL);
	cr_assert_eq(envelope_draw(&writer, &a), 0);
	cr_assert_eq(envelope_draw(&other, &b), 0);
	cr_assert_neq(memcmp(a.salt, b.salt, sizeof(a.salt)), 0);
}

Test(envelope, without_random_bytes_nothing_is_drawn)
{
	struct engine_envelope drawn = { .key_id = KEY_ID };

	envelope_writer_init(&writer, fill_fails, NULL);
	cr_assert_eq(envelope_draw(&writer, &drawn), -EIO);
	cr_assert_eq(envelope_draw(&writer, &drawn), -EIO);
	cr_assert_eq(drawn.counter, 0);
}

Test(envelope, more_subkeys_than_are_kept)
{
	enum { PAIRS = 400 };
	struct engine_job *stores = calloc(PAIRS, sizeof(*stores));
	uint8_t *all = malloc(PAIRS * (BLOCK + LEAD(1)));

	data_fill(plain, BLOCK, DATA_RANDOM, 3);
	for (uint32_t i = 0; i < PAIRS; i++) {
		envelope_writer_init(&writer, NULL, NULL);
		stores[i] = store_of(ENGINE_NONE, 1);
		stores[i].dst = data_dev_ptr(all + i * (BLOCK + LEAD(1)));
		cr_assert_eq(run(&stores[i]), 0);
	}
	for (uint32_t i = 0; i < PAIRS; i++)
		cr_assert_eq(rc_of_load(load_of(&stores[i * 7 % PAIRS], 0, 1)), 0);
	free(all);
	free(stores);
}

/* ---- golden bytes ---- */

Test(envelope, the_bytes_of_version_1_are_for_ever)
{
	static const uint8_t salt[ENGINE_SALT_BYTES] = { 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6,
		0xa7, 0xa8, 0xa9, 0xaa, 0xab };
	const char *root = getenv("CLEAVE_SOURCE_DIR");
	uint8_t golden[2 * BLOCK + LEAD(2) + 1];
	struct engine_job store, load;
	char path[4096];
	FILE *file;

	for (uint32_t i = 0; i < 2 * BLOCK; i++)
		plain[i] = (uint8_t)(i * 131 >> 3);
	store = store_of(ENGINE_NONE, 2);
	memcpy(store.envelope.salt, salt, sizeof(salt));
	store.envelope.counter = 0x01020304;
	store.envelope.segment = 0x0000000102030405;
	store.envelope.block = 0x00060708;
	cr_assert_eq(run(&store), 0);
	(void)snprintf(path, sizeof(path), "%s/tests/golden/envelope.bin",
	    root == NULL ? "." : root);
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fread(golden, 1, sizeof(golden), file), sizeof(golden) - 1);
	(void)fclose(file);
	cr_assert_eq(store.dst_bytes, sizeof(golden) - 1);
	cr_assert_arr_eq(stored, golden, store.dst_bytes);
	memcpy(stored, golden, store.dst_bytes);
	load = load_of(&store, 0, 2);
	load.envelope = store.envelope;
	cr_assert_eq(run(&load), 0);
	cr_assert_arr_eq(loaded, plain, 2 * BLOCK);
}

/* ---- memory ---- */

#ifdef HAS_ALLOCATION_COUNT
Test(envelope, nothing_is_allocated_a_record)
{
	unsigned long before;
	struct engine_job warm;

	cr_assert_gt(allocation_count, 0, "the hook does not count");
	data_fill(plain, 16 * BLOCK, DATA_TEXT, 3);
	warm = store_of(ENGINE_NONE, 1); /* a salt, and the subkey for it */
	cr_assert_eq(run(&warm), 0);
	before = allocation_count;
	for (uint32_t i = 0; i < 300; i++) {
		uint8_t blocks = (uint8_t)(1 + i % 16);
		struct engine_job store = store_of(i % 2 == 0 ? ENGINE_NONE : ENGINE_LZ4, blocks);
		struct engine_job load;

		if (engine_submit(set, &store) != 1 || store.rc != 0)
			cr_assert_fail("STORE %u: %d", i, store.rc);
		load = load_of(&store, 0, blocks);
		if (engine_submit(set, &load) != 1 || load.rc != 0 || allocation_count != before)
			cr_assert_fail("LOAD %u: %d, %lu allocations", i, load.rc,
			    allocation_count - before);
	}
}
#endif
