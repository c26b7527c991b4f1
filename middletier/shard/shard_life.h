/* SPDX-License-Identifier: Apache-2.0 */
/* shard_life.h -- what shard.c and its port know of a shard's lives, and no part does */
#ifndef CLEAVE_MIDDLETIER_SHARD_SHARD_LIFE_H
#define CLEAVE_MIDDLETIER_SHARD_SHARD_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "common/shard_state.h"

struct mt_shard_life {
	bool is_wanted;         /* by the last set that the port was given */
	bool is_releasing;      /* STOPPED: the root is to say so before it is IDLE */
	bool is_claimed;        /* its root may name us, and not say that it is released */
	uint32_t short_count;   /* IDLE, wanted: how often its port had no memory for it */
	const char *failed_why; /* its take-over ended so, and would again; NULL: it did not */
	struct loop_timer take_timer; /* short: tries again */
	struct loop_timer quiet_timer;
	uint64_t quiet_wait_ns;
	/* port.c: main is told the newest; under the port's lock. */
	struct mt_shard_report {
		struct loop_post post;
		enum mt_shard_state state;
		uint32_t epoch;
		bool is_out;
	} report;
};

#endif /* CLEAVE_MIDDLETIER_SHARD_SHARD_LIFE_H */
