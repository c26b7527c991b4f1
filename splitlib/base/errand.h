/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errand.h -- work that blocks, on a thread of its own; a loop is told when it is done
 *
 *	loop's thread: errand_start --> waits --> [ work, on a thread ] --> done, on the loop's thread
 *	               errand_abandon ----'---------------'--> drop instead, and nobody waits for it
 *
 * A handler never blocks; what has no other form than a call that does (a name that is looked up, a file on
 * a disk that may be slow) is an errand. All of a process share ERRAND_THREADS_MAX threads, which are there
 * while there is work. Errands of the same key never run at once: the one that ends first hands its result
 * to those that still wait (share), so what hangs keeps one thread, however often it is asked for.
 *
 * Why not loop_post: a post cannot be taken back, and a loop must outlive it. An errand that hangs for half
 * a minute may not keep its loop alive. So the finished ones wait at a *desk* of their loop, which an
 * eventfd rings; a desk that is closed abandons what it had sent out, and waits for nobody.
 */
#ifndef CLEAVE_BASE_ERRAND_H
#define CLEAVE_BASE_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

#define ERRAND_THREADS_MAX 16u

struct errand_desk;

/* Within its owner's struct, which it may outlive nothing of: all that work needs is there. */
struct errand {
	/* Optional. While one of this key runs others of it wait. As long as the errand. */
	const char *key;
	/* On another thread, with all signals blocked. May block. Touches this errand alone. */
	void (*work)(struct errand *errand);
	/* With @key: takes the result of @finished, which is of the same key, instead of working. Any thread. */
	void (*share)(struct errand *errand, const struct errand *finished);
	/* On the desk's thread; the errand is the owner's again, who may free it. Does not close the desk. */
	void (*done)(struct errand *errand);
	/* Abandoned: frees it. Any thread. */
	void (*drop)(struct errand *errand);
	/* errand.c's. */
	struct errand_desk *desk;    /* NULL: abandoned */
	struct loop_link desk_link;  /* in the desk's errands */
	struct loop_link queue_link; /* waiting; running; or in the desk's finished */
	bool is_running;
};

struct errand_desk {
	struct loop *loop; /* NULL: errand_desk_wait */
	struct loop_fd watcher;
	struct loop_link errands, finished;
};

/*
 * errand_desk_init -- of @loop, or of nobody: then errand_desk_wait looks after it
 *
 * Returns: 0; -EMFILE, -ENFILE, -ENOMEM; -ENOTSUP in the simulator. Threads: the loop's.
 */
int errand_desk_init(struct errand_desk *desk, struct loop *loop);
/* errand_desk_fini -- abandon all errands of it. Does not wait. Threads: the loop's. */
void errand_desk_fini(struct errand_desk *desk);
/* errand_desk_wait -- of one without a loop: call done of what is finished; wait for it up to @timeout_ns. */
void errand_desk_wait(struct errand_desk *desk, uint64_t timeout_ns);
/*
 * errand_start -- have @errand done; its functions and key are set, the rest is zero
 *
 * Returns: 0: done or drop is called, once, later; -EAGAIN there is no thread for it: neither is.
 * Threads: the desk's.
 */
int errand_start(struct errand_desk *desk, struct errand *errand);
/* errand_abandon -- of one that is not done: drop is called, at once or when its work ends. Threads: the desk's. */
void errand_abandon(struct errand *errand);

#endif /* CLEAVE_BASE_ERRAND_H */
