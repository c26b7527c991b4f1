/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim_state.h -- struct disk_sim: what the files of the simulated disk share */
#ifndef CLEAVE_STORAGE_DISK_SIM_STATE_H
#define CLEAVE_STORAGE_DISK_SIM_STATE_H

#include "cleave/loop.h"
#include "disk_sim.h"

#define DISK_SIM_MAGIC 0x4d495344u /* "DSIM" */

struct sim_handle;
struct sim_page;

/* A range that cannot be read. */
struct sim_range {
	uint64_t offset_bytes, bytes;
};

struct disk_sim {
	uint32_t magic;
	struct disk_sim_options options;
	uint64_t random_state[4];
	struct sim_page **pages; /* NULL: zeros */
	uint64_t page_count;
	struct loop_link unflushed;
	uint32_t unflushed_count;
	uint64_t write_sequence;   /* of the last write that completed */
	struct sim_handle *handle; /* NULL: no process has it open */
	struct disk_fault fault;
	uint32_t slowness;
	uint64_t stalled_until_ns;
	bool is_full, is_lying, is_written_ahead, is_shared;
	bool is_next_write_lost, is_next_write_misdirected, is_next_read_misdirected;
	uint64_t misdirect_write_to_bytes, misdirect_read_from_bytes;
	struct sim_range bad[DISK_SIM_BAD_RANGES_MAX];
	uint32_t bad_count;
	struct disk_sim_rule rules[DISK_SIM_RULES_MAX];
	uint32_t rule_count;
	struct disk_sim_faults faults;
	uint64_t fault_random[4]; /* faults draw from their own: they change nothing else */
	struct disk_sim_counters counters;
	void (*trace_fn)(const struct disk_sim_event *event, void *arg);
	void *trace_arg;
	struct disk_sim_counts counts;
};

#endif /* CLEAVE_STORAGE_DISK_SIM_STATE_H */
