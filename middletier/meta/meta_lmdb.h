/* SPDX-License-Identifier: Apache-2.0 */
/* meta_lmdb.h -- a metadata store in one directory, for the gateways of one host */
#ifndef CLEAVE_MIDDLETIER_META_META_LMDB_H
#define CLEAVE_MIDDLETIER_META_META_LMDB_H

#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"

/* To be said of a store whose file was cut off, or written over. */
#define META_LMDB_BROKEN_HELP                                                                      \
	"that is broken: put a whole one in its place (--accept-copy), or move it away, and cleave recover makes one"

/*
 * meta_lmdb_open -- open or make the store in directory @path; completions come to @loop
 *
 * Any number of processes of one host share a store; each opens it once, and none forks while it has
 * it open. Two threads of its own do the work, so that no commit blocks the loop, and none that waits for
 * the disk blocks a lease: leases and leased keys are in memory that the host shares. A commit by any
 * process wakes the others, whose watches are then called; without commits all sleep. Leases are
 * judged by the host's monotonic clock, by every process; those of a process that has died end at once.
 * A process that is stopped (SIGSTOP) within a commit holds the others up; a killed one does not.
 * A process that does not see the memory of those that run already is refused (lmdb_leases.h).
 * Returns: the store, or NULL with a text in @ret_error that names what is wrong with which path.
 */
struct meta *meta_lmdb_open(struct loop *loop, const char *path, char *ret_error,
    size_t error_bytes);

/*
 * meta_lmdb_claim_id -- be the only process of this store that is gateway @gateway_id
 *
 * A lock on DIR/gateway-ID.lock, kept until the store is closed or the process dies. Once a handle.
 * Returns: 0; -EBUSY another process is this gateway, or this handle already is one; else the errno.
 * Then @ret_error says why.
 */
int meta_lmdb_claim_id(struct meta *meta, uint64_t gateway_id, char *ret_error, size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_META_META_LMDB_H */
