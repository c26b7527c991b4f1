/* SPDX-License-Identifier: Apache-2.0 */
/* find.h -- a block of a run is looked up in its batch's head, and read, in one request */
#ifndef CLEAVE_STORAGE_FIND_H
#define CLEAVE_STORAGE_FIND_H

#include <stdint.h>

#include "cleave/disk.h"

struct sn_request;

/* The part of a request that is a find. */
struct sn_find {
	struct disk_io io;
	struct dev_piece piece; /* what the disk reads */
	uint64_t at_bytes;      /* of the extent: where the frames begin */
	uint32_t bytes;         /* of them; 0: there is none */
	uint32_t skip_bytes;    /* read in front of them, for alignment */
	uint64_t began_ns;
};

/*
 * sn_find_start -- @req, a FIND: refused at once, or answered with the batch's head and the frames that follow
 *
 * The head of the batch at offset_bytes, length_bytes long, comes from memory or the disk. Behind it in the answer are
 * the stored bytes of the frames that hold block to block + block_count - 1 of the chunk, as far as they lie next to each
 * other, are in this batch and have room; offset_bytes of the answer says where those lie in the extent. @req: decoded;
 * the node's until it is answered. The node is READY.
 *
 * Errors: as of sn_read_start; -EBADMSG: no head of a run's batch of that length is there.
 */
void sn_find_start(struct sn_request *req);

#endif /* CLEAVE_STORAGE_FIND_H */
