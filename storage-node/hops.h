/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hops.h -- how long appends and reads take at this node, hop by hop
 *
 *	append:  arrival --queue--> the disk has it --write--> written --flush--> durable, and all before it
 *	read:    arrival --read---> the disk has given it
 */
#ifndef CLEAVE_STORAGE_HOPS_H
#define CLEAVE_STORAGE_HOPS_H

#include <stdint.h>
#include <stdio.h>

#include "base/latency.h"

struct node;

/* X(symbol, operation, name) */
#define SN_HOP_LIST(X)                                                                             \
	X(APPEND_QUEUE, "append", "queue")                                                         \
	X(APPEND_WRITE, "append", "write")                                                         \
	X(APPEND_FLUSH, "append", "flush")                                                         \
	X(APPEND_TOTAL, "append", "total")                                                         \
	X(READ_TOTAL, "read", "total")

enum sn_hop {
#define SN_HOP_ENUM(symbol, operation, name) SN_HOP_##symbol,
	SN_HOP_LIST(SN_HOP_ENUM)
#undef SN_HOP_ENUM
	    SN_HOP_NR
};

struct sn_hops {
	struct latency of[SN_HOP_NR];
};

/* When an append got how far, by the loop's clock. */
struct sn_stamps {
	uint64_t taken_ns, began_ns, written_ns;
};

/* sn_hops_append -- an append is acknowledged now: counts it. Returns its times for the reply (wire_node_times). */
uint32_t sn_hops_append(struct node *node, const struct sn_stamps *stamps);
/* sn_hops_read -- a read that was handed to the disk at @began_ns is answered now. */
void sn_hops_read(struct node *node, uint64_t began_ns);
/* sn_hops_write -- all of them, for monitors. */
void sn_hops_write(const struct node *node, FILE *out);

#endif /* CLEAVE_STORAGE_HOPS_H */
