/* SPDX-License-Identifier: Apache-2.0 */
/* merge_exec.c -- the executing part of a merge: its memory, its beginning, and its end before it is through */
#include "merge/merge_exec.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "merge/merge_fetch.h"
#include "merge/run_writer.h"

#define MERGE_RECEIVES_SHARE 8u /* of a port's receives: replies to a merge, but one at least */

int
mt_merge_exec_init(struct merge_exec *exec, struct mt_port *port, uint64_t window_bytes,
    void (*writer_fn)(void *arg), void *arg)
{
	uint32_t block_max;
	int rc;

	assert(port->receive_count > 0);
	exec->port = port;
	exec->turn.again_ns = TURN_NEVER;
	exec->read_max = (uint32_t)num_max(1,
	    num_min(port->receive_count / MERGE_RECEIVES_SHARE, MERGE_READS_MAX));
	block_max = (uint32_t)(window_bytes / CLEAVE_BLOCK_BYTES / 2);
	assert(block_max >= ENGINE_RECORD_BLOCKS_MAX && block_max <= MERGE_WINDOW_BLOCKS_MAX);
	exec->memory = dev_alloc(port->split, window_bytes);
	if (dev_ptr_is_null(exec->memory))
		return -ENOMEM;
	exec->window.block_max = exec->storing.block_max = exec->block_max = block_max;
	exec->window.memory = exec->memory;
	exec->storing.memory = dev_ptr_add(exec->memory, (uint64_t)block_max * CLEAVE_BLOCK_BYTES);
	rc = mt_run_writer_init(&exec->writer, port, mt_run_writer_batches(window_bytes));
	exec->writer.fn = writer_fn;
	exec->writer.arg = arg;
	return rc;
}

void
mt_merge_exec_fini(struct merge_exec *exec)
{
	mt_run_writer_fini(&exec->writer);
	/* A port that was closed has taken its arenas along. */
	if (!dev_ptr_is_null(exec->memory) && exec->port->split != NULL)
		dev_free(exec->port->split, exec->memory);
	exec->memory = DEV_PTR_NULL;
}

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
	exec->is_cancelled = exec->is_ahead = exec->is_garbling = false;
	mt_merge_window_clear(&exec->window);
	mt_merge_window_clear(&exec->storing);
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
