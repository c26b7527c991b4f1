/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_node_join.c -- numbers of nodes are given once, whoever is asked; a disk is found by number and by uuid */
#include "middletier/cluster/node_table.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define RESERVE "{\"op\":\"node.reserve\"}"
#define NODES 3u
#define ASKED 6u /* at each gateway at one moment */

static struct sg sg; /* the client's half of it */
static struct sg_qp qps[2];

static void
client_open(void)
{
	setup();
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t i = 0; i < 2; i++) {
		(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX,
		    "sim://peer%u:7100", i);
		sg_connect(&sg, &qps[i], NULL);
		cr_assert_eq(sg_wait_open(&qps[i]), 0);
	}
}

static void
client_close(void)
{
	for (uint32_t i = 0; i < 2; i++)
		sg_close(&qps[i]);
	sg_client_close(&sg);
	teardown();
}

TestSuite(node_join, .init = client_open, .fini = client_close);

#define ask(index, text, want_rc) control_want(&qps[index], (want_rc), "%s", (text))

static bool
are_members(void *arg)
{
	(void)arg;
	return mt_nodes_are_members(peers[0].gateway) && mt_nodes_are_members(peers[1].gateway) &&
	    peers[0].gateway->nodes->count == NODES && peers[1].gateway->nodes->count == NODES;
}

static void
upgrade(void)
{
	json_decref(ask(0, "{\"op\":\"cluster.upgrade\"}", 0));
	cr_assert(mt_rig_run_until(rig, are_members, NULL));
}

Test(node_join, is_refused_while_the_store_names_no_nodes)
{
	static const char *const requests[] = { RESERVE, "{\"op\":\"node.find\",\"node\":1}" };

	for (size_t i = 0; i < NUM_COUNT(requests); i++) {
		refused(ask(0, requests[i], -ENOTSUP), "run cleave cluster upgrade");
	}
}

Test(node_join, two_gateways_that_are_asked_at_once_give_no_number_twice)
{
	struct wire_header header = { .opcode = WIRE_CONTROL };
	uint32_t first[2];
	uint64_t given = 0;
	struct mt_cluster cluster;

	upgrade();
	for (uint32_t k = 0; k < 2; k++)
		first[k] = qps[k].reply_count;
	for (uint32_t i = 0; i < ASKED; i++) {
		header.request_id = 100 + i;
		for (uint32_t k = 0; k < 2; k++)
			sg_send(&qps[k], &header, RESERVE, (uint32_t)strlen(RESERVE));
	}
	for (uint32_t k = 0; k < 2; k++)
		cr_assert(sg_wait_replies(&qps[k], first[k] + ASKED));
	for (uint32_t i = 0; i < 2 * ASKED; i++) {
		const struct sg_reply *reply = &qps[i % 2].replies[first[i % 2] + i / 2];
		json_t *answer = json_loads(reply->text, 0, NULL);
		json_int_t id = json_integer_value(json_object_get(answer, "node"));

		cr_assert_eq(reply->header.status, 0, "%s", reply->text);
		cr_assert(id > NODES && id < 64);
		cr_assert_eq(given & (UINT64_C(1) << id), 0, "%d twice", (int)id);
		given |= UINT64_C(1) << id;
		json_decref(answer);
	}
	made_cluster_read(rig->store, &cluster);
	cr_assert_eq(cluster.next_node, NODES + 2 * ASKED + 1);
}

Test(node_join, a_disk_is_found_by_its_number_and_by_its_uuid)
{
	char text[160];
	json_t *answer, *nodes, *node;

	upgrade();
	answer = ask(1, "{\"op\":\"node.find\",\"node\":2}", 0);
	nodes = json_object_get(answer, "nodes");
	cr_assert_eq(json_array_size(nodes), 1);
	node = json_array_get(nodes, 0);
	cr_assert_eq(json_integer_value(json_object_get(node, "id")), 2);
	cr_assert_str_eq(json_string_value(json_object_get(node, "member")), "in");
	(void)snprintf(text, sizeof(text), "{\"op\":\"node.find\",\"node\":1,\"disk\":\"%s\"}",
	    json_string_value(json_object_get(node, "disk")));
	json_decref(answer);
	answer = ask(1, text, 0);
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 2,
	    "its number, or its disk");
	json_decref(answer);
	answer = ask(1, "{\"op\":\"node.find\",\"node\":9,\"disk\":\"\"}", 0);
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 0);
	cr_assert_eq(strlen(json_string_value(json_object_get(answer, "cluster_id"))), 16);
	json_decref(answer);
	json_decref(ask(1, "{\"op\":\"node.find\",\"node\":-1}", -EINVAL));
	json_decref(ask(1, "{\"op\":\"node.reserve\",\"count\":2}", -EINVAL));
}
