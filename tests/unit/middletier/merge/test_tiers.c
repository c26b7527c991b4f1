/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of middletier/tiers.c, and a model of a shard under it: chunks of blocks, layers, runs as sets of
 * blocks, extents that go when no run is left in them. No I/O: it computes what a workload would write,
 * and what space it would take.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "middletier/merge/tiers.h"

#define MODEL_BLOCKS 512u /* of a chunk */
#define MODEL_RUNS_MAX 64u
#define MODEL_EXTENTS_MAX 16384u
#define MODEL_CHUNKS_MAX 256u

struct model_run {
	uint8_t has[MODEL_BLOCKS];
	uint32_t bytes; /* in blocks */
	uint32_t extent;
};

struct model_chunk {
	struct model_run *runs[MODEL_RUNS_MAX]; /* newest first */
	uint32_t run_count;
	uint8_t layer[MODEL_BLOCKS];
	uint32_t layer_bytes, layer_keys;
	uint64_t first; /* of the layer's records */
	uint32_t live;  /* as last counted */
};

struct model {
	struct model_chunk chunks[MODEL_CHUNKS_MAX];
	uint32_t chunk_count;
	uint32_t extent_blocks;
	uint64_t log_limit;
	uint64_t clock; /* records written; one block each */
	uint64_t run_written, peak_space, space_sum, space_count;
	uint32_t extent_used[MODEL_EXTENTS_MAX], extent_live[MODEL_EXTENTS_MAX];
	uint32_t extent_count;
	uint64_t random;
};

static uint64_t
model_random(struct model *m, uint64_t below)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (m->random >> 33) % below;
}

static uint32_t
model_open_extent(struct model *m, uint32_t bytes)
{
	if (m->extent_count == 0 ||
	    m->extent_used[m->extent_count - 1] + bytes > m->extent_blocks) {
		cr_assert_lt(m->extent_count, MODEL_EXTENTS_MAX);
		m->extent_count++;
	}
	return m->extent_count - 1;
}

static uint64_t
model_extent_blocks(const struct model *m)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < m->extent_count; i++)
		sum += m->extent_live[i] > 0 ? m->extent_used[i] : 0;
	return sum;
}

static uint64_t
model_log_blocks(const struct model *m)
{
	uint64_t first = m->clock;

	for (uint32_t c = 0; c < m->chunk_count; c++) {
		if (m->chunks[c].layer_bytes > 0)
			first = num_min(first, m->chunks[c].first);
	}
	/* Whole extents, and one that fills. */
	return num_round_up(m->clock - first + m->extent_blocks / 2, 1);
}

static uint32_t
model_count(const struct model_chunk *chunk)
{
	uint32_t count = 0;

	for (uint32_t b = 0; b < MODEL_BLOCKS; b++) {
		for (uint32_t r = 0; r < chunk->run_count; r++) {
			if (chunk->runs[r]->has[b]) {
				count++;
				break;
			}
		}
	}
	return count;
}

static struct tiers_group
model_group(const struct model_chunk *chunk, uint64_t *bytes, bool has_layer)
{
	for (uint32_t r = 0; r < chunk->run_count; r++)
		bytes[r] = chunk->runs[r]->bytes;
	return (struct tiers_group){ bytes, chunk->run_count, has_layer ? chunk->layer_keys : 0,
		chunk->live };
}

static struct tiers_total
model_total(const struct model *m)
{
	struct tiers_total total = { .slot_bytes = m->extent_blocks };

	for (uint32_t c = 0; c < m->chunk_count; c++) {
		total.live_bytes += m->chunks[c].live;
		for (uint32_t r = 0; r < m->chunks[c].run_count; r++)
			total.run_bytes += m->chunks[c].runs[r]->bytes;
	}
	total.extent_bytes = model_extent_blocks(m);
	return total;
}

/* The layer, if @has_layer, and runs [@first, @first + @count) become one run. */
static void
model_merge(struct model *m, struct model_chunk *chunk, bool has_layer, uint32_t first,
    uint32_t count)
{
	struct model_run *run = calloc(1, sizeof(*run));

	for (uint32_t b = 0; b < MODEL_BLOCKS; b++) {
		run->has[b] = has_layer && chunk->layer[b];
		for (uint32_t r = first; r < first + count; r++)
			run->has[b] |= chunk->runs[r]->has[b];
		run->bytes += run->has[b];
	}
	for (uint32_t r = first; r < first + count; r++) {
		m->extent_live[chunk->runs[r]->extent] -= chunk->runs[r]->bytes;
		free(chunk->runs[r]);
	}
	run->extent = model_open_extent(m, run->bytes);
	m->extent_used[run->extent] += run->bytes;
	m->extent_live[run->extent] += run->bytes;
	m->run_written += run->bytes;
	memmove(&chunk->runs[first + 1], &chunk->runs[first + count],
	    (chunk->run_count - first - count) * sizeof(chunk->runs[0]));
	chunk->runs[first] = run;
	chunk->run_count = chunk->run_count - count + 1;
	cr_assert_lt(chunk->run_count, MODEL_RUNS_MAX - 1);
	if (has_layer) {
		memset(chunk->layer, 0, sizeof(chunk->layer));
		chunk->layer_bytes = chunk->layer_keys = 0;
	}
	chunk->live = model_count(chunk);
}

static void
model_flush(struct model *m, struct model_chunk *chunk)
{
	uint64_t bytes[MODEL_RUNS_MAX];
	struct tiers_group group = model_group(chunk, bytes, true);
	struct tiers_total total = model_total(m);
	uint32_t count = mt_tiers_take(&group, mt_tiers_is_dirty(&total));

	if (count == 0) { /* a new run before the others */
		memmove(&chunk->runs[1], &chunk->runs[0],
		    chunk->run_count * sizeof(chunk->runs[0]));
		chunk->run_count++;
		chunk->runs[0] = calloc(1, sizeof(struct model_run));
		model_merge(m, chunk, true, 0, 1);
	} else {
		model_merge(m, chunk, true, 0, count);
	}
}

static void
model_compact(struct model *m)
{
	struct tiers_total total = model_total(m);
	struct model_chunk *worst = NULL;
	uint32_t worst_garbage = 0;

	while (mt_tiers_is_overdue(&total)) {
		worst = NULL;
		worst_garbage = 0;
		for (uint32_t c = 0; c < m->chunk_count; c++) {
			uint64_t bytes[MODEL_RUNS_MAX];
			struct tiers_group group = model_group(&m->chunks[c], bytes, false);
			uint32_t garbage = mt_tiers_garbage(&group);

			if (garbage > worst_garbage) {
				worst_garbage = garbage;
				worst = &m->chunks[c];
			}
		}
		if (worst == NULL)
			return;
		model_merge(m, worst, worst->layer_keys > 0, 0, worst->run_count);
		total = model_total(m);
	}
	while (mt_tiers_is_holey(&total)) {
		uint32_t extent = 0;
		double worst_dead = 0;

		for (uint32_t i = 0; i + 1 < m->extent_count; i++) {
			double dead = m->extent_live[i] == 0
			    ? 0
			    : 1.0 - (double)m->extent_live[i] / m->extent_used[i];

			if (dead > worst_dead) {
				worst_dead = dead;
				extent = i;
			}
		}
		if (worst_dead == 0)
			return;
		for (uint32_t c = 0; c < m->chunk_count; c++) {
			struct model_chunk *chunk = &m->chunks[c];

			for (uint32_t r = 0; r < chunk->run_count; r++) {
				if (chunk->runs[r]->extent != extent)
					continue;
				model_merge(m, chunk, chunk->layer_keys > 0, 0, chunk->run_count);
			}
		}
		total = model_total(m);
	}
}

static void
model_write(struct model *m, uint64_t block)
{
	struct model_chunk *chunk = &m->chunks[block / MODEL_BLOCKS];

	if (chunk->layer_bytes++ == 0)
		chunk->first = m->clock;
	chunk->layer_keys += !chunk->layer[block % MODEL_BLOCKS];
	chunk->layer[block % MODEL_BLOCKS] = 1;
	m->clock++;
	if (m->clock % 64 != 0)
		return;
	while (model_log_blocks(m) > m->log_limit) {
		struct model_chunk *oldest = NULL;

		for (uint32_t c = 0; c < m->chunk_count; c++) {
			if (m->chunks[c].layer_bytes > 0 &&
			    (oldest == NULL || m->chunks[c].first < oldest->first))
				oldest = &m->chunks[c];
		}
		model_flush(m, oldest);
		model_compact(m);
	}
}

struct model_result {
	double write_amplification, space_mean, space_peak;
};

static struct model_result
model_run(uint32_t chunk_count, uint32_t slots, double log_share, bool is_skewed)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t volume = (uint64_t)chunk_count * MODEL_BLOCKS, begun, written;
	struct model_result result;

	m->chunk_count = chunk_count;
	m->extent_blocks = (uint32_t)(volume / slots);
	m->log_limit = (uint64_t)((double)volume * log_share);
	m->random = 1;
	for (uint64_t i = 0; i < volume; i++)
		model_write(m, i);
	begun = m->clock;
	written = m->run_written;
	for (uint64_t i = 0; i < 20 * volume; i++) {
		uint64_t block = model_random(m, volume);

		if (is_skewed && model_random(m, 10) < 8)
			block = model_random(m, volume / 5);
		model_write(m, block);
		if (i == 5 * volume) { /* steady from here */
			begun = m->clock;
			written = m->run_written;
		}
		if (i > 5 * volume && i % 256 == 0) {
			uint64_t space = model_extent_blocks(m) + model_log_blocks(m);

			m->space_sum += space;
			m->space_count++;
			m->peak_space = num_max(m->peak_space, space);
		}
	}
	result.write_amplification = 1 +
	    (double)(m->run_written - written) / (double)(m->clock - begun);
	result.space_mean = (double)m->space_sum / (double)m->space_count / (double)volume;
	result.space_peak = (double)m->peak_space / (double)volume;
	for (uint32_t c = 0; c < chunk_count; c++) {
		for (uint32_t r = 0; r < m->chunks[c].run_count; r++)
			free(m->chunks[c].runs[r]);
	}
	free(m);
	return result;
}

/*
 * No compression here, which makes runs smaller than the log: the real thing writes a little less.
 * Chunks, slots (of which a shard has about four open) and the log, against the stored size.
 */
static void
expect_targets(uint32_t chunks, uint32_t slots, double log_share, bool is_skewed, double writes_max)
{
	struct model_result result = model_run(chunks, slots, log_share, is_skewed);

	fprintf(stderr,
	    "chunks=%u slots=%u log=%.2f skewed=%d: write amplification %.2f, space %.2f\n", chunks,
	    slots, log_share, is_skewed, result.write_amplification, result.space_mean);
	cr_expect_leq(result.write_amplification, writes_max);
	cr_expect_leq(result.space_mean, 1.6);
	cr_expect_leq(result.space_peak, 1.9);
}

Test(tiers, uniform_overwrite_is_within_its_targets)
{
	expect_targets(40, 40, 0.10, false, 3.9);
	expect_targets(64, 40, 0.10, false, 3.9);
	expect_targets(128, 100, 0.10, false, 3.9);
	expect_targets(64, 64, 0.06, false, 3.9);
	expect_targets(64, 40, 0.15, false, 3.9);
}

Test(tiers, skewed_overwrite_costs_little_more)
{
	expect_targets(64, 40, 0.10, true, 4.2);
	expect_targets(64, 64, 0.06, true, 4.2);
}

Test(tiers, nothing_is_taken_while_runs_are_few_and_garbage_is_little)
{
	uint64_t bytes[] = { 10, 10, 100 };
	struct tiers_group group = { bytes, 3, 10, 100 };

	cr_assert_eq(mt_tiers_garbage(&group), 300);
	cr_assert_eq(mt_tiers_take(&group, true), 0);
	cr_assert_eq(mt_tiers_take(&group, false), 0);
}

Test(tiers, a_chunk_that_is_mostly_garbage_is_taken_whole)
{
	uint64_t bytes[] = { 40, 50, 100 };
	struct tiers_group group = { bytes, 3, 10, 100 };

	cr_assert_eq(mt_tiers_take(&group, true), 3);
	cr_assert_eq(mt_tiers_take(&group, false), 0);
	group.layer_bytes = 80;
	cr_assert_eq(mt_tiers_take(&group, false), 3);
}

Test(tiers, too_many_runs_are_merged_as_far_as_they_are_of_a_size)
{
	uint64_t bytes[TIERS_RUNS_MAX];
	struct tiers_group group = { bytes, TIERS_RUNS_MAX, 1, 100000 };

	for (uint32_t i = 0; i < TIERS_RUNS_MAX; i++)
		bytes[i] = i < 5 ? 1 : 1000;
	cr_assert_eq(mt_tiers_take(&group, true), 5);
	group.run_count--;
	cr_assert_eq(mt_tiers_take(&group, true), 0);
}

Test(tiers, a_chunk_without_runs_has_no_garbage)
{
	struct tiers_group group = { NULL, 0, 10, 0 };

	cr_assert_eq(mt_tiers_garbage(&group), 0);
	cr_assert_eq(mt_tiers_take(&group, true), 0);
}

Test(tiers, what_is_live_is_guessed_from_the_oldest_run)
{
	uint64_t bytes[] = { 50, 100 };
	struct tiers_group group = { bytes, 2, 0, 0 };

	cr_assert_eq(mt_tiers_garbage(&group), 500);
}

Test(tiers, extents_are_cleared_when_much_of_them_is_dead)
{
	struct tiers_total total = { 1000, 1000, 1400, 100, false };

	cr_assert(mt_tiers_is_holey(&total));
	total.has_stream = true; /* more of it is about to be */
	cr_assert_not(mt_tiers_is_holey(&total));
	total.extent_bytes = 1700;
	cr_assert(mt_tiers_is_holey(&total));
	total = (struct tiers_total){ 1000, 1000, 1100, 100, false };
	cr_assert_not(mt_tiers_is_holey(&total));
	total = (struct tiers_total){ 1000, 1100, 1500, 1000, false };
	cr_assert_not(mt_tiers_is_holey(&total)); /* a slot or two are always open */
}
