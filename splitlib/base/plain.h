/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h -- texts of others, made fit for JSON and for a terminal */
#ifndef CLEAVE_BASE_PLAIN_H
#define CLEAVE_BASE_PLAIN_H

/*
 * plain_text -- each byte of @text that is no part of a character of UTF-8, or of one that controls, becomes '?'
 *
 * Such are those below 0x20, 0x7f, and U+0080 to U+009F: a terminal obeys them. A text that was cut inside a character
 * loses what is left of it so. Returns @text. Threads: any.
 */
char *plain_text(char *text);

#endif /* CLEAVE_BASE_PLAIN_H */
