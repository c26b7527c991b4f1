/* SPDX-License-Identifier: Apache-2.0 */
/* kek.c -- see kek.h */
#include "kms/kek.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "base/secret_file.h"

#define KEK_FILE_BYTES_MAX 256u
#define KEK_DIGITS (2u * MT_KEK_BYTES)
#define KEK_VERSION 1u
#define KEK_NONCE_BYTES 12u
#define KEK_TAG_BYTES 16u
#define KEK_LABEL "cleave dek 1"
#define KEK_LABEL_BYTES 12u /* without its NUL */
#define KEK_AAD_BYTES (KEK_LABEL_BYTES + 4u + 8u)
#define KEK_WRAPPED_BYTES (1u + KEK_NONCE_BYTES + MT_DEK_BYTES + KEK_TAG_BYTES)

_Static_assert(sizeof(KEK_LABEL) - 1 == KEK_LABEL_BYTES, "the label");
_Static_assert(KEK_WRAPPED_BYTES <= MT_WRAPPED_BYTES_MAX, "it fits the store's key");

/* ---- where it is ---- */

static const struct {
	const char *scheme;
	enum mt_kek_kind kind;
} kinds[] = {
	{ "file:", MT_KEK_FILE },
	{ "credential:", MT_KEK_CREDENTIAL },
	{ "command:", MT_KEK_COMMAND },
};

/* A text begins with its kind; -EINVAL: no kind is there. */
static int
parse_kind(const char *text, struct mt_kek *kek, const char **ret_place)
{
	for (size_t i = 0; i < NUM_COUNT(kinds); i++) {
		size_t bytes = strlen(kinds[i].scheme);

		if (strncmp(text, kinds[i].scheme, bytes) == 0) {
			kek->kind = kinds[i].kind;
			*ret_place = text + bytes;
			return 0;
		}
	}
	return -EINVAL;
}

/* The file of a credential is in a folder that systemd names. */
static int
parse_place(const char *text, const char *place, struct mt_kek *kek, char *why)
{
	const char *folder = secure_getenv("CREDENTIALS_DIRECTORY");
	int bytes;

	if (kek->kind != MT_KEK_CREDENTIAL)
		folder = "";
	else if (mt_kek_name_check(place) != NULL)
		place = "";
	if (place[0] == '\0' || (kek->kind != MT_KEK_CREDENTIAL && place[0] != '/')) {
		(void)snprintf(why, MT_ERROR_BYTES,
		    "'%.200s': behind file: and command: a path is wanted that begins with /, behind "
		    "credential: a name",
		    text);
		return -EINVAL;
	}
	if (folder == NULL || (kek->kind == MT_KEK_CREDENTIAL && folder[0] == '\0')) {
		(void)snprintf(why, MT_ERROR_BYTES,
		    "'%.200s': $CREDENTIALS_DIRECTORY is not set: LoadCredential= or "
		    "LoadCredentialEncrypted= in the service's unit sets it",
		    text);
		return -EINVAL;
	}
	bytes = snprintf(kek->place, sizeof(kek->place), "%s%s%s", folder,
	    folder[0] == '\0' ? "" : "/", place);
	if (bytes >= (int)sizeof(kek->place)) {
		(void)snprintf(why, MT_ERROR_BYTES, "'%.200s': the path is too long", text);
		return -EINVAL;
	}
	return 0;
}

int
mt_kek_parse(const char *text, struct mt_kek *ret_kek, char *why)
{
	struct mt_kek kek = { .name = MT_KEK_DEFAULT };
	const char *equals = strchr(text, '='), *place = NULL;
	int rc = parse_kind(text, &kek, &place);

	if (rc != 0 && equals != NULL && (size_t)(equals - text) < sizeof(kek.name)) {
		(void)snprintf(kek.name, sizeof(kek.name), "%.*s", (int)(equals - text), text);
		rc = mt_kek_name_check(kek.name) == NULL ? parse_kind(equals + 1, &kek, &place)
							 : -EINVAL;
	}
	if (rc != 0) {
		(void)snprintf(why, MT_ERROR_BYTES,
		    "'%.200s': [NAME=]file:PATH, [NAME=]credential:NAME or [NAME=]command:PATH is wanted",
		    text);
		return rc;
	}
	rc = parse_place(text, place, &kek, why);
	if (rc == 0)
		*ret_kek = kek;
	return rc;
}

/* ---- its key ---- */

/* 64 hex digits, and at most the end of a line. */
static int
key_parse(const char *text, size_t bytes, uint8_t ret_key[MT_KEK_BYTES])
{
	static const uint8_t nothing[MT_KEK_BYTES];
	const gnutls_datum_t digits = { (unsigned char *)(uintptr_t)text, KEK_DIGITS };
	size_t key_bytes = MT_KEK_BYTES;

	if (bytes == KEK_DIGITS + 1 && text[KEK_DIGITS] == '\n')
		bytes--;
	if (bytes != KEK_DIGITS || gnutls_hex_decode(&digits, ret_key, &key_bytes) < 0)
		return -EINVAL;
	return memcmp(ret_key, nothing, MT_KEK_BYTES) != 0 ? 0 : -EINVAL;
}

int
mt_kek_load(struct mt_kek *kek, char *why)
{
	char text[KEK_FILE_BYTES_MAX + 2], inner[SECRET_FILE_WHY_BYTES] = "";
	ssize_t bytes;
	int rc;

	assert(kek->place[0] == '/');
	if (kek->kind == MT_KEK_COMMAND) {
		rc = access(kek->place, X_OK) == 0 ? 0 : -errno;
		if (rc != 0)
			(void)snprintf(why, MT_ERROR_BYTES, "%.200s: %s", kek->place,
			    strerrordesc_np(-rc));
		return rc;
	}
	bytes = secret_file_load(kek->place, KEK_FILE_BYTES_MAX, text, inner);
	rc = bytes < 0 ? (int)bytes : key_parse(text, (size_t)bytes, kek->key);
	gnutls_memset(text, 0, sizeof(text));
	if (bytes < 0)
		(void)snprintf(why, MT_ERROR_BYTES, "%s", inner);
	else if (rc != 0)
		(void)snprintf(why, MT_ERROR_BYTES,
		    "%.200s: no KEK: 64 hex digits are wanted, not all 0, as cleave key kek writes them",
		    kek->place);
	return rc;
}

/* ---- wrap and unwrap ---- */

static void
aad_fill(const struct mt_data_key *data_key, uint8_t ret_aad[KEK_AAD_BYTES])
{
	assert(data_key->id != 0 && data_key->id <= UINT32_MAX && data_key->volume != 0);
	memcpy(ret_aad, KEK_LABEL, KEK_LABEL_BYTES);
	num_put_le32(ret_aad + KEK_LABEL_BYTES, (uint32_t)data_key->id);
	num_put_le64(ret_aad + KEK_LABEL_BYTES + 4, data_key->volume);
}

static int
cipher_init(const struct mt_kek *kek, gnutls_aead_cipher_hd_t *ret_cipher)
{
	const gnutls_datum_t key = { .data = (unsigned char *)(uintptr_t)kek->key,
		.size = MT_KEK_BYTES };

	assert(kek->kind != MT_KEK_COMMAND);
	return gnutls_aead_cipher_init(ret_cipher, GNUTLS_CIPHER_AES_256_GCM, &key) < 0 ? -EIO : 0;
}

int
mt_kek_seal(const struct mt_kek *kek, struct mt_data_key *data_key, const uint8_t dek[MT_DEK_BYTES])
{
	uint8_t aad[KEK_AAD_BYTES], wrapped[KEK_WRAPPED_BYTES] = { KEK_VERSION };
	size_t bytes = MT_DEK_BYTES + KEK_TAG_BYTES;
	gnutls_aead_cipher_hd_t cipher;
	int rc = cipher_init(kek, &cipher);

	if (rc != 0)
		return rc;
	aad_fill(data_key, aad);
	if (gnutls_rnd(GNUTLS_RND_NONCE, wrapped + 1, KEK_NONCE_BYTES) < 0 ||
	    gnutls_aead_cipher_encrypt(cipher, wrapped + 1, KEK_NONCE_BYTES, aad, sizeof(aad),
		KEK_TAG_BYTES, dek, MT_DEK_BYTES, wrapped + 1 + KEK_NONCE_BYTES, &bytes) < 0)
		rc = -EIO;
	gnutls_aead_cipher_deinit(cipher);
	if (rc != 0)
		return rc;
	assert(bytes == MT_DEK_BYTES + KEK_TAG_BYTES);
	memcpy(data_key->wrapped, wrapped, sizeof(wrapped));
	data_key->wrapped_bytes = sizeof(wrapped);
	return 0;
}

int
mt_kek_open(const struct mt_kek *kek, const struct mt_data_key *data_key,
    uint8_t ret_dek[MT_DEK_BYTES])
{
	uint8_t aad[KEK_AAD_BYTES], dek[MT_DEK_BYTES];
	const uint8_t *wrapped = data_key->wrapped;
	size_t bytes = sizeof(dek);
	gnutls_aead_cipher_hd_t cipher;
	int rc;

	if (data_key->wrapped_bytes != KEK_WRAPPED_BYTES || wrapped[0] != KEK_VERSION)
		return -EBADMSG;
	rc = cipher_init(kek, &cipher);
	if (rc != 0)
		return rc;
	aad_fill(data_key, aad);
	rc = gnutls_aead_cipher_decrypt(cipher, wrapped + 1, KEK_NONCE_BYTES, aad, sizeof(aad),
	    KEK_TAG_BYTES, wrapped + 1 + KEK_NONCE_BYTES, MT_DEK_BYTES + KEK_TAG_BYTES, dek,
	    &bytes);
	gnutls_aead_cipher_deinit(cipher);
	if (rc == 0 && bytes == sizeof(dek))
		memcpy(ret_dek, dek, sizeof(dek));
	else
		rc = -EBADMSG;
	gnutls_memset(dek, 0, sizeof(dek));
	return rc;
}
