/* SPDX-License-Identifier: Apache-2.0 */
/* format_pages.h -- the pages of an empty disk, for the command, the simulator and tests */
#ifndef CLEAVE_STORAGE_FORMAT_PAGES_H
#define CLEAVE_STORAGE_FORMAT_PAGES_H

#include <stdint.h>

#define FORMAT_REASON_BYTES_MAX 256u

/* Options of node_format. */
struct node_format {
	uint64_t capacity_bytes;
	uint64_t slot_bytes; /* [64 MiB] */
	uint64_t cluster_id; /* not 0 */
	uint32_t node_id;    /* not 0 */
	uint8_t disk_uuid[16];
	uint64_t created_unix_ns;
};

/*
 * node_format -- hand every page of an empty disk to @put, the superblocks last
 *
 * The rest of the disk must read as zeros, or as pages and batches of other disk and extent ids. The
 * caller writes and flushes; the simulator pokes. @put returns 0 or a negative errno, which ends it.
 * Returns: 0; -EINVAL or -ENOSPC with a text in @reason (FORMAT_REASON_BYTES_MAX); what @put returned.
 */
int node_format(const struct node_format *format,
    int (*put)(void *arg, uint64_t offset_bytes, const void *page), void *arg, char *reason);
/* node_format_slot_count -- how many slots such a disk has; 0: node_format refuses it. */
uint32_t node_format_slot_count(const struct node_format *format);

/* node_probe -- what the first superblock page at @page says; for "formatted already?". 0 or -errno. */
int node_probe(const void *page, uint64_t *ret_cluster_id, uint32_t *ret_node_id);

#endif /* CLEAVE_STORAGE_FORMAT_PAGES_H */
