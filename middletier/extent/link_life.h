/* SPDX-License-Identifier: Apache-2.0 */
/* link_life.h -- how a link comes up, and goes down: what this folder keeps of it, and nobody else knows */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_LIFE_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/level.h"
#include "cleave/loop.h"

struct mt_link_life {
	struct wire_level level; /* that hellos offer */
	struct loop_timer retry_timer;
	uint64_t backoff_ns;
	bool is_stopped;
	bool was_up;     /* at least once: the next time is a reconnect */
	bool is_refused; /* since it was up: it obeys a store that ours does not replace */
	uint32_t
	    replaced_at; /* link_store.c: which of the cluster's replaced stores it is told of next */
	/* node_trouble.c: of the failure that was last logged since it was up; 0: none. */
	uint32_t logged_crc;
};

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_LIFE_H */
