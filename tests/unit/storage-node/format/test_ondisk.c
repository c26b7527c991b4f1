/* SPDX-License-Identifier: Apache-2.0 */
/* test_ondisk.c -- pages there and back, every field refused, golden bytes, a golden disk */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "storage-node/format/ondisk.h"
#include "support/node_rig.h"

static const struct ondisk_super super_sample = {
	.cluster_id = 0x1122334455667788,
	.node_id = 7,
	.disk_uuid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.slot_bytes = 65536,
	.slot_count = 3,
	.created_unix_ns = 1700000000000000000,
	.generation = 5,
};
static const struct ondisk_slot slot_sample = {
	.slot_index = 2,
	.id = { .shard = 4095, .epoch = 0xabcdef, .counter = 0x3ffffff },
	.kind = EXTENT_RUN,
	.create_epoch = 0xabcdf0,
	.incarnation = 0x0102030405060708,
};

static struct ondisk_state
state_sample(void)
{
	return (struct ondisk_state){ .slot = slot_sample,
		.generation = 3,
		.state = ONDISK_SLOT_SEALED,
		.freeze_epoch = 17,
		.length_bytes = 8192,
		.mark_bytes = 4096,
		.chain_crc = 0xdeadbeef,
		.is_damaged = true };
}

static struct ondisk_fence
fence_sample(void)
{
	struct ondisk_fence fence = { .page_index = 6, .generation = 9 };

	for (uint32_t i = 0; i < ONDISK_FENCE_SHARDS; i++)
		fence.epochs[i] = i * 3;
	return fence;
}

static struct ondisk_claims
claims_sample(void)
{
	struct ondisk_claims claims = { .page_index = 12 };

	for (uint32_t i = 0; i < ONDISK_CLAIM_SHARDS; i += 2)
		claims.shards[i] = (struct ondisk_claim){ i + 1, UINT64_MAX - i };
	return claims;
}

#define SUPER_CAPACITY (ONDISK_SLOTS_OFFSET + 3 * 65536)

/* After a patch: the CRC over what stands there now. */
static void
reseal(uint8_t *page, uint32_t covered_bytes)
{
	num_put_le32(page + 12, 0);
	num_put_le32(page + 12, crc32c(0, page, covered_bytes));
}

Test(ondisk, plan)
{
	struct ondisk_super super = { .slot_bytes = 65536 };

	cr_assert_eq(ondisk_super_plan(&super, SUPER_CAPACITY + 5000), 0);
	cr_assert_eq(super.slot_count, 3);
	cr_assert_eq(ondisk_super_plan(&super, ONDISK_SLOTS_OFFSET + 65535), -ENOSPC);
	static const uint64_t wrong[] = { 0, 4096, 61440, 65537, 67108865, 1ull << 27 };
	for (size_t i = 0; i < NUM_COUNT(wrong); i++) {
		super.slot_bytes = wrong[i];
		cr_assert_eq(ondisk_super_plan(&super, 1ull << 40), -EINVAL);
	}
}

Test(ondisk, places_do_not_overlap)
{
	cr_assert_eq(ondisk_super_offset(0), 0);
	cr_assert_eq(ondisk_fence_offset(0, 0), 4096);
	cr_assert_eq(ondisk_fence_offset(7, 1), 4096 + 15 * 4096);
	cr_assert_eq(ondisk_claims_offset(0), 69632);
	cr_assert_eq(ondisk_claims_offset(12), 69632 + 12 * 4096);
	cr_assert_eq(ondisk_super_offset(1), 126976);
	cr_assert_eq(ondisk_slot_offset(&super_sample, 1), 131072 + 65536);
	cr_assert_eq(ondisk_state_offset(&super_sample, 1, 1), 131072 + 65536 + 8192);
	cr_assert_eq(ondisk_data_offset(&super_sample, 1), 131072 + 65536 + 12288);
	cr_assert_eq(ondisk_capacity(&super_sample), 53248);
}

Test(ondisk, superblock_there_and_back)
{
	uint8_t page[4096];
	struct ondisk_super super;
	const char *field = NULL;

	ondisk_super_encode(page, &super_sample);
	cr_assert_eq(ondisk_super_decode(page, SUPER_CAPACITY, &super, &field), 0);
	cr_assert_eq(super.cluster_id, super_sample.cluster_id);
	cr_assert_eq(super.node_id, 7);
	cr_assert_arr_eq(super.disk_uuid, super_sample.disk_uuid, 16);
	cr_assert_eq(super.slot_bytes, 65536);
	cr_assert_eq(super.slot_count, 3);
	cr_assert_eq(super.generation, 5);
	cr_assert_not(super.is_failed);
	super.is_failed = true;
	ondisk_super_encode(page, &super);
	cr_assert_eq(ondisk_super_decode(page, SUPER_CAPACITY, &super, &field), 0);
	cr_assert(super.is_failed);
}

Test(ondisk, superblock_refuses_each_field)
{
	static const struct {
		uint32_t at, bytes;
		uint64_t value;
		int rc;
		const char *field;
	} table[] = {
		{ 0, 1, 0, -EBADMSG, "magic" },
		{ 8, 4, 2, -EPROTONOSUPPORT, "version" },
		{ 32, 8, 0, -EBADMSG, "cluster_id" },
		{ 40, 8, 65537, -EBADMSG, "slot_bytes" },
		{ 64, 4, 0, -EBADMSG, "node_id" },
		{ 68, 4, 0, -EBADMSG, "slot_count" },
		{ 68, 4, 4, -EBADMSG, "capacity" },
		{ 68, 4, 0xffffffff, -EBADMSG, "slot_count" },
		{ 72, 4, 2, -EBADMSG, "flags" },
		{ 511, 1, 1, -EBADMSG, "reserved" },
	};
	uint8_t page[4096];
	struct ondisk_super super;
	const char *field;

	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		ondisk_super_encode(page, &super_sample);
		memcpy(page + table[i].at, &table[i].value, table[i].bytes);
		reseal(page, 512);
		field = NULL;
		cr_assert_eq(ondisk_super_decode(page, SUPER_CAPACITY, &super, &field), table[i].rc,
		    "%s", table[i].field);
		cr_assert_str_eq(field, table[i].field);
	}
	memset(page, 0, sizeof(page));
	cr_assert_eq(ondisk_super_decode(page, SUPER_CAPACITY, &super, &field), -ENODATA);
}

Test(ondisk, fence_there_and_back)
{
	uint8_t page[4096];
	struct ondisk_fence in = fence_sample(), out;
	const char *field;

	ondisk_fence_encode(page, &super_sample, &in);
	cr_assert_eq(ondisk_fence_decode(page, &super_sample, 6, &out, &field), 0);
	cr_assert_eq(out.generation, 9);
	cr_assert_arr_eq(out.epochs, in.epochs, sizeof(in.epochs));
	cr_assert_eq(ondisk_fence_decode(page, &super_sample, 5, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "page_index", "written astray");
	num_put_le32(page + 64, EXTENT_EPOCH_MAX + 1);
	reseal(page, 4096);
	cr_assert_eq(ondisk_fence_decode(page, &super_sample, 6, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "epochs");
}

Test(ondisk, claims_there_and_back)
{
	uint8_t page[4096];
	struct ondisk_claims in = claims_sample(), out;
	const char *field;

	ondisk_claims_encode(page, &super_sample, &in);
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 12, &out, &field), 0);
	for (uint32_t i = 0; i < ONDISK_CLAIM_SHARDS; i++) {
		cr_assert_eq(out.shards[i].epoch, in.shards[i].epoch, "%u", i);
		cr_assert_eq(out.shards[i].gateway, in.shards[i].gateway, "%u", i);
	}
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 11, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "page_index", "written astray");
	num_put_le32(page + 40, 0);
	reseal(page, 4096);
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 12, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "gateways", "a gateway under no epoch");
	num_put_le32(page + 40, EXTENT_EPOCH_MAX + 1);
	reseal(page, 4096);
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 12, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "epochs");
	num_put_le32(page + 36, 512);
	reseal(page, 4096);
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 12, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "shard_count");
	memset(page, 0, sizeof(page));
	cr_assert_eq(ondisk_claims_decode(page, &super_sample, 12, &out, &field), -ENODATA);
}

Test(ondisk, slot_and_state_there_and_back)
{
	uint8_t page[4096];
	struct ondisk_slot slot;
	struct ondisk_state in = state_sample(), out;
	const char *field;

	ondisk_slot_encode(page, &super_sample, &slot_sample);
	cr_assert_eq(ondisk_slot_decode(page, &super_sample, 2, &slot, &field), 0);
	cr_assert_eq(slot.id.shard, 4095);
	cr_assert_eq(slot.id.epoch, 0xabcdef);
	cr_assert_eq(slot.id.counter, 0x3ffffff);
	cr_assert_eq(slot.create_epoch, 0xabcdf0);
	cr_assert_eq(slot.incarnation, slot_sample.incarnation);
	cr_assert_eq(slot.kind, EXTENT_RUN);
	cr_assert_eq(ondisk_slot_decode(page, &super_sample, 1, &slot, &field), -EBADMSG);
	cr_assert_str_eq(field, "slot_index", "written astray");
	cr_assert_eq(ondisk_state_decode(page, &super_sample, 2, &out, &field), -EBADMSG);
	cr_assert_str_eq(field, "magic", "a header is no state");
	ondisk_state_encode(page, &super_sample, &in);
	cr_assert_eq(ondisk_state_decode(page, &super_sample, 2, &out, &field), 0);
	cr_assert_eq(out.slot.incarnation, slot_sample.incarnation);
	cr_assert_eq(out.generation, 3);
	cr_assert_eq(out.state, ONDISK_SLOT_SEALED);
	cr_assert_eq(out.freeze_epoch, 17);
	cr_assert_eq(out.length_bytes, 8192);
	cr_assert_eq(out.mark_bytes, 4096);
	cr_assert_eq(out.chain_crc, 0xdeadbeef);
	cr_assert(out.is_damaged);
}

Test(ondisk, state_refuses_each_field)
{
	static const struct {
		uint32_t at, bytes;
		uint64_t value;
		const char *field;
	} table[] = {
		{ 8, 4, 2, "version" },
		{ 32, 8, 0, "incarnation" },
		{ 40, 8, 0x4000000, "extent_id" },
		{ 48, 4, 4096, "extent_id" },
		{ 52, 4, 0x1000000, "extent_id" },
		{ 56, 4, 0xabcdee, "create_epoch" },
		{ 60, 4, 1, "slot_index" },
		{ 64, 1, 0, "kind" },
		{ 64, 1, 4, "kind" },
		{ 65, 1, 0, "state" },
		{ 65, 1, 4, "state" },
		{ 66, 2, 2, "flags" },
		{ 68, 4, 0x1000000, "freeze_epoch" },
		{ 32, 8, UINT64_MAX, "incarnation" },
		{ 72, 8, 0, "generation" },
		{ 72, 8, UINT64_MAX, "generation" },
		{ 80, 8, 4097, "length_bytes" },
		{ 80, 8, 57344, "length_bytes" },
		{ 200, 1, 1, "reserved" },
	};
	uint8_t page[4096];
	struct ondisk_state in = state_sample(), out;
	const char *field;

	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		ondisk_state_encode(page, &super_sample, &in);
		memcpy(page + table[i].at, &table[i].value, table[i].bytes);
		reseal(page, 512);
		cr_assert_eq(ondisk_state_decode(page, &super_sample, 2, &out, &field), -EBADMSG);
		cr_assert_str_eq(field, table[i].field);
	}
}

Test(ondisk, every_flipped_bit_is_found)
{
	uint8_t page[4096];
	struct ondisk_state in = state_sample(), out;
	const char *field;

	ondisk_state_encode(page, &super_sample, &in);
	for (uint32_t bit = 0; bit < 512 * 8; bit++) {
		page[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_neq(ondisk_state_decode(page, &super_sample, 2, &out, &field), 0);
		page[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_eq(ondisk_state_decode(page, &super_sample, 2, &out, &field), 0);
}

Test(ondisk, pages_of_another_disk_are_as_good_as_unwritten)
{
	uint8_t page[4096];
	struct ondisk_super other = super_sample;
	struct ondisk_slot slot;
	const char *field;

	other.disk_uuid[3] ^= 1;
	ondisk_slot_encode(page, &other, &slot_sample);
	cr_assert_eq(ondisk_slot_decode(page, &super_sample, 2, &slot, &field), -ENODATA);
}

Test(ondisk, torn_page_is_the_old_or_the_new_one)
{
	uint8_t old[4096], new[4096], torn[4096];
	struct ondisk_slot slot = slot_sample, out;
	const char *field;

	ondisk_slot_encode(old, &super_sample, &slot);
	slot.incarnation++;
	ondisk_slot_encode(new, &super_sample, &slot);
	for (uint32_t mask = 0; mask < 256; mask++) {
		for (uint32_t i = 0; i < 8; i++)
			memcpy(torn + i * 512, ((mask >> i & 1) ? new : old) + i * 512, 512);
		cr_assert_eq(ondisk_slot_decode(torn, &super_sample, 2, &out, &field), 0);
	}
}

Test(ondisk, uuid_text)
{
	char text[ONDISK_UUID_TEXT_BYTES];

	ondisk_uuid_text(super_sample.disk_uuid, text);
	cr_assert_str_eq(text, "01020304-0506-0708-090a-0b0c0d0e0f10");
}

/* ---- golden bytes ---- */

/*
 * Version 1 as it lies on disks. With CLEAVE_GOLDEN_WRITE set the files are written instead; do that
 * only with a new ONDISK_VERSION, and keep the old ones.
 */
static void
golden_path(char *path, size_t bytes, const char *name)
{
	const char *root = getenv("CLEAVE_SOURCE_DIR");

	(void)snprintf(path, bytes, "%s/tests/golden/%s", root == NULL ? "." : root, name);
}

static void
golden_put(const char *name, const void *data, size_t bytes)
{
	char path[4096];
	FILE *file;

	golden_path(path, sizeof(path), name);
	file = fopen(path, "wb");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
	cr_assert_eq(fclose(file), 0);
}

static void
golden_get(const char *name, void *data, size_t bytes)
{
	char path[4096];
	FILE *file;

	golden_path(path, sizeof(path), name);
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fread(data, 1, bytes, file), bytes);
	cr_assert_eq(fclose(file), 0);
}

Test(ondisk, the_bytes_of_version_1_are_for_ever)
{
	static uint8_t pages[5][4096], expected[5][4096];
	struct ondisk_fence fence = fence_sample();
	struct ondisk_claims claims = claims_sample();
	struct ondisk_state state = state_sample();

	ondisk_super_encode(pages[0], &super_sample);
	ondisk_fence_encode(pages[1], &super_sample, &fence);
	ondisk_slot_encode(pages[2], &super_sample, &slot_sample);
	ondisk_state_encode(pages[3], &super_sample, &state);
	ondisk_claims_encode(pages[4], &super_sample, &claims);
	if (getenv("CLEAVE_GOLDEN_WRITE") != NULL)
		golden_put("disk_pages.bin", pages, sizeof(pages));
	golden_get("disk_pages.bin", expected, sizeof(expected));
	cr_assert_arr_eq(pages, expected, sizeof(pages));
}

/* A whole disk: one extent frozen with three batches, one sealed, one open, one deleted. */
static void
golden_disk_make(struct node_rig *rig, struct rig_extent *e)
{
	for (uint32_t i = 0; i < 4; i++) {
		rig_extent_init(&e[i], i, 1, i + 10, i == 1 ? EXTENT_MANIFEST : EXTENT_LOG);
		cr_assert_eq(rig_extent_create(rig, &e[i]), 0);
		for (uint32_t k = 0; k < 3; k++)
			cr_assert_eq(rig_append(rig, &e[i], 1), 0);
	}
	cr_assert_eq(rig_freeze(rig, &e[0], 5, NULL), 0);
	cr_assert_eq(rig_cut(rig, &e[1], 1, 8192), 0);
	cr_assert_eq(rig_delete(rig, &e[3], 1), 0);
	cr_assert_eq(rig_fence(rig, 4000, 77), 0);
}

Test(ondisk, a_disk_of_version_1_is_read_for_ever)
{
	struct node_rig *rig = rig_create(&(struct rig_options){ .slot_count = 6 });
	size_t bytes = ONDISK_SLOTS_OFFSET + 6 * RIG_SLOT_BYTES;
	uint8_t *image = malloc(bytes);
	struct wire_extent_entry entries[8];
	struct wire_node_reply reply;
	struct rig_extent e[4];

	rig_up(rig);
	golden_disk_make(rig, e); /* also tells what to expect */
	rig_kill(rig, false);
	disk_sim_power_loss(rig->disk);
	if (getenv("CLEAVE_GOLDEN_WRITE") != NULL) {
		disk_sim_peek(rig->disk, 0, image, bytes);
		golden_put("disk_v1.bin", image, bytes);
	}
	golden_get("disk_v1.bin", image, bytes);
	disk_sim_poke(rig->disk, 0, image, bytes);
	rig_up(rig);
	cr_assert_eq(rig_list(rig, UINT32_MAX, entries, 8), 3);
	cr_assert_eq(entries[0].state, WIRE_EXTENT_FROZEN);
	cr_assert_eq(entries[1].state, WIRE_EXTENT_SEALED);
	cr_assert_eq(entries[2].state, WIRE_EXTENT_OPEN);
	cr_assert_eq(rig_freeze(rig, &e[0], 4, NULL), -ESTALE);
	cr_assert_eq(rig_freeze(rig, &e[0], 5, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 24576);
	cr_assert_eq(rig_freeze(rig, &e[1], 1, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 8192);
	cr_assert_eq(rig_freeze(rig, &e[2], 1, &reply), 0);
	cr_assert_eq(reply.offset_bytes, 24576);
	cr_assert_eq(rig_fence(rig, 4000, 76), -ESTALE);
	for (uint32_t i = 0; i < 4; i++)
		rig_extent_fini(&e[i]);
	rig_destroy(rig);
	free(image);
}
