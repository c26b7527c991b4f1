/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_fault.h -- the n-th request to a disk fails, or is the last that ever completes
 *
 * A *fault* counts the requests that match it. disk_sim has one built in; disk_fault_open puts one
 * before any disk, which is how tests reach a real file (a preloaded library cannot: io_uring makes
 * no calls that it could catch). Tests alone use this.
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
	int rc;                    /* FAIL: with what */
	void (*on_hit)(void *arg); /* called when at_count is reached, inside submit; may be NULL */
	void *arg;
	uint64_t seen_count; /* of the matching requests */
	bool is_hit;
};

/* disk_fault_judge -- count a request; what is to become of it? */
enum disk_fault_verdict disk_fault_judge(struct disk_fault *fault, enum disk_op op);

/*
 * disk_fault_open -- a disk that is @inner but for what @fault says
 *
 * @fault is borrowed and may be changed at any time. Closing closes @inner. A request that is halted
 * never completes. Returns -ENOMEM, else 0.
 */
int disk_fault_open(struct loop *loop, struct disk *inner, struct disk_fault *fault,
    struct disk **ret_disk);

#endif /* CLEAVE_STORAGE_DISK_FAULT_H */
