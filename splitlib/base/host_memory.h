/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.h -- how much memory this process may have at most: the host's, or its control group's */
#ifndef CLEAVE_BASE_HOST_MEMORY_H
#define CLEAVE_BASE_HOST_MEMORY_H

#include <stdint.h>

/*
 * host_memory_bytes -- the host's memory, or less, where a control group (version 2) that this process is in has a limit
 *
 * UINT64_MAX: that cannot be told. What others use of it is not taken off. Threads: any.
 */
uint64_t host_memory_bytes(void);
/*
 * host_memory_least_of -- the least limit on the way from group @group up to the root of the tree at @root
 *
 * @group: as /proc/self/cgroup has it behind "0::", "/" or "/a/b". Its files memory.max have a number, or "max".
 * UINT64_MAX: there is none.
 */
uint64_t host_memory_least_of(const char *root, const char *group);

#endif /* CLEAVE_BASE_HOST_MEMORY_H */
