/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envelope.h -- the stored bytes of an encrypted record
 *
 *	 0 u8 version 1   1 u8 cipher 1 = AES-256-GCM   2 u16 0   4 u32 key_id
 *	 8 u8 salt[12]   20 u32 counter   24 u8 tag[16]
 *	40 ciphertext of: block_count x u32 plain CRC-32C | what the codec made of the blocks
 *
 *	subkey  HKDF-Expand-SHA256(data key, "cleave record 1" | salt)        nonce  counter u32 | 8 zeros
 *	AAD     bytes 0..23 | u8 kind | u8 codec_id | u16 block_count | u64 segment | u32 block
 *
 * Little-endian. What is bound by the AAD is not stored here: a record that was moved, or whose descriptor says
 * something else, does not open. Nobody else knows this layout, nor the library that does the arithmetic.
 */
#ifndef CLEAVE_ENGINES_ENVELOPE_H
#define CLEAVE_ENGINES_ENVELOPE_H

#include <stdint.h>

#include "cleave/engine.h"
#include "cleave/envelope.h"

struct keyring;

/*
 * Subkeys that a runner has at hand, by key and salt: as many as pairs are read and written at a time. Missing one costs
 * some microseconds, and memory for a cipher of GnuTLS's.
 */
#define ENVELOPE_SUBKEYS 128u

/* A runner's memory for envelopes. */
struct envelope_box;

/* A record's place and shape, which the AAD binds. */
struct envelope_place {
	uint8_t kind;     /* enum record_kind */
	uint8_t codec_id; /* with ENGINE_ENCRYPTED */
	uint8_t block_count;
	uint32_t block;
	uint64_t segment;
};

/* An envelope's content. */
struct envelope_content {
	const uint8_t *output; /* of the codec; the box's, until the next open */
	uint32_t output_bytes;
	uint32_t key_id;
	uint32_t crcs[ENGINE_RECORD_BLOCKS_MAX];
};

/* envelope_box_create -- for one thread; @keys: borrowed. NULL: out of memory. envelope_box_destroy: NULL is a no-op. */
struct envelope_box *envelope_box_create(const struct keyring *keys);
void envelope_box_destroy(struct envelope_box *box);

/*
 * envelope_close -- encrypt a record where it lies
 *
 * @bytes: ENGINE_ENVELOPE_BYTES of room, which is filled here, then @output_bytes of the codec's. @box NULL: there are no
 * keys. Returns 0; -ENOKEY, -ENOMEM: @bytes are untouched; -EIO: the library failed, @bytes are undefined.
 */
int envelope_close(struct envelope_box *box, const struct envelope_place *place,
    const struct engine_envelope *envelope, const uint32_t *crcs, uint8_t *bytes,
    uint32_t output_bytes);
/*
 * envelope_open -- what is in @bytes, which are not altered
 *
 * Returns 0; -EBADMSG: it is no envelope of @place, or not as it was closed; -ENOKEY: its key is not here, or no
 * memory to use it.
 */
int envelope_open(struct envelope_box *box, const struct envelope_place *place,
    const uint8_t *bytes, uint32_t bytes_count, struct envelope_content *ret_content);

#endif /* CLEAVE_ENGINES_ENVELOPE_H */
