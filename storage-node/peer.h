/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h -- connections and their rights: who asks for the status, readers, and gateways by their metadata store */
#ifndef CLEAVE_STORAGE_PEER_H
#define CLEAVE_STORAGE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

struct node;
struct split_qp;

/* Metadata stores whose gateways are connected at a time: the one that is obeyed, none, and those of before. */
#define SN_PEERS_MAX 16u

/* The argument of a queue pair: its rights. All that ask for the status share one, and all gateways of a store. */
struct sn_peer {
	struct node *node;
	bool is_gateway;
	bool is_reader;        /* its own alone: reader.h */
	struct store_id store; /* of a gateway; zero: it has none */
	uint32_t connection_count;
};

struct sn_peers {
	struct sn_peer client;
	struct sn_peer gateways[SN_PEERS_MAX];
};

/* sn_peers_init -- once, before the node listens. */
void sn_peers_init(struct node *node);
/* sn_peer_of_client -- the peer of every client: it may ask for the status alone. */
struct sn_peer *sn_peer_of_client(struct node *node);
/*
 * sn_peer_of_store -- the peer of gateways of @store (zero: they have none)
 *
 * Connections from before a change of the store keep theirs. NULL: SN_PEERS_MAX other stores have connections.
 */
struct sn_peer *sn_peer_of_store(struct node *node, const struct store_id *store);
/* sn_peer_join, sn_peer_leave -- a connection with @peer's rights was accepted, or is gone. */
void sn_peer_join(struct sn_peer *peer);
void sn_peer_leave(struct sn_peer *peer);
/*
 * sn_peer_gateways -- how many connections gateways of the store that is obeyed have here now
 *
 * *@ret_peer: the address of the oldest, valid as long as that is open; NULL: there is none. A connection counts
 * from its hello on, which said the store_id: an idle gateway that has connected again asks for nothing more.
 */
uint32_t sn_peer_gateways(const struct node *node, const char **ret_peer);

#endif /* CLEAVE_STORAGE_PEER_H */
