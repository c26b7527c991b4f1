/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intruder.h -- somebody starts a gateway on another machine, with a metadata store of its own
 *
 * The store is empty, or that of another cluster with the same number. No node may let it in, whatever goes
 * on, and what it does is none of the cluster's gateways' business.
 *
 * Or it is an older copy of the cluster's own store, of before each shard had the owner that it has. Nodes let
 * it in, for it is the store that they know; but it may serve no shard, since they know of later epochs.
 */
#ifndef CLEAVE_TESTS_SIM_INTRUDER_H
#define CLEAVE_TESTS_SIM_INTRUDER_H

#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "invariant.h"
#include "middletier/cluster/gateway_state.h"

struct sim_intruder {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct loop *loop;
	struct sim_store *store;
	struct store_id store_id;
	struct meta *meta;
	struct mt_gateway *gateway; /* NULL: not running */
	bool is_made;               /* its store has a cluster */
	bool is_older;              /* its store is a copy of the cluster's */
	bool has_failed;
	struct sim_store_copy *older; /* NULL: none was taken yet */
	uint32_t older_epochs[SIM_INVARIANT_SHARDS_MAX];
};

/* sim_intruder_start -- nothing, while it runs. All zeros before the first start. */
void sim_intruder_start(struct sim_cluster *cluster, struct sim_intruder *intruder, bool is_made);
/*
 * sim_intruder_start_older -- with the copy of the store, if each shard has had another owner since
 *
 * The first time the copy is taken. Of those that are too young half are aged: all gateways are killed and
 * begin anew. *@ret_until_ns: where it was started, when it has met the nodes.
 */
void sim_intruder_start_older(struct sim_cluster *cluster, struct sim_intruder *intruder,
    uint64_t *ret_until_ns);
/* sim_intruder_kill -- a violation where it got further than it may. Nothing, while it does not run. */
void sim_intruder_kill(struct sim_intruder *intruder);
/* sim_intruder_fini -- killed before. */
void sim_intruder_fini(struct sim_intruder *intruder);

#endif /* CLEAVE_TESTS_SIM_INTRUDER_H */
