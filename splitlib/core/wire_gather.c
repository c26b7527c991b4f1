/* SPDX-License-Identifier: Apache-2.0 */
/* wire_gather.c -- the stretches that GATHER asks for, decoded and encoded, as wire.c does it */
#include <errno.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/gather.h"
#include "cleave/units.h"

#define GATHER_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

void
wire_gather_encode(uint8_t *out, const struct wire_stretch *stretches, uint32_t count)
{
	assert(count > 0 && count <= WIRE_GATHER_MAX);
	for (uint32_t i = 0; i < count; i++) {
		assert(stretches[i].length_bytes > 0);
		num_put_le32(out + i * WIRE_STRETCH_BYTES, stretches[i].offset_bytes);
		num_put_le32(out + i * WIRE_STRETCH_BYTES + 4, stretches[i].length_bytes);
	}
}

int
wire_gather_decode(const uint8_t *in, uint32_t count, uint32_t length_bytes,
    struct wire_stretch *ret_stretches, const char **ret_field)
{
	uint64_t end_bytes = 0, sum_bytes = 0;

	assert(count > 0 && count <= WIRE_GATHER_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct wire_stretch *stretch = &ret_stretches[i];

		stretch->offset_bytes = num_get_le32(in + i * WIRE_STRETCH_BYTES);
		stretch->length_bytes = num_get_le32(in + i * WIRE_STRETCH_BYTES + 4);
		GATHER_EXPECT(stretch->offset_bytes >= end_bytes, "stretch_offset_bytes");
		end_bytes = (uint64_t)stretch->offset_bytes + stretch->length_bytes;
		GATHER_EXPECT(stretch->length_bytes > 0 && end_bytes <= CLEAVE_CHUNK_BYTES,
		    "stretch_length_bytes");
		sum_bytes += stretch->length_bytes;
	}
	GATHER_EXPECT(sum_bytes == length_bytes, "length_bytes");
	return 0;
}
