/* SPDX-License-Identifier: Apache-2.0 */
/* test_keyring.c -- keys come and go, far apart and while others read */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cleave/keyring.h"

static void
key_make(uint8_t key[KEYRING_KEY_BYTES], uint32_t id)
{
	for (uint32_t i = 0; i < KEYRING_KEY_BYTES; i++)
		key[i] = (uint8_t)(id * 29 + i * 7 + 1);
}

static void
expect(const struct keyring *ring, uint32_t id, int rc)
{
	static const uint8_t nothing[KEYRING_KEY_BYTES];
	uint8_t key[KEYRING_KEY_BYTES], copy[KEYRING_KEY_BYTES];

	key_make(key, id);
	memset(copy, 0xee, sizeof(copy));
	cr_assert_eq(keyring_copy(ring, id, copy), rc);
	cr_assert_arr_eq(copy, rc == 0 ? key : nothing, sizeof(key));
	cr_assert_eq(keyring_has(ring, id), rc == 0);
}

Test(keyring, keys_come_and_go)
{
	static const uint32_t ids[] = { 1, 2, 63, 64, 65535, 65536, 1u << 31, UINT32_MAX };
	struct keyring *ring = keyring_create();
	uint8_t key[KEYRING_KEY_BYTES];

	cr_assert_not_null(ring);
	for (uint32_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		expect(ring, ids[i], -ENOKEY);
		key_make(key, ids[i]);
		cr_assert_eq(keyring_put(ring, ids[i], key), 0);
		cr_assert_eq(keyring_put(ring, ids[i], key), 0, "once more is the same");
		key[5] ^= 1;
		cr_assert_eq(keyring_put(ring, ids[i], key), -EEXIST);
		cr_assert_eq(keyring_count(ring), i + 1);
	}
	for (uint32_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		expect(ring, ids[i], 0);
	cr_assert_eq(keyring_generation(ring), 0);
	keyring_remove(ring, 64);
	keyring_remove(ring, 64);
	keyring_remove(ring, 66); /* never was there */
	keyring_remove(ring, 5u << 20);
	expect(ring, 64, -ENOKEY);
	expect(ring, 63, 0);
	cr_assert_eq(keyring_generation(ring), 1);
	cr_assert_eq(keyring_count(ring), 7);
	key_make(key, 64);
	cr_assert_eq(keyring_put(ring, 64, key), 0);
	expect(ring, 64, 0);
	keyring_destroy(ring);
	keyring_destroy(NULL);
}

/* A reader finds a key whole, or not at all, while another thread puts and removes it. */
struct race {
	struct keyring *ring;
	atomic_bool is_over;
	atomic_uint found, torn;
};

static void *
race_read(void *arg)
{
	struct race *race = arg;
	uint8_t key[KEYRING_KEY_BYTES], copy[KEYRING_KEY_BYTES];

	key_make(key, 9);
	while (!race->is_over) {
		if (keyring_copy(race->ring, 9, copy) != 0)
			continue;
		race->found++;
		race->torn += memcmp(key, copy, sizeof(key)) != 0;
	}
	return NULL;
}

Test(keyring, is_read_while_it_is_written)
{
	struct race race = { .ring = keyring_create() };
	uint8_t key[KEYRING_KEY_BYTES];
	pthread_t thread;

	key_make(key, 9);
	cr_assert_eq(pthread_create(&thread, NULL, race_read, &race), 0);
	while (race.found < 1000) {
		cr_assert_eq(keyring_put(race.ring, 9, key), 0);
		for (uint32_t i = 0; i < 100; i++)
			(void)keyring_has(race.ring, 9);
		keyring_remove(race.ring, 9);
	}
	race.is_over = true;
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(race.torn, 0);
	keyring_destroy(race.ring);
}
