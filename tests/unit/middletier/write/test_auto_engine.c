/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_auto_engine.c -- what "auto" settles on, and what finding it out costs
 *
 * Engines are played by a table of times and savings, so that a choice is a matter of arithmetic:
 * nothing is compressed and no clock is read.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/session/auto_state.h"
#include "middletier/write/auto_engine.h"
#include "middletier/write/policy.h"

#define RAW_NS 100u
#define PROBE_NS 80u

struct model {
	uint8_t codec_id;
	int level;
	uint32_t ns, stored_bytes;
};

/* As on the Silesia files, one core. */
static const struct model text_model[] = {
	{ ENGINE_NONE, 0, RAW_NS, 4096 },
	{ ENGINE_LZ4, 1, 6500, 2490 },
	{ ENGINE_SNAPPY, 0, 6600, 2511 },
	{ ENGINE_DEFLATE, 0, 8100, 2269 },
	{ ENGINE_ZSTD, 1, 16500, 1812 },
	{ ENGINE_ZSTD, 3, 22900, 1788 },
};
static const struct model dense_model[] = {
	{ ENGINE_NONE, 0, RAW_NS, 4096 },
	{ ENGINE_LZ4, 1, 770, 4096 },
	{ ENGINE_SNAPPY, 0, 400, 4096 },
	{ ENGINE_DEFLATE, 0, 8000, 4096 },
	{ ENGINE_ZSTD, 1, 5000, 4096 },
	{ ENGINE_ZSTD, 3, 7000, 4096 },
};
/* Only entropy coding saves anything, as of numbers in text without repetitions. */
static const struct model digits_model[] = {
	{ ENGINE_NONE, 0, RAW_NS, 4096 },
	{ ENGINE_LZ4, 1, 9000, 4096 },
	{ ENGINE_SNAPPY, 0, 9000, 4096 },
	{ ENGINE_DEFLATE, 0, 9000, 4096 },
	{ ENGINE_ZSTD, 1, 9500, 2000 },
	{ ENGINE_ZSTD, 3, 19000, 2000 },
};

struct volume {
	struct mt_auto state;
	enum service_class service_class;
	uint32_t time_weight;
	uint64_t ns;                          /* spent in engines */
	uint32_t counts[ENGINE_ID_NR];        /* writes that a codec worked on */
	uint32_t skipped_count, change_count; /* by the probe; of mind */
	uint64_t slow_ns;                     /* added to the next job: the thread was preempted */
};

static const struct model *
model_of(const struct model *models, const struct mt_policy *policy)
{
	for (uint32_t i = 0; i < MT_AUTO_CANDIDATES; i++)
		if (models[i].codec_id == policy->codec_id && models[i].level == policy->level)
			return &models[i];
	cr_assert_fail("no candidate: codec %u level %d", policy->codec_id, policy->level);
	return NULL;
}

/* A write of blocks that behave like @models; @looks_dense: what the probe says. */
static uint8_t
write_one(struct volume *volume, const struct model *models, bool looks_dense)
{
	uint32_t weight = volume->time_weight != 0 ? volume->time_weight : 1;
	struct mt_policy policy = mt_auto_pick(&volume->state, volume->service_class, weight);
	const struct model *model = model_of(models, &policy);
	struct engine_job job = { .kind = ENGINE_JOB_STORE,
		.codec_id = policy.codec_id,
		.level = policy.level,
		.probe = policy.probe,
		.src_bytes = CLEAVE_BLOCK_BYTES,
		.block_count = 1,
		.dst_bytes = model->stored_bytes,
		.run_ns = model->ns };

	cr_assert(policy.is_auto);
	cr_assert_not(policy.is_urgent);
	job.is_dense = policy.probe != ENGINE_PROBE_NONE && looks_dense;
	if (job.is_dense && policy.probe == ENGINE_PROBE_SKIP) {
		job.run_ns = RAW_NS;
		job.dst_bytes = CLEAVE_BLOCK_BYTES;
		volume->skipped_count++;
	} else {
		volume->counts[policy.codec_id]++;
	}
	job.run_ns += policy.probe != ENGINE_PROBE_NONE ? PROBE_NS : 0;
	volume->ns += job.run_ns;
	job.run_ns += volume->slow_ns;
	volume->slow_ns = 0;
	if (mt_auto_learn(&volume->state, volume->service_class, &job))
		volume->change_count++;
	return policy.codec_id;
}

static void
write_many(struct volume *volume, const struct model *models, bool looks_dense, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)write_one(volume, models, looks_dense);
}

static void
expect(const struct volume *volume, const char *name, int level)
{
	int chosen_level;

	cr_assert_str_eq(mt_auto_chosen(&volume->state, &chosen_level), name);
	cr_assert_eq(chosen_level, level);
}

Test(auto_engine, settles_by_the_price_of_the_service_class)
{
	struct volume standard = { .service_class = SERVICE_STANDARD };
	struct volume capacity = { .service_class = SERVICE_CAPACITY };

	expect(&standard, "none", 0);
	write_many(&standard, text_model, false, 100);
	expect(&standard, "deflate", 0);
	cr_assert_eq(standard.change_count, 1);
	write_many(&capacity, text_model, false, 100);
	expect(&capacity, "zstd", 1);
}

Test(auto_engine, most_writes_go_to_what_is_chosen)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	write_many(&volume, text_model, false, 10000);
	cr_assert_gt(volume.counts[ENGINE_DEFLATE], 9850);
	cr_assert_eq(volume.change_count, 1);
	/* Every engine is tried again now and then. */
	cr_assert_gt(volume.counts[ENGINE_LZ4], 8);
	cr_assert_gt(volume.counts[ENGINE_ZSTD], 8);
}

/* The bound: 15 % of what LZ4 would have spent, whatever there is to store raw beside it. */
Test(auto_engine, dense_data_costs_little)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };
	uint64_t lz4_ns = 10000u * dense_model[1].ns, raw_ns = 10000u * RAW_NS;

	write_many(&volume, dense_model, true, 10000);
	expect(&volume, "none", 0);
	cr_assert_leq(volume.ns - raw_ns, lz4_ns * 15 / 100, "%lu of %lu",
	    (unsigned long)(volume.ns - raw_ns), (unsigned long)lz4_ns);
}

Test(auto_engine, dense_blocks_among_others_are_left_out)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	for (uint32_t i = 0; i < 10000; i++)
		(void)write_one(&volume, i % 3 == 0 ? dense_model : text_model, i % 3 == 0);
	cr_assert_gt(volume.skipped_count, 3200);
	cr_assert_gt(volume.counts[ENGINE_DEFLATE] + volume.counts[ENGINE_LZ4], 6000);
}

/* The 128 bytes of the probe looked random; the rest repeats them. */
Test(auto_engine, a_probe_that_is_wrong_is_not_asked)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	write_many(&volume, text_model, true, 1000);
	expect(&volume, "deflate", 0);
	cr_assert_eq(volume.skipped_count, 0);
}

Test(auto_engine, what_only_one_engine_saves_is_found)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	write_many(&volume, digits_model, false, 2000);
	expect(&volume, "zstd", 1);
}

Test(auto_engine, follows_the_content)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	write_many(&volume, text_model, false, 3000);
	expect(&volume, "deflate", 0);
	write_many(&volume, dense_model, true, 3000);
	expect(&volume, "none", 0);
	write_many(&volume, text_model, false, 20000);
	expect(&volume, "deflate", 0);
}

Test(auto_engine, time_weighs_more_under_load)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };
	uint32_t lz4_count;

	write_many(&volume, text_model, false, 200);
	volume.time_weight = 4;
	lz4_count = volume.counts[ENGINE_NONE] + volume.counts[ENGINE_LZ4];
	write_many(&volume, text_model, false, 100);
	cr_assert_gt(volume.counts[ENGINE_NONE] + volume.counts[ENGINE_LZ4], lz4_count + 80);
	volume.time_weight = 1;
	write_many(&volume, text_model, false, 1);
	expect(&volume, "deflate", 0);
}

Test(auto_engine, a_preempted_job_changes_nothing)
{
	struct volume volume = { .service_class = SERVICE_STANDARD };

	write_many(&volume, text_model, false, 100);
	for (uint32_t i = 0; i < 100; i++) {
		volume.slow_ns = NUM_MS(20);
		write_many(&volume, text_model, false, 400);
	}
	expect(&volume, "deflate", 0);
}

/* A clock that stands still, as in the simulator: the best ratio, in a fixed order. */
Test(auto_engine, without_time_the_saving_decides)
{
	struct model models[MT_AUTO_CANDIDATES];
	struct volume volume = { .service_class = SERVICE_STANDARD };

	memcpy(models, text_model, sizeof(models));
	for (uint32_t i = 0; i < MT_AUTO_CANDIDATES; i++)
		models[i].ns = 0;
	write_many(&volume, models, false, 100);
	expect(&volume, "zstd", 1);
}

Test(auto_engine, the_same_writes_give_the_same_choices)
{
	struct volume a = { .service_class = SERVICE_STANDARD }, b = a;
	uint64_t seed = 7;

	for (uint32_t i = 0; i < 5000; i++) {
		seed = num_mix_u64(seed + i);
		const struct model *models = seed % 3 == 0 ? dense_model : text_model;

		cr_assert_eq(write_one(&a, models, seed % 5 == 0),
		    write_one(&b, models, seed % 5 == 0));
	}
	cr_assert_eq(memcmp(&a.state, &b.state, sizeof(a.state)), 0);
}

Test(auto_engine, zeros_are_no_sample)
{
	struct mt_auto state = { 0 };
	struct engine_job job = { .kind = ENGINE_JOB_STORE,
		.src_bytes = CLEAVE_BLOCK_BYTES,
		.block_count = 1,
		.is_zero = true };

	cr_assert_not(mt_auto_learn(&state, SERVICE_STANDARD, &job));
	cr_assert_eq(state.measures[0].sample_count, 0);
}
