/* SPDX-License-Identifier: Apache-2.0 */
/* aead.c -- see aead.h: who makes AES-GCM here. Whoever is not GnuTLS is believed once it has made what GnuTLS makes. */
#include "aead.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define AGREE_TEXT_BYTES 1021u /* long enough for every loop of a kernel, and no whole block */
#define AGREE_BOUND_BYTES 40u

static pthread_once_t fastest_once = PTHREAD_ONCE_INIT;
static const struct aead_ops *fastest;

uint32_t
aead_key_bytes(enum aead_kind kind)
{
	return kind == AEAD_AES_128_GCM ? 16 : 32;
}

/* A message of no secrets, closed by @ops: text and tag. */
static int
agree_close(const struct aead_ops *ops, enum aead_kind kind,
    uint8_t ret_bytes[AGREE_TEXT_BYTES + AEAD_TAG_BYTES])
{
	static const uint8_t key[AEAD_KEY_BYTES_MAX] = { 1, 2, 3 };
	static const uint8_t nonce[AEAD_NONCE_BYTES] = { 4, 5, 6 };
	static uint8_t bound[AGREE_BOUND_BYTES] = { 7, 8, 9 };
	const struct iovec bound_piece = { .iov_base = bound, .iov_len = sizeof(bound) };
	const struct iovec text_piece = { .iov_base = ret_bytes, .iov_len = AGREE_TEXT_BYTES };
	const struct aead_message message = { &bound_piece, 1, &text_piece, 1 };
	struct aead *aead;
	int rc = ops->create(kind, key, &aead);

	if (rc != 0)
		return rc;
	memset(ret_bytes, 0xa5, AGREE_TEXT_BYTES);
	rc = ops->close(aead, nonce, &message, ret_bytes + AGREE_TEXT_BYTES);
	ops->destroy(aead);
	return rc;
}

bool
aead_agree(const struct aead_ops *one, const struct aead_ops *other)
{
	uint8_t by_one[AGREE_TEXT_BYTES + AEAD_TAG_BYTES], by_other[sizeof(by_one)];

	for (enum aead_kind kind = AEAD_AES_128_GCM; kind <= AEAD_AES_256_GCM; kind++)
		if (agree_close(one, kind, by_one) != 0 ||
		    agree_close(other, kind, by_other) != 0 ||
		    memcmp(by_one, by_other, sizeof(by_one)) != 0)
			return false;
	return true;
}

static void
fastest_find(void)
{
	bool is_mb = aead_ipsec_mb.is_there() && aead_agree(&aead_gnutls, &aead_ipsec_mb);

	fastest = is_mb ? &aead_ipsec_mb : &aead_gnutls;
}

const struct aead_ops *
aead_fastest(void)
{
	(void)pthread_once(&fastest_once, fastest_find); /* fails for no valid argument */
	return fastest;
}

int
aead_create(enum aead_kind kind, const uint8_t *key, struct aead **ret_aead)
{
	assert(key != NULL);
	return aead_fastest()->create(kind, key, ret_aead);
}

void
aead_destroy(struct aead *aead)
{
	if (aead != NULL)
		aead->ops->destroy(aead);
}

int
aead_close(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, uint8_t ret_tag[AEAD_TAG_BYTES])
{
	assert(message->text_count == 0 || message->bound_count <= 1);
	return aead->ops->close(aead, nonce, message, ret_tag);
}

int
aead_open(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, const uint8_t tag[AEAD_TAG_BYTES])
{
	assert(message->text_count == 0 || message->bound_count <= 1);
	return aead->ops->open(aead, nonce, message, tag);
}
