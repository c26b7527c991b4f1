/* SPDX-License-Identifier: Apache-2.0 */
/* report.h -- what was done, how fast, at what cost: for people and as JSON */
#ifndef CLEAVE_VM_CLIENT_REPORT_H
#define CLEAVE_VM_CLIENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "histogram.h"

struct cleave_stats;

enum report_op { REPORT_READ, REPORT_WRITE, REPORT_DISCARD, REPORT_REWRITE, REPORT_NR };

struct report_count {
	uint64_t op_count;
	uint64_t bytes;
};

struct report {
	uint64_t started_ns; /* CLOCK_MONOTONIC */
	uint64_t ended_ns;   /* 0: runs on */
	double cpu_started_s;
	struct histogram latency_ns[REPORT_NR];
	struct report_count counts[REPORT_NR];
	uint64_t mismatch_count;
	uint64_t error_count;
	/* Since the last progress line. */
	uint64_t second_started_ns;
	struct histogram second_latency_ns;
	struct report_count second[REPORT_NR];
};

/* report_start -- from now on. A struct report is large: keep it on the heap. */
void report_start(struct report *report, uint64_t now_ns);
/* report_add -- an operation completed. */
void report_add(struct report *report, enum report_op op, uint64_t bytes, uint64_t latency_ns);
/*
 * report_progress -- one line on @out about what came since the last one
 *
 * Of reads past gateways, as @stats has them, how many there were until now: "hot 17" out of their memory, "direct 4" at
 * nodes; nothing, where there were none.
 */
void report_progress(struct report *report, const struct cleave_stats *stats, uint64_t now_ns,
    FILE *out);
/* report_print -- the whole run on @out; operations that never happened are left out. */
void report_print(const struct report *report, FILE *out);
/*
 * report_write_json -- one object with a member for each number, all operations; times of CLOCK_MONOTONIC
 *
 * What the library has counted, @stats, is the member "client". Returns 0; a negative errno.
 */
int report_write_json(const struct report *report, const struct cleave_stats *stats,
    const char *path);
/* report_cpu_s -- user and system time of this process. */
double report_cpu_s(void);

#endif /* CLEAVE_VM_CLIENT_REPORT_H */
