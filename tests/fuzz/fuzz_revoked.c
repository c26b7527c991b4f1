/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_revoked.c -- any bytes as lists of revoked keys, to a key whose authority has signed those of the corpus
 *
 * Nobody else can sign: so whoever is on a list that is taken is one of the two that the authority has revoked.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "splitlib/secure/key.h"
#include "splitlib/secure/revoked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A key of node/3, made by cleave key for this test alone; it is no cluster's. */
static const char key_text[] = "-----BEGIN CERTIFICATE-----\n"
			       "MIIByTCCAXugAwIBAgIQRy79kEsWtFag9XoZI73V9TAFBgMrZXAwOzEPMA0GA1UE\n"
			       "ChMGQ2xlYXZlMSgwJgYDVQQDEx9DbGVhdmUgY2x1c3RlciAwMGMwZmZlZTAwYzBm\n"
			       "ZmVlMB4XDTI2MTEyODEwMzExNVoXDTQ2MDEyNzExMzExNVowIjEPMA0GA1UEChMG\n"
			       "Q2xlYXZlMQ8wDQYDVQQDEwZub2RlLzMwKjAFBgMrZXADIQDTeerlVacIZmu4yXwp\n"
			       "rb1dlYrqbrcWMlpNEAquMKdEHqOBrTCBqjArBgNVHREEJDAihiBjbGVhdmU6Ly8w\n"
			       "MGMwZmZlZTAwYzBmZmVlL25vZGUvMzAMBgNVHRMBAf8EAjAAMA4GA1UdDwEB/wQE\n"
			       "AwIHgDAdBgNVHSUEFjAUBggrBgEFBQcDAgYIKwYBBQUHAwEwHQYDVR0OBBYEFCH+\n"
			       "+GGBq7x/awH13PaS4aEgXu14MB8GA1UdIwQYMBaAFAmqm+5T4meX555AMRl6aaGO\n"
			       "In3pMAUGAytlcANBAHQMXyMv7vP86efdelrsmCJuqQo3pDliaiVoupfB5iy+d77m\n"
			       "ClZxPYIwEib3WyhF0SF1uFZ6zvhr4dIcdoCc4wY=\n"
			       "-----END CERTIFICATE-----\n"
			       "-----BEGIN PRIVATE KEY-----\n"
			       "MC4CAQAwBQYDK2VwBCIEIIuCe8ofoRzhdg7WIN3k7RODxSkQyOQWd6B/Wp7vCYGh\n"
			       "-----END PRIVATE KEY-----\n"
			       "-----BEGIN CERTIFICATE-----\n"
			       "MIIBeTCCASugAwIBAgIQQDE4Rt50pM+e3ryyApNoXTAFBgMrZXAwOzEPMA0GA1UE\n"
			       "ChMGQ2xlYXZlMSgwJgYDVQQDEx9DbGVhdmUgY2x1c3RlciAwMGMwZmZlZTAwYzBm\n"
			       "ZmVlMB4XDTI2MTEyODEwMzExNVoXDTQ2MTEyMzExMzExNVowOzEPMA0GA1UEChMG\n"
			       "Q2xlYXZlMSgwJgYDVQQDEx9DbGVhdmUgY2x1c3RlciAwMGMwZmZlZTAwYzBmZmVl\n"
			       "MCowBQYDK2VwAyEAdhlUhgChFlwyf0gFro7o11oX+c7EXc+/fbBCQigGB9qjRTBD\n"
			       "MBIGA1UdEwEB/wQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMB0GA1UdDgQWBBQJ\n"
			       "qpvuU+Jnl+eeQDEZemmhjiJ96TAFBgMrZXADQQARvG25DSO1lTJ7eFF0q6p5JN5C\n"
			       "mFBAoeXvJid/irJndLU8r/59kNX99pnPLdfpgZ3qnhKhlEJTps2fOMd97qUP\n"
			       "-----END CERTIFICATE-----\n";

static const struct split_key *
the_key(void)
{
	static struct split_key *key;
	char why[SPLIT_KEY_WHY_BYTES_MAX];

	if (key == NULL)
		key = key_parse(key_text, sizeof(key_text) - 1, why);
	assert(key != NULL);
	return key;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *next = split_key_revoke(the_key(), (const char *)data, bytes, why);
	struct split_key *again;
	const char *lists;

	if (next == NULL) {
		assert(
		    errno == EINVAL || errno == EKEYREJECTED || errno == EFBIG || errno == ESTALE);
		assert(why[0] != '\0');
		return 0;
	}
	assert(next->revoked->of[0].count <= REVOKED_LISTS_MAX);
	assert(
	    next->revoked->of[0].lists[0].number <= 3 && next->revoked->of[0].lists[0].count <= 2);
	assert(!split_key_is_revoked(next));
	/* The text that is passed on is taken as it is, and nothing new to who has it. */
	lists = split_key_revoked(next, &bytes);
	assert(bytes == strlen(lists) && bytes <= SPLIT_REVOKED_BYTES_MAX);
	again = split_key_revoke(the_key(), lists, bytes, why);
	assert(again != NULL && why[0] == '\0');
	assert(split_key_revoke(next, lists, bytes, why) == NULL && errno == EALREADY);
	split_key_free(again);
	split_key_free(next);
	return 0;
}
