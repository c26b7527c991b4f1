/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aead.h -- AES-GCM, by whoever makes it fastest on this host
 *
 *	aead_create --> aead_fastest: once a process --> ipsec_mb   libIPSec_MB.so.1 is there, and the processor has AES-NI
 *	                                             \-> gnutls     else; it is always there
 *
 * What they make is the same, byte for byte: peers may have different ones, and a record opens by either. One thread has
 * an aead. Nothing is allocated after aead_create. A key is an aead's for its life: GnuTLS 3.7 makes tags that are no
 * GCM where a cipher gets a second one, on processors with their own GCM instructions.
 */
#ifndef CLEAVE_BASE_AEAD_H
#define CLEAVE_BASE_AEAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define AEAD_TAG_BYTES 16u
#define AEAD_NONCE_BYTES 12u
#define AEAD_KEY_BYTES_MAX 32u

enum aead_kind { AEAD_AES_128_GCM, AEAD_AES_256_GCM };

/* The memory that a tag is about. Without text, @bound is in any number of pieces; with text it is one, or none. */
struct aead_message {
	const struct iovec *bound; /* authenticated alone */
	uint32_t bound_count;
	const struct iovec *text; /* encrypted, or decrypted, where it lies */
	uint32_t text_count;
};

struct aead {
	const struct aead_ops *ops;
};

/* Ways to make it. All members are required. */
struct aead_ops {
	const char *name;
	/* May it be used on this host? */
	bool (*is_there)(void);
	/* 0; -ENOMEM. The key is copied. */
	int (*create)(enum aead_kind kind, const uint8_t *key, struct aead **ret_aead);
	/* The key is wiped. */
	void (*destroy)(struct aead *aead);
	/* 0; -EIO. */
	int (*close)(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
	    const struct aead_message *message, uint8_t ret_tag[AEAD_TAG_BYTES]);
	/* 0; -EBADMSG. */
	int (*open)(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
	    const struct aead_message *message, const uint8_t tag[AEAD_TAG_BYTES]);
};

extern const struct aead_ops aead_gnutls, aead_ipsec_mb;

/* aead_key_bytes -- how long a key of @kind is. */
uint32_t aead_key_bytes(enum aead_kind kind);
/*
 * aead_fastest -- who makes it on this host: the same until the process ends
 *
 * The first call reads a library from the disk, which may block. Any thread.
 */
const struct aead_ops *aead_fastest(void);
/* aead_agree -- do @one and @other make the same of a message, with each kind of key? -ENOMEM is a no. */
bool aead_agree(const struct aead_ops *one, const struct aead_ops *other);

/* aead_create -- with a key of aead_key_bytes(@kind), which is copied. 0; -ENOMEM. */
int aead_create(enum aead_kind kind, const uint8_t *key, struct aead **ret_aead);
/* aead_destroy -- the key is wiped. No-op for NULL. */
void aead_destroy(struct aead *aead);
/*
 * aead_close -- encrypts @message's text where it lies; *@ret_tag is about all of @message
 *
 * No nonce may come twice under one key. 0; -EIO: the text means nothing, and may go nowhere.
 */
int aead_close(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, uint8_t ret_tag[AEAD_TAG_BYTES]);
/* aead_open -- decrypts it where it lies. 0; -EBADMSG: it is not what was closed, and its text means nothing now. */
int aead_open(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, const uint8_t tag[AEAD_TAG_BYTES]);

#endif /* CLEAVE_BASE_AEAD_H */
