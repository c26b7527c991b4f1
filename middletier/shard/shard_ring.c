/* SPDX-License-Identifier: Apache-2.0 */
/* shard_ring.c -- a shard's ring, of the memory that its port has for all */
#include "shard/shard_ring.h"

#include <errno.h>

#include "base/check.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/ring.h"
#include "write/write_job.h"

/* The memory of all rings, when the last has gone. */
static void
ring_pool_try_give(struct mt_port *port)
{
	if (port->ring_count > 0)
		return;
	mt_ring_pool_destroy(port->ring_pool);
	port->ring_pool = NULL;
}

int
mt_shard_ring_take(struct mt_shard *shard)
{
	struct mt_port *port = shard->port;

	assert(shard->ring == NULL);
	assert(port->ring_count <= port->ring_max);
	if (port->ring_count == port->ring_max)
		return -ENOBUFS;
	if (port->ring_pool == NULL)
		port->ring_pool = mt_ring_pool_create(port,
		    port->ring_max * (port->ring_bytes - mt_write_jobs_device_bytes(shard->write)),
		    port->ring_max);
	if (port->ring_pool != NULL)
		shard->ring = mt_ring_create(port->ring_pool, shard);
	if (shard->ring == NULL) {
		ring_pool_try_give(port);
		return -ENOMEM;
	}
	port->ring_count++;
	return 0;
}

void
mt_shard_ring_reset(struct mt_shard *shard)
{
	if (shard->ring != NULL)
		mt_ring_reset(shard->ring);
}

void
mt_shard_ring_give(struct mt_shard *shard)
{
	if (shard->ring == NULL)
		return;
	assert(shard->port->ring_count > 0);
	mt_ring_destroy(shard->ring);
	shard->ring = NULL;
	shard->port->ring_count--;
	ring_pool_try_give(shard->port);
}
