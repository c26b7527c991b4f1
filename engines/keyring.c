/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyring.c -- see keyring.h
 *
 * Two levels, by the high and the low half of key_id. Entries do not move, so that readers need no lock: an entry has
 * a version, odd while its key is there, and readers look at it before and after they copy (a sequence lock whose
 * readers never wait: a key that changes meanwhile is one that is not there).
 *
 *	put     bytes, then version + 1 (release)
 *	remove  version + 1, generation + 1, then zeros over the bytes
 *
 * Both levels are mappings that cost nothing until they are touched; a page with a key is locked, as far as
 * RLIMIT_MEMLOCK goes: where it does not, the key is used all the same.
 */
#include "cleave/keyring.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/num.h"

#define KEYRING_MAGIC 0x474e524bu /* "KRNG" */
#define KEYRING_LOW_BITS 16u
#define KEYRING_LOW_COUNT (1u << KEYRING_LOW_BITS)
#define KEYRING_HIGH_COUNT (1u << (32u - KEYRING_LOW_BITS))
#define KEYRING_KEY_WORDS (KEYRING_KEY_BYTES / 8u)
#define KEYRING_PAGE_BYTES 4096u

/* A cache line, so that none spans two pages. */
struct keyring_entry {
	uint64_t words[KEYRING_KEY_WORDS]; /* each read and written atomically */
	uint32_t version;                  /* odd: the key is there */
	uint8_t reserved[28];
};
_Static_assert(sizeof(struct keyring_entry) == 64, "whole entries a page");

struct keyring_leaf {
	struct keyring_entry entries[KEYRING_LOW_COUNT];
};

struct keyring {
	uint32_t magic;
	uint32_t generation;
	uint32_t count;
	uint32_t high_end;            /* no leaf is at or behind it */
	struct keyring_leaf **leaves; /* KEYRING_HIGH_COUNT; each set once */
};

static void *
pages_map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct keyring *
keyring_create(void)
{
	struct keyring *ring = calloc(1, sizeof(*ring));

	if (ring == NULL)
		return NULL;
	ring->magic = KEYRING_MAGIC;
	ring->leaves = pages_map(KEYRING_HIGH_COUNT * sizeof(*ring->leaves));
	if (ring->leaves == NULL) {
		free(ring);
		errno = ENOMEM;
		return NULL;
	}
	return ring;
}

void
keyring_destroy(struct keyring *ring)
{
	if (ring == NULL)
		return;
	CHECK_OBJ(ring, KEYRING_MAGIC);
	for (uint32_t high = 0; high < ring->high_end; high++) {
		struct keyring_leaf *leaf = ring->leaves[high];

		for (uint32_t low = 0; leaf != NULL && ring->count > 0 && low < KEYRING_LOW_COUNT;
		     low++)
			keyring_remove(ring, high << KEYRING_LOW_BITS | low);
		if (leaf != NULL)
			(void)munmap(leaf, sizeof(*leaf));
	}
	assert(ring->count == 0);
	(void)munmap(ring->leaves, KEYRING_HIGH_COUNT * sizeof(*ring->leaves));
	ring->magic = 0;
	free(ring);
}

/* The place of @key_id; NULL: no key near it was ever put. */
static struct keyring_entry *
entry_of(const struct keyring *ring, uint32_t key_id)
{
	struct keyring_leaf *leaf;

	CHECK_OBJ(ring, KEYRING_MAGIC);
	leaf = __atomic_load_n(&ring->leaves[key_id >> KEYRING_LOW_BITS], __ATOMIC_ACQUIRE);
	return leaf == NULL ? NULL : &leaf->entries[key_id & (KEYRING_LOW_COUNT - 1)];
}

static struct keyring_entry *
entry_make(struct keyring *ring, uint32_t key_id)
{
	struct keyring_entry *entry = entry_of(ring, key_id);
	struct keyring_leaf *leaf;

	if (entry != NULL)
		return entry;
	leaf = pages_map(sizeof(*leaf));
	if (leaf == NULL)
		return NULL;
	(void)madvise(leaf, sizeof(*leaf), MADV_DONTDUMP); /* a kernel without it dumps keys */
	__atomic_store_n(&ring->leaves[key_id >> KEYRING_LOW_BITS], leaf, __ATOMIC_RELEASE);
	ring->high_end = (uint32_t)num_max(ring->high_end, (key_id >> KEYRING_LOW_BITS) + 1);
	return entry_of(ring, key_id);
}

static bool
is_there(uint32_t version)
{
	return version % 2 == 1;
}

int
keyring_put(struct keyring *ring, uint32_t key_id, const uint8_t key[KEYRING_KEY_BYTES])
{
	struct keyring_entry *entry;
	uint8_t *page;
	uint64_t words[KEYRING_KEY_WORDS];
	int rc = 0;

	CHECK_OBJ(ring, KEYRING_MAGIC);
	assert(key_id != 0);
	entry = entry_make(ring, key_id);
	if (entry == NULL)
		return -ENOMEM;
	if (is_there(entry->version))
		return gnutls_memcmp(entry->words, key, KEYRING_KEY_BYTES) == 0 ? 0 : -EEXIST;
	page = (uint8_t *)entry - (uintptr_t)entry % KEYRING_PAGE_BYTES;
	rc = mlock(page, KEYRING_PAGE_BYTES);
	(void)rc; /* beyond RLIMIT_MEMLOCK the key may be swapped out: better than no volume */
	memcpy(words, key, sizeof(words));
	for (uint32_t i = 0; i < KEYRING_KEY_WORDS; i++)
		__atomic_store_n(&entry->words[i], words[i], __ATOMIC_RELAXED);
	gnutls_memset(words, 0, sizeof(words));
	__atomic_store_n(&entry->version, entry->version + 1, __ATOMIC_RELEASE);
	ring->count++;
	assert(is_there(entry->version));
	return 0;
}

void
keyring_remove(struct keyring *ring, uint32_t key_id)
{
	struct keyring_entry *entry = entry_of(ring, key_id);

	if (entry == NULL || !is_there(entry->version))
		return;
	assert(ring->count > 0);
	__atomic_store_n(&entry->version, entry->version + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->generation, ring->generation + 1, __ATOMIC_RELEASE);
	/* A reader that copies zeros sees that the key has gone: it acquires, this releases. */
	for (uint32_t i = 0; i < KEYRING_KEY_WORDS; i++)
		__atomic_store_n(&entry->words[i], 0, __ATOMIC_RELEASE);
	ring->count--;
}

bool
keyring_has(const struct keyring *ring, uint32_t key_id)
{
	const struct keyring_entry *entry = entry_of(ring, key_id);

	return entry != NULL && is_there(__atomic_load_n(&entry->version, __ATOMIC_ACQUIRE));
}

int
keyring_copy(const struct keyring *ring, uint32_t key_id, uint8_t ret_key[KEYRING_KEY_BYTES])
{
	const struct keyring_entry *entry = entry_of(ring, key_id);
	uint64_t words[KEYRING_KEY_WORDS];
	uint32_t before, after;

	memset(ret_key, 0, KEYRING_KEY_BYTES);
	if (entry == NULL)
		return -ENOKEY;
	before = __atomic_load_n(&entry->version, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < KEYRING_KEY_WORDS; i++)
		words[i] = __atomic_load_n(&entry->words[i], __ATOMIC_ACQUIRE);
	after = __atomic_load_n(&entry->version, __ATOMIC_RELAXED);
	if (is_there(before) && after == before)
		memcpy(ret_key, words, sizeof(words));
	gnutls_memset(words, 0, sizeof(words));
	return is_there(before) && after == before ? 0 : -ENOKEY;
}

uint32_t
keyring_generation(const struct keyring *ring)
{
	CHECK_OBJ(ring, KEYRING_MAGIC);
	return __atomic_load_n(&ring->generation, __ATOMIC_ACQUIRE);
}

uint32_t
keyring_count(const struct keyring *ring)
{
	CHECK_OBJ(ring, KEYRING_MAGIC);
	return ring->count;
}
