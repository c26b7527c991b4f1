/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_sim.h -- virtual time: one seeded scheduler for the loops of a whole simulated cluster
 *
 * A *world* has one clock and one queue of events. Each simulated process has a loop in it; the
 * world's *nature* is one more loop, for what happens outside processes (the network, disks). The
 * same seed and the same program give the same history, event by event; the trace hash tells two
 * histories apart.
 *
 * Time stands still while handlers run, and jumps to the next event. Things due at one time run in
 * the order in which they were asked for, or, with sim_world_set_shuffle, in a seeded order between
 * loops (within a loop never).
 *
 * A turn of a loop: its timers that are due now, its posts, its deferred calls, its turn-end hooks.
 * Code that stands for the outside must reach a process through loop_post or loop_defer on that
 * process's loop, never by calling into it: a paused process would else go on running.
 *
 * Threads: a world belongs to one thread, loop_post included.
 */
#ifndef CLEAVE_SPLIT_LOOP_SIM_H
#define CLEAVE_SPLIT_LOOP_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cleave/loop.h"

#define SIM_LOOP_NAME_BYTES 32
#define SIM_WORLD_START_NS 1000000000u /* the clock's first reading, so that 0 is never "now" */
#define SIM_FOR_EVER UINT64_MAX

struct sim_world;

/* sim_world_create -- NULL with errno when out of memory. */
struct sim_world *sim_world_create(uint64_t seed);
/* sim_world_destroy -- with every loop still in it. NULL is a no-op. Not from a handler. */
void sim_world_destroy(struct sim_world *world);

/*
 * sim_loop_create -- the loop of one simulated process
 *
 * @name (cut at SIM_LOOP_NAME_BYTES - 1) is for traces. Its generator is seeded from the world's.
 * Descriptors cannot be watched: loop_fd_start gives -ENOTSUP. NULL with errno when out of memory.
 *
 * loop_destroy is a kill -9: everything pending is forgotten, no handler is called, and no timer,
 * task or post of the process is touched any more. It may be called from any handler; from one of
 * the loop's own, nothing more of the turn runs after that handler returns.
 */
struct loop *sim_loop_create(struct sim_world *world, const char *name);

/* sim_world_nature -- the loop for what happens outside processes; belongs to the world. */
struct loop *sim_world_nature(struct sim_world *world);

/*
 * sim_world_run -- run until @until(@arg) is true or the clock would pass @deadline_ns
 *
 * @until: asked before each turn; NULL: never true. @deadline_ns: SIM_FOR_EVER for none.
 * Returns: 0 when @until was true; -ETIME with the clock at @deadline_ns; -EDEADLK when nothing is
 * left to run; -EBUSY from a handler. loop_run on one of its loops does the same without deadline,
 * until that loop is stopped (0).
 */
int sim_world_run(struct sim_world *world, bool (*until)(void *arg), void *arg,
    uint64_t deadline_ns);

/* sim_world_now_ns -- the world's clock, from SIM_WORLD_START_NS on. */
uint64_t sim_world_now_ns(const struct sim_world *world);
/* sim_world_random_below -- the world's own generator: faults, schedules. @limit > 0. */
uint64_t sim_world_random_below(struct sim_world *world, uint64_t limit);
/* sim_world_running -- the name of the loop whose turn it is; "-": none's. */
const char *sim_world_running(const struct sim_world *world);
/* sim_world_event_count -- turns so far: how much work a run was. */
uint64_t sim_world_event_count(const struct sim_world *world);
/* sim_world_set_shuffle -- seeded order between loops that have something due at one time. */
void sim_world_set_shuffle(struct sim_world *world, bool is_on);

/*
 * sim_world_trace -- one more line of history
 *
 * Goes into the hash with the time and the present loop's id; printed as "virtual-time loop text"
 * when a file is set. Each timer, task and post that runs is traced by itself. Text must be the same
 * for the same seed: no addresses, no real time. At most 511 bytes, the rest is cut.
 */
void sim_world_trace(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* sim_world_trace_hash -- of all lines so far: equal histories have equal hashes. */
uint64_t sim_world_trace_hash(const struct sim_world *world);
/* sim_world_set_trace_file -- borrowed; NULL: print nothing. */
void sim_world_set_trace_file(struct sim_world *world, FILE *file);

/*
 * sim_loop_set_skew -- let @loop's clock step @offset_ns ahead, and from now on run @drift_ppm faster
 *
 * A monotonic clock never goes back, so the offset is not signed; @drift_ppm > -1000000. Timers that
 * run keep their due time on the loop's own clock.
 */
void sim_loop_set_skew(struct loop *loop, uint64_t offset_ns, int32_t drift_ppm);

/*
 * sim_loop_pause -- hold the process still from now on for @duration_ns
 *
 * Timers, tasks and posts that fall due meanwhile run at the end, in the order of their due times. From one of
 * the loop's own handlers, the rest of the turn waits too. 0 ends a pause; SIM_FOR_EVER has no end.
 */
void sim_loop_pause(struct loop *loop, uint64_t duration_ns);

/* sim_loop_id -- 0 for nature, then 1, 2, ... in order of creation; never used again. */
uint32_t sim_loop_id(const struct loop *loop);
/* sim_loop_name -- as given, cut; valid as long as the loop. */
const char *sim_loop_name(const struct loop *loop);
/* sim_loop_world -- the world that @loop belongs to. */
struct sim_world *sim_loop_world(const struct loop *loop);

#endif /* CLEAVE_SPLIT_LOOP_SIM_H */
