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
#include "index/memtable.h"
#include "merge/merge_exec.h"
#include "merge/merge_step.h"
#include "merge/merge_window.h"

static struct mt_extent *
loss_extent(const struct merge_exec *exec, const struct merge_source *source)
{
	return mt_shard_extent(exec->shard, source->location.extent_index);
}

/* The copy is to be verified by its node, for which its shard asks. */
static void
loss_suspect(struct merge_exec *exec, const struct merge_source *source, uint8_t replica_index,
    int rc)
{
	struct mt_extent *extent = loss_extent(exec, source);
	char text[MT_EXTENT_TEXT_BYTES];

	metric_add(&exec->port->metrics[MT_METRIC_replica_read_errors], 1);
	if (extent == NULL)
		return;
	if (exec->suspect_count < MERGE_SUSPECTS_MAX)
		exec->suspects[exec->suspect_count++] = (struct merge_suspect){ .id = extent->id,
			.node_id = extent->replicas[replica_index].node_id };
	log_limited(LOG_WARN,
	    "merge: bad copy node=%" PRIu32 " extent=%s offset_bytes=%" PRIu32 " rc=%s",
	    extent->replicas[replica_index].node_id, mt_extent_text(extent, text),
	    source->location.offset_bytes, log_errno(rc));
}

void
mt_merge_loss_note_wrong(struct merge_exec *exec, struct merge_source *source,
    uint8_t replica_index, int rc)
{
	assert(rc < 0 && replica_index < MT_REPLICAS_MAX);
	mt_chooser_note_bad(&source->chooser, replica_index);
	loss_suspect(exec, source, replica_index, rc);
}

void
mt_merge_loss_note_refused(struct merge_exec *exec, struct merge_source *source,
    uint8_t replica_index, int rc)
{
	assert(rc < 0 && replica_index < MT_REPLICAS_MAX);
	source->refused |= (uint8_t)(1u << replica_index);
	loss_suspect(exec, source, replica_index, rc);
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

int
mt_merge_loss_judge(struct merge_exec *exec, struct merge_source *source)
{
	const struct mt_extent *extent = loss_extent(exec, source);
	struct mt_chooser answered = source->chooser;
	bool is_over = loop_now_ns(exec->port->loop) >= exec->deadline_ns;
	char text[MT_EXTENT_TEXT_BYTES];

	if (extent == NULL)
		return -ESTALE;
	answered.bad |= source->refused;
	answered.tried |= source->refused;
	if (!mt_chooser_is_hopeless(&answered, extent->replica_count))
		return is_over ? -EHOSTDOWN : STEP_AGAIN;
	if (!is_verified(extent) || !source->is_index_sure)
		return -EUCLEAN;
	if (!mt_chooser_is_hopeless(&source->chooser, extent->replica_count) && !is_over)
		return STEP_AGAIN;
	log_limited(LOG_ERROR,
	    "merge: blocks are lost, every copy is bad extent=%s offset_bytes=%" PRIu32
	    " block_count=%u chunk=%" PRIu64,
	    mt_extent_text(extent, text), source->location.offset_bytes, source->count,
	    exec->task.target);
	return STEP_DONE;
}
