/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h -- what a port has answered of each volume, and which were busy in the last minute
 *
 *	session comes --mt_rate_hold--> row of its volume's name --mt_rate_add, each request--> counts, windows
 *	session goes  --mt_rate_drop--> the row stays, until another volume wants its place
 *
 * There are MT_RATES_MAX rows a port. The one that was used least recently, and that no session holds, gives way; where
 * sessions hold all of them, a volume that comes is counted with others, in one row without a name.
 *
 * Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_SESSION_RATES_H
#define CLEAVE_MIDDLETIER_SESSION_RATES_H

#include <stdint.h>

#include "base/num.h"
#include "catalog/volume.h"

struct mt_port;
struct mt_rates;

#define MT_RATES_MAX 1024u       /* rows a port: 300 KiB */
#define MT_RATES_TOLD_MAX 100u   /* busiest, of a port */
#define MT_RATES_BUSIEST_MAX 50u /* of a gateway, in its metrics and answers */
#define MT_RATE_WINDOW_NS NUM_S(30)

enum mt_rate_op { MT_RATE_READ, MT_RATE_WRITE, MT_RATE_OP_NR };

/* Since the row began; they only grow. */
struct mt_rate_count {
	uint64_t requests; /* answered, also with an error */
	uint64_t errors;   /* of them */
	uint64_t bytes;    /* of those answered well */
	uint64_t took_ns;  /* from arrival to answer, of all */
};

struct mt_rate {
	char name
	    [MT_NAME_BYTES]; /* a volume's, or VOLUME@SNAPSHOT's; "": those without a row of their own */
	uint32_t session_count;                    /* that hold it */
	uint64_t used_ns;                          /* by the loop's clock */
	uint64_t window_ns;                        /* when the present window began */
	uint64_t window_requests, before_requests; /* in it, and in the one before */
	struct mt_rate_count counts[MT_RATE_OP_NR];
	uint64_t direct_reads, direct_bytes; /* made at storage nodes, as its clients say */
	uint64_t held,
	    held_ns; /* requests that waited for limits or shares, each time; and for how long */
};

/* mt_rates_init -- of @port; without memory nothing is counted, or all volumes together. */
void mt_rates_init(struct mt_port *port);
void mt_rates_fini(struct mt_port *port);
/* mt_rate_hold -- the row of @name, for a session: valid until mt_rate_drop. NULL: no memory, nothing is counted. */
struct mt_rate *mt_rate_hold(struct mt_port *port, const char *name, uint64_t now_ns);
/* mt_rate_drop -- @rate may be NULL. */
void mt_rate_drop(struct mt_rate *rate);
/* mt_rate_add -- a request that came @took_ns before @now_ns was answered with @rc; @bytes of it count where that is 0. */
void mt_rate_add(struct mt_rate *rate, enum mt_rate_op op, uint64_t now_ns, uint64_t took_ns,
    uint64_t bytes, int rc);
/* mt_rate_add_direct -- a client says that it has read @count times at storage nodes, @bytes. @rate may be NULL. */
void mt_rate_add_direct(struct mt_rate *rate, uint64_t now_ns, uint64_t count, uint64_t bytes);
/* mt_rate_add_wait -- a request was held for so long, before it began. @rate may be NULL. */
void mt_rate_add_wait(struct mt_rate *rate, uint64_t held_ns);
/*
 * mt_rates_take -- copies of the @max busiest rows, busiest first, and what all others have counted, as a last one
 *
 * The last has no name. Ownership: the caller's, mt_free. Returns NULL: nothing was counted, or no memory; else there are
 * *@ret_count.
 */
struct mt_rate *mt_rates_take(const struct mt_port *port, uint64_t now_ns, uint32_t max,
    uint32_t *ret_count);

/* mt_rate_busy -- requests of the last 30 to 60 seconds, and reads at nodes. */
uint64_t mt_rate_busy(const struct mt_rate *rate, uint64_t now_ns);
/* mt_rate_sum -- add @from's counts to those of @rate. */
void mt_rate_sum(struct mt_rate *rate, const struct mt_rate *from);
/* mt_rate_order -- for qsort: who answered more in its two windows first, then by name. */
int mt_rate_order(const void *a, const void *b);

#endif /* CLEAVE_MIDDLETIER_SESSION_RATES_H */
