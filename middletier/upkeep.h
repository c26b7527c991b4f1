/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep.h -- the background work of a shard that serves: repair, sweep, scrub
 *
 *	upkeep.c   when: a link changed, a copy was found bad, time has passed; never while nothing is due
 *	repair.c   extents with too few good copies get new ones
 *	sweep.c    what nodes hold and nobody names goes; what they should hold and do not is found
 *	scrub.c    every copy is read and checked now and then, and those that are suspect at once
 */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_H
#define CLEAVE_MIDDLETIER_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"
#include "orphans.h"

/* ---- upkeep.c: called by shard.c and takeover_open.c ---- */

int mt_upkeep_init(struct mt_shard *shard); /* -ENOMEM */
/* mt_upkeep_start -- the shard is SERVING. */
void mt_upkeep_start(struct mt_shard *shard);
void mt_upkeep_stop(struct mt_shard *shard);
/* mt_upkeep_is_quiet -- stopped, and no call to a node is out. */
bool mt_upkeep_is_quiet(const struct mt_shard *shard);
void mt_upkeep_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
void mt_upkeep_fini(struct mt_shard *shard);
/* mt_scrub_start -- verify every copy of a SERVING shard once, from now on, as fast as nodes do. */
void mt_scrub_start(struct mt_shard *shard);
/* mt_upkeep_lacking_count -- sealed extents with fewer good copies than there should be. */
uint32_t mt_upkeep_lacking_count(const struct mt_shard *shard);
/* mt_upkeep_orphan_count -- copies that no manifest names and that wait; some of them held back. */
uint32_t mt_upkeep_orphan_count(const struct mt_shard *shard, uint32_t *ret_held_count);
/* mt_upkeep_open_lacking_count -- open ones, the manifest's too: they are made anew within seconds. */
uint32_t mt_upkeep_open_lacking_count(const struct mt_shard *shard);

/* ---- what each step is told, and tells: when it is to be called again ---- */

#define UPKEEP_NEVER UINT64_MAX
#define UPKEEP_SOON_NS NUM_S(1)

/* ---- gateway.c: its options that concern them ---- */

uint64_t mt_gateway_repair_after_ns(const struct mt_gateway *gateway);
uint64_t mt_gateway_repair_bytes_per_s(const struct mt_gateway *gateway);
uint64_t mt_gateway_scrub_interval_ns(const struct mt_gateway *gateway);
uint64_t mt_gateway_sweep_interval_ns(const struct mt_gateway *gateway);
uint64_t mt_gateway_orphan_grace_ns(const struct mt_gateway *gateway);

/* ---- repair.c ---- */

enum repair_state {
	REPAIR_IDLE,
	REPAIR_VERIFYING, /* a good copy, before a bad one gives way to its successor at its node */
	REPAIR_DELETING,  /* the bad one */
	REPAIR_COPYING,
	REPAIR_COMMITTING, /* the manifest learns of the copy */
	REPAIR_STATE_NR
};

struct mt_copy;
struct mt_repair {
	struct mt_shard *shard;
	struct sm sm;
	uint64_t started_ns;
	struct extent_id id;      /* being repaired */
	uint32_t extent_index;    /* in shard->extents, where it may be gone by now */
	struct mt_replica victim; /* makes room; node_id 0: none has to */
	struct mt_replica made;   /* the new copy */
	struct mt_copy *copy;     /* COPYING */
	struct mt_call call;      /* VERIFYING, DELETING */
	bool is_call_out, is_stopped;
	bool is_want_logged;    /* no node for a copy */
	uint32_t lacking_count; /* as of the last look */
};

void repair_init(struct mt_repair *repair, struct mt_shard *shard);
void repair_start(struct mt_repair *repair);
/* repair_step -- look, and begin what is due. Returns when to look again. */
uint64_t repair_step(struct mt_repair *repair);
void repair_on_link(struct mt_repair *repair, struct mt_link *link, bool is_up);
void repair_stop(struct mt_repair *repair);

/* ---- sweep.c ---- */

struct mt_sweep {
	struct mt_shard *shard;
	struct sm sm;
	uint64_t due;      /* bit set: links whose nodes are to be asked */
	uint64_t due_ns;   /* when all are asked again */
	uint32_t number;   /* of this sweep */
	uint64_t begun_ns; /* the present one */
	uint32_t node_id;
	uint32_t listed_count; /* copies in its list so far */
	struct mt_orphans orphans;
	struct mt_call call;
	bool is_call_out, is_stopped;
};

void sweep_init(struct mt_sweep *sweep, struct mt_shard *shard);
void sweep_start(struct mt_sweep *sweep);
uint64_t sweep_step(struct mt_sweep *sweep);
/* sweep_node -- ask that node soon: something is there that nobody names. */
void sweep_node(struct mt_sweep *sweep, uint32_t node_id);
/*
 * sweep_know -- this owner knows by itself that a copy is nobody's, and could not have it deleted
 *
 * It has given the copy up by a durable edit, or made it for what never became durable; or its manifest
 * names the extent elsewhere and a repair needs the place. @incarnation 0: whichever is there.
 */
void sweep_know(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation);
/* sweep_confirm -- an operator says that the orphans which wait may go now. Returns how many. */
uint32_t sweep_confirm(struct mt_sweep *sweep);
void sweep_stop(struct mt_sweep *sweep);
void sweep_fini(struct mt_sweep *sweep);

/* ---- scrub.c ---- */

struct mt_scrub {
	struct mt_shard *shard;
	struct sm sm;
	bool is_asked;         /* this pass goes as fast as nodes do */
	bool is_asked_again;   /* while one was going on: another follows */
	uint32_t extent_index; /* where the pass is */
	uint32_t replica_index;
	uint64_t last_ns;       /* when the pass went on */
	uint64_t not_before_ns; /* a node was busy */
	struct extent_id id;
	uint32_t node_id;
	uint64_t incarnation;
	uint64_t want_bytes; /* the copy must hold so much */
	struct mt_call call;
	bool is_call_out, is_stopped, is_pass_copy;
};

void scrub_init(struct mt_scrub *scrub, struct mt_shard *shard);
void scrub_start(struct mt_scrub *scrub);
uint64_t scrub_step(struct mt_scrub *scrub);
void scrub_stop(struct mt_scrub *scrub);

struct mt_upkeep {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_task task;
	struct loop_timer timer;
	bool is_running;
	struct mt_repair repair;
	struct mt_sweep sweep;
	struct mt_scrub scrub;
};

#endif /* CLEAVE_MIDDLETIER_UPKEEP_H */
