/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_auto -- what does the engine "auto" choose, and what does choosing cost?
 *
 *	bench_auto FILE...
 *
 * Each file's 4 KiB blocks, and as many of random bytes, as STORE jobs of a standard volume: stored
 * raw, by LZ4, and by what auto picks, three times in turn. Times are the thread's CPU time.
 *
 *	auto_over_lz4    time in engines, auto against LZ4
 *	spent_over_lz4   what auto spends beyond storing raw, of what LZ4 spends beyond that: at most
 *	                 0.15 on random bytes
 *
 * Output: one JSON object a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../middletier/catalog/wish.h"
#include "../middletier/write/auto_engine.h"
#include "../middletier/write/policy.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/engine.h"
#include "cleave/wire.h"

#define BLOCKS_MAX 8192u
#define ROUNDS 3u

struct bench {
	uint8_t *blocks, *stored;
	uint32_t *crcs;
	uint32_t count;
	struct engine_set *set;
};

struct result {
	uint64_t ns, stored_bytes;
};

static uint64_t
now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return NUM_S((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

static void *
must(void *memory)
{
	if (memory == NULL) {
		(void)fprintf(stderr, "bench_auto: out of memory\n");
		exit(1);
	}
	return memory;
}

/* Each block once; @codec_id MT_CODEC_AUTO: as @state says. */
static struct result
run(const struct bench *bench, uint8_t codec_id, struct mt_auto *state)
{
	struct result result = { 0 };

	for (uint32_t i = 0; i < bench->count; i++) {
		struct mt_policy policy = { .codec_id = codec_id };
		struct engine_job job;
		uint64_t begin_ns;

		if (codec_id == MT_CODEC_AUTO)
			policy = mt_auto_pick(state, SERVICE_STANDARD, 1);
		else
			policy.level = engine_by_id(codec_id)->level_default;
		job = (struct engine_job){ .kind = ENGINE_JOB_STORE,
			.codec_id = policy.codec_id,
			.level = policy.level,
			.probe = policy.probe,
			.src = { (uintptr_t)bench->blocks + (size_t)i * CLEAVE_BLOCK_BYTES },
			.src_bytes = CLEAVE_BLOCK_BYTES,
			.dst = { (uintptr_t)bench->stored },
			.dst_cap_bytes = CLEAVE_BLOCK_BYTES,
			.payload_crc = bench->crcs[i],
			.block_count = 1 };
		begin_ns = now_ns();
		if (engine_submit(bench->set, &job) != 1 || job.rc != 0)
			abort();
		job.run_ns = now_ns() - begin_ns;
		result.ns += job.run_ns;
		result.stored_bytes += job.dst_bytes;
		if (codec_id == MT_CODEC_AUTO)
			(void)mt_auto_learn(state, SERVICE_STANDARD, &job);
	}
	return result;
}

static void
measure(const struct bench *bench, const char *name)
{
	struct result raw = { .ns = UINT64_MAX }, lz4 = raw, automatic = raw;
	struct mt_auto state = { 0 };
	double plain_bytes = (double)bench->count * CLEAVE_BLOCK_BYTES;
	int level;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct result a = run(bench, ENGINE_NONE, NULL), b = run(bench, ENGINE_LZ4, NULL);
		struct result c;

		state = (struct mt_auto){ 0 }; /* what it learns is part of the price */
		c = run(bench, MT_CODEC_AUTO, &state);
		raw = a.ns < raw.ns ? a : raw;
		lz4 = b.ns < lz4.ns ? b : lz4;
		automatic = c.ns < automatic.ns ? c : automatic;
	}
	(void)printf("{\"data\": \"%s\", \"blocks_count\": %u, \"chosen\": \"%s\", "
		     "\"lz4_ratio\": %.3f, \"auto_ratio\": %.3f, \"auto_over_lz4\": %.3f, "
		     "\"spent_over_lz4\": %.3f}\n",
	    name, bench->count, mt_auto_chosen(&state, &level),
	    plain_bytes / (double)lz4.stored_bytes, plain_bytes / (double)automatic.stored_bytes,
	    (double)automatic.ns / (double)lz4.ns,
	    ((double)automatic.ns - (double)raw.ns) / ((double)lz4.ns - (double)raw.ns));
}

static void
take(struct bench *bench, uint32_t count)
{
	bench->count = count;
	for (uint32_t i = 0; i < count; i++)
		bench->crcs[i] =
		    crc32c(0, bench->blocks + (size_t)i * CLEAVE_BLOCK_BYTES, CLEAVE_BLOCK_BYTES);
}

int
main(int argc, char *argv[])
{
	struct engine_set_options options = { 0 };
	struct bench bench = {
		.blocks = must(malloc((size_t)BLOCKS_MAX * CLEAVE_BLOCK_BYTES)),
		.stored = must(malloc(CLEAVE_BLOCK_BYTES)),
		.crcs = must(calloc(BLOCKS_MAX, sizeof(uint32_t))),
		.set = must(engine_set_create(NULL, &options)),
	};

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		const char *slash = strrchr(argv[i], '/');

		if (file == NULL) {
			perror(argv[i]);
			return 1;
		}
		take(&bench, (uint32_t)fread(bench.blocks, CLEAVE_BLOCK_BYTES, BLOCKS_MAX, file));
		(void)fclose(file);
		if (bench.count > 0)
			measure(&bench, slash != NULL ? slash + 1 : argv[i]);
	}
	for (size_t i = 0; i < (size_t)BLOCKS_MAX * CLEAVE_BLOCK_BYTES / 8; i++) {
		uint64_t word = num_mix_u64(i + 1);

		memcpy(bench.blocks + 8 * i, &word, sizeof(word));
	}
	take(&bench, BLOCKS_MAX);
	measure(&bench, "random bytes");
	engine_set_destroy(bench.set);
	free(bench.blocks);
	free(bench.stored);
	free(bench.crcs);
	return 0;
}
