/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.c -- see seal.h
 *
 * The keys of a direction come from a secret of 32 bytes by HKDF-Expand with SHA-256 (RFC 5869), so do those after a
 * rekey; the secret before is overwritten:
 *
 *	secret 0 = of the handshake        key n = Expand(secret n, "cleave key")    iv n = Expand(secret n, "cleave iv")
 *	secret n + 1 = Expand(secret n, "cleave next")
 */
#include "seal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"

#define SEAL_HEAD_KEY_BYTES 32u
#define SEAL_HEAD_TEXT_BYTES SEAL_AT_TAG

_Static_assert(SEAL_AT_CONTENT_KEY == WIRE_HEADER_BYTES, "the content key is behind the header");
_Static_assert(SEAL_AT_TAG == SEAL_AT_CONTENT_KEY + SEAL_CONTENT_KEY_BYTES, "no gap");
_Static_assert(SEAL_AT_PAYLOAD_TAG == SEAL_AT_TAG + SEAL_TAG_BYTES, "no gap");
_Static_assert(SEAL_HEAD_BYTES == SEAL_AT_PAYLOAD_TAG + SEAL_TAG_BYTES, "no gap");

static int
secret_expand(const uint8_t secret[SEAL_SECRET_BYTES], const char *label, void *out, size_t bytes)
{
	gnutls_datum_t key = { .data = (unsigned char *)secret, .size = SEAL_SECRET_BYTES };
	gnutls_datum_t info = { .data = (unsigned char *)label, .size = (unsigned)strlen(label) };

	return gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &info, out, bytes) < 0 ? -EIO : 0;
}

/* The head's key, and its iv, of seal->secret. */
static int
seal_take_secret(struct seal *seal)
{
	uint8_t key[SEAL_HEAD_KEY_BYTES];
	gnutls_datum_t datum = { .data = key, .size = sizeof(key) };
	int rc = secret_expand(seal->secret, "cleave key", key, sizeof(key));

	if (rc == 0)
		rc = secret_expand(seal->secret, "cleave iv", seal->iv, sizeof(seal->iv));
	if (rc == 0 && gnutls_aead_cipher_set_key(seal->head, &datum) < 0)
		rc = -EIO;
	gnutls_memset(key, 0, sizeof(key));
	return rc;
}

int
seal_init(struct seal *seal, enum split_security security, const uint8_t secret[SEAL_SECRET_BYTES],
    uint64_t rekey_after)
{
	uint8_t nothing[SEAL_HEAD_KEY_BYTES] = { 0 };
	const gnutls_datum_t head_key = { .data = nothing, .size = SEAL_HEAD_KEY_BYTES };
	const gnutls_datum_t content_key = { .data = nothing, .size = SEAL_CONTENT_KEY_BYTES };

	assert(!seal->is_inited);
	assert(security == SPLIT_SECURITY_SEAL || security == SPLIT_SECURITY_SIGN);
	memset(seal, 0, sizeof(*seal));
	seal->security = security;
	seal->rekey_after = rekey_after != 0 ? rekey_after : SEAL_REKEY_MESSAGES;
	if (gnutls_aead_cipher_init(&seal->head, GNUTLS_CIPHER_AES_256_GCM, &head_key) < 0)
		return -ENOMEM;
	if (gnutls_aead_cipher_init(&seal->content, GNUTLS_CIPHER_AES_128_GCM, &content_key) < 0)
		goto err_head;
	memcpy(seal->secret, secret, SEAL_SECRET_BYTES);
	if (seal_take_secret(seal) != 0)
		goto err_content;
	seal->is_inited = true;
	return 0;

err_content:
	gnutls_memset(seal->secret, 0, SEAL_SECRET_BYTES);
	gnutls_aead_cipher_deinit(seal->content);
err_head:
	gnutls_aead_cipher_deinit(seal->head);
	return -ENOMEM;
}

void
seal_fini(struct seal *seal)
{
	if (!seal->is_inited)
		return;
	gnutls_aead_cipher_deinit(seal->content);
	gnutls_aead_cipher_deinit(seal->head);
	gnutls_memset(seal, 0, sizeof(*seal));
}

/* The nonce of the next message, which is counted. */
static int
seal_next(struct seal *seal, uint8_t nonce[SEAL_IV_BYTES])
{
	uint64_t counter = seal->counter;
	int rc;

	if (counter > 0 && counter % seal->rekey_after == 0) {
		rc = secret_expand(seal->secret, "cleave next", seal->secret, SEAL_SECRET_BYTES);
		if (rc == 0)
			rc = seal_take_secret(seal);
		if (rc != 0)
			return rc;
	}
	memcpy(nonce, seal->iv, SEAL_IV_BYTES);
	for (uint32_t i = 0; i < sizeof(counter); i++)
		nonce[SEAL_IV_BYTES - 1 - i] ^= (uint8_t)(counter >> 8 * i);
	seal->counter++;
	return 0;
}

static int
content_key_draw(struct seal *seal, uint8_t key[SEAL_CONTENT_KEY_BYTES])
{
	uint8_t *at;

	if (seal->random_left == 0) {
		if (gnutls_rnd(GNUTLS_RND_RANDOM, seal->random, SEAL_RANDOM_BYTES) < 0)
			return -EIO;
		seal->random_left = SEAL_RANDOM_BYTES;
	}
	assert(seal->random_left >= SEAL_CONTENT_KEY_BYTES);
	seal->random_left -= SEAL_CONTENT_KEY_BYTES;
	at = seal->random + seal->random_left;
	memcpy(key, at, SEAL_CONTENT_KEY_BYTES);
	gnutls_memset(at, 0, SEAL_CONTENT_KEY_BYTES);
	return 0;
}

static int
content_take_key(struct seal *seal, const uint8_t key[SEAL_CONTENT_KEY_BYTES])
{
	const gnutls_datum_t datum = { .data = (unsigned char *)key,
		.size = SEAL_CONTENT_KEY_BYTES };

	return gnutls_aead_cipher_set_key(seal->content, &datum) < 0 ? -EIO : 0;
}

static int
content_close(struct seal *seal, const uint8_t key[SEAL_CONTENT_KEY_BYTES], void *payload,
    uint32_t payload_bytes, uint8_t tag[SEAL_TAG_BYTES])
{
	static const uint8_t nonce[SEAL_IV_BYTES];
	bool is_sealed = seal->security == SPLIT_SECURITY_SEAL;
	const struct iovec all = { .iov_base = payload, .iov_len = payload_bytes };
	size_t tag_bytes = SEAL_TAG_BYTES;
	int rc = content_take_key(seal, key);

	if (rc != 0)
		return rc;
	rc = gnutls_aead_cipher_encryptv2(seal->content, nonce, sizeof(nonce),
	    is_sealed ? NULL : &all, is_sealed ? 0 : 1, is_sealed ? &all : NULL, is_sealed ? 1 : 0,
	    tag, &tag_bytes);
	return rc < 0 || tag_bytes != SEAL_TAG_BYTES ? -EIO : 0;
}

int
seal_close(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], void *payload, uint32_t payload_bytes)
{
	const struct iovec text = { .iov_base = head, .iov_len = SEAL_HEAD_TEXT_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };
	uint8_t nonce[SEAL_IV_BYTES];
	size_t tag_bytes = SEAL_TAG_BYTES;
	int rc;

	assert(seal->is_inited);
	rc = content_key_draw(seal, head + SEAL_AT_CONTENT_KEY);
	if (rc != 0)
		return rc;
	memset(head + SEAL_AT_PAYLOAD_TAG, 0, SEAL_TAG_BYTES);
	if (payload_bytes > 0)
		rc = content_close(seal, head + SEAL_AT_CONTENT_KEY, payload, payload_bytes,
		    head + SEAL_AT_PAYLOAD_TAG);
	if (rc == 0)
		rc = seal_next(seal, nonce);
	if (rc != 0)
		return rc;
	rc = gnutls_aead_cipher_encryptv2(seal->head, nonce, sizeof(nonce), &bound, 1, &text, 1,
	    head + SEAL_AT_TAG, &tag_bytes);
	return rc < 0 || tag_bytes != SEAL_TAG_BYTES ? -EIO : 0;
}

int
seal_open_head(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], struct seal_content *ret_content)
{
	const struct iovec text = { .iov_base = head, .iov_len = SEAL_HEAD_TEXT_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };
	uint8_t nonce[SEAL_IV_BYTES];

	assert(seal->is_inited);
	if (seal_next(seal, nonce) != 0 ||
	    gnutls_aead_cipher_decryptv2(seal->head, nonce, sizeof(nonce), &bound, 1, &text, 1,
		head + SEAL_AT_TAG, SEAL_TAG_BYTES) < 0)
		return -EBADMSG;
	memcpy(ret_content->key, head + SEAL_AT_CONTENT_KEY, SEAL_CONTENT_KEY_BYTES);
	memcpy(ret_content->tag, head + SEAL_AT_PAYLOAD_TAG, SEAL_TAG_BYTES);
	gnutls_memset(head + SEAL_AT_CONTENT_KEY, 0, SEAL_CONTENT_KEY_BYTES);
	return 0;
}

int
seal_open_payload(struct seal *seal, const struct seal_content *content, const struct iovec *pieces,
    uint32_t count)
{
	static const uint8_t nonce[SEAL_IV_BYTES];
	static const uint8_t no_tag[SEAL_TAG_BYTES];
	bool is_sealed = seal->security == SPLIT_SECURITY_SEAL;
	size_t bytes = 0;
	int rc;

	assert(seal->is_inited);
	assert(count <= SEAL_PIECES_MAX);
	for (uint32_t i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	if (bytes == 0)
		return memcmp(content->tag, no_tag, SEAL_TAG_BYTES) == 0 ? 0 : -EBADMSG;
	if (content_take_key(seal, content->key) != 0)
		return -EBADMSG;
	rc = gnutls_aead_cipher_decryptv2(seal->content, nonce, sizeof(nonce),
	    is_sealed ? NULL : pieces, is_sealed ? 0 : (int)count, is_sealed ? pieces : NULL,
	    is_sealed ? (int)count : 0, (void *)content->tag, SEAL_TAG_BYTES);
	return rc < 0 ? -EBADMSG : 0;
}
