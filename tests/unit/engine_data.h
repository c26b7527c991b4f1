/* SPDX-License-Identifier: Apache-2.0 */
/* engine_data.h -- what the engines' tests share: bytes of every compressibility, and jobs */
#ifndef CLEAVE_TESTS_ENGINE_DATA_H
#define CLEAVE_TESTS_ENGINE_DATA_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cleave/engine.h"

enum data_kind { DATA_ZERO, DATA_TEXT, DATA_RANDOM, DATA_MIXED, DATA_KIND_NR };

/* xorshift64*: the same bytes on every machine. */
static inline uint64_t
data_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

static inline void
data_fill(void *out, size_t bytes, enum data_kind kind, uint64_t seed)
{
	static const char *const words[] = { "block ", "extent ", "batch ", "of ", "the ", "and ",
		"record ", "is ", "written ", "sealed. ", "\n" };
	uint64_t state = seed * 2 + 1;
	uint8_t *at = out;

	for (size_t i = 0; i < bytes;) {
		const char *word = words[data_random(&state) % (sizeof(words) / sizeof(words[0]))];
		size_t now = strlen(word);

		now = now < bytes - i ? now : bytes - i;
		switch (kind) {
		case DATA_ZERO:
			memset(at + i, 0, now);
			break;
		case DATA_MIXED:
			if (i / 512 % 2 == 0) {
				memcpy(at + i, word, now);
				break;
			}
			/* fall through */
		case DATA_RANDOM:
			for (size_t k = 0; k < now; k++)
				at[i + k] = (uint8_t)(data_random(&state) >> 32);
			break;
		default:
			memcpy(at + i, word, now);
		}
		i += now;
	}
}

/* Exactly @bytes on the heap, so that an address sanitizer sees one byte too many. */
static inline uint8_t *
data_create(size_t bytes, enum data_kind kind, uint64_t seed)
{
	uint8_t *data = malloc(bytes == 0 ? 1 : bytes);

	if (data == NULL)
		abort();
	data_fill(data, bytes, kind, seed);
	return data;
}

/*
 * A buffer that ends where the process's memory ends: the codecs' libraries are not instrumented, so
 * only the processor sees them go one byte too far.
 */
struct data_fence {
	uint8_t *start;
	uint8_t *end; /* the first byte that faults */
};

static inline struct data_fence
data_fence_create(size_t capacity)
{
	size_t bytes = (capacity + 4095) / 4096 * 4096;
	uint8_t *start =
	    mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED || mprotect(start + bytes, 4096, PROT_NONE) != 0)
		abort();
	return (struct data_fence){ .start = start, .end = start + bytes };
}

static inline void
data_fence_destroy(struct data_fence *fence)
{
	(void)munmap(fence->start, (size_t)(fence->end - fence->start) + 4096);
}

static inline dev_ptr
data_dev_ptr(const void *memory)
{
	return (dev_ptr){ (uintptr_t)memory };
}

#endif /* CLEAVE_TESTS_ENGINE_DATA_H */
