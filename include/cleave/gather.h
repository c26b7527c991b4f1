/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.h -- the payload of GATHER, with which a gateway asks a node for stretches of one extent in one request
 *
 * The answer's payload is their bytes, one behind the other. On a connection of CLEAVE_LEVEL_GATHER.
 *
 *	a stretch, 8 bytes     0 u32 offset_bytes in the extent   4 u32 length_bytes
 *
 * Stretches are in the order of their offsets, and no two overlap.
 */
#ifndef CLEAVE_GATHER_H
#define CLEAVE_GATHER_H

#include <stdint.h>

#include "cleave/message.h"

#define WIRE_GATHER_MAX 16u /* stretches of a request: pieces of its answer */
#define WIRE_STRETCH_BYTES 8u
#define WIRE_GATHER_BYTES_MAX                                                                      \
	(64u * 1024u) /* of an answer, but of a single stretch of any length */

struct wire_stretch {
	uint32_t offset_bytes, length_bytes;
};

/* wire_gather_encode -- @count stretches, 1 to WIRE_GATHER_MAX, into as many times WIRE_STRETCH_BYTES at @out. */
void wire_gather_encode(uint8_t *out, const struct wire_stretch *stretches, uint32_t count);
/*
 * wire_gather_decode -- @count stretches, which are to have @length_bytes together, from @in
 *
 * 0; or -EPROTO and the field's name, @ret_stretches may be written then.
 */
int wire_gather_decode(const uint8_t *in, uint32_t count, uint32_t length_bytes,
    struct wire_stretch *ret_stretches, const char **ret_field);

#endif /* CLEAVE_GATHER_H */
