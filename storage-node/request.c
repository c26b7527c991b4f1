/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c -- requests from the message that asks to the reply that is on its way
 *
 * There are as many requests as the pool has receives, and each holds the receive of its message: so each
 * message finds a free one. A stop waits until no request is busy and no reply is left with the port.
 */
#include "request.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "fence.h"
#include "node_state.h"

static void
request_on_replied(int rc, void *arg)
{
	struct node *node = arg;

	(void)rc; /* a peer that is gone needs no answer */
	assert(node->replies_count > 0);
	node->replies_count--;
	sn_node_idle_check(node);
}

static void
reply_pieces(struct node *node, struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t count)
{
	assert((header->opcode & WIRE_REPLY) != 0);
	node->replies_count++;
	split_msg_reply(msg, header, pieces, count, request_on_replied, node);
}

void
sn_reply_raw(struct node *node, struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *piece)
{
	reply_pieces(node, msg, header, piece, piece == NULL ? 0 : 1);
}

struct sn_request *
sn_request_take(struct node *node, struct split_msg *msg, const struct wire_node *wire)
{
	struct loop_link *link = list_pop_front(&node->free_requests);
	struct sn_request *req;

	assert(link != NULL); /* there are as many as receives, and @msg has one */
	req = LIST_ENTRY(link, struct sn_request, link);
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(req->msg == NULL); /* a free one has none */
	node->requests_busy_count++;
	req->msg = msg;
	req->wire = *wire;
	req->extent = NULL;
	return req;
}

static void
request_free(struct sn_request *req)
{
	struct node *node = req->node;

	req->msg = NULL;
	list_push_back(&node->free_requests, &req->link);
	assert(node->requests_busy_count > 0);
	node->requests_busy_count--;
}

void
sn_request_finish(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *piece)
{
	sn_request_finish_pieces(req, reply, piece, piece == NULL ? 0 : 1);
}

static uint64_t
pieces_bytes(const struct dev_piece *pieces, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += pieces[i].bytes;
	return bytes;
}

void
sn_request_finish_pieces(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *pieces, uint32_t count)
{
	struct node *node = req->node;
	struct split_msg *msg = req->msg;
	struct wire_header header;

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(msg != NULL);
	assert(reply->rc <= 0);
	assert(
	    count == 0 || (reply->rc == 0 && pieces_bytes(pieces, count) == reply->length_bytes));
	reply->opcode = req->wire.opcode;
	reply->request_id = req->wire.request_id;
	reply->id = req->wire.id;
	if (req->wire.id.shard < CLEAVE_SHARDS_MAX) /* LIST may be for all of them */
		reply->epoch = sn_fence_epoch(node, req->wire.id.shard);
	wire_node_reply_encode(&header, reply);
	request_free(req);
	reply_pieces(node, msg, &header, pieces, count);
}

void
sn_request_fail(struct sn_request *req, int rc)
{
	struct wire_node_reply reply = { .rc = rc };

	assert(rc < 0);
	sn_request_finish(req, &reply, NULL);
}

int
sn_request_init(struct node *node)
{
	uint32_t count = node->request_count;

	assert(count > 0);
	assert(count <= SN_REQUESTS_MAX);
	assert(node->requests == NULL);
	list_init(&node->free_requests);
	node->requests = sn_calloc(count, sizeof(*node->requests));
	node->request_pages = sn_page_alloc((uint64_t)count * ONDISK_PAGE_BYTES);
	if (node->requests == NULL || node->request_pages == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct sn_request *req = &node->requests[i];

		req->magic = SN_REQUEST_MAGIC;
		req->node = node;
		req->page = (uint8_t *)node->request_pages + (uint64_t)i * ONDISK_PAGE_BYTES;
		list_push_back(&node->free_requests, &req->link);
	}
	return 0;
}

void
sn_request_fini(struct node *node)
{
	free(node->requests);
	free(node->request_pages);
	node->requests = NULL;
	node->request_pages = NULL;
}
