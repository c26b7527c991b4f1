/* SPDX-License-Identifier: Apache-2.0 */
/* merge_peers.c -- ports of other gateways that merges may go to, and when each is asked again */
#include "merge/merge_peers.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"

#define PEER_FAILED_MIN_NS NUM_S(1) /* one that failed is left alone, twice as long each time */
#define PEER_FAILED_MAX_NS NUM_S(60)
#define PEER_WATCH_NEW 2u /* pieces of one of whom nothing is known */
#define PEER_WATCH_FAILED 64u

void
mt_merge_peers_init(struct merge_peers *peers, struct loop *loop, void *arg)
{
	peers->loop = loop;
	peers->arg = arg;
	peers->count = 0;
	peers->is_new = false;
}

void
mt_merge_peers_names(struct merge_peers *peers, const struct mt_away_names *names)
{
	assert(names->count <= MT_GATEWAYS_MAX);
	peers->next = *names;
	peers->is_new = true;
}

void
mt_merge_peers_take(struct merge_peers *peers)
{
	const struct mt_away_names *next = &peers->next;

	assert(mt_merge_peers_are_quiet(peers));
	if (!peers->is_new)
		return;
	peers->is_new = false;
	for (uint32_t i = 0; i < next->count; i++) {
		struct merge_peer *peer = &peers->items[i];

		if (i < peers->count && strcmp(peer->address, next->addresses[i]) == 0)
			continue;
		*peer = (struct merge_peer){ .peers = peers,
			.failed_ns = PEER_FAILED_MIN_NS,
			.watch_count = PEER_WATCH_NEW };
		(void)snprintf(peer->address, sizeof(peer->address), "%s", next->addresses[i]);
	}
	peers->count = next->count;
}

bool
mt_merge_peers_are_quiet(const struct merge_peers *peers)
{
	for (uint32_t i = 0; i < peers->count; i++) {
		if (peers->items[i].is_out)
			return false;
	}
	return true;
}

bool
mt_merge_peers_are_hopeful(const struct merge_peers *peers)
{
	if (peers->is_new)
		return peers->next.count > 0;
	for (uint32_t i = 0; i < peers->count; i++) {
		if (mt_merge_peer_is_due(&peers->items[i]))
			return true;
	}
	return false;
}

bool
mt_merge_peer_is_due(const struct merge_peer *peer)
{
	return peer->not_before_ns <= loop_now_ns(peer->peers->loop);
}

void
mt_merge_peer_leave_alone(struct merge_peer *peer, uint64_t ns)
{
	assert(ns > 0);
	peer->not_before_ns = loop_now_ns(peer->peers->loop) + ns;
}

void
mt_merge_peer_failed(struct merge_peer *peer)
{
	mt_merge_peer_leave_alone(peer, peer->failed_ns);
	peer->failed_ns = num_min(2 * peer->failed_ns, PEER_FAILED_MAX_NS);
	peer->watch_count = PEER_WATCH_FAILED;
}

void
mt_merge_peer_is_well(struct merge_peer *peer)
{
	peer->failed_ns = PEER_FAILED_MIN_NS;
	if (peer->watch_count > 0)
		peer->watch_count--;
}
