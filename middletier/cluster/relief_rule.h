/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relief_rule.h -- which shard a gateway gives away because it has more to do than the others: pure functions
 *
 * Load is in bytes a second. A gateway's is compared by its ports: who has twice as many has twice as much to do.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_RELIEF_RULE_H
#define CLEAVE_MIDDLETIER_CLUSTER_RELIEF_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* A gateway of those that live. */
struct mt_relief_gateway {
	uint64_t id;
	uint32_t port_count;
	uint64_t load;
	uint32_t room; /* shards that each of its ports surely has memory for */
	bool is_taker; /* it may be given a shard: it is not drained, and shares out by load, too */
};

/* A shard of the gateway that may give one away. */
struct mt_relief_shard {
	uint32_t number;
	uint64_t load;
	bool may_go; /* it has been here long enough */
};

/* A gateway asks: shall one of my shards go? */
struct mt_relief_question {
	const struct mt_relief_gateway *gateways; /* all that live, the one that asks among them */
	uint32_t gateway_count;
	uint32_t self; /* index of the one that asks */
	const struct mt_relief_shard *shards;
	uint32_t shard_count;
	uint64_t floor; /* a gateway whose ports have no more than that each is left alone */
};

/* A shard to be given away; each load is of a port. */
struct mt_relief_move {
	uint32_t shard;                         /* index of the question's shards */
	uint32_t taker;                         /* index of its gateways */
	uint64_t mean, load_before, load_after; /* of the busier of the two, after it */
};

/*
 * mt_relief_load -- the load of a shard that has answered @request_count requests of @request_bytes in @ns
 *
 * A request counts as MT_RELIEF_REQUEST_BYTES, and as what it reads or writes. 0 for no time.
 */
uint64_t mt_relief_load(uint64_t request_count, uint64_t request_bytes, uint64_t ns);
#define MT_RELIEF_REQUEST_BYTES 4096u

/*
 * mt_relief_choose -- the shard that goes, and where to
 *
 * Invariant: only the busiest gateway gives, and what it gives makes the busier of the two less busy than it was, by
 * MT_RELIEF_MARGIN_PERCENT of the mean at least. So the highest load falls with every move, and no two gateways give at
 * once by the same figures. Of the moves that do so the one after which the busier of the two has least.
 * Returns false: none does.
 */
bool mt_relief_choose(const struct mt_relief_question *question, struct mt_relief_move *ret_move);
#define MT_RELIEF_MARGIN_PERCENT 20u

#endif /* CLEAVE_MIDDLETIER_CLUSTER_RELIEF_RULE_H */
