/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.c -- memory that peers may read or write, without its owner's handlers
 *
 * Over verbs:// the device serves it. Elsewhere the library does, here:
 *
 *	WIRE_DEV_READ   key, offset, length           -->  straight from the region: status, bytes
 *	WIRE_DEV_WRITE  key, offset, length, bytes    -->  into the region as they arrive: status
 *
 * A peer with more than ONE_SIDED_PIECES unanswered breaks the protocol, and each such piece has its
 * answer set aside (I9).
 *
 * A region that closes (dev_region_close) leaves nothing behind that reaches into it: the rest of a
 * write that is arriving is thrown away, an answer that has not begun becomes a refusal, and one that
 * has begun gets a copy of what it still has to say.
 *
 * Where a header has what: object_id = dev_remote.address, a number nobody guesses by accident;
 * epoch = dev_remote.key, the region's index; offset_bytes and length_bytes; request_id = sequence and
 * index of the piece.
 */
#include "region.h"

#include <errno.h>
#include <string.h>

#include "alloc.h"
#include "auth.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/status.h"
#include "dev_memory.h"
#include "dev_ptr_raw.h"
#include "one_sided.h"
#include "port.h"
#include "qp.h"
#include "send_assemble.h"
#include "send_post.h"
#include "transport.h"

#define RIGHTS_ALL ((uint32_t)(DEV_REGION_READ | DEV_REGION_WRITE))

/* Regions. */

static int
region_index_take(struct split_port *port, uint32_t *ret_index)
{
	if (port->regions == NULL)
		port->regions = split_calloc(SPLIT_REGIONS_MAX, sizeof(struct dev_region *));
	if (port->regions == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < SPLIT_REGIONS_MAX; i++)
		if (port->regions[i] == NULL) {
			*ret_index = i;
			return 0;
		}
	return -ENOBUFS;
}

struct dev_region *
dev_region_open(struct split_port *port, dev_ptr memory, size_t bytes, uint32_t rights,
    struct dev_remote *ret_remote)
{
	struct dev_region *region = NULL;
	uint32_t index;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	rc = bytes > 0 && rights != 0 && (rights & ~RIGHTS_ALL) == 0 &&
		dev_memory_has(port, dev_ptr_raw(memory), bytes)
	    ? 0
	    : -EINVAL;
	if (rc == 0 && auth_security(port) != SPLIT_SECURITY_OPEN)
		rc = -ENOTSUP;
	if (rc == 0 && port->transport == NULL)
		rc = -ENOTCONN;
	if (rc == 0)
		rc = region_index_take(port, &index);
	if (rc == 0)
		region = split_calloc(1, sizeof(*region));
	if (region == NULL) {
		errno = rc != 0 ? -rc : ENOMEM;
		return NULL;
	}
	*region = (struct dev_region){ .magic = SPLIT_REGION_MAGIC,
		.port = port,
		.index = index,
		.memory = memory,
		.bytes = bytes,
		.rights = rights,
		.ops = port->transport };
	/* An address without a wrap: what travels passes dev_remote_decode. */
	region->remote = (struct dev_remote){ .address = loop_random_u64(port->loop) >> 1,
		.bytes = bytes,
		.key = index,
		.rights = rights };
	rc = region->ops->region_open != NULL ? region->ops->region_open(region) : 0;
	if (rc != 0) {
		split_free(region);
		errno = -rc;
		return NULL;
	}
	port->regions[index] = region;
	*ret_remote = region->remote;
	return region;
}

static void
answer_refuse(struct one_sided_answer *answer)
{
	assert(answer->is_used);
	answer->header.status = status_from_errno(-EKEYREVOKED);
	answer->send.piece_count = 0;
}

/* Data that has begun to leave goes on leaving, as it was when the region closed. */
static void
answer_detach(struct one_sided_answer *answer)
{
	assert(answer->copy == NULL);
	assert(answer->device.bytes > 0);
	answer->copy = split_calloc(1, answer->device.bytes);
	if (answer->copy == NULL) {
		qp_fail(answer->qp, -ENOMEM, "no memory for what a closing region has to answer");
		return;
	}
	guard_enter();
	memcpy(answer->copy, dev_ptr_raw(answer->device.ptr), answer->device.bytes);
	guard_leave();
	answer->device.ptr = dev_ptr_of(answer->copy);
}

static void
region_leave_qp(const struct dev_region *region, struct split_qp *qp)
{
	struct recv_fill *fill = &qp->fill;

	for (uint32_t i = 0; i < ONE_SIDED_PIECES; i++) {
		struct one_sided_answer *answer = &qp->answers->all[i];

		if (!answer->is_used || answer->region != region)
			continue;
		if (fill->kind == RECV_ONE_SIDED && fill->answer == answer) {
			fill->discard_left += fill->device_left;
			fill->device_left = 0;
			answer_refuse(answer);
		} else if (answer->send.piece_count > 0 && send_is_final(&answer->send)) {
			answer_detach(answer);
		} else if (answer->send.piece_count > 0) {
			list_remove(&answer->send.link);
			answer_refuse(answer);
			send_post_library(qp, &answer->send);
		}
		answer->region = NULL; /* else: a write that has been carried out */
	}
}

void
dev_region_close(struct dev_region *region)
{
	struct split_port *port;
	struct loop_link *link, *next;

	if (region == NULL)
		return;
	CHECK_OBJ(region, SPLIT_REGION_MAGIC);
	port = region->port;
	if (region->ops->region_close != NULL)
		region->ops->region_close(region);
	LIST_FOREACH_SAFE(&port->qps, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		if (qp->answers != NULL)
			region_leave_qp(region, qp);
	}
	assert(port->regions[region->index] == region);
	port->regions[region->index] = NULL;
	region->magic = 0;
	split_free(region);
}

void
regions_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	for (uint32_t i = 0; port->regions != NULL && i < SPLIT_REGIONS_MAX; i++)
		dev_region_close(port->regions[i]);
	split_free(port->regions);
	port->regions = NULL;
}

static void
answer_on_sent(struct split_send *send, int rc, void *arg)
{
	struct one_sided_answer *answer = arg;

	(void)send;
	(void)rc;
	assert(answer->is_used);
	split_free(answer->copy);
	answer->copy = NULL;
	answer->region = NULL;
	answer->is_used = false;
}

/* Requests of peers, and their answers. */

static struct region_answers *
answers_get(struct split_qp *qp)
{
	struct region_answers *answers = qp->answers;

	if (answers != NULL)
		return answers;
	answers = split_calloc(1, sizeof(*answers));
	if (answers == NULL)
		return NULL;
	for (uint32_t i = 0; i < ONE_SIDED_PIECES; i++)
		answers->all[i].qp = qp;
	qp->answers = answers;
	return answers;
}

struct dev_region *
region_at(const struct split_port *port, const struct dev_remote *remote, uint32_t right,
    uint64_t offset_bytes, uint64_t bytes)
{
	struct dev_region *region;

	if (port->regions == NULL || remote->key >= SPLIT_REGIONS_MAX)
		return NULL;
	region = port->regions[remote->key];
	if (region == NULL || region->remote.address != remote->address ||
	    (region->rights & right) == 0 || offset_bytes > region->bytes ||
	    bytes > region->bytes - offset_bytes)
		return NULL;
	return region;
}

/* The region that @header may reach, or NULL. */
static struct dev_region *
region_find(const struct split_qp *qp, const struct wire_header *header)
{
	const struct dev_remote remote = { .address = header->object_id, .key = header->epoch };

	return region_at(qp->port, &remote,
	    header->opcode == WIRE_DEV_WRITE ? DEV_REGION_WRITE : DEV_REGION_READ,
	    header->offset_bytes, header->length_bytes);
}

static struct one_sided_answer *
answer_take(struct split_qp *qp)
{
	for (uint32_t i = 0; i < ONE_SIDED_PIECES; i++) {
		struct one_sided_answer *answer = &qp->answers->all[i];

		if (!answer->is_used) {
			answer->is_used = true;
			return answer;
		}
	}
	return NULL;
}

static void
answer_fill(struct one_sided_answer *answer, const struct wire_header *request)
{
	assert(answer->is_used);
	assert(answer->copy == NULL);
	answer->header = (struct wire_header){ .opcode = request->opcode | WIRE_REPLY,
		.request_id = request->request_id,
		.length_bytes = request->length_bytes };
	answer->send = (struct split_send){ .header = &answer->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &answer->device,
		.fn = answer_on_sent,
		.arg = answer };
	if (answer->region == NULL) {
		answer_refuse(answer);
		return;
	}
	answer->device =
	    (struct dev_piece){ dev_ptr_add(answer->region->memory, request->offset_bytes),
		    request->length_bytes };
	answer->send.piece_count = request->opcode == WIRE_DEV_READ ? 1 : 0;
}

int
region_serve(struct split_qp *qp, const struct wire_header *header, const char **ret_field)
{
	struct recv_fill *fill = &qp->fill;
	struct one_sided_answer *answer;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(fill->kind == RECV_NONE);
	if (answers_get(qp) == NULL) {
		*ret_field = "opcode (no memory to serve it)";
		return -ENOMEM;
	}
	answer = answer_take(qp);
	if (answer == NULL) {
		*ret_field = "opcode (too many at one time)";
		return -EPROTO;
	}
	answer->region = region_find(qp, header);
	answer_fill(answer, header);
	*fill = (struct recv_fill){ .kind = RECV_ONE_SIDED, .answer = answer };
	if (answer->region == NULL) {
		fill->discard_left = header->payload_bytes;
	} else if (header->payload_bytes > 0) {
		fill->device = dev_ptr_raw(answer->device.ptr);
		fill->device_left = header->payload_bytes;
		metric_add(&qp->port->counters.device_bytes_in, header->payload_bytes);
	}
	return 0;
}

void
region_answer(struct split_qp *qp, struct one_sided_answer *answer)
{
	assert(answer->is_used);
	assert(answer->qp == qp);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	send_post_library(qp, &answer->send);
}

void
region_answers_free(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp->answers == NULL)
		return;
	for (uint32_t i = 0; i < ONE_SIDED_PIECES; i++)
		split_free(qp->answers->all[i].copy);
	split_free(qp->answers);
	qp->answers = NULL;
}
