/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc32c.c -- CRC-32C through ISA-L, and its linear combination
 *
 * A CRC is a polynomial over GF(2) modulo P; appending n bytes multiplies it by x^(8n). So the CRC
 * of A followed by B is crc(A) * x^(8 * bytes of B) + crc(B): the two inversions of the finished
 * value cancel. Polynomials are reflected as in the CRC itself: bit 31 is x^0.
 *
 * The order of x modulo P is 2^31 - 1, so the squares x^(8 * 2^k) repeat after 31. Combining costs
 * one multiplication for a power of two of bytes (a block, a full record) and one a set bit else.
 *
 * A multiplication is one carry-less multiply and one CRC instruction where the processor has them
 * (4 ns), 32 shifts elsewhere (35 ns); bench_engines measures it.
 */
#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <stdbool.h>

#include "base/check.h"
#include "base/num.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CRC32C_POLY 0x82f63b78u
#define CRC32C_SQUARES_NR 31u
/* ISA-L counts in int; a power of two keeps its long kernels aligned. */
#define CRC32C_CALL_BYTES_MAX ((size_t)1 << 30)
_Static_assert(CRC32C_CALL_BYTES_MAX <= INT_MAX, "what one call takes");

/* x^(8 * 2^k) mod P. */
static const uint32_t squares[CRC32C_SQUARES_NR] = { 0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c,
	0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7, 0x88e56f72, 0x74c360a4, 0xe4172b16,
	0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc, 0xfe7740e6, 0xf946610b,
	0x3c204f8f, 0x538586e3, 0x59726915, 0x734d5309, 0xbc1ac763, 0x7d0722cc, 0xd289cabe,
	0xe94ca9bc, 0x05b74f3f, 0xa51e1f42, 0x40000000, 0x20000000, 0x08000000 };

uint32_t
crc32c(uint32_t crc, const void *data, size_t bytes)
{
	/* ISA-L promises not to write; its prototype lost the const. */
	unsigned char *at = (unsigned char *)(uintptr_t)data;
	uint32_t state = ~crc;

	assert(data != NULL || bytes == 0);
	while (bytes > 0) {
		size_t now = num_min(bytes, CRC32C_CALL_BYTES_MAX);

		state = crc32_iscsi(at, (int)now, state);
		at += now;
		bytes -= now;
	}
	return ~state;
}

static unsigned
lowest_bit(uint64_t value)
{
	assert(value != 0); /* there is none in it */
	return (unsigned)__builtin_ctzll(value);
}

static uint32_t
multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (unsigned bit = 0; bit < 32; bit++) {
		product ^= b & (0u - (a >> 31));
		a <<= 1;
		b = (b >> 1) ^ (CRC32C_POLY & (0u - (b & 1)));
	}
	return product;
}

static uint32_t
shift_portable(uint32_t crc, uint64_t bytes)
{
	for (; bytes != 0; bytes &= bytes - 1)
		crc = multiply(squares[lowest_bit(bytes) % CRC32C_SQUARES_NR], crc);
	return crc;
}

#if defined(__x86_64__)

/* x^(8 * 2^k - 33) mod P: see shift_clmul. */
static const uint32_t squares_clmul[CRC32C_SQUARES_NR] = { 0xbf818109, 0x780d5a4d, 0x05ec76f1,
	0x00000001, 0x493c7d27, 0xba4fc28e, 0x9e4addf8, 0x0d3b6092, 0xb9e02b86, 0xdd7e3b0c,
	0x170076fa, 0xa51b6135, 0x82f89c77, 0x54a86326, 0x1dc403cc, 0x5ae703ab, 0xc5013a36,
	0xac2ac6dd, 0x9b4615a9, 0x688d1c61, 0xf6af14e6, 0xb6ffe386, 0xb717425b, 0x478b0d30,
	0x54cc62e5, 0x7b2102ee, 0x8a99adef, 0xa7568c8f, 0xd610d67e, 0x6b086b3f, 0xd94f3c0b };

/*
 * The 63-bit product of two reflected values, read as a reflected 64-bit value, is a * b * x; the
 * CRC instruction multiplies by x^32 while it reduces. The table takes both out again.
 */
__attribute__((target("pclmul,sse4.2"))) static uint32_t
shift_clmul(uint32_t crc, uint64_t bytes)
{
	for (; bytes != 0; bytes &= bytes - 1) {
		unsigned k = lowest_bit(bytes) % CRC32C_SQUARES_NR;
		__m128i a = _mm_cvtsi32_si128((int)crc);
		__m128i b = _mm_cvtsi32_si128((int)squares_clmul[k]);
		uint64_t product = (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, b, 0));

		crc = (uint32_t)_mm_crc32_u64(0, product);
	}
	return crc;
}

static bool
has_clmul(void)
{
	return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
}

#else

static uint32_t
shift_clmul(uint32_t crc, uint64_t bytes)
{
	return shift_portable(crc, bytes);
}

static bool
has_clmul(void)
{
	return false;
}

#endif

uint32_t
crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b)
{
	if (has_clmul())
		return shift_clmul(crc_a, bytes_b) ^ crc_b;
	return shift_portable(crc_a, bytes_b) ^ crc_b;
}
