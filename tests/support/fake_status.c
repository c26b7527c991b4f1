/* SPDX-License-Identifier: Apache-2.0 */
/* fake_status.c -- what a fake gateway says that its volumes hold */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "support/fake_gateway.h"

/* Pages that nobody has touched are not looked at. */
static bool
is_all_zeros(const struct fake_volume *volume, uint64_t at)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	static unsigned char is_there[CLEAVE_CHUNK_BLOCKS];
	uint64_t bytes = num_min(CLEAVE_CHUNK_BYTES, volume->size_bytes - at);
	int rc = mincore(volume->data + at, bytes, is_there);

	assert(rc == 0);
	for (uint64_t i = 0; i < bytes; i += CLEAVE_BLOCK_BYTES) {
		if ((is_there[i / CLEAVE_BLOCK_BYTES] & 1) != 0 &&
		    memcmp(volume->data + at + i, zeros, sizeof(zeros)) != 0)
			return false;
	}
	return true;
}

/* Zeros are holes here. Returns the bytes of entries. */
uint32_t
fake_status(const struct fake_asked *asked, uint32_t *ret_crc)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	static uint8_t buffer[WIRE_CLIENT_PAYLOAD_BYTES_MAX];
	struct fake_gateway *fake = asked->fake;
	const uint8_t *at = asked->volume->data + fake_offset(asked->volume, asked->io);
	uint32_t left_count = asked->io->length_bytes / CLEAVE_BLOCK_BYTES, bytes = 0;

	if (fake->status_empty > 0) {
		fake->status_empty--;
		left_count = 0;
	}
	if (fake->status_blocks_max > 0)
		left_count = (uint32_t)num_min(left_count, fake->status_blocks_max);
	while (left_count > 0 && bytes < sizeof(buffer)) {
		struct wire_status status = { .flags = WIRE_STATUS_HOLE | WIRE_STATUS_ZERO };

		if (asked->volume->is_hole)
			status.block_count = left_count;
		else if (memcmp(at, zeros, sizeof(zeros)) != 0)
			status.flags = 0;
		left_count -= status.block_count;
		while (left_count > 0 &&
		    (memcmp(at, zeros, sizeof(zeros)) == 0) == (status.flags != 0)) {
			at += CLEAVE_BLOCK_BYTES;
			left_count--;
			status.block_count++;
		}
		if (fake->status_overshoot > 0) {
			fake->status_overshoot--;
			status.block_count = UINT32_MAX;
		}
		wire_status_encode(buffer + bytes, &status);
		bytes += WIRE_STATUS_ENTRY_BYTES;
	}
	*ret_crc = crc32c(0, buffer, bytes);
	if (fake->corrupt_count > 0) {
		fake->corrupt_count--;
		buffer[bytes / 2] ^= 1;
	}
	dev_copy_from_host(fake->split, asked->to, buffer, bytes);
	return bytes;
}

/* Chunks of this port's shards that are all zeros. Returns the bytes of the answer. */
uint32_t
fake_holes(const struct fake_asked *asked, uint32_t *ret_crc)
{
	struct fake_gateway *fake = asked->fake;
	const struct fake_volume *volume = asked->volume;
	uint64_t start = fake_offset(volume, asked->io);
	uint8_t bits[WIRE_HOLES_BYTES] = { 0 };

	for (uint32_t i = 0; i < CLEAVE_SEGMENT_CHUNKS; i++) {
		uint64_t at = start + i * CLEAVE_CHUNK_BYTES;
		uint32_t shard =
		    wire_shard_of(asked->io->segment, i * CLEAVE_CHUNK_BYTES, fake->shard_count);

		if (fake->port_of_shard[shard] == asked->port &&
		    (fake->deaf_ports >> asked->port & 1) == 0 && at < volume->size_bytes &&
		    (volume->is_hole || is_all_zeros(volume, at)))
			bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
	*ret_crc = crc32c(0, bits, sizeof(bits));
	if (fake->corrupt_count > 0) {
		fake->corrupt_count--;
		bits[0] ^= 1;
	}
	dev_copy_from_host(fake->split, asked->to, bits, sizeof(bits));
	return sizeof(bits);
}

uint32_t
fake_gateway_count(const struct fake_gateway *fake, enum wire_opcode opcode)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake->log_count; i++)
		count += fake->log[i].io.opcode == opcode;
	return count;
}
