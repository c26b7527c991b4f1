/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c -- see utf8.h */
#include "base/utf8.h"

#include <stdint.h>

#include "base/check.h"
#include "base/num.h"

/* The well-formed sequences of UTF-8, by their first byte: RFC 3629, section 4. */
static const struct {
	uint8_t first_min, first_max;
	uint8_t second_min, second_max; /* the others are 0x80 to 0xbf */
	uint8_t bytes;
} sequences[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 }, /* no surrogates */
	{ 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

size_t
utf8_bytes(const char *text)
{
	const uint8_t *at = (const uint8_t *)text;

	assert(at[0] != 0);
	if (at[0] < 0x80)
		return 1;
	for (size_t i = 0; i < NUM_COUNT(sequences); i++) {
		if (at[0] < sequences[i].first_min || at[0] > sequences[i].first_max)
			continue;
		if (at[1] < sequences[i].second_min || at[1] > sequences[i].second_max)
			return 0;
		for (size_t k = 2; k < sequences[i].bytes; k++) {
			if (at[k] < 0x80 || at[k] > 0xbf) /* also at the end */
				return 0;
		}
		return sequences[i].bytes;
	}
	return 0;
}
