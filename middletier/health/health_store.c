/* SPDX-License-Identifier: Apache-2.0 */
/* health_store.c -- does the metadata store answer? Asked at each look for our own key, which is small */
#include "health/health_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "health/health.h"

static void
store_on_answer(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_health_store *store = arg;

	(void)items;
	(void)count;
	assert(store->is_out);
	store->is_out = false;
	if (rc != 0)
		return;
	store->since_ns = 0;
	store->latency.limit_ns = MT_HEALTH_STORE_SLOW_NS;
	(void)etcd_latency_add(&store->latency,
	    loop_now_ns(store->gateway->options.loop) - store->asked_ns);
}

void
mt_health_store_ask(struct mt_health_store *store)
{
	struct meta *meta = store->gateway->options.meta;

	if (store->is_out || store->is_stopped || meta == NULL ||
	    store->gateway->member.key[0] == '\0')
		return;
	if (store->since_ns == 0)
		store->since_ns = loop_now_ns(store->gateway->options.loop);
	store->asked_ns = loop_now_ns(store->gateway->options.loop);
	/* Without memory the next look asks. */
	store->is_out = meta->ops->list(meta, store->gateway->member.key, store_on_answer, store) ==
	    0;
	if (!store->is_out)
		store->since_ns = 0;
}

/* A renewal that waits may have said it: it is told once. */
static bool
is_told(const struct mt_health *health, const char *object)
{
	for (uint32_t i = 0; i < health->count; i++) {
		if (health->reasons[i].code == CLEAVE_HEALTH_STORE_SLOW &&
		    strcmp(health->reasons[i].object, object) == 0)
			return true;
	}
	return false;
}

void
mt_health_store_judge(const struct mt_health_store *store, struct mt_health *health)
{
	const struct mt_gateway *gateway = store->gateway;
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	char object[MT_HEALTH_OBJECT_BYTES];

	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	if (is_told(health, object))
		return;
	if (store->since_ns == 0 || now_ns < store->since_ns + MT_HEALTH_STORE_NS) {
		if (store->latency.is_slow)
			mt_health_add(health, CLEAVE_HEALTH_STORE_SLOW, object, 0,
			    "%s: %s is slow: of its last answers one in a hundred took %" PRIu64
			    " ms or longer",
			    object,
			    gateway->options.meta_name != NULL ? gateway->options.meta_name
							       : "the metadata store",
			    etcd_latency_p99(&store->latency) / NUM_MS(1));
		return;
	}
	mt_health_add(health, CLEAVE_HEALTH_STORE_SLOW, object, now_ns - store->since_ns,
	    "%s waits for %s, which has not answered a question", object,
	    gateway->options.meta_name != NULL ? gateway->options.meta_name : "the metadata store");
}
