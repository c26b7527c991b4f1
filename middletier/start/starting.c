/* SPDX-License-Identifier: Apache-2.0 */
/* starting.c -- see starting.h */
#include "start/starting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "port/port_status.h"

#define STARTING_LOOK_NS NUM_S(2)
#define STARTING_LOG_NS NUM_S(10)
#define STARTING_PART_NS NUM_S(60)
#define STARTING_EXTEND_NS NUM_S(120) /* as the unit's TimeoutStartSec */
#define STARTING_STATE_SHIFT 44       /* a state counts for more than all that is done in one */

static struct loop *
starting_loop(const struct mt_starting *starting)
{
	assert(starting->gateway != NULL);
	return starting->gateway->options.loop;
}

/* ---- what it waits for ---- */

static void __attribute__((format(printf, 2, 3)))
starting_add(struct mt_starting *starting, const char *format, ...)
{
	size_t used = strlen(starting->text);
	va_list args;

	assert(used < sizeof(starting->text));
	va_start(args, format);
	(void)vsnprintf(starting->text + used, sizeof(starting->text) - used, format,
	    args); /* cut */
	va_end(args);
}

/* Counts all ports' shards: those to be owned, those of them that serve; and how far all have come. */
static uint64_t
starting_count(const struct mt_ask *ask, uint32_t *ret_count, uint32_t *ret_serving,
    uint32_t *ret_stopped)
{
	uint64_t score = 0;

	assert(ask->left_count == 0);
	*ret_count = *ret_serving = *ret_stopped = 0;
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			const struct mt_shard_status *shard = &status->shards[k];

			if (shard->state == MT_SHARD_STOPPED)
				(*ret_stopped)++;
			else
				score += ((uint64_t)shard->state << STARTING_STATE_SHIFT) +
				    shard->takeover_steps;
			*ret_count += shard->state != MT_SHARD_IDLE || shard->is_short;
			*ret_serving += shard->is_serving;
		}
	}
	return score;
}

static uint32_t
starting_short_count(const struct mt_ask *ask)
{
	uint32_t count = 0;

	assert(ask->left_count == 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		count += ask->legs[i].status.short_count;
	return count;
}

static void
starting_add_nodes(struct mt_starting *starting, const struct mt_ask *ask)
{
	const struct mt_port_status *status = &ask->legs[0].status;
	const char *separator = "; nodes that are not up: ";

	assert(ask->left_count == 0);
	for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
		const struct mt_link_status *link = &status->links[i];

		if (link->is_up || mt_node_is_gone(&link->config))
			continue;
		starting_add(starting, "%s%s (%s)", separator, link->config.address,
		    link->trouble[0] != '\0' ? link->trouble : "no answer yet");
		separator = ", ";
	}
}

static void
starting_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_starting *starting = arg;
	uint64_t now_ns = loop_now_ns(starting_loop(starting));
	uint32_t count, serving, stopped;
	uint64_t score = starting_count(ask, &count, &serving, &stopped);

	assert(starting->is_asking);
	starting->is_asking = false;
	if (starting->is_over)
		return;
	starting->text[0] = '\0';
	if (starting->gateway->sm.state == MT_GATEWAY_STARTING)
		starting_add(starting, "the metadata store does not answer");
	else if (count == 0)
		starting_add(starting, "owns no shard yet");
	else
		starting_add(starting, "%" PRIu32 " of %" PRIu32 " shards serve", serving, count);
	if (starting_short_count(ask) > 0)
		starting_add(starting,
		    ", %" PRIu32 " find no room on their ports: see --device-memory",
		    starting_short_count(ask));
	if (stopped > 0)
		starting_add(starting, ", %" PRIu32 " have stopped, see above", stopped);
	starting_add_nodes(starting, ask);
	if (score > starting->best) {
		starting->best = score;
		starting->best_ns = now_ns;
		(void)notify_status("gateway", starting->text, STARTING_EXTEND_NS);
		return;
	}
	(void)notify_status("gateway", starting->text, 0);
	if (now_ns - starting->best_ns >= STARTING_LOG_NS &&
	    strcmp(starting->text, starting->logged_text) != 0) {
		log_warn("gateway: waits: %s", starting->text);
		memcpy(starting->logged_text, starting->text, sizeof(starting->logged_text));
	}
	if (now_ns - starting->best_ns >= STARTING_PART_NS && serving > 0 &&
	    !starting->is_part_told) {
		starting->is_part_told = true;
		log_warn("gateway: serves a part: %s", starting->text);
		(void)notify_ready("gateway");
	}
}

/* ---- its life ---- */

static void
starting_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_starting *starting = arg;

	assert(!starting->is_over);
	loop_timer_start(starting_loop(starting), timer, STARTING_LOOK_NS);
	if (starting->is_asking)
		return;
	/* Without memory it is asked the next time. */
	starting->is_asking =
	    mt_ask_ports(starting->gateway, MT_ASK_STATUS, NULL, starting_on_asked, starting) == 0;
}

void
mt_starting_begin(struct mt_starting *starting, struct mt_gateway *gateway)
{
	assert(gateway->sm.state != MT_GATEWAY_CREATED);
	*starting = (struct mt_starting){ .gateway = gateway };
	(void)snprintf(starting->text, sizeof(starting->text), "the metadata store is being read");
	loop_timer_init(&starting->timer, starting_on_timer, starting);
	starting->best_ns = loop_now_ns(starting_loop(starting));
	loop_timer_start(starting_loop(starting), &starting->timer, STARTING_LOOK_NS);
}

void
mt_starting_fini(struct mt_starting *starting)
{
	if (starting->gateway != NULL && !starting->is_over)
		loop_timer_stop(starting_loop(starting), &starting->timer);
	starting->is_over = true;
}

void
mt_starting_end(struct mt_starting *starting, bool is_ready)
{
	if (starting->gateway == NULL || starting->is_over)
		return;
	mt_starting_fini(starting);
	if (!is_ready) {
		log_warn("gateway: ended before it served all its shards: %s", starting->text);
		return;
	}
	(void)notify_ready("gateway");
	(void)notify_status("gateway", "serves", 0);
}
