/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_run.c -- requests by a pattern, a fixed number in flight or at a fixed rate
 *
 * A *slot* is one request in flight, always of the same volume; a *unit* is a request's place on that
 * volume. The pump fills the free slots, writes the journal for all of them at once, and submits
 * them. Nothing is allocated after the start.
 *
 * A write's sequence is how many times its unit has been written or discarded by this run.
 * Overlapping requests take effect in the order of their submission, so a read may return
 * sequence n if
 *	acknowledged before the read was submitted <= n <= issued when it completed;
 * a unit that had none acknowledged may also hold what was there before the run.
 *
 * A *rewrite* is a read, and when that has come a write of the same unit, in one slot. It counts, and is timed, as one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/num.h"
#include "load_run.h"

static const enum cleave_op client_ops[] = {
	[WORKLOAD_READ] = CLEAVE_READ,
	[WORKLOAD_WRITE] = CLEAVE_WRITE,
	[WORKLOAD_DISCARD] = CLEAVE_DISCARD,
};
static const enum report_op report_ops[] = {
	[WORKLOAD_READ] = REPORT_READ,
	[WORKLOAD_WRITE] = REPORT_WRITE,
	[WORKLOAD_DISCARD] = REPORT_DISCARD,
};
static const char *const op_names[] = {
	[WORKLOAD_READ] = "read",
	[WORKLOAD_WRITE] = "write",
	[WORKLOAD_DISCARD] = "discard",
};

static void
run_stop(struct run *run)
{
	run->is_stopping = true;
	loop_defer(run->load->loop, &run->pump);
}

static void
run_fail(struct run *run, const struct slot *slot, int rc)
{
	assert(rc < 0 && slot->run == run);
	if (run->report->error_count++ == 0)
		load_complain("volume %s: %s at offset %" PRIu64 " failed: %s",
		    slot->target->volume->name, op_names[slot->op], slot->io.offset_bytes,
		    cleave_error_text(rc));
	run->has_failed = true;
	run_stop(run);
}

/* ---- slots ---- */
static void
journal_slot(struct run *run, const struct slot *slot, enum journal_kind kind)
{
	struct journal_record record = {
		.kind = kind,
		.block_count = (uint32_t)blocks_per_unit(run),
		.block = slot->unit * blocks_per_unit(run),
		.sequence = slot->sequence,
		.writer = run->writer,
	};

	assert(kind == JOURNAL_ACKNOWLEDGED || slot->sequence == unit_of(slot)->issued);
	assert(slot->op != WORKLOAD_READ && slot->sequence > 0);
	if (run->has_journal)
		journal_append(&run->journal, &record);
}

static void
flush_journal(struct run *run)
{
	int rc = run->has_journal ? journal_flush(&run->journal) : 0;

	assert(run->has_journal || run->options->journal == NULL);
	if (rc == 0 || run->has_failed)
		return;
	load_complain("journal %s: %s", run->options->journal, strerror(-rc));
	run->has_failed = true;
	run->is_stopping = true;
}

/* A read: is it as it may be? A write counts from now on. */
static bool
note_io(struct run *run, const struct slot *slot)
{
	struct unit *unit = unit_of(slot);

	if (slot->op == WORKLOAD_READ)
		return load_block_check(run, slot);
	journal_slot(run, slot, JOURNAL_ACKNOWLEDGED);
	if (slot->sequence > unit->acknowledged)
		unit->acknowledged = slot->sequence;
	return true;
}

static void
on_io(struct cleave_io *io, int rc, void *arg)
{
	struct slot *slot = arg;
	struct run *run = slot->run;
	uint32_t index = (uint32_t)(slot - run->slots);
	enum report_op op = slot->is_rewrite ? REPORT_REWRITE : report_ops[slot->op];
	uint64_t now_ns = loop_now_fresh_ns(run->load->loop);

	assert(io == &slot->io && run->free_count < run->options->in_flight_count);
	loop_defer(run->load->loop, &run->pump);
	if (rc != 0) {
		run->free_slots[run->free_count++] = index;
		run_fail(run, slot, rc);
		return;
	}
	if (!note_io(run, slot))
		run->has_failed = run->is_stopping = true;
	if (slot->is_rewrite && slot->op == WORKLOAD_READ && !run->has_failed) {
		run->read[run->read_count++] = index;
		return;
	}
	run->free_slots[run->free_count++] = index;
	report_add(run->report, op, io->length_bytes, now_ns - slot->started_ns);
}

/* @slot, whose unit is known, is to do @op now. */
static void
prepare_op(struct run *run, struct slot *slot, enum workload_op op)
{
	struct unit *unit = unit_of(slot);

	assert(unit->acknowledged <= unit->issued && unit->discarded <= unit->issued);
	assert(op != WORKLOAD_REWRITE);
	slot->op = op;
	slot->acknowledged = unit->acknowledged;
	if (slot->op != WORKLOAD_READ) {
		slot->sequence = ++unit->issued;
		if (slot->op == WORKLOAD_DISCARD)
			unit->discarded = slot->sequence;
		else
			load_block_fill(run, slot);
		journal_slot(run, slot,
		    slot->op == WORKLOAD_DISCARD ? JOURNAL_DISCARD : JOURNAL_WRITE);
	}
	slot->io.op = client_ops[slot->op];
	slot->io.offset_bytes = slot->unit * run->options->block_bytes;
	slot->io.length_bytes = run->options->block_bytes;
	slot->io.buffer = slot->op == WORKLOAD_DISCARD ? DEV_PTR_NULL : slot->buffer;
}

static void
prepare(struct run *run, struct slot *slot, uint64_t started_ns)
{
	enum workload_op op = workload_next(&slot->target->workload, &slot->unit);

	slot->started_ns = started_ns;
	slot->is_rewrite = op == WORKLOAD_REWRITE;
	prepare_op(run, slot, slot->is_rewrite ? WORKLOAD_READ : op);
}

/* ---- the pump ---- */
static bool
is_all_issued(const struct run *run)
{
	const struct load_options *o = run->options;

	return (o->operation_count_max != 0 && run->issued_count >= o->operation_count_max) ||
	    (o->bytes_max != 0 && run->issued_bytes >= o->bytes_max);
}

static void
submit_batch(struct run *run)
{
	assert(run->batch_count + run->free_count <= run->options->in_flight_count);
	for (uint32_t i = 0; i < run->batch_count; i++) {
		struct slot *slot = &run->slots[run->batch[i]];
		int rc = cleave_submit(slot->target->volume->volume, &slot->io);

		if (rc == 0)
			continue;
		run->free_slots[run->free_count++] = run->batch[i];
		run_fail(run, slot, rc);
	}
	run->batch_count = 0;
}

static void
on_pump(struct loop_task *task, void *arg)
{
	struct run *run = arg;
	uint64_t now_ns = loop_now_fresh_ns(run->load->loop);

	(void)task;
	assert(task == &run->pump && run->batch_count == 0);
	while (run->read_count > 0) {
		run->batch[run->batch_count++] = run->read[--run->read_count];
		prepare_op(run, &run->slots[run->batch[run->batch_count - 1]], WORKLOAD_WRITE);
	}
	while (!run->is_stopping && run->free_count > 0) {
		uint64_t at_ns = load_rate_due_ns(&run->rate, run->issued_count, now_ns);

		if (is_all_issued(run))
			run->is_stopping = true;
		if (run->is_stopping || at_ns > now_ns)
			break;
		run->batch[run->batch_count++] = run->free_slots[--run->free_count];
		prepare(run, &run->slots[run->batch[run->batch_count - 1]], at_ns);
		run->issued_count++;
		run->issued_bytes += run->options->block_bytes;
	}
	flush_journal(run);
	/* Without its journal nothing may be issued; what was prepared has not happened. */
	if (run->has_journal && run->journal.rc != 0)
		while (run->batch_count > 0)
			run->free_slots[run->free_count++] = run->batch[--run->batch_count];
	submit_batch(run);
	if (!run->is_stopping && run->free_count > 0)
		load_rate_arm(&run->rate, run->issued_count);
}

static bool
is_run_done(void *arg)
{
	const struct run *run = arg;

	assert(run->free_count <= run->options->in_flight_count);
	return run->is_stopping && run->free_count == run->options->in_flight_count;
}

/* ---- timers and signals ---- */
static void
on_rate(void *arg)
{
	struct run *run = arg;

	loop_defer(run->load->loop, &run->pump);
}

static void
on_end(struct loop_timer *timer, void *arg)
{
	struct run *run = arg;

	(void)timer;
	assert(timer == &run->end_timer);
	run_stop(run);
}

static void
on_interrupt(void *arg)
{
	run_stop(arg);
}

static void
on_progress(struct loop_timer *timer, void *arg)
{
	struct run *run = arg;
	uint64_t now_ns = loop_now_fresh_ns(run->load->loop), past_ns, delay_ns;
	uint64_t each_ns = run->options->progress_ns;

	assert(timer == &run->progress_timer && !run->options->is_quiet);
	flush_journal(run);
	report_progress(run->report, cleave_client_stats(run->load->client), now_ns, stderr);
	past_ns = now_ns - run->started_ns;
	delay_ns = each_ns - past_ns % each_ns;
	loop_timer_start(run->load->loop, timer,
	    delay_ns < each_ns / 2 ? delay_ns + each_ns : delay_ns);
}

/* ---- life ---- */
static int
init_source(struct run *run)
{
	const struct load_options *o = run->options;
	const char *path = NULL;
	int rc = source_init(&run->source, o->data.items, o->data.count,
	    (uint32_t)o->compressibility_percent, o->seed, &path);

	if (rc != 0)
		load_complain("data%s%s: %s", path != NULL ? " " : "", path != NULL ? path : "",
		    rc == -EINVAL ? "the files are empty" : strerror(-rc));
	return rc;
}

static uint64_t
units_bytes(const struct run *run)
{
	return run->load->volume_count * run->unit_count * sizeof(*run->units);
}

static int
init_slots(struct run *run)
{
	const struct load_options *o = run->options;
	uint32_t count = (uint32_t)o->in_flight_count;

	assert(count > 0 && count <= LOAD_IN_FLIGHT_MAX && run->free_count == 0);
	run->slots = calloc(count, sizeof(*run->slots));
	run->free_slots = calloc(count, sizeof(*run->free_slots));
	run->batch = calloc(count, sizeof(*run->batch));
	run->read = calloc(count, sizeof(*run->read));
	run->scratch = malloc(o->block_bytes);
	run->report = malloc(sizeof(*run->report));
	run->units = mmap(NULL, units_bytes(run), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	run->buffers = cleave_buffer_alloc(run->load->client, count * o->block_bytes);
	if (run->slots == NULL || run->free_slots == NULL || run->batch == NULL ||
	    run->read == NULL || run->scratch == NULL || run->report == NULL ||
	    run->units == MAP_FAILED || dev_ptr_is_null(run->buffers)) {
		load_complain("out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < run->load->volume_count; i++)
		run->targets[i].units = run->units + i * run->unit_count;
	for (uint32_t i = count; i-- > 0;) {
		struct slot *slot = &run->slots[i];

		slot->run = run;
		slot->target = &run->targets[i % run->load->volume_count];
		slot->io.fn = on_io;
		slot->io.arg = slot;
		slot->buffer = dev_ptr_add(run->buffers, i * o->block_bytes);
		run->free_slots[run->free_count++] = i;
	}
	return 0;
}

static int
init_journal(struct run *run)
{
	int rc;

	assert(!run->has_journal);
	if (run->options->journal == NULL)
		return 0;
	rc = journal_open(&run->journal, run->options->journal);
	if (rc != 0)
		load_complain("journal %s: %s", run->options->journal,
		    rc == -EBADMSG ? "damaged, or no journal" : strerror(-rc));
	run->has_journal = rc == 0;
	return rc;
}

/* The first volume's requests are those that a run on it alone would make. */
static int
init_targets(struct run *run)
{
	const struct load_options *o = run->options;
	struct workload_options workload = {
		.pattern = (enum workload_pattern)o->pattern,
		.unit_count = run->unit_count,
		.zipf_theta = (double)o->zipf_theta_percent / 100,
		.read_percent = (uint32_t)o->read_percent,
		.discard_percent = (uint32_t)o->discard_percent,
		.rewrite_percent = (uint32_t)o->rewrite_percent,
		.seed = o->seed,
	};

	assert(run->targets == NULL && run->unit_count > 0);
	run->targets = calloc(run->load->volume_count, sizeof(*run->targets));
	if (run->targets == NULL) {
		load_complain("out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < run->load->volume_count; i++) {
		workload.seed = i == 0 ? o->seed : num_mix_u64(o->seed + i);
		run->targets[i].volume = &run->load->volumes[i];
		workload_init(&run->targets[i].workload, &workload);
	}
	return 0;
}

static int
run_init(struct run *run)
{
	const struct load_options *o = run->options;
	int rc;

	assert(run->load->volume_count > 0 && run->targets == NULL);
	run->units = MAP_FAILED;
	run->writer = loop_random_u64(run->load->loop);
	run->unit_count = run->load->volumes[0].info.size_bytes / o->block_bytes;
	loop_task_init(&run->pump, on_pump, run);
	loop_timer_init(&run->end_timer, on_end, run);
	loop_timer_init(&run->progress_timer, on_progress, run);
	if (run->unit_count == 0) {
		load_complain("--block-size: larger than volume %s", run->load->volumes[0].name);
		return -EINVAL;
	}
	rc = init_targets(run);
	if (rc == 0)
		rc = init_source(run);
	if (rc == 0)
		rc = init_slots(run);
	if (rc != 0)
		return rc;
	rc = load_rate_init(&run->rate, run->load->loop, o->rate_per_s, on_rate, run);
	if (rc != 0) {
		load_complain("--rate: a timer: %s", strerror(-rc));
		return rc;
	}
	return init_journal(run);
}

static void
run_fini(struct run *run)
{
	struct loop *loop = run->load->loop;

	run->load->on_interrupt = NULL;
	loop_task_cancel(loop, &run->pump);
	loop_timer_stop(loop, &run->end_timer);
	loop_timer_stop(loop, &run->progress_timer);
	load_rate_fini(&run->rate);
	if (run->has_journal)
		(void)journal_close(&run->journal); /* its errors have been told */
	if (run->units != MAP_FAILED)
		munmap(run->units, units_bytes(run));
	cleave_buffer_free(run->load->client, run->buffers);
	source_fini(&run->source);
	free(run->report);
	free(run->scratch);
	free(run->batch);
	free(run->read);
	free(run->free_slots);
	free(run->slots);
	free(run->targets);
	free(run);
}

static void
run_go(struct run *run)
{
	struct load *load = run->load;
	const struct load_options *o = run->options;

	assert(run->free_count == o->in_flight_count && load->on_interrupt == NULL);
	run->started_ns = run->rate.started_ns = loop_now_fresh_ns(load->loop);
	report_start(run->report, run->started_ns);
	load->on_interrupt_arg = run;
	load->on_interrupt = on_interrupt;
	if (load->is_interrupted)
		run->is_stopping = true;
	if (o->seconds != 0)
		loop_timer_start(load->loop, &run->end_timer, NUM_S(o->seconds));
	if (!o->is_quiet)
		loop_timer_start(load->loop, &run->progress_timer, o->progress_ns);
	loop_defer(load->loop, &run->pump);
	loop_run(load->loop, is_run_done, run);
	flush_journal(run);
	run->report->ended_ns = loop_now_fresh_ns(load->loop);
}

int
load_run(struct load *load)
{
	struct run *run = calloc(1, sizeof(*run));
	int status = 1, rc;

	if (run == NULL) {
		load_complain("out of memory");
		return 1;
	}
	run->load = load;
	run->options = load->options;
	if (run_init(run) == 0) {
		run_go(run);
		status = run->has_failed ? 1 : 0;
		report_print(run->report, stdout);
		rc = load->options->json == NULL
		    ? 0
		    : report_write_json(run->report, cleave_client_stats(load->client),
			  load->options->json);
		if (rc != 0) {
			load_complain("%s: %s", load->options->json, strerror(-rc));
			status = 1;
		}
	}
	run_fini(run);
	return status;
}
