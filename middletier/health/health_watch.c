/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_watch.c -- a gateway looks at its health by itself
 *
 *	RESTING --timer--> LOOKING: our ports are asked --answers, or a second--> judged, events --> RESTING
 *
 * A port that hangs is left out, and is a reason itself: of all else there are events as before.
 *
 * Nobody feels a look: it is what `cleave status` asks. There is one a second, one in two where no client is, two a
 * second while something is wrong. The next gateway, and the store, are asked whether they are there (health_peer.c,
 * health_store.c). The nodes are asked, too, so that one that is silent is found out; while there is no client and
 * nothing is wrong at every fifth look alone, so that idle nodes sleep (I12).
 */
#include "health/health_watch.h"

#include <errno.h>
#include <stdbool.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/look.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "health/client_rates.h"
#include "health/health.h"
#include "health/health_changes.h"
#include "health/health_peer.h"
#include "health/health_store.h"
#include "health/room_history.h"

/* A warning is told at the second look: within 1.5 s, and what it takes to be found. */
#define WATCH_INTERVAL_NS NUM_S(1)
#define WATCH_QUIET_NS NUM_S(2)
#define WATCH_TROUBLE_NS NUM_MS(500)
#define WATCH_NODES_LOOKS 5u

struct mt_health_watch {
	struct mt_gateway *gateway;
	struct mt_look look;
	struct loop_timer timer; /* RESTING */
	bool is_looking, is_stopped;
	uint32_t quiet_looks;    /* in a row: no client, nothing wrong */
	struct mt_health health; /* of the last look */
	struct mt_health_peer peer;
	struct mt_health_store store;
	struct mt_health_changes changes;
	struct mt_room_history room;
	struct mt_client_rates clients;
};

static void
watch_rest(struct mt_health_watch *watch)
{
	uint64_t wait_ns = watch->quiet_looks > 0 ? WATCH_QUIET_NS : WATCH_INTERVAL_NS;

	assert(!watch->is_looking);
	if (!watch->is_stopped)
		loop_timer_start(watch->gateway->options.loop, &watch->timer,
		    watch->changes.count > 0 ? WATCH_TROUBLE_NS : wait_ns);
}

/* A gateway that has fallen silent is told now, not at the next look. */
static void
watch_on_silent(void *arg)
{
	struct mt_health_watch *watch = arg;

	if (!watch->is_stopped && !watch->is_looking)
		loop_timer_start(watch->gateway->options.loop, &watch->timer, 0);
}

static bool
watch_is_quiet(const struct mt_health_watch *watch, const struct mt_ask *ask)
{
	uint32_t sessions = 0;

	assert(ask->gateway == watch->gateway);
	for (uint32_t i = 0; i < watch->gateway->port_count; i++)
		sessions += ask->legs[i].status.session_count;
	return sessions == 0 && watch->changes.count == 0;
}

/* A look in which no node has told its room yet says nothing of it. */
static void
watch_note_room(struct mt_health_watch *watch)
{
	const struct mt_gateway *gateway = watch->gateway;
	struct mt_room_sample sample = { .at_ns = loop_now_ns(gateway->options.loop),
		.used_bytes = watch->health.room.data_used };

	if (watch->health.room.data_total == 0 || sample.at_ns == 0)
		return;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const uint64_t *metrics = gateway->ports[i].metrics;

		sample.write_bytes += metric_read(&metrics[MT_METRIC_write_bytes]);
		sample.stored_bytes += metric_read(&metrics[MT_METRIC_stored_bytes]);
	}
	mt_room_history_note(&watch->room, &sample);
}

static void
watch_note_clients(struct mt_health_watch *watch)
{
	const struct mt_gateway *gateway = watch->gateway;
	struct mt_client_sample sample = { .at_ns = loop_now_ns(gateway->options.loop) };

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const uint64_t *metrics = gateway->ports[i].metrics;

		sample.reads += metric_read(&metrics[MT_METRIC_reads]);
		sample.read_bytes += metric_read(&metrics[MT_METRIC_read_bytes]);
		sample.writes += metric_read(&metrics[MT_METRIC_writes]);
		sample.write_bytes += metric_read(&metrics[MT_METRIC_write_bytes]);
	}
	mt_client_rates_note(&watch->clients, &sample);
}

void
mt_health_watch_clients(const struct mt_gateway *gateway, struct mt_client_sample *ret_grown)
{
	*ret_grown = (struct mt_client_sample){ .at_ns = 0 };
	if (gateway->health_watch != NULL)
		mt_client_rates_grown(&gateway->health_watch->clients, ret_grown);
}

void
mt_health_watch_rates(const struct mt_gateway *gateway, struct mt_room_rates *ret_rates)
{
	*ret_rates = (struct mt_room_rates){ .hour_ns = 0 };
	if (gateway->health_watch != NULL)
		mt_room_history_rates(&gateway->health_watch->room, ret_rates);
}

static void
watch_on_ports(const struct mt_ask *ask, void *arg)
{
	struct mt_health_watch *watch = arg;
	struct mt_gateway *gateway = watch->gateway;

	assert(watch->is_looking);
	watch->is_looking = false;
	if (watch->is_stopped)
		return;
	if (ask == NULL) { /* no memory */
		watch_rest(watch);
		return;
	}
	mt_health_judge(gateway, ask, &watch->health);
	watch_note_room(watch);
	watch_note_clients(watch);
	mt_health_changes_take(&watch->changes, &watch->health, loop_now_ns(gateway->options.loop),
	    gateway->shared.events);
	watch->quiet_looks = watch_is_quiet(watch, ask) ? watch->quiet_looks + 1 : 0;
	watch_rest(watch);
}

static void
watch_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_health_watch *watch = arg;

	assert(timer == &watch->timer && !watch->is_looking);
	(void)timer;
	watch->is_looking = true;
	mt_health_peer_ask(&watch->peer);
	mt_health_store_ask(&watch->store);
	watch->look.kind = watch->quiet_looks % WATCH_NODES_LOOKS == 0 ? MT_ASK_REBALANCE_LOOK
								       : MT_ASK_STATUS;
	if (mt_look(&watch->look, watch_on_ports, watch) != 0) {
		watch->is_looking = false;
		watch_rest(watch); /* no memory, or it is about to stop */
	}
}

int
mt_health_watch_start(struct mt_gateway *gateway)
{
	struct mt_health_watch *watch;

	assert(gateway->health_watch == NULL);
	if (!gateway->options.is_health_watched)
		return 0;
	watch = mt_calloc(1, sizeof(*watch));
	if (watch == NULL)
		return -ENOMEM;
	watch->gateway = gateway;
	mt_look_init(&watch->look, gateway->options.loop, MT_ASK_STATUS);
	mt_look_begin(&watch->look, gateway);
	loop_timer_init(&watch->timer, watch_on_timer, watch);
	watch->store.gateway = gateway;
	mt_health_peer_init(&watch->peer, gateway, watch_on_silent, watch);
	gateway->health_watch = watch;
	watch_rest(watch);
	return 0;
}

void
mt_health_watch_stop(struct mt_gateway *gateway)
{
	struct mt_health_watch *watch = gateway->health_watch;

	if (watch == NULL)
		return;
	watch->is_stopped = true;
	mt_health_peer_stop(&watch->peer);
	watch->store.is_stopped = true;
	loop_timer_stop(gateway->options.loop, &watch->timer);
}

void
mt_health_watch_fini(struct mt_gateway *gateway)
{
	if (gateway->health_watch == NULL)
		return;
	mt_health_watch_stop(gateway);
	mt_look_drop(&gateway->health_watch->look);
	mt_health_peer_fini(&gateway->health_watch->peer);
	mt_free(gateway->health_watch);
	gateway->health_watch = NULL;
}

void
mt_health_watch_date(const struct mt_gateway *gateway, struct mt_health *health)
{
	if (gateway->health_watch != NULL)
		mt_health_changes_date(&gateway->health_watch->changes,
		    loop_now_ns(gateway->options.loop), health);
}

void
mt_health_watch_judge(const struct mt_gateway *gateway, struct mt_health *health)
{
	if (gateway->health_watch == NULL)
		return;
	mt_health_peer_judge(&gateway->health_watch->peer, health);
	mt_health_store_judge(&gateway->health_watch->store, health);
}
