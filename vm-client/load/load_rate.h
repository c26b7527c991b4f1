/* SPDX-License-Identifier: Apache-2.0 */
/* load_rate.h -- when each request of a run is due, and a wake-up then */
#ifndef CLEAVE_VM_CLIENT_LOAD_RATE_H
#define CLEAVE_VM_CLIENT_LOAD_RATE_H

#include <stdint.h>

#include "cleave/loop.h"

struct load_rate {
	uint64_t per_s;      /* requests a second; 0: as fast as they go */
	uint64_t started_ns; /* when the first one is due; the owner's to set */
	struct loop *loop;
	struct loop_fd watcher; /* of a timerfd: libev's own timers are no finer than 1 ms */
	int fd;                 /* -1: per_s is 0 */
	uint64_t armed_ns;      /* fd wakes then */
	void (*fn)(void *arg);
	void *arg;
};

/* load_rate_init -- @fn is called on the loop when load_rate_arm's time has come. 0 or -errno. */
int load_rate_init(struct load_rate *rate, struct loop *loop, uint64_t per_s, void (*fn)(void *arg),
    void *arg);
/* load_rate_fini -- also of one that is zero, or whose init failed. */
void load_rate_fini(struct load_rate *rate);
/* load_rate_due_ns -- when request number @issued_count (from 0) is due; without a rate: @now_ns. */
uint64_t load_rate_due_ns(const struct load_rate *rate, uint64_t issued_count, uint64_t now_ns);
/* load_rate_arm -- call fn when request number @issued_count is due; without a rate: nothing. */
void load_rate_arm(struct load_rate *rate, uint64_t issued_count);

#endif /* CLEAVE_VM_CLIENT_LOAD_RATE_H */
