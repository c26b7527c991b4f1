/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_queue.c -- who is next where several volumes wait, against a model that counts what each has had
 *
 * A server takes one operation each SERVICE_NS. Volumes keep a number of requests waiting, or come and go.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "base/random.h"
#include "middletier/port/share_queue.h"

#define FLOWS_MAX 32u
#define ITEMS_MAX 64u
#define SERVICE_NS NUM_US(100) /* 10,000 operations a second */

struct request {
	struct share_item item;
	uint32_t flow, number;
};

static struct share_queue queue;
static struct share shares[FLOWS_MAX];
static struct share_flow flows[FLOWS_MAX];
static struct request requests[FLOWS_MAX][ITEMS_MAX];
static struct loop_link unused[FLOWS_MAX];
static uint32_t pushed[FLOWS_MAX], popped[FLOWS_MAX];
static uint64_t served[FLOWS_MAX]; /* operations */
static uint64_t now_ns;

static void
setup(void)
{
	mt_share_queue_init(&queue);
	now_ns = NUM_S(1);
	for (uint32_t i = 0; i < FLOWS_MAX; i++) {
		shares[i] = (struct share){ .weight = 0 };
		mt_share_set(&shares[i], 0, 0);
		mt_share_flow_init(&flows[i], &shares[i]);
		list_init(&unused[i]);
		pushed[i] = popped[i] = 0;
		served[i] = 0;
		memset(requests[i], 0, sizeof(requests[i]));
		for (uint32_t k = 0; k < ITEMS_MAX; k++)
			list_push_back(&unused[i], &requests[i][k].item.link);
	}
}

TestSuite(share_queue, .init = setup);

static void
push(uint32_t flow, uint32_t cost)
{
	struct loop_link *link = list_pop_front(&unused[flow]);
	struct request *request = LIST_ENTRY(link, struct request, item.link);

	request->item.cost = cost;
	request->flow = flow;
	request->number = pushed[flow]++;
	mt_share_push(&queue, &flows[flow], &request->item);
}

/* The next one, which has to be the oldest of its flow. */
static struct request *
pop(void)
{
	struct share_flow *flow;
	struct share_item *item = mt_share_pop(&queue, now_ns, &flow);
	struct request *request;

	if (item == NULL)
		return NULL;
	request = LIST_ENTRY(item, struct request, item);
	cr_assert_eq(flow, &flows[request->flow]);
	cr_assert_eq(request->number, popped[request->flow], "a request overtook its own");
	popped[request->flow]++;
	served[request->flow] += item->cost;
	list_push_back(&unused[request->flow], &item->link);
	now_ns += item->cost * SERVICE_NS;
	return request;
}

/* For @seconds each of the first @count flows has @depth requests of @costs[] that wait. */
static void
serve(uint32_t count, uint32_t depth, const uint32_t *costs, uint64_t ns)
{
	uint64_t end_ns = now_ns + ns;

	memset(served, 0, sizeof(served));
	while (now_ns < end_ns) {
		for (uint32_t i = 0; i < count; i++) {
			while (flows[i].count < depth)
				push(i, costs == NULL ? 1 : costs[i]);
		}
		cr_assert_not_null(pop());
	}
}

Test(share_queue, empty_has_nothing)
{
	cr_assert_null(pop());
	push(0, 1);
	cr_assert_not_null(pop());
	cr_assert_null(pop());
	cr_assert_eq(queue.count, 0);
}

Test(share_queue, equal_weights_share_equally_whatever_requests_cost)
{
	uint32_t costs[FLOWS_MAX];

	for (uint32_t i = 0; i < FLOWS_MAX; i++)
		costs[i] = 1 + i % 4;
	serve(FLOWS_MAX, 3, costs, NUM_S(10));
	for (uint32_t i = 1; i < FLOWS_MAX; i++)
		cr_assert(served[i] + 8 > served[0] && served[0] + 8 > served[i], "%u: %lu, 0: %lu",
		    i, (unsigned long)served[i], (unsigned long)served[0]);
}

Test(share_queue, weights_are_ratios)
{
	for (uint32_t i = 0; i < 8; i++)
		mt_share_set(&shares[i], i < 4 ? 200 : 100, 0);
	serve(8, 16, NULL, NUM_S(10));
	for (uint32_t i = 0; i < 4; i++) {
		double ratio = (double)served[i] / (double)served[7];

		cr_assert(ratio > 1.99 && ratio < 2.01, "%f", ratio);
	}
	mt_share_set(&shares[0], 1000, 0);
	mt_share_set(&shares[1], 10, 0);
	serve(2, 16, NULL, NUM_S(10));
	cr_assert(served[0] > 99 * served[1] && served[0] < 101 * served[1], "%lu %lu",
	    (unsigned long)served[0], (unsigned long)served[1]);
}

/* 500 a second of 10,000, among 31 that would leave it a 32nd: 312. It has no less, and not many more. */
Test(share_queue, a_minimum_is_had_beside_many)
{
	mt_share_set(&shares[31], 0, 500);
	serve(32, 4, NULL, NUM_S(10));
	cr_assert(served[31] >= 4990 && served[31] <= 5200, "%lu", (unsigned long)served[31]);
	cr_assert_gt(served[0], 3000);
}

Test(share_queue, what_it_has_by_its_weight_counts_for_its_minimum)
{
	mt_share_set(&shares[0], 0, 500);
	serve(4, 8, NULL, NUM_S(4));
	cr_assert(served[0] >= 9980 && served[0] <= 10200, "a fourth is more than its minimum: %lu",
	    (unsigned long)served[0]);
}

Test(share_queue, minimums_that_are_too_much_are_shared)
{
	mt_share_set(&shares[0], 0, 20000);
	mt_share_set(&shares[1], 0, 20000);
	serve(2, 8, NULL, NUM_S(2));
	cr_assert(served[0] > 9900 && served[1] > 9900, "%lu %lu", (unsigned long)served[0],
	    (unsigned long)served[1]);
}

Test(share_queue, what_was_not_asked_for_is_forgotten)
{
	uint32_t ahead = 0;

	mt_share_set(&shares[0], 0, 1000);
	now_ns += NUM_S(100);
	for (uint32_t i = 0; i < 60; i++)
		push(1, 1);
	for (uint32_t round = 0; round < 8; round++) {
		for (uint32_t i = 0; i < 60; i++)
			push(0, 1);
		while (flows[0].count > 0 && popped[1] == 0) {
			ahead++;
			cr_assert_not_null(pop());
		}
		if (popped[1] > 0)
			break;
	}
	/* A hundred are owed, and while they go ten more fall due. */
	cr_assert(ahead >= 100 && ahead <= 115, "%u", ahead);
}

Test(share_queue, what_goes_without_waiting_is_charged)
{
	mt_share_set(&shares[0], 0, 1000);
	for (uint32_t i = 0; i < 150; i++)
		mt_share_charge(&shares[0], 1, now_ns);
	push(1, 1);
	push(0, 1);
	cr_assert_eq(pop()->flow, 1, "it has had its minimum, and is behind in the round");
}

Test(share_queue, a_minimum_may_come_and_go_while_requests_wait)
{
	for (uint32_t i = 0; i < 3; i++)
		push(0, 1);
	for (uint32_t i = 0; i < 3; i++)
		push(1, 1);
	mt_share_set(&shares[1], 0, 10000000);
	mt_share_flow_renew(&queue, &flows[1]);
	cr_assert_eq(pop()->flow, 1);
	cr_assert_eq(pop()->flow, 1);
	mt_share_set(&shares[1], 0, 0);
	mt_share_flow_renew(&queue, &flows[1]);
	cr_assert(list_is_empty(&queue.reserved));
	cr_assert_eq(pop()->flow, 0);
}

Test(share_queue, what_is_removed_does_not_come)
{
	struct loop_link *link;

	for (uint32_t i = 0; i < 4; i++)
		push(0, 1);
	link = list_first(&flows[0].items);
	mt_share_remove(&queue, &flows[0], LIST_ENTRY(link, struct share_item, link));
	popped[0] = 1;
	cr_assert_eq(queue.count, 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_not_null(pop());
	cr_assert_null(pop());
	push(0, 1);
	link = list_first(&flows[0].items);
	mt_share_remove(&queue, &flows[0], LIST_ENTRY(link, struct share_item, link));
	cr_assert(queue.count == 0 && list_is_empty(&queue.flows));
}

/* A volume is short that has none that waits, while others have, and had one a moment ago. */
Test(share_queue, who_comes_again_too_late_to_choose_from_is_short)
{
	push(0, 1);
	cr_assert(!mt_share_is_short(&queue, &flows[0], now_ns, NUM_MS(5)), "one waits");
	pop();
	cr_assert(!mt_share_is_short(&queue, &flows[0], now_ns, NUM_MS(5)), "nobody else waits");
	push(1, 1);
	cr_assert(mt_share_is_short(&queue, &flows[0], now_ns, NUM_MS(5)));
	now_ns += NUM_MS(10);
	cr_assert(!mt_share_is_short(&queue, &flows[0], now_ns, NUM_MS(5)), "it had enough");
}

/*
 * Volumes of random weights, minimums and costs come and go. The model counts operations: while two wait all the time,
 * neither has a minimum and nothing goes before both, what one has had by its weight is what the other has had by its
 * own, but for one round and one request. And nobody waits for more than the others' rounds and minimums allow.
 */
Test(share_queue, any_mix_is_fair_and_nobody_starves)
{
	uint64_t dice[4];

	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t since[FLOWS_MAX] = { 0 }, had[FLOWS_MAX] = { 0 }, turns = 0;
		uint32_t costs[FLOWS_MAX], count;

		setup();
		random_seed(dice, seed);
		count = 2 + (uint32_t)random_below(dice, FLOWS_MAX - 2);
		for (uint32_t i = 0; i < count; i++) {
			costs[i] = 1 + (uint32_t)random_below(dice, 4);
			mt_share_set(&shares[i], 10 + random_below(dice, 300),
			    i >= 2 && random_below(dice, 4) == 0 ? 1 + random_below(dice, 200) : 0);
		}
		for (; turns < 3000; turns++) {
			struct request *request;

			/* The first two always wait; others as the dice say. */
			for (uint32_t i = 0; i < count; i++) {
				if (i < 2 ? flows[i].count < 2
					  : flows[i].count < 8 && random_below(dice, 3) == 0)
					push(i, costs[i]);
			}
			request = pop();
			cr_assert_not_null(request);
			had[request->flow] += request->item.cost;
			since[request->flow] = turns;
			/* A round is at most 40 visits for the cheapest weight, of others that have 3.1 each. */
			for (uint32_t i = 0; i < 2; i++)
				cr_assert_lt(turns - since[i], 40 * 4 * FLOWS_MAX, "%lu starves",
				    (unsigned long)i);
		}
		{
			double first = (double)had[0] / shares[0].weight;
			double second = (double)had[1] / shares[1].weight;
			double slack = 1.0 / 100 + (costs[0] + 1.0) / shares[0].weight +
			    (costs[1] + 1.0) / shares[1].weight;

			cr_assert(first - second < slack && second - first < slack,
			    "seed %lu: %f %f, slack %f", (unsigned long)seed, first, second, slack);
		}
	}
}
