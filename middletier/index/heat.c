/* SPDX-License-Identifier: Apache-2.0 */
/* heat.c -- see heat.h: bytes that were decompressed, against those that a run has */
#include "index/heat.h"

#include <assert.h>
#include <stddef.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "index/chunk.h"
#include "index/index.h"
#include "index/memtable.h"

/* Half-lives that have passed since the run's bytes were looked at last. */
static uint16_t
run_age(const struct mt_run *run)
{
	return (uint16_t)(run->chunk->index->heat_age - run->heat_age);
}

static uint64_t
run_read_bytes(const struct mt_run *run)
{
	uint16_t age = run_age(run);

	return age >= 32 ? 0 : (uint64_t)(run->read_units >> age) * HEAT_UNIT_BYTES;
}

_Static_assert((uint64_t)HEAT_MAX *UINT32_MAX / HEAT_UNIT_BYTES <= UINT32_MAX, "a run's units fit");

static void
run_set_read_bytes(struct mt_run *run, uint64_t bytes)
{
	run->read_units = (uint32_t)((bytes + HEAT_UNIT_BYTES - 1) / HEAT_UNIT_BYTES);
}

uint32_t
mt_heat_of_run(const struct mt_run *run)
{
	assert(run->length_bytes > 0);
	return (uint32_t)(run_read_bytes(run) / run->length_bytes);
}

uint32_t
mt_heat_of_chunk(const struct mt_chunk *chunk)
{
	uint64_t read_bytes = 0;

	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next)
		read_bytes += run_read_bytes(NUM_CONTAINER_OF(link, const struct mt_run, link));
	return chunk->run_bytes == 0 ? 0 : (uint32_t)(read_bytes / chunk->run_bytes);
}

/* Neighbours in age together: bytes that were read of them, of these by small reads, and bytes that they have. */
struct heat_sum {
	uint64_t read_bytes, small_bytes, length_bytes;
};

static struct heat_sum
runs_sum(const struct mt_run *newest, const struct mt_run *oldest)
{
	struct heat_sum sum = { 0 };

	assert(newest->chunk == oldest->chunk);
	for (const struct mt_run *run = newest;;
	     run = NUM_CONTAINER_OF(run->link.next, const struct mt_run, link)) {
		assert(&run->link != &newest->chunk->runs);
		sum.read_bytes += run_read_bytes(run);
		sum.small_bytes += run_read_bytes(run) * run->small_share / UINT8_MAX;
		sum.length_bytes += run->length_bytes;
		if (run == oldest)
			return sum;
	}
}

uint32_t
mt_heat_of_runs(const struct mt_run *newest, const struct mt_run *oldest)
{
	struct heat_sum sum = runs_sum(newest, oldest);

	return (uint32_t)(sum.read_bytes / sum.length_bytes);
}

bool
mt_heat_is_cold(const struct mt_chunk *chunk)
{
	return chunk->index->heat_age > 0 && mt_heat_of_chunk(chunk) < HEAT_COLD;
}

/* The newest read counts a sixteenth. */
static uint8_t
share_after(uint8_t share, bool is_small)
{
	return is_small ? (uint8_t)(share + (UINT8_MAX - share + 15) / 16)
			: (uint8_t)(share - (share + 15) / 16);
}

void
mt_heat_on_read(struct mt_run *run, const struct mt_location *location, bool is_small)
{
	run->small_share = share_after(run->small_share, is_small);
	mt_heat_on_more(run, location);
}

static void
run_warm(struct mt_run *run, uint64_t bytes, uint8_t codec_id)
{
	struct mt_index *index = run->chunk->index;
	uint64_t read_bytes = run_read_bytes(run) + bytes;

	assert(run->length_bytes > 0);
	run_set_read_bytes(run, num_min(read_bytes, (uint64_t)HEAT_MAX * run->length_bytes));
	run->heat_age = index->heat_age;
	if (index->hot_run == NULL && ENGINE_CODEC(codec_id) == ENGINE_ZSTD &&
	    run->length_bytes >= HEAT_RUN_BYTES_MIN && mt_heat_of_run(run) >= HEAT_ALONE)
		index->hot_run = run;
}

void
mt_heat_on_more(struct mt_run *run, const struct mt_location *location)
{
	run_warm(run, location->stored_bytes, location->codec_id);
}

void
mt_heat_on_reads(struct mt_run *run, const struct mt_heat_reads *reads)
{
	uint64_t count = num_min(reads->read_count, HEAT_SHARE_READS);

	assert(reads->small_count <= reads->read_count);
	/* As if small ones were spread evenly. */
	for (uint64_t i = 0; i < count; i++)
		run->small_share = share_after(run->small_share,
		    (i + 1) * reads->small_count / reads->read_count >
			i * reads->small_count / reads->read_count);
	run_warm(run, reads->bytes, reads->codec_id);
}

void
mt_heat_half(struct mt_index *index)
{
	index->heat_age++;
}

bool
mt_heat_is_small(const struct mt_run *newest, const struct mt_run *oldest)
{
	struct heat_sum sum = runs_sum(newest, oldest);

	return sum.small_bytes > sum.read_bytes / 2;
}

void
mt_heat_leave(struct mt_run *run, uint32_t heat, bool is_small)
{
	assert(run->read_units == 0);
	run->heat_age = run->chunk->index->heat_age;
	run->small_share = is_small ? UINT8_MAX : 0;
	run_set_read_bytes(run, (uint64_t)num_min(heat, HEAT_MAX) * run->length_bytes / 2);
}

struct mt_run *
mt_heat_hottest(struct mt_index *index)
{
	struct mt_run *run = index->hot_run;

	if (run != NULL && mt_heat_of_run(run) < HEAT_ALONE)
		mt_heat_forget(run);
	return index->hot_run;
}

void
mt_heat_forget(struct mt_run *run)
{
	struct mt_index *index = run->chunk->index;

	if (index->hot_run == run)
		index->hot_run = NULL;
}
