/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.h -- the disk seam: read, write and durable flush, completing into handlers
 *
 * disk_uring_open: a file or block device through io_uring and O_DIRECT. disk_sim_open: bytes in
 * memory that tear, vanish and rot from a seed. All offsets, lengths and buffers are multiples of
 * DISK_ALIGN. Requests submitted in a loop turn go down together at its end.
 *
 * A write is durable only once a flush submitted after its completion has completed. A failed flush
 * says nothing about any write before it, for ever (I3): the owner must stop trusting the disk. A
 * write with is_durable is a write and a flush behind it in one request, sooner than the two; what
 * its flush covers beyond itself is not said, but its failure is that of any flush.
 */
#ifndef CLEAVE_DISK_H
#define CLEAVE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "cleave/loop.h"

#define DISK_ALIGN 4096u
#define DISK_PIECES_MAX 64u

enum disk_op { DISK_READ, DISK_WRITE, DISK_FLUSH };

struct disk;

/* A request, owned by the caller until @fn. Host pages are given as their address in a dev_ptr. */
struct disk_io {
	struct loop_link link; /* owned by the disk */
	enum disk_op op;
	uint64_t offset_bytes;
	const struct dev_piece *pieces; /* borrowed until @fn */
	uint32_t piece_count;
	bool is_durable;       /* WRITE: completes when it is durable */
	bool has_flush_failed; /* with rc of such a write: its flush failed, or may have */
	/* rc: 0, all bytes moved (short transfers are resumed inside); or a negative errno. */
	void (*fn)(struct disk_io *io, int rc, void *arg);
	void *arg;
	uint64_t private_state[24]; /* the implementation's: no allocation a request */
};

struct disk_ops {
	const char *name;
	/* 0: @io->fn will be called exactly once, not from inside. -ENOBUFS: too many in flight. */
	int (*submit)(struct disk *disk, struct disk_io *io);
	void (*close)(struct disk *disk); /* waits for what is in flight */
	/* Optional: see disk_is_written. */
	bool (*is_written)(struct disk *disk, uint64_t offset_bytes, uint64_t bytes);
	/* Optional: see disk_is_shared. */
	bool (*is_shared)(struct disk *disk, uint64_t offset_bytes, uint64_t bytes);
};

struct disk {
	uint32_t magic;
	const struct disk_ops *ops;
	uint64_t capacity_bytes;
	bool is_cache_volatile; /* what the device says; flushes are needed */
};

static inline int
disk_submit(struct disk *disk, struct disk_io *io)
{
	return disk->ops->submit(disk, io);
}

/*
 * disk_is_written -- do writes to this range find written blocks, once a flush from here on has completed?
 *
 * Then writing them again changes no metadata of a file system beneath, and what a device with a
 * protected cache has acknowledged needs no flush. False where it is not known. Asks the file system: not
 * for the data path.
 */
static inline bool
disk_is_written(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	return disk->ops->is_written != NULL && disk->ops->is_written(disk, offset_bytes, bytes);
}

/*
 * disk_is_shared -- does a copy of the file (a reflink) have some of these blocks, too?
 *
 * The next write to such a block goes to a new one, whatever disk_is_written has said before: it is not
 * durable before a flush. False where it is not known. Asks the file system: not for the data path.
 */
static inline bool
disk_is_shared(struct disk *disk, uint64_t offset_bytes, uint64_t bytes)
{
	return disk->ops->is_shared != NULL && disk->ops->is_shared(disk, offset_bytes, bytes);
}

static inline void
disk_close(struct disk *disk)
{
	disk->ops->close(disk);
}

#endif /* CLEAVE_DISK_H */
