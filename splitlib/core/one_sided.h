/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_sided.h -- reads and writes of peers' regions, as transports and queue pairs see them
 *
 * one_sided.c tells the model.
 */
#ifndef CLEAVE_SPLIT_ONE_SIDED_H
#define CLEAVE_SPLIT_ONE_SIDED_H

#include "cleave/split.h"
#include "qp.h"

#define ONE_SIDED_PIECES 16u /* of one queue pair, in flight, each way */
#define ONE_SIDED_PIECE_BYTES WIRE_PAYLOAD_BYTES_MAX

/* A part of a read or write of ours: what one message or work request moves. */
struct one_sided_piece {
	struct loop_link link; /* in exactly one of the three lists of struct one_sided */
	struct dev_event *event;
	uint64_t offset_bytes; /* in the event's memory, and from its offset in the region */
	uint32_t bytes;
	uint32_t sequence;
	/* Where it travels as a message. */
	struct split_send send;
	struct wire_header header;
	struct dev_piece device;
};

struct one_sided {
	struct loop_link waiting; /* events of which not all is in pieces */
	struct loop_link free;    /* pieces */
	struct loop_link again;   /* pieces that were not carried out */
	struct loop_link flying;  /* pieces, oldest first */
	uint32_t sequence_next;
	struct one_sided_piece pieces[ONE_SIDED_PIECES];
};

static inline bool
one_sided_is(uint8_t opcode)
{
	opcode &= (uint8_t)~WIRE_REPLY;
	return opcode == WIRE_DEV_READ || opcode == WIRE_DEV_WRITE;
}

/* For transports that carry them out: */

/* one_sided_take -- the next piece, now in flying; NULL: none, or too many are flying. */
struct one_sided_piece *one_sided_take(struct split_qp *qp);
/* one_sided_is_wanted -- whether one_sided_take would find one. */
bool one_sided_is_wanted(const struct split_qp *qp);
/* one_sided_oldest -- of those in flight. */
struct one_sided_piece *one_sided_oldest(struct split_qp *qp);
/* one_sided_end -- @piece is through. */
void one_sided_end(struct split_qp *qp, struct one_sided_piece *piece, int rc);
/* one_sided_return -- @piece was not carried out, or may be once more: it goes again, in order. */
void one_sided_return(struct split_qp *qp, struct one_sided_piece *piece);
/* one_sided_refuse -- all that is not flying ends with @rc. */
void one_sided_refuse(struct split_qp *qp, int rc);

/* For queue pairs and ports: */

/* one_sided_begin -- a message of ours has arrived: fill qp->fill. 0, or -EPROTO and the field. */
int one_sided_begin(struct split_qp *qp, const struct wire_header *header, const char **ret_field);
/* one_sided_finish -- all bytes of the message of @fill have come. */
void one_sided_finish(struct split_qp *qp, const struct recv_fill *fill);
/* one_sided_flush -- every event of @qp ends with @rc; nothing is in the transport's hands. */
void one_sided_flush(struct split_qp *qp, int rc);
/* one_sided_fini -- @qp is freed: what there is of it goes. */
void one_sided_fini(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_ONE_SIDED_H */
