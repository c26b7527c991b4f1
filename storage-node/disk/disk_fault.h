/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_fault.h -- the n-th request to a disk fails, is late, or is the last that ever completes
 *
 * A *fault* counts the requests that match it. disk_sim has a fault built in; disk_fault_open puts one before any
 * disk, which is how tests reach a real file (a preloaded library cannot: io_uring makes no calls that it could
 * catch). For tests, and --fail-point of test builds. Threads: the loop's.
 */
#ifndef CLEAVE_STORAGE_DISK_FAULT_H
#define CLEAVE_STORAGE_DISK_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"

#define DISK_FAULT_OP(op) (1u << (op))
#define DISK_FAULT_ANY                                                                             \
	(DISK_FAULT_OP(DISK_READ) | DISK_FAULT_OP(DISK_WRITE) | DISK_FAULT_OP(DISK_FLUSH))

enum disk_fault_verdict { DISK_FAULT_PASS, DISK_FAULT_FAIL, DISK_FAULT_HALT };

struct disk_fault {
	uint32_t ops;      /* DISK_FAULT_OP bits that are counted; 0: none */
	uint64_t at_count; /* the request that fails, 1 is the next; 0: never */
	bool is_sticky;    /* FAIL: all later ones too. A halt always is */
	enum disk_fault_verdict verdict;
	int rc; /* FAIL: a negative errno */
	uint64_t
	    delay_ns; /* PASS: from at_count on they wait so long before; disk_fault_open alone */
	void (*on_hit)(void *arg); /* called when at_count is reached, inside submit; may be NULL */
	void *arg;
	uint64_t seen_count; /* matching requests so far */
	bool is_hit;         /* at_count was reached */
};

/* disk_fault_judge -- count a request of @op, call on_hit where it is the one, and say what becomes of it. */
enum disk_fault_verdict disk_fault_judge(struct disk_fault *fault, enum disk_op op);

/*
 * disk_fault_open -- a disk that does with each request what @fault says, else what @inner does
 *
 * @fault is borrowed until the disk is closed, and may be changed at any time. @inner is the disk's, and closed with
 * it. A request that is halted never completes. Returns 0 and *@ret_disk; -ENOMEM: @inner is the caller's still.
 */
int disk_fault_open(struct loop *loop, struct disk *inner, struct disk_fault *fault,
    struct disk **ret_disk);

#endif /* CLEAVE_STORAGE_DISK_FAULT_H */
