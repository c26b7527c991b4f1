/* SPDX-License-Identifier: Apache-2.0 */
/* call.h -- a request to a storage node, and its answer; node_link.h sends it */
#ifndef CLEAVE_MIDDLETIER_EXTENT_CALL_H
#define CLEAVE_MIDDLETIER_EXTENT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct mt_call;
struct mt_link;

/*
 * @rc: 0, or the node's status, or -ECONNRESET, -ETIMEDOUT. @reply is NULL unless the node answered.
 * @msg (READ, FIND, GATHER, LIST, TICKET_KEY, CONTROL) belongs to the handler when it is not NULL: release it.
 * The call's buffers are free when this runs.
 */
typedef void (*mt_call_fn)(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg);

/* A request to a node, owned by the caller from mt_link_call until @fn. */
struct mt_call {
	uint32_t magic;
	struct loop_link link; /* in the node link's list of outstanding calls */
	struct mt_link *node;
	struct wire_node request; /* request_id is filled by the link */
	/*
	 * Host bytes to send: room for the 64-byte wire header, then head_bytes of batch head. NULL:
	 * the call's own small buffer, no head.
	 */
	uint8_t *host;
	uint32_t head_bytes;
	struct dev_piece pieces[4];
	uint32_t piece_count;
	mt_call_fn fn;
	void *arg;
	/* The link's. */
	struct split_send send;
	uint8_t own_header[WIRE_HEADER_BYTES];
	uint64_t sent_ns;
	struct wire_node_reply reply;
	struct split_msg *reply_msg;
	int rc;
	bool is_sent, is_answered;
};

#endif /* CLEAVE_MIDDLETIER_EXTENT_CALL_H */
