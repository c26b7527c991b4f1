/* SPDX-License-Identifier: Apache-2.0 */
/* config_value.c -- numbers, sizes and durations from the text of an option */
#include "base/config_value.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define FRACTION_DIGITS_MAX 3
#define SIZE_PART_BYTES 4096u /* a part of a unit becomes whole blocks */

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

/* ".5" behind a number: its digits and the power of ten below them; 0 and 1 where there is none. */
static int
parse_fraction(const char **text, uint64_t *ret_digits, uint64_t *ret_below)
{
	const char *first = *text + 1;
	uint64_t digits = 0;
	int rc;

	*ret_digits = 0;
	*ret_below = 1;
	if (**text != '.')
		return 0;
	rc = parse_number(first, &digits, text);
	if (rc != 0 || *text - first > FRACTION_DIGITS_MAX)
		return -EINVAL;
	for (; first < *text; first++)
		*ret_below *= 10;
	*ret_digits = digits;
	return 0;
}

/* @round: a part of a unit is rounded up to a multiple of it. */
static int
parse_with_unit(const char *text, const struct unit *units, uint64_t round, uint64_t *ret_value)
{
	const char *suffix = NULL;
	uint64_t value = 0, digits = 0, below = 1, part;
	int rc = parse_number(text, &value, &suffix);

	if (rc == 0)
		rc = parse_fraction(&suffix, &digits, &below);

	assert(text != NULL && ret_value != NULL);
	assert(units->name != NULL);
	if (rc != 0)
		return rc;
	for (; units->name != NULL; units++) {
		if (strcasecmp(suffix, units->name) != 0)
			continue;
		if (below > 1 && units->factor < below)
			return -EINVAL; /* a part of a byte, or of a nanosecond */
		/* At most 10^3 of the largest unit, 2^40 or a day of nanoseconds. */
		part = num_round_up((digits * units->factor + below - 1) / below, round);
		if (__builtin_mul_overflow(value, units->factor, &value) ||
		    __builtin_add_overflow(value, part, &value))
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
	return parse_with_unit(text, units, 1, ret_value);
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
		{ "KB", NUM_KIB(1) },
		{ "MB", NUM_MIB(1) },
		{ "GB", NUM_GIB(1) },
		{ "TB", NUM_GIB(1024) },
		{ NULL, 0 },
	};

	assert(ret_bytes != NULL);
	return parse_with_unit(text, units, SIZE_PART_BYTES, ret_bytes);
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
		{ "d", NUM_S(86400) },
		{ NULL, 0 },
	};

	assert(text != NULL && ret_ns != NULL);
	/* Zero needs no unit. */
	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	return parse_with_unit(text, units, 1, ret_ns);
}
