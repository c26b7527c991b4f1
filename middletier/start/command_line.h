/* SPDX-License-Identifier: Apache-2.0 */
/* command_line.h -- the options of cleave-gateway as they are typed: their table, and what they mean to a gateway */
#ifndef CLEAVE_MIDDLETIER_START_COMMAND_LINE_H
#define CLEAVE_MIDDLETIER_START_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/daemon.h"
#include "cleave/secure_metrics.h"
#include "cleave/secure_options.h"

struct meta_where;
struct mt_gateway_options;

#define MT_COMMAND_LINE_ERROR_BYTES 4096u

/* As config_parse fills it: each value is in the range that the table gives. Times are in ns, but lease_ms. */
struct mt_command_line {
	const char *meta;
	const char *meta_ca, *meta_cert, *meta_key, *meta_user, *meta_password_file;
	unsigned meta_compact; /* 0: no */
	struct config_list ports, nodes;
	bool is_outside; /* --advertise-outside */
	const char *local;
	const char *cluster_id;
	const char *metrics;
	struct secure_metrics_words metrics_words;
	uint64_t shards;
	uint64_t device_memory;
	bool wants_huge_pages;
	uint64_t engine_threads, merge_threads;
	uint64_t min_replicas;
	uint64_t node_timeout;
	uint64_t slow_op;
	uint64_t gateway_id;
	uint64_t lease_ms; /* 0: the default, which depends on the store */
	uint64_t session_timeout;
	uint64_t repair_after, repair_rate;
	uint64_t scrub_interval, sweep_interval, orphan_grace, log_bytes, flush_age;
	uint64_t index_cache, hot_bytes, mirror_heads;
	unsigned offload; /* 0: off */
	uint64_t worker_jobs;
	uint64_t frame_bytes, read_frame_bytes;
	unsigned run_codec; /* enum mt_run_codec */
	unsigned balance;   /* from MT_BALANCE_COUNT on */
	uint64_t balance_interval;
	struct config_list keks;
	struct secure_options secure;
	struct daemon_options log;
	/* At most one of them: not a gateway that serves. */
	bool is_creation, is_recovery, is_accepting, is_release, is_dump, is_load;
	const char *move_to; /* NULL: no move */
	bool is_forced, must_take;
};

extern const struct config_program mt_command_line_program;

extern const char
    *const mt_command_line_reload[]; /* options that change at SIGHUP, but the log's; then NULL */

/*
 * mt_command_line_take -- the options that a gateway gets, where its store is, and how they fit together
 *
 * @ret_to: where a move goes; untouched without one.
 * Ownership: @ret_options, @ret_where and @ret_to borrow the texts of @values. What the command line does not tell (loop,
 *            meta, ids) is the caller's to set.
 * Returns:   0; -EINVAL, and @ret_error has a line for each thing that is wrong: the option, and what would be right.
 * Threads:   any; may log a warning.
 */
int mt_command_line_take(const struct mt_command_line *values,
    struct mt_gateway_options *ret_options, struct meta_where *ret_where, struct meta_where *ret_to,
    char *ret_error, size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_START_COMMAND_LINE_H */
