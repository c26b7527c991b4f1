/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inline_write.h -- whether a short write is made by the loop's own thread, or goes through the ring
 *
 * A thread that waits for its write inside pwritev is woken by the disk itself; one that sleeps in
 * its loop is woken by a worker of the kernel, which is woken by the disk. While it waits, its loop
 * stands still: so this is done only where nothing else is at the disk, and only while most such writes
 * are quick. At a disk that is always slow the thread waits for INLINE_WRITE_SCORE_MAX / 2 writes in
 * INLINE_WRITE_REST at most.
 */
#ifndef CLEAVE_STORAGE_INLINE_WRITE_H
#define CLEAVE_STORAGE_INLINE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

#define INLINE_WRITE_BYTES_MAX NUM_KIB(16) /* an append that shares its write with no other */
/* A drive with a protected cache takes less, with a wait for a processor. */
#define INLINE_WRITE_QUICK_NS NUM_US(250)
#define INLINE_WRITE_SCORE_MAX 16u /* so many more slow writes than quick ones: the disk is slow */
#define INLINE_WRITE_REST 256u     /* writes through the ring before a slow disk is tried again */

/* Zero-initialised: the first write is tried. */
struct inline_write {
	uint32_t rest_count; /* how many more go through the ring */
	uint32_t score;      /* one more for a slow write, one less for a quick one, at least 0 */
};

/* inline_write_try -- @bytes > 0 of a write are alone at the disk. True: the thread writes them; false: the ring. */
bool inline_write_try(struct inline_write *policy, uint64_t bytes);
/* inline_write_took -- the write for which inline_write_try last said true took @ns. */
void inline_write_took(struct inline_write *policy, uint64_t ns);

#endif /* CLEAVE_STORAGE_INLINE_WRITE_H */
