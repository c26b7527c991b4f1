/* SPDX-License-Identifier: Apache-2.0 */
/* uri_text.h -- text in a URI: a path with a blank in it ends the URI there, one with a % says something else */
#ifndef CLEAVE_BASE_URI_TEXT_H
#define CLEAVE_BASE_URI_TEXT_H

#include <stddef.h>

/*
 * uri_text_add -- put @text behind the string @out, each byte that a path of a URI cannot have as it is as %XX
 *
 * @bytes: of @out, of which up to three go to each byte of @text. What does not fit is left out, whole bytes of it.
 */
void uri_text_add(char *out, size_t bytes, const char *text);

#endif /* CLEAVE_BASE_URI_TEXT_H */
