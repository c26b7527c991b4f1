/* SPDX-License-Identifier: Apache-2.0 */
/* merge_port.c -- what a port has for its merges: their memory, and the writer of runs, put together */
#include "merge/merge_port.h"

#include "base/check.h"
#include "base/list.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "merge/merge.h"
#include "merge/merge_by_away.h"
#include "merge/merge_by_recipe.h"
#include "merge/merge_input.h"
#include "merge/merge_result.h"
#include "merge/merge_work.h"
#include "merge/run_writer.h"

static void
port_on_writer(void *arg)
{
	mt_merge_work_soon(arg);
}

int
mt_merge_port_init(struct mt_port *port, uint64_t device_bytes)
{
	struct merge_work *work;
	int rc = mt_merge_work_create(port, mt_merge_on_timer, mt_merge_on_task);

	if (rc != 0)
		return rc;
	work = port->merge_work;
	assert(work != NULL);
	rc = mt_merge_exec_init(&work->exec, port, mt_merge_window_bytes(device_bytes),
	    port_on_writer, work);
	if (rc == 0 && port->settings->has_recipes)
		rc = mt_merge_by_recipe_create(work, mt_merge_window_bytes(device_bytes),
		    port_on_writer);
	if (rc == 0 && port->settings->has_offload)
		rc = mt_merge_by_away_create(work);
	if (rc != 0)
		mt_merge_port_fini(port);
	return rc;
}

void
mt_merge_port_fini(struct mt_port *port)
{
	if (port->merge_work != NULL) {
		mt_merge_by_recipe_destroy(port->merge_work->by_recipe);
		mt_merge_by_away_destroy(port->merge_work->by_away);
		mt_merge_exec_fini(&port->merge_work->exec);
	}
	mt_merge_work_destroy(port->merge_work);
	port->merge_work = NULL;
}

/* ---- a shard's end ---- */

bool
mt_merge_is_quiet(const struct mt_shard *shard)
{
	const struct merge_work *work = shard->port->merge_work;

	if (work == NULL)
		return true;
	for (const struct loop_link *link = work->queue.next; link != &work->queue;
	     link = link->next) {
		if (LIST_ENTRY(link, struct mt_merge, link)->shard == shard)
			return false;
	}
	return (work->merge == NULL || work->merge->shard != shard) &&
	    (work->exec.writer.shard != shard || mt_run_writer_is_quiet(&work->exec.writer));
}

/* The process is being taken down: nothing comes back any more. */
void
mt_merge_fini(struct mt_shard *shard)
{
	struct merge_work *work = shard->port->merge_work;
	struct loop_link *link, *next;

	if (work == NULL)
		return;
	LIST_FOREACH_SAFE(&work->queue, link, next) {
		struct mt_merge *merge = LIST_ENTRY(link, struct mt_merge, link);

		if (merge->shard != shard)
			continue;
		list_remove(link);
		mt_free(merge);
	}
	if (work->merge != NULL && work->merge->shard == shard) {
		if (work->merge->sm.state != MERGE_DONE)
			mt_merge_input_release(work->merge);
		mt_merge_result_forget(&work->result);
		mt_free(work->merge);
		work->merge = NULL;
	}
	mt_merge_by_recipe_forget(work, shard);
	mt_merge_by_away_forget(work, shard);
	/* Also after its last merge has ended. */
	if (work->exec.writer.shard == shard)
		mt_run_writer_forget(&work->exec.writer);
}
