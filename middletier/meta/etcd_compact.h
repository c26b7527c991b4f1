/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_compact.h -- the history of an etcd kept short
 *
 * By default etcd keeps every revision for ever, until its quota is used up and it takes no writes any more. So
 * some handle compacts every five minutes, to what was the newest revision five minutes before.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_COMPACT_H
#define CLEAVE_MIDDLETIER_META_ETCD_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"

struct etcd_call;
struct etcd_client;

struct etcd_compact {
	struct etcd_client *client;
	struct sm sm;
	struct etcd_call *call;
	struct loop_timer timer;
	uint64_t version;      /* of the key by which a turn is taken, as of the last look */
	uint64_t old_revision; /* the newest one at the last look */
};

/* etcd_compact_init -- @is_on false: leave the history to others. */
void etcd_compact_init(struct etcd_compact *compact, struct etcd_client *client, bool is_on);
void etcd_compact_fini(struct etcd_compact *compact);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_COMPACT_H */
