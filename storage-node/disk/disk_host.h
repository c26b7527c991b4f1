/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_host.h -- pieces of device memory as the disk seam sees them
 *
 * Part of the disk seam: the only place of storage-node/ outside the disks themselves that knows what
 * is inside a dev_ptr. The daemon's own pages (headers, fences, zeros) are host memory and travel to
 * the disk as the address that they have.
 */
#ifndef CLEAVE_STORAGE_DISK_HOST_H
#define CLEAVE_STORAGE_DISK_HOST_H

#include <stdint.h>

#include "cleave/dev_ptr.h"

/* disk_host_piece -- @page: host memory, aligned to DISK_ALIGN like its length. */
static inline struct dev_piece
disk_host_piece(void *page, uint32_t bytes)
{
	return (struct dev_piece){ .ptr = { .device_address_private = (uintptr_t)page },
		.bytes = bytes };
}

/* disk_piece_address -- for disks alone. */
static inline void *
disk_piece_address(const struct dev_piece *piece)
{
	return (void *)piece->ptr.device_address_private;
}

static inline uint64_t
disk_pieces_bytes(const struct dev_piece *pieces, uint32_t piece_count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < piece_count; i++)
		bytes += pieces[i].bytes;
	return bytes;
}

#endif /* CLEAVE_STORAGE_DISK_HOST_H */
