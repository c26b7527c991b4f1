/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_encrypted.c -- an encrypted volume from its writes to its runs: what nodes have of it, and what a missing key does
 *
 * The programs of write/, read/ and merge/ run once more with such a volume (tests/CMakeLists.txt); here is what differs.
 */
#include <errno.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/keyring.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/run_index.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/merge/flush_due.h"
#include "unit/fake_merge.h"

#define CUT 5u
#define CLONE (wire_segment(1, wire_segment_root(FAKE_SEGMENT)))
#define NONCES_MAX 4096u

static void
setup_with(bool is_threaded)
{
	fake_init(1, is_threaded);
	fake_state.epoch = fake.shard.epoch;
	fake_merges_start();
	fake_encrypt(FAKE_KEY_ID);
}

static void
teardown(void)
{
	fake_merges_fini();
}

FAKE_SUITES(encrypted)

/* ---- what nodes have ---- */

struct found {
	uint32_t encrypted, plain; /* records of writes */
	uint32_t key_max, key_min; /* of their envelopes */
	uint32_t nonce_count;
	struct {
		uint8_t bytes[20]; /* key id, salt, counter */
		uint32_t stored_crc;
	} nonces[NONCES_MAX];
};

static void
found_envelope(struct found *found, const struct record_desc *record, const uint8_t *envelope)
{
	uint32_t key_id = num_get_le32(envelope + 4), i;

	for (i = 0; i < record->block_count; i++)
		cr_assert_eq(record->block_crcs[i], 0);
	found->encrypted++;
	found->key_max = (uint32_t)num_max(found->key_max, key_id);
	found->key_min = found->key_min == 0 ? key_id : (uint32_t)num_min(found->key_min, key_id);
	for (i = 0; i < found->nonce_count; i++)
		if (memcmp(found->nonces[i].bytes, envelope + 4, 20) == 0)
			break;
	if (i < found->nonce_count) {
		/* Copies of a record, and a frame taken as it is stored. */
		cr_assert_eq(found->nonces[i].stored_crc, record->stored_crc,
		    "two records have one nonce");
		return;
	}
	cr_assert_lt(i, NONCES_MAX);
	memcpy(found->nonces[i].bytes, envelope + 4, 20);
	found->nonces[i].stored_crc = record->stored_crc;
	found->nonce_count++;
}

static void
found_in_copy(struct found *found, const struct fake_copy *copy, enum extent_kind kind)
{
	uint32_t prev_crc = batch_chain_seed(&copy->id, kind);
	uint64_t offset = 0;

	while (offset < copy->length) {
		struct batch_check check = { .id = copy->id,
			.kind = kind,
			.offset_bytes = offset,
			.prev_crc = prev_crc };
		struct record_iter it;
		struct record_desc record;
		const char *field;

		if (batch_check_run(copy->bytes + offset, (uint32_t)(copy->length - offset),
			&check) != 0)
			return;
		record_iter_init(&it, copy->bytes + offset, &check.info);
		while (record_iter_next(&it, &record, &field) == 1) {
			if (record.kind != RECORD_WRITE)
				continue;
			if ((record.codec_id & ENGINE_ENCRYPTED) == 0)
				found->plain++;
			else
				found_envelope(found, &record,
				    copy->bytes + offset + record.payload_offset_bytes);
		}
		prev_crc = check.info.batch_crc;
		offset += check.info.batch_bytes;
	}
}

/* All records of @kind extents at all nodes. */
static struct found *
find(enum extent_kind kind)
{
	static struct found found;

	memset(&found, 0, sizeof(found));
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++)
			if (fake.nodes[i].copies[k].exists)
				found_in_copy(&found, &fake.nodes[i].copies[k], kind);
	return &found;
}

/* Does any node have 16 bytes of a block as it was written, or a block's CRC? */
static void
expect_nothing_plain(uint32_t block, uint64_t version)
{
	uint8_t plain[CLEAVE_BLOCK_BYTES], crc[4];

	fake_pattern(plain, block, version);
	num_put_le32(crc, crc32c(0, plain, sizeof(plain)));
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++) {
			const struct fake_copy *copy = &fake.nodes[i].copies[k];

			if (!copy->exists)
				continue;
			cr_assert(memmem(copy->bytes, copy->length, plain, 16) == NULL);
			cr_assert(memmem(copy->bytes, copy->length, crc, 4) == NULL);
		}
	}
}

/* ---- merges ---- */

static struct mt_chunk *
chunk_of(uint64_t segment)
{
	return mt_index_chunk(fake.shard.block_index, mt_chunk_number(segment, 0));
}

static int
merge_input(const struct mt_merge_input *input)
{
	cr_assert_eq(fake_merge_begin(input), 0);
	(void)fake_merge_end();
	cr_assert(mt_merge_is_quiet(&fake.shard));
	cr_assert_eq(fake_replies_held(), 0);
	fake_run_for(NUM_MS(50));
	return fake_merges.rc;
}

/* All layers, if there are any, and all runs of the volume's chunk. */
static int
merge(bool has_layers)
{
	struct mt_merge_input input = fake_input_of_all(chunk_of(FAKE_SEGMENT), has_layers);

	return merge_input(&input);
}

static void
write_blocks(uint32_t first, uint32_t count, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(fake_wait(fake_write(first + i, 1, version)), 0);
}

static void
expect_blocks(uint32_t first, uint32_t count, uint64_t version)
{
	for (uint32_t i = 0; i < count; i++)
		fake_expect(first + i, version);
}

/* Until the ring has other things: 2 MiB that do not compress. */
static void
flush_ring(void)
{
	for (uint32_t i = 0; i < 40; i++)
		cr_assert_eq(fake_wait(fake_write(1000 + 16 * i, 16, 4)), 0);
}

/* A read's answer has the CRC of what it brings. */
static void
expect_read(uint32_t block, uint32_t count)
{
	struct fake_msg *msg = fake_read(block, count);

	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_eq(msg->reply.payload_crc, crc32c(0, msg->payload, count * CLEAVE_BLOCK_BYTES));
}

/* ---- writes and reads ---- */

static void
check_paths(void)
{
	const struct found *found;

	write_blocks(0, 8, 1);
	cr_assert_eq(fake_wait(fake_write(16, 16, 4)), 0); /* raw: the longest record there is */
	cr_assert_eq(fake_wait(fake_write(32, 16, 5)), 0);
	cr_assert_eq(fake_wait(fake_discard(7, 1)), 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		expect_blocks(0, 7, 1);
		fake_expect(7, 0);
		expect_blocks(16, 16, 4);
		expect_blocks(32, 16, 5);
		expect_read(16, 16);
		expect_read(3, 16);
		expect_read(30, 5);
		if (pass == 0)
			flush_ring();
	}
	cr_assert_gt(fake.port.metrics[MT_METRIC_reads_from_node], 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_replica_read_errors], 0);
	found = find(EXTENT_LOG);
	cr_assert_eq(found->plain, 0);
	cr_assert_geq(found->nonce_count, 50);
	cr_assert_eq(found->key_min, FAKE_KEY_ID);
	cr_assert_eq(found->key_max, FAKE_KEY_ID);
	expect_nothing_plain(3, 1);
	expect_nothing_plain(20, 4);
	expect_nothing_plain(40, 5);
}

Test(encrypted, nodes_have_nothing_plain_and_reads_give_it_back)
{
	check_paths();
}

Test(encrypted_threads, nodes_have_nothing_plain_and_reads_give_it_back)
{
	check_paths();
}

Test(encrypted, a_volume_that_stores_raw_is_encrypted_too)
{
	fake.session.volume.codec_id = ENGINE_NONE;
	write_blocks(0, 4, 1);
	expect_blocks(0, 4, 1);
	cr_assert_eq(find(EXTENT_LOG)->plain, 0);
	expect_nothing_plain(2, 1);
}

Test(encrypted, latency_class_writes_too)
{
	fake.is_latency = true;
	write_blocks(0, 4, 1);
	fake.is_latency = false;
	cr_assert_eq(find(EXTENT_LOG)->plain, 0);
	cr_assert_eq(find(EXTENT_LOG)->encrypted, 4 * MT_REPLICAS_MAX);
	expect_nothing_plain(2, 1);
}

Test(encrypted, a_write_without_its_key_is_refused_and_later_ones_go_on)
{
	write_blocks(0, 1, 1);
	fake.session.volume.key_id = 8;
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), -ENOMEDIUM);
	cr_assert_eq(fake.port.metrics[MT_METRIC_payload_crc_errors], 0);
	fake_encrypt(8);
	write_blocks(2, 1, 3);
	fake_expect(0, 1);
	fake_expect(1, 0);
	fake_expect(2, 3);
}

Test(encrypted_threads, a_write_without_its_key_is_refused_and_later_ones_go_on)
{
	fake.session.volume.key_id = 8;
	cr_assert_eq(fake_wait(fake_write(1, 1, 2)), -ENOMEDIUM);
	fake_encrypt(8);
	write_blocks(2, 1, 3);
	fake_expect(1, 0);
	fake_expect(2, 3);
}

Test(encrypted, a_read_without_its_key_is_refused_and_no_copy_is_blamed)
{
	write_blocks(0, 4, 1);
	flush_ring();
	keyring_remove(fake.keys, FAKE_KEY_ID);
	cr_assert_eq(fake_wait(fake_read(0, 1)), -ENOMEDIUM, "from a node");
	cr_assert_eq(fake_wait(fake_read(1600, 1)), -ENOMEDIUM, "from the ring");
	cr_assert_eq(fake.port.metrics[MT_METRIC_replica_read_errors], 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_repairs_queued], 0);
	cr_assert_eq(fake.port.metrics[MT_METRIC_unreadable_blocks], 0);
	cr_assert_eq(fake_replies_held(), 0);
	fake_encrypt(FAKE_KEY_ID);
	expect_blocks(0, 4, 1);
	fake_expect(1600, 4);
}

/* ---- merges ---- */

Test(encrypted, what_came_encrypted_is_never_stored_plain)
{
	const struct found *found;

	write_blocks(0, 40, 1);
	cr_assert_eq(fake_wait(fake_write(48, 16, 4)), 0);
	cr_assert_eq(merge(true), 0);
	found = find(EXTENT_RUN);
	cr_assert_eq(found->plain, 0);
	cr_assert_gt(found->encrypted, 0);
	write_blocks(3, 2, 2);
	cr_assert_eq(merge(true), 0);
	cr_assert_eq(merge(false), 0);
	found = find(EXTENT_RUN);
	cr_assert_eq(found->plain, 0);
	expect_blocks(0, 3, 1);
	expect_blocks(3, 2, 2);
	expect_blocks(5, 35, 1);
	expect_blocks(48, 16, 4);
	expect_read(0, 16);
	expect_read(48, 16);
	expect_nothing_plain(9, 1);
	expect_nothing_plain(50, 4);
}

Test(encrypted_threads, what_came_encrypted_is_never_stored_plain)
{
	write_blocks(0, 40, 1);
	cr_assert_eq(merge(true), 0);
	write_blocks(3, 2, 4);
	cr_assert_eq(merge(true), 0);
	cr_assert_eq(find(EXTENT_RUN)->plain, 0);
	expect_blocks(5, 35, 1);
	expect_blocks(3, 2, 4);
}

/* Frames of 4 blocks; what compresses fits its place in the window, what is raw is longer, and closed anew. */
Test(encrypted, frames_that_have_not_changed_keep_their_envelopes)
{
	const struct mt_run_index *index;
	uint32_t packed, raw;

	write_blocks(0, 4, 1);
	write_blocks(4, 4, 4);
	cr_assert_eq(merge(true), 0);
	index = mt_run_of(chunk_of(FAKE_SEGMENT)->runs.next)->index;
	cr_assert_eq(index->frame_count, 2);
	packed = index->frames[0].stored_crc;
	raw = index->frames[1].stored_crc;
	cr_assert_eq(index->frames[1].stored_bytes,
	    4 * CLEAVE_BLOCK_BYTES + ENGINE_ENVELOPE_BYTES(4));
	write_blocks(8, 1, 2);
	cr_assert_eq(merge(true), 0);
	index = mt_run_of(chunk_of(FAKE_SEGMENT)->runs.next)->index;
	cr_assert_eq(index->frames[0].stored_crc, packed);
	cr_assert_neq(index->frames[1].stored_crc, raw);
	expect_blocks(0, 4, 1);
	expect_blocks(4, 4, 4);
}

/* A frame that is taken as it is stored needs no key. */
Test(encrypted, a_merge_takes_the_highest_key_of_its_sources)
{
	const struct found *found;

	write_blocks(0, 2, 1);
	fake_encrypt(9);
	write_blocks(2, 2, 1);
	fake_encrypt(8);
	write_blocks(5, 1, 1);
	cr_assert_eq(merge(true), 0);
	found = find(EXTENT_RUN);
	cr_assert_eq(found->key_min, 9);
	cr_assert_eq(found->key_max, 9);
	expect_blocks(0, 4, 1);
	fake_expect(5, 1);
}

Test(encrypted, plain_and_encrypted_sources_become_encrypted)
{
	fake_encrypt(0);
	write_blocks(0, 2, 1);
	fake_encrypt(FAKE_KEY_ID);
	write_blocks(2, 2, 1);
	cr_assert_eq(merge(true), 0);
	cr_assert_eq(find(EXTENT_RUN)->plain, 0);
	expect_blocks(0, 4, 1);
}

Test(encrypted, without_a_key_a_merge_is_given_up_and_nothing_is_blamed)
{
	for (uint32_t pass = 0; pass < 2; pass++) {
		write_blocks(0, 8, 1);
		if (pass == 1)
			flush_ring(); /* its sources come from nodes */
		keyring_remove(fake.keys, FAKE_KEY_ID);
		cr_assert_eq(merge(true), -ENOKEY);
		cr_assert_gt(chunk_of(FAKE_SEGMENT)->layer_count, 0);
		cr_assert_eq(fake.port.metrics[MT_METRIC_replica_read_errors], 0);
		fake_encrypt(FAKE_KEY_ID);
		cr_assert_eq(merge(true), 0);
		expect_blocks(0, 8, 1);
	}
	cr_assert_eq(find(EXTENT_RUN)->plain, 0);
}

Test(encrypted, a_chunk_that_is_put_off_does_not_stand_in_the_way_of_others)
{
	struct flush_due due = { 0 };
	struct mt_merge_input input;
	struct mt_chunk *oldest;

	write_blocks(0, 2, 1);
	write_blocks((uint32_t)CLEAVE_CHUNK_BLOCKS, 2, 1);
	mt_flush_due_start(&due, &fake.shard);
	mt_flush_due_age(&due);
	mt_flush_due_age(&due);
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	oldest = chunk_of(FAKE_SEGMENT);
	cr_assert_eq(input.chunk, oldest);
	mt_chunk_pin(oldest, MT_PIN_KEY);
	oldest->retry_ns = loop_now_ns(fake.loop) + NUM_S(30);
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert_neq(input.chunk, oldest);
	mt_chunk_pin(input.chunk, MT_PIN_KEY);
	input.chunk->retry_ns = oldest->retry_ns;
	cr_assert_eq(mt_flush_due_find(&due, &input), -ENOENT, "and nothing spins");
	cr_assert_not(mt_flush_due_has_layers(&due), "no flush is to be hoped for");
	fake_pass(NUM_S(31));
	cr_assert(mt_flush_due_has_layers(&due));
	cr_assert_eq(mt_flush_due_find(&due, &input), 0);
	cr_assert_eq(input.chunk, oldest);
}

/* ---- a clone ---- */

static void
expect_clone(const struct mt_scope *scope, uint32_t block, uint64_t version)
{
	struct mt_scope before = fake.session.volume.scope;
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_READ, block, 1);
	uint8_t expected[CLEAVE_BLOCK_BYTES];

	fake.session.volume.scope = *scope;
	io.segment = CLONE;
	fake_submit(msg, &io);
	fake_pattern(expected, block, version);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert(memcmp(msg->payload, expected, sizeof(expected)) == 0, "block %u", block);
	fake.session.volume.scope = before;
}

Test(encrypted, a_clone_reads_with_its_origins_key_and_is_flattened_with_its_own)
{
	const struct mt_index_cut cut = { CUT, FAKE_SEGMENT, 1 };
	struct mt_merge_input input = { .level = 1 };
	struct mt_scope origin, seen, alone;
	const struct mt_run_index *index;

	mt_scope_before(&fake.session.volume.scope, CUT, &origin);
	cr_assert_eq(mt_scope_above(CLONE, 0, &origin, &seen), 0);
	mt_scope_init(&alone, CLONE);
	write_blocks(0, 8, 1);
	cr_assert_eq(merge(true),
	    0); /* whole frames, which a merge of the origin would take as they are */
	cr_assert_eq(mt_index_add_cut(fake.shard.block_index, &cut), 0);
	fake.shard.cut = CUT;
	fake_encrypt(9);
	expect_clone(&seen, 3, 1);
	input.from = &seen;
	input.target = mt_chunk_number(CLONE, 0);
	input.key_id = 9;
	cr_assert_eq(merge_input(&input), 0);
	index = mt_run_of(chunk_of(CLONE)->runs.next)->index;
	cr_assert_eq(index->frame_count, 2);
	cr_assert_eq(find(EXTENT_RUN)->plain, 0);
	cr_assert_eq(find(EXTENT_RUN)->key_max, 9);
	keyring_remove(fake.keys, FAKE_KEY_ID); /* the origin's, which goes with it */
	for (uint32_t i = 0; i < 8; i++)
		expect_clone(&alone, i, 1);
}

/* As flush.c does, whose fake does nothing: what is due is merged, and put off where its key is not here. */
static void
flush_all(struct flush_due *due)
{
	struct mt_merge_input input;

	for (uint32_t i = 0; i < 20 && mt_flush_due_find(due, &input) == 0; i++) {
		struct mt_chunk *chunk = input.chunk;
		int rc = fake_merge_begin(&input);

		if (rc == 0)
			rc = fake_merge_end();
		if (rc == -ENOKEY) {
			mt_chunk_pin(chunk, MT_PIN_KEY);
			chunk->retry_ns = loop_now_ns(fake.loop) + NUM_S(30);
		}
		fake_run_for(
		    NUM_MS(50)); /* extents go that hold nothing, or they count as garbage */
	}
}

/* A volume whose key is not here keeps what it has in the log. Another one of the shard goes on writing. */
static void
others_write(bool has_key)
{
	struct flush_due due = { 0 };

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = 1000;
	fake.settings.log_bytes = 1;
	mt_flush_due_start(&due, &fake.shard);
	write_blocks(0, 2, 1);
	if (!has_key)
		keyring_remove(fake.keys, FAKE_KEY_ID);
	fake_encrypt(0);
	for (uint32_t n = 0; n < 100; n++) {
		uint32_t block = CLEAVE_CHUNK_BLOCKS + 16 * (n % 100);
		struct fake_msg *msg = fake_write(block, 16, 4);

		for (uint32_t i = 0; i < 20 && !msg->is_answered; i++) {
			fake_run_for(NUM_S(1));
			mt_flush_due_age(&due);
			flush_all(&due);
			mt_reclaim_kick(&fake.shard);
			fake_run_for(NUM_S(60));
		}
		cr_assert(msg->is_answered, "write %u waits for ever", n);
		cr_assert_eq(msg->reply.rc, 0);
	}
}

Test(encrypted, others_write_on_beside_a_volume_whose_key_is_here, .timeout = 100)
{
	others_write(true);
}

Test(encrypted, others_write_on_beside_a_volume_whose_key_is_not_here, .timeout = 100)
{
	others_write(false);
}
