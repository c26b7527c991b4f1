/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c -- see plain.h */
#include "base/plain.h"

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

/* The length in bytes of the character that begins at @text and may stand; 0: none does. */
static size_t
plain_bytes(const unsigned char *text)
{
	static const uint32_t least[] = { 0, 0, 0xa0, 0x800,
		0x10000 }; /* by length; shorter ones are forged */
	size_t bytes = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
	uint32_t code = text[0] & (0x7fu >> bytes);

	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	if (text[0] < 0xc0 || text[0] >= 0xf8)
		return 0;
	for (size_t i = 1; i < bytes; i++) {
		if ((text[i] & 0xc0) != 0x80) /* also at the end */
			return 0;
		code = code << 6 | (text[i] & 0x3fu);
	}
	if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return bytes;
}

char *
plain_text(char *text)
{
	char *at = text;

	assert(text != NULL);
	while (*at != '\0') {
		size_t bytes = plain_bytes((const unsigned char *)at);

		if (bytes == 0)
			*at++ = '?';
		else
			at += bytes;
	}
	return text;
}
