/* SPDX-License-Identifier: Apache-2.0 */
/* region.h -- memory that peers may read or write, and what they are answered; region.c tells the messages */
#ifndef CLEAVE_SPLIT_REGION_H
#define CLEAVE_SPLIT_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"
#include "cleave/wire.h"
#include "one_sided.h"

struct recv_fill;
struct split_qp;
struct transport_ops;

#define SPLIT_REGION_MAGIC 0x4e474552u /* "REGN" */

struct dev_region {
	uint32_t magic;
	struct split_port *port;
	uint32_t index; /* in port->regions */
	dev_ptr memory;
	uint64_t bytes;
	uint32_t rights;
	struct dev_remote remote;
	const struct transport_ops *ops; /* who serves it */
	void *transport;
};

/* A part of a read or write of the peer's, until the answer to it is out. */
struct one_sided_answer {
	struct split_qp *qp;
	bool is_used;
	struct dev_region *region; /* that it reads or writes; NULL: refused, or read already */
	uint8_t *copy;             /* what was read of a region that is closed since */
	struct split_send send;
	struct wire_header header;
	struct dev_piece device;
};

/* A queue pair's answers, made with the first request. */
struct region_answers {
	struct one_sided_answer all[ONE_SIDED_PIECES];
};

/* regions_fini -- close every region of @port. */
void regions_fini(struct split_port *port);
/*
 * region_at -- the region that @remote names, as a peer may reach @bytes there from @offset_bytes on; NULL: it may not
 *
 * @right: of enum dev_region_rights; @remote: its address and key count.
 */
struct dev_region *region_at(const struct split_port *port, const struct dev_remote *remote,
    uint32_t right, uint64_t offset_bytes, uint64_t bytes);
/*
 * region_serve -- the peer wants to read or write: fill qp->fill with where its bytes go
 *
 * Returns 0; -EPROTO or -ENOMEM, and *@ret_field names why.
 */
int region_serve(struct split_qp *qp, const struct wire_header *header, const char **ret_field);
/* region_answer -- all bytes of @answer's message have come: tell the peer. */
void region_answer(struct split_qp *qp, struct one_sided_answer *answer);
/* region_answers_free -- @qp is freed, and what it had to answer. */
void region_answers_free(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_REGION_H */
