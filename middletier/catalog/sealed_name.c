/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed_name.c -- see sealed_name.h
 *
 *	nonce 12 random | AES-256-GCM(subkey, name 64, AAD u64 number | u32 key_id) | tag 16
 *	subkey = HKDF-Expand-SHA256(data key, "cleave name 1")
 *
 * All names are as long: how long one is does not show.
 */
#include "catalog/sealed_name.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/snapshot.h"
#include "catalog/volume_table.h"

#define NAME_NONCE_BYTES 12u
#define NAME_TAG_BYTES 16u
#define NAME_AAD_BYTES 12u
#define NAME_LABEL "cleave name 1"

_Static_assert(MT_SEALED_NAME_BYTES == NAME_NONCE_BYTES + MT_NAME_BYTES + NAME_TAG_BYTES, "no gap");

static int
cipher_init(const uint8_t key[KEYRING_KEY_BYTES], gnutls_aead_cipher_hd_t *ret_cipher)
{
	uint8_t subkey[KEYRING_KEY_BYTES];
	const gnutls_datum_t from = { (unsigned char *)(uintptr_t)key, KEYRING_KEY_BYTES };
	const gnutls_datum_t info = { (unsigned char *)(uintptr_t)NAME_LABEL,
		sizeof(NAME_LABEL) - 1 };
	const gnutls_datum_t to = { subkey, sizeof(subkey) };
	int rc = 0;

	if (gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &from, &info, subkey, sizeof(subkey)) < 0 ||
	    gnutls_aead_cipher_init(ret_cipher, GNUTLS_CIPHER_AES_256_GCM, &to) < 0)
		rc = -EIO;
	gnutls_memset(subkey, 0, sizeof(subkey));
	return rc;
}

static void
aad_fill(const struct mt_sealed_name *name, uint8_t ret_aad[NAME_AAD_BYTES])
{
	assert(name->number != 0 && name->key_id != 0);
	num_put_le64(ret_aad, name->number);
	num_put_le32(ret_aad + 8, name->key_id);
}

int
mt_sealed_name_make(struct mt_sealed_name *name, const uint8_t key[KEYRING_KEY_BYTES],
    const char *text)
{
	uint8_t aad[NAME_AAD_BYTES], *nonce = name->sealed;
	char plain[MT_NAME_BYTES] = "";
	size_t bytes = MT_NAME_BYTES + NAME_TAG_BYTES;
	gnutls_aead_cipher_hd_t cipher;
	int rc = cipher_init(key, &cipher);

	if (rc != 0)
		return rc;
	(void)snprintf(plain, sizeof(plain), "%s", text);
	aad_fill(name, aad);
	if (gnutls_rnd(GNUTLS_RND_NONCE, nonce, NAME_NONCE_BYTES) < 0 ||
	    gnutls_aead_cipher_encrypt(cipher, nonce, NAME_NONCE_BYTES, aad, sizeof(aad),
		NAME_TAG_BYTES, plain, sizeof(plain), nonce + NAME_NONCE_BYTES, &bytes) < 0)
		rc = -EIO;
	gnutls_aead_cipher_deinit(cipher);
	return rc;
}

int
mt_sealed_name_open(const struct mt_sealed_name *name, const uint8_t key[KEYRING_KEY_BYTES],
    char ret_text[MT_NAME_BYTES])
{
	const uint8_t *nonce = name->sealed;
	uint8_t aad[NAME_AAD_BYTES];
	char plain[MT_NAME_BYTES];
	size_t bytes = sizeof(plain);
	gnutls_aead_cipher_hd_t cipher;
	int rc = cipher_init(key, &cipher);

	if (rc != 0)
		return rc;
	aad_fill(name, aad);
	rc = gnutls_aead_cipher_decrypt(cipher, nonce, NAME_NONCE_BYTES, aad, sizeof(aad),
	    NAME_TAG_BYTES, nonce + NAME_NONCE_BYTES, MT_NAME_BYTES + NAME_TAG_BYTES, plain,
	    &bytes);
	gnutls_aead_cipher_deinit(cipher);
	if (rc < 0 || bytes != sizeof(plain) || memchr(plain, '\0', sizeof(plain)) == NULL ||
	    mt_volume_name_check(plain) != NULL)
		return -EBADMSG;
	memcpy(ret_text, plain, sizeof(plain));
	return 0;
}

void
mt_sealed_name_placeholder(uint64_t number, char ret_text[MT_NAME_BYTES])
{
	(void)snprintf(ret_text, MT_NAME_BYTES, MT_ENCRYPTED_PREFIX "%" PRIu64,
	    number & ~MT_SNAPSHOT_ID);
}
