/* SPDX-License-Identifier: Apache-2.0 */
/* run_ask.h -- a load, and what run_ask.c and run_load.c alone know of it */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_ASK_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_ASK_H

#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "extent/choose.h"
#include "extent/node_link.h"
#include "index/run_heads.h"
#include "index/run_load.h"

struct mt_run;
struct mt_run_cache;
struct mt_shard;

#define RUN_LOAD_MAGIC 0x444c4e52u /* "RNLD" */

enum run_load_state {
	RUN_LOAD_QUEUED,
	RUN_LOAD_READING,
	RUN_LOAD_WAITING,
	RUN_LOAD_GATHERING,
	RUN_LOAD_ENDED,
	RUN_LOAD_STATE_NR
};

extern const struct sm_state mt_run_load_table[RUN_LOAD_STATE_NR];

struct mt_run_load {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* in the cache's list of its state */
	struct mt_shard *shard;
	struct mt_run *run; /* NULL: it has gone, or wants the page no more */
	uint32_t page;      /* MT_RUN_WHOLE, MT_RUN_DIRECTORY: the run's load is this one, ... */
	struct mt_run_load
	    *directory; /* ... or, of a whole: this is its directory's. NULL: none is */
	struct loop_link pages_link; /* of a page: in the directory's loads while run is set */
	struct loop_link waiters;
	struct mt_run_heads heads;   /* as far as they were read */
	struct run_reader *reader;   /* READING */
	uint64_t deadline_ns;        /* moves on with every head */
	struct mt_chooser chooser;   /* among the copies, for this head */
	uint32_t block, block_count; /* of a page: frames that are to come with it; count 0: none */
	struct mt_run_found found;   /* ENDED: for who has asked for these blocks */
	struct mt_run_index
	    *glimpse; /* ENDED: that is all that was made of the page; NULL: it is in the cache */
	int rc;       /* ENDED */
};

struct run_reader {
	struct loop_link link; /* cache->free_readers */
	struct mt_run_cache *cache;
	struct mt_call call;
	struct mt_shard *shard;   /* whose call is out; NULL: none is */
	struct mt_run_load *load; /* NULL: it has ended meanwhile */
	uint32_t bytes;
	uint8_t replica_index;
};

static inline struct mt_run_load *
mt_run_load_of(struct loop_link *link)
{
	struct mt_run_load *load = LIST_ENTRY(link, struct mt_run_load, link);

	CHECK_OBJ(load, RUN_LOAD_MAGIC);
	return load;
}

/* mt_run_load_finish -- ENDED with @rc: those who wait are told soon. A call that is out goes on without it. */
void mt_run_load_finish(struct mt_run_load *load, int rc);
/* mt_run_load_queue -- GATHERING: its heads are read in their order instead. */
void mt_run_load_queue(struct mt_run_load *load);
/* mt_run_loads_go_on -- what is queued begins, as far as readers are free. */
void mt_run_loads_go_on(struct mt_run_cache *cache);
/* mt_run_loads_on_tick -- what waits for a copy tries again. */
void mt_run_loads_on_tick(struct loop_timer *timer, void *arg);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_ASK_H */
