/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy.c -- the table of policy.c, idle and under load */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/catalog/wish.h"
#include "middletier/common/port.h"
#include "middletier/session/auto_state.h"
#include "middletier/write/auto_engine.h"
#include "middletier/write/policy.h"

static struct mt_port port;

static void
check_policy(const struct mt_policy *policy, uint8_t codec_id, int level, bool is_urgent)
{
	cr_assert_eq(policy->codec_id, codec_id, "codec %u", policy->codec_id);
	cr_assert_eq(policy->level, level, "level %d", policy->level);
	cr_assert_eq(policy->is_urgent, is_urgent);
}

static void
expect(const struct mt_volume *volume, enum service_class service_class, uint8_t codec_id,
    int level, bool is_urgent)
{
	struct mt_policy policy = mt_policy_pick(&port, volume, NULL, service_class, false);

	check_policy(&policy, codec_id, level, is_urgent);
}

static const struct mt_volume lz4 = { .codec_id = ENGINE_LZ4, .level = 3 };
static const struct mt_volume zstd = { .codec_id = ENGINE_ZSTD, .level = 9 };
static const struct mt_volume none = { .codec_id = ENGINE_NONE };

Test(policy, idle)
{
	expect(&lz4, SERVICE_STANDARD, ENGINE_LZ4, 3, false);
	expect(&zstd, SERVICE_STANDARD, ENGINE_ZSTD, 9, false);
	expect(&none, SERVICE_STANDARD, ENGINE_NONE, 0, false);
	expect(&lz4, SERVICE_CAPACITY, ENGINE_ZSTD, 3, false);
	expect(&zstd, SERVICE_CAPACITY, ENGINE_ZSTD, 9, false);
	expect(&lz4, SERVICE_LATENCY, ENGINE_NONE, 0, true);
	expect(&zstd, SERVICE_LATENCY, ENGINE_NONE, 0, true);
}

Test(policy, a_volume_without_a_codec_gets_a_quick_one_while_the_log_is_long)
{
	struct mt_policy policy = mt_policy_pick(&port, &none, NULL, SERVICE_STANDARD, true);

	check_policy(&policy, ENGINE_LZ4, 1, false);
	cr_assert_eq(policy.probe, ENGINE_PROBE_SKIP, "what is dense is stored raw");
	cr_assert_not(policy.is_auto);
	policy = mt_policy_pick(&port, &none, NULL, SERVICE_LATENCY, true);
	check_policy(&policy, ENGINE_NONE, 0, true);
	policy = mt_policy_pick(&port, &none, NULL, SERVICE_CAPACITY, true);
	check_policy(&policy, ENGINE_ZSTD, 3, false);
	policy = mt_policy_pick(&port, &zstd, NULL, SERVICE_STANDARD, true);
	check_policy(&policy, ENGINE_ZSTD, 9, false);
}

static const struct mt_volume automatic = { .codec_id = MT_CODEC_AUTO };

Test(policy, auto_is_asked_per_class_and_never_for_latency)
{
	struct mt_auto autos[SERVICE_CLASS_NR] = { 0 };
	struct mt_policy policy = mt_policy_pick(&port, &automatic, autos, SERVICE_LATENCY, false);

	cr_assert_eq(policy.codec_id, ENGINE_NONE);
	cr_assert(policy.is_urgent);
	cr_assert_not(policy.is_auto);
	autos[SERVICE_CAPACITY] =
	    (struct mt_auto){ .is_settled = true, .chosen = 4, .trial_left_count = 9 };
	policy = mt_policy_pick(&port, &automatic, autos, SERVICE_STANDARD, false);
	cr_assert_eq(policy.codec_id, ENGINE_NONE); /* the first to be measured */
	cr_assert(policy.is_auto);
	policy = mt_policy_pick(&port, &automatic, autos, SERVICE_CAPACITY, true);
	cr_assert_eq(policy.codec_id, ENGINE_ZSTD);
	cr_assert_eq(policy.level, 1);
}

Test(policy, learns_once_from_a_job_and_not_from_a_failed_one)
{
	struct mt_auto autos[SERVICE_CLASS_NR] = { 0 };
	struct engine_job job = { .kind = ENGINE_JOB_STORE,
		.codec_id = ENGINE_LZ4,
		.level = 1,
		.src_bytes = 4096,
		.dst_bytes = 2000,
		.block_count = 1,
		.must_time = true };

	job.rc = -EBADMSG;
	mt_policy_learn(&automatic, autos, SERVICE_STANDARD, &job);
	cr_assert_eq(autos[SERVICE_STANDARD].measures[1].sample_count, 0);
	job.rc = 0;
	for (uint32_t i = 0; i < 3; i++)
		mt_policy_learn(&automatic, autos, SERVICE_STANDARD, &job);
	cr_assert_eq(autos[SERVICE_STANDARD].measures[1].sample_count, 1);
}

Test(policy, a_wish_is_an_engine_or_auto)
{
	struct mt_wish wish = { .codec_id = 77 };

	cr_assert(mt_wish_by_name("auto", &wish));
	cr_assert_eq(wish.codec_id, MT_CODEC_AUTO);
	cr_assert(mt_wish_by_id(MT_CODEC_AUTO, &wish));
	cr_assert_str_eq(wish.name, "auto");
	cr_assert(mt_wish_by_name("zstd", &wish));
	cr_assert_eq(wish.codec_id, ENGINE_ZSTD);
	cr_assert_eq(wish.level_max, 19);
	cr_assert_not(mt_wish_by_name("rar", &wish));
	cr_assert_not(mt_wish_by_id(ENGINE_ID_NR, &wish));
	cr_assert_eq(wish.codec_id, ENGINE_ZSTD);
}

static void
on_job(struct engine_job *job, void *arg)
{
	(void)job;
	(*(size_t *)arg)--;
}

static bool
is_none_left(void *arg)
{
	return *(const size_t *)arg == 0;
}

struct expected {
	const struct mt_volume *volume;
	enum service_class service_class;
	uint8_t codec_id;
	int level;
	bool is_urgent;
};

/*
 * Picks as @all says, while @queued_min jobs wait or more. Returns whether it was so: a thread takes them from the queue meanwhile,
 * and nothing tells how many of them before this one runs again.
 */
static bool
picks_while_queued(uint32_t queued_min, const struct expected *all, size_t count)
{
	struct mt_auto autos[SERVICE_CLASS_NR] = { 0 };
	struct mt_policy policies[8];

	cr_assert_leq(count, NUM_COUNT(policies));
	for (size_t i = 0; i < count; i++)
		policies[i] =
		    mt_policy_pick(&port, all[i].volume, autos, all[i].service_class, true);
	if (engine_set_queued_count(port.engines) < queued_min)
		return false;
	for (size_t i = 0; i < count; i++)
		check_policy(&policies[i], all[i].codec_id, all[i].level, all[i].is_urgent);
	return true;
}

static const struct expected when_high[] = {
	{ &lz4, SERVICE_STANDARD, ENGINE_LZ4, -7, false },
	{ &none, SERVICE_STANDARD, ENGINE_NONE, 0, false },
	{ &zstd, SERVICE_CAPACITY, ENGINE_LZ4, 1, false },
};
static const struct expected when_extreme[] = {
	{ &zstd, SERVICE_STANDARD, ENGINE_NONE, 0, false },
	{ &automatic, SERVICE_STANDARD, ENGINE_NONE, 0, false },
	{ &zstd, SERVICE_CAPACITY, ENGINE_LZ4, -7, false },
	{ &zstd, SERVICE_LATENCY, ENGINE_NONE, 0, true },
};

/*
 * A worker that has gigabytes to checksum: what is submitted meanwhile waits. The jobs share
 * their source, which they only read.
 */
Test(policy, under_load)
{
	static struct engine_job jobs[200];
	static uint8_t bytes[16 << 20];
	const struct engine_set_options options = { .thread_count = 1, .queue_depth_max = 256 };
	struct loop *loop = loop_ev_create(1);
	size_t left_count = 0;
	bool has_high = false, has_extreme = false;

	port.engines = engine_set_create(loop, &options);
	cr_assert(port.engines != NULL);
	for (size_t i = 0; i < NUM_COUNT(jobs); i++) {
		uint32_t queued = engine_set_queued_count(port.engines);

		jobs[i] = (struct engine_job){
			.kind = ENGINE_JOB_CRC,
			.src = { (uintptr_t)bytes },
			.src_bytes = sizeof(bytes),
			.fn = on_job,
			.arg = &left_count,
		};
		if (queued >= 34 && queued < 60) {
			has_high |= picks_while_queued(32, when_high, NUM_COUNT(when_high));
		} else if (queued >= 70) {
			has_extreme |=
			    picks_while_queued(64, when_extreme, NUM_COUNT(when_extreme));
		}
		if (engine_submit(port.engines, &jobs[i]) != 0)
			break;
		left_count++;
	}
	cr_assert(has_high && has_extreme);
	(void)loop_run(loop, is_none_left, &left_count);
	engine_set_destroy(port.engines);
	port.engines = NULL;
	loop_destroy(loop);
}
