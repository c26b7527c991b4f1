/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c -- who is connected: clients, and gateways by their metadata store
 *
 * The rights of a queue pair are in its argument, which is one of these. There are as many as stores may have
 * connections at a time; one without connections is given to the next store.
 */
#include "peer.h"

#include "base/check.h"
#include "fence.h"
#include "node_state.h"

void
sn_peers_init(struct node *node)
{
	assert(node->peers.client.node == NULL);
	node->peers.client = (struct sn_peer){ .node = node };
}

struct sn_peer *
sn_peer_of_client(struct node *node)
{
	assert(node->peers.client.node == node);
	return &node->peers.client;
}

struct sn_peer *
sn_peer_of_store(struct node *node, const struct store_id *store)
{
	struct sn_peer *unused = NULL;

	for (uint32_t i = 0; i < SN_PEERS_MAX; i++) {
		struct sn_peer *peer = &node->peers.gateways[i];

		assert(peer->connection_count == 0 || peer->is_gateway);
		if (peer->connection_count == 0)
			unused = peer;
		else if (store_id_is_equal(&peer->store, store))
			return peer;
	}
	if (unused != NULL)
		*unused = (struct sn_peer){ .node = node, .is_gateway = true, .store = *store };
	return unused;
}

void
sn_peer_join(struct sn_peer *peer)
{
	CHECK_OBJ(peer->node, SN_NODE_MAGIC);
	peer->connection_count++;
}

void
sn_peer_leave(struct sn_peer *peer)
{
	CHECK_OBJ(peer->node, SN_NODE_MAGIC);
	assert(peer->connection_count > 0);
	peer->connection_count--;
}

uint32_t
sn_peer_gateways(const struct node *node, const char **ret_peer)
{
	struct store_id ours = sn_fence_store_id(node);

	assert(ret_peer != NULL);
	*ret_peer = NULL;
	if (store_id_is_zero(&ours)) /* so says a creation or a recovery, too */
		return 0;
	for (uint32_t i = 0; i < SN_PEERS_MAX; i++) {
		const struct sn_peer *peer = &node->peers.gateways[i];
		const struct split_qp *qp;

		if (peer->connection_count == 0 || !store_id_is_equal(&peer->store, &ours))
			continue;
		qp = split_port_qp_of(node->port, peer); /* those that are closing count no more */
		if (qp == NULL)
			continue;
		*ret_peer = split_qp_peer(qp);
		return peer->connection_count;
	}
	return 0;
}
