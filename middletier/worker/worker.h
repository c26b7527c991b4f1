/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h -- merges of other gateways' shards that this port executes: jobs
 *
 * A job is a recipe (merge/RECIPE.md), which comes in parts, and then what has come of it. There are so many at a time, and
 * each has its memory from the start. Nothing of the shard is known here but what the recipe says, and nothing that is
 * done is named here: its owner does that, when it has seen all of it. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_WORKER_WORKER_H
#define CLEAVE_MIDDLETIER_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"

struct mt_port;
struct mt_settings;
struct mt_worker;
struct mt_worker_job;

#define WORKER_JOBS_MAX 16u

/* A part of a recipe that has come. */
struct mt_worker_part {
	const void *owner; /* whose; only compared */
	uint64_t number;   /* of the owner's jobs: this one */
	uint32_t offset_bytes, recipe_bytes, payload_bytes;
	dev_ptr payload;
};

/* How a job has ended. */
struct mt_worker_end {
	int rc;       /* 0: told is what was made; else it came to nothing */
	dev_ptr told; /* told_bytes of them; the job's until mt_worker_free */
	uint32_t told_bytes;
	void *ticket;   /* mt_worker_take's */
	void *canceled; /* mt_worker_cancel's; NULL: it was not */
};

/*
 * mt_worker_fn -- a job that was whole has ended, and nothing of it is out
 *
 * Never within mt_worker_take. The job is at hand until mt_worker_free, which may be called within.
 */
typedef void (*mt_worker_fn)(struct mt_worker_job *job, const struct mt_worker_end *end, void *arg);

/* mt_worker_device_bytes -- device memory that @settings' jobs take of a port whose --device-memory is @device_bytes. */
uint64_t mt_worker_device_bytes(const struct mt_settings *settings, uint64_t device_bytes);
/* mt_worker_host_bytes -- likewise, of its host memory for messages. */
uint64_t mt_worker_host_bytes(const struct mt_settings *settings);
/*
 * mt_worker_init -- port->worker, with room for as many jobs as the settings say; none: it stays NULL
 *
 * Returns 0; -ENOMEM: mt_worker_fini takes what there is.
 */
int mt_worker_init(struct mt_port *port, uint64_t device_bytes, mt_worker_fn fn, void *arg);
/* mt_worker_stop -- the port stops: every job ends, with -ECANCELED, and none is taken any more. Without one, too. */
void mt_worker_stop(struct mt_port *port);
/* mt_worker_is_quiet -- nothing of a job is out at nodes or engines. Without one, too. */
bool mt_worker_is_quiet(const struct mt_port *port);
/* mt_worker_fini -- nothing comes back any more. Also without init. */
void mt_worker_fini(struct mt_port *port);

/* mt_worker_free_count -- how many jobs it takes yet: none while the logs here are long. */
uint32_t mt_worker_free_count(const struct mt_port *port);
/* mt_worker_busy -- how much of what this port can do it does, per mille, about. */
uint32_t mt_worker_busy(const struct mt_port *port);
/*
 * mt_worker_take -- @part is copied; a job begins with its first, and is at work when it has the last
 *
 * Returns 0: it was not the last, and is to be answered now. 1: it was: fn follows, with @ticket. -EBUSY: there is no room;
 * -EINVAL: the part is not the next one; -EBADMSG: what has come is no recipe, or has no place to append to: *@ret_field is
 * what is wrong; -ENOMEM. The job is gone after any of these.
 */
int mt_worker_take(struct mt_worker *worker, const struct mt_worker_part *part, void *ticket,
    const char **ret_field);
/*
 * mt_worker_cancel -- its owner gives it up
 *
 * 1: fn follows, with @ticket as what was canceled; 0: it was not at work yet, and is gone; -ENOENT: there is none.
 */
int mt_worker_cancel(struct mt_worker *worker, const void *owner, uint64_t number, void *ticket);
/* mt_worker_left -- @owner has gone: its jobs end. */
void mt_worker_left(struct mt_worker *worker, const void *owner);
/* mt_worker_free -- fn was told, and told is not needed any more. */
void mt_worker_free(struct mt_worker_job *job);

#endif /* CLEAVE_MIDDLETIER_WORKER_WORKER_H */
