/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_uring.c -- a file or block device through io_uring and O_DIRECT
 *
 * Each disk has a ring. A submit only queues; the loop's turn-end hook moves queued requests into the
 * ring, up to queue_depth, and enters the kernel once. Completions raise an eventfd that the loop
 * watches: the ring's own descriptor was seen not to wake libev. A request in the kernel occupies a
 * slot, which holds its iovecs and how far it got; a short transfer goes round again with the rest.
 *
 * A short write with nothing else at the disk is made by this thread, while the disk is quick
 * (inline_write.h): it is the one place where the loop waits for a disk. A durable one is not, for a flush
 * takes as long as the drive likes. Its handler is called in the next turn, as any other's.
 *
 * The guard (I1) is opened round the submission, because that is when O_DIRECT pins pages. A request
 * that the kernel hands to a worker thread of its own (a write into blocks that a file system never
 * wrote before) is pinned there, under that thread's protection keys, and fails with EFAULT having
 * moved nothing. Only test builds have the guard; there such a transfer is done again, here.
 *
 * Failure: a request's error is its handler's; nothing is retried but what the kernel asks to
 * (EAGAIN, EINTR). Everything is allocated when the disk is opened.
 */
#include "disk_uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* liburing 2.3 shifts and narrows in its inline functions. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <liburing.h>
#pragma GCC diagnostic pop

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "disk_host.h"
#include "disk_probe.h"
#include "file_map.h"
#include "inline_write.h"

#define DISK_URING_MAGIC 0x55524e47u /* "URNG" */
#define QUEUE_DEPTH_DEFAULT 128u
#define QUEUE_DEPTH_MAX 1024u
#define WAITING_MAX_DEFAULT 4096u
#define REAP_BATCH 64u /* completions taken from the ring at once */

/* A request in the kernel. */
struct uring_slot {
	struct loop_link link; /* free list */
	struct disk_io *io;    /* NULL: free */
	uint64_t moved_bytes;
	uint64_t total_bytes;
	struct iovec iov[DISK_PIECES_MAX];
	uint32_t iov_first, iov_count; /* the part of iov that is left to move */
};

struct disk_uring {
	struct disk disk; /* first: its magic is ours */
	struct loop *loop;
	int fd;
	int event_fd;
	bool is_file;
	struct io_uring ring;
	struct loop_fd watcher;
	struct loop_turn_end turn_end;
	struct uring_slot *slots;
	uint32_t slot_count;
	struct loop_link free_slots;
	struct loop_link resumed; /* slots whose rest goes again */
	struct loop_link waiting; /* ios, oldest first */
	uint32_t waiting_count;
	uint32_t waiting_max;
	uint32_t in_kernel_count;
	struct loop_task retry; /* sees to it that a turn end follows */
	struct inline_write inline_policy;
	struct loop_task inline_task;   /* tells of inline_slot */
	struct uring_slot *inline_slot; /* written by this thread, not told yet; NULL: none */
	int inline_res;
	struct disk_uring_counters counters;
};

static struct disk_uring *
uring_of(struct disk *disk)
{
	CHECK_OBJ(disk, DISK_URING_MAGIC);
	return NUM_CONTAINER_OF(disk, struct disk_uring, disk);
}

/* ---- submission ---- */

/*
 * RWF_DSYNC for a durable write: the kernel flushes behind it itself, from where the write completes. That is two
 * wake-ups of this thread, and one of a worker's, less than a write and then a flush.
 */
static int
write_flags(const struct disk_io *io)
{
	assert(io->op == DISK_WRITE);
	return io->is_durable ? RWF_DSYNC : 0;
}

static void
slot_prepare(struct disk_uring *u, struct uring_slot *slot, struct io_uring_sqe *sqe)
{
	struct iovec *iov = &slot->iov[slot->iov_first];
	uint64_t offset = slot->io->offset_bytes + slot->moved_bytes;

	assert((slot->io->op == DISK_FLUSH) == (slot->iov_count == 0));
	switch (slot->io->op) {
	case DISK_READ:
		io_uring_prep_readv(sqe, u->fd, iov, slot->iov_count, offset);
		break;
	case DISK_WRITE:
		io_uring_prep_writev2(sqe, u->fd, iov, slot->iov_count, offset,
		    write_flags(slot->io));
		break;
	case DISK_FLUSH:
		io_uring_prep_fsync(sqe, u->fd, IORING_FSYNC_DATASYNC);
		break;
	}
	io_uring_sqe_set_data(sqe, slot);
	u->counters.submits_count++;
}

static void
slot_load(struct uring_slot *slot, struct disk_io *io)
{
	assert(slot->io == NULL);
	assert(io->piece_count <= DISK_PIECES_MAX);
	slot->io = io;
	slot->moved_bytes = 0;
	slot->total_bytes = disk_pieces_bytes(io->pieces, io->piece_count);
	slot->iov_first = 0;
	slot->iov_count = io->piece_count;
	for (uint32_t i = 0; i < io->piece_count; i++) {
		slot->iov[i].iov_base = disk_piece_address(&io->pieces[i]);
		slot->iov[i].iov_len = io->pieces[i].bytes;
	}
}

/* The next slot to submit: the rest of a short transfer first, then what waits. NULL: none. */
static struct uring_slot *
uring_next_slot(struct disk_uring *u)
{
	struct loop_link *link = list_pop_front(&u->resumed);
	struct uring_slot *slot;

	if (link != NULL)
		return LIST_ENTRY(link, struct uring_slot, link);
	if (u->waiting_count == 0 || list_is_empty(&u->free_slots))
		return NULL;
	slot = LIST_ENTRY(list_pop_front(&u->free_slots), struct uring_slot, link);
	link = list_pop_front(&u->waiting);
	assert(link != NULL);
	u->waiting_count--;
	slot_load(slot, LIST_ENTRY(link, struct disk_io, link));
	return slot;
}

/* The only request there is, if this thread may write it directly. */
static struct uring_slot *
uring_take_inline(struct disk_uring *u)
{
	const struct disk_io *io;

	if (u->in_kernel_count > 0 || u->waiting_count != 1 || !list_is_empty(&u->resumed))
		return NULL;
	io = LIST_ENTRY(list_first(&u->waiting), const struct disk_io, link);
	if (io->op != DISK_WRITE || io->is_durable ||
	    !inline_write_try(&u->inline_policy, disk_pieces_bytes(io->pieces, io->piece_count)))
		return NULL;
	assert(!list_is_empty(&u->free_slots)); /* nothing is at the disk */
	return uring_next_slot(u);
}

static void
uring_write_inline(struct disk_uring *u, struct uring_slot *slot)
{
	uint64_t begin_ns = loop_now_fresh_ns(u->loop);
	ssize_t moved;

	assert(u->inline_slot == NULL);
	assert(u->in_kernel_count == 0);
	assert(slot->moved_bytes == 0);
	guard_enter();
	moved = pwritev(u->fd, slot->iov, (int)slot->iov_count, (off_t)slot->io->offset_bytes);
	guard_leave();
	u->inline_res = moved < 0 ? -errno : (int)moved;
	u->inline_slot = slot;
	u->in_kernel_count++; /* until it is told */
	u->counters.inline_count++;
	inline_write_took(&u->inline_policy, loop_now_fresh_ns(u->loop) - begin_ns);
	loop_defer(u->loop, &u->inline_task);
}

static void
uring_submit_queued(struct disk_uring *u)
{
	struct uring_slot *slot = uring_take_inline(u);
	int rc;

	if (slot != NULL) {
		uring_write_inline(u, slot);
		return;
	}
	/* The ring has as many entries as there are slots, so none is ever missing. */
	while ((slot = uring_next_slot(u)) != NULL) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

		assert(sqe != NULL);
		slot_prepare(u, slot, sqe);
		u->in_kernel_count++;
	}
	if (io_uring_sq_ready(&u->ring) == 0)
		return;
	guard_enter();
	rc = io_uring_submit(&u->ring);
	guard_leave();
	u->counters.enters_count++;
	/* Requests that the kernel did not take stay in the ring and go with the next call. */
	if (rc < 0)
		assert(rc == -EAGAIN || rc == -EINTR || rc == -EBUSY || rc == -ENOMEM);
	if (io_uring_sq_ready(&u->ring) != 0)
		loop_defer(u->loop, &u->retry);
}

static void
uring_on_turn_end(struct loop_turn_end *hook, void *arg)
{
	(void)hook;
	uring_submit_queued(arg);
}

static void
uring_on_retry(struct loop_task *task, void *arg)
{
	(void)task; /* its only use is that a turn, and so a turn end, follows */
	(void)arg;
}

static bool
io_is_aligned(const struct disk_io *io)
{
	if (!num_is_aligned(io->offset_bytes, DISK_ALIGN))
		return false;
	for (uint32_t i = 0; i < io->piece_count; i++) {
		uintptr_t address = (uintptr_t)disk_piece_address(&io->pieces[i]);

		if (!num_is_aligned(address, DISK_ALIGN) ||
		    !num_is_aligned(io->pieces[i].bytes, DISK_ALIGN) || io->pieces[i].bytes == 0)
			return false;
	}
	return true;
}

static int
uring_submit(struct disk *disk, struct disk_io *io)
{
	struct disk_uring *u = uring_of(disk);

	assert(io->fn != NULL);
	assert(!io->is_durable || io->op == DISK_WRITE);
	assert(io->piece_count <= DISK_PIECES_MAX);
	assert((io->op == DISK_FLUSH) == (io->piece_count == 0));
	assert(io_is_aligned(io));
	assert(io->op == DISK_FLUSH ||
	    io->offset_bytes + disk_pieces_bytes(io->pieces, io->piece_count) <=
		disk->capacity_bytes);
	if (u->waiting_count == u->waiting_max)
		return -ENOBUFS;
	io->link = (struct loop_link){ NULL, NULL };
	list_push_back(&u->waiting, &io->link);
	/* A turn end must follow, also when we are called from another hook, or from no turn at all. */
	if (u->waiting_count++ == 0)
		loop_defer(u->loop, &u->retry);
	return 0;
}

/* ---- completion ---- */

/* @bytes of the slot's transfer have moved: leave the rest in its iovecs. */
static void
slot_advance(struct uring_slot *slot, uint64_t bytes)
{
	assert(bytes <= slot->total_bytes - slot->moved_bytes);
	slot->moved_bytes += bytes;
	while (bytes > 0) {
		struct iovec *iov = &slot->iov[slot->iov_first];
		uint64_t step = num_min(bytes, iov->iov_len);

		assert(slot->iov_count > 0);
		iov->iov_base = (uint8_t *)iov->iov_base + step;
		iov->iov_len -= step;
		bytes -= step;
		if (iov->iov_len == 0) {
			slot->iov_first++;
			slot->iov_count--;
		}
	}
}

static void
slot_finish(struct disk_uring *u, struct uring_slot *slot, int rc)
{
	struct disk_io *io = slot->io;

	assert(io != NULL);
	assert(rc <= 0);
	slot->io = NULL;
	list_push_back(&u->free_slots, &slot->link);
	/* The kernel does not say whether the write or its flush failed, but for want of space. */
	io->has_flush_failed = io->is_durable && rc < 0 && rc != -ENOSPC;
	io->fn(io, rc, io->arg);
}

/* Test builds: make the transfer that a kernel worker was denied (EFAULT) in this thread. */
static int
slot_redo(struct disk_uring *u, struct uring_slot *slot)
{
	const struct iovec *iov = &slot->iov[slot->iov_first];
	int count = (int)slot->iov_count;
	off_t offset = (off_t)(slot->io->offset_bytes + slot->moved_bytes);
	ssize_t moved;

	assert(slot->io->op != DISK_FLUSH);
	guard_enter();
	if (slot->io->op == DISK_READ)
		moved = preadv(u->fd, iov, count, offset);
	else
		moved = pwritev2(u->fd, iov, count, offset, write_flags(slot->io));
	guard_leave();
	u->counters.redone_count++;
	return moved < 0 ? -errno : (int)moved;
}

static void
slot_on_result(struct disk_uring *u, struct uring_slot *slot, int res)
{
	assert(u->in_kernel_count > 0);
	assert(slot->io != NULL);
	u->in_kernel_count--;
	if (res == -EFAULT && slot->io->op != DISK_FLUSH && guard_init() != GUARD_OFF)
		res = slot_redo(u, slot);
	if (res == -EAGAIN || res == -EINTR) {
		list_push_back(&u->resumed, &slot->link);
		return;
	}
	if (res < 0 || slot->io->op == DISK_FLUSH) {
		slot_finish(u, slot, res < 0 ? res : 0);
		return;
	}
	/* Nothing moved: the file ends here, or was cut short beneath us. */
	if (res == 0) {
		slot_finish(u, slot, -EIO);
		return;
	}
	slot_advance(slot, (uint64_t)res);
	if (slot->moved_bytes < slot->total_bytes) {
		/* A tail that is not aligned cannot go on with O_DIRECT: do its sector again. */
		if (!num_is_aligned(slot->moved_bytes, DISK_ALIGN)) {
			slot_finish(u, slot, -EIO);
			return;
		}
		u->counters.resumed_count++;
		list_push_back(&u->resumed, &slot->link);
		return;
	}
	slot_finish(u, slot, 0);
}

static void
uring_on_inline(struct loop_task *task, void *arg)
{
	struct disk_uring *u = arg;
	struct uring_slot *slot = u->inline_slot;

	(void)task;
	assert(slot != NULL);
	u->inline_slot = NULL;
	slot_on_result(u, slot, u->inline_res);
}

static void
uring_on_event(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct disk_uring *u = arg;
	struct io_uring_cqe *cqes[REAP_BATCH];
	uint64_t ignored;
	unsigned count;

	(void)watcher;
	(void)events;
	/* Cleared before the harvest, so that nothing that completes meanwhile is slept over. */
	if (read(u->event_fd, &ignored, sizeof(ignored)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	while ((count = io_uring_peek_batch_cqe(&u->ring, cqes, REAP_BATCH)) > 0) {
		struct uring_slot *slots[REAP_BATCH];
		int results[REAP_BATCH];

		for (unsigned i = 0; i < count; i++) {
			slots[i] = io_uring_cqe_get_data(cqes[i]);
			results[i] = cqes[i]->res;
		}
		io_uring_cq_advance(&u->ring, count);
		for (unsigned i = 0; i < count; i++)
			slot_on_result(u, slots[i], results[i]);
	}
}

/* ---- open and close ---- */

static void
uring_wait_all(struct disk_uring *u)
{
	if (u->inline_slot != NULL)
		u->in_kernel_count--; /* written, and never told */
	while (u->in_kernel_count > 0) {
		struct io_uring_cqe *cqe;
		int rc;

		/* Also submits what the kernel has not taken yet. */
		guard_enter();
		rc = io_uring_submit_and_wait(&u->ring, 1);
		guard_leave();
		if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
			return; /* the ring is broken: closing it waits for the rest */
		while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
			assert(u->in_kernel_count > 0);
			io_uring_cqe_seen(&u->ring, cqe);
			u->in_kernel_count--;
		}
	}
}

static void
uring_close(struct disk *disk)
{
	struct disk_uring *u = uring_of(disk);

	loop_turn_end_remove(u->loop, &u->turn_end);
	loop_task_cancel(u->loop, &u->retry);
	loop_task_cancel(u->loop, &u->inline_task);
	loop_fd_stop(u->loop, &u->watcher);
	uring_wait_all(u);
	io_uring_queue_exit(&u->ring);
	(void)close(u->event_fd); /* a failed close of these leaves nothing to do */
	(void)close(u->fd);
	free(u->slots);
	u->disk.magic = 0;
	free(u);
}

static bool
uring_is_written(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	const struct disk_uring *u = uring_of(disk);

	assert(bytes > 0);
	return u->is_file && file_is_written(u->fd, offset_bytes, bytes);
}

static bool
uring_is_shared(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	const struct disk_uring *u = uring_of(disk);

	assert(bytes > 0);
	return u->is_file && file_is_shared(u->fd, offset_bytes, bytes);
}

static const struct disk_ops uring_ops = {
	.name = "uring",
	.submit = uring_submit,
	.close = uring_close,
	.is_written = uring_is_written,
	.is_shared = uring_is_shared,
};

static int
uring_attach(struct disk_uring *u)
{
	int rc;

	assert(u->slot_count > 0);
	assert(u->event_fd >= 0);
	rc = io_uring_queue_init(u->slot_count, &u->ring, 0);
	if (rc != 0)
		return rc;
	rc = io_uring_register_eventfd(&u->ring, u->event_fd);
	if (rc != 0)
		goto err_ring;
	loop_fd_init(&u->watcher, u->event_fd, uring_on_event, u);
	rc = loop_fd_start(u->loop, &u->watcher, LOOP_READABLE);
	if (rc != 0)
		goto err_ring;
	loop_task_init(&u->retry, uring_on_retry, u);
	loop_task_init(&u->inline_task, uring_on_inline, u);
	loop_turn_end_add(u->loop, &u->turn_end, uring_on_turn_end, u);
	return 0;
err_ring:
	io_uring_queue_exit(&u->ring);
	return rc;
}

static void
uring_init_slots(struct disk_uring *u)
{
	assert(u->slot_count > 0);
	list_init(&u->free_slots);
	list_init(&u->resumed);
	list_init(&u->waiting);
	for (uint32_t i = 0; i < u->slot_count; i++)
		list_push_back(&u->free_slots, &u->slots[i].link);
}

int
disk_uring_open(struct loop *loop, const struct disk_uring_options *options, struct disk **ret_disk)
{
	struct disk_uring *u = calloc(1, sizeof(*u));
	struct disk_probe probe;
	int rc;

	assert(options->queue_depth <= QUEUE_DEPTH_MAX);
	if (u == NULL)
		return -ENOMEM;
	u->disk.magic = DISK_URING_MAGIC;
	u->disk.ops = &uring_ops;
	u->loop = loop;
	u->slot_count = options->queue_depth != 0 ? options->queue_depth : QUEUE_DEPTH_DEFAULT;
	u->waiting_max = options->waiting_max != 0 ? options->waiting_max : WAITING_MAX_DEFAULT;
	u->slots = calloc(u->slot_count, sizeof(*u->slots));
	if (u->slots == NULL) {
		rc = -ENOMEM;
		goto err_disk;
	}
	uring_init_slots(u);
	rc = disk_probe_open(options->path, &probe);
	if (rc != 0)
		goto err_slots;
	u->fd = probe.fd;
	u->is_file = probe.is_file;
	u->disk.capacity_bytes = probe.capacity_bytes;
	u->disk.is_cache_volatile = probe.is_cache_volatile;
	u->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (u->event_fd < 0) {
		rc = -errno;
		goto err_fd;
	}
	rc = uring_attach(u);
	if (rc != 0)
		goto err_event_fd;
	*ret_disk = &u->disk;
	return 0;
err_event_fd:
	(void)close(u->event_fd);
err_fd:
	(void)close(u->fd);
err_slots:
	free(u->slots);
err_disk:
	free(u);
	return rc;
}

bool
disk_uring_is_file(const struct disk *disk)
{
	CHECK_OBJ(disk, DISK_URING_MAGIC);
	return NUM_CONTAINER_OF(disk, const struct disk_uring, disk)->is_file;
}

bool
disk_uring_is_direct(const struct disk *disk)
{
	const struct disk_uring *u = NUM_CONTAINER_OF(disk, const struct disk_uring, disk);

	CHECK_OBJ(disk, DISK_URING_MAGIC);
	return !u->is_file || file_is_direct(u->fd);
}

const struct disk_uring_counters *
disk_uring_counters(const struct disk *disk)
{
	CHECK_OBJ(disk, DISK_URING_MAGIC);
	return &NUM_CONTAINER_OF(disk, const struct disk_uring, disk)->counters;
}
