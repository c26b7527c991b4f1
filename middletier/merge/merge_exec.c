/* SPDX-License-Identifier: Apache-2.0 */
/* merge_exec.c -- the executing part of a merge: its beginning, and its end before it is through */
#include "merge/merge_exec.h"

#include "base/check.h"
#include "merge/merge_fetch.h"
#include "merge/run_writer.h"

void
mt_merge_exec_begin(struct merge_exec *exec, struct mt_shard *shard, const struct merge_task *task,
    void (*tell)(int rc, void *arg), void *arg)
{
	assert(exec->out_count == 0);
	assert(tell != NULL);
	exec->shard = shard;
	exec->task = *task;
	exec->key_id = 0;
	exec->read_bytes = 0;
	exec->suspect_count = 0;
	exec->is_cancelled = false;
	exec->tell = tell;
	exec->arg = arg;
}

void
mt_merge_exec_cancel(struct merge_exec *exec, int rc)
{
	exec->is_cancelled = true;
	mt_merge_fetch_cancel(exec);
	mt_run_writer_cancel(&exec->writer, rc);
}

bool
mt_merge_exec_is_quiet(const struct merge_exec *exec)
{
	assert(exec->out_count <= MERGE_READS_MAX + MERGE_JOBS_MAX + 1);
	return exec->out_count == 0 && mt_run_writer_is_quiet(&exec->writer);
}
