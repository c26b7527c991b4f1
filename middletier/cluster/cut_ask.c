/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut_ask.c -- a step of a snapshot at every port of this gateway, for our own main or another's
 *
 *	main --post--> each port: each shard that serves --mt_cut_fn--> all have answered --post--> main
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/loop.h"
#include "cluster/cut_ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "write/cut.h"

static const char *const step_names[MT_CUT_STEP_NR] = {
	[MT_CUT_STEP_ASK] = "ask",
	[MT_CUT_STEP_BEGIN] = "begin",
	[MT_CUT_STEP_CONFIRM] = "confirm",
	[MT_CUT_STEP_RELEASE] = "release",
};

const char *
mt_cut_step_name(enum mt_cut_step step)
{
	assert(step < MT_CUT_STEP_NR);
	return step_names[step];
}

static void
ask_on_main(struct loop_post *post, void *arg)
{
	struct mt_cut_leg *leg = arg;
	struct mt_cut_ask *ask = leg->ask;

	(void)post;
	assert(ask->left_count > 0);
	if (--ask->left_count > 0)
		return;
	list_remove(&ask->link);
	ask->fn(ask, ask->arg);
	mt_free(ask);
}

static void
leg_done(struct mt_cut_leg *leg)
{
	assert(leg->pending_count > 0);
	if (--leg->pending_count > 0)
		return;
	leg->post.fn = ask_on_main;
	loop_post(leg->ask->gateway->options.loop, &leg->post);
}

static void
leg_on_begun(int rc, void *arg)
{
	struct mt_cut_answer *answer = arg;

	assert(rc <= 0 && answer->is_there);
	answer->rc = rc;
	answer->epoch = answer->shard->epoch;
	leg_done(answer->leg);
}

static void
leg_ask(struct mt_cut_leg *leg, struct mt_shard *shard)
{
	struct mt_cut_ask *ask = leg->ask;
	struct mt_cut_answer *answer = &ask->answers[shard->index];

	assert(shard->port == leg->port && shard->index < ask->gateway->cluster.shard_count);
	assert(!answer->is_there);
	if (shard->sm.state != MT_SHARD_SERVING)
		return;
	*answer = (struct mt_cut_answer){ .is_there = true,
		.epoch = shard->epoch,
		.leg = leg,
		.shard = shard };
	switch (ask->step) {
	case MT_CUT_STEP_ASK:
		answer->rc = mt_cut_can_begin(shard, ask->order.number);
		break;
	case MT_CUT_STEP_BEGIN:
		leg->pending_count++;
		answer->rc = mt_cut_begin(shard, &ask->order, leg_on_begun, answer);
		if (answer->rc != 0)
			leg->pending_count--;
		break;
	case MT_CUT_STEP_CONFIRM:
		answer->rc = mt_cut_is_held(shard, ask->order.number) ? 0 : -ETIMEDOUT;
		break;
	default:
		mt_cut_release(shard, ask->order.number);
		break;
	}
}

static void
ask_on_port(struct loop_post *post, void *arg)
{
	struct mt_cut_leg *leg = arg;

	assert(leg->port->main_loop == leg->ask->gateway->options.loop);
	(void)post;
	leg->pending_count = 1;
	for (uint32_t i = 0; i < leg->port->shard_count; i++)
		leg_ask(leg, &leg->port->shards[i]);
	leg_done(leg);
}

int
mt_cut_ask(struct mt_gateway *gateway, enum mt_cut_step step, const struct mt_cut_order *order,
    mt_cut_ask_fn fn, void *arg)
{
	struct mt_cut_ask *ask;

	assert(step < MT_CUT_STEP_NR && fn != NULL);
	assert(order->number != 0 && order->segment_count > 0 && order->volume_count > 0);
	assert(gateway->port_count > 0 && gateway->cluster.shard_count > 0);
	/* A port that has stopped answers nothing. */
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = mt_calloc(1,
	    sizeof(*ask) + gateway->cluster.shard_count * sizeof(struct mt_cut_answer));
	if (ask == NULL)
		return -ENOMEM;
	ask->gateway = gateway;
	ask->step = step;
	ask->order = *order;
	ask->fn = fn;
	ask->arg = arg;
	ask->left_count = gateway->port_count;
	list_push_back(&gateway->cut_asks, &ask->link);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_cut_leg *leg = &ask->legs[i];

		leg->ask = ask;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = ask_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
	return 0;
}

void
mt_cut_asks_drop(struct mt_gateway *gateway)
{
	struct loop_link *link;

	while ((link = list_pop_front(&gateway->cut_asks)) != NULL)
		mt_free(LIST_ENTRY(link, struct mt_cut_ask, link));
}
