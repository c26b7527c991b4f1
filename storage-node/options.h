/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of cleave-storage, the daemon, as they are typed */
#ifndef CLEAVE_STORAGE_NODE_OPTIONS_H
#define CLEAVE_STORAGE_NODE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/daemon.h"
#include "cleave/secure_metrics.h"
#include "cleave/secure_options.h"

/* As enum node_direct. */
enum direct_choice { DIRECT_OFF, DIRECT_ON, DIRECT_TRUSTED };
enum write_cache_choice { WRITE_CACHE_AUTO, WRITE_CACHE_VOLATILE, WRITE_CACHE_PROTECTED };

/* As config_parse fills it: each value is in the range that the table gives. */
struct storage_options {
	const char *disk, *listen, *advertise, *cluster_id, *metrics;
	struct secure_metrics_words metrics_words;
	uint64_t node_id;
	unsigned write_cache;
	unsigned direct;
	uint64_t device_memory;
	uint64_t head_cache;
	bool wants_huge_pages;
	uint64_t engine_threads;
	uint64_t verify_rate;
	struct secure_options secure;
	const char *revoked; /* NULL: revoked_file_path has another */
	struct daemon_options log;
#ifdef CLEAVE_TEST_BUILD
	const char *fail_point;
#endif
};

extern const struct config_program storage_program;

/* options_wanted -- whose key this node takes. */
struct split_wanted options_wanted(const struct storage_options *options, uint64_t cluster_id);

/*
 * options_check -- are the options right, as far as their texts show? With --check-config also the files they name
 *
 * Each problem goes to config_problem. Opens the key alone, *@ret_secure, which the caller closes. Returns how many there
 * are; *@ret_cluster_id: 0 where none was given.
 */
uint32_t options_check(const struct storage_options *options, struct config_result *result,
    uint64_t *ret_cluster_id, struct secure *ret_secure);

#endif /* CLEAVE_STORAGE_NODE_OPTIONS_H */
