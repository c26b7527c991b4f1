/* SPDX-License-Identifier: Apache-2.0 */
/* replicate.h -- a batch to every replica of its extent (I4) */
#ifndef CLEAVE_MIDDLETIER_EXTENT_REPLICATE_H
#define CLEAVE_MIDDLETIER_EXTENT_REPLICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "common/replica.h"
#include "extent/call.h"

struct mt_append;
struct mt_extent;
struct mt_port;
struct mt_slow_part;

#define MT_APPENDS_IN_FLIGHT_MAX 4u /* before a batch that is full waits, too */

/*
 * A batch of the log or the manifest: host head and device payload, kept until every replica has
 * answered (log: until it leaves the ring).
 */
typedef void (*mt_append_fn)(struct mt_append *batch, int rc, void *arg);

struct mt_append {
	uint32_t magic;
	struct loop_link link; /* extent->appends */
	struct mt_extent *extent;
	struct batch_info info; /* id, offset, prev_crc and mark are filled at append */
	/* MT_REPLICAS_MAX host buffers: 64 bytes for the wire header, then the batch head. The
	 * caller writes descriptors (or edits) into hosts[0] + 64 + 128; the append copies. */
	uint8_t *hosts[MT_REPLICAS_MAX];
	dev_ptr payload; /* packed payloads: used_bytes - head bytes of them */
	struct mt_call calls[MT_REPLICAS_MAX];
	uint64_t sent_ns; /* read anew: what was done in the turn before is not the nodes' time */
	struct mt_answer {
		uint64_t took_ns; /* from sent_ns; 0: it was not asked */
		uint32_t told;    /* wire_node_times */
		bool is_lost;     /* no answer, or an error */
	} answers[MT_REPLICAS_MAX];
	uint32_t unanswered_count;
	int rc;
	mt_append_fn fn;
	void *arg;
};
/*
 * mt_extent_append -- send @batch to every replica
 *
 * @batch->fn is called once, in append order: 0 = durable on all replicas (I4), acked_bytes has
 * moved; else the extent is BROKEN, this batch may or may not be on some replicas, its buffers are
 * free and it may be appended to another extent. Returns -ENOSPC when it does not fit (seal and roll
 * over), -EPIPE when not OPEN.
 */
int mt_extent_append(struct mt_extent *extent, struct mt_append *batch);
/* mt_append_parts -- each node's part in the last attempt, into @ret_parts[MT_REPLICAS_MAX]. Returns how many have ended. */
uint32_t mt_append_parts(const struct mt_append *batch, struct mt_slow_part *ret_parts);
/* mt_append_init -- allocates its host buffers. Returns 0; -ENOMEM: there is nothing to be finished. */
int mt_append_init(struct mt_append *batch, struct mt_port *port);
/* mt_append_fini -- @batch is at no node; one that was never made is a no-op. */
void mt_append_fini(struct mt_append *batch, struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_EXTENT_REPLICATE_H */
