/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h -- where a character of a text ends, and whether it is one */
#ifndef CLEAVE_BASE_UTF8_H
#define CLEAVE_BASE_UTF8_H

#include <stddef.h>

/*
 * utf8_bytes -- how many bytes the character at @text has: 1 to 4
 *
 * @text: ends with a NUL, and does not begin with it. Returns 0 where they are no well-formed UTF-8 (RFC 3629, section 4):
 * cut, longer than need be, a surrogate, or beyond U+10FFFF.
 */
size_t utf8_bytes(const char *text);

#endif /* CLEAVE_BASE_UTF8_H */
