/* SPDX-License-Identifier: Apache-2.0 */
/* lease_read.h -- the payload of a LEASE: of which runs a client has read at storage nodes (wire.h, struct wire_lease) */
#ifndef CLEAVE_LEASE_READ_H
#define CLEAVE_LEASE_READ_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_LEASE_SAMPLE 32u         /* an entry's read stands for so many */
#define WIRE_LEASE_SMALL_BYTES 16384u /* a read of less is small: frames usually have as much */
#define WIRE_LEASE_READ_BYTES 32u
#define WIRE_LEASE_READS_MAX 128u
#define WIRE_LEASE_READS_HEAD_BYTES 8u /* 0 u32 CRC of the entries behind it   4 u32 0 */
#define WIRE_LEASE_READS_BYTES_MAX                                                                 \
	(WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READS_MAX * WIRE_LEASE_READ_BYTES)
/*
 * Reads of a run at nodes: 32 bytes of a request's payload
 *
 * 0 u64 segment   8 u64 extent   16 u32 from_bytes   20 u32 stored_bytes   24 u16 chunk   26 u16 read_count
 * 28 u16 small_count   30 u8 codec_id   31 u8 0
 */
struct wire_lease_read {
	uint64_t segment;      /* of the volume's that is open, as in requests */
	uint32_t chunk;        /* of the segment */
	uint64_t extent;       /* packed; its shard is the chunk's */
	uint32_t from_bytes;   /* as the map's source has it: which run of the extent */
	uint32_t stored_bytes; /* of the records that were decompressed for these reads; > 0 */
	uint32_t read_count;   /* 1 to UINT16_MAX */
	uint32_t small_count;  /* of these, messages of less than WIRE_LEASE_SMALL_BYTES */
	uint8_t codec_id;      /* of one of the records: of the dearest codec that was met */
};
/* wire_lease_reads_seal -- the head of @count entries, which lie behind it in @payload. Returns the payload's length. */
uint32_t wire_lease_reads_seal(uint8_t *payload, uint32_t count);
/* wire_lease_reads_are_whole -- do the entries of a payload of @bytes, as LEASE may have, have the CRC of its head? */
bool wire_lease_reads_are_whole(const uint8_t *payload, uint32_t bytes);
void wire_lease_read_encode(uint8_t out[WIRE_LEASE_READ_BYTES], const struct wire_lease_read *read);
/* wire_lease_read_decode -- 0, or -EPROTO and the field's name. */
int wire_lease_read_decode(const uint8_t in[WIRE_LEASE_READ_BYTES],
    struct wire_lease_read *ret_read, const char **ret_field);

#endif /* CLEAVE_LEASE_READ_H */
