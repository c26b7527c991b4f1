/* SPDX-License-Identifier: Apache-2.0 */
/* share_queue.c -- see share_queue.h */
#include "port/share_queue.h"

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"

#define SHARE_UNIT 100u /* of deficit: an operation; a round gives a volume its weight */

static struct share_item *
item_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct share_item, link);
}

static struct share_flow *
flow_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct share_flow, link);
}

void
mt_share_queue_init(struct share_queue *queue)
{
	list_init(&queue->flows);
	list_init(&queue->reserved);
	queue->count = 0;
}

void
mt_share_flow_init(struct share_flow *flow, struct share *share)
{
	*flow = (struct share_flow){ .share = share };
	list_init(&flow->items);
}

void
mt_share_set(struct share *share, uint64_t weight, uint64_t min_iops)
{
	share->weight = weight == 0 ? SHARE_WEIGHT_DEFAULT : (uint32_t)weight;
	share->min_iops = min_iops;
}

void
mt_share_flow_renew(struct share_queue *queue, struct share_flow *flow)
{
	bool is_reserved = flow->count > 0 && flow->share->min_iops > 0;

	if (is_reserved && !list_contains(&flow->reserved_link))
		list_push_back(&queue->reserved, &flow->reserved_link);
	else if (!is_reserved)
		list_remove(&flow->reserved_link);
}

void
mt_share_charge(struct share *share, uint32_t cost, uint64_t now_ns)
{
	uint64_t cost_ns;

	assert(cost > 0 && cost <= SHARE_COST_MAX);
	if (share->min_iops == 0)
		return;
	cost_ns = cost * NUM_S(1) / share->min_iops;
	/* More than its minimum is no debt, but for one request: it would wait for that when it is short. */
	share->due_ns = num_min(share->due_ns, now_ns + cost_ns);
	share->due_ns = num_max(share->due_ns, now_ns - SHARE_OWED_NS);
	share->due_ns += cost_ns;
}

void
mt_share_push(struct share_queue *queue, struct share_flow *flow, struct share_item *item)
{
	assert(item->cost > 0 && item->cost <= SHARE_COST_MAX);
	list_push_back(&flow->items, &item->link);
	queue->count++;
	if (flow->count++ > 0)
		return;
	flow->deficit = 0;
	flow->has_turn = false;
	list_push_back(&queue->flows, &flow->link);
	mt_share_flow_renew(queue, flow);
}

/* A flow that is empty has no turn: deficit is of those that wait. */
static void
share_take(struct share_queue *queue, struct share_flow *flow, struct share_item *item)
{
	assert(flow->count > 0 && queue->count > 0);
	list_remove(&item->link);
	flow->count--;
	queue->count--;
	if (flow->count > 0)
		return;
	list_remove(&flow->link);
	list_remove(&flow->reserved_link);
}

/* The flow that is owed for longest; NULL: none is owed anything. */
static struct share_flow *
share_owed(struct share_queue *queue, uint64_t now_ns)
{
	struct share_flow *owed = NULL;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&queue->reserved, link, next) {
		struct share_flow *flow = LIST_ENTRY(link, struct share_flow, reserved_link);

		if (flow->share->due_ns <= now_ns &&
		    (owed == NULL || flow->share->due_ns < owed->share->due_ns))
			owed = flow;
	}
	return owed;
}

/* Whose turn it is. Each round brings each flow nearer to its first item, so this ends. */
static struct share_flow *
share_turn(struct share_queue *queue)
{
	for (;;) {
		struct share_flow *flow = flow_of(list_first(&queue->flows));
		uint32_t wanted = item_of(list_first(&flow->items))->cost * SHARE_UNIT;

		if (!flow->has_turn)
			flow->deficit += flow->share->weight;
		flow->has_turn = true;
		if (flow->deficit >= wanted) {
			flow->deficit -= wanted;
			return flow;
		}
		flow->has_turn = false;
		list_remove(&flow->link);
		list_push_back(&queue->flows, &flow->link);
	}
}

struct share_item *
mt_share_pop(struct share_queue *queue, uint64_t now_ns, struct share_flow **ret_flow)
{
	struct share_flow *flow;
	struct share_item *item;

	if (queue->count == 0)
		return NULL;
	flow = share_owed(queue, now_ns);
	if (flow == NULL)
		flow = share_turn(queue);
	item = item_of(MUTANT(share_overtakes) ? flow->items.prev : list_first(&flow->items));
	share_take(queue, flow, item);
	mt_share_charge(flow->share, item->cost, now_ns);
	flow->popped_ns = now_ns;
	*ret_flow = flow;
	return item;
}

bool
mt_share_is_short(const struct share_queue *queue, const struct share_flow *flow, uint64_t now_ns,
    uint64_t moment_ns)
{
	return queue->count > 0 && flow->count == 0 && now_ns - flow->popped_ns < moment_ns;
}

bool
mt_share_is_owed(const struct share *share, uint64_t now_ns)
{
	return share->min_iops > 0 && share->due_ns + SHARE_LATE_NS <= now_ns;
}

void
mt_share_remove(struct share_queue *queue, struct share_flow *flow, struct share_item *item)
{
	share_take(queue, flow, item);
}
