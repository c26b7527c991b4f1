/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.h -- every copy of an extent is read and checked by its node, now and then */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_SCRUB_H
#define CLEAVE_MIDDLETIER_UPKEEP_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "extent/call.h"

struct mt_shard;

/* mt_scrub_now -- verify every copy of a SERVING shard once, from now on, as fast as nodes do. */
void mt_scrub_now(struct mt_shard *shard);

struct mt_scrub {
	struct mt_shard *shard;
	struct sm sm;
	bool is_asked;         /* this pass goes as fast as nodes do */
	bool is_asked_again;   /* while one was going on: another follows */
	uint32_t extent_index; /* where the pass is */
	uint32_t replica_index;
	uint32_t suspect_index; /* where the search for suspects goes on: behind the last one */
	uint32_t suspect_replica;
	uint64_t last_ns;       /* when the pass went on */
	uint64_t passed_ns;     /* when the last pass ended, or this life began */
	uint64_t not_before_ns; /* a node was busy */
	struct extent_id id;
	uint32_t node_id;
	uint64_t incarnation;
	uint64_t want_bytes; /* the copy must hold so much */
	struct mt_call call;
	bool is_call_out, is_stopped, is_pass_copy;
};

/* mt_scrub_init -- stopped. mt_scrub_start -- the shard serves; no call of an earlier life is out. */
void mt_scrub_init(struct mt_scrub *scrub, struct mt_shard *shard);
void mt_scrub_start(struct mt_scrub *scrub);
/* mt_scrub_step -- begin the next verification that is due. Returns when to look again, UPKEEP_NEVER: when told. */
uint64_t mt_scrub_step(struct mt_scrub *scrub);
/* mt_scrub_stop -- no other begins; is_call_out says whether one is yet to come back. */
void mt_scrub_stop(struct mt_scrub *scrub);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_SCRUB_H */
