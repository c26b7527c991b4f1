/* SPDX-License-Identifier: Apache-2.0 */
/*
 * covered.c -- runs of which newer runs have every block: they go by an edit alone
 *
 *	block of the chunk    0 ──────────────────────── 16383
 *	newest run                       ├────────────┤
 *	                      ├───────────┤
 *	covered                    ├───────────┤                   each of its blocks is found above it
 *	not covered              ├───────────────────────┤         has some that are not
 *
 * A lookup goes through the runs newest first, and ends at the first that has the block: what is behind runs that have all
 * of it is never asked for. So a merge of it with them would write these again as they are. Nothing is written instead,
 * and its room comes back. Who overwrites a chunk in order leaves all its runs of before so.
 *
 * That holds as long as the runs above stay, or what is made of them has the same blocks. Merges see to that: of a block
 * that they take from a run with something beneath they keep a tombstone at least (merge_plan.c), and runs that a cut
 * keeps apart, so that one is hidden and the other is not, are of different groups (compact.c). Nothing is
 * remembered: whoever asks has it reckoned anew, from what the runs hold now.
 */
#include "merge/covered.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "cleave/loop.h"
#include "index/chunk.h"
#include "index/index.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "merge/block_set.h"
#include "merge/compact.h"
#include "merge/flush_input.h"
#include "merge/merge.h"

#define COVERED_LEVEL                                                                              \
	1 /* of zstd, by which nothing is compressed: a recipe has one (merge/RECIPE.md) */

static bool
set_add_dir(struct mt_block_set *set, const struct mt_run_dir *dir)
{
	bool is_new = false;

	if (dir->bits != NULL)
		return mt_block_set_add_words(set, dir->bits);
	for (uint32_t i = 0; i + 1 < dir->bound_count; i += 2)
		is_new = mt_block_set_add(set, dir->bounds[i], dir->bounds[i + 1]) || is_new;
	return is_new;
}

/* Adds the blocks of @run, as far as they are known. Returns whether all are, and were in the set before. */
static bool
set_add_run(struct mt_block_set *set, const struct mt_run *run)
{
	const struct mt_run_index *index = run->index;
	bool is_new = false;

	if (index == NULL)
		return run->dir != NULL && !set_add_dir(set, run->dir);
	for (uint32_t i = 0; i < index->frame_count; i++) {
		const struct mt_frame *frame = &index->frames[i];

		is_new = mt_block_set_add(set, frame->block, frame->block + frame->block_count) ||
		    is_new;
	}
	return !is_new || (MUTANT(covered_in_part) && index->frame_count > 1);
}

/* The first of @group's runs that are covered, with those behind it that are, too. False: none is. */
static bool
group_find(const struct compact_group *group, struct mt_merge_input *input)
{
	struct mt_block_set set;

	memset(&set, 0, sizeof(set));
	for (struct mt_run *run = group->newest;; run = mt_run_of(run->link.next)) {
		/* The newest has flushed the most of all, and stays, whatever it has. */
		bool is_covered = set_add_run(&set, run) && run != group->newest;

		if (is_covered) {
			input->oldest_run = run;
			if (input->newest_run == NULL)
				input->newest_run = run;
		} else if (input->newest_run != NULL) {
			return true;
		}
		if (run == group->oldest)
			return input->newest_run != NULL;
	}
}

int
mt_covered_find(const struct mt_index *index, struct mt_chunk *chunk,
    struct mt_merge_input *ret_input)
{
	struct mt_merge_input input = { .chunk = chunk, .level = COVERED_LEVEL };
	struct loop_link *link = chunk->runs.next;

	assert(chunk->index == index);
	while (link != &chunk->runs) {
		struct compact_group group;

		mt_compact_group_from(index, mt_run_of(link), &group);
		if (!group.is_merging && group_find(&group, &input)) {
			input.is_covered = true;
			*ret_input = input;
			return 0;
		}
		link = group.oldest->link.next;
	}
	return -ENOENT;
}
