/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- one seed: a cluster, a workload, faults, and all that must hold afterwards
 *
 * A seed decides everything that the options leave open: how many gateways, nodes and clients, how
 * fast the network is, which faults come and when. The same options give the same history, down to
 * its trace hash, in every build.
 *
 * sim_run_seed runs it in a process of its own, so that an assertion of the daemons, a crash and a
 * loop without end are violations like any other, and whoever asked goes on.
 */
#ifndef CLEAVE_TESTS_SIM_RUN_H
#define CLEAVE_TESTS_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_RUN_TEXT_BYTES 1024u
#define SIM_RUN_OPS_DEFAULT 2000u

/* X(name, what it does) -- the classes of faults; bit n of a set is the n-th. */
#define SIM_FAULT_LIST(X)                                                                          \
	X(node_kill, "kill -9 of a storage node")                                                  \
	X(node_power, "power loss of a storage node")                                              \
	X(all_power, "power loss of everything")                                                   \
	X(few_return, "power loss of everything, and two nodes come back long before the others")  \
	X(node_pause, "a storage node stands still")                                               \
	X(gateway_kill, "kill -9 of a gateway")                                                    \
	X(gateway_stop, "a gateway is stopped in an orderly way")                                  \
	X(gateway_pause, "a gateway stands still")                                                 \
	X(client_kill, "kill -9 of a client")                                                      \
	X(client_pause, "a client stands still")                                                   \
	X(client_takeover, "another client attaches the volume")                                   \
	X(partition, "two hosts do not hear each other")                                           \
	X(cut, "one host does not hear another")                                                   \
	X(reset, "connections between two hosts break")                                            \
	X(isolate, "a host hears nobody and nobody hears it")                                      \
	X(slow_link, "a link becomes slow and long")                                               \
	X(meta_timeout, "the metadata store times out")                                            \
	X(meta_cut, "a gateway and the metadata store do not hear each other")                     \
	X(deposed, "a gateway is cut off from the store, and a client from its volume meanwhile")  \
	X(meta_slow, "the metadata store is slow")                                                 \
	X(meta_down, "the metadata store is down")                                                 \
	X(meta_stall, "the disk of the metadata store stalls, for tens of seconds")                \
	X(drift, "a clock runs at another rate")                                                   \
	X(disk_stall, "a disk completes nothing for a while")                                      \
	X(disk_slow, "a disk is 10 to 1,000 times slower")                                         \
	X(disk_read_error, "reads of a disk fail for a while")                                     \
	X(disk_write_error, "writes to a disk fail for a while, all or some")                      \
	X(disk_flush_error, "a flush fails once, and its node may lose power")                     \
	X(disk_full, "a disk is full for a while")                                                 \
	X(all_full, "every disk is full for a while: no room for new extents of a log")            \
	X(disk_rot, "bits flip on a disk")                                                         \
	X(disk_bad_sector, "part of a disk cannot be read any more")                               \
	X(disk_lost_write, "a write succeeds and changes nothing")                                 \
	X(disk_misdirect, "a write lands elsewhere")                                               \
	X(disk_lie, "flushes of a disk make nothing durable")                                      \
	X(disk_blank, "a node comes back with an empty disk")                                      \
	X(late, "a gateway is sent by a client what that has given up meanwhile")                  \
	X(intruder_empty, "another gateway starts with an empty metadata store")                   \
	X(intruder, "another gateway starts with the metadata store of another cluster")           \
	X(intruder_older, "another gateway starts with an older copy of the metadata store")       \
	X(zombie, "a gateway stands still in the middle of a repair until others own its shards")  \
	X(stranded, "a request to delete or create is heard long after its connection broke")

enum sim_fault {
#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
	SIM_FAULT_LIST(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
	    SIM_FAULT_NR
};
#define SIM_FAULT(name) (UINT64_C(1) << SIM_FAULT_##name)
#define SIM_FAULTS_NONE (UINT64_C(1) << 63) /* the set that is empty, as 0 means "by the seed" */

/* Whether snapshots are taken, read, cloned, rolled back and deleted: of every seventh seed. */
enum sim_run_snapshots { SIM_SNAPSHOTS_BY_SEED, SIM_SNAPSHOTS_YES, SIM_SNAPSHOTS_NO };

/* Zero means: by the seed. */
struct sim_run_options {
	uint64_t seed;
	uint32_t gateway_count; /* 1 to 3 */
	uint32_t node_count;    /* 3 to 5 */
	uint32_t client_count;  /* 1 to 3, each with a volume of its own */
	uint32_t op_count;      /* of all clients together [SIM_RUN_OPS_DEFAULT] */
	uint32_t snapshots;     /* enum sim_run_snapshots */
	uint64_t faults;        /* set of SIM_FAULT(x), or SIM_FAULTS_NONE */
};

/* What a run was. */
struct sim_run_result {
	uint64_t trace_hash;
	uint64_t virtual_ns;
	uint64_t op_count;
	uint64_t fault_counts[SIM_FAULT_NR];
	uint64_t takeover_count; /* shards that began to serve, beyond the first time */
	uint64_t repair_count;   /* copies made anew */
	uint64_t sweep_count;    /* orphans deleted */
	uint64_t delete_count;   /* at nodes, judged */
	uint64_t blind_count;    /* of these those without a manifest */
	uint64_t merge_count;    /* flushes and compactions */
	uint64_t stage_count;    /* parts of large ones that took effect before the rest */
	uint64_t snapshot_count; /* taken */
};

/*
 * sim_run_seed -- run @options in a process of its own
 *
 * Returns: 0 and *@ret_result (may be NULL); else a violation: @ret_text says what was wrong, when
 * in virtual time, and how to run it again. The text of a crash is its signal's name.
 */
int sim_run_seed(const struct sim_run_options *options, struct sim_run_result *ret_result,
    char *ret_text, size_t text_bytes);

/* sim_run_here -- the same in this process, for debuggers: a violation ends it with exit(1). */
void sim_run_here(const struct sim_run_options *options, struct sim_run_result *ret_result);

/* sim_run_command -- the shell command that runs @options again. */
void sim_run_command(const struct sim_run_options *options, char *ret_text, size_t text_bytes);

const char *sim_fault_name(enum sim_fault fault);
const char *sim_fault_text(enum sim_fault fault);
/* sim_faults_parse -- "gateway_kill,cut", "none", or "all". 0 or -EINVAL. */
int sim_faults_parse(const char *text, uint64_t *ret_faults);

#endif /* CLEAVE_TESTS_SIM_RUN_H */
