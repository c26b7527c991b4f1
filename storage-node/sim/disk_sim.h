/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sim.h -- a disk in memory that tears, loses, rots and stalls from a seed
 *
 * A *simulated disk* is what survives a process: its bytes, sparse by 4 KiB page, and the writes that
 * no flush has covered yet, kept apart in order. A process reaches it through a *handle*, an ordinary
 * struct disk. Closing the handle (a process that stops or is killed) leaves the bytes as they are;
 * disk_sim_power_loss then decides, by the seed, which unflushed writes are there, and which are torn
 * at 512 bytes.
 *
 * Threads: that of the loop; the simulator has one.
 */
#ifndef CLEAVE_STORAGE_DISK_SIM_H
#define CLEAVE_STORAGE_DISK_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/disk.h"
#include "disk/disk_fault.h"

#define DISK_SIM_SECTOR_BYTES 512u
#define DISK_SIM_BAD_RANGES_MAX 16u
#define DISK_SIM_RULES_MAX 16u

struct disk_sim;

/* Zero means the default in brackets. A request takes latency_ns plus up to as much again by the
 * seed; one in 100 takes ten times as long. */
struct disk_sim_options {
	uint64_t capacity_bytes;
	uint64_t seed;
	uint64_t read_latency_ns;  /* [80 us] */
	uint64_t write_latency_ns; /* [20 us] */
	uint64_t flush_latency_ns; /* [200 us] */
};

/*
 * disk_sim_create -- a disk of zeros, the caller's until disk_sim_destroy
 *
 * Returns NULL with errno: ENOMEM; EINVAL capacity_bytes is 0 or no multiple of DISK_ALIGN.
 */
struct disk_sim *disk_sim_create(const struct disk_sim_options *options);
/* disk_sim_held_bytes -- bytes of memory that the disk takes; they grow as it is written. */
uint64_t disk_sim_held_bytes(const struct disk_sim *sim);
/* disk_sim_destroy -- free @sim, which no handle has open. NULL is a no-op. */
void disk_sim_destroy(struct disk_sim *sim);

/*
 * disk_sim_open -- a handle for one process, on its @loop
 *
 * Closing it (disk_close) with writes in flight: each has happened or not, by the seed; no handler runs any more.
 * Returns 0 and *@ret_disk; -EBUSY another handle is open; -ENOMEM.
 */
int disk_sim_open(struct disk_sim *sim, struct loop *loop, struct disk **ret_disk);
/* disk_sim_is_open -- has a process a handle? */
bool disk_sim_is_open(const struct disk_sim *sim);

/* disk_sim_power_loss -- decide the fate of every unflushed write. No handle may be open. */
void disk_sim_power_loss(struct disk_sim *sim);

/*
 * Chances in a thousand that a request goes wrong by itself; 0: never. Writes that fail may have happened. A flush
 * that fails loses about half of what it should have covered, for good; one that lies leaves it to the next power
 * loss, or to a later flush that does not lie.
 */
struct disk_sim_faults {
	uint32_t read_fails, write_fails, flush_fails; /* -EIO, each request by itself */
	uint32_t flush_lies;                           /* 0, and nothing was made durable */
	uint32_t write_lost;                           /* 0, and nothing was written */
	uint32_t write_misdirected;                    /* it lands at another aligned offset */
	uint32_t read_misdirected;                     /* it brings another offset's bytes */
	uint32_t rot;                                  /* a write: some stored bit flips */
	uint32_t rot_places_max;                       /* no more than so many flip in all */
	uint32_t slow_requests;                        /* one takes 10 to 1,000 times as long */
	uint32_t stalls;                     /* a request: nothing completes for a while */
	uint64_t stall_min_ns, stall_max_ns; /* [2 s, 30 s] */
	/* Reads and writes that fail or stray, and bits that rot, do so from here to there [all]. */
	uint64_t first_bytes, end_bytes;
};
/* disk_sim_set_faults -- @faults, copied, from now on instead of those set before; offsets are aligned. */
void disk_sim_set_faults(struct disk_sim *sim, const struct disk_sim_faults *faults);

/* A rule: certain requests fail with an error. */
struct disk_sim_rule {
	uint32_t ops; /* DISK_FAULT_OP bits */
	int rc;
	uint64_t offset_bytes, bytes; /* reads and writes that touch these; bytes 0: all */
	uint32_t count;               /* so many of them; 0: for ever */
};
/* disk_sim_add_rule -- @rule, copied; of several the first that fits counts. -ENOBUFS beyond DISK_SIM_RULES_MAX. */
int disk_sim_add_rule(struct disk_sim *sim, const struct disk_sim_rule *rule);
/* disk_sim_clear_rules -- no request fails by rule any more. */
void disk_sim_clear_rules(struct disk_sim *sim);

/* disk_sim_fault -- lets the n-th request fail or halt; the disk's, and the test's to change at any time. */
struct disk_fault *disk_sim_fault(struct disk_sim *sim);
/* disk_sim_stall -- nothing completes for @duration_ns from now. A handle must be open. */
void disk_sim_stall(struct disk_sim *sim, uint64_t duration_ns);
/* disk_sim_set_slowness -- latencies times @factor from now on; 1 is usual. */
void disk_sim_set_slowness(struct disk_sim *sim, uint32_t factor);
/* disk_sim_set_full -- writes fail with -ENOSPC. */
void disk_sim_set_full(struct disk_sim *sim, bool is_full);
/* disk_sim_set_written_ahead -- what disk_is_written says of all of it; false as it is made. */
void disk_sim_set_written_ahead(struct disk_sim *sim, bool is_written_ahead);
/* disk_sim_set_shared -- the answer of disk_is_shared for all of the disk; false at first. */
void disk_sim_set_shared(struct disk_sim *sim, bool is_shared);
/* disk_sim_set_lying -- while @is_lying, flushes answer 0 and make nothing durable. */
void disk_sim_set_lying(struct disk_sim *sim, bool is_lying);
/* disk_sim_misdirect_next_write -- the next write lands at @offset_bytes, and answers 0. */
void disk_sim_misdirect_next_write(struct disk_sim *sim, uint64_t offset_bytes);
/* disk_sim_misdirect_next_read -- the next read brings the bytes at @offset_bytes, and answers 0. */
void disk_sim_misdirect_next_read(struct disk_sim *sim, uint64_t offset_bytes);
/* disk_sim_lose_next_write -- the next write answers 0 and changes nothing. */
void disk_sim_lose_next_write(struct disk_sim *sim);
/* disk_sim_rot -- flip bit @bit & 7 of the byte at @offset_bytes, durable copy included. */
void disk_sim_rot(struct disk_sim *sim, uint64_t offset_bytes, uint32_t bit);
/* disk_sim_rot_somewhere -- flip a bit of a written page within the faults' reach. False: no page is. */
bool disk_sim_rot_somewhere(struct disk_sim *sim, uint64_t *ret_offset_bytes);
/*
 * disk_sim_set_bad -- reads that touch these @bytes > 0 give -EIO until one write covers them all
 *
 * Returns 0; -ENOBUFS beyond DISK_SIM_BAD_RANGES_MAX ranges.
 */
int disk_sim_set_bad(struct disk_sim *sim, uint64_t offset_bytes, uint64_t bytes);

/* disk_sim_peek, disk_sim_poke -- copy out, and change durably, what a read would return; any alignment. */
void disk_sim_peek(const struct disk_sim *sim, uint64_t offset_bytes, void *data, size_t bytes);
void disk_sim_poke(struct disk_sim *sim, uint64_t offset_bytes, const void *data, size_t bytes);

/*
 * disk_sim_is_lost -- has a failed flush given up any of these bytes, which reads go on to show?
 *
 * Until they are written and flushed again.
 */
bool disk_sim_is_lost(const struct disk_sim *sim, uint64_t offset_bytes, uint64_t bytes);

/* A write or flush that was done, for tests that replay part of a disk's history. */
struct disk_sim_event {
	enum disk_op op;       /* DISK_WRITE or DISK_FLUSH, done without an error */
	uint64_t sequence;     /* of a write, from 1 on; of a flush: it covers those up to this */
	uint64_t offset_bytes; /* where a write landed */
	uint64_t bytes;
	const uint8_t *data; /* of a write, for the call */
};
/* disk_sim_trace -- call @fn for each event from now on; NULL: no more. */
void disk_sim_trace(struct disk_sim *sim, void (*fn)(const struct disk_sim_event *event, void *arg),
    void *arg);

struct disk_sim_counters {
	uint64_t reads_count, writes_count, flushes_count;
	uint64_t read_bytes, written_bytes;
	uint64_t power_losses_count;
	uint64_t lost_writes_count; /* in power losses */
	uint64_t torn_writes_count;
};
/* disk_sim_counters -- requests since the disk was made, over all handles. */
const struct disk_sim_counters *disk_sim_counters(const struct disk_sim *sim);
/* Faults injected by rules, dice and calls; those of disk_sim_fault are not in it. */
struct disk_sim_counts {
	uint64_t failed_reads, failed_writes, failed_flushes;
	uint64_t lying_flushes;
	uint64_t lost_writes, misdirected_writes, misdirected_reads;
	uint64_t rotten_bits;
	uint64_t stalls, slow_requests;
};
/* disk_sim_counts -- since the disk was made. */
const struct disk_sim_counts *disk_sim_counts(const struct disk_sim *sim);
/* disk_sim_unflushed_count -- writes that have completed, and that no flush has covered. */
uint32_t disk_sim_unflushed_count(const struct disk_sim *sim);
/* disk_sim_capacity -- bytes, as disk_sim_create was told. */
uint64_t disk_sim_capacity(const struct disk_sim *sim);

#endif /* CLEAVE_STORAGE_DISK_SIM_H */
