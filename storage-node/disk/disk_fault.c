/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_fault.c -- a disk before a disk, that fails or halts the n-th request
 *
 * A request that passes goes to the inner disk as it is. One that fails completes from a deferred call,
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
		return disk_submit(f->inner, io);
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
	*ret_disk = &f->disk;
	return 0;
}
