/* SPDX-License-Identifier: Apache-2.0 */
/* load_expect.c -- see load_expect.h */
#include "load_expect.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "load.h"
#include "stamp.h"

static bool
may_be_discarded(const struct load_expected *expected)
{
	assert(expected->acknowledged <= expected->issued);
	assert(expected->discarded <= expected->issued);
	return expected->discarded != 0 && expected->discarded >= expected->acknowledged;
}

bool
load_expect_stamped(const struct load_expected *expected, const uint8_t *data,
    char ret_text[LOAD_EXPECT_TEXT_BYTES])
{
	bool may_be_old = expected->acknowledged == 0, is_good = false;
	struct stamp stamp = { 0 };
	enum stamp_kind kind = stamp_check(data, &stamp);

	assert(expected->acknowledged <= expected->issued);
	switch (kind) {
	case STAMP_VALID:
		if (stamp.writer == expected->writer)
			is_good = stamp.volume_id == expected->volume_id &&
			    stamp.sequence >= expected->acknowledged &&
			    stamp.sequence <= expected->issued;
		else
			is_good = may_be_old;
		is_good = is_good && stamp.block == expected->block;
		break;
	case STAMP_ZEROS:
		is_good = may_be_old || may_be_discarded(expected);
		break;
	case STAMP_ABSENT:
		is_good = may_be_old;
		break;
	case STAMP_DAMAGED:
	case STAMP_BAD_DATA:
		break;
	}
	if (!is_good)
		stamp_describe(kind, &stamp, ret_text, LOAD_EXPECT_TEXT_BYTES);
	return is_good;
}

bool
load_expect_exact(const struct load_expected *expected, const struct source *source,
    const uint8_t *data, char ret_text[LOAD_EXPECT_TEXT_BYTES])
{
	uint32_t crc;

	assert(expected->block < UINT64_MAX / LOAD_BLOCK_BYTES);
	assert(expected->acknowledged <= expected->issued);
	if (expected->acknowledged == 0)
		return true;
	crc = crc32c(0, data, LOAD_BLOCK_BYTES);
	for (uint32_t sequence = expected->acknowledged; sequence <= expected->issued; sequence++)
		if (source->block_crcs[source_pick(source, expected->block, sequence)] == crc)
			return true;
	if (may_be_discarded(expected) && data[0] == 0 &&
	    memcmp(data, data + 1, LOAD_BLOCK_BYTES - 1) == 0)
		return true;
	(void)snprintf(ret_text, LOAD_EXPECT_TEXT_BYTES, "a block with CRC-32C %08x", crc);
	return false;
}
