/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_status.h -- what `cleave status` and the metrics are told of a port, copied on its thread
 */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_STATUS_H
#define CLEAVE_MIDDLETIER_PORT_PORT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/latency.h"
#include "catalog/volume.h"
#include "cleave/batch.h"
#include "common/room_waits.h"
#include "common/shard_state.h"
#include "extent/link_revoked.h"
#include "extent/node_config.h"
#include "extent/node_link.h"
#include "port/node_usage.h"
#include "port/usage_walk.h"
#include "port/volume_use.h"
#include "port/waits.h"
#include "upkeep/rebalance.h"

struct mt_port;
struct mt_rate;
struct mt_throttle_told;

/* A port's report about itself. */
struct mt_shard_status {
	uint32_t index;
	enum mt_wait wait;
	const char *failed_why; /* MT_WAIT_FAILED: static */
	uint32_t awaited_node;  /* MT_WAIT_AWAY */
	enum mt_shard_state state;
	bool is_serving;
	bool is_short;           /* wanted, and its port has no memory for it */
	uint64_t takeover_steps; /* grows while its take-over comes further in this state */
	uint32_t epoch;
	uint32_t extent_count;
	uint32_t log_extent_count, run_extent_count;
	uint32_t lacking_count; /* extents with fewer good copies than there should be */
	uint32_t leaving_count; /* of the others: with a copy at a node that drains */
	uint32_t orphan_count;  /* copies that no manifest names, and wait to be deleted */
	uint32_t held_count;    /* of those, held back: enough have gone */
	uint64_t
	    scrub_age_ns;   /* since every copy was verified last, or it began to be served here */
	uint64_t unread_ns; /* for how long merges have found no copy of some blocks; 0: they do */
	uint64_t unread_clone; /* a segment of the clone that is not flattened for it; 0: none */
	uint64_t write_age_ns; /* of the oldest write that has no answer; 0: there is none */
	char write_volume[MT_NAME_BYTES];      /* its volume's name */
	uint64_t request_count, request_bytes; /* as struct mt_shard has them */
	uint64_t log_bytes, index_blocks, index_bytes, ring_bytes;
	uint64_t chunk_count, chunk_bytes; /* of index_bytes: chunks and runs, the rest is layers */
	uint64_t run_count, run_bytes;
	uint64_t run_live_bytes;   /* of run_bytes, about; as last seen */
	uint64_t run_extent_bytes; /* of the extents that they are in */
};

/* mt_shard_status_extents -- all of them: those of log and runs, and that of the manifest. */
static inline uint32_t
mt_shard_status_extents(const struct mt_shard_status *shard)
{
	return shard->extent_count + (shard->is_serving ? 1 : 0);
}

struct mt_link_status {
	struct mt_node_config config;
	uint32_t node_id;
	enum mt_link_state state;
	bool is_up;
	bool is_full;               /* it takes no more of some kind */
	bool is_read_only, is_slow; /* its disk takes no writes; it was given up as slow lately */
	bool is_direct;             /* it takes clients that read by tickets */
	bool has_ticket_key;        /* ... which can be made */
	bool is_displaced;          /* its disk is no longer found by its path */
	bool is_failing;            /* its disk fails writes: failing_node.h */
	bool is_left_out;           /* and now it gets no new data, and is not on trial */
	uint64_t forgot_count;      /* copies that it had, and has no more: forgetful_node.h */
	uint64_t key_expires_s;     /* likewise */
	int64_t clock_gap_ms;       /* of its clock on the wall against ours: node_link.h */
	uint64_t state_age_ns;      /* since it came up, or went down, or was made */
	uint64_t slots_total, slots_free, slot_bytes;
	uint64_t slots_reserved; /* of the free ones: not for the log */
	uint64_t slots_share;    /* in use, if copies were spread evenly: balance.h */
	uint32_t level;          /* agreed on when it was heard last; 0: never */
	char advertise[SPLIT_ADDRESS_BYTES_MAX]; /* where clients find it; "": as gateways do */
	char disk[MT_NODE_DISK_BYTES];           /* the uuid of its disk; "": not heard yet */
	char trouble[MT_TROUBLE_BYTES];          /* why it is not up */
	struct latency took[MT_LINK_TOOK_NR];
};

/* mt_link_told -- where clients are told that the node is; the text is @link's. */
static inline const char *
mt_link_told(const struct mt_link_status *link)
{
	return link->advertise[0] != '\0' ? link->advertise : link->config.address;
}

struct mt_port_status {
	uint32_t shard_count, link_count, session_count;
	uint32_t
	    opened_count; /* sessions that have a volume or a snapshot open, not to ask alone */
	uint32_t asked_session_count; /* live sessions of the volume that was asked about */
	uint32_t asked_writer_count;  /* of them, of the attach that was asked about */
	uint32_t asked_reader_count;  /* and those that are read-only */
	uint32_t receives_free;
	uint32_t connections_max; /* of those that come in */
	uint64_t full_age_ns;     /* since one found no place; UINT64_MAX: none has */
	int full_rc; /* why: -EMFILE, -ENFILE the system's limit, which has others wait */
	/* MT_ASK_REACH: domains with a node that is up and takes copies; and that has answered lately. */
	uint32_t domain_count, heard_domain_count;
	uint32_t ring_count, ring_max; /* taken, and that there is device memory for */
	uint32_t short_count;          /* shards that wait for one */
	uint64_t run_index_bytes;      /* in memory, of --index-cache */
	uint64_t hot_bytes,
	    hot_bytes_max;              /* hot blocks that are kept, and that there is room for */
	struct mt_shard_status *shards; /* NULL: out of memory, or none yet */
	struct mt_link_status *links;
	struct mt_usage usage;     /* MT_ASK_USAGE */
	struct mt_volume_use use;  /* MT_ASK_USAGE, MT_ASK_USE */
	struct mt_node_usage node; /* MT_ASK_NODE */
	struct mt_doubts doubts;   /* MT_ASK_DOUBTS */
	struct mt_rebalance_status balance;
	struct latency write_minute, read_minute; /* of clients: common/hops.h */
	struct mt_rate *rates; /* the busiest volumes: session/rates.h; NULL: none */
	uint32_t rate_count;   /* with the one of all others */
	struct mt_room_waits room_waits;
	struct mt_throttle_told
	    *told; /* volumes that waited for their limits; NULL: none, or no memory */
	uint32_t told_count;
	/* MT_ASK_SWEEP: the first of them; NULL: none. */
	struct mt_orphan_status {
		struct extent_id id;
		uint32_t node_id;
		uint64_t incarnation;
		uint64_t age_ns, left_ns; /* since it was seen; until it may go */
		bool is_held, is_confirmed;
	} * orphans;
	uint32_t orphan_count, orphan_total; /* listed here; there are */
	uint32_t confirmed_count;
};
/* mt_port_status_orphans -- @must_confirm: and those that wait may go now. */
void mt_port_status_orphans(struct mt_port *port, bool must_confirm, struct mt_port_status *status);
/* mt_port_status_take -- on the port's thread. What there is no memory for stays NULL. */
void mt_port_status_take(struct mt_port *port, struct mt_port_status *ret_status);
/* mt_port_load_take -- cheap: of each shard its state and what it has answered, and how many rings are taken; no more */
void mt_port_load_take(struct mt_port *port, struct mt_port_status *ret_status);
/*
 * mt_port_reach_take -- cheap: the domains of nodes that the port reaches; no more
 *
 * A node has answered lately within MT_REACH_HEARD_NS. @must_ask: nodes are asked, so that this can be said of idle ones.
 */
void mt_port_reach_take(struct mt_port *port, bool must_ask, struct mt_port_status *ret_status);
#define MT_REACH_HEARD_NS NUM_S(2)
/* mt_port_rates_take -- cheap: the busiest volumes, and how long requests of the last minute took; no more */
void mt_port_rates_take(struct mt_port *port, struct mt_port_status *ret_status);
/* mt_port_status_fini -- any thread; also of one that is all zeros. */
void mt_port_status_fini(struct mt_port_status *status);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_STATUS_H */
