/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_disk_recover.c -- a node starts on a disk that somebody has scribbled on
 *
 * The disk is a good one of five slots (an extent frozen, one sealed, one open, one deleted). Input:
 * patches of 8 bytes or more, each u32 where, u8 how many bytes (and, by its top bit, whether the
 * page's CRC is made to fit), then the bytes. Afterwards the node must start or say why not, and its
 * answers must be within their bounds.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "storage-node/fence.h"
#include "storage-node/format/ondisk.h"
#include "support/node_rig.h"

#define SLOTS 5u
#define IMAGE_BYTES (ONDISK_SLOTS_OFFSET + SLOTS * RIG_SLOT_BYTES)
#define EXTENTS 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t image[IMAGE_BYTES];
static struct rig_extent extents[EXTENTS];

static void
image_make(void)
{
	struct node_rig *rig = rig_create(&(struct rig_options){ .slot_count = SLOTS });

	rig_up(rig);
	for (uint32_t i = 0; i < EXTENTS; i++) {
		rig_extent_init(&extents[i], i, 1, i + 1, EXTENT_MANIFEST);
		extents[i].kind = EXTENT_MANIFEST;
		(void)rig_extent_create(rig, &extents[i]);
		for (uint32_t k = 0; k < 3; k++)
			(void)rig_append(rig, &extents[i], 1);
	}
	(void)rig_freeze(rig, &extents[0], 5, NULL);
	(void)rig_cut(rig, &extents[1], 1, 8192);
	(void)rig_delete(rig, &extents[3], 1);
	rig_kill(rig, false);
	disk_sim_peek(rig->disk, 0, image, sizeof(image));
	rig_destroy(rig);
}

/* The CRC of the page, or of the batch, that lies at @at. */
static void
page_reseal(uint8_t *page)
{
	uint32_t covered = memcmp(page, "!CLVFNC1", 8) == 0 ? 4096 : 512;

	if (num_get_le32(page) == BATCH_MAGIC) {
		uint32_t desc = (uint32_t)num_min(num_get_le32(page + 64), 4096 - 128);

		num_put_le32(page + 124, crc32c(crc32c(0, page, 124), page + 128, desc));
		return;
	}
	num_put_le32(page + 12, 0);
	num_put_le32(page + 12, crc32c(0, page, covered));
}

static void
image_patch(uint8_t *disk, const uint8_t *data, size_t bytes)
{
	while (bytes >= 6) {
		uint32_t at = num_get_le32(data) % IMAGE_BYTES;
		uint32_t count = data[4] & 0x7f;

		count = (uint32_t)num_min(num_min(count, bytes - 5), IMAGE_BYTES - at);
		memcpy(disk + at, data + 5, count);
		if ((data[4] & 0x80) != 0)
			page_reseal(disk + at / 4096 * 4096);
		data += 5 + count;
		bytes -= 5 + count;
	}
}

static void
node_ask(struct node_rig *rig)
{
	struct wire_extent_entry entries[SLOTS];
	struct wire_node_reply reply;
	int count = rig_list(rig, UINT32_MAX, entries, SLOTS);
	char *text;

	assert(count >= 0 && count <= (int)SLOTS);
	for (int i = 0; i < count; i++) {
		struct rig_extent e = { .id = extent_id_unpack(entries[i].extent) };
		uint8_t byte;

		assert(entries[i].length_bytes <= rig_capacity(rig));
		if (rig_verify(rig, &e, &reply) == 0)
			assert(reply.offset_bytes == entries[i].length_bytes);
		assert(reply.offset_bytes <= rig_capacity(rig));
		if (rig_freeze(rig, &e, SN_FENCE_JUMP_MAX, &reply) == 0)
			assert(reply.offset_bytes <= rig_capacity(rig));
		if (entries[i].length_bytes > 0)
			(void)rig_read(rig, &e, entries[i].length_bytes - 1, 1, &byte);
		(void)rig_cut(rig, &e, SN_FENCE_JUMP_MAX, 4096);
		e.incarnation = entries[i].incarnation;
		(void)rig_delete(rig, &e, SN_FENCE_JUMP_MAX);
	}
	for (uint32_t i = 0; i < 3; i++) {
		(void)rig_call_rc(rig,
		    &(struct wire_node){ .opcode = WIRE_EXTENT_CREATE,
			.id = { i, 1, 99 },
			.kind = EXTENT_MANIFEST,
			.epoch = SN_FENCE_JUMP_MAX },
		    NULL, 0, NULL);
		(void)rig_fence(rig, i * 1000, SN_FENCE_JUMP_MAX);
	}
	(void)rig_control(rig, "{\"op\":\"status\"}", &text);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static bool is_made;
	struct node_rig *rig;
	uint8_t *disk;

	if (!is_made)
		image_make();
	is_made = true;
	disk = malloc(IMAGE_BYTES);
	assert(disk != NULL);
	memcpy(disk, image, IMAGE_BYTES);
	image_patch(disk, data, bytes);
	rig = rig_create(&(struct rig_options){ .slot_count = SLOTS });
	disk_sim_poke(rig->disk, 0, disk, IMAGE_BYTES);
	free(disk);
	if (rig_start(rig) == 0 && rig_connect(rig) == 0)
		node_ask(rig);
	rig_destroy(rig);
	return 0;
}
