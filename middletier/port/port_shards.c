/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_shards.c -- a port's shards: which of them it shall own, and what has become of them
 *
 *	main: mt_port_shards --the newest set--> port: mt_shard_want each --> take-overs, releases
 *	main: host->on_shard <--the newest state of each-- port: mt_port_shards_on_state
 *
 * A port has a struct mt_shard for every number n with n % port_count == index, whoever owns it; that takes memory when
 * it is to be owned here (shard.c), as far as there is any (port_memory.c). Sets and states are handed over under
 * port->life->lock, the newest alone: a post that is out takes along what comes meanwhile. A lost lease is no state but
 * an event, so it is counted, and stays until the port has taken it.
 */
#include "port/port_shards.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/lease.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_memory.h"
#include "read/hot_pages.h"
#include "shard/shard.h"
#include "shard/shard_life.h"

/* ---- the shards that there are ---- */

static uint32_t
port_shard_count(const struct mt_port *port, uint32_t cluster_shard_count)
{
	uint32_t port_count = port->life->options->port_count;

	assert(port->index < port_count);
	return cluster_shard_count / port_count +
	    (port->index < cluster_shard_count % port_count ? 1 : 0);
}

/* Running. */

int
mt_port_shards_make(struct mt_port *port)
{
	uint32_t cluster_shard_count = port->cluster->shard_count;
	uint32_t count = port_shard_count(port, cluster_shard_count);
	int rc;

	assert(port->shards == NULL && port->shard_by_number == NULL);
	mt_port_rings_plan(port, count);
	port->shard_by_number = mt_calloc(cluster_shard_count, sizeof(*port->shard_by_number));
	port->shards = mt_calloc(num_max(count, 1), sizeof(*port->shards));
	if (port->shards == NULL || port->shard_by_number == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = port->index + i * port->life->options->port_count;

		rc = mt_shard_init(&port->shards[i], port, number);
		if (rc != 0)
			return rc;
		port->shard_count++;
		port->shard_by_number[number] = &port->shards[i];
	}
	return 0;
}

/* ---- what has become of them ---- */

static void
port_on_shard_report(struct loop_post *post, void *arg)
{
	struct mt_shard *shard = arg;
	struct mt_port *port = shard->port;
	enum mt_shard_state state;
	uint32_t epoch;

	(void)post;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	(void)pthread_mutex_lock(&port->life->lock);
	assert(shard->life->report.is_out);
	shard->life->report.is_out = false;
	state = shard->life->report.state;
	epoch = shard->life->report.epoch;
	(void)pthread_mutex_unlock(&port->life->lock);
	port->life->host->on_shard(port, shard->index, state, epoch);
}

void
mt_port_shards_on_state(struct mt_shard *shard)
{
	struct mt_port *port = shard->port;
	struct mt_shard_report *report = &shard->life->report;
	bool was_out;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(port->shard_by_number == NULL || port->shard_by_number[shard->index] == shard);
	if (port->is_closing)
		return; /* main may not come by any more */
	(void)pthread_mutex_lock(&port->life->lock);
	report->state = (enum mt_shard_state)shard->sm.state;
	report->epoch = shard->epoch;
	was_out = report->is_out;
	report->is_out = true;
	(void)pthread_mutex_unlock(&port->life->lock);
	if (was_out)
		return;
	report->post = (struct loop_post){ .fn = port_on_shard_report, .arg = shard };
	loop_post(port->main_loop, &report->post);
}

static void
port_tell_shards(struct mt_port *port, const uint64_t *wanted)
{
	assert(port->life->set.has_begun);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		uint32_t number = port->shards[i].index;

		mt_shard_want(&port->shards[i],
		    (wanted[number / 64] & UINT64_C(1) << number % 64) != 0);
	}
}

static void
port_on_set(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;
	uint64_t wanted[MT_SHARD_SET_WORDS];
	uint32_t lost_count;
	bool is_lost;
	int rc;

	(void)post;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	(void)pthread_mutex_lock(&port->life->lock);
	assert(port->life->set.is_out);
	port->life->set.is_out = false;
	rc = port->life->set.rc;
	memcpy(wanted, port->life->set.wanted, sizeof(wanted));
	is_lost = port->life->set.is_lost;
	port->life->set.is_lost = false;
	lost_count = mt_port_lease_losses(port);
	(void)pthread_mutex_unlock(&port->life->lock);
	port->life->set.has_come = true;
	if (port->sm.state > MT_PORT_RUNNING)
		return; /* too late; what is still in flight has no lease any more */
	mt_port_lease_heard(port, lost_count);
	if (port->sm.state != MT_PORT_RUNNING || !port->life->set.has_begun)
		return; /* begin looks at it */
	for (uint32_t i = 0; i < port->shard_count && is_lost; i++) {
		port->shards[i].life->is_wanted = port->shards[i].life->is_releasing = false;
		mt_shard_stop(&port->shards[i], -ESTALE);
	}
	if (is_lost)
		mt_hot_pages_revoke(port);
	if (rc == 0)
		port_tell_shards(port, wanted);
}

void
mt_port_shards(struct mt_port *port, const uint64_t wanted[MT_SHARD_SET_WORDS], int rc)
{
	bool was_out;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(rc == 0 || rc == -ESTALE);
	(void)pthread_mutex_lock(&port->life->lock);
	memcpy(port->life->set.wanted, wanted, sizeof(port->life->set.wanted));
	port->life->set.rc = rc;
	port->life->set.is_lost = port->life->set.is_lost || rc != 0;
	if (rc != 0)
		mt_port_lease_lose(port);
	was_out = port->life->set.is_out;
	port->life->set.is_out = true;
	(void)pthread_mutex_unlock(&port->life->lock);
	if (was_out)
		return;
	port->life->set.post = (struct loop_post){ .fn = port_on_set, .arg = port };
	loop_post(port->loop, &port->life->set.post);
}

void
mt_port_shards_begin(struct mt_port *port)
{
	uint64_t wanted[MT_SHARD_SET_WORDS];

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(port->sm.state == MT_PORT_RUNNING && !port->life->set.has_begun);
	port->life->set.has_begun = true;
	memset(wanted, 0xff, sizeof(wanted));
	if (port->life->set.has_come) {
		(void)pthread_mutex_lock(&port->life->lock);
		memcpy(wanted, port->life->set.wanted, sizeof(wanted));
		if (port->life->set.rc != 0)
			memset(wanted, 0, sizeof(wanted)); /* no lease: the next one says */
		(void)pthread_mutex_unlock(&port->life->lock);
	}
	port_tell_shards(port, wanted);
}
