/* SPDX-License-Identifier: Apache-2.0 */
/* merge_peers.h -- ports of other gateways that merges may go to, and when each is asked again; owned by merge_away.c */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_PEERS_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/message.h"
#include "cleave/split.h"
#include "common/limits.h"
#include "extent/peer_link.h"
#include "merge/merge_away.h"

struct loop;
struct merge_peers;

struct merge_peer {
	struct merge_peers *peers;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct mt_peer_request request;
	uint8_t message[WIRE_HEADER_BYTES];
	bool is_out;            /* the request */
	bool has_room;          /* it has said so, this time */
	uint32_t busy;          /* has_room: per mille */
	uint64_t not_before_ns; /* it is not asked again */
	uint64_t failed_ns;     /* how long it is left alone when it fails next */
	uint32_t watch_count;   /* all of so many pieces that it makes next is read back */
};

struct merge_peers {
	struct loop *loop;
	void *arg;
	struct merge_peer items[MT_GATEWAYS_MAX];
	uint32_t count;
	struct mt_away_names next; /* is_new: they count from the next merge on */
	bool is_new;
};

/* mt_merge_peers_init -- nobody is known yet; @arg is the owner's. */
void mt_merge_peers_init(struct merge_peers *peers, struct loop *loop, void *arg);
/* mt_merge_peers_names -- these count from the next merge on. Copied. */
void mt_merge_peers_names(struct merge_peers *peers, const struct mt_away_names *names);
/* mt_merge_peers_take -- a merge begins, and no request is out: who was known already stays as it is. */
void mt_merge_peers_take(struct merge_peers *peers);
/* mt_merge_peers_are_quiet -- no request is out. */
bool mt_merge_peers_are_quiet(const struct merge_peers *peers);
/* mt_merge_peers_are_hopeful -- somebody may be asked. */
bool mt_merge_peers_are_hopeful(const struct merge_peers *peers);
/* mt_merge_peer_is_due -- it may be asked. */
bool mt_merge_peer_is_due(const struct merge_peer *peer);
/*
 * mt_merge_peer_leave_alone -- it is not asked for @ns. _failed: for a second, twice as long each time, up to a minute, and
 * is watched; _is_well: it has done what was asked, begins with a second again, and is watched less.
 */
void mt_merge_peer_leave_alone(struct merge_peer *peer, uint64_t ns);
void mt_merge_peer_failed(struct merge_peer *peer);
void mt_merge_peer_is_well(struct merge_peer *peer);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_PEERS_H */
