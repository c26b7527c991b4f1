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
#include "read.h"
#include "verify.h"

struct node;
struct sn_extent;

#define SN_REQUEST_MAGIC 0x51455253u /* "SREQ" */
#define SN_REQUESTS_MAX 65536u

/* A message being worked on; as many as the pool has receives. */
struct sn_request {
	uint32_t magic;
	struct loop_link link; /* in node->free_requests */
	struct node *node;
	struct split_msg *msg;
	struct wire_node wire;
	struct sn_extent *extent;
	void *page; /* ONDISK_PAGE_BYTES of host memory */
	union {
		struct sn_append append;
		struct sn_change change;
		struct sn_read read;
		struct sn_verify_request verify;
	};
};

/* sn_request_init -- node->request_count of them. Returns 0 or -ENOMEM. */
int sn_request_init(struct node *node);
void sn_request_fini(struct node *node);
/* sn_request_take -- a free one for @msg, which is its own from now on; @wire is copied. */
struct sn_request *sn_request_take(struct node *node, struct split_msg *msg,
    const struct wire_node *wire);
/*
 * sn_request_finish -- answer @req; it is free after this
 *
 * @reply: rc and what the opcode's answer has; the rest is filled in. @piece: the answer's bytes, in the request's
 * own receive; NULL: none.
 */
void sn_request_finish(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *piece);
/* sn_request_fail -- the same for a bare @rc, a negative errno. */
void sn_request_fail(struct sn_request *req, int rc);
/* sn_reply_raw -- answer @msg itself, which goes with it; counted, so that a stop waits for it. */
void sn_reply_raw(struct node *node, struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *piece);

#endif /* CLEAVE_STORAGE_REQUEST_H */
