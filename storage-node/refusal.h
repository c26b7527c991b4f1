/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h -- a refused connection is told of in the log once, not each time that it comes again */
#ifndef CLEAVE_STORAGE_REFUSAL_H
#define CLEAVE_STORAGE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

struct node;

#define SN_REFUSALS_MAX 16u /* refusals that are remembered; the oldest is forgotten */

struct sn_refusal {
	uint32_t key;      /* CRC of host, errno, and the cluster or store that it named */
	uint64_t again_ns; /* loop_now_ns at which the same is news again; 0: never used */
};

/*
 * sn_refusal_is_news -- may the log say that @peer was refused for @rc?
 *
 * @peer: HOST:PORT. @rc: a negative errno. @whose: the id of the cluster or store that it named; 0: neither. True
 * once in ten minutes for each host, @rc and @whose, whatever the port.
 */
bool sn_refusal_is_news(struct node *node, const char *peer, int rc, uint64_t whose);

#endif /* CLEAVE_STORAGE_REFUSAL_H */
