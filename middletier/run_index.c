/* SPDX-License-Identifier: Apache-2.0 */
/* run_index.c -- which frames a run holds */
#include "alloc.h"
#include "index.h"

bool
mt_run_find(const struct mt_run *run, uint32_t block, struct mt_location *ret_location)
{
	(void)run;
	(void)block;
	(void)ret_location;
	return false;
}

void
mt_run_index_free(struct mt_run_index *index)
{
	if (index == NULL)
		return;
	mt_free(index->frames);
	mt_free(index->crcs);
	mt_free(index);
}

void
mt_run_forget(struct mt_run *run)
{
	mt_run_index_free(run->index);
	run->index = NULL;
}

void
mt_run_stop(struct mt_shard *shard)
{
	(void)shard;
}

bool
mt_run_is_quiet(const struct mt_shard *shard)
{
	(void)shard;
	return true;
}
