/* SPDX-License-Identifier: Apache-2.0 */
/* slow_op.c -- requests of clients that took long: where their time went */
#include "common/slow_op.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "common/alloc.h"

#define SLOW_TEXT_BYTES 512u

struct mt_slow_ops {
	pthread_mutex_t lock;
	uint64_t number;                         /* of the last */
	struct mt_slow_op ring[MT_SLOW_OPS_MAX]; /* by number, modulo MT_SLOW_OPS_MAX */
};

struct mt_slow_ops *
mt_slow_ops_create(void)
{
	struct mt_slow_ops *ops = mt_calloc(1, sizeof(*ops));

	if (ops == NULL)
		return NULL;
	if (pthread_mutex_init(&ops->lock, NULL) != 0) {
		mt_free(ops);
		return NULL;
	}
	return ops;
}

void
mt_slow_ops_destroy(struct mt_slow_ops *ops)
{
	if (ops == NULL)
		return;
	(void)pthread_mutex_destroy(&ops->lock);
	mt_free(ops);
}

const char *
mt_slow_op_name(enum wire_opcode opcode)
{
	switch (opcode) {
	case WIRE_READ:
		return "read";
	case WIRE_DISCARD:
		return "discard";
	case WIRE_WRITE_ZEROES:
		return "zero";
	case WIRE_BLOCK_STATUS:
		return "status";
	case WIRE_CHUNK_MAP:
		return "map";
	default:
		assert(opcode == WIRE_WRITE);
		return "write";
	}
}

void
mt_slow_op_add_node(struct mt_slow_op *op, const struct mt_slow_part *node)
{
	uint32_t at = 0;

	assert(op->node_count <= MT_SLOW_PARTS_MAX);
	if (op->node_count < MT_SLOW_PARTS_MAX) {
		op->nodes[op->node_count++] = *node;
		return;
	}
	for (uint32_t i = 1; i < MT_SLOW_PARTS_MAX; i++) {
		if (op->nodes[i].took_ns < op->nodes[at].took_ns)
			at = i;
	}
	if (node->took_ns > op->nodes[at].took_ns)
		op->nodes[at] = *node;
}

const struct mt_slow_part *
mt_slow_op_longest(const struct mt_slow_op *op)
{
	const struct mt_slow_part *longest = NULL;

	assert(op->node_count <= MT_SLOW_PARTS_MAX);
	for (uint32_t i = 0; i < op->node_count; i++) {
		if (longest == NULL || op->nodes[i].took_ns > longest->took_ns)
			longest = &op->nodes[i];
	}
	return longest;
}

/* ---- the line ---- */

struct slow_text {
	char text[SLOW_TEXT_BYTES];
	size_t bytes;
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct slow_text *text, const char *format, ...)
{
	va_list args;
	int bytes;

	assert(text->bytes < SLOW_TEXT_BYTES);
	va_start(args, format);
	bytes = vsnprintf(text->text + text->bytes, SLOW_TEXT_BYTES - text->bytes, format, args);
	va_end(args);
	if (bytes > 0) /* cut where too long */
		text->bytes = num_min(text->bytes + (size_t)bytes, SLOW_TEXT_BYTES - 1);
}

static void
text_add_ms(struct slow_text *text, const char *name, uint64_t ns)
{
	assert(name[0] != '\0');
	text_add(text, " %s_ms=%" PRIu64 ".%" PRIu64, name, ns / NUM_MS(1),
	    ns % NUM_MS(1) / 100000);
}

static void
slow_log(const struct mt_slow_op *op)
{
	static _Thread_local struct log_limit limit;
	const struct mt_slow_part *longest = mt_slow_op_longest(op);
	struct slow_text text = { .bytes = 0 };

	assert(op->volume[0] != '\0');
	/* Before the text is made: where all is slow the port has better to do. */
	if (LOG_WARN < log_level_get() || !log_limit_pass(&limit))
		return;
	for (uint32_t i = 0; i < MT_WRITE_HOP_TOTAL && mt_slow_op_has_hops(op); i++)
		text_add_ms(&text, mt_write_hop_name((enum mt_write_hop)i), op->hops_ns[i]);
	for (uint32_t i = 0; i < op->node_count; i++) {
		const struct mt_slow_part *node = &op->nodes[i];
		char name[24];

		(void)snprintf(name, sizeof(name), "node%" PRIu32, node->node_id);
		text_add_ms(&text, name, node->took_ns);
		text_add(&text,
		    "%s(queue_us=%" PRIu32 ",write_us=%" PRIu32 ",flush_us=%" PRIu32 ")",
		    node->is_lost ? "(gave up)" : "", node->own.queue_us, node->own.write_us,
		    node->own.flush_us);
	}
	if (longest != NULL)
		text_add(&text, " longest=node%" PRIu32, longest->node_id);
	log_line(LOG_WARN,
	    "slow: a %s took %" PRIu64 " ms volume=%s offset_bytes=%" PRIu64 " bytes=%" PRIu32
	    " class=%s rc=%s trace=%016" PRIx64 "%s: cleave slow has more",
	    mt_slow_op_name(op->opcode), op->hops_ns[MT_WRITE_HOP_TOTAL] / NUM_MS(1), op->volume,
	    op->offset_bytes, op->length_bytes, service_class_name(op->service_class),
	    log_errno(op->rc), op->request_id, text.text);
}

void
mt_slow_op(struct mt_slow_ops *ops, const struct mt_slow_op *op)
{
	struct mt_slow_op *kept;

	assert(op->node_count <= MT_SLOW_PARTS_MAX);
	slow_log(op);
	if (ops == NULL)
		return;
	(void)pthread_mutex_lock(&ops->lock);
	kept = &ops->ring[++ops->number % MT_SLOW_OPS_MAX];
	*kept = *op;
	kept->number = ops->number;
	(void)pthread_mutex_unlock(&ops->lock);
}

uint32_t
mt_slow_ops_read(struct mt_slow_ops *ops, uint64_t after, struct mt_slow_op *ret_ops, uint32_t max)
{
	uint32_t count = 0;

	assert(ops != NULL && max > 0);
	(void)pthread_mutex_lock(&ops->lock);
	if (ops->number > MT_SLOW_OPS_MAX && after < ops->number - MT_SLOW_OPS_MAX)
		after = ops->number - MT_SLOW_OPS_MAX;
	for (uint64_t number = after + 1; number <= ops->number && count < max; number++) {
		assert(ops->ring[number % MT_SLOW_OPS_MAX].number == number);
		ret_ops[count++] = ops->ring[number % MT_SLOW_OPS_MAX];
	}
	(void)pthread_mutex_unlock(&ops->lock);
	return count;
}
