/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- one shard on its port, as all of its parts know it */
#ifndef CLEAVE_MIDDLETIER_COMMON_SHARD_H
#define CLEAVE_MIDDLETIER_COMMON_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "common/root.h"

struct extent_id;
struct mt_extent;
struct mt_flush;
struct mt_index;
struct mt_manifest;
struct mt_port;
struct mt_reclaim;
struct mt_ring;
struct mt_run_roll;
struct mt_shard_events;
struct mt_takeover;
struct mt_upkeep;
struct mt_write_state;

enum mt_shard_state {
	MT_SHARD_IDLE,
	MT_SHARD_CLAIMING, /* root key: epoch + 1, owner */
	MT_SHARD_AGREEING, /* freeze, repair and cut the manifest extent, read it; then open extents */
	MT_SHARD_OPENING,   /* new manifest extent, which holds all agreed lengths */
	MT_SHARD_REPLAYING, /* read descriptors into the index */
	MT_SHARD_SERVING,
	MT_SHARD_STOPPED, /* not wanted, lost, or shutting down: what is out comes back, then IDLE */
	MT_SHARD_STATE_NR
};

struct mt_shard {
	uint32_t magic;
	struct mt_port *port;
	const struct mt_shard_events *events;
	uint32_t index; /* shard number in the cluster */
	struct sm sm;
	uint32_t epoch;
	uint64_t next_counter;             /* extents created under this epoch */
	uint64_t next_sequence;            /* of the next record */
	uint64_t cut;                      /* the greatest that it was told of: batches say it */
	struct loop_link drops;            /* segment_drop.c */
	struct mt_extent **extents;        /* extent_table.c: by slot; NULL: deleted */
	uint16_t *extent_generations;      /* of the slots */
	uint32_t extent_count, extent_max; /* slots that were given, and that there are */
	uint32_t extent_free;              /* no slot before it is free */
	struct mt_extent *log;             /* OPEN log extent; NULL: being replaced */
	struct mt_extent *log_old;         /* log_roll.c: to be sealed; NULL: there is none */
	bool is_log_short; /* log_roll.c: at last no node had room for it to go on */
	struct mt_index *block_index;
	struct mt_ring *ring;
	struct mt_write_state *write;
	struct mt_manifest *manifest;
	struct mt_takeover *takeover;
	struct mt_root root;
	struct loop_link root_calls;      /* meta_proxy.c: outstanding */
	uint64_t log_bytes;               /* in all log extents */
	struct loop_link extent_requests; /* extent.c: of all its extents, also of those freed */
	struct loop_link live_extents;    /* extent.c: every one that there is, in extents or not */
	struct loop_link copies;          /* copy.c: on their way */
	struct loop_task *upkeep_task;    /* upkeep.c: look at the copies now; NULL: not serving */
	/* upkeep.c: this owner has given a copy up that its node still has; NULL: not serving. */
	void (*garbage_fn)(struct mt_shard *, const struct extent_id *, uint32_t node_id, uint64_t);
	struct mt_upkeep *upkeep;
	struct mt_reclaim *reclaim;
	struct mt_run_roll *run_roll; /* run_roll.c */
	struct mt_flush *flush;       /* flush.c */
	uint32_t read_count;          /* read_path.c: reads that are not answered yet */
	/* shard.c's. */
	bool is_wanted;    /* by the last set that the port was given */
	bool is_releasing; /* STOPPED: the root is to say so before it is IDLE */
	bool is_claimed;   /* its root may name us, and not say that it is released */
	/* takeover.c: its root was found stale so often in a row, and is not looked at before. */
	uint32_t stale_count;
	uint64_t stale_until_ns;
	struct mt_root stale_root;
	struct loop_timer quiet_timer;
	uint64_t quiet_wait_ns;
	struct mt_shard_report { /* port.c: main is told the newest; under port->lock */
		struct loop_post post;
		enum mt_shard_state state;
		uint32_t epoch;
		bool is_out;
	} report;
};

#endif /* CLEAVE_MIDDLETIER_COMMON_SHARD_H */
