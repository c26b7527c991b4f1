/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_commits.h -- commits to a manifest: those that wait, and those in the batch that is out */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_COMMITS_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_COMMITS_H

#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct mt_edit;

/* A batch's head goes out behind the wire header, in one piece of host memory. */
#define MANIFEST_EDITS_BYTES_MAX (SPLIT_HEADER_BYTES_MAX - WIRE_HEADER_BYTES - BATCH_HEADER_BYTES)
#define MT_COMMIT_EDITS_MAX 192u /* a merge's: at most 60 bytes each */

typedef void (*mt_manifest_fn)(int rc, void *arg);

struct mt_manifest_commits {
	struct loop_link waiting; /* oldest first */
	struct loop_link flying;  /* in the batch that is out, or in the checkpoint */
	uint32_t count;           /* in both */
};

void mt_manifest_commits_init(struct mt_manifest_commits *commits);
/* mt_manifest_commits_fini -- no handler is called. */
void mt_manifest_commits_fini(struct mt_manifest_commits *commits);
/* mt_manifest_commits_add -- one that waits; its edits are encoded here. 0; -ENOMEM: no @fn. */
int mt_manifest_commits_add(struct mt_manifest_commits *commits, const struct mt_edit *edits,
    uint32_t count, mt_manifest_fn fn, void *arg);
/*
 * mt_manifest_commits_take -- as many as wait and fit into @room_bytes fly: their edits are in @out
 *
 * None is cut in two. Nothing else flies. Returns the number of edits; *@ret_bytes of them.
 */
uint32_t mt_manifest_commits_take(struct mt_manifest_commits *commits, uint8_t *out,
    uint32_t room_bytes, uint32_t *ret_bytes);
/* mt_manifest_commits_take_all -- a checkpoint has the edits of all that wait: they fly with those that do. */
void mt_manifest_commits_take_all(struct mt_manifest_commits *commits);
/*
 * mt_manifest_commits_end -- those that fly have ended: each handler once, oldest first
 *
 * A handler may commit again, or stop the shard. mt_manifest_commits_refuse: those that wait.
 */
void mt_manifest_commits_end(struct mt_manifest_commits *commits, int rc);
void mt_manifest_commits_refuse(struct mt_manifest_commits *commits, int rc);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_COMMITS_H */
