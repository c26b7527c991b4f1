/* SPDX-License-Identifier: Apache-2.0 */
/* relief_rule.c -- see relief_rule.h */
#include "cluster/relief_rule.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "common/limits.h"

/* So that sums of all gateways, and products with a percentage, fit. */
#define RELIEF_LOAD_MAX (UINT64_C(1) << 48)

uint64_t
mt_relief_load(uint64_t request_count, uint64_t request_bytes, uint64_t ns)
{
	double bytes = (double)request_count * MT_RELIEF_REQUEST_BYTES + (double)request_bytes;
	double load = ns == 0 ? 0 : bytes * (double)NUM_S(1) / (double)ns;

	assert(MT_RELIEF_REQUEST_BYTES > 0);
	return load >= (double)RELIEF_LOAD_MAX ? RELIEF_LOAD_MAX : (uint64_t)load;
}

/* The load of each of its ports, with @more added to, or @less taken from, what it has. */
static uint64_t
relief_port_load(const struct mt_relief_gateway *gateway, uint64_t more, uint64_t less)
{
	uint64_t load = num_min(gateway->load, RELIEF_LOAD_MAX) + num_min(more, RELIEF_LOAD_MAX);

	assert(gateway->port_count > 0);
	return (load - num_min(load, less)) / gateway->port_count;
}

/* The load of each port, if all had the same. Gateways that nothing may be given to are left out, but for whoever asks. */
static uint64_t
relief_mean(const struct mt_relief_question *question)
{
	uint64_t load = 0, port_count = 0;

	for (uint32_t i = 0; i < question->gateway_count; i++) {
		const struct mt_relief_gateway *gateway = &question->gateways[i];

		if (i != question->self && !gateway->is_taker)
			continue;
		load += num_min(gateway->load, RELIEF_LOAD_MAX);
		port_count += gateway->port_count;
	}
	assert(port_count > 0);
	return load / port_count;
}

/* Where two have the same the one of the lower id is the busier: they do not both give. */
static bool
relief_is_busiest(const struct mt_relief_question *question)
{
	const struct mt_relief_gateway *self = &question->gateways[question->self];
	uint64_t load = relief_port_load(self, 0, 0);

	for (uint32_t i = 0; i < question->gateway_count; i++) {
		const struct mt_relief_gateway *other = &question->gateways[i];
		uint64_t theirs = relief_port_load(other, 0, 0);

		if (i != question->self && other->is_taker &&
		    (theirs > load || (theirs == load && other->id < self->id)))
			return false;
	}
	return true;
}

/* The taker that has least with @shard is the best for it: is that better than *@ret_move? */
static void
relief_look(const struct mt_relief_question *question, uint32_t shard,
    struct mt_relief_move *ret_move)
{
	uint64_t load = question->shards[shard].load, least = UINT64_MAX;
	uint32_t taker = question->gateway_count;

	for (uint32_t i = 0; i < question->gateway_count; i++) {
		const struct mt_relief_gateway *gateway = &question->gateways[i];
		uint64_t after = relief_port_load(gateway, load, 0);

		if (i == question->self || !gateway->is_taker || gateway->room == 0 ||
		    after >= least)
			continue;
		taker = i;
		least = after;
	}
	least = num_max(least, relief_port_load(&question->gateways[question->self], 0, load));
	if (taker == question->gateway_count || least >= ret_move->load_after)
		return;
	ret_move->shard = shard;
	ret_move->taker = taker;
	ret_move->load_after = least;
}

bool
mt_relief_choose(const struct mt_relief_question *question, struct mt_relief_move *ret_move)
{
	struct mt_relief_move move = { .shard = question->shard_count };
	const struct mt_relief_gateway *self = &question->gateways[question->self];
	uint64_t margin;

	assert(question->gateway_count > 0 && question->gateway_count <= MT_GATEWAYS_MAX);
	assert(question->self < question->gateway_count);
	move.mean = relief_mean(question);
	move.load_before = move.load_after = relief_port_load(self, 0, 0);
	margin = MUTANT(relief_restless) ? 0 : move.mean * MT_RELIEF_MARGIN_PERCENT / 100;
	if (move.load_before <= question->floor || !relief_is_busiest(question))
		return false;
	for (uint32_t i = 0; i < question->shard_count; i++) {
		if (question->shards[i].may_go && question->shards[i].load > 0)
			relief_look(question, i, &move);
	}
	if (move.shard == question->shard_count || move.load_after + margin > move.load_before)
		return false;
	*ret_move = move;
	return true;
}
