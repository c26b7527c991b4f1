/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim_pages.h -- a simulated disk's bytes, present and durable */
#ifndef CLEAVE_STORAGE_DISK_SIM_PAGES_H
#define CLEAVE_STORAGE_DISK_SIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"
#include "cleave/loop.h"

struct disk_sim;

struct sim_page {
	uint8_t present[DISK_ALIGN];
	uint8_t *durable;       /* NULL: the same as present */
	uint32_t pending_count; /* unflushed writes that touch it */
	bool is_lost;           /* a failed flush gave its present bytes up */
};

/* An unflushed write, oldest first in disk_sim.unflushed. */
struct sim_write {
	struct loop_link link;
	uint64_t sequence;
	uint64_t offset_bytes;
	uint64_t bytes;
	uint8_t data[];
};

/* sim_pages_init -- options.capacity_bytes of zeros. Returns 0 or -ENOMEM. */
int sim_pages_init(struct disk_sim *sim);
/* sim_pages_fini -- free all bytes and unflushed writes. */
void sim_pages_fini(struct disk_sim *sim);
/* sim_page_get -- page @index, below page_count; made, of zeros, when it is not there. */
struct sim_page *sim_page_get(struct disk_sim *sim, uint64_t index);
/* sim_write_apply -- @write's bytes are present from now on, durable after a flush; @write is the disk's. */
void sim_write_apply(struct disk_sim *sim, struct sim_write *write);
/* sim_flush -- make the writes up to @covers_sequence durable; @is_failed: give up about half of them instead. */
void sim_flush(struct disk_sim *sim, uint64_t covers_sequence, bool is_failed);

#endif /* CLEAVE_STORAGE_DISK_SIM_PAGES_H */
