/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_op.h -- requests of clients that took long: where their time went, for `cleave slow`
 *
 * A gateway keeps its last MT_SLOW_OPS_MAX. Every port adds, main reads: there is a lock, which is held for a copy, and
 * only a request that has waited for --slow-op already meets it.
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_SLOW_OP_H
#define CLEAVE_MIDDLETIER_COMMON_SLOW_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/units.h"
#include "cleave/wire.h"
#include "common/hops.h"
#include "common/replica.h"

#define MT_SLOW_OPS_MAX 1024u
/* A write's replicas, and the slowest of those that it was sent to before. */
#define MT_SLOW_PARTS_MAX (MT_REPLICAS_MAX + 1u)

struct mt_slow_ops;

/* A node's part in a request. */
struct mt_slow_part {
	uint32_t node_id;
	bool is_lost;     /* it did not answer, or with an error */
	uint64_t took_ns; /* from sending to its answer, or until it was given up */
	/* As the node tells it: in its queue, at its disk, in the flush. All 0: it does not tell. */
	struct wire_node_times own;
};

struct mt_slow_op {
	uint64_t number; /* from 1 on, in order; filled when it is kept */
	uint64_t at_ns;  /* it ended, by the loops' clock */
	enum wire_opcode opcode;
	enum service_class service_class;
	int rc; /* as its client was told; 0: done */
	uint64_t request_id;
	uint64_t offset_bytes; /* in the volume */
	uint32_t length_bytes;
	uint64_t hops_ns[MT_WRITE_HOP_NR]; /* of a read TOTAL alone */
	uint32_t node_count;
	struct mt_slow_part nodes[MT_SLOW_PARTS_MAX];
	char volume[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];
};

/* mt_slow_ops_create -- none yet. NULL: out of memory. */
struct mt_slow_ops *mt_slow_ops_create(void);
/* mt_slow_ops_destroy -- nobody adds any more; NULL is a no-op. */
void mt_slow_ops_destroy(struct mt_slow_ops *ops);
/*
 * mt_slow_op -- keep a copy of @op, and log a line, of those at most LOG_LIMIT_PER_S a second
 *
 * @ops: NULL: it is only logged. Threads: any.
 */
void mt_slow_op(struct mt_slow_ops *ops, const struct mt_slow_op *op);
/* mt_slow_ops_read -- up to @max of those behind number @after that are still kept, oldest first. Returns how many. */
uint32_t mt_slow_ops_read(struct mt_slow_ops *ops, uint64_t after, struct mt_slow_op *ret_ops,
    uint32_t max);

/* mt_slow_op_name -- "write", "read", "discard", "zero", "status", "map". */
const char *mt_slow_op_name(enum wire_opcode opcode);
/* mt_slow_op_has_hops -- a write, or what takes its way: hops_ns are all filled. */
static inline bool
mt_slow_op_has_hops(const struct mt_slow_op *op)
{
	return op->opcode == WIRE_WRITE || op->opcode == WIRE_DISCARD ||
	    op->opcode == WIRE_WRITE_ZEROES;
}
/* mt_slow_op_add_node -- one node more; without room: in place of the fastest, if that is faster. */
void mt_slow_op_add_node(struct mt_slow_op *op, const struct mt_slow_part *node);
/* mt_slow_op_longest -- the node that took longest; NULL: none had a part. */
const struct mt_slow_part *mt_slow_op_longest(const struct mt_slow_op *op);

#endif /* CLEAVE_MIDDLETIER_COMMON_SLOW_OP_H */
