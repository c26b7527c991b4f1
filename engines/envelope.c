/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envelope.c -- see envelope.h, and cleave/envelope.h for who draws salts and counters
 *
 * A subkey is derived once for a key and a salt, and kept in a table of cipher handles, direct-mapped: nothing is
 * allocated for a record whose subkey is at hand. One that is not gets a new handle, which is memory: a handle has one
 * key in its life (base/aead.h). When a key was removed from the keyring all subkeys go, whatever they were derived from.
 */
#include "envelope.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "base/aead.h"
#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/keyring.h"

#define ENVELOPE_VERSION 1u
#define ENVELOPE_AES_256_GCM 1u
#define ENVELOPE_LABEL "cleave record 1"

#define ENVELOPE_AT_CIPHER 1u
#define ENVELOPE_AT_KEY_ID 4u
#define ENVELOPE_AT_SALT 8u
#define ENVELOPE_AT_COUNTER 20u
#define ENVELOPE_AT_TAG 24u
#define ENVELOPE_AT_TEXT 40u
#define ENVELOPE_TAG_BYTES (ENVELOPE_AT_TEXT - ENVELOPE_AT_TAG)
#define ENVELOPE_NONCE_BYTES AEAD_NONCE_BYTES
#define ENVELOPE_AAD_BYTES (ENVELOPE_AT_TAG + 16u)

_Static_assert(ENVELOPE_TAG_BYTES == AEAD_TAG_BYTES, "a whole tag");
_Static_assert(ENVELOPE_AT_TEXT == ENGINE_ENVELOPE_BYTES(0), "CRCs begin the text");
_Static_assert(ENVELOPE_AT_SALT + ENGINE_SALT_BYTES == ENVELOPE_AT_COUNTER, "no gap");

struct subkey {
	struct aead *cipher; /* NULL: no key is in it */
	uint32_t key_id;
	uint8_t salt[ENGINE_SALT_BYTES];
};

struct envelope_box {
	const struct keyring *keys;
	uint32_t generation; /* of keys, when the oldest subkey was derived */
	struct subkey subkeys[ENVELOPE_SUBKEYS];
	uint8_t opened[ENGINE_STORED_BYTES_MAX];
};

/* ---- salts and counters ---- */

static int
fill_random(void *arg, uint8_t *out, size_t bytes)
{
	(void)arg;
	return gnutls_rnd(GNUTLS_RND_RANDOM, out, bytes) < 0 ? -EIO : 0;
}

void
envelope_writer_init(struct envelope_writer *writer,
    int (*fill)(void *arg, uint8_t *out, size_t bytes), void *arg)
{
	*writer = (struct envelope_writer){ .fill = fill != NULL ? fill : fill_random,
		.arg = arg,
		.next = ENVELOPE_COUNTERS };
}

int
envelope_draw(struct envelope_writer *writer, struct engine_envelope *ret_envelope)
{
	assert(writer->fill != NULL);
	assert(writer->next <= ENVELOPE_COUNTERS);
	if (writer->next == ENVELOPE_COUNTERS) {
		int rc = writer->fill(writer->arg, writer->salt, sizeof(writer->salt));

		if (rc != 0)
			return rc;
		if (MUTANT(salt_not_drawn))
			memset(writer->salt, 0, sizeof(writer->salt));
		writer->next = 0;
	}
	ret_envelope->counter = (uint32_t)writer->next++;
	memcpy(ret_envelope->salt, writer->salt, sizeof(writer->salt));
	return 0;
}

/* ---- subkeys ---- */

struct envelope_box *
envelope_box_create(const struct keyring *keys)
{
	struct envelope_box *box = calloc(1, sizeof(*box));

	if (box != NULL)
		box->keys = keys;
	return box;
}

static void
subkey_drop(struct subkey *subkey)
{
	aead_destroy(subkey->cipher); /* which wipes what it had */
	subkey->cipher = NULL;
}

/* A key was removed: no subkey is used any more, nor kept. */
static void
box_forget(struct envelope_box *box, uint32_t generation)
{
	for (uint32_t i = 0; i < ENVELOPE_SUBKEYS; i++)
		subkey_drop(&box->subkeys[i]);
	box->generation = generation;
}

void
envelope_box_destroy(struct envelope_box *box)
{
	if (box == NULL)
		return;
	box_forget(box, 0);
	gnutls_memset(box, 0, sizeof(*box));
	free(box);
}

static int
subkey_derive(struct envelope_box *box, struct subkey *subkey, uint32_t key_id,
    const uint8_t salt[ENGINE_SALT_BYTES])
{
	uint8_t label[sizeof(ENVELOPE_LABEL) - 1 + ENGINE_SALT_BYTES];
	uint8_t key[KEYRING_KEY_BYTES], derived[KEYRING_KEY_BYTES];
	const gnutls_datum_t prk = { .data = key, .size = sizeof(key) };
	const gnutls_datum_t info = { .data = label, .size = sizeof(label) };
	int rc = keyring_copy(box->keys, key_id, key);

	if (rc != 0)
		return rc;
	subkey_drop(subkey);
	memcpy(label, ENVELOPE_LABEL, sizeof(ENVELOPE_LABEL) - 1);
	memcpy(label + sizeof(ENVELOPE_LABEL) - 1, salt, ENGINE_SALT_BYTES);
	if (gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &prk, &info, derived, sizeof(derived)) < 0 ||
	    aead_create(AEAD_AES_256_GCM, derived, &subkey->cipher) != 0) {
		subkey->cipher = NULL;
		rc = -ENOMEM;
	}
	gnutls_memset(key, 0, sizeof(key));
	gnutls_memset(derived, 0, sizeof(derived));
	subkey->key_id = key_id;
	memcpy(subkey->salt, salt, ENGINE_SALT_BYTES);
	return rc;
}

/* The cipher of a key and a salt. 0; -ENOKEY; -ENOMEM. */
static int
box_cipher(struct envelope_box *box, uint32_t key_id, const uint8_t salt[ENGINE_SALT_BYTES],
    struct aead **ret_cipher)
{
	uint32_t generation, index;
	struct subkey *subkey;
	int rc = 0;

	if (box == NULL || key_id == 0)
		return -ENOKEY;
	generation = keyring_generation(box->keys);
	if (generation != box->generation)
		box_forget(box, generation);
	index = (num_get_le32(salt) ^ key_id) % ENVELOPE_SUBKEYS; /* salts are random */
	subkey = &box->subkeys[index];
	if (subkey->cipher == NULL || subkey->key_id != key_id ||
	    memcmp(subkey->salt, salt, ENGINE_SALT_BYTES) != 0)
		rc = subkey_derive(box, subkey, key_id, salt);
	*ret_cipher = subkey->cipher;
	return rc;
}

/* ---- envelopes ---- */

static void
nonce_make(uint32_t counter, uint8_t ret_nonce[ENVELOPE_NONCE_BYTES])
{
	memset(ret_nonce, 0, ENVELOPE_NONCE_BYTES);
	num_put_le32(ret_nonce, counter);
}

static void
aad_make(const struct envelope_place *place, const uint8_t *bytes,
    uint8_t ret_aad[ENVELOPE_AAD_BYTES])
{
	bool is_bound = !MUTANT(place_not_bound);
	uint8_t *at = ret_aad + ENVELOPE_AT_TAG;

	assert((place->codec_id & ENGINE_ENCRYPTED) != 0);
	assert(place->block_count >= 1 && place->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	memcpy(ret_aad, bytes, ENVELOPE_AT_TAG);
	at[0] = place->kind;
	at[1] = place->codec_id;
	at[2] = place->block_count;
	at[3] = 0;
	num_put_le64(at + 4, is_bound ? place->segment : 0);
	num_put_le32(at + 12, is_bound ? place->block : 0);
}

int
envelope_close(struct envelope_box *box, const struct envelope_place *place,
    const struct engine_envelope *envelope, const uint32_t *crcs, uint8_t *bytes,
    uint32_t output_bytes)
{
	uint32_t head_bytes = ENGINE_ENVELOPE_BYTES(place->block_count);
	const struct iovec text = { .iov_base = bytes + ENVELOPE_AT_TEXT,
		.iov_len = head_bytes - ENVELOPE_AT_TEXT + output_bytes };
	uint8_t aad[ENVELOPE_AAD_BYTES], nonce[ENVELOPE_NONCE_BYTES];
	const struct iovec bound = { .iov_base = aad, .iov_len = sizeof(aad) };
	const struct aead_message message = { &bound, 1, &text, 1 };
	struct aead *cipher;
	int rc = box_cipher(box, envelope->key_id, envelope->salt, &cipher);

	assert(output_bytes > 0);
	assert(head_bytes + output_bytes <= ENGINE_STORED_BYTES_MAX);
	if (rc != 0)
		return rc;
	memset(bytes, 0, ENVELOPE_AT_TEXT);
	bytes[0] = ENVELOPE_VERSION;
	bytes[ENVELOPE_AT_CIPHER] = ENVELOPE_AES_256_GCM;
	num_put_le32(bytes + ENVELOPE_AT_KEY_ID, envelope->key_id);
	memcpy(bytes + ENVELOPE_AT_SALT, envelope->salt, ENGINE_SALT_BYTES);
	num_put_le32(bytes + ENVELOPE_AT_COUNTER, envelope->counter);
	for (uint32_t i = 0; i < place->block_count; i++)
		num_put_le32(bytes + ENVELOPE_AT_TEXT + 4 * i, crcs[i]);
	aad_make(place, bytes, aad);
	nonce_make(envelope->counter, nonce);
	return aead_close(cipher, nonce, &message, bytes + ENVELOPE_AT_TAG);
}

/* Is it an envelope of this version, as long as one of these blocks can be? */
static bool
envelope_is_known(const struct envelope_place *place, const uint8_t *bytes, uint32_t bytes_count)
{
	uint32_t head_bytes = ENGINE_ENVELOPE_BYTES(place->block_count);

	return bytes_count > head_bytes &&
	    bytes_count - head_bytes <= place->block_count * CLEAVE_BLOCK_BYTES &&
	    bytes[0] == ENVELOPE_VERSION && bytes[ENVELOPE_AT_CIPHER] == ENVELOPE_AES_256_GCM &&
	    num_get_le16(bytes + ENVELOPE_AT_CIPHER + 1) == 0 &&
	    num_get_le32(bytes + ENVELOPE_AT_KEY_ID) != 0;
}

int
envelope_open(struct envelope_box *box, const struct envelope_place *place, const uint8_t *bytes,
    uint32_t bytes_count, struct envelope_content *ret_content)
{
	uint32_t crcs_bytes = 4u * place->block_count;
	uint8_t aad[ENVELOPE_AAD_BYTES], nonce[ENVELOPE_NONCE_BYTES];
	const struct iovec bound = { .iov_base = aad, .iov_len = sizeof(aad) };
	struct iovec text;
	const struct aead_message message = { &bound, 1, &text, 1 };
	struct aead *cipher;
	uint32_t key_id;
	int rc;

	if (!envelope_is_known(place, bytes, bytes_count))
		return -EBADMSG;
	key_id = num_get_le32(bytes + ENVELOPE_AT_KEY_ID);
	rc = box_cipher(box, key_id, bytes + ENVELOPE_AT_SALT, &cipher);
	if (rc != 0)
		return -ENOKEY; /* without memory for it, the key is as good as missing: the copy is none the worse */
	text = (struct iovec){ .iov_base = box->opened, .iov_len = bytes_count - ENVELOPE_AT_TEXT };
	assert(text.iov_len <= sizeof(box->opened));
	memcpy(box->opened, bytes + ENVELOPE_AT_TEXT, text.iov_len);
	aad_make(place, bytes, aad);
	nonce_make(num_get_le32(bytes + ENVELOPE_AT_COUNTER), nonce);
	if (aead_open(cipher, nonce, &message, bytes + ENVELOPE_AT_TAG) != 0)
		return -EBADMSG;
	ret_content->output = box->opened + crcs_bytes;
	ret_content->output_bytes = (uint32_t)text.iov_len - crcs_bytes;
	ret_content->key_id = key_id;
	for (uint32_t i = 0; i < place->block_count; i++)
		ret_content->crcs[i] = num_get_le32(box->opened + 4 * i);
	return 0;
}
