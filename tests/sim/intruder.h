/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intruder.h -- somebody starts a gateway on another machine, with a metadata store of its own
 *
 * The store is empty, or that of another cluster with the same number. No node may let it in, whatever goes
 * on, and what it does is none of the cluster's gateways' business.
 */
#ifndef CLEAVE_TESTS_SIM_INTRUDER_H
#define CLEAVE_TESTS_SIM_INTRUDER_H

#include "cluster.h"

struct sim_intruder {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct loop *loop;
	struct meta_store *store;
	struct store_id store_id;
	struct meta *meta;
	struct mt_gateway *gateway; /* NULL: not running */
	bool is_made;               /* its store has a cluster */
	bool has_failed;
};

/* sim_intruder_start -- nothing, while it runs. All zeros before the first start. */
void sim_intruder_start(struct sim_cluster *cluster, struct sim_intruder *intruder, bool is_made);
/* sim_intruder_kill -- a violation where a node let it in. Nothing, while it does not run. */
void sim_intruder_kill(struct sim_intruder *intruder);

#endif /* CLEAVE_TESTS_SIM_INTRUDER_H */
