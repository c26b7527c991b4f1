/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starting.h -- what a gateway that does not serve yet waits for: for its log, and for its service manager
 *
 *	every STARTING_LOOK_NS: ask the ports ----> STATUS= what is waited for, when it has changed
 *	                                     |----> it has come further than ever: the manager waits longer
 *	                                     |----> no further for STARTING_LOG_NS: one line in the log
 *	                                     `----> nor for STARTING_PART_NS, and some shards serve: ready
 *
 * So a start that waits for nodes, or for a newer owner to go, ends when the manager's patience does, and
 * one that replays a long log does not. A gateway that serves a part is not to be ended for the rest.
 */
#ifndef CLEAVE_MIDDLETIER_START_STARTING_H
#define CLEAVE_MIDDLETIER_START_STARTING_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct mt_gateway;

#define MT_STARTING_TEXT_BYTES 512u

struct mt_starting {
	struct mt_gateway *gateway;
	struct loop_timer timer;
	uint64_t best;                            /* how far it has come */
	uint64_t best_ns;                         /* since when */
	bool is_asking;                           /* the ports */
	bool is_over;                             /* it serves, or is being stopped */
	bool is_part_told;                        /* ready, with what serves */
	char text[MT_STARTING_TEXT_BYTES];        /* what it waits for */
	char logged_text[MT_STARTING_TEXT_BYTES]; /* what of that the log has */
};

/* mt_starting_begin -- behind mt_gateway_start. Threads: main. */
void mt_starting_begin(struct mt_starting *starting, struct mt_gateway *gateway);
/*
 * mt_starting_end -- @is_ready: it serves, and the manager is told; else it is stopped, and the log gets
 * what it was waiting for. The second call does nothing.
 */
void mt_starting_end(struct mt_starting *starting, bool is_ready);
/* mt_starting_fini -- nothing is told any more; also of one that was never begun. */
void mt_starting_fini(struct mt_starting *starting);

#endif /* CLEAVE_MIDDLETIER_START_STARTING_H */
