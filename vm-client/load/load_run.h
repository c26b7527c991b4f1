/* SPDX-License-Identifier: Apache-2.0 */
/* load_run.h -- of a run: its slots, units and targets (load_run.c tells the model), and what their blocks hold */
#ifndef CLEAVE_VM_CLIENT_LOAD_RUN_H
#define CLEAVE_VM_CLIENT_LOAD_RUN_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "journal.h"
#include "load.h"
#include "load_rate.h"
#include "report.h"
#include "source.h"
#include "workload.h"

struct unit {
	uint32_t issued, acknowledged; /* sequences; 0: none */
	uint32_t discarded;            /* the newest discard issued */
};

/* A volume and what was done to it. */
struct target {
	const struct load_volume *volume;
	struct workload workload;
	struct unit *units; /* run->unit_count of them */
};

struct slot {
	struct cleave_io io;
	struct run *run;
	struct target *target;
	enum workload_op op; /* of a rewrite: a read, then a write */
	bool is_rewrite;
	uint64_t unit;
	uint64_t started_ns;   /* when it was to start, for the latency */
	uint32_t sequence;     /* writes, discards */
	uint32_t acknowledged; /* reads: of the unit, at submission */
	dev_ptr buffer;
};

struct run {
	struct load *load;
	const struct load_options *options;
	uint64_t writer;
	struct source source;
	struct target *targets; /* a volume each */
	struct unit *units;     /* of all of them, target by target */
	uint64_t unit_count;    /* of a volume */
	struct slot *slots;
	/* Indices; the first *_count are. */
	uint32_t *free_slots, *batch, *read; /* read: of rewrites, to be written */
	uint32_t free_count, batch_count, read_count;
	dev_ptr buffers;
	uint8_t *scratch; /* one request's bytes, read */
	struct journal journal;
	bool has_journal;
	struct report *report;
	uint64_t started_ns;
	uint64_t issued_count, issued_bytes;
	bool is_stopping, has_failed;
	struct loop_task pump;
	struct loop_timer end_timer, progress_timer;
	struct load_rate rate;
};

static inline struct unit *
unit_of(const struct slot *slot)
{
	assert(slot->unit < slot->run->unit_count);
	return &slot->target->units[slot->unit];
}

static inline uint64_t
blocks_per_unit(const struct run *run)
{
	assert(num_is_aligned(run->options->block_bytes, LOAD_BLOCK_BYTES));
	return run->options->block_bytes / LOAD_BLOCK_BYTES;
}

/* load_block_fill -- the bytes of a write whose sequence is set. */
void load_block_fill(struct run *run, struct slot *slot);
/*
 * load_block_check -- may the read have returned that?
 *
 * False: it is counted and, for the first ten of a run, said on standard error.
 */
bool load_block_check(struct run *run, const struct slot *slot);

#endif /* CLEAVE_VM_CLIENT_LOAD_RUN_H */
