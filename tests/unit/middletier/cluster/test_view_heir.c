/* SPDX-License-Identifier: Apache-2.0 */
/* test_view_heir.c -- gateways tell those that their shards fall to of what they write, and take-overs read less */
#include "base/num.h"
#include "cleave/batch.h"
#include "middletier/common/metric.h"
#include "middletier/common/root.h"
#include "middletier/extent/head_mirror.h"
#include "middletier/extent/head_push.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/member_fixture.h"

#define MIRROR_BYTES NUM_KIB(512)

static void
setup_mirrored(void)
{
	setup();
	rig->gateway_options.mirror_bytes = MIRROR_BYTES;
}

TestSuite(view_heir, .init = setup_mirrored, .fini = teardown);

static uint64_t
metric(uint32_t index, enum mt_metric metric)
{
	return peers[index].gateway->ports[0].metrics[metric];
}

/* Does gateway @index have the first head of @shard's manifest, as its owner @owner_index has it? */
static bool
has_manifest(uint32_t index, uint32_t owner_index, uint32_t shard)
{
	uint8_t head[BATCH_HEAD_BYTES_MAX];

	return mt_head_mirror_get(peers[index].gateway->ports[0].head_mirror,
		   &shard_of(owner_index, shard)->root->manifest, 0, head) > 0;
}

static bool
are_told(void *arg)
{
	uint32_t members = *(const uint32_t *)arg;

	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		uint32_t owner = winner(members, shard);

		if (!has_manifest(winner(members & ~(1u << owner), shard), owner, shard))
			return false;
	}
	return true;
}

Test(view_heir, heirs_are_told)
{
	uint32_t members = 7;

	/* Together: who came later would have made others' heirs of before. */
	for (uint32_t i = 0; i < 3; i++)
		peer_start(i);
	(void)wait_shared(members);
	cr_assert(mt_rig_run_until(rig, are_told, &members));
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_gt(metric(i, MT_METRIC_heads_mirrored), 0);
		cr_assert_eq(metric(i, MT_METRIC_heads_refused), 0);
	}
}

Test(view_heir, of_one_that_was_killed_the_heads_are_in_memory)
{
	uint32_t members = 3;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(members);
	cr_assert(mt_rig_run_until(rig, are_told, &members));
	peer_kill(1);
	(void)wait_shared(1);
	cr_assert_geq(metric(0, MT_METRIC_heads_taken), SHARDS / 2);
	cr_assert_eq(metric(0, MT_METRIC_heads_refused), 0);
}

Test(view_heir, alone_it_tells_nobody)
{
	peer_start(0);
	(void)wait_shared(1);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(metric(0, MT_METRIC_heads_mirrored), 0);
	cr_assert_eq(metric(0, MT_METRIC_heads_dropped), 0);
}

/* The first shard of @members that is @owner's. */
static uint32_t
shard_owned(uint32_t members, uint32_t owner)
{
	uint32_t shard = 0;

	while (winner(members, shard) != owner)
		shard++;
	cr_assert_lt(shard, SHARDS);
	return shard;
}

/* All replicas have batch @index of a log of @shard, as gateway 0 is told. */
static void
push_log(uint32_t shard, uint32_t index)
{
	uint8_t head[BATCH_HEADER_BYTES] = { 0 };
	struct batch_info info = { .id = { shard, 1, 77 },
		.kind = EXTENT_LOG,
		.offset_bytes = (uint64_t)index * BATCH_ALIGN,
		.batch_bytes = BATCH_ALIGN,
		.used_bytes = BATCH_HEADER_BYTES };

	batch_head_encode(head, &info);
	mt_head_push(&peers[0].gateway->ports[0], &info, head);
}

/* A message for each batch would be dear where batches are short. */
Test(view_heir, heads_of_a_log_go_some_at_a_time)
{
	uint32_t members = 3, shard;
	uint64_t before;

	peer_start(0);
	peer_start(1);
	(void)wait_shared(members);
	cr_assert(mt_rig_run_until(rig, are_told, &members));
	mt_rig_run(rig, NUM_S(5));
	shard = shard_owned(members, 0);
	before = metric(0, MT_METRIC_heads_mirrored);
	for (uint32_t i = 0; i < 15; i++)
		push_log(shard, i);
	mt_rig_run(rig, NUM_S(5));
	cr_assert_eq(metric(0, MT_METRIC_heads_mirrored), before);
	push_log(shard, 15);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(metric(0, MT_METRIC_heads_mirrored), before + 16);
}

static bool
has_dropped(void *arg)
{
	(void)arg;
	return metric(1, MT_METRIC_heads_dropped) > 0;
}

Test(view_heir, a_gateway_that_keeps_none_is_no_harm)
{
	rig->gateway_options.mirror_bytes = 0;
	peer_start(0);
	rig->gateway_options.mirror_bytes = MIRROR_BYTES;
	peer_start(1);
	(void)wait_shared(3);
	cr_assert(mt_rig_run_until(rig, has_dropped, NULL));
	cr_assert(mt_rig_logged(rig, "give it --mirror-heads peer=sim://peer0:7100"));
	cr_assert_eq(metric(1, MT_METRIC_heads_mirrored), 0);
	cr_assert_eq(metric(0, MT_METRIC_heads_kept), 0);
	peer_kill(0);
	(void)wait_shared(2);
	cr_assert_eq(metric(1, MT_METRIC_heads_taken), 0);
}

/* The heir dies, another is told from then on, and it comes back: nobody waits for any of that. */
Test(view_heir, heirs_come_and_go)
{
	uint32_t members = 3;

	for (uint32_t i = 0; i < 3; i++)
		peer_start(i);
	(void)wait_shared(7);
	for (uint32_t round = 0; round < 4; round++) {
		peer_kill(2);
		(void)wait_shared(members);
		peer_start(2);
		(void)wait_shared(7);
	}
	mt_gateway_stop(peers[2].gateway, on_stopped, &peers[2]);
	cr_assert(mt_rig_run_until(rig, has_stopped, &peers[2]));
	peer_end(&peers[2]);
	(void)wait_shared(members);
	cr_assert_eq(metric(0, MT_METRIC_heads_refused) + metric(1, MT_METRIC_heads_refused), 0);
	cr_assert_gt(metric(0, MT_METRIC_heads_taken) + metric(1, MT_METRIC_heads_taken), 0);
}
