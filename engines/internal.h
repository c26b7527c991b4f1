/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h -- what the files of engines/ share; each block is headed by its owner */
#ifndef CLEAVE_ENGINES_INTERNAL_H
#define CLEAVE_ENGINES_INTERNAL_H

#include <stdint.h>

#include "cleave/engine.h"

/* The most a codec is asked to compress or to yield at once: bounds its memory. */
#define ENGINE_CODEC_BYTES_MAX (256u * 1024u)

/* ---- engine_<name>.c ---- */

extern const struct engine_ops engine_none_ops;
extern const struct engine_ops engine_lz4_ops;
extern const struct engine_ops engine_zstd_ops;
extern const struct engine_ops engine_snappy_ops;
extern const struct engine_ops engine_deflate_ops;

/* ---- job.c ---- */

/* A thread's memory for running jobs; reused from job to job. */
struct engine_runner {
	void *states[ENGINE_ID_NR]; /* of each codec, by wire id */
	uint8_t *scratch; /* ENGINE_RECORD_BYTES_MAX: a record of which only a part is wanted */
};

/* engine_runner_init -- allocates all that jobs will ever need. 0 or -ENOMEM. */
int engine_runner_init(struct engine_runner *runner);
void engine_runner_fini(struct engine_runner *runner);

/* engine_job_check -- 0, or -EINVAL where @job's shape is wrong. Looks at no memory but the job. */
int engine_job_check(const struct engine_job *job);

/* engine_job_run -- run a checked job; the result is in job->rc. Opens the memory guard. */
void engine_job_run(struct engine_runner *runner, struct engine_job *job);

#endif /* CLEAVE_ENGINES_INTERNAL_H */
