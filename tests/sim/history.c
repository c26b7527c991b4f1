/* SPDX-License-Identifier: Apache-2.0 */
/* history.c -- see history.h */
#include "history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

#define STAMP_MAGIC 0x4b434f4c42444c4fu

/* The beginning of each block that is written. */
struct stamp {
	uint64_t magic;
	uint64_t block;
	uint32_t volume;
	uint32_t number;   /* of the operation */
	uint32_t fill_crc; /* of the rest of the block */
	uint32_t reserved;
};

_Static_assert(sizeof(struct stamp) == HISTORY_STAMP_BYTES, "as others look at it");

struct block {
	uint32_t happened; /* newest operation known to have happened; 0: none, zeros */
	uint32_t issued;   /* newest operation submitted */
	/* Operations between these two never happened: their session was fenced without them. */
	uint32_t dead_low, dead_high;
};

/* Blocks of an operation: a bit each, beside it where one word is too few. */
struct block_set {
	uint64_t word;
	uint64_t *words;
};

struct op {
	struct history_op is;
	/* Moments, by the history's own clock; 0: not yet. */
	uint64_t submitted, given_up, over;
	struct block_set seen, dead; /* it was read there; it must never be */
};

struct history {
	struct sim_cluster *cluster;
	uint32_t volume;
	struct block *blocks;
	uint32_t block_count, chunk_count;
	struct op *ops;          /* by number; 0 is none */
	uint64_t now;            /* grows with each event */
	uint32_t open_count;     /* given up, and not over */
	uint32_t *session_first; /* by session: its first operation's number */
	uint32_t op_count, op_max, session_count, session_max;
};

#define WORD_BITS 64u

static void
block_set_init(struct block_set *set, const struct op *op)
{
	*set = (struct block_set){ 0 };
	if (op->is.block_count <= WORD_BITS)
		return;
	set->words = calloc(op->is.block_count / WORD_BITS + 1, sizeof(*set->words));
	assert(set->words != NULL);
}

struct history *
history_create(struct sim_cluster *cluster, uint32_t volume, uint32_t block_count,
    uint32_t chunk_count)
{
	struct history *history = calloc(1, sizeof(*history));

	assert(history != NULL);
	history->cluster = cluster;
	history->volume = volume;
	history->block_count = block_count;
	history->chunk_count = chunk_count;
	history->blocks = calloc(block_count, sizeof(*history->blocks));
	history->op_max = 4096;
	history->ops = calloc(history->op_max, sizeof(*history->ops));
	history->session_max = 64;
	history->session_first = calloc(history->session_max, sizeof(uint32_t));
	assert(history->blocks != NULL);
	assert(history->ops != NULL);
	assert(history->session_first != NULL);
	return history;
}

void
history_destroy(struct history *history)
{
	for (uint32_t i = 1; i <= history->op_count; i++) {
		free(history->ops[i].seen.words);
		free(history->ops[i].dead.words);
	}
	free(history->session_first);
	free(history->ops);
	free(history->blocks);
	free(history);
}

uint64_t
history_held_bytes(const struct history *history)
{
	return history->op_max * sizeof(*history->ops) +
	    history->session_max * sizeof(*history->session_first);
}

uint64_t
history_offset(const struct history *history, uint32_t block)
{
	uint32_t group = block / HISTORY_BLOCKS_MAX, count = history->chunk_count;
	uint64_t at = (uint64_t)(group / count) * HISTORY_BLOCKS_MAX + block % HISTORY_BLOCKS_MAX;

	return group % count * CLEAVE_CHUNK_BYTES + at * CLEAVE_BLOCK_BYTES;
}

uint32_t
history_limit(const struct history *history, uint32_t first, uint32_t count)
{
	if (history->chunk_count == 1)
		return count;
	return (uint32_t)num_min(count, HISTORY_BLOCKS_MAX - first % HISTORY_BLOCKS_MAX);
}

uint32_t
history_block_count(const struct history *history)
{
	return history->block_count;
}

uint64_t
history_block(const struct history *history, uint64_t offset_bytes)
{
	uint64_t at = offset_bytes % CLEAVE_CHUNK_BYTES / CLEAVE_BLOCK_BYTES;
	uint64_t group = at / HISTORY_BLOCKS_MAX * history->chunk_count +
	    offset_bytes / CLEAVE_CHUNK_BYTES;

	return group * HISTORY_BLOCKS_MAX + at % HISTORY_BLOCKS_MAX;
}

uint32_t
history_session(struct history *history)
{
	history->session_count++;
	if (history->session_count == history->session_max) {
		history->session_max *= 2;
		history->session_first =
		    realloc(history->session_first, history->session_max * sizeof(uint32_t));
		assert(history->session_first != NULL);
	}
	history->session_first[history->session_count] = history->op_count + 1;
	return history->session_count;
}

uint32_t
history_submit(struct history *history, const struct history_op *op, uint32_t *ret_floors)
{
	uint32_t number = ++history->op_count;

	assert(op->first_block + op->block_count <= history->block_count);
	if (number == history->op_max) {
		history->op_max *= 2;
		history->ops = realloc(history->ops, history->op_max * sizeof(*history->ops));
		assert(history->ops != NULL);
	}
	assert(op->block_count <= HISTORY_BLOCKS_MAX || op->block_count == history->block_count);
	history->ops[number] = (struct op){ .is = *op, .submitted = ++history->now };
	block_set_init(&history->ops[number].seen, &history->ops[number]);
	block_set_init(&history->ops[number].dead, &history->ops[number]);
	for (uint32_t i = 0; i < op->block_count; i++) {
		struct block *block = &history->blocks[op->first_block + i];

		if (op->op == CLEAVE_READ)
			ret_floors[i] = block->happened;
		else if (!op->is_forbidden)
			block->issued = number;
	}
	return number;
}

/* Half of the blocks compress well, the others not at all. */
void
history_fill(const struct history *history, uint32_t number, uint32_t block, uint8_t *data)
{
	struct stamp stamp = { STAMP_MAGIC, block, history->volume, number, 0, 0 };
	uint64_t state = num_mix_u64(
	    ((uint64_t)history->volume << 56) ^ ((uint64_t)block << 32) ^ number);
	uint8_t *rest = data + sizeof(stamp);
	size_t rest_bytes = CLEAVE_BLOCK_BYTES - sizeof(stamp);

	if (number % 2 == 0) {
		memset(rest, (int)(state & 0xff), rest_bytes);
	} else {
		for (size_t at = 0; at + 8 <= rest_bytes; at += 8) {
			state = num_mix_u64(state + at);
			memcpy(rest + at, &state, 8);
		}
	}
	stamp.fill_crc = crc32c(0, rest, rest_bytes);
	memcpy(data, &stamp, sizeof(stamp));
}

bool
history_stamp_decode(const uint8_t *data, uint32_t *ret_volume)
{
	struct stamp stamp;

	memcpy(&stamp, data, sizeof(stamp));
	if (stamp.magic != STAMP_MAGIC)
		return false;
	*ret_volume = stamp.volume;
	return true;
}

const struct history_op *
history_op(const struct history *history, uint32_t number)
{
	return &history->ops[number].is;
}

void
history_given_up(struct history *history, uint32_t number)
{
	history->ops[number].given_up = ++history->now;
	history->open_count++;
}

uint32_t
history_written(struct history *history, uint32_t number)
{
	struct op *op = &history->ops[number];
	uint32_t found = 0;

	history->now++;
	op->is.acked_at = history->op_count;
	for (uint32_t i = 0; i < op->is.block_count; i++) {
		struct block *block = &history->blocks[op->is.first_block + i];

		block->happened = (uint32_t)num_max(block->happened, number);
	}
	for (uint32_t n = history->session_first[op->is.session];
	     n < number && history->open_count > 0; n++) {
		struct op *other = &history->ops[n];

		if (other->given_up == 0 || other->given_up > op->submitted || other->over != 0)
			continue;
		other->over = history->now;
		history->open_count--;
		found = n;
	}
	return found;
}

static bool
block_is_zero(const uint8_t *data)
{
	return data[0] == 0 && memcmp(data, data + 1, CLEAVE_BLOCK_BYTES - 1) == 0;
}

static bool
op_covers(const struct op *op, uint32_t block)
{
	return op->is.op != CLEAVE_READ && block >= op->is.first_block &&
	    block < op->is.first_block + op->is.block_count;
}

static void
block_set_add(struct block_set *set, const struct op *op, uint32_t block)
{
	uint32_t bit = block - op->is.first_block;

	*(set->words != NULL ? &set->words[bit / WORD_BITS] : &set->word) |= UINT64_C(1)
	    << bit % WORD_BITS;
}

/* @set: of @op's blocks. */
static bool
op_is_in(const struct block_set *set, const struct op *op, uint32_t block)
{
	uint32_t bit = block - op->is.first_block;
	uint64_t word = set->words != NULL ? set->words[bit / WORD_BITS] : set->word;

	return (word >> bit % WORD_BITS & 1) != 0;
}

static bool
block_is_dead(const struct block *block, uint32_t number)
{
	return number > block->dead_low && number < block->dead_high;
}

/*
 * @reader has seen operation @number in block @index. What is newer and was over before @reader was
 * submitted has not happened there, then, and never will.
 */
static void
check_over(struct history *history, const struct op *reader, uint32_t index, uint32_t number)
{
	for (uint32_t n = number + 1; n <= history->blocks[index].issued; n++) {
		struct op *op = &history->ops[n];

		if (op->over == 0 || op->over > reader->submitted || !op_covers(op, index))
			continue;
		if (op_is_in(&op->seen, op, index))
			sim_cluster_fail(history->cluster,
			    "volume %u block %u: operation %u, but %u, which was given up, was there",
			    history->volume + 1, index, number, n);
		block_set_add(&op->dead, op, index);
	}
}

/* Zeros: nothing has happened yet, or a discard has, the oldest that explains it; or the newest. */
static void
check_zero(struct history *history, const struct op *reader, uint32_t index, uint32_t floor)
{
	struct block *block = &history->blocks[index];
	uint32_t oldest = 0, newest = 0;

	for (uint32_t n = floor; n <= block->issued; n++) {
		const struct op *op = &history->ops[n];

		if (op->is.op == CLEAVE_WRITE || op->is.is_forbidden || !op_covers(op, index) ||
		    block_is_dead(block, n) || op_is_in(&op->dead, op, index))
			continue;
		oldest = oldest == 0 ? n : oldest;
		newest = n;
	}
	if (floor != 0 && oldest == 0)
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: zeros, but operation %u was there (%u submitted)",
		    history->volume + 1, index, floor, block->issued);
	if (floor != 0)
		block->happened = (uint32_t)num_max(block->happened, oldest);
	check_over(history, reader, index, newest);
}

static bool
stamp_is_of(const struct history *history, const struct stamp *stamp, uint32_t index,
    const uint8_t *data)
{
	return stamp->magic == STAMP_MAGIC && stamp->block == index &&
	    stamp->volume == history->volume && stamp->number <= history->op_count &&
	    stamp->number > 0 && op_covers(&history->ops[stamp->number], index) &&
	    stamp->fill_crc ==
	    crc32c(0, data + sizeof(*stamp), CLEAVE_BLOCK_BYTES - sizeof(*stamp));
}

static void
check_stamp(struct history *history, const struct op *reader, uint32_t index, uint32_t number)
{
	struct block *block = &history->blocks[index];
	struct op *op = &history->ops[number];
	uint32_t first = history->session_first[reader->is.session];

	if (op->is.is_forbidden || block_is_dead(block, number))
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: operation %u of session %u, which was fenced before",
		    history->volume + 1, index, number, op->is.session);
	if (op_is_in(&op->dead, op, index))
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: operation %u, which was given up, and over without it",
		    history->volume + 1, index, number);
	block_set_add(&op->seen, op, index);
	check_over(history, reader, index, number);
	block->happened = (uint32_t)num_max(block->happened, number);
	/* To take a snapshot, or to read beside the writer, one need not have attached. */
	if (number < first && first > block->dead_high && !reader->is.is_snapshot &&
	    !reader->is.is_beside) {
		block->dead_low = number;
		block->dead_high = first;
	}
}

static void
check_block(struct history *history, const struct op *reader, uint32_t index, const uint8_t *data,
    uint32_t floor)
{
	struct block *block = &history->blocks[index];
	struct stamp stamp;

	if (block_is_zero(data)) {
		check_zero(history, reader, index, floor);
		return;
	}
	memcpy(&stamp, data, sizeof(stamp));
	if (!stamp_is_of(history, &stamp, index, data))
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: garbage (block %" PRIu64 " volume %u operation %u)",
		    history->volume + 1, index, stamp.block, stamp.volume + 1, stamp.number);
	if (stamp.number < floor || stamp.number > block->issued)
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: operation %u, but %u to %u were possible",
		    history->volume + 1, index, stamp.number, floor, block->issued);
	check_stamp(history, reader, index, stamp.number);
}

void
history_read(struct history *history, uint32_t number, const uint8_t *data, const uint32_t *floors)
{
	const struct op *op = &history->ops[number];

	for (uint32_t i = 0; i < op->is.block_count; i++)
		check_block(history, op, op->is.first_block + i,
		    data + (size_t)i * CLEAVE_BLOCK_BYTES, floors[i]);
}

/* ---- snapshots ---- */

void
history_happened(const struct history *history, uint32_t *ret_numbers)
{
	for (uint32_t i = 0; i < history->block_count; i++)
		ret_numbers[i] = history->blocks[i].happened;
}

void
history_issued(const struct history *history, uint32_t *ret_numbers)
{
	for (uint32_t i = 0; i < history->block_count; i++)
		ret_numbers[i] = history->blocks[i].issued;
}

uint32_t
history_look(const struct history *history, uint32_t block, const uint8_t *data)
{
	struct stamp stamp;

	if (block_is_zero(data))
		return 0;
	memcpy(&stamp, data, sizeof(stamp));
	if (!stamp_is_of(history, &stamp, block, data) ||
	    history->ops[stamp.number].is.is_forbidden)
		sim_cluster_fail(history->cluster,
		    "volume %u block %u: garbage in a snapshot (block %" PRIu64
		    " volume %u operation %u)",
		    history->volume + 1, block, stamp.block, stamp.volume + 1, stamp.number);
	return stamp.number;
}

/* Zeros, and operation @floor has happened: has one from it on made zeros of the block? */
static bool
zeros_are_possible(const struct history *history, uint32_t index, uint32_t floor, uint32_t ceiling)
{
	for (uint32_t n = floor; n <= ceiling; n++) {
		const struct op *op = &history->ops[n];

		if (op->is.op != CLEAVE_WRITE && !op->is.is_forbidden && op_covers(op, index))
			return true;
	}
	return floor == 0;
}

static bool
snapshot_has(const struct history *history, uint32_t index, uint32_t number, uint32_t floor,
    uint32_t ceiling)
{
	if (number == 0)
		return zeros_are_possible(history, index, floor, ceiling);
	return number >= floor && number <= ceiling;
}

void
history_check_snapshot(const struct history *history, const char *name, const uint32_t *numbers,
    const uint32_t *floors, const uint32_t *ceilings)
{
	uint32_t newest = 0;

	for (uint32_t i = 0; i < history->block_count; i++) {
		newest = (uint32_t)num_max(newest, numbers[i]);
		if (!snapshot_has(history, i, numbers[i], floors[i], ceilings[i]))
			sim_cluster_fail(history->cluster,
			    "%s block %u: operation %u, but %u to %u were possible", name, i,
			    numbers[i], floors[i], ceilings[i]);
	}
	for (uint32_t n = 1; n < newest; n++) {
		const struct op *op = &history->ops[n];

		if (op->is.op == CLEAVE_READ || op->is.acked_at == 0 || op->is.acked_at >= newest)
			continue;
		for (uint32_t i = op->is.first_block; i < op->is.first_block + op->is.block_count;
		     i++)
			if (!snapshot_has(history, i, numbers[i], n, ceilings[i]))
				sim_cluster_fail(history->cluster,
				    "%s holds operation %u, but of block %u operation %u, and not %u, "
				    "which was acknowledged before",
				    name, newest, i, numbers[i], n);
	}
}
