/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h -- some layers and runs of a chunk become runs */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_chunk;
struct mt_layer;
struct mt_merge;
struct mt_port;
struct mt_run;
struct mt_scope;
struct loop_task;
struct loop_timer;
struct mt_shard;

/* Neighbours in age, with no cut between them that a snapshot needs. Layers, runs, or both: NULL: none of a kind. */
struct mt_merge_input {
	struct mt_chunk *chunk;
	struct mt_layer *newest_layer, *oldest_layer; /* frozen; the oldest is the chunk's oldest */
	struct mt_run *newest_run, *oldest_run; /* with layers: the newest is the chunk's newest */
	bool is_urgent; /* the log is longer than it should be: goes before others */
	bool
	    is_hasty; /* long records are left in one piece, and compressed no harder than need be: HASTE.md */
	bool is_stream; /* what its layers have was written in order: its runs say so, stream.h */
	bool
	    is_covered; /* runs alone, of which newer ones have every block (covered.h): nothing is read or written */
	int level; /* of zstd */
	bool
	    is_hot; /* read often: its frames are LZ4 HC, which is dear to write and cheap to read */
	bool
	    is_for_readers; /* and for nothing else: whatever becomes of it, writes are none the worse */
	/* Frames of this codec are compressed anew, where others that have not changed are taken as they are stored. */
	uint8_t recoded; /* ENGINE_ZSTD, ENGINE_LZ4; ENGINE_NONE: none */
	/*
	 * A copy (flatten.h) has none of the above but the level. It takes what @from, a clone's scope, shows of the
	 * clone's chunk @target behind the clone's own spans, and takes nothing away: its runs are the chunk's oldest.
	 */
	const struct mt_scope *from; /* NULL: it is none. The caller's, until the merge has ended */
	uint64_t target;
	uint32_t
	    key_id; /* the clone's newest data key; 0: what was encrypted stays so with the highest that was met */
};

/*
 * mt_merge_fn -- a merge has ended: its result is durable and in the index, or nothing has changed
 *
 * @rc: 0; -ENOSPC: nodes have no room for its runs; -EHOSTDOWN: too few nodes to read from; -ENOKEY: a data key is not
 * here; -EUCLEAN: no copy of some blocks passes, which may pass later (merge_loss.c); -ECANCELED; -ENOMEM and others: see the log.
 */
typedef void (*mt_merge_fn)(int rc, void *arg);

/*
 * mt_merge_start -- queue a merge of @input behind those of the port that are as urgent
 *
 * None of @input is being merged already; there is something in it. Returns 0: @fn is called once, later; -E2BIG: more layers and runs than
 * a merge takes; -ENOMEM: no @fn. Threads: the port's, as all of these.
 */
int mt_merge_start(struct mt_shard *shard, const struct mt_merge_input *input, mt_merge_fn fn,
    void *arg);
/* mt_merge_stop -- every merge of the shard ends with -ECANCELED, soon. */
void mt_merge_stop(struct mt_shard *shard);

/* mt_merge_on_timer, mt_merge_on_task -- of a port's merge_work, their argument: what waits may go on. For merge_port.c. */
void mt_merge_on_timer(struct loop_timer *timer, void *arg);
void mt_merge_on_task(struct loop_task *task, void *arg);

/* mt_merge_on_loads -- LOADING is over: 0: all indexes that were waited for are held; negative: why one is not. For merge_load.c. */
void mt_merge_on_loads(struct mt_merge *merge, int rc);
/* mt_merge_notify -- a call or a job of @merge has come back; @rc: negative, it ends the merge. For the steps' files. */
void mt_merge_notify(struct mt_merge *merge, int rc);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_H */
