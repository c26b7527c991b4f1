/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sim.c -- a disk in memory that tears, loses, rots and stalls from a seed
 *
 * The disk's life, and its requests: each takes its time, has its own luck (disk_sim_faults.c), and then moves
 * bytes (disk_sim_pages.c). A durable write is a write and a flush behind it, each with a time and luck of its own.
 *
 * For tests: it asserts that memory suffices.
 */
#include "disk_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "base/random.h"
#include "disk/disk_host.h"
#include "disk_sim_faults.h"
#include "disk_sim_pages.h"
#include "disk_sim_state.h"

#define DISK_HANDLE_MAGIC 0x444e4844u /* "DHND" */
#define READ_LATENCY_NS NUM_US(80)
#define WRITE_LATENCY_NS NUM_US(20)
#define FLUSH_LATENCY_NS NUM_US(200)
#define TAIL_ONE_IN 100u /* requests takes TAIL_FACTOR times as long */
#define TAIL_FACTOR 10u

struct sim_handle {
	struct disk disk; /* first: its magic is ours */
	struct disk_sim *sim;
	struct loop *loop;
	struct loop_link in_flight; /* ios */
};

/* In disk_io.private_state. */
struct sim_io {
	struct sim_handle *handle;
	struct loop_timer timer;
	uint64_t covers_sequence; /* FLUSH: the writes that it makes durable */
	int rc;                   /* injected; 0: none */
	bool is_flushing;         /* a durable write's second half */
} __attribute__((may_alias));
_Static_assert(sizeof(struct sim_io) <= sizeof(((struct disk_io *)0)->private_state), "fits");

static struct sim_io *
sim_io_of(struct disk_io *io)
{
	return (struct sim_io *)io->private_state;
}

static uint64_t
sim_below(struct disk_sim *sim, uint64_t limit)
{
	return random_below(sim->random_state, limit);
}

/* ---- requests ---- */

static struct sim_write *
write_copy_of(const struct disk_io *io)
{
	uint64_t bytes = disk_pieces_bytes(io->pieces, io->piece_count);
	struct sim_write *write = calloc(1, sizeof(*write) + bytes);
	uint8_t *at;

	assert(write != NULL);
	write->offset_bytes = io->offset_bytes;
	write->bytes = bytes;
	at = write->data;
	guard_enter();
	for (uint32_t i = 0; i < io->piece_count; i++) {
		memcpy(at, disk_piece_address(&io->pieces[i]), io->pieces[i].bytes);
		at += io->pieces[i].bytes;
	}
	guard_leave();
	return write;
}

static int
sim_write_run(struct disk_sim *sim, const struct disk_io *io)
{
	struct sim_write *write;

	assert(io->op == DISK_WRITE);
	if (sim->is_full)
		return -ENOSPC;
	if (sim_faults_lose_write(sim, io->offset_bytes))
		return 0;
	write = write_copy_of(io);
	write->offset_bytes = sim_faults_write_to(sim, write->offset_bytes, write->bytes);
	sim_heal(sim, write->offset_bytes, write->bytes);
	sim->counters.written_bytes += write->bytes;
	sim_write_apply(sim, write);
	sim_faults_rot(sim);
	return 0;
}

static int
sim_read_run(struct disk_sim *sim, const struct disk_io *io)
{
	uint64_t bytes = disk_pieces_bytes(io->pieces, io->piece_count);
	uint64_t at = sim_faults_read_from(sim, io->offset_bytes, bytes);

	assert(io->op == DISK_READ);
	if (sim_is_bad(sim, at, bytes))
		return -EIO;
	guard_enter();
	for (uint32_t i = 0; i < io->piece_count; i++) {
		disk_sim_peek(sim, at, disk_piece_address(&io->pieces[i]), io->pieces[i].bytes);
		at += io->pieces[i].bytes;
	}
	guard_leave();
	sim->counters.read_bytes += bytes;
	return 0;
}

static enum disk_op
sim_op(struct disk_io *io)
{
	return sim_io_of(io)->is_flushing ? DISK_FLUSH : io->op;
}

static int
sim_run(struct disk_sim *sim, struct disk_io *io)
{
	const struct sim_io *private = sim_io_of(io);

	switch (sim_op(io)) {
	case DISK_READ:
		return private->rc != 0 ? private->rc : sim_read_run(sim, io);
	case DISK_WRITE:
		/* A write that fails may yet have happened. */
		if (private->rc != 0 && sim_below(sim, 2) == 0)
			return private->rc;
		return private->rc != 0 ? (sim_write_run(sim, io), private->rc)
					: sim_write_run(sim, io);
	case DISK_FLUSH:
		if (private->rc != 0 || !sim_faults_flush_lies(sim))
			sim_flush(sim, private->covers_sequence, private->rc != 0);
		return private->rc;
	}
	return -EINVAL;
}

static void sim_io_begin(struct disk_sim *sim, struct disk_io *io);

static void
sim_io_on_timer(struct loop_timer *timer, void *arg)
{
	struct disk_io *io = arg;
	struct sim_io *private = sim_io_of(io);
	struct disk_sim *sim = private->handle->sim;
	uint64_t now_ns = loop_now_ns(private->handle->loop);
	int rc;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	if (now_ns < sim->stalled_until_ns) {
		loop_timer_start(private->handle->loop, timer, sim->stalled_until_ns - now_ns);
		return;
	}
	rc = sim_run(sim, io);
	if (rc == 0 && io->is_durable && !private->is_flushing) {
		private->is_flushing = true;
		private->covers_sequence = sim->write_sequence;
		sim_io_begin(sim, io);
		return;
	}
	list_remove(&io->link);
	io->has_flush_failed = rc != 0 && private->is_flushing;
	io->fn(io, rc, io->arg);
}

static uint64_t
sim_latency_ns(struct disk_sim *sim, enum disk_op op)
{
	uint64_t base_ns = sim->options.read_latency_ns;
	uint64_t ns;

	assert(base_ns > 0);
	assert(sim->slowness > 0);
	if (op == DISK_WRITE)
		base_ns = sim->options.write_latency_ns;
	else if (op == DISK_FLUSH)
		base_ns = sim->options.flush_latency_ns;
	ns = (base_ns + sim_below(sim, base_ns)) * sim->slowness;
	return sim_below(sim, TAIL_ONE_IN) == 0 ? ns * TAIL_FACTOR : ns;
}

static struct sim_handle *
handle_of(struct disk *disk)
{
	CHECK_OBJ(disk, DISK_HANDLE_MAGIC);
	return NUM_CONTAINER_OF(disk, struct sim_handle, disk);
}

static void
sim_count(struct disk_sim *sim, enum disk_op op)
{
	switch (op) {
	case DISK_READ:
		sim->counters.reads_count++;
		break;
	case DISK_WRITE:
		sim->counters.writes_count++;
		break;
	case DISK_FLUSH:
		sim->counters.flushes_count++;
		break;
	}
}

/* Begin @io, or the flush of a durable write: each has its own luck and latency. */
static void
sim_io_begin(struct disk_sim *sim, struct disk_io *io)
{
	struct sim_io *private = sim_io_of(io);
	struct loop *loop = private->handle->loop;
	enum disk_op op = sim_op(io);
	enum disk_fault_verdict verdict;

	assert(private->handle->sim == sim);
	sim_count(sim, op);
	if (sim->fault.is_hit && sim->fault.verdict == DISK_FAULT_HALT)
		return; /* in flight for ever */
	verdict = disk_fault_judge(&sim->fault, op);
	if (verdict == DISK_FAULT_HALT)
		return;
	private->rc = sim_faults_judge(sim, io, op);
	if (verdict == DISK_FAULT_FAIL)
	private->rc = sim->fault.rc;
	loop_timer_start(loop, &private->timer,
	    sim_faults_delay(sim, loop_now_ns(loop), sim_latency_ns(sim, op)));
}

static int
handle_submit(struct disk *disk, struct disk_io *io)
{
	struct sim_handle *handle = handle_of(disk);
	struct disk_sim *sim = handle->sim;
	uint64_t bytes = disk_pieces_bytes(io->pieces, io->piece_count);
	struct sim_io *private = sim_io_of(io);

	assert(io->piece_count <= DISK_PIECES_MAX);
	assert((io->op == DISK_FLUSH) == (io->piece_count == 0));
	assert(!io->is_durable || io->op == DISK_WRITE);
	assert(num_is_aligned(io->offset_bytes, DISK_ALIGN));
	assert(num_is_aligned(bytes, DISK_ALIGN));
	assert(io->op == DISK_FLUSH || io->offset_bytes + bytes <= disk->capacity_bytes);
	*private = (struct sim_io){ .handle = handle, .covers_sequence = sim->write_sequence };
	io->link = (struct loop_link){ NULL, NULL };
	list_push_back(&handle->in_flight, &io->link);
	loop_timer_init(&private->timer, sim_io_on_timer, io);
	sim_io_begin(sim, io);
	return 0;
}

static void
handle_close(struct disk *disk)
{
	struct sim_handle *handle = handle_of(disk);
	struct disk_sim *sim = handle->sim;
	struct loop_link *link;

	assert(sim->handle == handle);
	while ((link = list_pop_front(&handle->in_flight)) != NULL) {
		struct disk_io *io = LIST_ENTRY(link, struct disk_io, link);

		loop_timer_stop(handle->loop, &sim_io_of(io)->timer);
		if (sim_op(io) == DISK_WRITE && sim_below(sim, 2) == 0)
			(void)sim_write_run(sim, io); /* nobody is left to be told */
	}
	sim->handle = NULL;
	handle->disk.magic = 0;
	free(handle);
}

static bool
handle_is_written(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	(void)offset_bytes;
	(void)bytes;
	return handle_of(disk)->sim->is_written_ahead;
}

static bool
handle_is_shared(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	(void)offset_bytes;
	(void)bytes;
	return handle_of(disk)->sim->is_shared;
}

static const struct disk_ops sim_ops = {
	.name = "sim",
	.submit = handle_submit,
	.close = handle_close,
	.is_written = handle_is_written,
	.is_shared = handle_is_shared,
};

/* ---- the rest ---- */

static uint64_t
default_of(uint64_t value, uint64_t otherwise)
{
	return value != 0 ? value : otherwise;
}

struct disk_sim *
disk_sim_create(const struct disk_sim_options *options)
{
	struct disk_sim *sim;

	if (options->capacity_bytes == 0 || !num_is_aligned(options->capacity_bytes, DISK_ALIGN)) {
		errno = EINVAL;
		return NULL;
	}
	sim = calloc(1, sizeof(*sim));
	if (sim == NULL)
		return NULL;
	sim->magic = DISK_SIM_MAGIC;
	sim->options = *options;
	sim->options.read_latency_ns = default_of(options->read_latency_ns, READ_LATENCY_NS);
	sim->options.write_latency_ns = default_of(options->write_latency_ns, WRITE_LATENCY_NS);
	sim->options.flush_latency_ns = default_of(options->flush_latency_ns, FLUSH_LATENCY_NS);
	sim->slowness = 1;
	if (sim_pages_init(sim) != 0) {
		free(sim);
		errno = ENOMEM;
		return NULL;
	}
	random_seed(sim->random_state, options->seed);
	sim_faults_init(sim);
	return sim;
}

void
disk_sim_destroy(struct disk_sim *sim)
{
	if (sim == NULL)
		return;
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(sim->handle == NULL);
	sim_pages_fini(sim);
	sim->magic = 0;
	free(sim);
}

int
disk_sim_open(struct disk_sim *sim, struct loop *loop, struct disk **ret_disk)
{
	struct sim_handle *handle;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(loop != NULL);
	if (sim->handle != NULL)
		return -EBUSY;
	handle = calloc(1, sizeof(*handle));
	if (handle == NULL)
		return -ENOMEM;
	handle->disk = (struct disk){
		.magic = DISK_HANDLE_MAGIC,
		.ops = &sim_ops,
		.capacity_bytes = sim->options.capacity_bytes,
		.is_cache_volatile = true,
	};
	handle->sim = sim;
	handle->loop = loop;
	list_init(&handle->in_flight);
	sim->handle = handle;
	sim->stalled_until_ns = 0; /* clocks of two processes do not compare */
	*ret_disk = &handle->disk;
	return 0;
}

bool
disk_sim_is_open(const struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return sim->handle != NULL;
}

void
disk_sim_stall(struct disk_sim *sim, uint64_t duration_ns)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(sim->handle != NULL);
	sim->stalled_until_ns = loop_now_ns(sim->handle->loop) + duration_ns;
	sim->counts.stalls++;
}

void
disk_sim_trace(struct disk_sim *sim, void (*fn)(const struct disk_sim_event *event, void *arg),
    void *arg)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->trace_fn = fn;
	sim->trace_arg = arg;
}

const struct disk_sim_counters *
disk_sim_counters(const struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return &sim->counters;
}

uint64_t
disk_sim_capacity(const struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return sim->options.capacity_bytes;
}
