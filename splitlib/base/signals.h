/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h -- a program's SIGTERM, SIGINT and SIGHUP, as events of its loop
 *
 * At most one struct signals in a process. SIGPIPE is ignored from signals_init on: a send says -EPIPE.
 */
#ifndef CLEAVE_BASE_SIGNALS_H
#define CLEAVE_BASE_SIGNALS_H

#include "cleave/loop.h"

#define SIGNALS_TEXT_BYTES 64u

struct signals;
typedef void (*signals_fn)(int number, void *arg);

/* All zeros: signals_fini has nothing to do. */
struct signals {
	uint32_t magic;
	struct loop *loop;
	struct loop_fd watcher;
	signals_fn fn;
	void *arg;
	char text[SIGNALS_TEXT_BYTES]; /* the last one, for people: "SIGTERM from pid=1 uid=0" */
};

/*
 * signals_init -- @fn(SIGTERM, SIGINT or SIGHUP, @arg) from the loop, once for each that comes
 *
 * All are blocked from here on, also behind signals_fini; call it before any thread is made, so that
 * every thread leaves them to the loop. Two of a kind that come before the loop runs are one.
 * Ownership: @loop outlives @signals.
 * Errors:    -EMFILE, -ENFILE, -ENOMEM no descriptor for them; -ENOTSUP a simulated loop. @signals is as
 *            if all zeros then.
 */
int signals_init(struct signals *signals, struct loop *loop, signals_fn fn, void *arg);
/* signals_fini -- no event comes from here on. Twice is as well as once. */
void signals_fini(struct signals *signals);

#endif /* CLEAVE_BASE_SIGNALS_H */
