/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h -- how many descriptors this process may have open
 *
 * A daemon's soft limit is often 1,024, whatever the system could do: a daemon raises it at its start to
 * what its own bounds need. The hard limit is its operator's.
 */
#ifndef CLEAVE_BASE_DESCRIPTORS_H
#define CLEAVE_BASE_DESCRIPTORS_H

#include <stdint.h>

#define DESCRIPTORS_SPARE 128u /* for what is no connection: files, timers, rings, threads' loops */

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
