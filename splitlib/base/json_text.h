/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_text.h -- a text as the inside of a JSON string, for who writes JSON without allocating
 *
 * Who has a document to write takes jansson.
 */
#ifndef CLEAVE_BASE_JSON_TEXT_H
#define CLEAVE_BASE_JSON_TEXT_H

#include <stddef.h>

/* Room for each text that has at most @bytes, its NUL included. */
#define JSON_TEXT_BYTES(bytes) (6u * (bytes))

/*
 * json_text_escape -- @text without quotes around it, by RFC 8259: quotes, backslashes and control characters escaped
 *
 * Each byte that is no part of valid UTF-8 (RFC 3629) becomes U+FFFD.
 * Shape:   what does not fit into @bytes, which are at least 1, is cut, never within a character.
 * Threads: any.
 */
void json_text_escape(const char *text, char *ret_text, size_t bytes);

#endif /* CLEAVE_BASE_JSON_TEXT_H */
