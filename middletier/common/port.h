/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h -- a port: a loop, a split port, an engine set, links to the nodes, sessions, and some
 * shards
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_PORT_H
#define CLEAVE_MIDDLETIER_COMMON_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/envelope.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/hops.h"
#include "common/limits.h"
#include "common/room_waits.h"

struct engine_set;
struct keyring;
struct merge_work;
struct mt_cluster;
struct mt_control_request;
struct mt_gateway;
struct mt_head_mirror;
struct mt_head_push;
struct mt_link;
struct mt_port_life;
struct mt_port_events;
struct mt_rates;
struct mt_peer_links;
struct mt_read_state;
struct mt_root_ops;
struct mt_run_cache;
struct mt_settings;
struct mt_shares;
struct mt_session_host;
struct mt_shard;
struct mt_shared;
struct mt_throttle;
struct mt_worker;
struct mt_upkeep_port;
struct split_port;

#define MT_LEASE_ENDS 64u

enum mt_port_state {
	MT_PORT_OPENING, /* listens; shards are not known yet */
	MT_PORT_RUNNING,
	MT_PORT_STOPPING, /* takes no request any more */
	MT_PORT_STOPPED,
	MT_PORT_STATE_NR
};

/* A change of a volume's blocks, in one segment. */
struct mt_change {
	uint64_t volume, segment;
	uint32_t block, count;
};

struct mt_port {
	uint32_t magic;
	struct mt_gateway *gateway;
	const struct mt_settings *settings;
	struct mt_shared *shared;
	const struct mt_cluster *cluster; /* the key "cluster": main has read it when ports begin */
	struct loop *main_loop;
	const struct mt_port_events *events; /* what its links and shards tell */
	void *events_arg;                    /* of who listens in the port's place; NULL: nobody */
	const struct mt_root_ops *root_ops;  /* gateway.c: before it begins */
	uint32_t index;
	struct loop *loop;
	struct split_port *split;
	struct engine_set *engines;
	struct engine_set *merge_engines; /* threads in the background; NULL: none */
	struct keyring *keys;             /* data keys: the port puts them, its engines read them */
	struct envelope_writer envelopes; /* all that is encrypted here draws from it */
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* as bound, or advertised: where others find it */
	struct mt_link *links;
	uint32_t link_count;
	struct mt_revoked_text *revoked; /* extent/link_revoked.c; NULL: there are no lists */
	uint32_t
	    left_ids[MT_NODE_KEYS_MAX]; /* nodes that were members, with or without a link here */
	uint32_t left_count;
	struct mt_shard *shards; /* those this port owns */
	uint32_t shard_count;
	struct mt_shard **shard_by_number; /* cluster's shard_count; NULL: another port's */
	struct loop_link sessions;
	uint32_t write_count; /* of all of them, in flight: work in the background gives way */
	struct {              /* session.c's: what is under way, for shares.c */
		uint32_t read_count;       /* as write_count */
		uint32_t share_sessions;   /* of volumes with a minimum or a weight */
		uint64_t done[2];          /* requests that have ended: [1] writes */
		uint64_t area_ns[2];       /* how long requests were under way, all together */
		uint64_t stepped_ns[2];    /* counted up to here */
		struct loop_task *waiting; /* is to run when one has; NULL: nobody waits */
	} flow;
	struct {                                    /* session.c's */
		const struct mt_session_host *host; /* what sessions tell and ask */
		struct loop_link waiting;           /* for writes and leases of older ones to end */
		uint32_t next_id;
		struct mt_lease_end {
			uint64_t end_ns;            /* by mt_lease_now_ns; 0: none yet */
			uint64_t volume_id, attach; /* whose; volume_id 0: several sessions' */
		} lease_ends[MT_LEASE_ENDS];        /* read_lease.c's: of sessions that have left */
	} session;
	dev_ptr zero_page; /* 4 KiB of zeros, for padding */
	struct {           /* turn.c, write_turn.c: the latency class is at work */
		uint64_t until_ns;
		bool is_due; /* in this turn of the loop */
	} ahead;
	struct { /* segment_drop.c's: walks of all its shards */
		uint32_t count;
		uint32_t look_count;      /* in this turn of the loop */
		struct loop_link waiting; /* for their turns */
		struct loop_timer timer;
		struct loop_turn_end turn_end;
	} drop;
	struct mt_read_state *read;
	/* A change is in the index, and is answered when this has returned; NULL: nobody reads past this port. */
	void (*on_change)(struct mt_port *port, const struct mt_change *change);
	struct mt_throttle *throttle;   /* port/throttle.c */
	struct mt_shares *shares;       /* port/shares.c */
	struct mt_run_cache *run_cache; /* run_index.c */
	struct merge_work *merge_work;  /* merge.c */
	struct mt_upkeep_port *upkeep;  /* upkeep_port.h */

	/* With --mirror-heads; else NULL. */
	struct mt_head_mirror *head_mirror; /* of others' batches: extent/head_mirror.h */
	struct mt_head_push *head_push;     /* ours, to others: extent/head_push.h */
	struct mt_worker
	    *worker; /* other gateways' merges, executed here; NULL: without --worker-jobs */
	struct mt_peer_links *peer_links; /* to other gateways: extent/peer_link.h */

	uint64_t metrics[MT_METRICS_MAX]; /* by enum mt_metric */
	struct mt_hops hops;
	struct mt_rates *rates; /* session/rates.h; NULL: no memory */
	struct mt_room_waits room_waits;
	struct mt_port_full {
		uint64_t
		    at_ns; /* somebody was refused, or waits, for want of a place, last; 0: never */
		int rc;    /* why: as split_port_options has it for on_full */
	} full;
	uint64_t ring_bytes; /* of a shard's ring, which it has while it is here */
	uint32_t ring_max;   /* rings that there is memory for: shards that can be here at once */
	uint32_t ring_count; /* of them, taken */
	uint64_t ring_all_device_bytes; /* --device-memory with which all of its shards could */
	uint32_t receive_count; /* in the pool: clients' requests and nodes' replies together */
	/* port.c's. */
	struct sm sm;    /* enum mt_port_state */
	bool is_closing; /* STOPPING: requests have ended, everything is being closed */
	struct mt_control_request *control_requests; /* control.c: MT_CONTROL_IN_FLIGHT_MAX */
	struct loop_link peer_calls;                 /* peer.c: to other gateways */
	struct {                                     /* lease.c's */
		_Atomic uint32_t lost_count;         /* how often main has lost it */
		uint32_t heard_count; /* how many of these losses the shards here have heard of */
	} lease;
	struct mt_port_life *life; /* port_life.h */
};

/* mt_port_flow_step -- before the count of requests under way changes, and before flow.area_ns is read */
static inline void
mt_port_flow_step(struct mt_port *port, bool is_write, uint64_t now_ns)
{
	uint64_t count = is_write ? port->write_count : port->flow.read_count;

	port->flow.area_ns[is_write] += count * (now_ns - port->flow.stepped_ns[is_write]);
	port->flow.stepped_ns[is_write] = now_ns;
}

/* mt_port_flow_begin -- session.c's: a request begins. Where shares are used, they must know how long requests take. */
static inline void
mt_port_flow_begin(struct mt_port *port, bool is_write)
{
	if (port->flow.share_sessions > 0)
		mt_port_flow_step(port, is_write, loop_now_ns(port->loop));
}

/* mt_port_flow_end -- likewise: one has ended, and is still counted as under way. */
static inline void
mt_port_flow_end(struct mt_port *port, bool is_write)
{
	mt_port_flow_begin(port, is_write);
	port->flow.done[is_write]++;
}

#endif /* CLEAVE_MIDDLETIER_COMMON_PORT_H */
