/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- one shard on its port, as all of its parts know it */
#ifndef CLEAVE_MIDDLETIER_COMMON_SHARD_H
#define CLEAVE_MIDDLETIER_COMMON_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"

struct extent_id;
struct mt_extent;
struct mt_extent_slots;
struct mt_flush;
struct mt_index;
struct mt_manifest;
struct mt_port;
struct mt_reclaim;
struct mt_ring;
struct mt_root;
struct mt_run_roll;
struct mt_shard_events;
struct mt_shard_life;
struct mt_stale_root;
struct mt_takeover;
struct mt_upkeep;
struct mt_write_state;

struct mt_shard {
	uint32_t magic;
	struct mt_port *port;
	const struct mt_shard_events *events;
	uint32_t index; /* shard number in the cluster */
	struct sm sm;   /* enum mt_shard_state */
	uint32_t epoch;
	uint64_t next_counter;      /* extents created under this epoch */
	uint64_t leases_over_ns;    /* read_lease.c: those of owners before; 0: they are */
	uint64_t next_sequence;     /* of the next record */
	uint64_t cut;               /* the greatest that it was told of: batches say it */
	struct loop_link drops;     /* segment_drop.c */
	struct mt_extent **extents; /* extent_table.c: by slot; NULL: deleted */
	uint32_t extent_count;      /* slots that were given */
	struct mt_extent_slots *extent_slots; /* extent_table.c */
	struct mt_extent *log;                /* OPEN log extent; NULL: being replaced */
	struct mt_extent *log_old;            /* log_roll.c: to be sealed; NULL: there is none */
	bool is_log_short; /* log_roll.c: at last no node had room for it to go on */
	struct mt_index *block_index;
	struct mt_ring *ring;
	struct mt_write_state *write;
	struct mt_manifest *manifest;
	struct mt_takeover *takeover;
	struct mt_root
	    *root; /* as it was last read or stored; manifest.c and takeover_*.c write it */
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
	uint64_t damage_told_ns;      /* when a damaged copy was an event last; 0: never */
	uint64_t request_count;       /* answered with success, by this process; as metric.h's */
	uint64_t request_bytes;       /* plain bytes of those that were written or read */
	struct mt_stale_root *stale_root; /* takeover_stale.c */
	uint32_t awaited_node; /* of its take-over, and it does not answer (agree.c); 0: none */
	struct mt_shard_life *life; /* shard.c: whether it is wanted, what its port was told */
};

#endif /* CLEAVE_MIDDLETIER_COMMON_SHARD_H */
