/* SPDX-License-Identifier: Apache-2.0 */
/* workload_inside.h -- what the files of a workload share, and nobody else needs */
#ifndef CLEAVE_TESTS_SIM_WORKLOAD_INSIDE_H
#define CLEAVE_TESTS_SIM_WORKLOAD_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/client.h"
#include "cleave/loop.h"
#include "leases.h"
#include "observer.h"
#include "workload.h"

#define WORKLOAD_PROBES 16u     /* slots that a session has for them, where sessions peek */
#define WORKLOAD_PEEKED_MAX 16u /* blocks that are remembered */
#define WORKLOAD_RIVALS_MAX 32u /* blocks of one set of a page of hot blocks */

/* A request that is chosen. */
struct workload_choice {
	enum cleave_op op;
	uint32_t first, count;
};

struct slot {
	struct session *session;
	struct cleave_io io;
	uint8_t *data; /* WORKLOAD_BLOCKS_MAX blocks */
	uint32_t first, count;
	uint32_t number;
	uint32_t floors[WORKLOAD_BLOCKS_MAX];
	struct cleave_volume *volume; /* it was submitted to */
	struct sim_map_read maps;     /* a read's, where sessions have leases */
	bool is_busy, is_probe;
	bool must_repeat; /* a read of verification has not been answered */
};

/* A block as verification has seen it. */
enum look { LOOK_NONE, LOOK_ZEROS, LOOK_DATA };

/* A client process with the volume attached, or trying. */
struct session {
	struct workload *workload;
	uint32_t number; /* in the history */
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *volume; /* NULL: not open yet */
	struct loop_task next_task, probe_task, ask_task;
	struct loop_timer open_timer;
	bool is_old;                      /* superseded: submits nothing but probes */
	bool is_lost;                     /* was told that another session has the volume */
	bool must_take;                   /* it opens the volume although another one has it */
	uint64_t answered_ns, silence_ns; /* see companion_writer */
	bool has_still_clock;             /* workload_stop_clock */
	uint64_t still_since_ns;          /* ... of the world's clock */
	uint32_t probe_count, probe_block;
	uint32_t asked[WORKLOAD_PROBES], asked_count; /* workload_ask */
	bool must_write;
	uint32_t peeked[WORKLOAD_PEEKED_MAX]; /* blocks that were read out of a gateway's memory */
	uint32_t peeked_count;                /* ever: the newest is in front of this one */
	/* By its client's counters: the cluster has them already. */
	uint64_t direct_read_count, peek_count, torn_count;
	struct observer observer;
	struct slot slots[WORKLOAD_IN_FLIGHT + WORKLOAD_PROBES];
};

struct workload {
	struct workload_options options;
	struct sim_cluster *cluster;
	struct history *history;
	char name[24];
	uint32_t block_count;
	uint32_t issued_count;
	uint32_t host_index;                               /* of the present session */
	uint64_t volume_id;                                /* 0: no session has opened it yet */
	uint32_t rivals[WORKLOAD_RIVALS_MAX], rival_count; /* workload_peek.c's */
	struct session *present, *old;
	struct companion *companion; /* NULL: none */
	struct sim_leases *leases;   /* NULL: sessions have none */
	struct cleave_call call;
	bool is_created, is_started, is_verifying;
	bool is_taking;  /* the old session holds the volume until the present one does */
	bool is_resting; /* workload_rest */
	uint32_t verify_next_block;
	enum look *looks; /* by block: the last verification's */
	struct cleave_io status_io;
	bool is_status_done;
	struct workload_counters counters;
};

/* workload_bytes -- how large its volume is. */
uint64_t workload_bytes(const struct workload *workload);
/*
 * workload_peek_opened -- @volume was opened: blocks are chosen that want one place
 *
 * workload_peek_choose -- perhaps another request than @choice, for @slot. workload_peek_note -- @block was read out of a
 * gateway's memory. workload_peek_probe -- which block an older session looks at, instead of probe_block.
 */
void workload_peek_opened(struct workload *workload, const struct cleave_volume *volume);
void workload_peek_choose(struct slot *slot, struct workload_choice *choice);
void workload_peek_note(struct session *session, uint32_t block);
void workload_peek_probe(struct session *session);
/* workload_check_status -- blocks that are said to read as zeros were read so, and all of the volume is told of. */
void workload_check_status(struct workload *workload, uint64_t limit_ns, const char *what);

#endif /* CLEAVE_TESTS_SIM_WORKLOAD_INSIDE_H */
