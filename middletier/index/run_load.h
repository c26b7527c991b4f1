/* SPDX-License-Identifier: Apache-2.0 */
/* run_load.h -- reads the heads of a run's batches, from any replica of its extent */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_LOAD_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "extent/choose.h"

struct mt_link;
struct mt_port;
struct mt_run;
struct mt_run_dir;
struct mt_shard;
struct run_reader;
struct split_msg;

/* Frames that a node has read together with a page. */
struct mt_run_found {
	struct split_msg *msg; /* NULL: nothing */
	uint32_t skip_bytes;   /* of its payload, to what is found */
	uint32_t offset_bytes; /* of that in the extent */
	uint32_t extent_index;
	uint64_t extent; /* extent_id_pack */
	struct mt_link *node;
	uint8_t replica_index;
	uint64_t took_ns;
};

struct mt_run_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
	uint32_t block, block_count; /* mt_run_find_block: of the chunk; else 0 */
	struct mt_run_found found;   /* within fn; the message is the waiter's, to be released */
};
/*
 * mt_run_load -- read all of the run's heads, unless that is under way; @waiter->fn once, from the loop
 *
 * rc 0: run->index is there at that moment (hold it to keep it); -EHOSTDOWN: no copy could be read until
 * the port's node time-out; -EBADMSG: no copy is good; -ENOMEM; -ECANCELED: the shard has stopped.
 * A waiter may be withdrawn by mt_run_unwait.
 */
void mt_run_load(struct mt_run *run, struct mt_run_waiter *waiter);
/*
 * mt_run_load_block -- likewise, what a lookup of @block of the chunk wants, for which mt_run_look said UNLOADED
 *
 * The head of its batch, if its directory is known; that one, if the run has it on the nodes; else all heads. rc 0: look
 * again.
 */
void mt_run_load_block(struct mt_run *run, uint32_t block, struct mt_run_waiter *waiter);
/*
 * mt_run_find_block -- likewise, and what @block and those behind it, @count together, are stored as, if that costs no call
 *
 * A page is asked of a node together with the frames of these blocks, as far as it has them, where the node knows how.
 * In @waiter->fn @waiter->found has them, unless rc is not 0 or others were asking already. Its bytes were checked by
 * nobody: what the index says of the block now is what counts. Of a page that gets no place in the cache the index says it
 * while @waiter->fn runs, and of these blocks alone.
 */
void mt_run_find_block(struct mt_run *run, uint32_t block, uint32_t count,
    struct mt_run_waiter *waiter);
void mt_run_unwait(struct mt_run_waiter *waiter);
/* mt_run_stop -- every load of the shard ends with -ECANCELED. mt_run_is_quiet: no call is out. */
void mt_run_stop(struct mt_shard *shard);
bool mt_run_is_quiet(const struct mt_shard *shard);

#define RUN_READERS_MAX 64u /* of a port: heads that are being read at a time */
#define RUN_GATHER_MAX                                                                             \
	8u /* of a run: pages that are loaded at a time for the whole; reads want some, too */
#define RUN_CACHE_BYTES_MIN NUM_KIB(4)
#define RUN_JOIN_BLOCKS_MAX 4u /* pages with so few blocks are asked for together: choose.h */

/* A port's indexes of runs that are in memory. */
struct mt_run_cache {
	uint32_t magic;
	struct mt_port *port;
	uint64_t bytes, bytes_max; /* of lru and dirs; it is exceeded by what may not go */
	uint64_t dir_bytes;        /* of dirs alone: half of that at most */
	/* Pages that were wanted lately and found no room, by their hash; the later one of two takes a place. */
	uint32_t *asked;
	uint32_t asked_mask;
	/* As much of a page that is not here as a reader wants who is being told just now. NULL: nobody is. */
	const struct mt_run_index *glimpse;
	struct loop_link lru;  /* whole indexes and pages, the least recently used first */
	struct loop_link dirs; /* directories, likewise */
	/* run_load.c's. */
	struct run_reader *readers;
	struct loop_link free_readers;
	struct loop_link queued, reading, waiting, gathering, ended; /* loads, by state */
	struct loop_link starved;  /* waiters for whom there was no memory */
	struct loop_task end_task; /* tells the ended and the starved */
	struct loop_timer tick_timer;
	struct mt_chooser_turn ask_turn; /* where pages of the present turn are asked for */
	uint8_t *head;                   /* BATCH_HEAD_BYTES_MAX */
};

int mt_run_loads_init(struct mt_run_cache *cache);
void mt_run_loads_fini(struct mt_run_cache *cache);
/* mt_run_load_end -- @run's loads, if there are any, end with @rc; -ESTALE: the run goes. */
void mt_run_load_end(struct mt_run *run, int rc);
/* mt_run_load_end_pages -- those of pages end with @rc; 0: whoever waits looks again. The directory may go then. */
void mt_run_load_end_pages(struct mt_run_dir *dir, int rc);
/* mt_run_is_loading_page -- is there anybody who waits for it, and was not told? */
bool mt_run_is_loading_page(const struct mt_run_dir *dir, uint32_t page);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_LOAD_H */
