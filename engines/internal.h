/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h -- what the files of engines/ share; each block is headed by its owner */
#ifndef CLEAVE_ENGINES_INTERNAL_H
#define CLEAVE_ENGINES_INTERNAL_H

#include <stdint.h>

#include "cleave/engine.h"

/* The most bytes that a codec is asked to compress, or to yield, at once: it bounds the codec's memory. */
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
	struct envelope_box *box; /* of encrypted records; NULL: there are no keys */
};

/*
 * engine_runner_init -- allocate all that jobs will ever need: a state of each codec, and scratch memory
 *
 * @keys: of encrypted records, borrowed; NULL: there are none. Returns 0; -ENOMEM, and @runner holds nothing.
 */
int engine_runner_init(struct engine_runner *runner, const struct keyring *keys);
/* engine_runner_fini -- free it; no job runs. Also of a runner that is all zeros. */
void engine_runner_fini(struct engine_runner *runner);

/* engine_job_check -- is @job's shape right? Returns 0 or -EINVAL. Looks at the job alone, not at its memory. */
int engine_job_check(const struct engine_job *job);

/*
 * engine_job_run -- run @job, which engine_job_check has passed; its results are in it, job->rc among them
 *
 * Opens the memory guard meanwhile. Neither allocates nor blocks. Threads: any, a runner one at a time.
 */
void engine_job_run(struct engine_runner *runner, struct engine_job *job);

#endif /* CLEAVE_ENGINES_INTERNAL_H */
