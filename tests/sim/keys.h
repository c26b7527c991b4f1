/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h -- the keys of a simulated cluster: an authority, and another one of a cluster of the same id
 *
 * A seed in thirty-two has them (run.h), by a hash of the seed: then each process of it has its own, and connections are real
 * ones: TLS's handshake and sealed frames. What they say is random; how long each message is, is not (Ed25519, X25519), and
 * the traces of two runs are the same. All keys are made in memory, when one is first asked for.
 */
#ifndef CLEAVE_TESTS_SIM_KEYS_H
#define CLEAVE_TESTS_SIM_KEYS_H

#include <stdint.h>

#define SIM_CLUSTER_ID 0x51u
#define SIM_KEY_OPERATOR "admin/sim" /* of all clients that are no enemies */

struct sim_keys;
struct split_key;

struct sim_keys *sim_keys_create(void);
/* sim_keys_destroy -- no port may have one of them. NULL is a no-op. */
void sim_keys_destroy(struct sim_keys *keys);
/* sim_keys_of -- the key of "gateway/1"; NULL where @keys is. Borrowed. */
const struct split_key *sim_keys_of(struct sim_keys *keys, const char *subject);
/* sim_keys_of_number -- of @role "gateway" or "node". */
const struct split_key *sim_keys_of_number(struct sim_keys *keys, const char *role,
    uint64_t number);
/* sim_keys_alien -- of the other authority. */
const struct split_key *sim_keys_alien(struct sim_keys *keys, const char *subject);
/* sim_keys_path -- a file with the key of @subject, for cleave_client_options; NULL where @keys is. */
const char *sim_keys_path(struct sim_keys *keys, const char *subject);

#endif /* CLEAVE_TESTS_SIM_KEYS_H */
