/* SPDX-License-Identifier: Apache-2.0 */
/* imposter.c -- see imposter.h */
#include "imposter.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "enemy_inside.h"

enum imposter_kind {
	IMPOSTER_PLAIN,   /* no key */
	IMPOSTER_GATEWAY, /* a gateway's */
	IMPOSTER_NODE,    /* another node's */
	IMPOSTER_ALIEN,   /* of another authority */
	IMPOSTER_KIND_NR
};

static const char *const kind_texts[IMPOSTER_KIND_NR] = { "no key", "a gateway's key",
	"another node's key", "a key of another authority" };

struct sim_imposter {
	struct sim_cluster *cluster;
	uint32_t index; /* of the node; SIM_NODES_MAX: it is not there */
	enum imposter_kind kind;
	struct loop *loop;
	struct split_port *port;
	uint64_t count;
};

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	const struct sim_imposter *imposter = arg;

	(void)qp;
	(void)msgs;
	(void)count;
	sim_cluster_fail(imposter->cluster,
	    "enemy: who has %s was asked for something in the place of node %u",
	    kind_texts[imposter->kind], imposter->index + 1);
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
}

static const struct split_qp_ops imposter_ops = { .on_messages = on_messages,
	.on_closed = on_closed };

static void
on_accept(struct split_qp *qp, const void *hello_in, uint32_t hello_bytes, void *arg)
{
	struct sim_imposter *imposter = arg;
	struct wire_hello hello;
	uint8_t answer[WIRE_HELLO_BYTES];
	const char *field;

	if (imposter->kind != IMPOSTER_NODE)
		sim_cluster_fail(imposter->cluster,
		    "enemy: who has %s was believed in the place of node %u",
		    kind_texts[imposter->kind], imposter->index + 1);
	if (wire_hello_decode(hello_in, hello_bytes, &hello, &field) != 0) {
		split_qp_reject(qp, -1);
		return;
	}
	/* Only now its number is compared with what it says that it is. */
	wire_hello_encode(answer,
	    &(struct wire_hello){ .level = hello.level,
		.role = WIRE_ROLE_NODE,
		.node_id = imposter->index + 1,
		.cluster_id = SIM_CLUSTER_ID,
		.session_id = hello.session_id,
		.attach = hello.attach });
	split_qp_accept(qp, &imposter_ops, imposter, answer, sizeof(answer));
}

static const struct split_key *
imposter_key(const struct sim_imposter *imposter)
{
	struct sim_keys *keys = imposter->cluster->keys;
	uint32_t other = imposter->index == 0 ? 2 : 1;
	char subject[32];

	switch (imposter->kind) {
	case IMPOSTER_GATEWAY:
		return sim_keys_of(keys, ENEMY_ROGUE);
	case IMPOSTER_NODE:
		return sim_keys_of_number(keys, "node", other);
	case IMPOSTER_ALIEN:
		(void)snprintf(subject, sizeof(subject), "node/%u", imposter->index + 1);
		return sim_keys_alien(keys, subject);
	default:
		return NULL;
	}
}

static uint32_t
place_find(const struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		const struct sim_cluster_node *own = &cluster->nodes[i];

		if (own->node == NULL && !own->is_away && !sim_host_is_up(own->host))
			return i;
	}
	return SIM_NODES_MAX;
}

void
sim_imposter_come(struct sim_imposter *imposter, uint32_t dice)
{
	struct sim_cluster *cluster = imposter->cluster;
	uint32_t index = place_find(cluster);
	int rc;

	if (imposter->index != SIM_NODES_MAX || index == SIM_NODES_MAX)
		return;
	imposter->index = index;
	imposter->kind = (enum imposter_kind)(dice % IMPOSTER_KIND_NR);
	imposter->count++;
	sim_world_trace(cluster->world, "imposter with %s in the place of node %u",
	    kind_texts[imposter->kind], index + 1);
	sim_host_start(cluster->nodes[index].host);
	imposter->loop = sim_cluster_loop_create(cluster, cluster->nodes[index].host);
	imposter->port = open_roce_instance(&(struct split_port_options){ .loop = imposter->loop,
	    .sim_host = cluster->nodes[index].host,
	    .key = imposter_key(imposter),
	    .host_bytes = NUM_KIB(256),
	    .device_bytes = NUM_MIB(1),
	    .receive_count = 8,
	    .receive_payload_bytes = NUM_KIB(64),
	    .keepalive_ns = NUM_S(5) });
	assert(imposter->port != NULL);
	rc = split_listen(imposter->port, cluster->nodes[index].address, on_accept, imposter, NULL);
	assert(rc == 0);
	(void)rc;
}

void
sim_imposter_leave(struct sim_imposter *imposter, uint32_t index)
{
	struct sim_host *host;

	if (imposter->index == SIM_NODES_MAX ||
	    (index != SIM_NODES_MAX && index != imposter->index))
		return;
	host = imposter->cluster->nodes[imposter->index].host;
	sim_world_trace(imposter->cluster->world, "imposter leaves node %u", imposter->index + 1);
	sim_host_kill(host, SIM_DEATH_RESET);
	loop_destroy(imposter->loop);
	imposter->index = SIM_NODES_MAX;
}

struct sim_imposter *
sim_imposter_create(struct sim_cluster *cluster)
{
	struct sim_imposter *imposter = calloc(1, sizeof(*imposter));

	assert(imposter != NULL);
	imposter->cluster = cluster;
	imposter->index = SIM_NODES_MAX;
	return imposter;
}

void
sim_imposter_destroy(struct sim_imposter *imposter)
{
	if (imposter == NULL)
		return;
	sim_imposter_leave(imposter, SIM_NODES_MAX);
	free(imposter);
}

uint64_t
sim_imposter_count(const struct sim_imposter *imposter)
{
	return imposter->count;
}
