/* SPDX-License-Identifier: Apache-2.0 */
/* remember.h -- the ports of the last session's map, kept in a file */
#ifndef CLEAVE_VM_CLIENT_REMEMBER_H
#define CLEAVE_VM_CLIENT_REMEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"

/* Few: all else has failed when these are tried, and each takes a while where a host is gone. */
#define REMEMBER_PORTS_MAX 8u

struct cleave_client;
struct errand_desk;

struct remember {
	bool is_on;
	uint64_t cluster_id;                                     /* whose ports these are */
	char ports[REMEMBER_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX]; /* besides those configured */
	uint32_t port_count;
	struct errand_desk *desk; /* NULL until something is written */
	bool is_writing;
	bool is_stale; /* text is newer than what is being written */
	char *text;    /* of the last map */
};

/* remember_init -- client->gateways are known: what was remembered of them, if anything. Reads a file. */
void remember_init(struct cleave_client *client);
void remember_fini(struct cleave_client *client);
/* remember_on_map -- client->map is new, from a gateway of @cluster_id (0: it does not say): keep it. */
void remember_on_map(struct cleave_client *client, uint64_t cluster_id);

#endif /* CLEAVE_VM_CLIENT_REMEMBER_H */
