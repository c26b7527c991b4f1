/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h -- the event loop seam: timers, deferred calls, file descriptors, time, randomness
 *
 * Every daemon is a set of handlers that a loop calls; a handler never blocks. Two implementations:
 * loop_ev_create (libev, real time) and loop_sim_create (virtual time, one scheduler for a whole
 * simulated cluster; a loop per simulated process). All objects are embedded in their users and
 * linked intrusively: nothing here allocates after creation.
 *
 * Threads: a loop and everything attached to it belongs to one thread. The only call that another
 * thread may make is loop_post.
 *
 * One loop turn: descriptors and timers first, then deferred calls (including those deferred
 * meanwhile by other handlers of this turn, up to LOOP_DEFER_ROUNDS_MAX rounds), then the turn-end
 * hooks (loop_turn_end_add) in registration order: transports flush their sends there, disks submit.
 */
#ifndef CLEAVE_LOOP_H
#define CLEAVE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOOP_DEFER_ROUNDS_MAX 64

struct loop;
struct loop_timer;
struct loop_task;
struct loop_fd;
struct loop_post;

/* Intrusive doubly linked node; {NULL, NULL} means "in no list". */
struct loop_link {
	struct loop_link *next;
	struct loop_link *prev;
};

/* A one-shot timer. Zero-initialise, then loop_timer_init. */
struct loop_timer {
	struct loop_link link; /* owned by the loop */
	void (*fn)(struct loop_timer *timer, void *arg);
	void *arg;
	uint64_t due_ns;     /* loop_now_ns at which it fires; owned by the loop */
	uint64_t sequence;   /* ties are broken by start order; owned by the loop */
	uint32_t heap_index; /* owned by the loop */
	bool is_active;
};

/* A call to make later in this turn, or early in the next one. */
struct loop_task {
	struct loop_link link;
	void (*fn)(struct loop_task *task, void *arg);
	void *arg;
	bool is_queued;
};

enum loop_fd_events { LOOP_READABLE = 1, LOOP_WRITABLE = 2 };

/* Interest in a file descriptor, level triggered. Real loop only (-ENOTSUP in the simulator). */
struct loop_fd {
	struct loop_link link;
	void (*fn)(struct loop_fd *watcher, unsigned events, void *arg);
	void *arg;
	void *impl; /* the loop's own watcher */
	int fd;
	unsigned events;
};

/* A message from another thread. Owned by the loop from loop_post until @fn is called. */
struct loop_post {
	struct loop_post *next;
	void (*fn)(struct loop_post *post, void *arg);
	void *arg;
};

/* A hook that runs at the end of each turn in which anything else ran. */
struct loop_turn_end {
	struct loop_link link;
	void (*fn)(struct loop_turn_end *hook, void *arg);
	void *arg;
};

struct loop_ops {
	const char *name;
	void (*destroy)(struct loop *loop);
	uint64_t (*now_ns)(struct loop *loop);
	uint64_t (*now_fresh_ns)(struct loop *loop);
	void (*timer_start)(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);
	void (*timer_stop)(struct loop *loop, struct loop_timer *timer);
	int (*fd_start)(struct loop *loop, struct loop_fd *watcher);
	void (*fd_modify)(struct loop *loop, struct loop_fd *watcher, unsigned events);
	void (*fd_stop)(struct loop *loop, struct loop_fd *watcher);
	void (*post)(struct loop *loop, struct loop_post *post);
	void (*wake)(struct loop *loop); /* a task was queued: do not sleep */
	int (*run)(struct loop *loop, bool (*until)(void *arg), void *arg);
	uint64_t (*now_boot_ns)(struct loop *loop);
};

/* The part every implementation begins with. */
struct loop {
	uint32_t magic;
	const struct loop_ops *ops;
	struct loop_link tasks;
	struct loop_link turn_ends;
	uint64_t random_state[4];
	bool is_running;
	bool is_stopping;
	bool is_halted; /* simulator: the process was paused or killed; the turn goes no further */
};

/*
 * loop_ev_create -- a loop in real time, on libev; @seed 0: seeded from getrandom
 *
 * Ownership: the caller's until loop_destroy.
 * Returns:   the loop, or NULL with errno.
 * Errors:    ENOMEM; EMFILE, ENFILE no descriptor for its timer and wake-ups.
 * Threads:   any; from then on it belongs to the thread that runs it.
 */
struct loop *loop_ev_create(uint64_t seed);

/*
 * loop_destroy -- end a loop; NULL is a no-op
 *
 * Ownership: @loop is gone; every timer, task, watcher and hook must have been stopped before.
 * Threads:   the loop's, outside of loop_run.
 */
void loop_destroy(struct loop *loop);

/*
 * loop_now_ns -- monotonic time in nanoseconds, as of the start of this turn's handlers
 *
 * Ownership: borrows @loop during the call.
 * Returns:   CLOCK_MONOTONIC, read once a turn; outside of a turn read anew. Simulator: virtual time.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint64_t loop_now_ns(struct loop *loop);

/*
 * loop_now_fresh_ns -- monotonic time in nanoseconds, read anew
 *
 * Ownership: borrows @loop during the call.
 * Returns:   the time, never before loop_now_ns.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint64_t loop_now_fresh_ns(struct loop *loop);

/*
 * loop_now_boot_ns -- nanoseconds since the host booted, those among them that it was suspended for, read anew
 *
 * The other two clocks, and timers, stand still while the host is suspended. Nothing but a difference of two of these
 * times means anything.
 * Ownership: borrows @loop during the call.
 * Returns:   CLOCK_BOOTTIME. Simulator: virtual time, as the others.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint64_t loop_now_boot_ns(struct loop *loop);

/*
 * loop_random_u64 -- a number of the loop's seeded generator (xoshiro256**). Not for secrets.
 *
 * Ownership: borrows @loop during the call.
 * Returns:   64 random bits.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint64_t loop_random_u64(struct loop *loop);

/*
 * loop_random_below -- a number of the same generator, uniform in [0, @limit); @limit > 0
 *
 * Ownership: borrows @loop during the call.
 * Returns:   the number.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint64_t loop_random_below(struct loop *loop, uint64_t limit);

/*
 * loop_timer_init -- make @timer ready to be started
 *
 * Ownership: @timer is the caller's, who keeps it until it has fired or was stopped.
 * Threads:   the loop's.
 */
void loop_timer_init(struct loop_timer *timer, void (*fn)(struct loop_timer *, void *), void *arg);

/*
 * loop_timer_start -- fire once, after @delay_ns, and not in this turn; restarts a running timer
 *
 * Ownership: @timer is the loop's until it fires or is stopped. Its @fn may free it.
 * Threads:   the loop's.
 */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);

/*
 * loop_timer_stop -- @timer does not fire; no-op when it is not running
 *
 * Ownership: @timer is the caller's again.
 * Threads:   the loop's.
 */
void loop_timer_stop(struct loop *loop, struct loop_timer *timer);

/*
 * loop_task_init -- make @task ready to be deferred
 *
 * Ownership: @task is the caller's, who keeps it until it has run or was canceled.
 * Threads:   the loop's.
 */
void loop_task_init(struct loop_task *task, void (*fn)(struct loop_task *, void *), void *arg);

/*
 * loop_defer -- run @task once, after the present handler has returned; no-op when it is queued
 *
 * Ownership: @task is the loop's until it runs or is canceled. Its @fn may free it.
 * Threads:   the loop's.
 */
void loop_defer(struct loop *loop, struct loop_task *task);

/*
 * loop_task_cancel -- @task does not run; no-op when it is not queued
 *
 * Ownership: @task is the caller's again.
 * Threads:   the loop's.
 */
void loop_task_cancel(struct loop *loop, struct loop_task *task);

/*
 * loop_fd_init -- make @watcher ready to watch @fd
 *
 * Ownership: @watcher and @fd are the caller's, who keeps both until loop_fd_stop.
 * Threads:   the loop's.
 */
void loop_fd_init(struct loop_fd *watcher, int fd, void (*fn)(struct loop_fd *, unsigned, void *),
    void *arg);

/*
 * loop_fd_start -- call @watcher's handler in each turn in which one of @events (loop_fd_events) is true
 *
 * Ownership: @watcher is the loop's until loop_fd_stop.
 * Returns:   0; else it is not watched.
 * Errors:    -EBADF @fd is negative; -ENOMEM; -ENOTSUP in the simulator.
 * Threads:   the loop's.
 */
int loop_fd_start(struct loop *loop, struct loop_fd *watcher, unsigned events);

/*
 * loop_fd_modify -- watch for other events; 0: for none; no-op when it was not started
 *
 * Ownership: @watcher stays the loop's.
 * Threads:   the loop's.
 */
void loop_fd_modify(struct loop *loop, struct loop_fd *watcher, unsigned events);

/*
 * loop_fd_stop -- watch no more; no-op when it was not started. Before the descriptor is closed.
 *
 * Ownership: @watcher is the caller's again.
 * Threads:   the loop's.
 */
void loop_fd_stop(struct loop *loop, struct loop_fd *watcher);

/*
 * loop_turn_end_add -- call @fn at the end of each turn in which anything else ran
 *
 * Ownership: @hook is the loop's until loop_turn_end_remove.
 * Threads:   the loop's.
 */
void loop_turn_end_add(struct loop *loop, struct loop_turn_end *hook,
    void (*fn)(struct loop_turn_end *, void *), void *arg);

/*
 * loop_turn_end_remove -- call it no more; also from a hook
 *
 * Ownership: @hook is the caller's again.
 * Threads:   the loop's.
 */
void loop_turn_end_remove(struct loop *loop, struct loop_turn_end *hook);

/*
 * loop_post -- hand @post to @loop: its @fn is called on the loop's thread, in order of each sender's posts
 *
 * Lock-free; wakes the loop at most once a turn.
 * Ownership: @post is the loop's until @post->fn is called. The loop must outlive it.
 * Threads:   any.
 */
void loop_post(struct loop *loop, struct loop_post *post);

/*
 * loop_run -- run handlers until loop_stop, or until @until(@arg) is true (asked before each turn)
 *
 * Ownership: @until may be NULL; @arg is only handed on.
 * Returns:   0.
 * Errors:    -EBUSY called from a handler; -EDEADLK (simulator) nothing is left to run.
 * Threads:   the loop's: who runs it is that.
 */
int loop_run(struct loop *loop, bool (*until)(void *arg), void *arg);

/*
 * loop_stop -- make loop_run return after this turn; the next loop_run, when none is running
 *
 * Ownership: borrows @loop during the call.
 * Threads:   the loop's; from another one post something that calls it.
 */
void loop_stop(struct loop *loop);

/*
 * loop_is_running -- is this the inside of a handler? Then nothing may block.
 *
 * Ownership: borrows @loop during the call.
 * Returns:   true inside of loop_run.
 * Errors:    none.
 * Threads:   the loop's.
 */
bool loop_is_running(const struct loop *loop);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_LOOP_H */
