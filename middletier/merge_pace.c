/* SPDX-License-Identifier: Apache-2.0 */
/* merge_pace.c -- how much of a port's loop a merge takes while clients write */
#include "merge.h"

#define MERGE_BUSY_WRITES 16u /* of the port's clients, in flight */
/* Engine jobs in a turn of the loop, each some 50 us: nobody waits, somebody does, for the merge itself. */
#define MERGE_TURN_JOBS_IDLE 8u
#define MERGE_TURN_JOBS_BUSY 2u
#define MERGE_TURN_JOBS_URGENT 4u
#define MERGE_TURN_JOBS_FULL 16u

uint32_t
merge_turn_jobs(const struct mt_merge *merge)
{
	if (mt_port_write_count(merge->shard->port) == 0)
		return MERGE_TURN_JOBS_IDLE;
	if (!merge->input.is_urgent)
		return MERGE_TURN_JOBS_BUSY;
	return mt_reclaim_is_log_full(merge->shard) ? MERGE_TURN_JOBS_FULL : MERGE_TURN_JOBS_URGENT;
}

bool
merge_yields(const struct mt_merge *merge)
{
	return !merge->input.is_urgent &&
	    mt_port_write_count(merge->shard->port) >= MERGE_BUSY_WRITES;
}
