/* SPDX-License-Identifier: Apache-2.0 */
/* wire_hot.c -- pages with hot blocks: names, heads of slots, and keys, decoded and encoded */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/hot.h"

#define HEAD_ZEROS_AT 48u
#define HEAD_CRC_AT (HOT_HEAD_BYTES - 4)
#define HEAD_ZEROS_BYTES (HEAD_CRC_AT - HEAD_ZEROS_AT)

_Static_assert(HOT_PAGE_SLOTS * sizeof(uint32_t) <= HOT_PAGE_TAG_BYTES, "a page's tags");

uint64_t
wire_hot_hash(uint64_t segment, uint32_t block)
{
	return num_mix_u64(num_mix_u64(segment) + block);
}

uint32_t
wire_hot_tag(uint64_t hash)
{
	return (uint32_t)(hash << 1) | 1u;
}

/* Other bits than those of a gateway's sketch of how hot blocks are: by those a set's blocks would share lines. */
uint32_t
wire_hot_set(uint64_t hash, uint32_t set_count)
{
	uint64_t mixed = (hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	assert(set_count > 0);
	return (uint32_t)((mixed * set_count) >> 32);
}

void
wire_hot_head_encode(uint8_t out[HOT_HEAD_BYTES], const struct wire_hot_head *head)
{
	memset(out, 0, HOT_HEAD_BYTES);
	num_put_le64(out, head->control);
	num_put_le64(out + 8, head->segment);
	num_put_le32(out + 16, head->block);
	num_put_le32(out + 20, head->shard);
	num_put_le32(out + 24, head->epoch);
	num_put_le32(out + 28, head->block_crc);
	num_put_le64(out + 32, head->volume);
	num_put_le64(out + 40, head->version);
	num_put_le32(out + HEAD_CRC_AT, crc32c(0, out + 8, HEAD_CRC_AT - 8));
}

int
wire_hot_head_decode(const uint8_t in[HOT_HEAD_BYTES], struct wire_hot_head *ret_head)
{
	const struct wire_hot_head head = { .control = num_get_le64(in),
		.segment = num_get_le64(in + 8),
		.block = num_get_le32(in + 16),
		.shard = num_get_le32(in + 20),
		.epoch = num_get_le32(in + 24),
		.block_crc = num_get_le32(in + 28),
		.volume = num_get_le64(in + 32),
		.version = num_get_le64(in + 40) };
	static const uint8_t zeros[HEAD_ZEROS_BYTES];

	if (head.control != (head.version << 1 | 1) ||
	    memcmp(in + HEAD_ZEROS_AT, zeros, sizeof(zeros)) != 0 ||
	    num_get_le32(in + HEAD_CRC_AT) != crc32c(0, in + 8, HEAD_CRC_AT - 8))
		return -EAGAIN;
	*ret_head = head;
	return 0;
}

int
wire_hot_page_decode(const uint8_t in[DEV_REMOTE_BYTES], struct dev_remote *ret_page,
    const char **ret_field)
{
	struct dev_remote page;

	FIELD_EXPECT(dev_remote_decode(in, &page) == 0, "hot_page", -EPROTO);
	FIELD_EXPECT(page.bytes == HOT_PAGE_BYTES, "hot_page_bytes", -EPROTO);
	FIELD_EXPECT(page.rights == DEV_REGION_READ, "hot_page_rights", -EPROTO);
	*ret_page = page;
	return 0;
}
