/* SPDX-License-Identifier: Apache-2.0 */
/* test_member.c -- several gateways: who lives, and who owns which shard */
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "middletier/catalog/root.h"
#include "middletier/cluster/assign.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/member.h"
#include "middletier/cluster/member_view.h"
#include "middletier/common/alloc.h"
#include "middletier/common/lease.h"
#include "middletier/common/root.h"
#include "middletier/common/root_ops.h"
#include "middletier/gateway/gateway.h"
#include "middletier/health/health.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/member_fixture.h"

TestSuite(member, .init = setup, .fini = teardown);

Test(member, alone_it_takes_everything)
{
	peer_start(0);
	(void)wait_shared(1);
	cr_assert_eq(count_served(0), SHARDS);
	cr_assert(mt_rig_logged(rig, "gateway: ready port=sim://peer0:7100 shards=12 epoch=1"));
}

Test(member, two_that_start_together_share)
{
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	cr_assert_eq(count_served(0) + count_served(1), SHARDS);
	cr_assert_gt(count_served(0), 0);
	cr_assert_gt(count_served(1), 0);
}

Test(member, one_that_joins_gets_its_share_and_what_stays_is_not_touched)
{
	uint32_t epochs[SHARDS];

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t i = 0; i < SHARDS; i++)
		epochs[i] = shard_of(winner(3, i), i)->epoch;
	peer_start(2);
	(void)wait_shared(7);
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (winner(7, i) == winner(3, i))
			cr_assert_eq(shard_of(winner(7, i), i)->epoch, epochs[i]);
	}
	cr_assert_eq(count_served(2), SHARDS / 3);
	cr_assert_eq(peers[0].ready_count, 1, "ready is said once");
}

Test(member, of_one_that_was_killed_the_shards_are_taken_when_its_lease_has_ended)
{
	uint64_t took_ns;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	peer_kill(1);
	took_ns = wait_shared(1);
	cr_assert_gt(took_ns, NUM_S(1));
	cr_assert_lt(took_ns, NUM_S(6));
	/* The gateway comes back as another boot, and gets its own again. */
	peer_start(1);
	(void)wait_shared(3);
}

Test(member, restarted_at_once_it_waits_for_no_lease)
{
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	peer_kill(1);
	peer_start(1);
	cr_assert_lt(wait_shared(3), NUM_S(2));
}

Test(member, one_that_stops_leaves_its_shards_at_once)
{
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	mt_gateway_stop(peers[1].gateway, on_stopped, &peers[1]);
	cr_assert(mt_rig_run_until(rig, has_stopped, &peers[1]));
	peer_end(&peers[1]);
	cr_assert_lt(wait_shared(1), NUM_S(1));
}

Test(member, cut_off_from_the_store_it_stops_before_others_take)
{
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	meta_memory_cut_off(peers[1].meta, true);
	/* Fault 34: it goes on while its lease lasts. */
	mt_rig_run(rig, NUM_S(1));
	cr_assert_gt(count_served(1), 0);
	(void)wait_shared(1);
	cr_assert_eq(count_served(1), 0);
	cr_assert_eq(mt_lease_until_ns(&peers[1].gateway->shared), 0);
	cr_assert(mt_rig_logged(rig, "lost its lease"));
	meta_memory_cut_off(peers[1].meta, false);
	(void)wait_shared(3);
	cr_assert_eq(peers[1].ready_count, 1);
}

Test(member, all_cut_off_nobody_serves_and_all_come_back)
{
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t i = 0; i < 2; i++)
		meta_memory_cut_off(peers[i].meta, true);
	mt_rig_run(rig, NUM_S(4));
	cr_assert_eq(count_served(0) + count_served(1), 0);
	for (uint32_t i = 0; i < 2; i++)
		meta_memory_cut_off(peers[i].meta, false);
	(void)wait_shared(3);
}

static void
ignore(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

Test(member, a_key_that_somebody_removes_is_written_again)
{
	const struct meta_op remove = { .kind = META_DELETE, .key = "gateways/2" };
	struct meta *meta;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	meta = peers[0].meta;
	cr_assert_eq(meta->ops->txn(meta, &remove, 1, ignore, NULL), 0);
	mt_rig_run(rig, NUM_MS(100));
	(void)wait_shared(3);
	cr_assert(mt_rig_logged(rig, "its key in the metadata store is gone"));
}

/* The last words of the process before it arrive late. */
Test(member, a_key_of_an_earlier_boot_is_written_over)
{
	static const char text[] = "{\"format\":1,\"boot_id\":\"000000000000000f\","
				   "\"ports\":[\"sim://peer1:7100\"]}";
	const struct meta_op put = { .kind = META_PUT,
		.key = "gateways/2",
		.value = text,
		.value_bytes = sizeof(text) - 1 };
	struct meta *meta;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	meta = peers[0].meta;
	cr_assert_eq(meta->ops->txn(meta, &put, 1, ignore, NULL), 0);
	mt_rig_run(rig, NUM_MS(100));
	(void)wait_shared(3);
}

/* Another spelling of a number is no key of that gateway's, or shard's. */
Test(member, keys_that_nobody_writes_are_nobodys)
{
	static const char *const keys[] = { "gateways/02", "gateways/ 2", "gateways/+2",
		"gateways/-1", "gateways/", "shards/0", "shards/ 00000" };
	static const char text[] = "{\"format\":1,\"boot_id\":\"000000000000000f\","
				   "\"ports\":[\"sim://peer1:7100\"]}";

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t i = 0; i < NUM_COUNT(keys); i++) {
		const struct meta_op put = { .kind = META_PUT,
			.key = keys[i],
			.value = text,
			.value_bytes = sizeof(text) - 1 };

		cr_assert_eq(peers[0].meta->ops->txn(peers[0].meta, &put, 1, ignore, NULL), 0);
		mt_rig_run(rig, NUM_S(1));
	}
	(void)wait_shared(3);
	cr_assert_not(mt_rig_logged(rig, "is gone"));
	cr_assert(mt_rig_logged(rig, "unreadable in the metadata store key=gateways/02"));
}

/* ---- how often a view is read ---- */

static const struct meta_ops *plain_ops;
static uint32_t list_count; /* of gateways */

static int
list_counted(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	list_count += strcmp(prefix, "gateways/") == 0;
	return plain_ops->list(meta, prefix, fn, arg);
}

static bool
knows_another(void *arg)
{
	return ((const struct peer *)arg)->gateway->member.peer_count == 2;
}

static void
put_as(struct meta *meta, const char *key)
{
	static const char text[] = "{\"format\":1,\"boot_id\":\"000000000000000f\","
				   "\"ports\":[\"sim://peer1:7100\"]}";
	const struct meta_op put = { .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = sizeof(text) - 1 };

	cr_assert_eq(meta->ops->txn(meta, &put, 1, ignore, NULL), 0);
}

/* Changes come every 5 ms for a second. Returns how often the view was read; the last change counts. */
static uint32_t
count_readings(uint64_t relist_min_ns)
{
	struct peer *peer = &peers[0];
	struct meta_ops ops = *peer->meta->ops;
	uint64_t since_ns;

	plain_ops = peer->meta->ops;
	ops.list = list_counted;
	ops.relist_min_ns = relist_min_ns;
	peer->meta->ops = &ops;
	list_count = 0;
	for (uint32_t i = 0; i < 200; i++) {
		put_as(peer->meta, "gateways/unknown");
		mt_rig_run(rig, NUM_MS(5));
	}
	put_as(peer->meta, "gateways/2");
	since_ns = sim_world_now_ns(rig->world);
	cr_assert(mt_rig_run_until(rig, knows_another, peer));
	cr_assert_leq(sim_world_now_ns(rig->world) - since_ns,
	    num_max(relist_min_ns, NUM_MS(20)) + NUM_MS(5));
	mt_rig_run(rig, NUM_S(1)); /* it is done with these operations */
	peer->meta->ops = plain_ops;
	return list_count;
}

Test(member, a_view_is_read_as_often_as_its_store_bears)
{
	uint32_t count;

	peer_start(0);
	(void)wait_shared(1);
	count = count_readings(NUM_MS(200));
	cr_assert_geq(count, 5);
	cr_assert_leq(count, 9);
}

Test(member, a_view_is_read_soon_where_the_store_is_near)
{
	uint32_t count;

	peer_start(0);
	(void)wait_shared(1);
	count = count_readings(0);
	cr_assert_geq(count, 40);
	cr_assert_leq(count, 60);
}

Test(member, a_store_that_times_out_only_delays)
{
	meta_store_set_timeouts(rig->store, 60, 60);
	peer_start(0);
	peer_start(1);
	peer_start(2);
	mt_rig_run(rig, NUM_S(20));
	peer_kill(0);
	mt_rig_run(rig, NUM_S(20));
	meta_store_set_timeouts(rig->store, 0, 0);
	(void)wait_shared(6);
}

Test(member, come_and_go_at_any_moment)
{
	uint32_t up = 0;

	for (uint32_t round = 0; round < 40; round++) {
		uint32_t index = (round * 7 + round / 5) % 3;

		if ((up & 1u << index) != 0)
			peer_kill(index);
		else
			peer_start(index);
		up ^= 1u << index;
		for (uint32_t i = 0; i < 20; i++) {
			mt_rig_run(rig, NUM_MS(3) + NUM_US(371) * round);
			check_single_owners();
		}
	}
	if (up == 0)
		peer_start(0);
	(void)wait_shared(up == 0 ? 1 : up);
}

/* ---- the next gateway ---- */

static bool
says_silent(void *arg)
{
	static struct mt_health health;
	const char *object = arg;

	if (mt_gateway_health(peers[0].gateway, &health) != 0)
		return false;
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == CLEAVE_HEALTH_GATEWAY_SILENT)
			return strcmp(health.reasons[i].object, object) == 0;
	}
	return false;
}

Test(member, one_that_is_silent_is_told_by_another_before_its_lease_ends)
{
	uint64_t begin_ns;

	rig->gateway_options.lease_ns = NUM_S(60);
	rig->gateway_options.is_health_watched = true;
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	mt_rig_run(rig, NUM_S(10));
	cr_assert(!says_silent("gateway 0000000000000002"));
	sim_host_kill(peers[1].host, SIM_DEATH_SILENT);
	peer_end(&peers[1]);
	begin_ns = sim_world_now_ns(rig->world);
	cr_assert(mt_rig_run_until(rig, says_silent, (void *)"gateway 0000000000000002"));
	/* A look in two seconds, where nobody has a session; two questions. */
	cr_assert_lt(sim_world_now_ns(rig->world) - begin_ns, NUM_S(4));
	sim_host_start(peers[1].host);
	peer_start(1);
	(void)wait_shared(3);
	mt_rig_run(rig, NUM_S(3));
	cr_assert(!says_silent("gateway 0000000000000002"));
}

static uint64_t
wall_early(void)
{
	return UINT64_C(1700000000000);
}

static uint64_t
wall_late(void)
{
	return UINT64_C(1700000042000);
}

/* The words of gateway @index about clocks; NULL: there are none. */
static const char *
says_clocks(uint32_t index)
{
	static struct mt_health health;

	cr_assert_eq(mt_gateway_health(peers[index].gateway, &health), 0);
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == CLEAVE_HEALTH_CLOCKS_APART)
			return health.reasons[i].text;
	}
	return NULL;
}

Test(member, clocks_on_the_wall_that_differ_are_told_by_both)
{
	rig->gateway_options.is_health_watched = true;
	rig->gateway_options.wall_ms = wall_early;
	peer_start(0);
	rig->gateway_options.wall_ms = wall_late;
	peer_start(1);
	(void)wait_shared(3);
	mt_rig_run(rig, NUM_S(6));
	cr_assert_not_null(says_clocks(0));
	cr_assert_not_null(strstr(says_clocks(0), "s ahead of that of gateway 0000000000000001"),
	    "%s", says_clocks(0));
	cr_assert_not_null(says_clocks(1));
	cr_assert_not_null(strstr(says_clocks(1), "42.0 s behind that of gateway 0000000000000002"),
	    "%s", says_clocks(1));
	/* Started anew with a clock that was set. */
	sim_host_kill(peers[1].host, SIM_DEATH_RESET);
	peer_end(&peers[1]);
	sim_host_start(peers[1].host);
	rig->gateway_options.wall_ms = wall_early;
	peer_start(1);
	(void)wait_shared(3);
	mt_rig_run(rig, NUM_S(6));
	cr_assert_null(says_clocks(0), "%s", says_clocks(0));
	cr_assert_null(says_clocks(1), "%s", says_clocks(1));
}

/* A gateway that leaves closes its port a moment before its key goes. */
Test(member, one_that_leaves_is_not_called_silent)
{
	rig->gateway_options.is_health_watched = true;
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	for (uint32_t round = 0; round < 8; round++) {
		mt_rig_run(rig, NUM_S(2) + NUM_MS(83) * round);
		mt_gateway_stop(peers[1].gateway, on_stopped, &peers[1]);
		cr_assert(mt_rig_run_until(rig, has_stopped, &peers[1]));
		peer_end(&peers[1]);
		(void)wait_shared(1);
		cr_assert(!mt_rig_logged(rig, "gateway-silent"));
		peer_start(1);
		(void)wait_shared(3);
	}
}

/* Claims. */

struct claim {
	int rc;
	bool is_done;
	struct mt_root root;
};

static void
claim_on_done(int rc, const struct mt_root *root, void *arg)
{
	struct claim *claim = arg;

	claim->rc = rc;
	claim->is_done = true;
	if (rc == 0)
		claim->root = *root;
}

static bool
is_claim_done(void *arg)
{
	return ((const struct claim *)arg)->is_done;
}

static int
load_root(uint32_t index, uint32_t shard, struct mt_root *ret_root)
{
	struct claim claim = { 0 };

	cr_assert_eq(mt_root_load(shard_of(index, shard), claim_on_done, &claim), 0);
	cr_assert(mt_rig_run_until(rig, is_claim_done, &claim));
	*ret_root = claim.root;
	return claim.rc;
}

static int
try_claim(uint32_t index, uint32_t shard, const struct mt_root *root)
{
	struct claim claim = { 0 };
	struct mt_root wanted = *root;

	wanted.epoch++;
	wanted.gateway_id = peers[index].id;
	wanted.boot_id = peers[index].gateway->options.boot_id;
	wanted.is_released = false;
	cr_assert_eq(mt_root_claim(shard_of(index, shard), &wanted, claim_on_done, &claim), 0);
	cr_assert(mt_rig_run_until(rig, is_claim_done, &claim));
	return claim.rc;
}

static uint32_t
shard_won_by(uint32_t members, uint32_t index)
{
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (winner(members, i) == index)
			return i;
	}
	cr_assert(false, "nobody's");
	return 0;
}

Test(member, a_shard_whose_owner_lives_cannot_be_claimed)
{
	struct mt_root root;
	uint32_t shard;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	shard = shard_won_by(3, 1);
	cr_assert_eq(load_root(0, shard, &root), 0);
	cr_assert_eq(root.gateway_id, 2);
	cr_assert_eq(try_claim(0, shard, &root), -EBUSY);
	/* The shard's owner lives, but the root has moved on. */
	root.version--;
	cr_assert_eq(try_claim(0, shard, &root), -ESTALE);
	/* Nor by one that is no member. */
	cr_assert_eq(load_root(0, shard, &root), 0);
	peers[1].gateway->member.key_version = 0;
	cr_assert_eq(try_claim(1, shard, &root), -EBUSY);
}

Test(member, a_claim_under_a_key_that_is_gone_is_refused)
{
	struct mt_root root;
	uint32_t shard;

	peer_start(0);
	(void)wait_shared(1);
	shard = 0;
	cr_assert_eq(load_root(0, shard, &root), 0);
	peers[0].gateway->member.key_version--;
	cr_assert_eq(try_claim(0, shard, &root), -EBUSY);
	cr_assert_eq(load_root(0, shard, &root), 0);
	cr_assert_eq(root.epoch, 1);
}

static bool
is_member(void *arg)
{
	(void)arg;
	return peers[0].gateway->member.key_version != 0;
}

/* Each shard's claim is refused from now on, as if the old owner had registered in that moment. */
static void
refuse_claims(void)
{
	rig->gateway_options.lease_ns = NUM_S(600);
	peer_start(0);
	cr_assert(mt_rig_run_until(rig, is_member, NULL));
	peers[0].gateway->member.key_version++;
}

Test(member, a_claim_that_was_refused_is_tried_again_at_once)
{
	refuse_claims();
	mt_rig_run(rig, NUM_MS(200));
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_gt(peers[0].gateway->member.shards[i].refused_count, 0);
	peers[0].gateway->member.key_version--;
	cr_assert_lt(wait_shared(1), NUM_S(1));
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_eq(peers[0].gateway->member.shards[i].refused_count, 0);
}

Test(member, a_claim_that_is_always_refused_is_tried_less_and_less_often)
{
	refuse_claims();
	mt_rig_run(rig, NUM_S(60));
	for (uint32_t i = 0; i < SHARDS; i++) {
		/* 20 ms, doubled each time: the twelfth wait alone is 41 s */
		cr_assert_geq(peers[0].gateway->member.shards[i].refused_count, 8);
		cr_assert_leq(peers[0].gateway->member.shards[i].refused_count, 13);
	}
}

/* Ranks. */

Test(member_rank, shares_differ_by_one_at_most)
{
	uint8_t picks[64];
	uint64_t ids[9];

	for (uint32_t i = 0; i < NUM_COUNT(ids); i++)
		ids[i] = UINT64_C(0x1234567) * (i + 1);
	for (uint32_t count = 1; count <= NUM_COUNT(ids); count++) {
		for (uint32_t shard_count = 1; shard_count <= NUM_COUNT(picks); shard_count++) {
			uint32_t loads[NUM_COUNT(ids)] = { 0 };

			mt_assign(ids, count, shard_count, picks);
			for (uint32_t i = 0; i < shard_count; i++)
				loads[picks[i]]++;
			for (uint32_t i = 0; i < count; i++) {
				cr_assert_geq(loads[i], shard_count / count);
				cr_assert_leq(loads[i], (shard_count + count - 1) / count);
			}
		}
	}
}

Test(member_rank, the_order_of_gateways_does_not_matter)
{
	const uint64_t ids[4] = { 7, 3, 99, 12 }, sorted[4] = { 3, 7, 12, 99 };
	uint8_t picks[100], sorted_picks[100];

	mt_assign(ids, 4, 100, picks);
	mt_assign(sorted, 4, 100, sorted_picks);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(ids[picks[i]], sorted[sorted_picks[i]]);
}

Test(member_rank, who_comes_or_goes_moves_little_more_than_its_share)
{
	uint8_t before[1024], after[1024];
	uint64_t ids[8];

	for (uint32_t i = 0; i < NUM_COUNT(ids); i++)
		ids[i] = i + 1;
	for (uint32_t count = 1; count < NUM_COUNT(ids); count++) {
		uint32_t moved_count = 0;

		mt_assign(ids, count, 1024, before);
		mt_assign(ids, count + 1, 1024, after);
		for (uint32_t i = 0; i < 1024; i++)
			moved_count += before[i] != after[i];
		cr_assert_leq(moved_count, 1024 / (count + 1) * 3 / 2);
	}
}

/* Keys. */

static void
expect_bad_key(const char *text, const char *field)
{
	struct mt_member_peer peer;
	const char *got = NULL;

	cr_assert_eq(mt_member_decode(text, (uint32_t)strlen(text), &peer, &got), -EBADMSG, "%s",
	    text);
	cr_assert_str_eq(got, field);
}

Test(member_key, broken_texts_are_named)
{
	struct mt_member_peer peer;
	const char *field,
	    *good = "{\"format\":1,\"boot_id\":\"00000000000000ff\","
		    "\"ports\":[\"tcp://a:1\",\"tcp://b:2\"]}";

	cr_assert_eq(mt_member_decode(good, (uint32_t)strlen(good), &peer, &field), 0);
	cr_assert_eq(peer.boot_id, 255);
	cr_assert_eq(peer.port_count, 2);
	cr_assert_str_eq(peer.ports[1], "tcp://b:2");
	expect_bad_key("", "not a JSON object");
	expect_bad_key("[]", "not a JSON object");
	expect_bad_key("{\"format\":2}", "format");
	expect_bad_key("{\"format\":1,\"boot_id\":7}", "boot_id");
	expect_bad_key("{\"format\":1,\"boot_id\":\"00000000000000ff\"}", "ports");
	expect_bad_key("{\"format\":1,\"boot_id\":\"00000000000000ff\",\"ports\":[]}", "ports");
	expect_bad_key("{\"format\":1,\"boot_id\":\"00000000000000ff\",\"ports\":[1]}", "ports");
}

static bool
is_shared_or_failed(void *arg)
{
	return peers[0].has_failed || peers[1].has_failed || is_shared(arg);
}

/* An owner's word when it lets go; a root without one is from before there was one. */
Test(member_key, a_released_root_comes_back)
{
	static const char older[] = "{\"format\":1,\"epoch\":7,\"gateway\":\"0000000000000001\","
				    "\"boot\":\"0000000000000002\",\"port\":\"tcp://a:1\"}";
	static const char odd[] = "{\"format\":1,\"epoch\":7,\"gateway\":\"0000000000000001\","
				  "\"boot\":\"0000000000000002\",\"port\":\"tcp://a:1\","
				  "\"released\":1}";
	struct mt_root root, got;
	const char *field;
	char *text;

	cr_assert_eq(mt_root_decode(older, sizeof(older) - 1, 3, &root, &field), 0);
	cr_assert_not(root.is_released);
	root.is_released = true;
	text = mt_root_encode(&root);
	cr_assert_eq(mt_root_decode(text, (uint32_t)strlen(text), 3, &got, &field), 0);
	cr_assert(got.is_released);
	cr_assert(mt_root_is_equal(&root, &got));
	root.is_released = false;
	cr_assert_not(mt_root_is_equal(&root, &got));
	free(text);
	cr_assert_eq(mt_root_decode(odd, sizeof(odd) - 1, 3, &got, &field), -EBADMSG);
	cr_assert_str_eq(field, "released");
}

Test(member, leaves_also_when_nobody_takes_the_lease_back)
{
	uint64_t begin_ns;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	meta_memory_cut_off(peers[1].meta, true);
	begin_ns = sim_world_now_ns(rig->world);
	mt_gateway_stop(peers[1].gateway, on_stopped, &peers[1]);
	cr_assert(mt_rig_run_until(rig, has_stopped, &peers[1]));
	cr_assert_lt(sim_world_now_ns(rig->world) - begin_ns, NUM_S(3));
	peer_end(&peers[1]);
	(void)wait_shared(1);
}

/* Stopped in the middle of becoming a member. */
static void
leave_at_any_moment(uint32_t level)
{
	made_cluster_at(rig->store, &rig->gateway_options, level);
	for (uint32_t i = 0; i < 60; i++) {
		peer_start(0);
		mt_rig_run(rig, NUM_US(150) * i);
		if (peers[0].gateway->sm.state == MT_GATEWAY_FAILED)
			continue;
		mt_gateway_stop(peers[0].gateway, on_stopped, &peers[0]);
		cr_assert(mt_rig_run_until(rig, has_stopped, &peers[0]), "round %u", i);
		peer_end(&peers[0]);
	}
	peer_start(0);
	(void)wait_shared(1);
}

Test(member, leaves_at_any_moment)
{
	leave_at_any_moment(CLEAVE_LEVEL_MIN);
}

Test(member, leaves_at_any_moment_of_a_cluster_that_names_its_nodes)
{
	leave_at_any_moment(CLEAVE_LEVEL_NODES);
}

Test(member, the_nth_allocation_fails)
{
	uint32_t nth;

	for (nth = 1;; nth += 1 + nth / 40) {
		struct goal goal = { 3 };

		peer_start(0);
		peer_start(1);
		mt_rig_run(rig, NUM_MS(1) * (nth % 7));
		mt_alloc_fail_at(nth);
		cr_assert(mt_rig_run_until(rig, is_shared_or_failed, &goal), "allocation %u\n%s",
		    nth, getenv("CLEAVE_TEST_LOG") != NULL ? rig->log : "");
		if (!mt_alloc_has_failed())
			break;
		mt_alloc_fail_at(0);
		peer_kill(nth % 2);
		peer_kill(1 - nth % 2);
		cr_assert_lt(nth, 3000);
	}
	mt_alloc_fail_at(0);
	cr_assert_gt(nth, 10);
}
