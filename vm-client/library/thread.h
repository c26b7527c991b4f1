/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h -- layer 2's objects: a client on a thread of the library's own, its disks, and calls that block
 *
 *	caller: cleave_wait_begin, loop_post or cleave_disk_submit, cleave_wait_for     the thread: ..., cleave_wait_finish
 */
#ifndef CLEAVE_VM_CLIENT_THREAD_H
#define CLEAVE_VM_CLIENT_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

#include "base/check.h"
#include "internal.h"

#define CLEAVE_THREAD_MAGIC 0x44524854u /* "THRD" */
#define CLEAVE_DISK_MAGIC 0x4b534944u   /* "DISK" */

struct cleave; /* thread.c */

struct cleave_disk {
	uint32_t magic;
	struct loop_link link; /* cleave->disks */
	struct cleave *cleave;
	struct cleave_volume *volume; /* the thread's */
	struct cleave_volume_info info;
};

/* A blocking call, on its caller's stack. */
struct wait {
	sem_t done;
	struct loop_post post;
	struct cleave *cleave;
	struct cleave_disk *disk;
	const char *text; /* a volume's name, or a control request */
	unsigned flags;
	uint64_t id; /* of the volume that is opened; 0: any */
	struct cleave_call call;
	struct cleave_io io;
	int rc;
	char *reply;
	char error[CLEAVE_ERROR_BYTES_MAX];
};
/* cleave_wait_begin -- a call of @cleave's that is not over: cleave_wait_for follows, or cleave_wait_drop. */
void cleave_wait_begin(struct wait *wait, struct cleave *cleave);
/* cleave_wait_drop -- end a wait for which nothing was started. */
void cleave_wait_drop(struct wait *wait);
/*
 * cleave_wait_finish -- the call is over, with @rc
 *
 * Threads: the library's. The waiter may return, and its stack be gone, as soon as this is called.
 */
void cleave_wait_finish(struct wait *wait, int rc);
/*
 * cleave_wait_for -- have @fn (NULL: it is started already) called on the library's thread, and wait for cleave_wait_finish
 *
 * Returns @rc of cleave_wait_finish; wait->error is in @ret_error, CLEAVE_ERROR_BYTES_MAX bytes or NULL, unless that is 0.
 * Threads: any but the library's.
 */
int cleave_wait_for(struct wait *wait, void (*fn)(struct loop_post *post, void *arg),
    char *ret_error);

#endif /* CLEAVE_VM_CLIENT_THREAD_H */
