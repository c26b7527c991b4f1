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

struct sim_cluster_options;

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
	X(severed, "a gateway reaches the store and all but the storage nodes, for long")          \
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

/* The same of an etcd: in the seeds whose metadata store is one. Behind the others, whose draws they leave alone. */
#define SIM_ETCD_FAULT_LIST(X)                                                                     \
	X(etcd_requests, "requests to an etcd are lost, late, refused, answered by errors")        \
	X(etcd_streams, "an etcd's streams of changes end, fall silent, leave changes out")        \
	X(etcd_compacted, "an etcd's history is compacted, also what streams still want")          \
	X(etcd_member, "a member of an etcd is down, answers nothing, or is behind")               \
	X(etcd_foreign, "at the address of a member is one of another etcd")                       \
	X(etcd_tokens, "an etcd takes no token any more that it has given out")                    \
	X(etcd_set_back, "an etcd is set back to a backup of a moment before")

enum sim_fault {
#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
	SIM_FAULT_LIST(SIM_FAULT_ENUM) SIM_ETCD_FAULT_LIST(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
	    SIM_FAULT_NR
};
#define SIM_FAULT_COMMON_NR SIM_FAULT_etcd_requests
#define SIM_FAULT(name) (UINT64_C(1) << SIM_FAULT_##name)
#define SIM_FAULTS_OF_ETCD ((UINT64_C(1) << SIM_FAULT_NR) - (UINT64_C(1) << SIM_FAULT_COMMON_NR))
#define SIM_FAULTS_ALL ((UINT64_C(1) << SIM_FAULT_NR) - 1)
#define SIM_FAULTS_NONE (UINT64_C(1) << 63) /* the set that is empty, as 0 means "by the seed" */

#define SIM_RUN_SNAPSHOT_SEEDS 7u

/* Whether snapshots are taken, read, cloned, rolled back and deleted: of every seventh seed. */
enum sim_run_snapshots { SIM_SNAPSHOTS_BY_SEED, SIM_SNAPSHOTS_YES, SIM_SNAPSHOTS_NO };

/* Where the metadata store is: in a quarter of the seeds an etcd. */
enum sim_run_meta { SIM_META_BY_SEED, SIM_META_MEMORY, SIM_META_ETCD };

/* Whether storage nodes come and go (members.h): in an eighth of the seeds. */
enum sim_run_members { SIM_MEMBERS_BY_SEED, SIM_MEMBERS_YES, SIM_MEMBERS_NO };

/* Whether gateways share out by load (balancer.h): in an eighth of the seeds. */
enum sim_run_balance { SIM_BALANCE_BY_SEED, SIM_BALANCE_YES, SIM_BALANCE_NO };

/* Whether processes have keys, and enemies come (keys.h, enemy.h): in one of thirty-two seeds. */
enum sim_run_keys { SIM_KEYS_BY_SEED, SIM_KEYS_YES, SIM_KEYS_NO };

/* Zero means: by the seed. */
struct sim_run_options {
	uint64_t seed;
	uint32_t gateway_count; /* 1 to 3 */
	uint32_t node_count;    /* 3 to 5 */
	uint32_t client_count;  /* 1 to 3, each with a volume of its own */
	uint32_t op_count;      /* of all clients together [SIM_RUN_OPS_DEFAULT] */
	uint32_t snapshots;     /* enum sim_run_snapshots */
	uint32_t meta;          /* enum sim_run_meta */
	uint32_t members;       /* enum sim_run_members */
	uint32_t balance;       /* enum sim_run_balance */
	uint32_t keys;          /* enum sim_run_keys */
	uint64_t faults;        /* set of SIM_FAULT(x), or SIM_FAULTS_NONE */
};

/* The outcome of a run. */
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
	uint64_t hasty_count;    /* runs with long frames, of merges that writes waited for */
	uint64_t covered_count;  /* runs that went unread, for newer ones had all of them */
	uint64_t away_count;     /* of those that another gateway made, and that were named */
	uint64_t recalled_count; /* and those that it did not end */
	uint64_t refused_count;  /* parts of merges that were made wrongly by recipes, and anew */
	uint64_t hot_count;      /* blocks that were read from tables of hot ones */
	uint64_t head_count;     /* of logs and manifests that take-overs had in memory */
	uint64_t snapshot_count; /* taken */
	uint64_t change_count;   /* of nodes: came, left, stayed, were refused */
	uint64_t relief_count;   /* shards given away by load */
	uint64_t deed_count;     /* of enemies, all of them refused */
	uint64_t theft_count;    /* requests by stolen tickets that had to be refused, and were */
	uint64_t lease_count;    /* changes done while their session had a read lease there */
	uint64_t map_read_count; /* of runs, that were read as maps said */
	uint64_t direct_read_count; /* messages that were read at nodes */
	uint64_t heated_count;      /* runs that gateways were told of such reads of */
	uint64_t peek_count;        /* ... out of gateways' memory */
	uint64_t torn_count;        /* reads there that met a change */
	bool is_on_etcd;
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

/* sim_run_is_on_etcd -- does @seed by itself choose an etcd? */
bool sim_run_is_on_etcd(uint64_t seed);
/* sim_run_has_levels -- are the processes of @seed by itself of two releases, where its nodes stay, and nobody has keys? */
bool sim_run_has_levels(uint64_t seed);
/* sim_run_has_members -- does @seed by itself change its nodes? */
bool sim_run_has_members(uint64_t seed);
/* sim_run_has_balance -- does @seed by itself share out by load? */
bool sim_run_has_balance(uint64_t seed);
/* sim_run_choose_etcd -- @options for a cluster on an etcd, by the seed alone. */
void sim_run_choose_etcd(uint64_t seed, struct sim_cluster_options *options);
/* sim_run_has_stages -- has @seed much in few chunks, on small slots, with a short log, so that merges go in stages? */
bool sim_run_has_stages(uint64_t seed);
/* sim_run_has_haste -- do clients of @seed give requests up after half a second, of several gateways? */
bool sim_run_has_haste(uint64_t seed);
/* sim_run_has_heat -- do gateways of @seed store what is read often for who reads it (index/heat.h), and read ahead? */
bool sim_run_has_heat(uint64_t seed);
/* sim_run_has_hot_blocks -- do gateways of @seed keep a few hot blocks (read/hot.h)? */
bool sim_run_has_hot_blocks(uint64_t seed);
/* sim_run_has_scarce_indexes -- have gateways of @seed room for next to no indexes of runs (index/run_index.c)? */
bool sim_run_has_scarce_indexes(uint64_t seed);
/* sim_run_has_recipes -- do gateways of @seed execute merges from their recipes (merge/RECIPE.md)? */
bool sim_run_has_recipes(uint64_t seed);
/* sim_run_has_directories -- do all runs of @seed that are named in a cluster of level 2 end with a directory, where it fits? */
bool sim_run_has_directories(uint64_t seed);
/* sim_run_has_offload -- do gateways of @seed execute each other's merges (merge/RECIPE.md)? */
bool sim_run_has_offload(uint64_t seed);

/* sim_run_has_mirrors -- do gateways of @seed tell those that their shards fall to of their batches (extent/head_push.h)? */
bool sim_run_has_mirrors(uint64_t seed);
/* sim_run_has_keys -- have the processes of @seed by itself keys? */
bool sim_run_has_keys(uint64_t seed);
/* sim_run_has_flattening -- are clones of @seed's snapshots flattened, where it takes some? */
bool sim_run_has_flattening(uint64_t seed);
/* sim_run_has_limits -- this seed has a volume with a limit (limiter.h), where its nodes and levels stay as they are. */
bool sim_run_has_limits(uint64_t seed);
/* sim_run_hash -- of @seed: no other property of it goes with this, nor with that of another @salt. */
uint64_t sim_run_hash(uint64_t seed, uint64_t salt);
/* sim_run_command -- the shell command that runs @options again. */
void sim_run_command(const struct sim_run_options *options, char *ret_text, size_t text_bytes);

const char *sim_fault_name(enum sim_fault fault);
const char *sim_fault_text(enum sim_fault fault);
/* sim_faults_parse -- "gateway_kill,cut", "none", or "all". 0 or -EINVAL. */
int sim_faults_parse(const char *text, uint64_t *ret_faults);

#endif /* CLEAVE_TESTS_SIM_RUN_H */
