/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_stale.h -- a node knows a newer owner of the shard */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_STALE_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_STALE_H

#include <stdint.h>

#include "common/root.h"

struct loop_timer;
struct mt_takeover;

/* A root that was found stale, so that it is left alone for longer and longer. It outlives the shard's lives. */
struct mt_stale_root {
	uint32_t count;    /* how often in a row; 0: it is not, and the others mean nothing */
	uint64_t until_ns; /* it is not looked at before, unless it changes */
	struct mt_root root;
};

/* mt_takeover_check_stale -- read the root again, as often as it takes; ends in mt_shard_stop. */
void mt_takeover_check_stale(struct mt_takeover *takeover);
/* mt_takeover_on_stale_timer -- the root could not be read: try again. */
void mt_takeover_on_stale_timer(struct loop_timer *timer, void *arg);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_STALE_H */
