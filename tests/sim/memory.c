/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c -- what a cluster that has nothing to do holds on to; see check.h
 *
 * All processes live in this one, so its allocator's count is theirs. It is compared between a gateway
 * that has lived through all faults and a new one, and between periods of leases, sweeps, scrubs and
 * reading: what one leaves behind, the next would leave behind again.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>

#include "base/list.h"
#include "check.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "splitlib/core/port.h"
#include "splitlib/core/qp.h"
#include "splitlib/core/sealed.h"
#include "storage-node/node_state.h"

/* States of GnuTLS' that seal and open, about. */
#define MEMORY_SEALED_BYTES 8192u

/*
 * A sealed connection has a room of a message of the longest kind at each end, and there are more or fewer connections
 * at any moment. Both ends are counted of those that came in to @port from clients, into which nobody looks here: at a
 * node (@is_node) these are readers.
 */
static bool
memory_is_client(const struct split_qp *qp, bool is_node)
{
	const struct sn_peer *peer = is_node ? split_qp_arg(qp) : NULL;

	return qp->is_acceptor && (!is_node || (peer != NULL && peer->is_reader));
}

static uint64_t
memory_sealed_bytes(const struct split_port *port, bool is_node)
{
	uint64_t bytes = 0;

	for (const struct loop_link *link = port->qps.next; link != &port->qps; link = link->next) {
		const struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		if (qp->sealed != NULL)
			bytes += (memory_is_client(qp, is_node) ? 2 : 1) *
			    (malloc_usable_size(qp->sealed->room) + MEMORY_SEALED_BYTES);
	}
	return bytes;
}

uint64_t
sim_memory_bytes(const struct sim_cluster *cluster)
{
	struct mallinfo2 info = mallinfo2();
	uint64_t bytes = info.uordblks + info.hblkhd;

	if (bytes == 0)
		return 0; /* a sanitizer's allocator, which does not count */
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		bytes -= disk_sim_held_bytes(cluster->nodes[i].disk);
	for (uint32_t i = 0; i < cluster->options.node_count && cluster->keys != NULL; i++)
		if (cluster->nodes[i].node != NULL)
			bytes -= memory_sealed_bytes(cluster->nodes[i].node->port, true);
	for (uint32_t i = 0; i < cluster->options.gateway_count && cluster->keys != NULL; i++)
		for (uint32_t k = 0; cluster->gateways[i].gateway != NULL &&
		     k < cluster->gateways[i].gateway->port_count;
		     k++)
			bytes -= memory_sealed_bytes(cluster->gateways[i].gateway->ports[k].split,
			    false);
	return bytes;
}

void
sim_check_memory(struct sim_cluster *cluster, uint64_t bytes, uint64_t than_bytes,
    uint64_t slack_bytes, const char *what)
{
	if (bytes > than_bytes + slack_bytes)
		sim_cluster_fail(cluster, "%" PRIu64 " bytes of memory, %" PRIu64 " more than %s",
		    bytes, bytes - than_bytes, what);
}
