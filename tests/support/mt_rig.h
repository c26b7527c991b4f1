/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mt_rig.h -- a real gateway, real storage nodes and a metadata store in virtual time, wide open
 *
 * For tests of what goes on between a gateway and its nodes: links, manifests, take-overs. There are no
 * clients; the test itself writes batches and edits, through the gateway's own calls, and looks at
 * what the shards hold. Between two runs of the world nothing moves.
 */
#ifndef CLEAVE_TESTS_MT_RIG_H
#define CLEAVE_TESTS_MT_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/manifest/edit.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "storage-node/node.h"
#include "storage-node/sim/disk_sim.h"

#define MT_RIG_CLUSTER_ID 0xc1ea7e51u
#define MT_RIG_NODES_MAX 5u
#define MT_RIG_LIMIT_NS NUM_S(120)

/* Zero means the default in brackets. */
struct mt_rig_options {
	uint64_t seed;                              /* [1] */
	uint32_t node_count;                        /* [3] */
	uint32_t shard_count;                       /* [1] */
	uint32_t min_replicas;                      /* [3] */
	uint64_t slot_bytes;                        /* [256 KiB] */
	uint64_t node_slot_bytes[MT_RIG_NODES_MAX]; /* of a node [slot_bytes] */
	uint32_t slot_count;                        /* [32] */
	uint64_t lease_ns;                          /* [3 s] */
	uint64_t device_bytes;                      /* of the gateway's port [16 MiB] */
	uint64_t hot_bytes;                         /* [0] */
	uint64_t mirror_bytes;                      /* of heads of others' batches [0] */
	uint32_t level;                             /* of the cluster [the first] */
	enum node_direct direct;                    /* of the nodes */
};

struct mt_rig_node {
	struct mt_rig *rig;
	struct sim_host *host;
	struct disk_sim *disk;
	struct loop *loop;
	struct node *node; /* NULL: not running */
	uint32_t id;       /* on its disk [index + 1] */
	char address[SPLIT_ADDRESS_BYTES_MAX];
};

struct mt_rig {
	struct mt_rig_options options;
	struct sim_world *world;
	struct sim_net *net;
	struct meta_store *store;
	struct mt_rig_node nodes[MT_RIG_NODES_MAX];
	struct mt_gateway_options gateway_options;
	struct sim_host *gateway_host;
	struct loop *gateway_loop;
	struct meta *meta;
	struct mt_gateway *gateway; /* NULL: not running */
	bool is_ready, has_failed, has_stopped;
	bool is_unmade;         /* a start does not make the cluster where there is none */
	uint8_t node_level_max; /* nodes that start speak no more; 0: as this release does */
	/* The log, kept by mt_rig_log_start. */
	char *log;
	bool
	    appends_discards; /* mt_rig_append: after a batch's first write, so that its head is long */
	bool appends_no_write; /* mt_rig_append: discards alone */
	size_t log_bytes;
};

/* mt_rig_create -- disks formatted, nothing runs. Aborts when anything here fails. */
struct mt_rig *mt_rig_create(const struct mt_rig_options *options);
/* mt_rig_destroy -- kills what runs. */
void mt_rig_destroy(struct mt_rig *rig);
/* mt_rig_up -- every node and the gateway, until it serves. */
void mt_rig_up(struct mt_rig *rig);

void mt_rig_node_start(struct mt_rig *rig, uint32_t index);
void mt_rig_node_kill(struct mt_rig *rig, uint32_t index, bool is_power_loss);
/* mt_rig_node_blank -- its disk is replaced by an empty one of id nodes[].id. It must be down. */
void mt_rig_node_blank(struct mt_rig *rig, uint32_t index);

void mt_rig_gateway_start(struct mt_rig *rig);
void mt_rig_gateway_kill(struct mt_rig *rig);
/* mt_rig_gateway_stop -- orderly. */
void mt_rig_gateway_stop(struct mt_rig *rig);
/* mt_rig_gateway_restart -- kill, start, and wait until it serves. */
void mt_rig_gateway_restart(struct mt_rig *rig);

struct mt_port *mt_rig_port(struct mt_rig *rig);
struct mt_shard *mt_rig_shard(struct mt_rig *rig, uint32_t index);
/* mt_rig_link -- the port's link to node @index of the rig. */
struct mt_link *mt_rig_link(struct mt_rig *rig, uint32_t index);

void mt_rig_run(struct mt_rig *rig, uint64_t ns);
/* mt_rig_run_until -- false when @until is not true within MT_RIG_LIMIT_NS. */
bool mt_rig_run_until(struct mt_rig *rig, bool (*until)(void *arg), void *arg);
bool mt_rig_wait_ready(struct mt_rig *rig);
/* mt_rig_wait_state -- until shard 0 is in @state. */
bool mt_rig_wait_state(struct mt_rig *rig, enum mt_shard_state state);

/* mt_rig_call -- one call to node @index, waited for. @ret_reply and @ret_bytes may be NULL. */
int mt_rig_call(struct mt_rig *rig, uint32_t index, const struct wire_node *request,
    struct wire_node_reply *ret_reply);
/* mt_rig_read -- at most MT_RECEIVE_BYTES of node @index's copy of an extent. */
int mt_rig_read(struct mt_rig *rig, uint32_t index, const struct extent_id *id,
    uint64_t offset_bytes, uint8_t *out, uint32_t bytes);
/* mt_rig_commit -- edits through the manifest of shard 0, waited for. */
int mt_rig_commit(struct mt_rig *rig, const struct mt_edit *edits, uint32_t count);
/* mt_rig_commit_newer -- likewise an edit of a level that no release up to this one writes. */
int mt_rig_commit_newer(struct mt_rig *rig);

/*
 * mt_rig_log_open -- a log extent of shard 0, created and in the manifest
 *
 * NULL where it cannot be.
 */
struct mt_extent *mt_rig_log_open(struct mt_rig *rig);
/* mt_rig_extent -- the extent of shard 0, as the shard knows it now; aborts where there is none. */
struct mt_extent *mt_rig_extent(struct mt_rig *rig, const struct extent_id *id);
/* mt_rig_log_seal -- at what is acknowledged: in the manifest, and at its nodes. */
void mt_rig_log_seal(struct mt_rig *rig, struct mt_extent *extent);
/*
 * mt_rig_append -- one batch of @record_count raw one-block writes to @extent, waited for
 *
 * Record i writes block @block + i of segment 1 with bytes made from its sequence (shard's
 * next_sequence on). @replica_mask: the replicas to send it to; all of them: through mt_extent_append
 * (0: acknowledged), else behind the extent's back, as a gateway that dies in the middle would leave
 * it. @mark_bytes: UINT64_MAX for what is right.
 */
int mt_rig_append(struct mt_rig *rig, struct mt_extent *extent, uint32_t block,
    uint32_t record_count, uint32_t replica_mask, uint64_t mark_bytes);
/*
 * mt_rig_log_filled -- a log extent with four batches of thirty blocks each, from block 200 * @number on, sealed
 *
 * Of all its replicas' nodes. Aborts where it cannot be.
 */
struct mt_extent *mt_rig_log_filled(struct mt_rig *rig, uint32_t number);
/* mt_rig_index -- of the node that holds @replica. */
uint32_t mt_rig_index(const struct mt_replica *replica);
/* mt_rig_data_offset -- where on a node's disk a byte of the extent lies; -1: nowhere. */
int64_t mt_rig_data_offset(struct mt_rig *rig, uint32_t index, const struct extent_id *id,
    uint64_t offset_bytes);

/* mt_rig_log_start -- keep the log's lines; mt_rig_logged: does one contain @text? */
void mt_rig_log_start(struct mt_rig *rig);
bool mt_rig_logged(const struct mt_rig *rig, const char *text);
void mt_rig_log_clear(struct mt_rig *rig);

#endif /* CLEAVE_TESTS_MT_RIG_H */
