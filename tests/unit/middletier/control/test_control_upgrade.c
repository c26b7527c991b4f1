/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_upgrade.c -- the cluster's level is raised when everybody speaks the next, and then alone */
#include "middletier/meta/meta_txn.h"
#include "unit/member_client.h"

#define UPGRADE "{\"op\":\"cluster.upgrade\"}"
#define LEVEL "{\"op\":\"cluster.level\"}"

TestSuite(upgrade, .init = client_open, .fini = client_close);

/* Gateways 0 and 1, of releases that speak up to @max each; a client of gateway 0. */
static void
gateways_start(uint8_t max0, uint8_t max1)
{
	rig->gateway_options.level_max = max0;
	peer_start(0);
	rig->gateway_options.level_max = max1;
	peer_start(1);
	rig->gateway_options.level_max = 0;
	(void)wait_shared(3);
	connect_to(0);
}

static uint32_t
stored_level(void)
{
	struct mt_cluster cluster;

	made_cluster_read(rig->store, &cluster);
	return cluster.level;
}

/* The request is refused, and @words name who is in the way; nothing has changed. */
static void
expect_refused(const char *request, int rc, const char *words)
{
	uint32_t level = stored_level();

	refused(control_want(&qp, rc, "%s", request), words);
	cr_assert_eq(stored_level(), level);
}

static void
expect_answer(const char *request, int from, int level, int next, size_t missing)
{
	json_t *answer = control_want(&qp, 0, "%s", request);

	cr_assert_eq(json_integer_value(json_object_get(answer, "from")), from);
	cr_assert_eq(json_integer_value(json_object_get(answer, "level")), level);
	cr_assert_eq(json_integer_value(json_object_get(answer, "next")), next);
	cr_assert_eq(json_array_size(json_object_get(answer, "missing")), missing);
	json_decref(answer);
}

struct seen {
	uint32_t index, level;
};

static bool
has_seen(void *arg)
{
	const struct seen *seen = arg;

	check_single_owners();
	return peers[seen->index].gateway->cluster.level == seen->level;
}

static void
wait_seen(uint32_t index, uint32_t level)
{
	cr_assert(mt_rig_run_until(rig, has_seen, &(struct seen){ index, level }));
}

/* ---- it is done ---- */

Test(upgrade, level_is_raised_by_one_and_every_gateway_sees_it)
{
	gateways_start(0, 0);
	cr_assert_eq(stored_level(), 1);
	expect_answer(LEVEL, 1, 1, 2, 0);
	cr_assert_eq(stored_level(), 1);
	mt_rig_log_clear(rig);
	expect_answer(UPGRADE, 1, 2, 0, 0);
	cr_assert_eq(stored_level(), 2);
	wait_seen(1, 2);
	cr_assert_eq(atomic_load(&peers[1].gateway->shared.cluster_level), 2);
	cr_assert(mt_rig_logged(rig, "gateway: raises the cluster's level from_level=1 level=2"));
	cr_assert(mt_rig_logged(rig, "gateway: the cluster was upgraded from_level=1 level=2"));
}

Test(upgrade, asked_twice_it_is_done_already)
{
	gateways_start(0, 0);
	expect_answer(UPGRADE, 1, 2, 0, 0);
	expect_answer(UPGRADE, 2, 2, 0, 0);
	expect_answer(LEVEL, 2, 2, 0, 0);
	cr_assert_eq(stored_level(), 2);
}

/* Both gateways are asked at one moment: it is raised once. */
Test(upgrade, two_who_ask_raise_it_once)
{
	struct sg_qp other = { 0 };
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };

	gateways_start(0, 0);
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer1:7100");
	sg_connect(&sg, &other, NULL);
	cr_assert_eq(sg_wait_open(&other), 0);
	sg_send(&qp, &header, UPGRADE, (uint32_t)strlen(UPGRADE));
	sg_send(&other, &header, UPGRADE, (uint32_t)strlen(UPGRADE));
	cr_assert(sg_wait_replies(&qp, 1) && sg_wait_replies(&other, 1));
	cr_assert_eq(qp.replies[0].header.status, 0, "%s", qp.replies[0].text);
	cr_assert_eq(other.replies[0].header.status, 0, "%s", other.replies[0].text);
	cr_assert_eq(stored_level(), 2);
	sg_close(&other);
}

/* ---- it is refused ---- */

Test(upgrade, gateway_that_does_not_speak_it_is_named)
{
	gateways_start(0, 1);
	expect_answer(LEVEL, 1, 1, 2, 1);
	expect_refused(UPGRADE, -ENOTSUP, "gateway 2 speaks 1 to 1");
	cr_assert(mt_rig_logged(rig, "gateway: does not raise the cluster's level level=2"));
}

/* The old one is asked; it knows that there is more, and that it is in the way itself. */
Test(upgrade, gateway_that_is_asked_may_be_in_the_way)
{
	gateways_start(1, 0);
	expect_refused(UPGRADE, -ENOTSUP, "gateway 1 speaks 1 to 1");
}

Test(upgrade, gateways_of_one_old_release_are_at_its_end)
{
	gateways_start(1, 1);
	expect_answer(UPGRADE, 1, 1, 0, 0);
	cr_assert_eq(stored_level(), 1);
}

Test(upgrade, gateway_that_has_gone_does_not_count)
{
	gateways_start(0, 1);
	expect_refused(UPGRADE, -ENOTSUP, "gateway 2");
	peer_kill(1);
	(void)wait_shared(1);
	expect_answer(UPGRADE, 1, 2, 0, 0);
}

Test(upgrade, node_that_is_away_is_not_known)
{
	char request[256];

	gateways_start(0, 0);
	mt_rig_node_kill(rig, 2, false);
	mt_rig_run(rig, NUM_S(10));
	expect_answer(LEVEL, 1, 1, 2, 1);
	expect_refused(UPGRADE, -ENOTSUP, "node 3 at ");
	expect_refused(UPGRADE, -ENOTSUP, "--without");
	(void)snprintf(request, sizeof(request),
	    "{\"op\":\"cluster.upgrade\",\"without\":[\"%s\"]}", rig->nodes[1].address);
	expect_refused(request, -ENOTSUP, "node 3 at ");
	(void)snprintf(request, sizeof(request), "{\"op\":\"cluster.level\",\"without\":[\"%s\"]}",
	    rig->nodes[2].address);
	expect_answer(request, 1, 1, 2, 0);
	expect_answer("{\"op\":\"cluster.upgrade\",\"without\":[\"3\"]}", 1, 2, 0, 0);
	cr_assert(mt_rig_logged(rig, "nodes_left_behind=1"));
}

/* A node of an older release, which is heard: nobody may leave it behind unseen. */
Test(upgrade, node_that_does_not_speak_it_cannot_be_left_behind)
{
	rig->node_level_max = 1;
	mt_rig_node_kill(rig, 2, false);
	mt_rig_node_start(rig, 2);
	gateways_start(0, 0);
	expect_refused(UPGRADE, -ENOTSUP, "node 3 at ");
	expect_refused("{\"op\":\"cluster.upgrade\",\"without\":[\"3\"]}", -ENOTSUP, "speaks 1");
	rig->node_level_max = 0;
	mt_rig_node_kill(rig, 2, false);
	mt_rig_node_start(rig, 2);
	mt_rig_run(rig, NUM_S(10));
	expect_answer(UPGRADE, 1, 2, 0, 0);
}

/* A gateway of a release that writes its key in another way, for all we know. */
Test(upgrade, gateway_whose_key_cannot_be_read_is_in_the_way)
{
	const struct meta_op op = { .kind = META_PUT,
		.key = "gateways/9",
		.value = "{}",
		.value_bytes = 2 };
	struct meta_txn *txn;

	gateways_start(0, 0);
	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(rig->store, txn), 0);
	mt_free(txn);
	expect_refused(UPGRADE, -ENOTSUP, "gateways/9 cannot be read");
}

Test(upgrade, what_is_no_request_is_refused)
{
	gateways_start(0, 0);
	expect_refused("{\"op\":\"cluster.upgrade\",\"force\":true}", -EINVAL, "force");
	expect_refused("{\"op\":\"cluster.upgrade\",\"without\":\"3\"}", -EINVAL, "without");
	expect_refused("{\"op\":\"cluster.level\",\"name\":\"a\"}", -EINVAL, "name");
}

/* ---- afterwards ---- */

static bool
has_failed(void *arg)
{
	return ((const struct peer *)arg)->has_failed;
}

/* By hand, or by a gateway that had not seen it yet: it stops, with one line. */
Test(upgrade, gateway_that_runs_and_does_not_speak_it_stops)
{
	gateways_start(0, 1);
	mt_rig_log_clear(rig);
	made_cluster_raise(rig->store, 2);
	connect_to(1);
	json_decref(sg_control(&qp, "{\"op\":\"volume.list\"}", &(int){ 0 }));
	cr_assert(mt_rig_run_until(rig, has_failed, &peers[1]));
	cr_assert_not(peers[0].has_failed);
	cr_assert(mt_rig_logged(rig,
	    "gateway: cannot serve: the cluster was upgraded to level 2, and this release speaks 1 "
	    "to 1"));
}

Test(upgrade, gateway_that_does_not_speak_it_does_not_start)
{
	gateways_start(0, 0);
	expect_answer(UPGRADE, 1, 2, 0, 0);
	rig->gateway_options.level_max = 1;
	peer_start(2);
	cr_assert(mt_rig_run_until(rig, has_failed, &peers[2]));
	cr_assert_not_null(strstr(peers[2].gateway->failure, "upgraded to level 2"), "%s",
	    peers[2].gateway->failure);
}

static bool
is_known_old(void *arg)
{
	const struct mt_link *link = arg;

	return strstr(link->trouble, "release is too old") != NULL;
}

static bool
is_up(void *arg)
{
	return mt_link_is_up(arg);
}

Test(upgrade, node_that_was_left_behind_is_refused_until_it_is_upgraded)
{
	gateways_start(0, 0);
	mt_rig_node_kill(rig, 2, false);
	mt_rig_run(rig, NUM_S(10));
	expect_answer("{\"op\":\"cluster.upgrade\",\"without\":[\"3\"]}", 1, 2, 0, 0);
	rig->node_level_max = 1;
	mt_rig_node_start(rig, 2);
	cr_assert(mt_rig_run_until(rig, is_known_old, &peers[0].gateway->ports[0].links[2]));
	mt_rig_node_kill(rig, 2, false);
	rig->node_level_max = 0;
	mt_rig_node_start(rig, 2);
	cr_assert(mt_rig_run_until(rig, is_up, &peers[0].gateway->ports[0].links[2]));
	cr_assert_eq(peers[0].gateway->ports[0].links[2].agreed_level, 2);
}
