/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway that has a key: whom it lets in, for what, and which node it believes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "support/key_maker.h"
#include "support/sim_gateway.h"

#define CLUSTER "cleave://c1ea7e0000000001/"

static struct sg sg;
static struct key_authority authority;
static struct split_key *gateway_key;

static void
setup(void)
{
	key_authority_make(&authority, 0, 0);
	gateway_key = key_make(&authority, CLUSTER "gateway/1");
	sg_init(&sg, 3);
	sg.options.key = gateway_key;
}

static void
teardown(void)
{
	sg_fini(&sg);
	split_key_free(gateway_key);
	key_authority_fini(&authority);
}

TestSuite(session_keys, .init = setup, .fini = teardown);

/* A connection for @volume_id (0: to ask) by who has @subject, as @role: its rc, and refusals are counted. */
static int
connect_as(const char *subject, enum wire_role role, uint64_t volume_id)
{
	struct split_key *key = key_make(&authority, subject);
	const struct mt_port *port = &sg.gateway->ports[0];
	uint64_t refused = port->metrics[MT_METRIC_sessions_refused];
	const struct wire_hello hello = { .role = role,
		.cluster_id = role == WIRE_ROLE_CLIENT ? 0 : SG_CLUSTER_ID,
		.volume_id = volume_id,
		.session_id = 1,
		.attach = 1,
		.incarnation = 1 };
	struct sg_qp qp;
	int rc;

	sg_client_key(&sg, key);
	sg_connect(&sg, &qp, &hello);
	rc = sg_wait_open(&qp);
	cr_assert_eq(port->metrics[MT_METRIC_sessions_refused] - refused, rc != 0, "%s", subject);
	sg_close(&qp);
	sg_client_key(&sg, NULL);
	split_key_free(key);
	return rc;
}

static int
connect_with(const char *subject, uint64_t volume_id)
{
	return connect_as(subject, WIRE_ROLE_CLIENT, volume_id);
}

Test(session_keys, as_a_gateway_come_gateways_alone)
{
	static const char *const others[] = { CLUSTER "client/db", CLUSTER "admin/ann",
		CLUSTER "monitor/prometheus", CLUSTER "node/3" };

	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert_eq(connect_as(CLUSTER "gateway/2", WIRE_ROLE_GATEWAY, 0), 0);
	for (size_t i = 0; i < NUM_COUNT(others); i++)
		cr_assert_eq(connect_as(others[i], WIRE_ROLE_GATEWAY, 0), -EKEYREJECTED, "%s",
		    others[i]);
}

Test(session_keys, volumes_are_for_clients_and_admins_and_nodes_come_to_nobody)
{
	static const struct {
		const char *subject;
		int to_ask, to_volume; /* -ENOENT: it came in, and there is no such volume */
	} cases[] = {
		{ CLUSTER "client/db", 0, -ENOENT },
		{ CLUSTER "admin/ann", 0, -ENOENT },
		{ CLUSTER "monitor/prometheus", 0, -EKEYREJECTED },
		{ CLUSTER "gateway/2", 0, -EKEYREJECTED },
		{ CLUSTER "node/3", -EKEYREJECTED, -EKEYREJECTED },
	};

	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		cr_assert_eq(connect_with(cases[i].subject, 0), cases[i].to_ask, "%s",
		    cases[i].subject);
		cr_assert_eq(connect_with(cases[i].subject, 77), cases[i].to_volume, "%s",
		    cases[i].subject);
	}
}

/* A process that accepts as a storage node of number @node_id, whatever its key says. */
static void
false_node_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	uint8_t answer[WIRE_HELLO_BYTES];

	(void)hello;
	(void)hello_bytes;
	wire_hello_encode(answer,
	    &(struct wire_hello){ .role = WIRE_ROLE_NODE,
		.node_id = *(const uint32_t *)arg,
		.cluster_id = SG_CLUSTER_ID });
	split_qp_accept(qp, NULL, NULL, answer, sizeof(answer));
}

/* Why the gateway does not believe the first node, whose key is of @subject and which says that it is 1. */
static const char *
trouble_with(const char *subject)
{
	static uint32_t number = 1;
	struct sim_host *host = sim_host_create(sg.net, "other");
	struct loop *loop = sim_loop_create(sg.world, "other");
	struct split_key *key = key_make(&authority, subject);
	const struct split_port_options options = { .loop = loop,
		.sim_host = host,
		.key = key,
		.device_bytes = NUM_MIB(1) };
	struct split_port *port = open_roce_instance(&options);
	static char trouble[MT_TROUBLE_BYTES];

	cr_assert_not_null(port);
	cr_assert_eq(split_listen(port, "sim://other:7200", false_node_on_accept, &number, NULL),
	    0);
	(void)snprintf(sg.options.nodes[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://other:7200");
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_S(2));
	cr_assert_eq(sg.gateway->ports[0].link_count, 3);
	(void)snprintf(trouble, sizeof(trouble), "%s", sg.gateway->ports[0].links[0].trouble);
	sg_kill(&sg);
	split_port_close(port);
	loop_destroy(loop);
	split_key_free(key);
	return trouble;
}

Test(session_keys, a_node_with_the_key_of_another_node_is_not_believed)
{
	const char *text = trouble_with(CLUSTER "node/3");

	cr_assert(strstr(text, "its key is of another node") != NULL, "%s", text);
}

Test(session_keys, a_client_is_no_node)
{
	const char *text = trouble_with(CLUSTER "gateway/1");

	cr_assert(strstr(text, "gateway/1 is no node") != NULL, "%s", text);
}
