/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_gateway.c -- a gateway is drained: what is refused, and how its shards go */
#include "middletier/cluster/assign.h"
#include "unit/member_client.h"

#define DRAIN(id) "{\"op\":\"gateway.drain\",\"gateway\":\"" id "\"}"
#define DRAIN_FORCED(id) "{\"op\":\"gateway.drain\",\"gateway\":\"" id "\",\"force\":true}"
#define UNDRAIN(id) "{\"op\":\"gateway.undrain\",\"gateway\":\"" id "\"}"
#define ONE "0000000000000001"
#define TWO "0000000000000002"
#define THREE "0000000000000003"

TestSuite(control_gateway, .init = client_open, .fini = client_close);

static void
gateways_start(uint32_t count, uint32_t level)
{
	made_cluster_at(rig->store, &rig->gateway_options, level);
	for (uint32_t i = 0; i < count; i++)
		peer_start(i);
	(void)wait_shared((1u << count) - 1);
	connect_to(0);
}

static struct mt_drained
stored(void)
{
	return stored_marks(MT_DRAINED_KEY);
}

static void
expect_refused(const char *request, int rc, const char *words)
{
	struct mt_drained before = stored(), after;

	refused(control_want(&qp, rc, "%s", request), words);
	after = stored();
	cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
}

static void
expect_done(const char *request)
{
	done(control_want(&qp, 0, "%s", request));
}

static void
expect_state(uint32_t index, const char *state)
{
	json_t *answer = control_want(&qp, 0, "{'op':'gateways'}");
	json_t *gateways = json_object_get(answer, "gateways");

	cr_assert_str_eq(json_string_value(
			     json_object_get(json_array_get(gateways, index), "state")),
	    state);
	json_decref(answer);
}

/* ---- it is done ---- */

static uint32_t most_away; /* shards at a time that nobody serves */

static bool
is_shared_and_counted(void *arg)
{
	uint32_t away = SHARDS;

	for (uint32_t i = 0; i < PEERS_MAX; i++)
		away -= count_served(i);
	most_away = (uint32_t)num_max(most_away, away);
	return is_shared(arg);
}

Test(control_gateway, shards_go_one_after_the_other)
{
	struct goal goal = { 7 };

	gateways_start(3, 2);
	drained_mask = 1;
	expect_done(DRAIN(ONE));
	cr_assert(mt_rig_run_until(rig, is_shared_and_counted, &goal));
	cr_assert_eq(most_away, 1, "%u at a time", most_away);
	mt_rig_run(rig, NUM_MS(100));
	cr_assert_eq(count_served(0), 0);
	expect_state(0, "drained");
	expect_state(1, "serving");
	cr_assert(mt_rig_logged(rig, "gateway: drained by an operator id=" ONE));
	cr_assert(mt_rig_logged(rig, "given away, this gateway is drained left=0"));
	cr_assert(mt_rig_logged(rig, "gateway: it is drained, and has no shard"));
	cr_assert(mt_rig_logged(rig, "gateway " ONE " is drained by an operator"));
	expect_done(DRAIN(ONE)); /* it is already */
	drained_mask = 0;
	expect_done(UNDRAIN(ONE));
	(void)wait_shared(7);
	expect_state(0, "serving");
}

Test(control_gateway, restarted_it_is_drained_still_and_nothing_moves)
{
	uint32_t epochs[SHARDS];

	gateways_start(3, 2);
	drained_mask = 2;
	expect_done(DRAIN(TWO));
	(void)wait_shared(7);
	for (uint32_t i = 0; i < SHARDS; i++)
		epochs[i] = shard_of(winner(7, i), i)->epoch;
	peer_kill(1);
	mt_rig_run(rig, NUM_S(10));
	peer_start(1);
	mt_rig_run(rig, NUM_S(10));
	(void)wait_shared(7);
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_eq(shard_of(winner(7, i), i)->epoch, epochs[i], "it was moved");
	cr_assert_eq(count_served(1), 0);
	expect_state(1, "drained");
	drained_mask = 0;
	expect_done(UNDRAIN(TWO));
	(void)wait_shared(7);
}

/* In the middle of it: what it has left goes at once. */
Test(control_gateway, killed_while_it_drains_it_comes_back_with_nothing)
{
	gateways_start(3, 2);
	connect_to(1);
	drained_mask = 1;
	expect_done(DRAIN(ONE));
	mt_rig_run(rig, NUM_MS(20));
	peer_kill(0);
	(void)wait_shared(6);
	peer_start(0);
	mt_rig_run(rig, NUM_S(10));
	(void)wait_shared(7);
	expect_state(0, "drained");
}

Test(control_gateway, undrained_in_the_middle_it_has_its_share_again)
{
	gateways_start(3, 2);
	expect_done(DRAIN(ONE));
	mt_rig_run(rig, NUM_MS(60));
	expect_done(UNDRAIN(ONE));
	(void)wait_shared(7);
}

/* A taker that is there, but gets no further: nothing follows the first shard. */
Test(control_gateway, waits_for_a_taker_that_cannot_serve)
{
	gateways_start(2, 2);
	expect_done(DRAIN(ONE));
	for (uint32_t i = 0; i < 3; i++)
		sim_net_partition(peers[1].host, rig->nodes[i].host);
	mt_rig_run(rig, NUM_S(2));
	cr_assert_geq(count_served(0), SHARDS / 2 - 2);
	for (uint32_t i = 0; i < 3; i++)
		sim_net_join(peers[1].host, rig->nodes[i].host);
	drained_mask = 1;
	(void)wait_shared(3);
}

/* ---- nobody else is there ---- */

Test(control_gateway, alone_it_serves_until_another_comes)
{
	gateways_start(1, 2);
	expect_refused(DRAIN(ONE), -ENOTEMPTY, "no other gateway lives that could take its shards");
	expect_refused(DRAIN(ONE), -ENOTEMPTY, "--force");
	expect_done(DRAIN_FORCED(ONE));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(count_served(0), SHARDS);
	expect_state(0, "draining");
	cr_assert(mt_rig_logged(rig, "every gateway that lives is drained"));
	drained_mask = 1;
	peer_start(1);
	(void)wait_shared(3);
	expect_state(0, "drained");
	/* The other one goes: a drained gateway is better than none. */
	peer_kill(1);
	(void)wait_shared(1);
	mt_rig_run(rig, NUM_MS(100)); /* it has read its own roots */
	expect_state(0, "draining");
	peer_start(1);
	(void)wait_shared(3);
}

Test(control_gateway, last_that_takes_shards_stays)
{
	gateways_start(3, 2);
	expect_done(DRAIN(ONE));
	expect_done(DRAIN(TWO));
	expect_refused(DRAIN(THREE), -ENOTEMPTY, "no other gateway lives");
	drained_mask = 3;
	(void)wait_shared(7);
	expect_done(UNDRAIN(ONE));
	expect_done(DRAIN(THREE));
	drained_mask = 6;
	(void)wait_shared(7);
	cr_assert_eq(count_served(0), SHARDS);
}

/* Both are asked at one moment, at different gateways: each would leave the other's alone. */
Test(control_gateway, of_two_drains_at_one_moment_one_is_refused)
{
	struct sg_qp other = { 0 };
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };

	gateways_start(2, 2);
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer1:7100");
	sg_connect(&sg, &other, NULL);
	cr_assert_eq(sg_wait_open(&other), 0);
	sg_send(&qp, &header, DRAIN(ONE), (uint32_t)strlen(DRAIN(ONE)));
	sg_send(&other, &header, DRAIN(TWO), (uint32_t)strlen(DRAIN(TWO)));
	cr_assert(sg_wait_replies(&qp, 1) && sg_wait_replies(&other, 1));
	cr_assert((qp.replies[0].header.status == 0) != (other.replies[0].header.status == 0));
	cr_assert_eq(stored().count, 1);
	sg_close(&other);
}

/* ---- it is refused ---- */

Test(control_gateway, nobody_of_that_id_lives)
{
	gateways_start(2, 2);
	expect_refused(DRAIN(THREE), -ENOENT, "it does not live");
	expect_refused(DRAIN(THREE), -ENOENT, "--force");
	expect_refused(UNDRAIN(THREE), -ENOENT, "neither lives nor is drained");
	expect_done(UNDRAIN(TWO)); /* as it is */
	expect_done(DRAIN_FORCED(THREE));
	drained_mask = 4;
	peer_start(2);
	(void)wait_shared(7);
	cr_assert_eq(count_served(2), 0);
	drained_mask = 0;
	expect_done(UNDRAIN(THREE));
	(void)wait_shared(7);
}

Test(control_gateway, drained_ones_that_are_gone_are_listed_by_number)
{
	json_t *answer;
	int rc = 0;

	gateways_start(2, 2);
	expect_done(DRAIN_FORCED(THREE));
	mt_rig_run(rig, NUM_MS(100));
	answer = sg_control(&qp, "{\"op\":\"gateways\"}", &rc);
	cr_assert_eq(json_array_size(json_object_get(answer, "gateways")), 2);
	cr_assert_str_eq(json_string_value(
			     json_array_get(json_object_get(answer, "drained_away"), 0)),
	    THREE);
	json_decref(answer);
}

/* The key, put by somebody else. */
static void
put_key(const char *text)
{
	made_cluster_put(rig->store, MT_DRAINED_KEY, text);
	mt_rig_run(rig, NUM_MS(100));
}

Test(control_gateway, no_more_than_can_be_told)
{
	struct mt_drained drained = { .count = 0 };
	char *text;

	gateways_start(2, 2);
	for (uint64_t i = 0; i < MT_GATEWAYS_MAX; i++)
		cr_assert_eq(mt_drained_add(&drained, 16 + i), 0);
	text = mt_drained_encode(&drained);
	put_key(text);
	free(text);
	expect_refused(DRAIN_FORCED(THREE), -ENOSPC, "no more can be");
	cr_assert_eq(count_served(0) + count_served(1), SHARDS);
}

Test(control_gateway, cluster_of_the_first_level_knows_nothing_of_it)
{
	gateways_start(2, 1);
	expect_refused(DRAIN(ONE), -ENOTSUP, "cleave cluster upgrade");
	expect_refused(UNDRAIN(ONE), -ENOTSUP, "level 1");
}

Test(control_gateway, what_is_no_request_is_refused)
{
	gateways_start(2, 2);
	expect_refused("{\"op\":\"gateway.drain\"}", -EINVAL, "gateway");
	expect_refused("{\"op\":\"gateway.drain\",\"gateway\":1}", -EINVAL, "gateway");
	expect_refused(DRAIN("1"), -EINVAL, "16 hex digits");
	expect_refused(DRAIN("0000000000000000"), -EINVAL, "16 hex digits");
	expect_refused("{\"op\":\"gateway.undrain\",\"gateway\":\"" ONE "\",\"force\":true}",
	    -EINVAL, "force");
}

Test(control_gateway, a_key_that_is_not_understood_is_left_alone)
{
	int rc = 0;
	json_t *answer;

	gateways_start(2, 2);
	put_key("{\"format\":9}");
	answer = sg_control(&qp, DRAIN(ONE), &rc);
	cr_assert_eq(rc, -EBADMSG);
	json_decref(answer);
	cr_assert(mt_rig_logged(rig, "unreadable in the metadata store key=" MT_DRAINED_KEY));
	(void)wait_shared(3);
}
