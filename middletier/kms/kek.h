/* SPDX-License-Identifier: Apache-2.0 */
/* kek.h -- a key that wraps data keys: where it is, and what it wraps */
#ifndef CLEAVE_MIDDLETIER_KMS_KEK_H
#define CLEAVE_MIDDLETIER_KMS_KEK_H

#include <stddef.h>
#include <stdint.h>

#include "catalog/data_key.h"
#include "common/limits.h"

#define MT_KEK_DEFAULT "default" /* the name of one that was given none */
#define MT_KEK_BYTES 32u
#define MT_DEK_BYTES 32u
#define MT_KEK_PLACE_BYTES 512u

enum mt_kek_kind {
	MT_KEK_FILE,       /* 64 hex digits in a file */
	MT_KEK_CREDENTIAL, /* likewise, in one that systemd hands over */
	MT_KEK_COMMAND,    /* a program has it, and wraps and unwraps for us */
	MT_KEK_KIND_NR
};

/* Belongs to kms.c, which keeps it out of swap and core files. */
struct mt_kek {
	char name[MT_KEK_NAME_BYTES];
	enum mt_kek_kind kind;
	char place[MT_KEK_PLACE_BYTES]; /* of the file, or the program */
	uint8_t key[MT_KEK_BYTES];      /* of a file's or a credential's */
};

/*
 * mt_kek_parse -- "[NAME=]file:PATH", "[NAME=]credential:NAME" or "[NAME=]command:PATH", as an option has it
 *
 * Nothing is read but the environment's $CREDENTIALS_DIRECTORY. Returns 0; -EINVAL and @why, of MT_ERROR_BYTES.
 */
int mt_kek_parse(const char *text, struct mt_kek *ret_kek, char *why);
/*
 * mt_kek_load -- the key of a file or a credential is read; a command must be there, and may be run
 *
 * Blocks. Returns 0; -EINVAL what is there is no key; -EACCES others may read it; as open and read; and @why.
 */
int mt_kek_load(struct mt_kek *kek, char *why);
/*
 * mt_kek_seal -- @dek, wrapped with the key of a file or a credential, into @data_key, whose id and volume are set
 *
 *	u8 version 1 | nonce 12 | AES-256-GCM(KEK, DEK 32, AAD "cleave dek 1" | u32 id | u64 volume) | tag 16
 *
 * So it opens for that key of that volume alone. Returns 0; -EIO: no random bytes, or no memory for the cipher.
 */
int mt_kek_seal(const struct mt_kek *kek, struct mt_data_key *data_key,
    const uint8_t dek[MT_DEK_BYTES]);
/*
 * mt_kek_open -- the reverse
 *
 * Returns 0; -EBADMSG another KEK, another key or volume, or bytes that have changed; -EIO.
 */
int mt_kek_open(const struct mt_kek *kek, const struct mt_data_key *data_key,
    uint8_t ret_dek[MT_DEK_BYTES]);

#endif /* CLEAVE_MIDDLETIER_KMS_KEK_H */
