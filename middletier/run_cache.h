/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_cache.h -- what run_index.c, which keeps the indexes of a port's runs, and run_load.c, which reads
 * them, share; and how one is built, which a merge does too
 */
#ifndef CLEAVE_MIDDLETIER_RUN_CACHE_H
#define CLEAVE_MIDDLETIER_RUN_CACHE_H

#include "index.h"

#define RUN_READERS_MAX 16u /* of a port: heads that are being read at a time */
#define RUN_CACHE_BYTES_MIN NUM_MIB(1)

/* ---- run_index.c ---- */

/* An index in the making. Zero-initialise. */
struct mt_run_builder {
	struct mt_run_index *index;
	uint32_t frame_max, crc_max;
	uint32_t next_block; /* in the chunk: no frame may begin before */
};
/*
 * mt_run_builder_add -- the next frame, of a batch that begins at @batch_offset_bytes of the extent
 *
 * -EBADMSG: not behind those before it; -ENOMEM: nothing has changed.
 */
int mt_run_builder_add(struct mt_run_builder *builder, const struct record_desc *frame,
    uint64_t batch_offset_bytes);
/* mt_run_builder_take -- the index, no larger than it need be; NULL: no memory. The builder is empty then. */
struct mt_run_index *mt_run_builder_take(struct mt_run_builder *builder);
void mt_run_builder_fini(struct mt_run_builder *builder);

uint64_t mt_run_index_bytes(const struct mt_run_index *index);

/* Of a port. */
struct mt_run_cache {
	uint32_t magic;
	struct mt_port *port;
	uint64_t bytes, bytes_max; /* of all indexes in lru; it is exceeded by what may not go */
	struct loop_link lru;      /* runs whose index is loaded, the least recently used first */
	/* run_load.c's. */
	struct run_reader *readers;
	struct loop_link free_readers;
	struct loop_link queued, reading, waiting, ended; /* loads, by state */
	struct loop_link starved;                         /* waiters for whom there was no memory */
	struct loop_task end_task;                        /* tells the ended and the starved */
	struct loop_timer tick_timer;
	uint8_t *head; /* BATCH_HEAD_BYTES_MAX */
};

/* mt_run_cache_put -- @run has got @index. mt_run_cache_drop: it has none any more. */
void mt_run_cache_put(struct mt_run *run, struct mt_run_index *index);
void mt_run_cache_drop(struct mt_run *run);
/* mt_run_cache_trim -- the least recently used go until the rest fit. */
void mt_run_cache_trim(struct mt_run_cache *cache);
struct mt_run_cache *mt_run_cache_of(const struct mt_run *run);

/* ---- run_load.c ---- */

int mt_run_loads_init(struct mt_run_cache *cache);
void mt_run_loads_fini(struct mt_run_cache *cache);
/* mt_run_load_end -- @run's load, if there is one, ends with @rc; -ESTALE: the run goes. */
void mt_run_load_end(struct mt_run *run, int rc);

#endif /* CLEAVE_MIDDLETIER_RUN_CACHE_H */
