/* SPDX-License-Identifier: Apache-2.0 */
/* run_index.h -- which frames a run holds; loaded from its batches' heads */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_INDEX_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/loop.h"

struct mt_location;
struct mt_port;
struct mt_run;
struct mt_run_cache;
struct mt_run_dir;
struct mt_run_place;

/* A frame: a record of 1 to 16 neighbouring blocks, or a tombstone of more. */
struct mt_frame {
	uint32_t block;        /* in the chunk */
	uint32_t block_count;  /* WRITE: up to 16 */
	uint32_t offset_bytes; /* of the stored bytes in the extent */
	uint32_t stored_bytes, stored_crc;
	uint8_t codec_id, record_kind;
	uint32_t crcs_at; /* of its block CRCs in the index's array; WRITE alone */
};

#define MT_RUN_WHOLE UINT32_MAX
#define MT_RUN_DIRECTORY (UINT32_MAX - 1) /* run_load.c: in a page's place */

/* All frames of a run, or those of one batch: a page. */
struct mt_run_index {
	struct loop_link lru_link; /* cache->lru */
	struct mt_run *run;        /* in whose cache it is */
	struct mt_frame *frames;   /* by block; disjoint */
	uint32_t frame_count;
	uint32_t *crcs;
	uint32_t crc_count;
	uint32_t page;               /* which slot of the run's directory has it; MT_RUN_WHOLE */
	uint32_t place_count;        /* whole: batches of the run; 0: nobody has said */
	struct mt_run_place *places; /* in order */
	uint64_t live_bytes;         /* of stored bytes in all frames */
};
void mt_run_hold(struct mt_run *run);
void mt_run_release(struct mt_run *run);
/* mt_run_find -- loaded whole: the block's location; false: it is not in this run. */
bool mt_run_find(struct mt_run *run, uint32_t block, struct mt_location *ret_location);

enum mt_run_has {
	MT_RUN_NOT,      /* for certain */
	MT_RUN_HERE,     /* *ret_location is it */
	MT_RUN_UNLOADED, /* perhaps: ask again after mt_run_load_block */
};
/* mt_run_look -- whatever is loaded of the run: is @block of the chunk in it? */
enum mt_run_has mt_run_look(struct mt_run *run, uint32_t block, struct mt_location *ret_location);
/*
 * mt_run_index_at -- what is loaded of @run and has the block; *@ret_at is which of its frames does
 *
 * NULL: it is not loaded, or not in the run. Borrowed until anything is loaded, released or given.
 */
const struct mt_run_index *mt_run_index_at(const struct mt_run *run, uint32_t block,
    uint32_t *ret_at);
/*
 * mt_run_index_give -- the merge that wrote the run knows its index: no need to load it. Takes @index over.
 */
void mt_run_index_give(struct mt_run *run, struct mt_run_index *index);
void mt_run_index_free(struct mt_run_index *index);
/* mt_run_forget -- the run goes: index, load and waiters (rc -ESTALE: look the block up again). */
void mt_run_forget(struct mt_run *run);
/* mt_run_cache_* -- the port's: bounded by gateway option --index-cache; least recently used go first. */
int mt_run_cache_init(struct mt_port *port);
void mt_run_cache_fini(struct mt_port *port);
uint64_t mt_run_cache_bytes(const struct mt_port *port);

uint64_t mt_run_index_bytes(const struct mt_run_index *index);

/* mt_run_cache_put -- @run has got its whole @index: directory and pages go. */
void mt_run_cache_put(struct mt_run *run, struct mt_run_index *index);
/* mt_run_cache_put_page -- of @run's directory; the slot has none. */
void mt_run_cache_put_page(struct mt_run *run, uint32_t page, struct mt_run_index *index);
/*
 * mt_run_cache_admits -- is @run's @page, which is not here, worth its room? It is asked once a read of the page's head
 *
 * Where there is room without, or it was asked about not long ago: a page that is wanted once pushes out no others.
 */
bool mt_run_cache_admits(struct mt_run_cache *cache, const struct mt_run *run, uint32_t page);
/* mt_run_cache_put_dir -- nothing was known of @run, and now its directory is. */
void mt_run_cache_put_dir(struct mt_run *run, struct mt_run_dir *dir);
/* mt_run_cache_evict -- the whole index gives way to a directory, if there is memory for that. Nobody holds it. */
void mt_run_cache_evict(struct mt_run *run);
/* mt_run_cache_drop -- nothing of @run is known any more. Nothing of it is held or being loaded. */
void mt_run_cache_drop(struct mt_run *run);
/*
 * mt_run_cache_distrust -- the index of @run may be wrong: neither it nor a directory that was made of it stays
 *
 * False: nothing has changed, for @run is held, or its chunk is loading.
 */
bool mt_run_cache_distrust(struct mt_run *run);
/* mt_run_cache_trim -- the least recently used go until the rest fit; so do directories, of half the cache. */
void mt_run_cache_trim(struct mt_run_cache *cache);
struct mt_run_cache *mt_run_cache_of(const struct mt_run *run);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_INDEX_H */
