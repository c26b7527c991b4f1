/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.c -- see look.h
 *
 *	mt_look --> waits --+-- all ports have answered ----------> told
 *	                    +-- a second after they were asked ---> told what there is so far
 */
#include "cluster/look.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"

struct look_waiter {
	struct loop_link link; /* look->waiters */
	mt_look_fn fn;
	void *arg;
};

static void
look_tell(struct mt_look *look, const struct mt_ask *ask)
{
	struct loop_link waiters, *link;

	loop_timer_stop(look->loop, &look->timer);
	look->is_timing = false;
	/* A waiter that comes because of what another is told waits for the next question. */
	list_init(&waiters);
	while ((link = list_first(&look->waiters)) != NULL) {
		list_remove(link);
		list_push_back(&waiters, link);
	}
	while ((link = list_first(&waiters)) != NULL) {
		struct look_waiter *waiter = LIST_ENTRY(link, struct look_waiter, link);

		list_remove(link);
		waiter->fn(ask, waiter->arg);
		mt_free(waiter);
	}
}

static void
look_on_answer(struct mt_ask *ask, void *arg)
{
	struct mt_look *look = arg;

	assert(look->is_out && ask->left_count == 0);
	look->is_out = false;
	look_tell(look, ask);
}

static void
look_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_look *look = arg;
	struct mt_ask *ask;

	(void)timer;
	assert(look->is_out && look->is_timing);
	ask = mt_ask_so_far(look->gateway, look_on_answer, look);
	look_tell(look, ask);
	mt_free(ask);
}

void
mt_look_init(struct mt_look *look, struct loop *loop, enum mt_ask_kind kind)
{
	assert(kind == MT_ASK_STATUS || kind == MT_ASK_REBALANCE_LOOK);
	*look = (struct mt_look){ .loop = loop, .kind = kind };
	list_init(&look->waiters);
	loop_timer_init(&look->timer, look_on_timer, look);
}

void
mt_look_begin(struct mt_look *look, struct mt_gateway *gateway)
{
	assert(look->gateway == NULL && gateway != NULL);
	look->gateway = gateway;
}

void
mt_look_fini(struct mt_look *look)
{
	look_tell(look, NULL);
}

void
mt_look_drop(struct mt_look *look)
{
	struct loop_link *link;

	loop_timer_stop(look->loop, &look->timer);
	look->is_timing = look->is_out = false;
	while ((link = list_pop_front(&look->waiters)) != NULL)
		mt_free(LIST_ENTRY(link, struct look_waiter, link));
}

static int
look_ask(struct mt_look *look, uint64_t now_ns)
{
	int rc = mt_ask_ports(look->gateway, look->kind, NULL, look_on_answer, look);

	assert(!look->is_out);
	if (rc != 0)
		return rc;
	look->is_out = true;
	look->asked_ns = now_ns;
	return 0;
}

int
mt_look(struct mt_look *look, mt_look_fn fn, void *arg)
{
	struct look_waiter *waiter;
	uint64_t now_ns, waited_ns;
	int rc = 0;

	assert(fn != NULL);
	if (look->gateway == NULL)
		return -EHOSTDOWN;
	now_ns = loop_now_ns(look->loop);
	waiter = mt_calloc(1, sizeof(*waiter));
	if (waiter == NULL)
		return -ENOMEM;
	if (!look->is_out)
		rc = look_ask(look, now_ns);
	if (rc != 0) {
		mt_free(waiter);
		return rc;
	}
	waiter->fn = fn;
	waiter->arg = arg;
	list_push_back(&look->waiters, &waiter->link);
	waited_ns = now_ns - look->asked_ns;
	if (!look->is_timing)
		loop_timer_start(look->loop, &look->timer,
		    MT_LOOK_NS - num_min(MT_LOOK_NS, waited_ns));
	look->is_timing = true;
	return 0;
}
