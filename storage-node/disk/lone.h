/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lone.h -- whether a lone short write is the calling thread's own to make (lone.c)
 *
 * A thread that waits for its write inside pwritev is woken by the disk itself; one that sleeps in
 * its loop is woken by a worker of the kernel, which is woken by the disk. While it waits, its loop
 * stands: so only where nothing else is at the disk, and only while most such writes are quick. Of a
 * disk that is always slow the thread waits for LONE_SCORE_MAX / 2 writes in LONE_REST at the most.
 */
#ifndef CLEAVE_STORAGE_LONE_H
#define CLEAVE_STORAGE_LONE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

#define LONE_BYTES_MAX NUM_KIB(16) /* an append that shares its write with no other */
#define LONE_QUICK_NS                                                                              \
	NUM_US(250) /* of a drive with a protected cache, and a wait for a processor */
#define LONE_SCORE_MAX 16u
#define LONE_REST 256u

/* Zero-initialised: the first one is tried. */
struct lone {
	uint32_t rest_count; /* how many more go through the ring */
	uint32_t score;      /* one more for a slow write, one less for a quick one, at least 0 */
};

/* lone_try -- one of @bytes is at hand: true, it is the thread's own; false, the ring's. */
bool lone_try(struct lone *lone, uint64_t bytes);
/* lone_took -- the one that was tried last took @ns. */
void lone_took(struct lone *lone, uint64_t ns);

#endif /* CLEAVE_STORAGE_LONE_H */
