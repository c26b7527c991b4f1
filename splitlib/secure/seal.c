/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.c -- see seal.h
 *
 * Keys and iv of a direction come from a secret of 32 bytes by HKDF-Expand with SHA-256 (RFC 5869), so do those after a
 * rekey; the secret before is overwritten:
 *
 *	head key n     Expand(secret n, "cleave key")        iv n           Expand(secret n, "cleave iv")
 *	payload key n  Expand(secret n, "cleave payload")    secret n + 1   Expand(secret n, "cleave next")
 *	secret 0 of a control lane  Expand(secret 0, "cleave control")
 *
 * After a rekey the ciphers are others: one has one key in its life (base/aead.h).
 */
#include "seal.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "base/num.h"

_Static_assert(SEAL_AT_TAG == WIRE_HEADER_BYTES, "no gap");
_Static_assert(SEAL_AT_PAYLOAD_TAG == SEAL_AT_TAG + SEAL_TAG_BYTES, "no gap");
_Static_assert(SEAL_HEAD_BYTES == SEAL_AT_PAYLOAD_TAG + SEAL_TAG_BYTES, "no gap");

static int
secret_expand(const uint8_t secret[SEAL_SECRET_BYTES], const char *label, void *out, size_t bytes)
{
	gnutls_datum_t key = { .data = (unsigned char *)secret, .size = SEAL_SECRET_BYTES };
	gnutls_datum_t info = { .data = (unsigned char *)label, .size = (unsigned)strlen(label) };

	return gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &info, out, bytes) < 0 ? -EIO : 0;
}

int
seal_secret_control(const uint8_t secret[SEAL_SECRET_BYTES], uint8_t ret_secret[SEAL_SECRET_BYTES])
{
	return secret_expand(secret, "cleave control", ret_secret, SEAL_SECRET_BYTES);
}

/* A cipher with the key that @label makes of the secret, in the place of *@cipher. */
static int
cipher_renew(const struct seal *seal, enum aead_kind kind, const char *label, struct aead **cipher)
{
	uint8_t key[AEAD_KEY_BYTES_MAX];
	int rc = secret_expand(seal->secret, label, key, aead_key_bytes(kind));

	aead_destroy(*cipher);
	*cipher = NULL;
	if (rc == 0)
		rc = aead_create(kind, key, cipher);
	gnutls_memset(key, 0, sizeof(key));
	return rc;
}

/* Both keys, and the iv, of seal->secret. */
static int
seal_take_secret(struct seal *seal)
{
	int rc = cipher_renew(seal, AEAD_AES_256_GCM, "cleave key", &seal->head);

	if (rc == 0)
		rc = cipher_renew(seal, AEAD_AES_128_GCM, "cleave payload", &seal->payload);
	if (rc == 0)
		rc = secret_expand(seal->secret, "cleave iv", seal->iv, sizeof(seal->iv));
	return rc;
}

int
seal_init(struct seal *seal, enum split_security security, const uint8_t secret[SEAL_SECRET_BYTES],
    uint64_t rekey_after)
{
	assert(!seal->is_inited);
	assert(security == SPLIT_SECURITY_SEAL || security == SPLIT_SECURITY_SIGN);
	memset(seal, 0, sizeof(*seal));
	seal->is_inited = true;
	seal->security = security;
	seal->rekey_after = rekey_after != 0 ? rekey_after : SEAL_REKEY_MESSAGES;
	memcpy(seal->secret, secret, SEAL_SECRET_BYTES);
	if (seal_take_secret(seal) == 0)
		return 0;
	seal_fini(seal);
	return -ENOMEM;
}

void
seal_fini(struct seal *seal)
{
	if (!seal->is_inited)
		return;
	aead_destroy(seal->payload);
	aead_destroy(seal->head);
	gnutls_memset(seal, 0, sizeof(*seal));
}

/* seal->nonce is that of the next message, which is counted. */
static int
seal_next(struct seal *seal)
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
	memcpy(seal->nonce, seal->iv, SEAL_IV_BYTES);
	for (uint32_t i = 0; i < sizeof(counter); i++)
		seal->nonce[SEAL_IV_BYTES - 1 - i] ^= (uint8_t)(counter >> 8 * i);
	seal->counter++;
	return 0;
}

/* A payload as its cipher gets it: encrypted, or signed alone. */
static struct aead_message
payload_message(const struct seal *seal, const struct iovec *pieces, uint32_t count)
{
	if (seal->security == SPLIT_SECURITY_SEAL)
		return (struct aead_message){ .text = pieces, .text_count = count };
	return (struct aead_message){ .bound = pieces, .bound_count = count };
}

static int
payload_close(struct seal *seal, void *payload, uint32_t payload_bytes, uint8_t tag[SEAL_TAG_BYTES])
{
	const struct iovec all = { .iov_base = payload, .iov_len = payload_bytes };
	const struct aead_message message = payload_message(seal, &all, 1);

	return aead_close(seal->payload, seal->nonce, &message, tag);
}

int
seal_close(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], void *payload, uint32_t payload_bytes)
{
	const struct iovec text = { .iov_base = head, .iov_len = WIRE_HEADER_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };
	const struct aead_message message = { &bound, 1, &text, 1 };
	int rc;

	assert(seal->is_inited);
	rc = seal_next(seal);
	memset(head + SEAL_AT_PAYLOAD_TAG, 0, SEAL_TAG_BYTES);
	if (rc == 0 && payload_bytes > 0)
		rc = payload_close(seal, payload, payload_bytes, head + SEAL_AT_PAYLOAD_TAG);
	if (rc != 0)
		return rc;
	return aead_close(seal->head, seal->nonce, &message, head + SEAL_AT_TAG);
}

int
seal_open_head(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], uint8_t ret_tag[SEAL_TAG_BYTES])
{
	const struct iovec text = { .iov_base = head, .iov_len = WIRE_HEADER_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };
	const struct aead_message message = { &bound, 1, &text, 1 };

	assert(seal->is_inited);
	if (seal_next(seal) != 0 ||
	    aead_open(seal->head, seal->nonce, &message, head + SEAL_AT_TAG) != 0)
		return -EBADMSG;
	memcpy(ret_tag, head + SEAL_AT_PAYLOAD_TAG, SEAL_TAG_BYTES);
	return 0;
}

int
seal_open_payload(struct seal *seal, const uint8_t tag[SEAL_TAG_BYTES], const struct iovec *pieces,
    uint32_t count)
{
	static const uint8_t no_tag[SEAL_TAG_BYTES];
	const struct aead_message message = payload_message(seal, pieces, count);
	size_t bytes = 0;

	assert(seal->is_inited);
	assert(seal->counter > 0);
	assert(count <= SEAL_PIECES_MAX);
	for (uint32_t i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	if (bytes == 0)
		return memcmp(tag, no_tag, SEAL_TAG_BYTES) == 0 ? 0 : -EBADMSG;
	return aead_open(seal->payload, seal->nonce, &message, tag);
}
