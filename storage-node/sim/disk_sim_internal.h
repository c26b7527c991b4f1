/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sim_internal.h -- what the files of the simulated disk share
 *
 *	disk_sim.c         bytes, unflushed writes, requests, power loss
 *	disk_sim_faults.c  what goes wrong, by rule, by the dice, or the next time
 */
#ifndef CLEAVE_STORAGE_DISK_SIM_INTERNAL_H
#define CLEAVE_STORAGE_DISK_SIM_INTERNAL_H

#include "base/list.h"
#include "disk_sim.h"

#define DISK_SIM_MAGIC 0x4d495344u /* "DSIM" */

struct sim_handle;

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

/* sim_page_get -- made when it is not there. */
struct sim_page *sim_page_get(struct disk_sim *sim, uint64_t index);

/* ---- disk_sim_faults.c ---- */

void sim_faults_init(struct disk_sim *sim);
/* sim_faults_judge -- what @io, or the flush behind it, begun now will fail with; 0: nothing. */
int sim_faults_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op);
/* sim_faults_delay -- a request's latency, and perhaps everybody's from @now_ns on. */
uint64_t sim_faults_delay(struct disk_sim *sim, uint64_t now_ns, uint64_t latency_ns);
bool sim_faults_lose_write(struct disk_sim *sim, uint64_t offset);
/* sim_faults_write_to, sim_faults_read_from -- where it really goes. */
uint64_t sim_faults_write_to(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
uint64_t sim_faults_read_from(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
bool sim_faults_flush_lies(struct disk_sim *sim);
/* sim_faults_rot -- time goes by: something may rot. */
void sim_faults_rot(struct disk_sim *sim);
bool sim_is_bad(const struct disk_sim *sim, uint64_t offset, uint64_t bytes);
/* sim_heal -- a write heals a bad range that it covers. */
void sim_heal(struct disk_sim *sim, uint64_t offset, uint64_t bytes);

#endif /* CLEAVE_STORAGE_DISK_SIM_INTERNAL_H */
