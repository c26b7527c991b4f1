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
	static const char digits[] = "0123456789abcdef";
	uint8_t key[KEK_BYTES];
	char text[KEK_TEXT_BYTES];
	int rc;

	assert(path != NULL);
	why[0] = '\0';
	if (gnutls_rnd(GNUTLS_RND_KEY, key, sizeof(key)) < 0) {
		(void)snprintf(why, KEK_WHY_BYTES, "the system has no random bytes");
		return -EIO;
	}
	for (uint32_t i = 0; i < KEK_BYTES; i++) {
		text[2 * i] = digits[key[i] >> 4];
		text[2 * i + 1] = digits[key[i] & 15];
	}
	text[KEK_TEXT_BYTES - 1] = '\n';
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
