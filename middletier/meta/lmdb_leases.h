/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_leases.h -- where the leased half of a store in a directory lies: memory that its host shares
 *
 *	DIR/leases.lock             whose text is the name of
 *	/dev/shm/cleave-leases-ID/  data.mdb, lock.mdb (lmdb_store.c), and holder-ID of each process
 *
 * Each process that has the store open holds a shared lock of leases.lock. Who is alone makes the
 * memory anew: whoever could have held a lease in an older one is gone. Who is not alone must find the
 * memory that the others use, or is refused: gateways that do not see each other's leases would both
 * serve a shard (I7). So containers that share DIR must share /dev/shm, too.
 *
 * Each process holds a lock of its own holder-ID until it closes the store, or the kernel has let the last
 * thread of it go. Who gets that lock has the proof that the process serves nothing any more.
 */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_LEASES_H
#define CLEAVE_MIDDLETIER_META_LMDB_LEASES_H

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LMDB_LEASES_PATH_BYTES 64u
#define LMDB_LEASES_DEAD_MAX 64u

struct lmdb_leases {
	int lock_fd, directory_fd, holder_fd; /* -1: not open */
	uint64_t holder;                      /* this process, in this opening of the store */
	bool is_first;                        /* nobody else had the store open */
	char path[LMDB_LEASES_PATH_BYTES];
	uint64_t dead[LMDB_LEASES_DEAD_MAX]; /* found so since the last sweep */
	uint32_t dead_count;
};

/*
 * lmdb_leases_open -- find or make the memory of the store whose directory is @store_fd, at @path
 *
 * Returns: 0; -EBUSY others use a memory that cannot be seen from here; else an errno. Then @ret_error
 * says what is wrong with which path. Waits for a second at most, and for the disk.
 */
int lmdb_leases_open(struct lmdb_leases *leases, int store_fd, const char *path, char *ret_error,
    size_t error_bytes);
/* lmdb_leases_close -- what lmdb_leases_open left open; the last one removes the memory. */
void lmdb_leases_close(struct lmdb_leases *leases);
/* lmdb_leases_is_dead -- @holder has died or closed the store. False also where that cannot be told. */
bool lmdb_leases_is_dead(void *leases, uint64_t holder);
/* lmdb_leases_sweep -- of those that were found dead no lease is left: their files go. */
void lmdb_leases_sweep(struct lmdb_leases *leases);
/*
 * lmdb_leases_retire -- leases that an older version kept in the durable half go; see is_first
 *
 * @boot: this boot's id. @now_ns: lmdb_store_clock_ns. Older versions refuse the store afterwards.
 * Returns: 0; -EBUSY a lease lives, so an older version runs; -EIO.
 */
int lmdb_leases_retire(MDB_env *env, MDB_dbi keys, const char *boot, uint64_t now_ns);
#define LMDB_BOOT_BYTES 36u

#endif /* CLEAVE_MIDDLETIER_META_LMDB_LEASES_H */
