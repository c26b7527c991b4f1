/* SPDX-License-Identifier: Apache-2.0 */
/* wire_fields.h -- headers with one field that is wrong, and bytes that stay */
#ifndef CLEAVE_TESTS_WIRE_FIELDS_H
#define CLEAVE_TESTS_WIRE_FIELDS_H

#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/wire.h"
#include "splitlib/core/wire.h"

static inline void
golden_check(const char *name, const void *bytes, size_t count)
{
	const char *folder = getenv("CLEAVE_SOURCE_DIR");
	uint8_t expected[512];
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/tests/golden/wire_%s.bin",
	    folder != NULL ? folder : ".", name);
	if (getenv("CLEAVE_GOLDEN_WRITE") != NULL) {
		file = fopen(path, "wb");
		cr_assert_not_null(file);
		cr_assert_eq(fwrite(bytes, 1, count, file), count);
		cr_assert_eq(fclose(file), 0);
		return;
	}
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fread(expected, 1, sizeof(expected), file), count);
	(void)fclose(file);
	cr_assert_arr_eq(bytes, expected, count, "%s: the format changed", name);
}

static inline void
stamp(struct wire_header *header, uint32_t payload_bytes)
{
	wire_frame_stamp(header, payload_bytes, 0x0102);
}

/* Each row breaks one field of a good message. */
struct bad_field {
	size_t offset;
	size_t bytes;
	uint64_t value;
	const char *field;
};

#define BAD(member, value, name)                                                                   \
	{                                                                                          \
		offsetof(struct wire_header, member), sizeof(((struct wire_header *)0)->member),   \
		    (value), (name)                                                                \
	}

typedef int (*decode_fn)(const struct wire_header *header, const char **ret_field);

static inline void
bad_fields_check(const struct wire_header *good, decode_fn decode, const struct bad_field *bad,
    size_t count)
{
	const char *field = NULL;

	cr_assert_eq(decode(good, &field), 0, "%s", field != NULL ? field : "");
	for (size_t i = 0; i < count; i++) {
		struct wire_header header = *good;
		uint64_t value = htole64(bad[i].value);

		memcpy((uint8_t *)&header + bad[i].offset, &value, bad[i].bytes);
		field = NULL;
		cr_assert_eq(decode(&header, &field), -EPROTO, "row %zu: %s", i, bad[i].field);
		cr_assert_str_eq(field, bad[i].field, "row %zu: %s", i, field);
	}
}

#endif /* CLEAVE_TESTS_WIRE_FIELDS_H */
