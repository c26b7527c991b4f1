/* SPDX-License-Identifier: Apache-2.0 */
/* config_value.c -- numbers, sizes and durations from the text of an option */
#include "base/config_value.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

/* The number at the start of @text; *@ret_end is behind it. */
static int
parse_number(const char *text, uint64_t *ret_value, const char **ret_end)
{
	uint64_t value = 0;

	assert(text != NULL);
	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return -ERANGE;
	}
	*ret_value = value;
	*ret_end = text;
	return 0;
}

/* A suffix and what it multiplies by. */
struct unit {
	const char *name;
	uint64_t factor;
};

static int
parse_with_unit(const char *text, const struct unit *units, uint64_t *ret_value)
{
	const char *suffix = NULL;
	uint64_t value = 0;
	int rc = parse_number(text, &value, &suffix);

	assert(text != NULL && ret_value != NULL);
	assert(units->name != NULL);
	if (rc != 0)
		return rc;
	for (; units->name != NULL; units++) {
		if (strcasecmp(suffix, units->name) != 0)
			continue;
		if (__builtin_mul_overflow(value, units->factor, &value))
			return -ERANGE;
		*ret_value = value;
		return 0;
	}
	return -EINVAL;
}

int
config_parse_u64(const char *text, uint64_t *ret_value)
{
	static const struct unit units[] = { { "", 1 }, { NULL, 0 } };

	assert(ret_value != NULL);
	return parse_with_unit(text, units, ret_value);
}

int
config_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "K", NUM_KIB(1) },
		{ "M", NUM_MIB(1) },
		{ "G", NUM_GIB(1) },
		{ "T", NUM_GIB(1024) },
		{ "KiB", NUM_KIB(1) },
		{ "MiB", NUM_MIB(1) },
		{ "GiB", NUM_GIB(1) },
		{ "TiB", NUM_GIB(1024) },
		{ NULL, 0 },
	};

	assert(ret_bytes != NULL);
	return parse_with_unit(text, units, ret_bytes);
}

int
config_parse_duration(const char *text, uint64_t *ret_ns)
{
	static const struct unit units[] = {
		{ "ns", 1 },
		{ "us", NUM_US(1) },
		{ "ms", NUM_MS(1) },
		{ "s", NUM_S(1) },
		{ "m", NUM_S(60) },
		{ "h", NUM_S(3600) },
		{ NULL, 0 },
	};

	assert(text != NULL && ret_ns != NULL);
	/* Zero needs no unit. */
	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	return parse_with_unit(text, units, ret_ns);
}
