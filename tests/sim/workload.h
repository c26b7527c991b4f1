/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h -- a volume and the simulated VMs that use it: mixed requests, every read checked
 *
 * One session at a time works on the volume. Its process may be killed, and starts again with a new
 * session; or another host takes the volume over, while the old one still lives, has requests in
 * flight, and tries some more once the new one is served: those must be refused.
 *
 * Everything here is called from outside the processes.
 */
#ifndef CLEAVE_TESTS_SIM_WORKLOAD_H
#define CLEAVE_TESTS_SIM_WORKLOAD_H

#include "cluster.h"

#define WORKLOAD_IN_FLIGHT 16u
#define WORKLOAD_BLOCKS_MAX 16u /* of one request */
#define WORKLOAD_HOSTS 3u       /* for two sessions, and a companion */

struct workload;

struct workload_options {
	struct sim_cluster *cluster;
	uint32_t index;        /* uses client hosts WORKLOAD_HOSTS * index and the next */
	uint64_t volume_bytes; /* that are used, spread over ... */
	uint32_t chunk_count;  /* ... so many chunks, and so over shards */
	uint32_t op_count;
	uint32_t read_percent, discard_percent; /* the rest writes */
	uint32_t in_flight;                     /* at most WORKLOAD_IN_FLIGHT */
	uint64_t io_timeout_ns;                 /* 0: requests wait for ever */
	bool is_latency;                        /* of the latency class, not the standard one */
	bool is_rereading;                      /* most of what is read is read again and again */
	bool is_peeking;     /* ... block by block; and older sessions read more */
	bool is_observed;    /* snapshots when something is given up (observer.h) */
	bool is_accompanied; /* somebody reads, and asks for the volume, beside it (companion.h) */
	bool may_be_full;    /* a change may be answered ENOSPC; a read never */
};

struct workload_counters {
	uint64_t ops_done, ops_timed_out, ops_fenced, ops_refused, probes_refused, sessions;
	uint64_t observations; /* snapshots asked for */
	uint64_t cost_done;    /* of what was done, in operations as limits count them */
};

/* workload_create -- makes the volume; runs the world meanwhile. */
struct workload *workload_create(const struct workload_options *options);
/* workload_destroy -- its processes are killed. */
void workload_destroy(struct workload *workload);
/* workload_start -- begin; ends by itself after op_count operations. */
void workload_start(struct workload *workload);
bool workload_is_done(const struct workload *workload);
uint32_t workload_op_count(const struct workload *workload);
uint32_t workload_completed_count(const struct workload *workload);
const struct workload_counters *workload_counters(const struct workload *workload);
/* workload_verify_all -- read the whole volume; runs the world until done, at most @limit_ns. */
void workload_verify_all(struct workload *workload, uint64_t limit_ns, const char *what);

/* workload_kill -- the present session's process dies. */
void workload_kill(struct workload *workload);
/*
 * workload_restart -- if it is dead: anew. It takes the volume or waits for it, as the dice fall; where
 * the dead one was still to take it, it takes it.
 */
void workload_restart(struct workload *workload);
/* workload_takeover -- the other host attaches; what was there stays, as the old session. */
void workload_takeover(struct workload *workload);
/* workload_pause -- the present session's process stands still. */
void workload_pause(struct workload *workload, uint64_t duration_ns);
/*
 * workload_stop_clock -- the present session's clock stands still, as good as: until workload_start_clock, which lets
 * it catch up. Its process goes on. Nobody may count on its read leases ending meanwhile.
 */
void workload_stop_clock(struct workload *workload);
void workload_start_clock(struct workload *workload);
/* workload_peeked -- where in the volume the present session read last out of a gateway's memory. False: nowhere yet. */
bool workload_peeked(const struct workload *workload, uint64_t *ret_offset_bytes);
/* workload_peeked_block -- the present session's one but @index that it peeked last. False: that is not remembered. */
bool workload_peeked_block(const struct workload *workload, uint32_t index, uint32_t *ret_block);
/* workload_ask -- the present session, if it has the volume, reads or writes @block, whatever else it does. It peeks. */
void workload_ask(struct workload *workload, uint32_t block, bool is_write);
/* workload_rest -- for a while nothing is asked for but what workload_ask says. */
void workload_rest(struct workload *workload, bool is_resting);
/* workload_volume -- the present session's; NULL: it has none. workload_volume_id -- its volume's; 0: not known yet. */
struct cleave_volume *workload_volume(const struct workload *workload);
uint64_t workload_volume_id(const struct workload *workload);
/* workload_history, workload_name -- of its volume. */
struct history *workload_history(const struct workload *workload);
const char *workload_name(const struct workload *workload);
/* workload_timeout_ns -- after so long a request is given up; 0: never. */
uint64_t workload_timeout_ns(const struct workload *workload);
/* workload_is_held -- its present session has the volume, as far as that knows. */
bool workload_is_held(const struct workload *workload);
/* workload_host -- of the present session, dead or alive. */
struct sim_host *workload_host(const struct workload *workload);

#endif /* CLEAVE_TESTS_SIM_WORKLOAD_H */
