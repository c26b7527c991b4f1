/* SPDX-License-Identifier: Apache-2.0 */
/* merge_states.c -- the states of a merge, whose diagram is at the head of merge.c: that file alone moves them */
#include "base/sm.h"
#include "merge/merge_work.h"

const struct sm_state mt_merge_table[MERGE_STATE_NR] = {
	[MERGE_QUEUED] = { "queued", SM_TO(MERGE_LOADING) | SM_TO(MERGE_FAILED), SM_INITIAL },
	[MERGE_LOADING] = { "loading",
	    SM_TO(MERGE_FETCHING) | SM_TO(MERGE_AWAY) | SM_TO(MERGE_ENDING) | SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_FETCHING] = { "fetching",
	    SM_TO(MERGE_STORING) | SM_TO(MERGE_RECALLING) | SM_TO(MERGE_FAILED), 0 },
	[MERGE_STORING] = { "storing",
	    SM_TO(MERGE_FETCHING) | SM_TO(MERGE_PAUSING) | SM_TO(MERGE_ENDING) |
		SM_TO(MERGE_RECALLING) | SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_PAUSING] = { "pausing",
	    SM_TO(MERGE_FETCHING) | SM_TO(MERGE_ENDING) | SM_TO(MERGE_RECALLING) |
		SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_ENDING] = { "ending",
	    SM_TO(MERGE_VERIFYING) | SM_TO(MERGE_COMMITTING) | SM_TO(MERGE_DONE) |
		SM_TO(MERGE_RECALLING) | SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_AWAY] = { "away",
	    SM_TO(MERGE_COMMITTING) | SM_TO(MERGE_DONE) | SM_TO(MERGE_FETCHING) |
		SM_TO(MERGE_ENDING) | SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_VERIFYING] = { "verifying",
	    SM_TO(MERGE_COMMITTING) | SM_TO(MERGE_DONE) | SM_TO(MERGE_FETCHING) |
		SM_TO(MERGE_ENDING) | SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_RECALLING] = { "recalling",
	    SM_TO(MERGE_FETCHING) | SM_TO(MERGE_ENDING) | SM_TO(MERGE_FAILED), 0 },
	[MERGE_COMMITTING] = { "committing",
	    SM_TO(MERGE_FETCHING) | SM_TO(MERGE_AWAY) | SM_TO(MERGE_ENDING) | SM_TO(MERGE_DONE) |
		SM_TO(MERGE_FAILED),
	    0 },
	[MERGE_FAILED] = { "failed", 0, SM_FINAL | SM_FAILURE },
	[MERGE_DONE] = { "done", 0, SM_FINAL },
};
