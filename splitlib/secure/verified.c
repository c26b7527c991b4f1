/* SPDX-License-Identifier: Apache-2.0 */
/* verified.c -- see verified.h: a table in which each fingerprint has one place, by its first bytes */
#include "verified.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/num.h"

#define VERIFIED_MAGIC 0x46524556u /* "VERF" */

_Static_assert((VERIFIED_MAX & (VERIFIED_MAX - 1)) == 0, "a mask chooses the place");

struct place {
	uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES];
	uint8_t authority_after; /* one more than the authority; 0: empty */
};

struct verified {
	uint32_t magic;
	pthread_mutex_t lock; /* a key is shared by all ports of a process; held for a copy */
	struct place places[VERIFIED_MAX];
};

struct verified *
verified_create(void)
{
	struct verified *verified = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*verified));

	if (verified == NULL)
		return NULL;
	verified->magic = VERIFIED_MAGIC;
	(void)pthread_mutex_init(&verified->lock, NULL); /* of the default kind: cannot fail */
	return verified;
}

void
verified_free(struct verified *verified)
{
	if (verified == NULL)
		return;
	CHECK_OBJ(verified, VERIFIED_MAGIC);
	(void)pthread_mutex_destroy(&verified->lock);
	verified->magic = 0;
	alloc_free(ALLOC_SPLIT, verified);
}

static struct place *
verified_place(struct verified *verified, const uint8_t *fingerprint)
{
	return &verified->places[num_get_le32(fingerprint) & (VERIFIED_MAX - 1)];
}

uint32_t
verified_find(struct verified *verified, const uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES])
{
	uint32_t authority = VERIFIED_NONE;
	const struct place *place;

	CHECK_OBJ(verified, VERIFIED_MAGIC);
	place = verified_place(verified, fingerprint);
	(void)pthread_mutex_lock(&verified->lock); /* of the default kind: cannot fail */
	if (place->authority_after != 0 &&
	    memcmp(place->fingerprint, fingerprint, VERIFIED_FINGERPRINT_BYTES) == 0)
		authority = place->authority_after - 1u;
	(void)pthread_mutex_unlock(&verified->lock);
	return authority;
}

void
verified_add(struct verified *verified, const uint8_t fingerprint[VERIFIED_FINGERPRINT_BYTES],
    uint32_t authority)
{
	struct place *place;

	CHECK_OBJ(verified, VERIFIED_MAGIC);
	assert(authority < UINT8_MAX);
	place = verified_place(verified, fingerprint);
	(void)pthread_mutex_lock(&verified->lock);
	memcpy(place->fingerprint, fingerprint, VERIFIED_FINGERPRINT_BYTES);
	place->authority_after = (uint8_t)(authority + 1);
	(void)pthread_mutex_unlock(&verified->lock);
}
