/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_handshake.c -- arbitrary bytes as the messages of a handshake, to either side
 *
 * The first byte chooses the side; then come messages, each with its length before it. Nobody who has no key completes
 * a handshake, so no input may.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/num.h"
#include "splitlib/secure/handshake.h"
#include "support/key_maker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct split_key *
the_key(void)
{
	static struct split_key *key;
	struct key_authority authority;

	if (key != NULL)
		return key;
	key_authority_make(&authority, 0, 0);
	key = key_make(&authority, "cleave://00c0ffee00c0ffee/node/3");
	key_authority_fini(&authority);
	return key;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct handshake *handshake;
	int rc = 0;

	if (bytes == 0)
		return 0;
	handshake = handshake_create(the_key(), (data[0] & 1) != 0);
	assert(handshake != NULL);
	if ((data[0] & 1) == 0)
		rc = handshake_step(handshake, NULL, 0);
	data++;
	bytes--;
	while (rc == 0 && bytes > 2) {
		size_t message_bytes = num_min(num_get_le16(data), bytes - 2);
		size_t out_bytes;

		rc = handshake_step(handshake, data + 2, message_bytes);
		(void)handshake_out(handshake, &out_bytes);
		assert(out_bytes <= HANDSHAKE_BYTES_MAX);
		data += 2 + message_bytes;
		bytes -= 2 + message_bytes;
	}
	assert(rc != 1);
	assert(rc == 0 || handshake_why(handshake)[0] != '\0');
	handshake_free(handshake);
	return 0;
}
