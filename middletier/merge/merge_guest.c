/* SPDX-License-Identifier: Apache-2.0 */
/* merge_guest.c -- an executing part that knows a shard by a recipe alone: a guest of somebody else's */
#include "merge/merge_guest.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/replica.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "merge/merge_exec.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/run_roll.h"
#include "merge/run_writer.h"

int
mt_merge_guest_init(struct merge_guest *guest, struct mt_port *port, uint64_t window_bytes,
    void (*writer_fn)(void *arg), void *arg)
{
	assert(!guest->is_on);
	return mt_merge_exec_init(&guest->exec, port, window_bytes, writer_fn, arg);
}

void
mt_merge_guest_fini(struct merge_guest *guest)
{
	assert(!guest->is_on);
	mt_merge_exec_fini(&guest->exec);
}

static struct mt_extent *
guest_extent(struct merge_guest *guest, const struct mt_recipe *recipe, uint32_t at)
{
	const struct mt_recipe_head *head = &recipe->head;
	struct mt_recipe_extent named = mt_recipe_extent(recipe, at);
	struct mt_replica replicas[MT_REPLICAS_MAX] = { 0 };
	struct mt_extent_end end = { .capacity_bytes = head->capacity_bytes,
		.end_bytes = head->end_bytes,
		.acked_bytes = head->mark_bytes,
		.chain_crc = head->chain_crc };

	for (uint32_t i = 0; i < named.replica_count; i++)
		replicas[i] = (struct mt_replica){ .node_id = named.nodes[i],
			.is_damaged = (named.damaged >> i & 1) != 0 };
	if (at == head->target)
		return mt_extent_adopt(&guest->shard, &named.id, named.kind, replicas,
		    named.replica_count, &end);
	return mt_extent_restore(&guest->shard, &named.id, named.kind, replicas,
	    named.replica_count);
}

/* All extents that the recipe names. */
static int
guest_adopt(struct merge_guest *guest, const struct mt_recipe *recipe)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < recipe->head.extent_count; i++) {
		struct mt_extent *extent = guest_extent(guest, recipe, i);

		rc = extent == NULL ? -ENOMEM : mt_shard_extent_add(&guest->shard, extent);
		if (rc != 0) {
			mt_extent_free(extent);
			break;
		}
		guest->extents[i] = extent->index;
		if (i == recipe->head.target)
			rc = mt_run_roll_borrow(&guest->shard, extent);
	}
	return rc;
}

int
mt_merge_guest_begin(struct merge_guest *guest, const struct mt_recipe *recipe,
    void (*tell)(int rc, void *arg), void *arg)
{
	const struct mt_recipe_head *head = &recipe->head;
	const struct merge_task task = { .target = head->chunk,
		.level = head->level,
		.is_hot = head->is_hot,
		.frame_blocks = head->frame_bytes / (uint32_t)CLEAVE_BLOCK_BYTES,
		.keeps_zeroes = head->keeps_zeroes,
		.key_id = head->key_id };

	assert(!guest->is_on);
	assert(head->target != RECIPE_NO_TARGET);
	guest->shard = (struct mt_shard){ .port = guest->exec.port,
		.index = head->shard,
		.epoch = head->epoch,
		.ring = &guest->ring };
	guest->pressure = head->pressure;
	guest->is_on = true;
	if (guest_adopt(guest, recipe) != 0) {
		mt_merge_guest_end(guest);
		return -ENOMEM;
	}
	mt_merge_exec_begin(&guest->exec, &guest->shard, &task, tell, arg);
	mt_run_writer_begin(&guest->exec.writer, &guest->shard, head->chunk, head->flushed_sequence,
	    head->cut);
	return 0;
}

void
mt_merge_guest_end(struct merge_guest *guest)
{
	if (!guest->is_on)
		return;
	if (guest->exec.writer.shard != NULL)
		mt_run_writer_forget(&guest->exec.writer);
	mt_run_roll_fini(&guest->shard);
	mt_shard_extents_free(&guest->shard);
	guest->is_on = false;
}
