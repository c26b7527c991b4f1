/* SPDX-License-Identifier: Apache-2.0 */
/* load_rate.c -- see load_rate.h */
#include "load_rate.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"

static void
rate_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct load_rate *rate = arg;
	uint64_t count;

	assert(rate->per_s > 0);
	(void)events;
	assert(watcher->fd == rate->fd);
	if (read(rate->fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		rate->fn(rate->arg);
}

int
load_rate_init(struct load_rate *rate, struct loop *loop, uint64_t per_s, void (*fn)(void *arg),
    void *arg)
{
	assert(per_s == 0 || (loop != NULL && fn != NULL));
	*rate = (struct load_rate){ .per_s = per_s, .loop = loop, .fd = -1, .fn = fn, .arg = arg };
	if (per_s == 0)
		return 0;
	rate->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (rate->fd < 0)
		return -errno;
	loop_fd_init(&rate->watcher, rate->fd, rate_on_readable, rate);
	return loop_fd_start(loop, &rate->watcher, LOOP_READABLE);
}

void
load_rate_fini(struct load_rate *rate)
{
	assert(rate->loop == NULL || rate->per_s > 0 || rate->fd < 0);
	if (rate->loop == NULL || rate->fd < 0)
		return;
	loop_fd_stop(rate->loop, &rate->watcher);
	(void)close(rate->fd); /* nothing was written to it */
	rate->fd = -1;
}

uint64_t
load_rate_due_ns(const struct load_rate *rate, uint64_t issued_count, uint64_t now_ns)
{
	assert(rate->per_s == 0 || issued_count / rate->per_s < UINT64_MAX / NUM_S(1));
	if (rate->per_s == 0)
		return now_ns;
	return rate->started_ns + issued_count / rate->per_s * NUM_S(1) +
	    issued_count % rate->per_s * NUM_S(1) / rate->per_s;
}

void
load_rate_arm(struct load_rate *rate, uint64_t issued_count)
{
	uint64_t at_ns = load_rate_due_ns(rate, issued_count, 0);
	struct itimerspec spec = {
		.it_value = { .tv_sec = (time_t)(at_ns / NUM_S(1)),
		    .tv_nsec = (long)(at_ns % NUM_S(1)) },
	};

	assert(rate->per_s == 0 || rate->loop != NULL);
	if (rate->fd < 0 || rate->armed_ns == at_ns)
		return;
	assert(rate->started_ns > 0); /* 0 would disarm it */
	rate->armed_ns = at_ns;
	(void)timerfd_settime(rate->fd, TFD_TIMER_ABSTIME, &spec,
	    NULL); /* the arguments are good */
}
