/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_push.c -- see head_push.h
 *
 *	a batch --> the heir's open message --> due, and nothing of that heir is out, or full --> sent --> free
 *	               | there is no message free, or the heir does not want any
 *	               '--> dropped
 *
 * A message is due with PUSH_DUE_HEADS, or half full: a message for each batch would cost a lone write a seventh of its
 * instructions more. What waits meanwhile, with no timer, for as long as nobody writes, is read from a node by a take-over:
 * some hundred KiB of a log are a read or two. The head of a manifest's batch is due at once, as these are few, and read
 * first. A message is of the port's, from a pool that is made when the port opens; an heir has PUSH_HEIR_MAX of them at
 * most, so one that is slow does not take the others' room. Messages that are out when the heirs change end as ever; nobody
 * counts them any more.
 */
#include "extent/head_push.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/status.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/peer_link.h"

#define HEAD_PUSH_MAGIC 0x55504448u /* "HDPU" */
#define PUSH_MESSAGES 32u           /* of a port: half a MiB */
#define PUSH_HEIR_MAX 8u            /* of one heir, out or open */
#define PUSH_DUE_HEADS 16u
#define PUSH_DUE_BYTES (WIRE_MIRROR_BYTES_MAX / 2)
#define PUSH_REFUSED_NS NUM_S(60) /* an heir that wants none is asked again after it */
#define PUSH_FORGED_BYTE 16u      /* of a record's descriptor: its first block's lowest bits */

struct push_message {
	struct loop_link link; /* push->free */
	struct mt_head_push *push;
	struct mt_peer_request request;
	uint32_t heir;       /* its index, */
	uint32_t generation; /* of those heirs */
	uint32_t payload_bytes, head_count;
	bool has_manifest; /* the head of a manifest's batch */
	uint8_t bytes[SPLIT_HEADER_BYTES_MAX];
};

struct push_heir {
	struct push_message *open; /* NULL: nothing waits */
	uint32_t message_count;    /* of PUSH_HEIR_MAX, open included */
	uint64_t not_before_ns;    /* it has refused */
};

struct mt_head_push {
	uint32_t magic;
	struct mt_port *port;
	struct mt_heirs names;
	struct push_heir heirs[MT_HEIRS_MAX];
	uint32_t generation; /* grows when the heirs change */
	struct loop_link free;
	struct loop_task task; /* open messages may go */
	struct push_message messages[PUSH_MESSAGES];
};

static void
push_count(const struct mt_head_push *push, enum mt_metric metric, uint32_t count)
{
	metric_add(&push->port->metrics[metric], count);
}

/* NULL: the heirs have changed since. */
static struct push_heir *
push_heir_of(struct mt_head_push *push, const struct push_message *message)
{
	return message->generation == push->generation ? &push->heirs[message->heir] : NULL;
}

static bool
push_is_due(const struct push_message *message)
{
	assert(message->head_count > 0);
	return message->has_manifest || message->head_count >= PUSH_DUE_HEADS ||
	    message->payload_bytes >= PUSH_DUE_BYTES;
}

static void
push_free(struct push_message *message)
{
	struct push_heir *heir = push_heir_of(message->push, message);

	if (heir != NULL) {
		assert(heir->message_count > 0);
		heir->message_count--;
	}
	list_push_back(&message->push->free, &message->link);
}

static void
push_on_answer(struct mt_peer_request *request, int rc, struct split_msg *msg, void *arg)
{
	struct push_message *message = arg;
	struct mt_head_push *push = message->push;
	struct push_heir *heir = push_heir_of(push, message);
	struct wire_mirror answer;
	const char *field;

	(void)request;
	CHECK_OBJ(push, HEAD_PUSH_MAGIC);
	if (rc == 0)
		rc = wire_mirror_decode(msg->header, &answer, &field);
	if (rc == 0)
		rc = answer.rc;
	push_count(push, rc == 0 ? MT_METRIC_heads_mirrored : MT_METRIC_heads_dropped,
	    message->head_count);
	/* An answer that says no, or none at all since its release is older. */
	if (rc != 0 && heir != NULL && (msg != NULL || rc == -EPROTO || rc == -EPROTONOSUPPORT)) {
		heir->not_before_ns = loop_now_ns(push->port->loop) + PUSH_REFUSED_NS;
		log_limited(LOG_INFO,
		    "port: a gateway keeps no heads of batches, its take-overs will read logs from nodes: give it --mirror-heads peer=%s rc=%s",
		    push->names.addresses[message->heir], log_errno(rc));
	}
	push_free(message);
	if (heir != NULL && heir->open != NULL && push_is_due(heir->open))
		loop_defer(push->port->loop, &push->task);
}

/* @message leaves its heir: it is out, or, where it cannot be sent, free. */
static void
push_send(struct mt_head_push *push, struct push_message *message)
{
	const struct wire_mirror mirror = { .payload_bytes = message->payload_bytes };
	struct mt_peer_link *link;
	int rc = -ENOTCONN;

	assert(message->head_count > 0);
	push->heirs[message->heir].open = NULL;
	wire_mirror_encode((struct wire_header *)(void *)message->bytes, &mirror);
	message->request = (struct mt_peer_request){ .message = message->bytes,
		.message_bytes = WIRE_HEADER_BYTES + message->payload_bytes,
		.fn = push_on_answer,
		.arg = message };
	link = mt_peer_link_to(push->port, push->names.addresses[message->heir]);
	if (link != NULL)
		rc = mt_peer_link_send(link, &message->request);
	if (rc == 0)
		return;
	push_count(push, MT_METRIC_heads_dropped, message->head_count);
	push_free(message);
}

/* Open messages that are due, of heirs that have no other. */
static void
push_on_task(struct loop_task *task, void *arg)
{
	struct mt_head_push *push = arg;

	(void)task;
	CHECK_OBJ(push, HEAD_PUSH_MAGIC);
	for (uint32_t i = 0; i < push->names.count; i++) {
		struct push_message *open = push->heirs[i].open;

		if (open != NULL && push->heirs[i].message_count == 1 && push_is_due(open))
			push_send(push, open);
	}
}

/* A message of @index that has room for @bytes more; NULL: there is none. */
static struct push_message *
push_open(struct mt_head_push *push, uint32_t index, uint32_t bytes)
{
	struct push_heir *heir = &push->heirs[index];
	struct push_message *message;

	if (heir->open != NULL && heir->open->payload_bytes + bytes > WIRE_MIRROR_BYTES_MAX)
		push_send(push, heir->open);
	if (heir->open != NULL)
		return heir->open;
	if (heir->message_count == PUSH_HEIR_MAX || list_is_empty(&push->free))
		return NULL;
	message = LIST_ENTRY(list_pop_front(&push->free), struct push_message, link);
	message->heir = index;
	message->generation = push->generation;
	message->payload_bytes = message->head_count = 0;
	message->has_manifest = false;
	heir->message_count++;
	heir->open = message;
	return message;
}

/* For tests: @head names another block, and the batch before it, or another one; its own CRC is right. */
static void
push_forge(uint8_t *head, const struct batch_info *info, bool fits_behind)
{
	struct batch_info forged = *info;

	if (info->kind == EXTENT_LOG)
		head[BATCH_HEADER_BYTES + PUSH_FORGED_BYTE] ^= 1;
	forged.prev_crc ^= fits_behind ? 0 : 1;
	batch_head_encode(head, &forged);
}

static void
push_head(struct mt_head_push *push, uint32_t index, const struct batch_info *info,
    const uint8_t *head)
{
	const struct wire_mirror_entry entry = { .id = info->id,
		.offset_bytes = info->offset_bytes,
		.head_bytes = BATCH_HEADER_BYTES + info->desc_bytes };
	uint32_t bytes = wire_mirror_entry_bytes(entry.head_bytes);
	uint64_t dice =
	    UINT64_MAX; /* for tests: 0: it is lost; 1 to 3: the heir gets other bytes */
	struct push_message *message = NULL;
	struct mt_port *port = push->port;
	uint8_t *at;

	if (port->settings->mirror_faults > 0)
		dice = loop_random_below(port->loop, port->settings->mirror_faults);
	if (dice != 0 && bytes <= WIRE_MIRROR_BYTES_MAX &&
	    loop_now_ns(port->loop) >= push->heirs[index].not_before_ns)
		message = push_open(push, index, bytes);
	if (message == NULL) {
		push_count(push, MT_METRIC_heads_dropped, 1);
		return;
	}
	at = message->bytes + WIRE_HEADER_BYTES + message->payload_bytes;
	message->payload_bytes += wire_mirror_entry_encode(at, &entry, head);
	message->head_count++;
	message->has_manifest |= info->kind == EXTENT_MANIFEST;
	if (dice == 1)
		at[WIRE_MIRROR_ENTRY_BYTES + loop_random_below(port->loop, entry.head_bytes)] ^= 1;
	if (dice == 2 || dice == 3)
		push_forge(at + WIRE_MIRROR_ENTRY_BYTES, info, dice == 3);
	if (push_is_due(message))
		loop_defer(port->loop, &push->task); /* behind what the batch's end has others do */
}

void
mt_head_push(struct mt_port *port, const struct batch_info *info, const uint8_t *head)
{
	struct mt_head_push *push = port->head_push;
	uint32_t index;

	if (push == NULL)
		return;
	CHECK_OBJ(push, HEAD_PUSH_MAGIC);
	assert(info->id.shard < CLEAVE_SHARDS_MAX);
	index = push->names.of[info->id.shard];
	if (index != MT_HEIR_NONE)
		push_head(push, index, info, head);
}

void
mt_head_push_heirs(struct mt_port *port, const struct mt_heirs *heirs)
{
	struct mt_head_push *push = port->head_push;

	if (push == NULL)
		return;
	CHECK_OBJ(push, HEAD_PUSH_MAGIC);
	assert(heirs->count <= MT_HEIRS_MAX);
	for (uint32_t i = 0; i < push->names.count; i++) {
		if (push->heirs[i].open != NULL)
			push_send(push, push->heirs[i].open);
	}
	push->generation++;
	memset(push->heirs, 0, sizeof(push->heirs));
	push->names = *heirs;
}

int
mt_head_push_init(struct mt_port *port)
{
	struct mt_head_push *push = mt_calloc(1, sizeof(*push));

	assert(port->head_push == NULL);
	if (push == NULL)
		return -ENOMEM;
	push->magic = HEAD_PUSH_MAGIC;
	push->port = port;
	memset(push->names.of, MT_HEIR_NONE, sizeof(push->names.of));
	list_init(&push->free);
	loop_task_init(&push->task, push_on_task, push);
	for (uint32_t i = 0; i < PUSH_MESSAGES; i++) {
		push->messages[i].push = push;
		list_push_back(&push->free, &push->messages[i].link);
	}
	port->head_push = push;
	return 0;
}

void
mt_head_push_fini(struct mt_port *port)
{
	struct mt_head_push *push = port->head_push;

	if (push == NULL)
		return;
	CHECK_OBJ(push, HEAD_PUSH_MAGIC);
	loop_task_cancel(port->loop, &push->task);
	mt_free(push);
	port->head_push = NULL;
}
