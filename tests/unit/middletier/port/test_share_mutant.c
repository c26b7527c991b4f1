/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_mutant.c -- a planted bug, share_overtakes, is found: the queue is built into this test with it
 *
 * The simulator's clients keep the order of writes that overlap themselves, so no history of theirs shows it.
 */
#define CLEAVE_MUTANTS
#include "middletier/port/share_queue.c"

#include <criterion/criterion.h>

#include "base/random.h"

#define FLOWS 4u
#define ITEMS 16u

struct mutant_set mutants_on;

struct request {
	struct share_item item;
	uint32_t flow, number;
};

/* Requests of several volumes, of random costs, as they come and go: how often one went before an older of its own? */
static uint32_t
overtaken_count(uint64_t seed)
{
	struct share_queue queue;
	struct share shares[FLOWS] = { 0 };
	struct share_flow flows[FLOWS];
	struct request requests[FLOWS][ITEMS] = { 0 };
	uint32_t pushed[FLOWS] = { 0 }, popped[FLOWS] = { 0 }, overtaken = 0;
	uint64_t dice[4];

	random_seed(dice, seed);
	mt_share_queue_init(&queue);
	for (uint32_t i = 0; i < FLOWS; i++) {
		mt_share_set(&shares[i], 10 + random_below(dice, 990),
		    random_below(dice, 2) * 1000);
		mt_share_flow_init(&flows[i], &shares[i]);
	}
	for (uint64_t now_ns = NUM_S(1); now_ns < NUM_S(2); now_ns += NUM_MS(1)) {
		uint32_t i = (uint32_t)random_below(dice, FLOWS);
		struct share_flow *flow;
		struct share_item *item;
		struct request *request;

		if (flows[i].count < ITEMS && random_below(dice, 3) > 0) {
			request = &requests[i][0];
			while (list_contains(&request->item.link))
				request++;
			*request = (struct request){ .flow = i, .number = pushed[i]++ };
			request->item.cost = 1 + (uint32_t)random_below(dice, 4);
			mt_share_push(&queue, &flows[i], &request->item);
			continue;
		}
		item = mt_share_pop(&queue, now_ns, &flow);
		if (item == NULL)
			continue;
		request = LIST_ENTRY(item, struct request, item);
		overtaken += request->number != popped[request->flow]++;
	}
	return overtaken;
}

Test(share_mutant, overtaking_within_a_volume_is_found)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		mutants_on = (struct mutant_set){ { 0 } };
		cr_assert_eq(overtaken_count(seed), 0, "seed %lu", (unsigned long)seed);
		mutant_set_add(&mutants_on, MUTANT_share_overtakes);
		cr_assert_gt(overtaken_count(seed), 0, "seed %lu", (unsigned long)seed);
	}
}
