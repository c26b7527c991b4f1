/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h -- what a manifest says, and how a take-over begins a new one
 *
 * The *state* is what all edits so far come to: the extents that live, the runs in them, the cuts. A
 * checkpoint is the state written as edits.
 */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "common/root.h"
#include "extent/replicate.h"
#include "manifest/manifest_commits.h"
#include "manifest/manifest_parts.h"
#include "manifest/manifest_state.h"

struct mt_edit;
struct mt_extent;
struct mt_link;
struct mt_shard;

/*
 * mt_manifest_commit -- make @edits durable, all or none; copied
 * At most MT_COMMIT_EDITS_MAX, and only edits of runs, or of cuts, when there are more than 16.
 *
 * A full or broken manifest extent is replaced: new extent, checkpoint with these edits, root key by
 * compare-and-swap. Calls are applied in order. rc: 0; -ESTALE another owner has the root: the shard
 * must stop; -EHOSTDOWN is not returned: it waits for nodes and says so in the log.
 */
int mt_manifest_commit(struct mt_shard *shard, const struct mt_edit *edits, uint32_t count,
    mt_manifest_fn fn, void *arg);

#define MANIFEST_MAGIC 0x464e414du /* "MANF" */

enum manifest_machine {
	MANIFEST_CREATING,
	MANIFEST_CHECKPOINTING,
	MANIFEST_STORING,
	MANIFEST_READY,
	MANIFEST_APPENDING,
	MANIFEST_WAITING,
	MANIFEST_STOPPED,
	MANIFEST_NR
};

struct mt_manifest {
	uint32_t magic;
	struct mt_shard *shard;
	struct sm sm;
	struct mt_manifest_state state;
	struct mt_extent *extent; /* that the root names; NULL: the one of an earlier owner */
	struct mt_extent *next;   /* not named by the root yet */
	struct mt_manifest_parts parts, next_parts; /* that those name */
	struct mt_append batch;                     /* the one in flight */
	struct mt_manifest_commits commits;
	uint8_t *checkpoint; /* edits */
	uint64_t checkpoint_bytes, checkpoint_at;
	struct mt_root wanted;        /* STORING */
	enum manifest_machine resume; /* WAITING: what to do next */
	struct loop_timer timer;
	struct loop_task task;
	uint64_t backoff_ns;
	bool is_wait_logged;
	int stop_rc;
};

/* mt_manifest_begin -- in CREATING, or WAITING to be: one more extent for the checkpoint. */
void mt_manifest_begin(struct mt_manifest *manifest);
/* mt_manifest_begin_failed -- what was made is dropped; try again, or find out whose the shard is. */
void mt_manifest_begin_failed(struct mt_manifest *manifest, int rc);
/* mt_manifest_send -- @edit_bytes of edits, which are in the batch's first buffer. As mt_extent_append. */
int mt_manifest_send(struct mt_manifest *manifest, struct mt_extent *extent, uint32_t edit_count,
    uint32_t edit_bytes, mt_append_fn fn);
uint8_t *mt_manifest_edit_buffer(struct mt_manifest *manifest);
/* mt_manifest_store -- the checkpoint is whole: STORING, the root moves to manifest->next. */
void mt_manifest_store(struct mt_manifest *manifest);

/*
 * mt_manifest_open -- begin a new manifest under the shard's epoch
 *
 * Takes @state over (it is empty afterwards), writes it as a checkpoint, to as many extents as it takes,
 * moves the root (shard->root is the present one) to the last, deletes what the root named before.
 * Waits for nodes as long as it takes. @fn: 0; -ESTALE the root is another's.
 * Returns 0; -ENOMEM: no @fn, @state is the caller's still.
 */
int mt_manifest_open(struct mt_shard *shard, struct mt_manifest_state *state, mt_manifest_fn fn,
    void *arg);
void mt_manifest_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
/* mt_manifest_extent -- the one that the root names; NULL: it is another owner's, or none. */
struct mt_extent *mt_manifest_extent(const struct mt_shard *shard);
/* mt_manifest_part -- the @index-th of those before it; NULL behind the last. */
struct mt_extent *mt_manifest_part(const struct mt_shard *shard, uint32_t index);
/* mt_manifest_is_settled -- all that the state says is durable. */
bool mt_manifest_is_settled(const struct mt_shard *shard);
/*
 * mt_manifest_tend -- begin a new manifest extent where the present one has lost a replica, has a
 * damaged one, or fewer than there are domains for
 *
 * Returns when to ask again, UINT64_MAX: there is nothing to be done.
 */
uint64_t mt_manifest_tend(struct mt_shard *shard, uint32_t domain_count);
/* mt_manifest_stop -- every commit ends with @rc, later ones at once; appends in flight run out. */
void mt_manifest_stop(struct mt_shard *shard, int rc);
/* mt_manifest_is_quiet -- stopped or not there, and no append is out: it may go. */
bool mt_manifest_is_quiet(const struct mt_shard *shard);
void mt_manifest_fini(struct mt_shard *shard);

/* mt_manifest_state -- what has been committed or is being; NULL before mt_manifest_open. */
const struct mt_manifest_state *mt_manifest_state(const struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_H */
