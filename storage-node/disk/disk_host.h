/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_host.h -- pieces of device memory as the disk seam sees them
 *
 * This header and the disks are the only places of storage-node/ that know what is inside a dev_ptr. The node's own
 * pages (headers, fences, zeros) are host memory, and a disk gets them by their address.
 */
#ifndef CLEAVE_STORAGE_DISK_HOST_H
#define CLEAVE_STORAGE_DISK_HOST_H

#include <stdint.h>

#include "cleave/dev_ptr.h"

/* disk_host_piece -- @bytes of host memory at @page as a piece; both multiples of DISK_ALIGN. */
static inline struct dev_piece
disk_host_piece(void *page, uint32_t bytes)
{
	return (struct dev_piece){ .ptr = { .device_address_private = (uintptr_t)page },
		.bytes = bytes };
}

/* disk_piece_address -- where the bytes of @piece are; for disks alone, with the guard open. */
static inline void *
disk_piece_address(const struct dev_piece *piece)
{
	return (void *)piece->ptr.device_address_private;
}

/* disk_pieces_bytes -- the sum of the lengths of @piece_count pieces. */
static inline uint64_t
disk_pieces_bytes(const struct dev_piece *pieces, uint32_t piece_count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < piece_count; i++)
		bytes += pieces[i].bytes;
	return bytes;
}

#endif /* CLEAVE_STORAGE_DISK_HOST_H */
