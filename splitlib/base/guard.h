/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h -- keeps host code out of device memory (invariant I1), in test builds
 *
 * Device arenas registered here are out of reach for ordinary code; transports, disks and engines
 * open the guard round a system call or an engine's run. Enter and leave nest, per thread.
 *
 *	pkey      a memory protection key (pkeys(7)); per thread, 14 ns a switch. The default in
 *	          test builds (CLEAVE_TEST_BUILD) where the processor has it.
 *	mprotect  for processes with one thread that touches arenas (unit tests, the simulator):
 *	          CLEAVE_GUARD=mprotect in the environment. Slow and exact.
 *	off       release builds, and where pkey_alloc fails; guard_mode_text says why.
 */
#ifndef CLEAVE_BASE_GUARD_H
#define CLEAVE_BASE_GUARD_H

#include <stddef.h>

enum guard_mode { GUARD_OFF, GUARD_PKEY, GUARD_MPROTECT };

/* guard_init -- choose the mode once per process; later calls are no-ops. Thread-safe. */
enum guard_mode guard_init(void);
/* guard_mode_text -- "pkey", "mprotect", or "off: " and why; static. */
const char *guard_mode_text(void);
/*
 * guard_add, guard_remove -- an arena is out of reach from here on; no longer
 *
 * @memory is mapped and page aligned; it is removed with the bounds that it was added with, before it is
 * unmapped. Returns 0; -EINVAL not aligned; -ENOBUFS too many arenas; else what the kernel said.
 */
int guard_add(void *memory, size_t bytes);
void guard_remove(void *memory, size_t bytes);
/* guard_enter, guard_leave -- this thread may touch arenas between them. */
void guard_enter(void);
void guard_leave(void);

#endif /* CLEAVE_BASE_GUARD_H */
