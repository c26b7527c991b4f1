/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h -- what a gateway tells its ports: how it was started, and what changes while they run */
#ifndef CLEAVE_MIDDLETIER_COMMON_SETTINGS_H
#define CLEAVE_MIDDLETIER_COMMON_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How frames of runs are compressed: small, or cheap to read. */
enum mt_run_codec {
	MT_RUN_CODEC_AUTO, /* by how often they are read: index/heat.h */
	MT_RUN_CODEC_ZSTD,
	MT_RUN_CODEC_LZ4,
};

/*
 * mt_settings -- the gateway's options, as ports, shards and links need them; defaults are filled in
 *
 * The gateway fills them when it is created, before its first port is opened. They do not change any
 * more, so any thread reads them.
 */
struct mt_settings {
	uint64_t cluster_id;
	uint64_t gateway_id, boot_id; /* roots name both as their owner */
	uint8_t
	    level_max; /* what it speaks; 0: CLEAVE_LEVEL_MAX. Less is for tests: a release of before */
	uint32_t min_replicas; /* copies without which nothing is confirmed */
	/* Plain bytes of a run's frames: a power of two of blocks, up to 64 KiB. */
	uint32_t frame_bytes;
	/* Likewise of frames that are stored for readers, where run_codec is AUTO; 0: frame_bytes. */
	uint32_t read_frame_bytes;
	enum mt_run_codec run_codec;
	bool has_read_ahead; /* frames that clients read piece by piece are kept: read_frames.h */
	uint64_t node_timeout_ns;
	/* A lost node may be away for so long before its copies are made anew elsewhere. */
	uint64_t repair_after_ns;
	uint64_t repair_bytes_per_s; /* of a port, for all its copying */
	uint64_t scrub_interval_ns;  /* every copy is verified once in it */
	uint64_t sweep_interval_ns;  /* between two looks for orphans at a node */
	uint64_t orphan_grace_ns;    /* what nobody names is deleted after it; 0: when first seen */
	uint64_t log_bytes; /* a shard's log: beyond it flush hurries, or earlier: reclaim_room.c */
	uint32_t flush_age_s;       /* a layer is old after one to two times as long */
	uint64_t index_cache_bytes; /* a port's share of the indexes of runs */
	uint64_t hot_bytes;         /* a port's share of the table of hot blocks: read/hot.h */
	uint64_t mirror_bytes;      /* a port's share of heads: extent/head_mirror.h; 0: none */
	uint64_t (*wall_ms)(void);  /* the clock on the wall; NULL: clocks are not compared */
	uint64_t hold_ns;           /* after it a shard's hold for a snapshot ends by itself */
	/* For tests. A shard's runs, cuts and mirror are long beyond it [by the slots]; a checkpoint writes
	 * no more than that to one extent [all of it]. 0: the default in brackets. */
	uint64_t manifest_bytes, manifest_part_bytes;
	uint32_t
	    hot_count_min; /* for tests: a block is kept when it was read so often; 0: HOT_COUNT_MIN */
	uint32_t
	    directory_batches_min; /* for tests: runs of so many have directories; 0: merge/run_directory.h says */
	bool has_recipes; /* for tests: merges are executed from their recipes (merge/RECIPE.md) */
	bool has_offload; /* merges are executed by other gateways that have room for jobs */
	uint32_t
	    worker_jobs; /* of other gateways' merges that a port executes at a time; 0: none */
	uint64_t
	    offload_bytes_min; /* for tests: merges of less are not asked about; 0: merge/merge_away.h says */
	uint32_t
	    mirror_faults; /* for tests: of so many heads that are mirrored one is lost, one damaged, one
				 * of another chain, and one of another batch; 0: none is */
	uint32_t
	    recipe_lies; /* for tests: of so many recipes one is executed wrongly; 0: none is */
};

/* mt_shared -- what main and its ports show each other at any time, without a message */
struct mt_events;
struct mt_slow_ops;

struct mt_shared {
	_Atomic uint64_t lease_until_ns; /* main writes; 0: no lease */
	_Atomic uint64_t slot_bytes_min; /* ports write: of all nodes seen; 0: none was */
	_Atomic uint32_t cluster_level;  /* main writes: level.h; 0: not read yet */
	_Atomic uint64_t slow_op_ns;     /* main writes: a client's request that took so long is
					  * kept (slow_op.h); 0: none is */
	_Atomic bool has_served;         /* main writes: all shards served at some time */
	/* Simulator: destroyed without stop, the split ports are gone already. Main writes it, when no
	 * port has a thread of its own. */
	bool is_killed;
	struct mt_events *events; /* any thread: event.h; NULL: none are kept */
	struct mt_slow_ops *slow; /* any thread: slow_op.h; NULL: none are kept */
};

#endif /* CLEAVE_MIDDLETIER_COMMON_SETTINGS_H */
