/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.c -- blocks that can be told from one another */
#include "stamp.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"

#define STAMP_MAGIC UINT64_C(0x314b434f4c42764c) /* "LvBLOCK1" */

static_assert(STAMP_BYTES == 48, "the layout above");

void
stamp_put(const struct stamp *stamp, void *ret_bytes)
{
	uint8_t *p = ret_bytes;

	assert(stamp->sequence > 0);
	num_put_le64(p, STAMP_MAGIC);
	num_put_le64(p + 8, stamp->volume_id);
	num_put_le64(p + 16, stamp->block);
	num_put_le64(p + 24, stamp->writer);
	num_put_le64(p + 32, stamp->sequence);
	num_put_le32(p + 40, stamp->content_crc);
	num_put_le32(p + 44, crc32c(0, p, 44));
}

uint32_t
stamp_content_crc(const void *block)
{
	assert(block != NULL);
	return crc32c(0, (const uint8_t *)block + STAMP_BYTES, STAMP_BLOCK_BYTES - STAMP_BYTES);
}

enum stamp_kind
stamp_check(const void *block, struct stamp *ret_stamp)
{
	const uint8_t *p = block;

	assert(block != NULL && ret_stamp != NULL);
	if (num_get_le64(p) != STAMP_MAGIC) {
		/* All zeros: the first byte is, and each equals the one before it. */
		bool is_zeros = p[0] == 0 && memcmp(p, p + 1, STAMP_BLOCK_BYTES - 1) == 0;

		return is_zeros ? STAMP_ZEROS : STAMP_ABSENT;
	}
	if (num_get_le32(p + 44) != crc32c(0, p, 44))
		return STAMP_DAMAGED;
	ret_stamp->volume_id = num_get_le64(p + 8);
	ret_stamp->block = num_get_le64(p + 16);
	ret_stamp->writer = num_get_le64(p + 24);
	ret_stamp->sequence = num_get_le64(p + 32);
	ret_stamp->content_crc = num_get_le32(p + 40);
	return ret_stamp->content_crc == stamp_content_crc(block) ? STAMP_VALID : STAMP_BAD_DATA;
}

void
stamp_describe(enum stamp_kind kind, const struct stamp *stamp, char *ret_text, uint32_t bytes)
{
	assert(stamp != NULL && ret_text != NULL);
	assert(bytes > 0);
	switch (kind) {
	case STAMP_ZEROS:
		snprintf(ret_text, bytes, "zeros");
		return;
	case STAMP_ABSENT:
		snprintf(ret_text, bytes, "a block without a stamp");
		return;
	case STAMP_DAMAGED:
		snprintf(ret_text, bytes, "a damaged stamp");
		return;
	case STAMP_VALID:
	case STAMP_BAD_DATA:
		break;
	}
	snprintf(ret_text, bytes,
	    "%ssequence %" PRIu64 " of writer %" PRIx64 ", volume %" PRIu64 ", block %" PRIu64,
	    kind == STAMP_BAD_DATA ? "damaged content under the stamp " : "", stamp->sequence,
	    stamp->writer, stamp->volume_id, stamp->block);
}
