/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_verify.c -- does the volume hold what a journal promises?
 *
 * The journal is replayed into *candidates*: for each block the issues that it may hold. An
 * acknowledgement removes the issues before the one it names; as long as a block has none, it may
 * also hold what was there before. Then each block of the journal is read, one by one: neighbours
 * may come from different runs.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"
#include "journal.h"
#include "load.h"
#include "stamp.h"

#define VERIFY_IN_FLIGHT 64u
#define COMPLAINTS_MAX 20u

/* Index 0 of the candidates is nobody. */
struct candidate {
	uint64_t writer;
	uint64_t sequence;
	uint32_t next;
	bool is_discard;
};

struct block {
	uint32_t first, last; /* candidates, oldest first */
	bool is_acknowledged; /* the first candidate is */
};

struct verify_slot {
	struct cleave_io io;
	struct verify *verify;
	uint8_t data[LOAD_BLOCK_BYTES];
};

struct verify {
	struct load *load;
	struct block *blocks; /* of the whole volume */
	uint64_t block_count;
	struct candidate *candidates;
	uint32_t candidate_count, candidate_capacity, candidate_free;
	uint64_t next_block;
	uint32_t in_flight_count;
	uint64_t verified_count, mismatch_count, error_count;
	bool is_beyond; /* the journal names blocks behind the volume's end */
	struct verify_slot *slots;
};

/* ---- replay ---- */
static uint32_t
candidate_new(struct verify *v)
{
	uint32_t index = v->candidate_free;

	assert(v->candidate_count <= v->candidate_capacity);
	if (index != 0) {
		v->candidate_free = v->candidates[index].next;
		return index;
	}
	if (v->candidate_count == v->candidate_capacity) {
		uint32_t capacity = v->candidate_capacity == 0 ? 4096 : 2 * v->candidate_capacity;
		struct candidate *grown = realloc(v->candidates, capacity * sizeof(*v->candidates));

		if (grown == NULL || capacity <= v->candidate_capacity)
			return 0;
		v->candidates = grown;
		v->candidate_capacity = capacity;
		if (v->candidate_count == 0)
			v->candidate_count = 1;
	}
	return v->candidate_count++;
}

static int
on_issue(struct verify *v, struct block *block, const struct journal_record *record)
{
	uint32_t index = candidate_new(v);

	assert(record->kind != JOURNAL_ACKNOWLEDGED);
	if (index == 0)
		return -ENOMEM;
	v->candidates[index] = (struct candidate){
		.writer = record->writer,
		.sequence = record->sequence,
		.is_discard = record->kind == JOURNAL_DISCARD,
	};
	if (block->first == 0)
		block->first = index;
	else
		v->candidates[block->last].next = index;
	block->last = index;
	return 0;
}

static void
on_acknowledged(struct verify *v, struct block *block, const struct journal_record *record)
{
	uint32_t index = block->first;

	assert(record->kind == JOURNAL_ACKNOWLEDGED);
	while (index != 0 &&
	    (v->candidates[index].writer != record->writer ||
		v->candidates[index].sequence != record->sequence))
		index = v->candidates[index].next;
	if (index == 0)
		return; /* a later one has been acknowledged already */
	while (block->first != index) {
		uint32_t gone = block->first;

		block->first = v->candidates[gone].next;
		v->candidates[gone].next = v->candidate_free;
		v->candidate_free = gone;
	}
	block->is_acknowledged = true;
}

static int
on_record(const struct journal_record *record, void *arg)
{
	struct verify *v = arg;

	assert(record->block_count > 0);
	for (uint32_t i = 0; i < record->block_count; i++) {
		uint64_t at = record->block + i;
		int rc = 0;

		if (at >= v->block_count) {
			v->is_beyond = true;
			return 0;
		}
		if (record->kind == JOURNAL_ACKNOWLEDGED)
			on_acknowledged(v, &v->blocks[at], record);
		else
			rc = on_issue(v, &v->blocks[at], record);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* ---- checking ---- */
static bool
is_expected(const struct verify *v, const struct block *block, enum stamp_kind kind,
    const struct stamp *stamp, uint64_t at)
{
	uint64_t written_as = v->load->options->written_as;
	uint64_t volume_id = written_as != 0 ? written_as : v->load->volumes[0].info.id;

	if (kind == STAMP_DAMAGED || kind == STAMP_BAD_DATA)
		return false;
	if (kind == STAMP_VALID && stamp->block != at)
		return false;
	for (uint32_t i = block->first; i != 0; i = v->candidates[i].next) {
		const struct candidate *c = &v->candidates[i];

		if (c->is_discard ? kind == STAMP_ZEROS
				  : kind == STAMP_VALID && stamp->writer == c->writer &&
			    stamp->sequence == c->sequence && stamp->volume_id == volume_id)
			return true;
	}
	return !block->is_acknowledged;
}

static void
check_block(struct verify *v, uint64_t at, const uint8_t *data)
{
	const struct block *block = &v->blocks[at];
	const struct candidate *first = &v->candidates[block->first];
	const struct candidate *last = &v->candidates[block->last];
	struct stamp stamp = { 0 };
	enum stamp_kind kind = stamp_check(data, &stamp);
	char got[160];

	assert(at < v->block_count && block->first != 0);
	v->verified_count++;
	if (is_expected(v, block, kind, &stamp, at))
		return;
	if (v->mismatch_count++ >= COMPLAINTS_MAX)
		return;
	stamp_describe(kind, &stamp, got, sizeof(got));
	load_complain("volume %s, offset %" PRIu64 ": mismatch: expected %s%s %" PRIu64
		      " of writer %" PRIx64 " to %s %" PRIu64 " of writer %" PRIx64 ", got %s",
	    v->load->options->volume, at * LOAD_BLOCK_BYTES,
	    block->is_acknowledged ? "" : "anything whole, ",
	    first->is_discard ? "the zeros of" : "sequence", first->sequence, first->writer,
	    last->is_discard ? "the zeros of" : "sequence", last->sequence, last->writer, got);
}

static bool submit_next(struct verify *v, struct verify_slot *slot);

static void
on_io(struct cleave_io *io, int rc, void *arg)
{
	struct verify_slot *slot = arg;
	struct verify *v = slot->verify;

	assert(io == &slot->io && v->in_flight_count > 0);
	v->in_flight_count--;
	if (rc == 0)
		check_block(v, io->offset_bytes / LOAD_BLOCK_BYTES, slot->data);
	else if (v->error_count++ < COMPLAINTS_MAX)
		load_complain("volume %s: read at offset %" PRIu64 " failed: %s",
		    v->load->options->volume, io->offset_bytes, cleave_error_text(rc));
	submit_next(v, slot);
}

/* Starts reading the next block that the journal names. False: there is none. */
static bool
submit_next(struct verify *v, struct verify_slot *slot)
{
	int rc;

	assert(slot->verify == v && v->in_flight_count < VERIFY_IN_FLIGHT);
	while (v->next_block < v->block_count && v->blocks[v->next_block].first == 0)
		v->next_block++;
	if (v->next_block == v->block_count || v->load->is_interrupted)
		return false;
	slot->io.op = CLEAVE_READ;
	slot->io.offset_bytes = v->next_block * LOAD_BLOCK_BYTES;
	slot->io.length_bytes = LOAD_BLOCK_BYTES;
	rc = cleave_submit(v->load->volumes[0].volume, &slot->io);
	if (rc != 0) {
		v->error_count++;
		load_complain("volume %s: read at offset %" PRIu64 " failed: %s",
		    v->load->options->volume, slot->io.offset_bytes, cleave_error_text(rc));
		v->next_block = v->block_count;
		return false;
	}
	v->next_block++;
	v->in_flight_count++;
	return true;
}

static bool
is_verify_done(void *arg)
{
	const struct verify *v = arg;

	return v->in_flight_count == 0;
}

static int
verify_replay(struct verify *v)
{
	const char *path = v->load->options->verify_journal;
	int rc;

	assert(v->candidate_count == 0);
	rc = journal_read(path, on_record, v, NULL);
	if (rc == 0 && v->is_beyond) {
		load_complain("journal %s: names blocks behind the end of volume %s", path,
		    v->load->options->volume);
		return -EINVAL;
	}
	if (rc != 0)
		load_complain("journal %s: %s", path,
		    rc == -EBADMSG ? "damaged, or no journal" : strerror(-rc));
	return rc;
}

static int
verify_go(struct verify *v)
{
	assert(v->in_flight_count == 0 && v->next_block == 0);
	for (uint32_t i = 0; i < VERIFY_IN_FLIGHT; i++) {
		struct verify_slot *slot = &v->slots[i];

		slot->verify = v;
		slot->io.data = slot->data;
		slot->io.fn = on_io;
		slot->io.arg = slot;
		if (!submit_next(v, slot))
			break;
	}
	loop_run(v->load->loop, is_verify_done, v);
	printf("verified %" PRIu64 " blocks, %" PRIu64 " mismatches", v->verified_count,
	    v->mismatch_count);
	if (v->error_count > 0)
		printf(", %" PRIu64 " read errors", v->error_count);
	printf("%s\n", v->load->is_interrupted ? " (interrupted)" : "");
	return v->mismatch_count == 0 && v->error_count == 0 && !v->load->is_interrupted ? 0 : 1;
}

int
load_verify(struct load *load)
{
	struct verify v = { .load = load };
	int status = 1;

	assert(load->volume_count == 1);
	v.block_count = load->volumes[0].info.size_bytes / LOAD_BLOCK_BYTES;
	v.slots = calloc(VERIFY_IN_FLIGHT, sizeof(*v.slots));
	/* Sparse: memory is needed for the pages with blocks of the journal alone. */
	v.blocks = mmap(NULL, v.block_count * sizeof(*v.blocks), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (v.slots == NULL || v.blocks == MAP_FAILED)
		load_complain("out of memory");
	else if (verify_replay(&v) == 0)
		status = verify_go(&v);
	if (v.blocks != MAP_FAILED)
		munmap(v.blocks, v.block_count * sizeof(*v.blocks));
	free(v.candidates);
	free(v.slots);
	return status;
}
