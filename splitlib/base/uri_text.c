/* SPDX-License-Identifier: Apache-2.0 */
/* uri_text.c -- see uri_text.h */
#include "base/uri_text.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

void
uri_text_add(char *out, size_t bytes, const char *text)
{
	static const char hex[] = "0123456789ABCDEF", plain[] = "-._~/:@";
	size_t used = strlen(out);

	assert(used < bytes);
	for (; *text != '\0' && used + 4 <= bytes; text++) {
		uint8_t byte = (uint8_t)*text;

		if ((byte < 0x80 && isalnum(byte)) || strchr(plain, byte) != NULL) {
			out[used++] = *text;
		} else {
			out[used++] = '%';
			out[used++] = hex[byte >> 4];
			out[used++] = hex[byte & 15];
		}
		out[used] = '\0';
	}
}
