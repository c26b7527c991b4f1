/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h -- who is refused is told of in the log once */
#ifndef CLEAVE_STORAGE_REFUSAL_H
#define CLEAVE_STORAGE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

struct node;

#define SN_REFUSALS_MAX 16u /* that are remembered; the oldest is forgotten */

struct sn_refusal {
	uint32_t key;      /* of host, reason and whose it is */
	uint64_t again_ns; /* when the same is news again; 0: never used */
};

/*
 * sn_refusal_is_news -- may the log say that @peer was refused for @rc?
 *
 * @peer: HOST:PORT. @rc: a negative errno. @whose: the cluster or store that it named; 0: neither. True once for
 * each of them in ten minutes, whatever its port.
 */
bool sn_refusal_is_news(struct node *node, const char *peer, int rc, uint64_t whose);

#endif /* CLEAVE_STORAGE_REFUSAL_H */
