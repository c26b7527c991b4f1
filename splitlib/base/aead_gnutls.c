/* SPDX-License-Identifier: Apache-2.0 */
/* aead_gnutls.c -- AES-GCM by GnuTLS: on every host */
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>

#include "aead.h"

struct aead_by_gnutls {
	struct aead aead; /* first */
	gnutls_aead_cipher_hd_t cipher;
};

static struct aead_by_gnutls *
by_gnutls(struct aead *aead)
{
	return (struct aead_by_gnutls *)aead;
}

static bool
gnutls_is_there(void)
{
	return true;
}

static int
gnutls_create(enum aead_kind kind, const uint8_t *key, struct aead **ret_aead)
{
	const gnutls_datum_t datum = { .data = (unsigned char *)key, .size = aead_key_bytes(kind) };
	struct aead_by_gnutls *self = calloc(1, sizeof(*self));

	if (self == NULL)
		return -ENOMEM;
	self->aead.ops = &aead_gnutls;
	if (gnutls_aead_cipher_init(&self->cipher,
		kind == AEAD_AES_128_GCM ? GNUTLS_CIPHER_AES_128_GCM : GNUTLS_CIPHER_AES_256_GCM,
		&datum) < 0) {
		free(self);
		return -ENOMEM;
	}
	*ret_aead = &self->aead;
	return 0;
}

static void
gnutls_destroy(struct aead *aead)
{
	struct aead_by_gnutls *self = by_gnutls(aead);

	gnutls_aead_cipher_deinit(self->cipher); /* which wipes what it had */
	free(self);
}

static int
gnutls_close(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, uint8_t ret_tag[AEAD_TAG_BYTES])
{
	size_t tag_bytes = AEAD_TAG_BYTES;
	int rc = gnutls_aead_cipher_encryptv2(by_gnutls(aead)->cipher, nonce, AEAD_NONCE_BYTES,
	    message->bound, (int)message->bound_count, message->text, (int)message->text_count,
	    ret_tag, &tag_bytes);

	return rc < 0 || tag_bytes != AEAD_TAG_BYTES ? -EIO : 0;
}

static int
gnutls_open(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, const uint8_t tag[AEAD_TAG_BYTES])
{
	int rc = gnutls_aead_cipher_decryptv2(by_gnutls(aead)->cipher, nonce, AEAD_NONCE_BYTES,
	    message->bound, (int)message->bound_count, message->text, (int)message->text_count,
	    (void *)tag, AEAD_TAG_BYTES);

	return rc < 0 ? -EBADMSG : 0;
}

const struct aead_ops aead_gnutls = {
	.name = "gnutls",
	.is_there = gnutls_is_there,
	.create = gnutls_create,
	.destroy = gnutls_destroy,
	.close = gnutls_close,
	.open = gnutls_open,
};
