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
 * A cipher gets its key when it is made, and no other one ever: gnutls_aead_cipher_set_key leaves GHASH with a key that
 * is made of both, where GnuTLS 3.7 uses a processor's own instructions. Such tags are no GCM, and peers whose
 * processors differ could not speak with each other.
 */
#include "seal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"

#define SEAL_KEY_BYTES_MAX 32u
#define SEAL_HEAD_KEY_BYTES 32u
#define SEAL_PAYLOAD_KEY_BYTES 16u

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

static void
cipher_drop(gnutls_aead_cipher_hd_t *cipher)
{
	if (*cipher != NULL)
		gnutls_aead_cipher_deinit(*cipher);
	*cipher = NULL;
}

/* A cipher with the key that @label makes of the secret, in the place of *@cipher. */
static int
cipher_renew(const struct seal *seal, gnutls_cipher_algorithm_t algorithm, const char *label,
    unsigned key_bytes, gnutls_aead_cipher_hd_t *cipher)
{
	uint8_t key[SEAL_KEY_BYTES_MAX];
	const gnutls_datum_t datum = { .data = key, .size = key_bytes };
	int rc;

	assert(key_bytes <= sizeof(key));
	rc = secret_expand(seal->secret, label, key, key_bytes);
	cipher_drop(cipher);
	if (rc == 0 && gnutls_aead_cipher_init(cipher, algorithm, &datum) < 0) {
		*cipher = NULL;
		rc = -ENOMEM;
	}
	gnutls_memset(key, 0, sizeof(key));
	return rc;
}

/* Both keys, and the iv, of seal->secret. */
static int
seal_take_secret(struct seal *seal)
{
	int rc = cipher_renew(seal, GNUTLS_CIPHER_AES_256_GCM, "cleave key", SEAL_HEAD_KEY_BYTES,
	    &seal->head);

	if (rc == 0)
		rc = cipher_renew(seal, GNUTLS_CIPHER_AES_128_GCM, "cleave payload",
		    SEAL_PAYLOAD_KEY_BYTES, &seal->payload);
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
	cipher_drop(&seal->payload);
	cipher_drop(&seal->head);
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

static int
payload_close(struct seal *seal, void *payload, uint32_t payload_bytes, uint8_t tag[SEAL_TAG_BYTES])
{
	bool is_sealed = seal->security == SPLIT_SECURITY_SEAL;
	const struct iovec all = { .iov_base = payload, .iov_len = payload_bytes };
	size_t tag_bytes = SEAL_TAG_BYTES;
	int rc = gnutls_aead_cipher_encryptv2(seal->payload, seal->nonce, SEAL_IV_BYTES,
	    is_sealed ? NULL : &all, is_sealed ? 0 : 1, is_sealed ? &all : NULL, is_sealed ? 1 : 0,
	    tag, &tag_bytes);

	return rc < 0 || tag_bytes != SEAL_TAG_BYTES ? -EIO : 0;
}

int
seal_close(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], void *payload, uint32_t payload_bytes)
{
	const struct iovec text = { .iov_base = head, .iov_len = WIRE_HEADER_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };
	size_t tag_bytes = SEAL_TAG_BYTES;
	int rc;

	assert(seal->is_inited);
	rc = seal_next(seal);
	memset(head + SEAL_AT_PAYLOAD_TAG, 0, SEAL_TAG_BYTES);
	if (rc == 0 && payload_bytes > 0)
		rc = payload_close(seal, payload, payload_bytes, head + SEAL_AT_PAYLOAD_TAG);
	if (rc != 0)
		return rc;
	rc = gnutls_aead_cipher_encryptv2(seal->head, seal->nonce, SEAL_IV_BYTES, &bound, 1, &text,
	    1, head + SEAL_AT_TAG, &tag_bytes);
	return rc < 0 || tag_bytes != SEAL_TAG_BYTES ? -EIO : 0;
}

int
seal_open_head(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], uint8_t ret_tag[SEAL_TAG_BYTES])
{
	const struct iovec text = { .iov_base = head, .iov_len = WIRE_HEADER_BYTES };
	const struct iovec bound = { .iov_base = head + SEAL_AT_PAYLOAD_TAG,
		.iov_len = SEAL_TAG_BYTES };

	assert(seal->is_inited);
	if (seal_next(seal) != 0 ||
	    gnutls_aead_cipher_decryptv2(seal->head, seal->nonce, SEAL_IV_BYTES, &bound, 1, &text,
		1, head + SEAL_AT_TAG, SEAL_TAG_BYTES) < 0)
		return -EBADMSG;
	memcpy(ret_tag, head + SEAL_AT_PAYLOAD_TAG, SEAL_TAG_BYTES);
	return 0;
}

int
seal_open_payload(struct seal *seal, const uint8_t tag[SEAL_TAG_BYTES], const struct iovec *pieces,
    uint32_t count)
{
	static const uint8_t no_tag[SEAL_TAG_BYTES];
	bool is_sealed = seal->security == SPLIT_SECURITY_SEAL;
	size_t bytes = 0;
	int rc;

	assert(seal->is_inited);
	assert(seal->counter > 0);
	assert(count <= SEAL_PIECES_MAX);
	for (uint32_t i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	if (bytes == 0)
		return memcmp(tag, no_tag, SEAL_TAG_BYTES) == 0 ? 0 : -EBADMSG;
	rc = gnutls_aead_cipher_decryptv2(seal->payload, seal->nonce, SEAL_IV_BYTES,
	    is_sealed ? NULL : pieces, is_sealed ? 0 : (int)count, is_sealed ? pieces : NULL,
	    is_sealed ? (int)count : 0, (void *)tag, SEAL_TAG_BYTES);
	return rc < 0 ? -EBADMSG : 0;
}
