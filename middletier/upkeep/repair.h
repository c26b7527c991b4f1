/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h -- extents with too few good copies get new ones */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_REPAIR_H
#define CLEAVE_MIDDLETIER_UPKEEP_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "common/replica.h"
#include "extent/call.h"

struct mt_copy;
struct mt_shard;

enum repair_state {
	REPAIR_IDLE,
	REPAIR_VERIFYING, /* a good copy, before a bad one gives way to its successor at its node */
	REPAIR_DELETING,  /* the bad one */
	REPAIR_COPYING,
	REPAIR_COMMITTING, /* the manifest learns of the copy */
	REPAIR_STATE_NR
};

/* Why a copy is made. */
enum repair_cause {
	REPAIR_LACKING, /* the extent has too few good ones */
	REPAIR_LEAVING, /* a good one is at a node that drains */
	REPAIR_BALANCE, /* a good one is at a node that has more than its share */
};

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
	uint64_t spent_ns; /* until when the shard's part of --repair-rate is */
	enum repair_cause cause;
	uint32_t balance_round; /* rebalance.c: the last in which this shard had no more to move */
	uint32_t balance_next;  /* likewise: in shard->extents, where the next look begins */
	bool is_want_logged;    /* no node for a copy */
	bool is_stuck_logged;   /* no node for one that must leave its node */
	uint32_t lacking_count; /* as of the last look */
	uint32_t
	    leaving_count; /* whole, and with a copy at a node that drains; as of the last look */
};

/* All on the port's thread; upkeep.c calls them. */

/* mt_repair_init -- stopped; zero at first, and what was spent of the budget stays. mt_repair_start -- the shard serves; no call of an earlier life is out. */
void mt_repair_init(struct mt_repair *repair, struct mt_shard *shard);
void mt_repair_start(struct mt_repair *repair);
/* mt_repair_step -- look at all extents, and begin what is due. Returns when to look again, UPKEEP_NEVER: when told. */
uint64_t mt_repair_step(struct mt_repair *repair);
/* mt_repair_on_link -- a link has changed; one that came up lets every extent be tried again. */
void mt_repair_on_link(struct mt_repair *repair, struct mt_link *link, bool is_up);
/* mt_repair_stop -- a copy that is being made ends; is_call_out says whether a call is yet to come back. */
void mt_repair_stop(struct mt_repair *repair);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_REPAIR_H */
