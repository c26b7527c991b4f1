/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_state.h -- struct node: what the files of a storage node share
 *
 * State that one file alone uses is a struct of that file, behind a pointer. Everything is allocated at start, a
 * request for each receive; nothing on the way of a message allocates. Threads: the loop's alone.
 */
#ifndef CLEAVE_STORAGE_NODE_STATE_H
#define CLEAVE_STORAGE_NODE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "base/sm.h"
#include "claim.h"
#include "claim_page.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "fence.h"
#include "format/ondisk.h"
#include "hops.h"
#include "node.h"
#include "peer.h"
#include "refusal.h"
#include "store.h"
#include "sync.h"

#define SN_NODE_MAGIC 0x45444f4eu /* "NODE" */
#define SN_RECEIVE_BYTES WIRE_PAYLOAD_BYTES_MAX

enum node_state {
	NODE_CREATED,
	NODE_RECOVERING,
	NODE_READY,
	NODE_STOPPING,
	NODE_STOPPED,
	NODE_FAILED,
	NODE_STATE_NR
};
extern const struct sm_state node_table[NODE_STATE_NR];

struct node {
	uint32_t magic;
	struct sm sm;
	struct node_options options;
	char listen[SPLIT_ADDRESS_BYTES_MAX];
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char advertise[SPLIT_ADDRESS_BYTES_MAX]; /* where clients find it; "": as gateways do */
	char disk_name[SPLIT_ADDRESS_BYTES_MAX];
	struct loop *loop;
	struct disk *disk;
	struct split_port *port;
	struct engine_set *engines;
	struct ondisk_super super;
	struct node_counters counters;
	struct sn_hops hops;
	bool is_read_only; /* a flush has failed, in this process or before (I3) */

	/* extent.c */
	struct sn_extent *extents; /* super.slot_count of them */
	struct sn_extent **hash;
	uint32_t hash_mask;         /* buckets, a power of two, less one */
	struct loop_link free_used; /* held extents before, or written ahead */
	struct loop_link free_virgin;
	struct loop_link free_failed; /* a create has failed there: taken where there is no other */
	uint32_t free_count;          /* slots in the three free lists */
	uint32_t failed_count;        /* of them in free_failed */
	uint32_t held_count;          /* extents in the hash table */
	uint32_t bad_count;           /* slots that are not used again before a restart */
	uint32_t kind_counts[EXTENT_MANIFEST + 1]; /* of held_count, by enum extent_kind */
	uint64_t incarnation_last;                 /* the highest that this disk has given a copy */

	struct sn_fence_page fences[ONDISK_FENCE_PAGES];
	void *fence_pages;
	struct sn_claims claims[CLEAVE_SHARDS_MAX]; /* claim.c */
	struct sn_claim_page *claim_pages;          /* claim_page.c; NULL: no key */
	struct sn_sync sync;
	struct sn_store store;
	struct sn_peers peers;
	struct sn_permit *permit; /* permit.c; NULL: it takes no clients */
	struct loop_link readers; /* reader.c: struct sn_reader */
	uint32_t reader_count;
	struct sn_refusal refusals[SN_REFUSALS_MAX];

	/* State of one file each; NULL before the superblock is known. */
	struct sn_appender *appender;
	struct sn_scanners *scanners;
	struct sn_verify *verify;
	struct sn_heads *heads;
	struct sn_zero *zero;
	struct sn_recover *recover; /* from node_create on */
	struct sn_slots *slots;     /* recover_slots.c; the same */

	struct split_key *key; /* a share; revoked.c gives it to the port; NULL: none */

	/* Counts of what is at work, for those who give way or wait. */
	uint32_t appends_count;       /* in flight, all extents */
	uint32_t reads_count;         /* of gateways and clients, at the disk */
	uint32_t requests_busy_count; /* requests that are not answered */
	uint32_t claim_writes_count;  /* at the disk */
	uint32_t replies_count;       /* handed to the port, not on their way yet */
	bool is_zeroing;              /* a free slot is in no list: zero.c writes it */

	/* request.c */
	struct sn_request *requests;
	uint32_t request_count;
	void *request_pages;
	struct loop_link free_requests;

	char *text; /* control.c: an answer being made */

	/* node.c */
	int ready_rc;
	char ready_reason[NODE_REASON_BYTES_MAX];
	struct loop_task ready_task;
	struct loop_timer stop_timer;
	struct loop_task stop_task;
	void (*on_stopped)(struct node *node, int rc, void *arg);
	void *on_stopped_arg;
};

/* sn_node_idle_check -- a request, a reply or a zeroed slot has ended: a stop that waits may go on. Any state. */
static inline void
sn_node_idle_check(struct node *node)
{
	if (node->sm.state == NODE_STOPPING)
		loop_defer(node->loop, &node->stop_task);
}

/* SN_COUNT -- add @delta to the counter @name of NODE_COUNTER_LIST. */
#define SN_COUNT(node, name, delta) metric_add(&(node)->counters.name, (delta))

#endif /* CLEAVE_STORAGE_NODE_STATE_H */
