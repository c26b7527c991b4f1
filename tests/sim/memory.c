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

#include "check.h"

uint64_t
sim_memory_bytes(const struct sim_cluster *cluster)
{
	struct mallinfo2 info = mallinfo2();
	uint64_t bytes = info.uordblks + info.hblkhd;

	if (bytes == 0)
		return 0; /* a sanitizer's allocator, which does not count */
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		bytes -= disk_sim_held_bytes(cluster->nodes[i].disk);
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
