/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encrypted.h -- a cluster whose volumes are encrypted, and what its disks tell without the keys
 *
 * Each volume's data key is made from its id. Ports get all keys seconds after they began, or with the first message of
 * a session: until then merges and replays find none. The checker reads records as they lie on the disks and opens
 * them by itself, with a library of others, at the place that the descriptor says. It is a violation when
 *
 *	a record of a write is not encrypted, or its descriptor has CRCs
 *	it does not open where it lies
 *	two different records were encrypted with one key, salt and counter, however long ago the first was seen
 *	a block's first bytes, as it was written, are anywhere in a copy
 *
 * It has a generator of its own: seeds without it decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_ENCRYPTED_H
#define CLEAVE_TESTS_SIM_ENCRYPTED_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_cluster_gateway;
struct sim_encrypted;

/* sim_encrypted_is_in -- are the volumes of this seed encrypted, where all its processes are of one release? */
bool sim_encrypted_is_in(uint64_t seed);
/* sim_encrypted_create -- before anything of the cluster runs: from now on its volumes are encrypted. */
struct sim_encrypted *sim_encrypted_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_encrypted_on_gateway -- a gateway was started: its ports are there, and have no session yet. NULL: nothing is encrypted. */
void sim_encrypted_on_gateway(struct sim_encrypted *encrypted, struct sim_cluster_gateway *own);
/* sim_encrypted_check -- all disks, as they are now; seldom enough: it reads all that is stored. NULL: nothing. */
void sim_encrypted_check(struct sim_encrypted *encrypted);
/* sim_encrypted_finish -- a last look: there was something to see. NULL: nothing. */
void sim_encrypted_finish(struct sim_encrypted *encrypted);
/* sim_encrypted_destroy -- when the cluster is gone. NULL is none. */
void sim_encrypted_destroy(struct sim_encrypted *encrypted);

#endif /* CLEAVE_TESTS_SIM_ENCRYPTED_H */
