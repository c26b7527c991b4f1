/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h -- cleave-load: load on a volume, and proof that it keeps what it was given
 *
 *	load.c         options, the environment of a job (loop, client, volume, signals), main
 *	load_run.c     requests by a pattern; every block read is checked
 *	load_verify.c  proves a journal against the volume
 *	load_copy.c    files onto the volume and back
 *	workload  which operation, where . source  content . stamp  a block that can be checked
 *	journal   what was issued and acknowledged . histogram, report  what it took
 */
#ifndef CLEAVE_VM_CLIENT_LOAD_H
#define CLEAVE_VM_CLIENT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/signals.h"
#include "cleave/client.h"
#include "cleave/loop.h"
#include "cleave/secure_options.h"

#define LOAD_IN_FLIGHT_MAX 4096u
#define LOAD_BLOCK_BYTES 4096u /* what is stamped and checked; --block-size is a multiple */
#define LOAD_BLOCK_BYTES_MAX (UINT64_C(1) << 20)
#define LOAD_VOLUMES_MAX 1024u

/* The options, as parsed. */
struct load_options {
	struct config_list gateways;
	struct secure_options secure;
	const char *volume;
	uint64_t volume_count; /* 0: the volume of that name; else the name and 1 to so many */
	unsigned pattern;      /* enum workload_pattern */
	uint64_t zipf_theta_percent;
	uint64_t read_percent, discard_percent, rewrite_percent;
	unsigned ycsb; /* 0: none; else which of ycsb_names, whose pattern and percents these are */
	uint64_t block_bytes;
	uint64_t in_flight_count;
	uint64_t rate_per_s;    /* 0: as fast as in_flight_count allows */
	uint64_t io_timeout_ns; /* 0: requests wait for ever */
	uint64_t seconds;       /* these three 0: no such end */
	uint64_t operation_count_max;
	uint64_t bytes_max;
	struct config_list data;
	uint64_t compressibility_percent;
	bool is_data_exact;
	bool must_take, is_writer;
	const char *journal;
	const char *verify_journal;
	uint64_t written_as; /* id of the volume that the journal is about; 0: this one */
	struct config_list file_copy, file_verify;
	const char *json;
	uint64_t seed;
	uint64_t progress_ns;
	bool is_quiet;
};

/* An open volume. */
struct load_volume {
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	struct cleave_volume *volume; /* NULL: not open */
	struct cleave_volume_info info;
};

/* The state that every job works with. */
struct load {
	const struct load_options *options;
	struct loop *loop;
	struct cleave_client *client;
	struct load_volume *volumes; /* 1 but for load_run; all of a size */
	uint32_t volume_count;
	uint64_t buffer_bytes; /* of the client's, for load_run */
	bool is_interrupted;   /* SIGINT or SIGTERM came */
	struct signals signals;
	/* Volumes are opened one by one: the one at opened_count is under way. */
	uint32_t opened_count;
	int open_rc;
	bool is_open_done;
	uint32_t closing_count;
	/* Called when the first signal comes; may be NULL. The second one ends the process. */
	void (*on_interrupt)(void *arg);
	void *on_interrupt_arg;
};

/* The jobs. Each returns the exit status: 0, or 1 after a message on standard error. */
int load_run(struct load *load);
int load_verify(struct load *load);
int load_copy(struct load *load);

/* load_complain -- "cleave-load: ..." on standard error, one line. */
void load_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* CLEAVE_VM_CLIENT_LOAD_H */
