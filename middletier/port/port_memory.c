/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_memory.c -- how a port's device and host memory is shared out
 *
 *	device | receives: a quarter | merges | frames | ring | ring | ring | ...     as --device-memory says
 *	       | hot blocks                                                           beside it, as --hot-bytes says
 *	       | other gateways' merges, each as much as merges                       likewise, as --worker-jobs says
 *	host   | links and merges    | heads of batches, a share a ring       address space until it is used
 *	       | heads of other gateways' batches                              likewise, as --mirror-heads says
 *
 * A ring belongs to a shard from the beginning of its life here to its end (shard.c). All are equally long, so that a
 * hole which one leaves fits the next. Where all shards that the port may have to own find room, a ring is its share of
 * it; where they do not, it is as short as a ring may be, and the port takes as many shards as there are rings: a shard
 * of another gateway's costs nothing here.
 */
#include "port/port_memory.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "merge/merge_port.h"
#include "merge/merge_work.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_mirror.h"
#include "port/port_work.h"
#include "read/hot.h"
#include "read/read_frames.h"
#include "worker/worker.h"
#include "write/write_batch.h"

/* Host memory for links, merges and the transport; touched as it is used. */
#define PORT_HOST_BYTES NUM_MIB(8)
#define PORT_HOST_BYTES_MIN NUM_MIB(48)
/* A shard's batches, and its manifest's: a head for each replica. */
#define PORT_HOST_BYTES_A_SHARD                                                                    \
	((uint64_t)(WRITE_BATCHES_MAX + 1u) * MT_REPLICAS_MAX *                                    \
	    (WIRE_HEADER_BYTES + BATCH_HEAD_BYTES_MAX))
#define PORT_SEALED_BYTES_A_RECEIVE WIRE_HEADER_BYTES
/*
 * At least a quarter of the receives is for the nodes' replies. One copy may hold a window of those; all
 * replays together an eighth, or one receive a shard.
 */
#define PORT_RECEIVES_MIN 48u
#define PORT_RECEIVES_MAX 4096u
#define PORT_RING_BYTES_MIN (4u * BATCH_BYTES_MAX)
#define PORT_SPARE_BYTES NUM_KIB(64) /* device memory for the zero page and the arena's edges */
#define PORT_STEP_BYTES NUM_MIB(1)   /* of a --device-memory that is proposed */

uint32_t
mt_port_receive_count(const struct mt_port_options *options, uint64_t device_bytes)
{
	uint64_t count = device_bytes / 4 / MT_PORT_RECEIVE_STRIDE_BYTES;

	/* As many again for the replies of nodes: a read holds its request while a replica is read. */
	if (options->client_receives != 0)
		count = num_min(count, 2 * (uint64_t)options->client_receives);
	return (uint32_t)num_max(PORT_RECEIVES_MIN, num_min(count, PORT_RECEIVES_MAX));
}

/* The part of @device_bytes that is left for rings. */
static uint64_t
memory_for_rings(const struct mt_port_options *options, uint64_t device_bytes)
{
	uint64_t taken_bytes = (uint64_t)mt_port_receive_count(options, device_bytes) *
		MT_PORT_RECEIVE_STRIDE_BYTES +
	    PORT_SPARE_BYTES + mt_merge_device_bytes(device_bytes);

	if (options->settings->has_read_ahead)
		taken_bytes +=
		    mt_read_frames_device_bytes(options->settings->frame_bytes, device_bytes);
	return device_bytes > taken_bytes ? device_bytes - taken_bytes : 0;
}

static uint32_t
memory_ring_max(const struct mt_port_options *options, uint64_t ring_bytes)
{
	assert(ring_bytes >= PORT_RING_BYTES_MIN);
	return (uint32_t)num_min(memory_for_rings(options, options->device_bytes) / ring_bytes,
	    MT_PORT_RINGS_MAX);
}

/* The least --device-memory, in whole steps, with room for @count of the shortest rings. */
static uint64_t
memory_for_count(const struct mt_port_options *options, uint32_t count)
{
	uint64_t device_bytes =
	    num_round_up((uint64_t)count * PORT_RING_BYTES_MIN, PORT_STEP_BYTES);

	assert(count > 0 && count <= MT_PORT_RINGS_MAX);
	while (memory_for_rings(options, device_bytes) < (uint64_t)count * PORT_RING_BYTES_MIN)
		device_bytes += PORT_STEP_BYTES;
	return device_bytes;
}

uint64_t
mt_port_device_bytes_least(const struct mt_port_options *options)
{
	return memory_ring_max(options, PORT_RING_BYTES_MIN) > 0 ? 0 : memory_for_count(options, 1);
}

uint64_t
mt_port_device_bytes(const struct mt_port_options *options)
{
	uint64_t guest_bytes =
	    options->settings->has_recipes ? mt_merge_device_bytes(options->device_bytes) : 0;

	return options->device_bytes + guest_bytes +
	    mt_worker_device_bytes(options->settings, options->device_bytes) +
	    num_round_up(mt_hot_device_bytes(options->settings->hot_bytes), CLEAVE_BLOCK_BYTES);
}

int
mt_port_memory_take(struct mt_port *port)
{
	uint64_t device_bytes = port->life->options->device_bytes;
	int rc = 0;

	if (port->settings->has_read_ahead)
		rc = mt_read_frames_init(port, device_bytes);
	if (rc == 0)
		rc = mt_hot_init(port);
	if (rc == 0)
		rc = mt_merge_port_init(port, device_bytes);
	if (rc == 0)
		rc = mt_port_mirror_init(port);
	return rc == 0 ? mt_port_work_init(port) : rc;
}

uint64_t
mt_port_host_bytes(const struct mt_port_options *options)
{
	uint64_t bytes = PORT_HOST_BYTES + mt_worker_host_bytes(options->settings) +
	    memory_ring_max(options, PORT_RING_BYTES_MIN) * PORT_HOST_BYTES_A_SHARD;

	bytes = num_max(bytes, PORT_HOST_BYTES_MIN);
	/* A head is longer where messages may come sealed. */
	if (options->key != NULL)
		bytes += (uint64_t)mt_port_receive_count(options, options->device_bytes) *
		    PORT_SEALED_BYTES_A_RECEIVE;
	return bytes;
}

void
mt_port_rings_plan(struct mt_port *port, uint32_t shard_count)
{
	const struct mt_port_options *options = port->life->options;
	uint64_t bytes = memory_for_rings(options, options->device_bytes);
	uint32_t count = (uint32_t)num_min(shard_count, MT_PORT_RINGS_MAX);

	assert(port->ring_count == 0);
	if (count == 0)
		return;
	port->ring_bytes = num_round_down(bytes / count, CLEAVE_BLOCK_BYTES);
	port->ring_max = count;
	port->ring_all_device_bytes = memory_for_count(options, count);
	if (port->ring_bytes < PORT_RING_BYTES_MIN) {
		port->ring_bytes = PORT_RING_BYTES_MIN;
		port->ring_max = memory_ring_max(options, PORT_RING_BYTES_MIN);
	}
	assert(port->ring_max > 0); /* mt_port_device_bytes_least */
	if (port->ring_max < count)
		log_warn("port %" PRIu32 ": has room for %" PRIu32 " of the %" PRIu32
			 " shards that it may have to own, more wait: --device-memory %" PRIu64
			 "M has room for %" PRIu32,
		    port->index, port->ring_max, shard_count,
		    port->ring_all_device_bytes / NUM_MIB(1), count);
	else if (count < shard_count)
		log_warn("port %" PRIu32 ": takes at most %" PRIu32 " of the %" PRIu32
			 " shards that it may have to own, more wait: give the gateway more --port",
		    port->index, count, shard_count);
}
