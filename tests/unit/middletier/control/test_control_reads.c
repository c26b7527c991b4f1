/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_reads.c -- volumes that may be read past their gateway: no user makes one; their clients' LEASE */
#include <errno.h>

#include "middletier/catalog/volume_table.h"
#include "middletier/common/port.h"
#include "unit/control_rig.h"

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS);
}

static void
setup_before(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS - 1);
}

TestSuite(reads, .init = setup, .fini = rig_teardown);

static const char request[] = "{'op':'volume.create','name':'v','size_bytes':8192,'reads':'%s'}";

Test(reads, users_are_offered_no_choice)
{
	refused(ask(-EINVAL, request, "direct"), "offers no choice");
	refused(ask(-EINVAL, request, "gateway"), "offers no choice");
}

Test(reads, a_gateway_of_tests_makes_such_volumes)
{
	sg.gateway->options.offers_reads = true;
	refused(ask(-EINVAL, request, "somehow"), "must be gateway, hot or direct");
	done(ask(0, request, "hot"));
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.reads, MT_READS_HOT);
}

Test(reads, a_cluster_of_a_level_before_has_none, .init = setup_before)
{
	sg.gateway->options.offers_reads = true;
	refused(ask(-ENOTSUP, request, "direct"), "has no read leases");
	done(ask(0, request, "gateway"));
}

/* The address of the one node of volume 1's. */
static void
expect_node_at(const char *address)
{
	json_t *answer = ask(0, "{'op':'volume.nodes','id':1}");
	const json_t *nodes = json_object_get(answer, "nodes");

	cr_assert_eq(json_array_size(nodes), 1u);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(nodes, 0), "address")),
	    address);
	json_decref(answer);
}

/* A node may be behind a router, or on a network of its own. */
Test(reads, clients_are_told_the_address_that_a_node_advertises)
{
	struct mt_link *link = &sg.gateway->ports[0].links[0];

	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	link->is_direct = true;
	link->node_id = 7;
	expect_node_at(link->config.address);
	(void)snprintf(link->advertise, sizeof(link->advertise), "tcp://node7.example:7201");
	expect_node_at("tcp://node7.example:7201");
}

/* Nodes that take no clients are nobody's business. */
Test(reads, who_opens_a_volume_is_told_of_nodes_that_take_clients)
{
	struct mt_link *link = &sg.gateway->ports[0].links[0];
	json_t *answer;

	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	answer = ask(0, "{'op':'volume.nodes','id':1}");
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 0u);
	json_decref(answer);
	link->is_direct = true;
	link->node_id = 7;
	answer = ask(0, "{'op':'volume.nodes','id':1}");
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 1u);
	cr_assert_eq(json_integer_value(
			 json_object_get(json_array_get(json_object_get(answer, "nodes"), 0),
			     "id")),
	    7);
	json_decref(answer);
	refused(ask(-ENOENT, "{'op':'volume.nodes','id':99}"), "there is no volume 99");
}

static struct wire_header
lease_request(bool is_return)
{
	struct wire_header header;

	wire_lease_encode(&header, &(struct wire_lease){ .is_return = is_return });
	return header;
}

/* On a connection without a volume. */
Test(reads, who_has_nothing_is_told_so)
{
	struct wire_hello hello = { .level = CLEAVE_LEVEL_READS, .role = WIRE_ROLE_CLIENT };
	struct sg_qp other;

	sg_connect(&sg, &other, &hello);
	cr_assert_eq(sg_wait_open(&other), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_header header = lease_request(i == 1);
		struct wire_lease answer;
		const char *field;

		sg_send(&other, &header, NULL, 0);
		cr_assert(sg_wait_replies(&other, i + 1));
		cr_assert_eq(wire_lease_decode(&other.replies[i].header, &answer, &field), 0, "%s",
		    field);
		cr_assert(answer.is_reply);
		cr_assert_eq(answer.is_return, i == 1);
		cr_assert_eq(answer.payload_bytes, WIRE_LEASE_HEAD_BYTES);
	}
	sg_close(&other);
}

Test(reads, a_connection_of_a_level_before_knows_no_lease)
{
	struct wire_hello hello = { .level = 1, .role = WIRE_ROLE_CLIENT };
	struct wire_header header = lease_request(false);
	struct sg_qp other;

	sg_connect(&sg, &other, &hello);
	cr_assert_eq(sg_wait_open(&other), 0);
	sg_send(&other, &header, NULL, 0);
	cr_assert(sg_wait_closed(&other));
}
