/* SPDX-License-Identifier: Apache-2.0 */
/* format_pages.h -- the pages of an empty disk, for the command, the simulator and tests */
#ifndef CLEAVE_STORAGE_FORMAT_PAGES_H
#define CLEAVE_STORAGE_FORMAT_PAGES_H

#include <stdint.h>

#define FORMAT_REASON_BYTES_MAX 256u
/* A disk that ends before its last slot does; an unsigned long long: its bytes. */
#define FORMAT_CUT_TEXT                                                                                               \
	"superblock: capacity: the disk has only %llu bytes, fewer than when it was formatted: was it truncated, or " \
	"is it a part of a copy?"

/* Options of node_format. */
struct node_format {
	uint64_t capacity_bytes; /* of the disk */
	uint64_t slot_bytes; /* of a slot, head included [64 MiB; 64 KiB to 64 MiB, whole pages] */
	uint64_t cluster_id; /* not 0 */
	uint32_t node_id;    /* not 0 */
	uint8_t disk_uuid[16];
	uint64_t created_unix_ns; /* for people; nothing is decided by it */
};

/*
 * node_format -- hand every page of an empty disk to @put, the superblocks last
 *
 * The rest of the disk must read as zeros, or as pages and batches of other disk and extent ids. @put writes
 * ONDISK_PAGE_BYTES at @offset_bytes of the disk, and returns 0 or a negative errno, which ends it; flushing is the
 * caller's. Returns 0; or, with a text for people in @reason (FORMAT_REASON_BYTES_MAX), -EINVAL an id that is 0 or a
 * slot size that cannot be; -ENOSPC not one slot fits; -ENOMEM; what @put returned.
 */
int node_format(const struct node_format *format,
    int (*put)(void *arg, uint64_t offset_bytes, const void *page), void *arg, char *reason);
/* node_format_slot_count -- slots of the disk that node_format makes of @format; 0: it refuses. */
uint32_t node_format_slot_count(const struct node_format *format);
/*
 * node_format_slot_bytes -- the slot size that a disk of @capacity_bytes gets, where nobody says another: a power of two
 *
 * Logs, manifests and the reserve take some slots, whatever they hold: so there shall be 512, for these to be a small
 * part of a small disk as well. 1 MiB to 64 MiB; where that leaves too few slots for one shard, a disk is too small.
 */
uint64_t node_format_slot_bytes(uint64_t capacity_bytes);
/* node_format_reserve -- of @slot_count slots, each of @extent_bytes, those that no log extent may take. */
uint32_t node_format_reserve(uint64_t slot_count, uint64_t extent_bytes);

/*
 * node_probe -- whose disk is it that begins with @page? For "formatted already?"
 *
 * @page: the first ONDISK_PAGE_BYTES of a disk. Returns 0 and its ids in *@ret_format, whose capacity_bytes is where its
 * last slot ends: a disk that has fewer was cut off; else what ondisk_super_decode says.
 */
int node_probe(const void *page, struct node_format *ret_format);

#endif /* CLEAVE_STORAGE_FORMAT_PAGES_H */
