/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_node_set.c -- what an operator says of a node: changed or not, and whether the node answers there */
#include "unit/node_control_rig.h"

TestSuite(control_node_set, .init = node_setup, .fini = node_teardown);

static uint64_t
version_of(uint32_t id)
{
	return mt_nodes_by_id(peers[0].gateway, id)->node.version;
}

/* A set of node 1: is anything other than before? */
static bool
set_changes(const char *members)
{
	json_t *answer = control_want(&qp, 0, "{\"op\":\"node.set\",\"node\":1,%s}", members);
	const json_t *changed = json_object_get(answer, "changed");
	bool is_changed = json_is_true(changed);

	cr_assert(json_is_boolean(changed));
	json_decref(answer);
	return is_changed;
}

Test(control_node_set, a_set_that_changes_nothing_says_so_and_writes_nothing)
{
	uint64_t version;

	cr_assert(set_changes("\"domain\":\"a\",\"weight\":50,\"note\":\"n\""));
	version = version_of(1);
	cr_assert_not(set_changes("\"domain\":\"a\""));
	cr_assert_not(set_changes("\"domain\":\"a\",\"weight\":50,\"note\":\"n\""));
	cr_assert_not(set_changes("\"address\":\"sim://node1:1\",\"maintenance_s\":0"));
	cr_assert_eq(version_of(1), version);
	cr_assert(set_changes("\"note\":\"\""));
	cr_assert_neq(version_of(1), version);
}

#define SET_1_TO(address) "{\"op\":\"node.set\",\"node\":1,\"address\":\"" address "\"}"

Test(control_node_set, an_address_is_set_where_the_node_answers)
{
	expect_refused(SET_1_TO("sim://nobody:1"), -ENOENT, "is not where node 1 is");
	expect_refused(SET_1_TO("sim://peer1:7100"), -ENOENT, "is not where node 1 is");
	expect_refused(SET_1_TO("sim://node4:1"), -EEXIST, "answers as node 4");
	expect_ok("{\"op\":\"node.set\",\"node\":1,\"address\":\"sim://nobody:1\",\"force\":true}",
	    "in");
	cr_assert_str_eq(mt_nodes_by_id(peers[0].gateway, 1)->node.address, "sim://nobody:1");
	/* Back again: there it answers. */
	expect_ok(SET_1_TO("sim://node1:1"), "in");
	cr_assert_str_eq(mt_nodes_by_id(peers[0].gateway, 1)->node.address, "sim://node1:1");
	expect_refused(
	    "{\"op\":\"node.set\",\"node\":1,\"address\":\"sim://node2:1\",\"force\":true}",
	    -EEXIST, "is the address of node 2");
}

/* Three members, each a domain of its own. */
Test(control_node_set, a_domain_that_others_have_is_insisted_on)
{
	expect_ok("{\"op\":\"node.set\",\"node\":1,\"domain\":\"a\"}", "in");
	expect_refused("{\"op\":\"node.set\",\"node\":2,\"domain\":\"a\"}", -ENOTEMPTY,
	    "it would leave 2 failure domains for 3 copies, now it is 3: ");
	expect_ok("{\"op\":\"node.set\",\"node\":2,\"domain\":\"a\",\"force\":true}", "in");
	/* Two are left. One more that stays as it is, and a note, take nothing away. */
	expect_ok("{\"op\":\"node.set\",\"node\":2,\"note\":\"n\"}", "in");
	expect_ok("{\"op\":\"node.set\",\"node\":3,\"domain\":\"c\"}", "in");
	expect_refused("{\"op\":\"node.set\",\"node\":3,\"domain\":\"a\"}", -ENOTEMPTY,
	    "fewer than --min-replicas, so writes would wait");
	expect_ok("{\"op\":\"node.set\",\"node\":2,\"domain\":\"b\"}", "in");
}
