/* SPDX-License-Identifier: Apache-2.0 */
/* num.h -- rounding, minima, and little-endian access to bytes */
#ifndef CLEAVE_BASE_NUM_H
#define CLEAVE_BASE_NUM_H

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NUM_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NUM_KIB(n) ((uint64_t)(n) << 10)
#define NUM_MIB(n) ((uint64_t)(n) << 20)
#define NUM_GIB(n) ((uint64_t)(n) << 30)
#define NUM_US(n) (1000u * (uint64_t)(n))
#define NUM_MS(n) (1000000u * (uint64_t)(n))
#define NUM_S(n) (1000000000u * (uint64_t)(n))

/* The structure that holds @member at @ptr. */
#define NUM_CONTAINER_OF(ptr, type, member)                                                        \
	((type *)(void *)((char *)(uintptr_t)(ptr)-offsetof(type, member)))

static inline uint64_t
num_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
num_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* num_round_up, num_round_down, num_is_aligned -- @unit: a power of two. */
static inline uint64_t
num_round_up(uint64_t value, uint64_t unit)
{
	assert(unit != 0 && (unit & (unit - 1)) == 0);
	return (value + unit - 1) & ~(unit - 1);
}

static inline uint64_t
num_round_down(uint64_t value, uint64_t unit)
{
	assert(unit != 0 && (unit & (unit - 1)) == 0);
	return value & ~(unit - 1);
}

static inline bool
num_is_aligned(uint64_t value, uint64_t unit)
{
	assert(unit != 0 && (unit & (unit - 1)) == 0);
	return (value & (unit - 1)) == 0;
}

/* An option that is 0 was not given: it is @otherwise, which is not 0. */
static inline void
num_default_u32(uint32_t *value, uint32_t otherwise)
{
	assert(otherwise > 0);
	if (*value == 0)
		*value = otherwise;
}

static inline void
num_default_u64(uint64_t *value, uint64_t otherwise)
{
	assert(otherwise > 0);
	if (*value == 0)
		*value = otherwise;
}

/*
 * A mixer: splitmix64's finaliser, for hash tables, and for choices that all processes of a cluster make alike (the
 * shard of a chunk, the owner of a shard), so it never changes. Not for hostile keys.
 */
static inline uint64_t
num_mix_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint16_t
num_get_le16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t
num_get_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t
num_get_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline void
num_put_le16(void *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
num_put_le32(void *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
num_put_le64(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

#endif /* CLEAVE_BASE_NUM_H */
