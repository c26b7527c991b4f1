/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h -- several stretches of an extent's durable bytes, in one request */
#ifndef CLEAVE_STORAGE_GATHER_H
#define CLEAVE_STORAGE_GATHER_H

#include <stdint.h>

#include "cleave/disk.h"
#include "cleave/gather.h"

struct sn_request;

/* The part of a request that is a gather. */
struct sn_gather {
	struct disk_io ios[WIRE_GATHER_MAX];
	struct dev_piece pieces[WIRE_GATHER_MAX]; /* what the disk reads, later what is answered */
	struct wire_stretch stretches[WIRE_GATHER_MAX];
	uint32_t out_count; /* at the disk */
	int rc;             /* of the first that failed */
	uint64_t began_ns;
};

/*
 * sn_gather_start -- @req, a GATHER: refused at once, or answered with the stretches, one behind the other
 *
 * @req: decoded, its payload is the list; the node's until it is answered. The node is READY.
 *
 * Errors: as of sn_read_start; -EINVAL: the list is none.
 */
void sn_gather_start(struct sn_request *req);

#endif /* CLEAVE_STORAGE_GATHER_H */
