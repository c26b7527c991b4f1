/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_seal.c -- a sealed frame, edited: it opens if it is as it was, and only then
 *
 * The first byte chooses the level, the second how long the payload is; then come edits: where (16 bits), and what is
 * xored there. What is left over is a head of the enemy's own.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/secure/seal.h"

#define EDIT_BYTES 3u
#define EDITS_MAX 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const uint8_t secret[SEAL_SECRET_BYTES] = { 1 };
	uint8_t frame[SEAL_HEAD_BYTES + UINT8_MAX] = { 0 }, sent[sizeof(frame)];
	struct seal out = { 0 }, in = { 0 };
	uint8_t tag[SEAL_TAG_BYTES];
	struct iovec payload = { .iov_base = frame + SEAL_HEAD_BYTES };
	enum split_security security;
	uint32_t frame_bytes, edit;
	int rc;

	if (bytes < 2)
		return 0;
	security = (data[0] & 1) != 0 ? SPLIT_SECURITY_SIGN : SPLIT_SECURITY_SEAL;
	payload.iov_len = data[1];
	frame_bytes = SEAL_HEAD_BYTES + data[1];
	data += 2;
	bytes -= 2;
	assert(seal_init(&out, security, secret, 0) == 0);
	assert(seal_init(&in, security, secret, 0) == 0);
	assert(seal_close(&out, frame, payload.iov_base, (uint32_t)payload.iov_len) == 0);
	memcpy(sent, frame, sizeof(sent));
	for (edit = 0; edit < EDITS_MAX && bytes >= EDIT_BYTES; edit++) {
		frame[num_get_le16(data) % frame_bytes] ^= data[2];
		data += EDIT_BYTES;
		bytes -= EDIT_BYTES;
	}
	if (bytes >= SEAL_HEAD_BYTES)
		memcpy(frame, data, SEAL_HEAD_BYTES);
	{
		bool is_same = memcmp(frame, sent, frame_bytes) == 0;

		rc = seal_open_head(&in, frame, tag);
		if (rc == 0)
			rc = seal_open_payload(&in, tag, &payload, payload.iov_len > 0 ? 1 : 0);
		assert(rc == (is_same ? 0 : -EBADMSG));
	}
	seal_fini(&out);
	seal_fini(&in);
	return 0;
}
