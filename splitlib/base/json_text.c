/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.c -- see json_text.h */
#include "base/json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define ESCAPE_BYTES 8u /* \u001f and its NUL */
#define REPLACEMENT "\xef\xbf\xbd"

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

/* How many bytes the character at @text has; 0: they are no UTF-8. A NUL ends any sequence. */
static size_t
character_bytes(const uint8_t *text)
{
	assert(text[0] != 0);
	if (text[0] < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		if (text[0] < sequences[i].first_min || text[0] > sequences[i].first_max)
			continue;
		if (text[1] < sequences[i].second_min || text[1] > sequences[i].second_max)
			return 0;
		for (size_t k = 2; k < sequences[i].bytes; k++) {
			if (text[k] < 0x80 || text[k] > 0xbf)
				return 0;
		}
		return sequences[i].bytes;
	}
	return 0;
}

/* A character as it stands in a string, into @ret_text. Returns how many bytes of @text it took. */
static size_t
escape_one(const char *text, char ret_text[ESCAPE_BYTES])
{
	size_t bytes = character_bytes((const uint8_t *)text);
	char c = text[0];

	if (bytes == 0) {
		memcpy(ret_text, REPLACEMENT, sizeof(REPLACEMENT));
		return 1;
	}
	if (c == '"' || c == '\\')
		(void)snprintf(ret_text, ESCAPE_BYTES, "\\%c", c);
	else if ((uint8_t)c < 0x20)
		(void)snprintf(ret_text, ESCAPE_BYTES, "\\u%04x", (unsigned)c);
	else
		(void)snprintf(ret_text, ESCAPE_BYTES, "%.*s", (int)bytes, text);
	return bytes;
}

void
json_text_escape(const char *text, char *ret_text, size_t bytes)
{
	char one[ESCAPE_BYTES];
	size_t used = 0;

	assert(text != NULL && bytes > 0);
	while (*text != '\0') {
		size_t taken = escape_one(text, one);

		if (used + strlen(one) >= bytes)
			break;
		memcpy(ret_text + used, one, strlen(one));
		used += strlen(one);
		text += taken;
	}
	ret_text[used] = '\0';
}
