/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed_name.h -- the name of an encrypted volume, or of a snapshot of one, as nodes' disks have it: under its data key
 *
 * The mirror of the metadata store in shard 0's manifest (cluster/mirror.c) lies on disks that may be stolen. There such
 * a volume is called "encrypted-ID", and its name stands beside it, encrypted.
 */
#ifndef CLEAVE_MIDDLETIER_CATALOG_SEALED_NAME_H
#define CLEAVE_MIDDLETIER_CATALOG_SEALED_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"
#include "cleave/keyring.h"

#define MT_SEALED_NAME_BYTES (12u + MT_NAME_BYTES + 16u) /* nonce, name with zeros behind it, tag */
#define MT_ENCRYPTED_PREFIX "encrypted-"

struct mt_sealed_name {
	uint64_t number; /* the volume's id; a snapshot's number with MT_SNAPSHOT_ID */
	uint32_t key_id; /* a data key of the volume */
	uint8_t sealed[MT_SEALED_NAME_BYTES];
};

/*
 * mt_sealed_name_make -- @name under @key, for name->number and name->key_id, which are set
 *
 * Returns 0; -EIO: no random bytes, or no memory for the cipher.
 */
int mt_sealed_name_make(struct mt_sealed_name *name, const uint8_t key[KEYRING_KEY_BYTES],
    const char *text);
/*
 * mt_sealed_name_open -- the reverse
 *
 * Returns 0; -EBADMSG: another key, another volume's, or bytes that have changed; or no volume's name is in it; -EIO.
 */
int mt_sealed_name_open(const struct mt_sealed_name *name, const uint8_t key[KEYRING_KEY_BYTES],
    char ret_text[MT_NAME_BYTES]);
/* mt_sealed_name_placeholder -- "encrypted-ID", what is in the name's place. */
void mt_sealed_name_placeholder(uint64_t number, char ret_text[MT_NAME_BYTES]);

#endif /* CLEAVE_MIDDLETIER_CATALOG_SEALED_NAME_H */
