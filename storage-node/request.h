/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- requests from the message that asks to the reply that is on its way */
#ifndef CLEAVE_STORAGE_REQUEST_H
#define CLEAVE_STORAGE_REQUEST_H

#include <stdint.h>

#include "append.h"
#include "change.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "find.h"
#include "gather.h"
#include "read.h"
#include "verify.h"

struct node;
struct sn_extent;

#define SN_REQUEST_MAGIC 0x51455253u /* "SREQ" */
#define SN_REQUESTS_MAX 65536u

/* A message that is worked on. There are as many as the pool has receives. */
struct sn_request {
	uint32_t magic;
	struct loop_link link; /* in node->free_requests */
	struct node *node;
	struct split_msg *msg;
	struct wire_node wire;
	struct sn_extent *extent; /* that it is about; NULL: none, or not found yet */
	void *page;               /* ONDISK_PAGE_BYTES of host memory, for what a change writes */
	/* By wire.opcode. */
	union {
		struct sn_append append;
		struct sn_change change;
		struct sn_find find;
		struct sn_gather gather;
		struct sn_read read;
		struct sn_verify_request verify;
	};
};

/* sn_request_init -- node->request_count free ones, once. Returns 0; -ENOMEM: then sn_request_fini, too. */
int sn_request_init(struct node *node);
/* sn_request_fini -- free them; the port is closed. Also before sn_request_init. */
void sn_request_fini(struct node *node);
/*
 * sn_request_take -- a free request for @msg, whose decoded header is @wire
 *
 * @msg is the request's from here on, until it is answered; @wire is copied. Never NULL: @msg holds a receive, and
 * there are as many requests.
 */
struct sn_request *sn_request_take(struct node *node, struct split_msg *msg,
    const struct wire_node *wire);
/*
 * sn_request_finish -- answer @req; it is free after this
 *
 * @reply: rc (0 or a negative errno) and what wire_node_reply says of the opcode; opcode, ids and fence are filled
 * in. @piece: the answer's bytes, reply->length_bytes of them, in the request's own receive; NULL: none.
 */
void sn_request_finish(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *piece);
/* sn_request_finish_pieces -- likewise, with the answer's bytes in @count pieces, 0 to WIRE_GATHER_MAX. */
void sn_request_finish_pieces(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *pieces, uint32_t count);
/* sn_request_fail -- answer @req with the negative errno @rc alone; it is free after this. */
void sn_request_fail(struct sn_request *req, int rc);
/*
 * sn_reply_raw -- answer a message that is no request (echo, control): @header, and @piece (NULL: none) behind it
 *
 * @msg is gone. The reply is counted until it is on its way, and a stop waits for it.
 */
void sn_reply_raw(struct node *node, struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *piece);

#endif /* CLEAVE_STORAGE_REQUEST_H */
