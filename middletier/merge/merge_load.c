/* SPDX-License-Identifier: Apache-2.0 */
/* merge_load.c -- the indexes of the runs that a merge takes: there, and held */
#include "merge/merge_load.h"

#include <stddef.h>

#include "base/check.h"
#include "base/sm.h"
#include "index/index.h"
#include "index/run_index.h"
#include "index/run_load.h"
#include "merge/merge.h"
#include "merge/merge_plan.h"
#include "merge/merge_work.h"

static void
merge_on_loaded(int rc, void *arg)
{
	struct merge_load *load = arg;
	struct mt_merge *merge = load->merge;

	CHECK_OBJ(merge, MERGE_MAGIC);
	assert(load->is_waiting);
	load->is_waiting = false;
	if (merge->sm.state == MERGE_FAILED)
		return; /* another one could not be read */
	assert(merge->sm.state == MERGE_LOADING);
	if (rc != 0) {
		mt_merge_on_loads(merge, rc);
		return;
	}
	assert(merge->waiting_count > 0 && load->input->run->index != NULL);
	mt_run_hold(load->input->run);
	load->input->is_held = true;
	merge->waiting_count--;
	if (merge->waiting_count == 0)
		mt_merge_on_loads(merge, 0);
}

uint32_t
mt_merge_load_begin(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);

	assert(work->merge == merge);
	for (uint32_t i = 0; i < work->plan.input_count; i++) {
		struct merge_input *input = &work->plan.inputs[i];
		struct merge_load *load = &work->loads[i];

		*load = (struct merge_load){ .merge = merge, .input = input };
		if (input->run == NULL || work->plan.is_hidden)
			continue;
		if (input->run->index != NULL) {
			mt_run_hold(input->run);
			input->is_held = true;
			continue;
		}
		load->is_waiting = true;
		load->waiter.fn = merge_on_loaded;
		load->waiter.arg = load;
		merge->waiting_count++;
		mt_run_load(input->run, &load->waiter);
	}
	return merge->waiting_count;
}
