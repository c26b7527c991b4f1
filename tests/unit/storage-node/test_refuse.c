/* SPDX-License-Identifier: Apache-2.0 */
/* test_refuse.c -- disks that a node does not start on, and what it says */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "storage-node/format/ondisk.h"
#include "support/node_rig.h"

static struct node_rig *rig;

static void
setup(void)
{
	rig = rig_create(NULL);
	rig_up(rig);
}

static void
teardown(void)
{
	rig_destroy(rig);
}

TestSuite(refuse, .init = setup, .fini = teardown);

static void
patch_super_copy(uint32_t copy, uint32_t offset, const void *bytes, uint32_t count)
{
	uint8_t page[4096];

	disk_sim_peek(rig->disk, ondisk_super_offset(copy), page, sizeof(page));
	memcpy(page + offset, bytes, count);
	num_put_le32(page + 12, 0);
	num_put_le32(page + 12, crc32c(0, page, 512));
	disk_sim_poke(rig->disk, ondisk_super_offset(copy), page, sizeof(page));
}

static void
patch_super(uint32_t offset, const void *bytes, uint32_t count)
{
	for (uint32_t copy = 0; copy < 2; copy++)
		patch_super_copy(copy, offset, bytes, count);
}

static void
expect_refusal(int rc, const char *text)
{
	cr_assert_eq(rig_start(rig), rc, "%s", rig->ready_reason);
	cr_assert_not_null(strstr(rig->ready_reason, text), "\"%s\" is not in \"%s\"", text,
	    rig->ready_reason);
	cr_assert_not_null(strstr(rig->ready_reason, "sim"), "the disk is named");
	cr_assert_eq(rig_stop(rig), 0);
}

Test(refuse, a_disk_that_is_not_formatted)
{
	uint8_t zeros[4096] = { 0 };

	rig_kill(rig, false);
	disk_sim_poke(rig->disk, ondisk_super_offset(0), zeros, sizeof(zeros));
	disk_sim_poke(rig->disk, ondisk_super_offset(1), zeros, sizeof(zeros));
	expect_refusal(-ENODATA, "not formatted");
}

Test(refuse, another_version)
{
	uint32_t version = 2;

	rig_kill(rig, false);
	patch_super(8, &version, sizeof(version));
	expect_refusal(-EPROTONOSUPPORT, "version");
}

Test(refuse, a_disk_that_is_half_of_another_version)
{
	uint8_t page[4096];

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint32_t version = 2;

		rig_kill(rig, false);
		disk_sim_peek(rig->disk, ondisk_super_offset(copy), page, sizeof(page));
		patch_super_copy(copy, 8, &version, sizeof(version));
		expect_refusal(-EPROTONOSUPPORT, "version");
		rig_kill(rig, false);
		/* A version that rotted is no version. */
		disk_sim_poke(rig->disk, ondisk_super_offset(copy), page, sizeof(page));
		disk_sim_rot(rig->disk, ondisk_super_offset(copy) + 8, 1);
		rig_up(rig);
		rig_kill(rig, false);
		disk_sim_rot(rig->disk, ondisk_super_offset(copy) + 8, 1);
	}
}

/* The disk's identity, against the one that it should have. */
Test(refuse, disks_of_others)
{
	static const struct {
		uint64_t cluster_id;
		uint32_t node_id;
		int rc;
		const char *text;
	} table[] = {
		{ 0, 0, 0, NULL },
		{ RIG_CLUSTER_ID, RIG_NODE_ID, 0, NULL },
		{ RIG_CLUSTER_ID + 1, RIG_NODE_ID, -EXDEV, "another cluster" },
		{ RIG_CLUSTER_ID + 1, RIG_NODE_ID, -EXDEV,
		    "1122334455667788, not 1122334455667789" },
		{ RIG_CLUSTER_ID, RIG_NODE_ID + 1, -EXDEV, "another node" },
		{ RIG_CLUSTER_ID, RIG_NODE_ID + 1, -EXDEV, "node_id is 7, not 8" },
		{ 42, 42, -EXDEV, "another cluster" },
	};

	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		rig_kill(rig, false);
		rig->options.cluster_id = table[i].cluster_id;
		rig->options.node_id = table[i].node_id;
		if (table[i].rc != 0)
			expect_refusal(table[i].rc, table[i].text);
		else
			cr_assert_eq(rig_start(rig), 0, "%zu: %s", i, rig->ready_reason);
	}
}

Test(refuse, fence_pages_of_another_version_are_refused)
{
	rig_kill(rig, false);
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t page[4096];

		disk_sim_peek(rig->disk, ondisk_fence_offset(2, copy), page, sizeof(page));
		num_put_le32(page + 8, 2);
		num_put_le32(page + 12, 0);
		num_put_le32(page + 12, crc32c(0, page, sizeof(page)));
		disk_sim_poke(rig->disk, ondisk_fence_offset(2, copy), page, sizeof(page));
	}
	expect_refusal(-EBADMSG, "fence page 2: version");
}

Test(refuse, another_cluster)
{
	uint64_t cluster = 42;

	rig_kill(rig, false);
	patch_super(32, &cluster, sizeof(cluster));
	expect_refusal(-EXDEV, "cluster_id");
}

Test(refuse, a_truncated_disk)
{
	uint32_t slots = 17;

	rig_kill(rig, false);
	patch_super(68, &slots, sizeof(slots));
	expect_refusal(-EBADMSG, "truncated");
}

Test(refuse, fields_that_cannot_be)
{
	static const struct {
		uint32_t offset;
		uint64_t value;
		const char *field;
	} table[] = {
		{ 40, 4096, "slot_bytes" },
		{ 40, 65537, "slot_bytes" },
		{ 40, 1ull << 40, "slot_bytes" },
		{ 68, 0, "slot_count" },
		{ 68, 0xffffffff, "slot_count" },
		{ 72, 6, "flags" },
		{ 76, 1, "reserved" },
		{ 0, 0x1234567812345678, "magic" },
	};

	rig_kill(rig, false);
	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		uint8_t page[2][4096];

		for (uint32_t copy = 0; copy < 2; copy++)
			disk_sim_peek(rig->disk, ondisk_super_offset(copy), page[copy], 4096);
		patch_super(table[i].offset, &table[i].value,
		    table[i].offset == 40 || table[i].offset == 0 ? 8 : 4);
		expect_refusal(-EBADMSG, table[i].field);
		rig_kill(rig, false);
		for (uint32_t copy = 0; copy < 2; copy++)
			disk_sim_poke(rig->disk, ondisk_super_offset(copy), page[copy], 4096);
	}
}

Test(refuse, a_fence_page_that_is_lost)
{
	rig_kill(rig, false);
	disk_sim_rot(rig->disk, ondisk_fence_offset(3, 0) + 70, 1);
	disk_sim_rot(rig->disk, ondisk_fence_offset(3, 1) + 70, 1);
	expect_refusal(-EBADMSG, "fence page 3");
}
