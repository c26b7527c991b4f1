/* SPDX-License-Identifier: Apache-2.0 */
/* read.h -- any byte range of an extent's durable bytes */
#ifndef CLEAVE_STORAGE_READ_H
#define CLEAVE_STORAGE_READ_H

#include <stdint.h>

#include "cleave/disk.h"

struct sn_request;

/* A request's share of it. */
struct sn_read {
	struct disk_io io;
	struct dev_piece piece;
	uint32_t skip_bytes; /* in front, for alignment */
};

/*
 * sn_read_start -- @req, a READ: refused at once, or answered with the bytes
 *
 * Errors, told to the gateway: -ENOENT; -ERANGE past the durable length; -EMSGSIZE more than a receive holds;
 * -EIO the disk; -EBUSY it takes no more requests now.
 */
void sn_read_start(struct sn_request *req);

#endif /* CLEAVE_STORAGE_READ_H */
