/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_shards.c -- a port's shards: which of them it shall own, and what has become of them
 *
 *	main: mt_port_shards --the newest set--> port: mt_shard_want each --> take-overs, releases
 *	main: host->on_shard <--the newest state of each-- port: mt_port_shards_on_state
 *
 * A port has a struct mt_shard for every number n with n % port_count == index, whoever owns it. Sets and states are
 * handed over under port->life->lock, the newest alone: a post that is out takes along what comes meanwhile. A lost lease
 * is no state but an event, so it is counted, and stays until the port has taken it.
 */
#include "port/port_shards.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "merge/merge_work.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_report.h"
#include "shard/shard.h"
#include "shard/shard_life.h"

#define PORT_RING_BYTES_MIN (4u * BATCH_BYTES_MAX)
#define PORT_SPARE_BYTES NUM_KIB(64) /* device memory for the zero page and the arena's edges */

/* ---- the shards that there are ---- */

static uint32_t
port_shard_count(const struct mt_port *port, uint32_t cluster_shard_count)
{
	uint32_t port_count = port->options->port_count;

	assert(port->index < port_count);
	return cluster_shard_count / port_count +
	    (port->index < cluster_shard_count % port_count ? 1 : 0);
}

/* Running. */

int
mt_port_shards_make(struct mt_port *port)
{
	uint64_t device_bytes = port->options->device_bytes;
	uint32_t cluster_shard_count = port->cluster->shard_count;
	uint32_t count = port_shard_count(port, cluster_shard_count);
	uint64_t taken_bytes = (uint64_t)port->receive_count * MT_PORT_RECEIVE_STRIDE_BYTES +
	    PORT_SPARE_BYTES + mt_merge_device_bytes(device_bytes);
	uint64_t ring_bytes = 0;

	assert(port->shards == NULL && port->shard_by_number == NULL);
	if (device_bytes > taken_bytes && count > 0)
		ring_bytes = (device_bytes - taken_bytes) / count;
	port->ring_bytes = num_round_down(ring_bytes, CLEAVE_BLOCK_BYTES);
	if (count > 0 && port->ring_bytes < PORT_RING_BYTES_MIN) {
		mt_port_fail(port,
		    "device-memory: too little for %" PRIu32 " shards a port: at least "
		    "%" PRIu64 " bytes",
		    count, taken_bytes + (uint64_t)count * PORT_RING_BYTES_MIN);
		return -EINVAL;
	}
	port->shard_by_number = mt_calloc(cluster_shard_count, sizeof(*port->shard_by_number));
	port->shards = mt_calloc(num_max(count, 1), sizeof(*port->shards));
	if (port->shards == NULL || port->shard_by_number == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = port->index + i * port->options->port_count;
		int rc = mt_shard_init(&port->shards[i], port, number);

		if (rc != 0)
			return rc;
		port->shard_count++;
		port->shard_by_number[number] = &port->shards[i];
	}
	return 0;
}

/* ---- what has become of them ---- */

/* Every shard that it shall own serves: told once, for the first time that it is so. */
static void
port_check_ready(struct mt_port *port)
{
	assert(port->shard_count == 0 || port->shards != NULL);
	if (port->life->is_ready || port->sm.state != MT_PORT_RUNNING || !port->life->set.has_begun)
		return;
	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_shard *shard = &port->shards[i];

		if (!shard->life->is_wanted && shard->sm.state == MT_SHARD_IDLE)
			continue;
		if (shard->sm.state != MT_SHARD_SERVING)
			return;
		port->ready_epoch = (uint32_t)num_max(port->ready_epoch, shard->epoch);
	}
	port->life->is_ready = true;
	mt_port_tell_ready(port);
}

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
	port->host->on_shard(port, shard->index, state, epoch);
}

void
mt_port_shards_on_state(struct mt_shard *shard)
{
	struct mt_port *port = shard->port;
	struct mt_shard_report *report = &shard->life->report;
	bool was_out;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(port->shard_by_number == NULL || port->shard_by_number[shard->index] == shard);
	port_check_ready(port);
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
	port_check_ready(port);
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
	lost_count = atomic_load_explicit(&port->lease_lost_count, memory_order_relaxed);
	(void)pthread_mutex_unlock(&port->life->lock);
	port->life->set.has_come = true;
	if (port->sm.state > MT_PORT_RUNNING)
		return; /* too late; what is still in flight has no lease any more */
	port->lease_heard_count = lost_count;
	if (port->sm.state != MT_PORT_RUNNING || !port->life->set.has_begun)
		return; /* begin looks at it */
	for (uint32_t i = 0; i < port->shard_count && is_lost; i++) {
		port->shards[i].life->is_wanted = port->shards[i].life->is_releasing = false;
		mt_shard_stop(&port->shards[i], -ESTALE);
	}
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
		atomic_fetch_add_explicit(&port->lease_lost_count, 1, memory_order_release);
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
