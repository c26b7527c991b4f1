/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h -- CRC-32C (Castagnoli) through ISA-L, and its linear combination */
#ifndef CLEAVE_BASE_CRC32C_H
#define CLEAVE_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * crc32c -- @crc 0 starts; the value is the usual finished one (that of "123456789" is 0xe3069283)
 * and may be passed on to continue.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/*
 * crc32c_combine -- the CRC of A followed by B, of @bytes_b bytes, from theirs
 *
 * Takes one multiplication for each bit that is set in @bytes_b: a single one for a power of two.
 */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

#endif /* CLEAVE_BASE_CRC32C_H */
