/* SPDX-License-Identifier: Apache-2.0 */
/* view_lost.h -- gateways that lived, and are gone: did they leave, or die? */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_LOST_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"

struct mt_member;
struct mt_member_peer;

#define MT_LOST_MAX 16u /* the latest */

/* A gateway whose key has gone, and which has not come back. */
struct mt_lost_gateway {
	uint64_t gateway_id, boot_id;
	uint64_t since_ns;
	bool
	    is_dead; /* it had shards that it did not give back; else the roots have yet to be read */
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* of its first port */
};

struct mt_lost {
	struct mt_lost_gateway gateways[MT_LOST_MAX];
	uint32_t count;
};

/* mt_lost_note -- the keys were read: who is not among @peers any more, and who is there again. Before they are taken. */
void mt_lost_note(struct mt_member *member, const struct mt_member_peer *peers,
    uint32_t peer_count);
/*
 * mt_lost_judge -- the roots were read behind the keys: who is gone and still named by one has died
 *
 * An event each: gateway-lost, or gateway-left, which is forgotten. One that is drained is waited for by nobody.
 */
void mt_lost_judge(struct mt_member *member);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_LOST_H */
