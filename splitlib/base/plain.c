/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c -- see plain.h */
#include "base/plain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"

/* The length in bytes of the character that begins at @text and may stand; 0: none does. */
static size_t
plain_bytes(const char *text)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t bytes = utf8_bytes(text);
	bool is_control = bytes == 1 ? at[0] < 0x20 || at[0] == 0x7f
				     : at[0] == 0xc2 && at[1] < 0xa0; /* U+0080 to U+009F */

	return is_control ? 0 : bytes;
}

char *
plain_text(char *text)
{
	char *at = text;

	assert(text != NULL);
	while (*at != '\0') {
		size_t bytes = plain_bytes(at);

		if (bytes == 0)
			*at++ = '?';
		else
			at += bytes;
	}
	return text;
}
