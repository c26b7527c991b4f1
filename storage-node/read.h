/* SPDX-License-Identifier: Apache-2.0 */
/* read.h -- any byte range of an extent's durable bytes */
#ifndef CLEAVE_STORAGE_READ_H
#define CLEAVE_STORAGE_READ_H

#include <stdint.h>

#include "cleave/disk.h"

struct sn_request;

/* The part of a request that is a read. */
struct sn_read {
	struct disk_io io;
	struct dev_piece piece;
	uint32_t skip_bytes; /* read in front of what is wanted, for alignment */
	uint64_t began_ns;   /* it was handed to the disk */
};

/*
 * sn_read_start -- @req, a READ: refused at once, or answered with the bytes
 *
 * @req: decoded; the node's until it is answered. The node is READY. Errors, told to the gateway: -ENOENT no such
 * copy; -ERANGE past its durable length; -EMSGSIZE more whole blocks than a receive holds; -EBUSY the disk takes no
 * more requests now; -EIO the disk failed it.
 */
void sn_read_start(struct sn_request *req);

/* sn_read_note_failed -- the disk failed a read of @req, at @offset_bytes of its extent, with @rc: count it, and say so. */
void sn_read_note_failed(struct sn_request *req, uint64_t offset_bytes, int rc);

#endif /* CLEAVE_STORAGE_READ_H */
