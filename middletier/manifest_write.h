/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_write.h -- what manifest.c, a manifest's life, and manifest_checkpoint.c share */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_WRITE_H
#define CLEAVE_MIDDLETIER_MANIFEST_WRITE_H

#include "manifest.h"

#define MANIFEST_MAGIC 0x464e414du /* "MANF" */
/* A batch's head goes out behind the wire header, in one piece of host memory. */
#define MANIFEST_EDITS_BYTES_MAX (SPLIT_HEADER_BYTES_MAX - WIRE_HEADER_BYTES - BATCH_HEADER_BYTES)

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
	struct mt_batch batch;                      /* the one in flight */
	struct loop_link waiting;                   /* commits */
	struct loop_link flying;                    /* commits in the batch, or in the checkpoint */
	uint32_t commit_count;                      /* in both */
	uint8_t *checkpoint;                        /* edits */
	uint64_t checkpoint_bytes, checkpoint_at;
	struct mt_root wanted;        /* STORING */
	enum manifest_machine resume; /* WAITING: what to do next */
	struct loop_timer timer;
	struct loop_task task;
	uint64_t backoff_ns;
	bool is_wait_logged;
	int stop_rc;
};

/* ---- manifest.c ---- */

/* manifest_begin -- in CREATING, or WAITING to be: one more extent for the checkpoint. */
void manifest_begin(struct mt_manifest *manifest);
/* manifest_begin_failed -- what was made is dropped; try again, or find out whose the shard is. */
void manifest_begin_failed(struct mt_manifest *manifest, int rc);
/* manifest_send -- @edit_bytes of edits, which are in the batch's first buffer. As mt_extent_append. */
int manifest_send(struct mt_manifest *manifest, struct mt_extent *extent, uint32_t edit_count,
    uint32_t edit_bytes, mt_batch_fn fn);
uint8_t *manifest_edit_buffer(struct mt_manifest *manifest);
/* manifest_store -- the checkpoint is whole: STORING, the root moves to manifest->next. */
void manifest_store(struct mt_manifest *manifest);

/* ---- manifest_checkpoint.c ---- */

/* manifest_on_created -- mt_extent_create's, of manifest->next. */
void manifest_on_created(struct mt_extent *extent, int rc, void *arg);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_WRITE_H */
