/* SPDX-License-Identifier: Apache-2.0 */
/* kek.c -- see kek.h */
#include "kek.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/durable.h"

#define KEK_BYTES 32u
#define KEK_TEXT_BYTES (2u * KEK_BYTES + 1u) /* with the end of its line */

int
kek_make(const char *path, char *why)
{
	uint8_t key[KEK_BYTES];
	char text[KEK_TEXT_BYTES];
	const gnutls_datum_t datum = { key, sizeof(key) };
	size_t text_bytes = sizeof(text);
	int rc;

	assert(path != NULL);
	why[0] = '\0';
	if (gnutls_rnd(GNUTLS_RND_KEY, key, sizeof(key)) < 0 ||
	    gnutls_hex_encode(&datum, text, &text_bytes) < 0) {
		(void)snprintf(why, KEK_WHY_BYTES, "the system has no random bytes");
		return -EIO;
	}
	assert(text_bytes == sizeof(text));
	text[KEK_TEXT_BYTES - 1] = '\n'; /* was the NUL */
	rc = durable_write(path, text, sizeof(text), 0600, false);
	gnutls_memset(key, 0, sizeof(key));
	gnutls_memset(text, 0, sizeof(text));
	if (rc == -EEXIST)
		(void)snprintf(why, KEK_WHY_BYTES,
		    "%.150s is there already, and is not written over: what a KEK has wrapped is lost "
		    "without it",
		    path);
	else if (rc != 0)
		(void)snprintf(why, KEK_WHY_BYTES, "%.150s: %s", path, strerrordesc_np(-rc));
	return rc;
}
