/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h -- which descriptors a process begins with, and how many it may have open
 *
 * A daemon's soft limit is often 1,024, whatever the system could do: a daemon raises it at its start to
 * what its own bounds need. The hard limit is its operator's.
 */
#ifndef CLEAVE_BASE_DESCRIPTORS_H
#define CLEAVE_BASE_DESCRIPTORS_H

#include <stdint.h>

#define DESCRIPTORS_SPARE 128u /* for what is no connection: files, timers, rings, threads' loops */

/*
 * descriptors_hold_standard -- at the beginning of a program: descriptors 0 to 2 are open
 *
 * Whoever starts it may have closed some (2>&-, an old way to make daemons). The next file, socket or disk would be one of them,
 * and get the lines of the log, or what a command prints. Those that are closed become /dev/null, opened so that each write to 1
 * and 2, and each read of 0, fails with EBADF as before. Without /dev/null they stay closed.
 */
void descriptors_hold_standard(void);

/*
 * descriptors_raise -- raise the soft limit (RLIMIT_NOFILE) to @wanted_count, or to the hard one where that
 * is less
 *
 * Never lowers it. Returns the soft limit that holds from here on: what the caller must live with.
 */
uint64_t descriptors_raise(uint64_t wanted_count);

/*
 * descriptors_prepare -- the same for a daemon of @connection_count connections and what else it needs
 *
 * Logs a warning that names the limit where it is too small for them. @noun begins the line.
 * Returns for how many connections it is large enough: @connection_count at most.
 */
uint64_t descriptors_prepare(const char *noun, uint64_t connection_count);

#endif /* CLEAVE_BASE_DESCRIPTORS_H */
