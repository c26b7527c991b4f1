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

/* loop_ev_create -- a loop on libev. Returns NULL with errno set. @seed 0: seeded from getrandom. */
struct loop *loop_ev_create(uint64_t seed);

/* loop_destroy -- NULL is a no-op. Every timer, task and watcher must have been stopped before. */
void loop_destroy(struct loop *loop);

/*
 * loop_now_ns -- monotonic time in nanoseconds, as of the start of this turn's handler batch
 *
 * Real loop: CLOCK_MONOTONIC, cached per turn (libev's ev_now rule); loop_now_fresh_ns asks anew.
 */
uint64_t loop_now_ns(struct loop *loop);
uint64_t loop_now_fresh_ns(struct loop *loop);

/* loop_random_u64 -- the loop's seeded generator (xoshiro256**). Not for secrets. */
uint64_t loop_random_u64(struct loop *loop);

/* loop_random_below -- uniform in [0, @limit); @limit > 0. */
uint64_t loop_random_below(struct loop *loop, uint64_t limit);

void loop_timer_init(struct loop_timer *timer, void (*fn)(struct loop_timer *, void *), void *arg);
/* loop_timer_start -- fire once after @delay_ns; restarts a running timer. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);
/* loop_timer_stop -- no-op when it is not running. */
void loop_timer_stop(struct loop *loop, struct loop_timer *timer);

void loop_task_init(struct loop_task *task, void (*fn)(struct loop_task *, void *), void *arg);
/* loop_defer -- run @task once, after the present handler has returned. No-op when queued. */
void loop_defer(struct loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop *loop, struct loop_task *task);

void loop_fd_init(struct loop_fd *watcher, int fd, void (*fn)(struct loop_fd *, unsigned, void *),
    void *arg);
int loop_fd_start(struct loop *loop, struct loop_fd *watcher, unsigned events);
void loop_fd_modify(struct loop *loop, struct loop_fd *watcher, unsigned events);
void loop_fd_stop(struct loop *loop, struct loop_fd *watcher);

void loop_turn_end_add(struct loop *loop, struct loop_turn_end *hook,
    void (*fn)(struct loop_turn_end *, void *), void *arg);
void loop_turn_end_remove(struct loop *loop, struct loop_turn_end *hook);

/*
 * loop_post -- hand @post to @loop from any thread
 *
 * Calls @post->fn on the loop's thread, in posting order per sender. Lock-free, wakes the loop at
 * most once per turn. The loop must outlive it.
 */
void loop_post(struct loop *loop, struct loop_post *post);

/*
 * loop_run -- run handlers until loop_stop, or until @until(@arg) is true (checked before each turn)
 *
 * Returns 0; -EBUSY when called from a handler; -EDEADLK (simulator) when nothing is left to run.
 */
int loop_run(struct loop *loop, bool (*until)(void *arg), void *arg);
/* loop_stop -- makes loop_run return after this turn; the next loop_run when none is running. */
void loop_stop(struct loop *loop);
/* loop_is_running -- true inside a handler: dev_poll must not block then. */
bool loop_is_running(const struct loop *loop);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_LOOP_H */
