/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hops.h -- how long requests of clients take, hop by hop
 *
 *	write:  arrival --park--> start --engine--> stored --batch--> sent --replicate--> durable --reply--> answer
 *	read:   arrival ---------------------------------------------------------------------------> answer
 *	                        node: the slowest call to a node that it made
 *
 * Nearly every write is answered when it is durable: "reply" counts those whose answer was held back for a snapshot.
 *
 * A port has one of these, and counts what it answered well. Its thread counts; main reads the histograms
 * (base/latency.h), and asks the port for those of the last minute.
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_HOPS_H
#define CLEAVE_MIDDLETIER_COMMON_HOPS_H

#include <stdint.h>

#include "base/latency.h"
#include "base/num.h"
#include "cleave/wire.h"

/* X(symbol, name): hops of a write, in order, and all of them together */
#define MT_WRITE_HOP_LIST(X)                                                                       \
	X(PARK, "park")                                                                            \
	X(ENGINE, "engine")                                                                        \
	X(BATCH, "batch")                                                                          \
	X(REPLICATE, "replicate")                                                                  \
	X(REPLY, "reply")                                                                          \
	X(TOTAL, "total")

enum mt_write_hop {
#define MT_WRITE_HOP_ENUM(symbol, name) MT_WRITE_HOP_##symbol,
	MT_WRITE_HOP_LIST(MT_WRITE_HOP_ENUM)
#undef MT_WRITE_HOP_ENUM
	    MT_WRITE_HOP_NR
};

enum mt_read_hop { MT_READ_HOP_NODE, MT_READ_HOP_TOTAL, MT_READ_HOP_NR };

/* Moments are kept to tell what was counted in the last minute; a port that does nothing keeps none. */
#define MT_HOPS_MOMENTS 6u
#define MT_HOPS_MOMENT_NS NUM_S(15)
#define MT_HOPS_MINUTE_NS NUM_S(60)
_Static_assert((MT_HOPS_MOMENTS - 2) * MT_HOPS_MOMENT_NS >= MT_HOPS_MINUTE_NS, "a minute is kept");

struct mt_hops {
	struct latency writes[MT_WRITE_HOP_NR][SERVICE_CLASS_NR];
	struct latency reads[MT_READ_HOP_NR][SERVICE_CLASS_NR];
	struct latency qos_wait;   /* how long requests were held for their volume's limits */
	struct latency share_wait; /* how long they were held for those of other volumes */
	uint64_t next_ns;          /* the present moment ends; 0: nothing was counted yet */
	struct mt_hops_moment {
		uint64_t at_ns;
		struct latency write, read; /* totals, as they were then */
	} moments[MT_HOPS_MOMENTS];
	uint32_t
	    moment_count; /* since it began: the newest is that number modulo MT_HOPS_MOMENTS */
};

/* When a write got how far, by the loop's clock; 0: not so far. Those before one that is set are set. */
struct mt_write_stamps {
	uint64_t taken_ns, started_ns, stored_ns, sent_ns, durable_ns;
};

/* mt_write_hop_name -- "park" ... "total". mt_read_hop_name -- "node", "total". */
const char *mt_write_hop_name(enum mt_write_hop hop);
const char *mt_read_hop_name(enum mt_read_hop hop);
/* mt_hops_of -- a write that ends at @now_ns: how long each hop took. What it did not reach took no time. */
void mt_hops_of(const struct mt_write_stamps *stamps, uint64_t now_ns,
    uint64_t ret_hops_ns[MT_WRITE_HOP_NR]);
/* mt_hops_write -- count a write; @hops_ns as mt_hops_of has them. */
void mt_hops_write(struct mt_hops *hops, uint64_t now_ns, enum service_class service_class,
    const uint64_t hops_ns[MT_WRITE_HOP_NR]);
/* mt_hops_read -- count a read. @node_ns: its slowest call to a node; 0: it made none. */
void mt_hops_read(struct mt_hops *hops, uint64_t now_ns, enum service_class service_class,
    uint64_t node_ns, uint64_t total_ns);
/*
 * mt_hops_minute -- writes and reads of the last minute, up to 15 s more, from arrival to answer
 *
 * On the port's thread. Younger than a minute: all that it has counted.
 */
void mt_hops_minute(struct mt_hops *hops, uint64_t now_ns, struct latency *ret_write,
    struct latency *ret_read);

#endif /* CLEAVE_MIDDLETIER_COMMON_HOPS_H */
