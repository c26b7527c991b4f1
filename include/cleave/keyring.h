/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyring.h -- a port's data keys, by key_id: what its engines encrypt and open records with
 *
 * One thread writes it, the port's; engine workers read it without a lock. A key that is removed is wiped, and
 * generation rises: nobody uses what they derived from keys before. Memory of keys is locked where the system allows
 * that, and is in no core dump.
 */
#ifndef CLEAVE_KEYRING_H
#define CLEAVE_KEYRING_H

#include <stdbool.h>
#include <stdint.h>

#define KEYRING_KEY_BYTES 32u /* AES-256 */

struct keyring;

/* keyring_create -- a keyring without keys. Returns it; NULL with errno ENOMEM. */
struct keyring *keyring_create(void);
/* keyring_destroy -- wipes all keys; nobody reads it any more. NULL is a no-op. */
void keyring_destroy(struct keyring *ring);
/*
 * keyring_put -- @key is the data key @key_id
 *
 * @key_id is not 0. Returns 0, also where that very key is there already; -EEXIST: another one is there; -ENOMEM:
 * nothing has changed. Threads: the writer's.
 */
int keyring_put(struct keyring *ring, uint32_t key_id, const uint8_t key[KEYRING_KEY_BYTES]);
/* keyring_remove -- the key goes, and is wiped; one that is not there is a no-op. Threads: the writer's. */
void keyring_remove(struct keyring *ring, uint32_t key_id);
/* keyring_has -- is the key there? Threads: any. */
bool keyring_has(const struct keyring *ring, uint32_t key_id);
/* keyring_copy -- the key. Returns 0; -ENOKEY: it is not there, and @ret_key is all zeros. Threads: any. */
int keyring_copy(const struct keyring *ring, uint32_t key_id, uint8_t ret_key[KEYRING_KEY_BYTES]);
/* keyring_generation -- how many keys were removed; asked before keyring_copy, it says whether a copy is still good. */
uint32_t keyring_generation(const struct keyring *ring);
/* keyring_count -- how many keys are there. Threads: the writer's. */
uint32_t keyring_count(const struct keyring *ring);

#endif /* CLEAVE_KEYRING_H */
