/* SPDX-License-Identifier: Apache-2.0 */
/* merge_port.c -- what a port has for its merges: their memory, and the writer of runs, put together */
#include "merge/merge_port.h"

#include "base/check.h"
#include "common/port.h"
#include "common/settings.h"
#include "merge/merge.h"
#include "merge/merge_by_recipe.h"
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
	int rc = mt_merge_work_create(port, device_bytes, mt_merge_on_timer, mt_merge_on_task);

	if (rc != 0)
		return rc;
	work = port->merge_work;
	assert(work != NULL);
	rc = mt_run_writer_init(&work->exec.writer, port);
	work->exec.writer.fn = port_on_writer;
	work->exec.writer.arg = work;
	if (rc == 0 && port->settings->has_recipes)
		rc = mt_merge_by_recipe_create(work);
	if (rc != 0)
		mt_merge_port_fini(port);
	return rc;
}

void
mt_merge_port_fini(struct mt_port *port)
{
	if (port->merge_work != NULL) {
		mt_merge_by_recipe_destroy(port->merge_work->by_recipe);
		mt_run_writer_fini(&port->merge_work->exec.writer);
	}
	mt_merge_work_destroy(port->merge_work);
	port->merge_work = NULL;
}
