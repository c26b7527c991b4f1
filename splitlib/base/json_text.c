/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.c -- see json_text.h */
#include "base/json_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"

#define ESCAPE_BYTES 8u /* \u001f and its NUL */
#define REPLACEMENT "\xef\xbf\xbd"

/* A character as it stands in a string, into @ret_text. Returns how many bytes of @text it took. */
static size_t
escape_one(const char *text, char ret_text[ESCAPE_BYTES])
{
	size_t bytes = utf8_bytes(text);
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
