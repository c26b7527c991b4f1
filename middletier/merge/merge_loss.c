/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_loss.c -- see merge_loss.h
 *
 * A merge destroys what it has read from. So a block is *lost*, and its record says so for ever, only where all of
 * this holds:
 *
 *	every copy was asked                   one whose node is away may be whole
 *	each node has verified its copy, and   a moment of read errors, a bad wire, a flaw of this gateway's memory:
 *	says that it is damaged (scrub.c)      none of them is a loss
 *	each copy was read, and is wrong, or   damage elsewhere in a copy is none here
 *	refuses until the window's deadline
 *	the index was read anew                a wrong CRC in it makes all copies look bad
 *
 * Where it does not, the merge ends with -EUCLEAN, and nothing has changed. Copies that failed it are suspects, which
 * their nodes verify at once; indexes of its runs are dropped (merge_input.c), so that the next merge reads them anew.
 */
#include "merge/merge_loss.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "cleave/loop.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "index/index.h"
#include "index/memtable.h"
#include "merge/merge_plan.h"
#include "merge/merge_step.h"
#include "merge/merge_work.h"

static struct mt_extent *
loss_extent(const struct mt_merge *merge, const struct merge_source *source)
{
	return mt_shard_extent(merge->shard, source->location.extent_index);
}

/* The copy is to be verified by its node. */
static void
loss_suspect(const struct mt_merge *merge, const struct merge_source *source, uint8_t replica_index,
    int rc)
{
	struct mt_extent *extent = loss_extent(merge, source);
	char text[MT_EXTENT_TEXT_BYTES];

	metric_add(&merge->shard->port->metrics[MT_METRIC_replica_read_errors], 1);
	if (extent == NULL)
		return;
	mt_extent_suspect(extent, extent->replicas[replica_index].node_id);
	log_limited(LOG_WARN,
	    "merge: bad copy node=%" PRIu32 " extent=%s offset_bytes=%" PRIu32 " rc=%s",
	    extent->replicas[replica_index].node_id, mt_extent_text(extent, text),
	    source->location.offset_bytes, log_errno(rc));
}

void
mt_merge_loss_note_wrong(struct mt_merge *merge, struct merge_source *source, uint8_t replica_index,
    int rc)
{
	assert(rc < 0 && replica_index < MT_REPLICAS_MAX);
	mt_chooser_note_bad(&source->chooser, replica_index);
	loss_suspect(merge, source, replica_index, rc);
}

void
mt_merge_loss_note_refused(struct mt_merge *merge, struct merge_source *source,
    uint8_t replica_index, int rc)
{
	assert(rc < 0 && replica_index < MT_REPLICAS_MAX);
	source->refused |= (uint8_t)(1u << replica_index);
	loss_suspect(merge, source, replica_index, rc);
}

/* Every node has verified its copy as damaged. */
static bool
is_verified(const struct mt_extent *extent)
{
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (!extent->replicas[i].is_damaged && !MUTANT(loss_unverified))
			return false;
	}
	return true;
}

/* False: @source is of a run whose index was not read anew since a merge has failed. */
static bool
is_index_sure(const struct merge_plan *plan, const struct merge_source *source)
{
	for (uint32_t i = 0; i < plan->input_count; i++) {
		const struct mt_run *run = plan->inputs[i].run;

		if (run != NULL && run->extent_index == source->location.extent_index &&
		    source->location.offset_bytes >= run->offset_bytes &&
		    source->location.offset_bytes - run->offset_bytes < run->length_bytes)
			return run->is_reread;
	}
	return true; /* a layer's place is known from its write, or from the log */
}

int
mt_merge_loss_judge(struct mt_merge *merge, struct merge_source *source)
{
	struct merge_work *work = merge_work_of(merge);
	const struct mt_extent *extent = loss_extent(merge, source);
	struct mt_chooser answered = source->chooser;
	bool is_over = loop_now_ns(merge->shard->port->loop) >= work->deadline_ns;
	char text[MT_EXTENT_TEXT_BYTES];

	if (extent == NULL)
		return -ESTALE;
	answered.bad |= source->refused;
	answered.tried |= source->refused;
	if (!mt_chooser_is_hopeless(&answered, extent->replica_count))
		return is_over ? -EHOSTDOWN : STEP_AGAIN;
	if (!is_verified(extent) || !is_index_sure(&work->plan, source))
		return -EUCLEAN;
	if (!mt_chooser_is_hopeless(&source->chooser, extent->replica_count) && !is_over)
		return STEP_AGAIN;
	log_limited(LOG_ERROR,
	    "merge: blocks are lost, every copy is bad extent=%s offset_bytes=%" PRIu32
	    " block_count=%u chunk=%" PRIu64,
	    mt_extent_text(extent, text), source->location.offset_bytes, source->count,
	    merge->target);
	return STEP_DONE;
}
