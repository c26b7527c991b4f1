/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_fault.c -- a disk before a disk, that fails, delays or halts the n-th request
 *
 * A request that passes goes to the inner disk as it is, one that is delayed when its time has come. One that fails completes from a deferred call,
 * with its error in the request's private state: the inner disk never sees it.
 */
#include "disk_fault.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"

#define DISK_FAULTY_MAGIC 0x544c4146u /* "FALT" */

struct faulty_disk {
	struct disk disk; /* first: its magic is ours */
	struct loop *loop;
	struct disk *inner;
	struct disk_fault *fault;
	struct loop_link failed; /* ios to complete with an error */
	struct loop_task task;
	struct loop_link
	    late; /* ios for the inner disk, in order of their time: private_state[0] */
	struct loop_timer timer;
};

enum disk_fault_verdict
disk_fault_judge(struct disk_fault *fault, enum disk_op op)
{
	bool is_hit_now;

	assert(op <= DISK_FLUSH);
	if ((fault->ops & DISK_FAULT_OP(op)) == 0)
		return DISK_FAULT_PASS;
	fault->seen_count++;
	if (fault->at_count == 0 || fault->seen_count < fault->at_count)
		return DISK_FAULT_PASS;
	is_hit_now = fault->seen_count == fault->at_count;
	if (is_hit_now) {
		fault->is_hit = true;
		if (fault->on_hit != NULL)
			fault->on_hit(fault->arg);
	}
	if (is_hit_now || fault->is_sticky || fault->verdict == DISK_FAULT_HALT)
		return fault->verdict;
	return DISK_FAULT_PASS;
}

static struct faulty_disk *
faulty_of(struct disk *disk)
{
	CHECK_OBJ(disk, DISK_FAULTY_MAGIC);
	return NUM_CONTAINER_OF(disk, struct faulty_disk, disk);
}

static void
faulty_delay(struct faulty_disk *f, struct disk_io *io)
{
	io->private_state[0] = loop_now_ns(f->loop) + f->fault->delay_ns;
	io->link = (struct loop_link){ NULL, NULL };
	list_push_back(&f->late, &io->link);
	if (!f->timer.is_active)
		loop_timer_start(f->loop, &f->timer, f->fault->delay_ns);
}

static void
faulty_on_timer(struct loop_timer *timer, void *arg)
{
	struct faulty_disk *f = arg;
	uint64_t now_ns = loop_now_ns(f->loop);

	while (!list_is_empty(&f->late)) {
		struct disk_io *io = LIST_ENTRY(list_first(&f->late), struct disk_io, link);

		if (io->private_state[0] > now_ns) {
			loop_timer_start(f->loop, timer, io->private_state[0] - now_ns);
			return;
		}
		list_remove(&io->link);
		/* The inner disk's queue has room for all that a node submits. */
		if (disk_submit(f->inner, io) != 0) {
			io->private_state[0] = ENOBUFS;
			list_push_back(&f->failed, &io->link);
			loop_defer(f->loop, &f->task);
		}
	}
}

static int
faulty_submit(struct disk *disk, struct disk_io *io)
{
	struct faulty_disk *f = faulty_of(disk);

	assert(io->fn != NULL);
	/* Once halted, nothing goes on, whatever its kind. */
	if (f->fault->is_hit && f->fault->verdict == DISK_FAULT_HALT)
		return 0;
	switch (disk_fault_judge(f->fault, io->op)) {
	case DISK_FAULT_PASS:
		if (f->fault->delay_ns == 0 || !f->fault->is_hit ||
		    (f->fault->ops & DISK_FAULT_OP(io->op)) == 0)
			return disk_submit(f->inner, io);
		faulty_delay(f, io);
		return 0;
	case DISK_FAULT_HALT:
		return 0;
	case DISK_FAULT_FAIL:
		break;
	}
	assert(f->fault->rc < 0);
	io->private_state[0] = (uint64_t)-f->fault->rc;
	io->link = (struct loop_link){ NULL, NULL };
	list_push_back(&f->failed, &io->link);
	loop_defer(f->loop, &f->task);
	return 0;
}

static void
faulty_on_task(struct loop_task *task, void *arg)
{
	struct faulty_disk *f = arg;
	struct loop_link *link;

	(void)task;
	while ((link = list_pop_front(&f->failed)) != NULL) {
		struct disk_io *io = LIST_ENTRY(link, struct disk_io, link);

		assert(io->private_state[0] > 0); /* of faulty_submit */
		io->fn(io, -(int)io->private_state[0], io->arg);
	}
}

static void
faulty_close(struct disk *disk)
{
	struct faulty_disk *f = faulty_of(disk);

	loop_task_cancel(f->loop, &f->task);
	loop_timer_stop(f->loop, &f->timer);
	disk_close(f->inner);
	f->disk.magic = 0;
	free(f);
}

static const struct disk_ops faulty_ops = {
	.name = "fault",
	.submit = faulty_submit,
	.close = faulty_close,
};

int
disk_fault_open(struct loop *loop, struct disk *inner, struct disk_fault *fault,
    struct disk **ret_disk)
{
	struct faulty_disk *f = calloc(1, sizeof(*f));

	assert(inner != NULL);
	assert(fault != NULL);
	if (f == NULL)
		return -ENOMEM;
	f->disk = *inner;
	f->disk.magic = DISK_FAULTY_MAGIC;
	f->disk.ops = &faulty_ops;
	f->loop = loop;
	f->inner = inner;
	f->fault = fault;
	list_init(&f->failed);
	loop_task_init(&f->task, faulty_on_task, f);
	list_init(&f->late);
	loop_timer_init(&f->timer, faulty_on_timer, f);
	*ret_disk = &f->disk;
	return 0;
}
