/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchdog.h -- telling systemd's watchdog that a daemon's loops turn
 *
 *	main, every quarter of $WATCHDOG_USEC:   all loops have turned since the last time?
 *	        yes: WATCHDOG=1, and loop_post to each other loop; it turns: one atomic store on its thread
 *	        no:  nothing is told. A line names the first loop; when it lasts, systemd ends the process.
 *
 * Main's own loop has turned, or its timer would not run. An idle loop is woken by the post; a busy one pays a store.
 * What waits for a disk or for a peer is no concern of it: handlers do not block, so loops turn meanwhile.
 */
#ifndef CLEAVE_BASE_WATCHDOG_H
#define CLEAVE_BASE_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

#define WATCHDOG_LOOPS_MAX 16u

/* A loop of another thread. */
struct watchdog_loop {
	struct loop *loop;
	struct loop_post post; /* the loop's, until it has turned */
	atomic_bool has_turned;
};

/* All zeros: watchdog_stop has nothing to do. */
struct watchdog {
	const char *noun;
	struct loop *loop; /* NULL: nobody looks */
	struct loop_timer timer;
	uint64_t interval_ns;
	struct watchdog_loop others[WATCHDOG_LOOPS_MAX];
	uint32_t other_count;
	uint64_t fed_ns;
	bool is_late; /* and that was logged */
};

/*
 * watchdog_start -- feed the service manager's watchdog from @loop, as long as it turns; without one nothing is done
 *
 * Threads: @loop's, as of all calls.
 */
void watchdog_start(struct watchdog *watchdog, struct loop *loop, const char *noun);
/*
 * watchdog_watch -- answer for @other, which another thread runs, as well
 *
 * Ownership: @watchdog stays where it is, and @other runs, until watchdog_release, and then until it has run what was posted.
 */
void watchdog_watch(struct watchdog *watchdog, struct loop *other);
/* watchdog_release -- answer for other loops no more. Before anything is posted that ends them. */
void watchdog_release(struct watchdog *watchdog);
/* watchdog_stop -- nothing is told any more. Twice is as well as once. */
void watchdog_stop(struct watchdog *watchdog);

#endif /* CLEAVE_BASE_WATCHDOG_H */
