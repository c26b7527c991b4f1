/* SPDX-License-Identifier: Apache-2.0 */
/* flush_due.h -- which merge of a shard is due */
#ifndef CLEAVE_MIDDLETIER_MERGE_FLUSH_DUE_H
#define CLEAVE_MIDDLETIER_MERGE_FLUSH_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/flatten.h"
#include "merge/tiers.h"

struct mt_merge_input;
struct mt_shard;

struct flush_due {
	struct mt_shard *shard;
	/* Told by flush.c, of the last merge. */
	bool was_flush;
	bool is_full; /* it ended with -ENOSPC */
	bool was_copy;
	struct flatten flatten;
	/* flush_due.c's. */
	bool may_look;  /* for layers that discard; flush.c says so once a tick */
	bool may_cover; /* merged_chunk was merged last, and not looked at since */
	uint64_t merged_chunk;
	uint64_t aged_sequence, next_aged_sequence; /* layers that began before the first are old */
	uint64_t scan_ns, shrink_ns, tidy_ns;       /* all runs are not looked at before */
	struct tiers_total total;                   /* as last seen */
};

/* mt_flush_due_start -- the shard serves from now on: nothing is old, no merge was yet. */
void mt_flush_due_start(struct flush_due *due, struct mt_shard *shard);
/* mt_flush_due_age -- what was there at the last call is old. */
void mt_flush_due_age(struct flush_due *due);
/* mt_flush_due_merged -- a merge of chunk @number has ended well: it may have covered older runs. */
void mt_flush_due_merged(struct flush_due *due, uint64_t number);
/*
 * mt_flush_due_find -- the next merge
 *
 * 0: *@ret_input, of which the active layer has frozen. -ENOENT: nothing is due. -ENOSPC: the log cannot be made
 * shorter, for the manifest is long. -EBUSY, -ENOMEM: not now.
 */
int mt_flush_due_find(struct flush_due *due, struct mt_merge_input *ret_input);
/* mt_flush_due_gain -- the bytes of the log that go with @input: all before the oldest layer that stays. */
uint64_t mt_flush_due_gain(const struct flush_due *due, const struct mt_merge_input *input);
/* mt_flush_due_has_layers -- there is something to flush, and not all of it is put off. */
bool mt_flush_due_has_layers(const struct flush_due *due);

#endif /* CLEAVE_MIDDLETIER_MERGE_FLUSH_DUE_H */
