/* SPDX-License-Identifier: Apache-2.0 */
/* A node that has a key: whom it lets in, as what, and what it says of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "support/key_maker.h"
#include "support/node_rig.h"

#define CLUSTER "cleave://1122334455667788/"

static struct key_authority authority;

static void
setup(void)
{
	key_authority_make(&authority, 0, 0);
}

static void
teardown(void)
{
	key_authority_fini(&authority);
}

TestSuite(node_keys, .init = setup, .fini = teardown);

/* A connection of @role whose key is of @subject: its rc, and the node's counters are as they should be. */
static int
connect_with(const char *subject, enum wire_role role)
{
	struct split_key *node_key = key_make(&authority, CLUSTER "node/7");
	struct split_key *own_key = key_make(&authority, subject);
	struct node_rig *rig = rig_create(
	    &(struct rig_options){ .node_key = node_key, .own_key = own_key });
	int rc;

	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	rc = rig_connect_as(rig,
	    &(struct wire_hello){ .role = (uint8_t)role, .cluster_id = RIG_CLUSTER_ID });
	cr_assert_eq(node_counters(rig->node)->connections_refused, rc != 0);
	cr_assert_eq(node_counters(rig->node)->connections, rc == 0);
	rig_destroy(rig);
	split_key_free(own_key);
	split_key_free(node_key);
	return rc;
}

Test(node_keys, gateways_alone_come_as_gateways_and_who_may_ask_asks)
{
	static const struct {
		const char *subject;
		int as_gateway, as_client;
	} cases[] = {
		{ CLUSTER "gateway/1", 0, 0 },
		{ CLUSTER "node/3", -EKEYREJECTED, -EKEYREJECTED },
		{ CLUSTER "client/db", -EKEYREJECTED, -EKEYREJECTED },
		{ CLUSTER "admin/ann", -EKEYREJECTED, 0 },
		{ CLUSTER "monitor/prometheus", -EKEYREJECTED, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(connect_with(cases[i].subject, WIRE_ROLE_GATEWAY), cases[i].as_gateway,
		    "%s", cases[i].subject);
		cr_assert_eq(connect_with(cases[i].subject, WIRE_ROLE_CLIENT), cases[i].as_client,
		    "%s", cases[i].subject);
	}
}

Test(node_keys, a_key_of_another_node_or_cluster_ends_a_start)
{
	static const struct {
		const char *subject, *words;
	} cases[] = {
		{ CLUSTER "node/8", "--key: sim: node/8 is not node 7" },
		{ CLUSTER "gateway/7", "--key: sim: gateway/7 is no node" },
		{ "cleave://1122334455667789/node/7", "node/7 is of cluster 1122334455667789" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct split_key *key = key_make(&authority, cases[i].subject);
		struct node_rig *rig = rig_create(
		    &(struct rig_options){ .node_key = key, .own_key = key });

		cr_assert_eq(rig_start(rig), -EKEYREJECTED);
		cr_assert(strstr(rig->ready_reason, cases[i].words) != NULL, "%s",
		    rig->ready_reason);
		rig_destroy(rig);
		split_key_free(key);
	}
}

/* Every request and answer of a node goes through it: an extent's life. */
Test(node_keys, an_extent_is_written_and_read_over_a_sealed_connection)
{
	struct split_key *node_key = key_make(&authority, CLUSTER "node/7");
	struct split_key *own_key = key_make(&authority, CLUSTER "gateway/1");
	struct node_rig *rig = rig_create(
	    &(struct rig_options){ .node_key = node_key, .own_key = own_key });
	struct rig_extent extent;

	cr_assert_eq(rig_start(rig), 0);
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(split_qp_security(rig->qp), SPLIT_SECURITY_SEAL);
	cr_assert_eq(split_subject_number(split_qp_subject(rig->qp)), RIG_NODE_ID);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(rig_append(rig, &extent, 1 + i), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
	rig_extent_fini(&extent);
	rig_destroy(rig);
	split_key_free(own_key);
	split_key_free(node_key);
}
