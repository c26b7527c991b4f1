/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent.c -- the slots of a disk and the extents they hold
 *
 *	        claim            durable           error, restart
 *	 FREE --------> CREATING -------> OPEN --------------------> STOPPED
 *	  |  ^             |                \                       /   ^  ^
 *	  v  | failed      |                 \  freeze             /    |  | failed
 *	ZEROING <----------+                  +---> FREEZING <----+-----+--+
 *	  ^                                   |        | durable  |     |
 *	  |                                   |        v          |     |
 *	  |                                   |      FROZEN ------+     |
 *	  |  durable                truncate  |        | truncate       |
 *	  +---------- DELETING <--+           +---> SEALING ------------+
 *	   (to FREE)              |                    | durable
 *	                          +----- SEALED <------+
 *
 * Each slot has one struct sn_extent: the array is as long as the disk has slots, and its members move
 * between a hash table (they hold an extent) and three free lists. OPEN takes plain appends; STOPPED has
 * met an error or a restart and can only be frozen, sealed, deleted; FROZEN takes re-sent bytes of
 * the epoch that froze it.
 *
 * A slot whose header could not be written is free again: the disk may have had no room for a while, as a thin pool
 * or a file system that was full below its file has. The header there is the old one or the new one, and the next create
 * writes it whole. Such a slot is taken where there is no other, for the place may be a bad one.
 *
 * Space: a log extent may not take the last 1/16 of the slots (3 at least, and where slots are few or
 * small up to 1/8, for a merge of a whole chunk), a run not the last half of those, a manifest may take
 * any: what frees space needs space. A log that is for tombstones alone may take half of what a run may not, and leaves
 * one for a manifest, without which a take-over would wait for ever.
 */
#include "extent.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "format/format_pages.h"
#include "node_state.h"
#include "scan.h"

#define SN_EXTENT_MAGIC 0x54584553u /* "SEXT" */
#define HASH_BUCKETS_MIN 16u
/* Slots that log extents leave free; the head of this file says what for. */

#define CHANGES (SM_TO(EXTENT_FREEZING) | SM_TO(EXTENT_SEALING) | SM_TO(EXTENT_DELETING))

const struct sm_state extent_table[EXTENT_STATE_NR] = {
	[EXTENT_FREE] = { "free",
	    SM_TO(EXTENT_CREATING) | SM_TO(EXTENT_ZEROING) | SM_TO(EXTENT_BAD) |
		SM_TO(EXTENT_STOPPED) | SM_TO(EXTENT_FROZEN) | SM_TO(EXTENT_SEALED),
	    SM_INITIAL },
	[EXTENT_ZEROING] = { "zeroing", SM_TO(EXTENT_FREE), 0 },
	[EXTENT_BAD] = { "bad", 0, SM_FINAL | SM_FAILURE },
	[EXTENT_CREATING] = { "creating", SM_TO(EXTENT_OPEN) | SM_TO(EXTENT_FREE), 0 },
	[EXTENT_OPEN] = { "open", CHANGES | SM_TO(EXTENT_STOPPED), 0 },
	[EXTENT_STOPPED] = { "stopped", CHANGES, 0 },
	[EXTENT_FREEZING] = { "freezing", SM_TO(EXTENT_FROZEN) | SM_TO(EXTENT_STOPPED), 0 },
	[EXTENT_FROZEN] = { "frozen", CHANGES | SM_TO(EXTENT_STOPPED), 0 },
	[EXTENT_SEALING] = { "sealing",
	    SM_TO(EXTENT_SEALED) | SM_TO(EXTENT_STOPPED) | SM_TO(EXTENT_OPEN) |
		SM_TO(EXTENT_FROZEN),
	    0 },
	[EXTENT_SEALED] = { "sealed", SM_TO(EXTENT_DELETING), 0 },
	[EXTENT_DELETING] = { "deleting",
	    SM_TO(EXTENT_FREE) | SM_TO(EXTENT_STOPPED) | SM_TO(EXTENT_SEALED), 0 },
};

uint64_t
sn_capacity(const struct node *node)
{
	return ondisk_capacity(&node->super);
}

static struct sn_extent **
hash_bucket(struct node *node, const struct extent_id *id)
{
	uint64_t mixed = num_mix_u64(extent_id_pack(id));

	return &node->hash[(uint32_t)mixed & node->hash_mask];
}

static bool
id_is_same(const struct extent_id *a, const struct extent_id *b)
{
	return a->shard == b->shard && a->epoch == b->epoch && a->counter == b->counter;
}

struct sn_extent *
sn_extent_find(struct node *node, const struct extent_id *id)
{
	struct sn_extent *extent;

	for (extent = *hash_bucket(node, id); extent != NULL; extent = extent->hash_next) {
		CHECK_OBJ(extent, SN_EXTENT_MAGIC);
		if (id_is_same(&extent->slot.id, id))
			return extent;
	}
	return NULL;
}

void
sn_extent_insert(struct sn_extent *extent)
{
	struct node *node = extent->node;
	struct sn_extent **bucket = hash_bucket(node, &extent->slot.id);

	CHECK_OBJ(extent, SN_EXTENT_MAGIC);
	assert(sn_extent_find(node, &extent->slot.id) == NULL);
	assert(extent->slot.kind >= EXTENT_LOG);
	assert(extent->slot.kind <= EXTENT_MANIFEST);
	extent->hash_next = *bucket;
	*bucket = extent;
	node->held_count++;
	node->kind_counts[extent->slot.kind]++;
}

void
sn_extent_remove(struct sn_extent *extent)
{
	struct node *node = extent->node;
	struct sn_extent **at = hash_bucket(node, &extent->slot.id);

	CHECK_OBJ(extent, SN_EXTENT_MAGIC);
	while (*at != extent) {
		assert(*at != NULL); /* it is in the table */
		at = &(*at)->hash_next;
	}
	*at = extent->hash_next;
	extent->hash_next = NULL;
	assert(node->held_count > 0);
	node->held_count--;
	assert(node->kind_counts[extent->slot.kind] > 0);
	node->kind_counts[extent->slot.kind]--;
}

void
sn_extent_clear(struct sn_extent *extent)
{
	assert(sn_extent_is_settled(extent));
	assert(extent->read_count == 0);
	extent->end_bytes = extent->durable_bytes = 0;
	extent->mark_bytes = extent->whole_bytes = extent->unread_bytes = 0;
	extent->chain_crc = extent->end_crc = batch_chain_seed(&extent->slot.id, extent->slot.kind);
	extent->freeze_epoch = 0;
	extent->state_generation = 0;
	extent->is_rotten = false;
	extent->stop_rc = 0;
	extent->failed_bytes = UINT64_MAX;
	extent->failed_rc = 0;
}

bool
sn_extent_look_written(struct sn_extent *extent)
{
	struct node *node = extent->node;

	CHECK_OBJ(extent, SN_EXTENT_MAGIC);
	if (node->options.must_prewrite && !extent->is_prewritten)
		extent->is_prewritten = disk_is_written(node->disk,
		    ondisk_data_offset(&node->super, extent->slot.slot_index), sn_capacity(node));
	return extent->is_prewritten;
}

/*
 * Somebody may have made a copy of the disk's file that shares its blocks (cp --reflink, a backup): then the next
 * write to each goes to a new block, which only a flush makes durable.
 */
static void
extent_look_shared(struct sn_extent *extent)
{
	struct node *node = extent->node;

	assert(extent->sm.state == EXTENT_CREATING);
	if (!node->options.must_prewrite || node->options.write_cache != NODE_CACHE_PROTECTED ||
	    !disk_is_shared(node->disk, ondisk_data_offset(&node->super, extent->slot.slot_index),
		sn_capacity(node)))
		return;
	extent->is_prewritten = false;
	SN_COUNT(node, shared_slots, 1);
	log_limited(LOG_WARN,
	    "disk: a copy of the file shares its blocks (a reflink): appends to slot %u are flushed, "
	    "whatever --write-cache says; do not copy a disk in use disk=%s",
	    extent->slot.slot_index, node->disk_name);
}

void
sn_extent_add_free(struct sn_extent *extent)
{
	struct node *node = extent->node;

	assert(extent->sm.state == EXTENT_FREE);
	assert(!list_contains(&extent->link));
	assert(node->free_count < node->super.slot_count);
	node->failed_count += extent->is_failed;
	if (extent->is_failed)
		list_push_back(&node->free_failed, &extent->link);
	else if (extent->is_virgin && !extent->is_prewritten)
		list_push_back(&node->free_virgin, &extent->link);
	else
		list_push_back(&node->free_used, &extent->link);
	node->free_count++;
}

uint32_t
sn_extent_free_count(const struct node *node)
{
	assert(node->free_count <= node->super.slot_count);
	return node->free_count + (node->is_zeroing ? 1 : 0);
}

uint32_t
sn_extent_reserve(const struct node *node, enum extent_kind kind)
{
	uint64_t slot_count = node->super.slot_count;
	uint32_t reserve = node_format_reserve(slot_count, sn_capacity(node));

	assert(slot_count > 0);
	switch (kind) {
	case EXTENT_LOG:
		return reserve;
	case EXTENT_RUN:
		return reserve == 3 ? 2 : reserve / 2;
	case EXTENT_MANIFEST:
		return 0;
	}
	return reserve;
}

/* Slots that a log for tombstones leaves: one at least, for a manifest, but where a log itself leaves two. */
static uint32_t
extent_tombstone_reserve(const struct node *node)
{
	uint32_t reserve = sn_extent_reserve(node, EXTENT_LOG);

	return reserve == 3 ? 1 : reserve / 4;
}

/* A slot whose last extent had the same name holds bytes that would pass as the new one's. */
static struct sn_extent *
free_list_first_not(struct loop_link *list, const struct extent_id *id)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(list, link, next) {
		struct sn_extent *extent = LIST_ENTRY(link, struct sn_extent, link);

		assert(extent->sm.state == EXTENT_FREE);
		if (extent->is_virgin ||
		    !id_is_same(extent->is_failed ? &extent->former_id : &extent->slot.id, id))
			return extent;
	}
	return NULL;
}

/*
 * Slots that are kept back for others are good ones: a create that finds no more of them tries one where a create has failed.
 * NULL: nothing is left, or only what the extent itself was in.
 */
static struct sn_extent *
extent_choose(struct node *node, const struct extent_id *id, uint32_t reserve)
{
	struct sn_extent *extent = NULL;

	assert(node->failed_count <= node->free_count);
	if (node->free_count - node->failed_count > reserve) {
		extent = free_list_first_not(&node->free_used, id);
		if (extent == NULL)
			extent = free_list_first_not(&node->free_virgin, id);
	}
	return extent != NULL ? extent : free_list_first_not(&node->free_failed, id);
}

int
sn_extent_claim(struct node *node, const struct wire_node *create, struct sn_extent **ret_extent)
{
	const struct extent_id *id = &create->id;
	bool is_reserve = (create->flags & WIRE_FLAG_RESERVE) != 0;
	uint32_t reserve = is_reserve ? extent_tombstone_reserve(node)
				      : sn_extent_reserve(node, create->kind);
	struct sn_extent *extent;

	assert(sn_extent_find(node, id) == NULL);
	assert(create->opcode == WIRE_EXTENT_CREATE);
	/* The count of incarnations ends only on a disk that somebody has scribbled on. */
	if ((node->free_count <= reserve && node->failed_count == 0) ||
	    node->incarnation_last >= ONDISK_COUNT_MAX)
		return -ENOSPC;
	extent = extent_choose(node, id, reserve);
	if (extent == NULL)
		return -EBUSY;
	list_remove(&extent->link);
	assert(node->free_count > 0);
	node->free_count--;
	node->failed_count -= extent->is_failed;
	if (!extent->is_failed)
		extent->former_id = extent->slot.id;
	assert(list_is_empty(&extent->changes)); /* those of the extent before have left */
	sm_move(&extent->sm, EXTENT_CREATING);
	extent->is_virgin = false;
	extent->slot = (struct ondisk_slot){
		.slot_index = (uint32_t)(extent - node->extents),
		.id = *id,
		.kind = create->kind,
		.create_epoch = create->epoch,
		.incarnation = ++node->incarnation_last,
	};
	sn_extent_clear(extent);
	sn_extent_insert(extent);
	(void)sn_extent_look_written(extent);
	extent_look_shared(extent);
	*ret_extent = extent;
	return 0;
}

void
sn_extent_release(struct sn_extent *extent)
{
	CHECK_OBJ(extent, SN_EXTENT_MAGIC);
	assert(sn_extent_is_settled(extent));
	assert(extent->read_count == 0);
	sn_extent_remove(extent);
	sm_move(&extent->sm, EXTENT_FREE);
	sn_extent_add_free(extent);
}

void
sn_extent_give_up(struct sn_extent *extent)
{
	assert(extent->sm.state == EXTENT_CREATING);
	extent->is_failed = true;
	sn_extent_release(extent);
}

void
sn_extent_stop(struct sn_extent *extent, int rc)
{
	CHECK_OBJ(extent, SN_EXTENT_MAGIC);
	assert(rc < 0);
	if (extent->sm.state == EXTENT_OPEN || extent->sm.state == EXTENT_FROZEN)
		sm_move(&extent->sm, EXTENT_STOPPED);
	if (sn_extent_is_held(extent) && extent->sm.state != EXTENT_SEALED)
		extent->stop_rc = rc;
}

bool
sn_extent_is_settled(const struct sn_extent *extent)
{
	return list_is_empty(&extent->checking) && list_is_empty(&extent->queued) &&
	    list_is_empty(&extent->in_flight);
}

uint32_t
sn_extent_damaged_count(const struct node *node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < node->super.slot_count; i++)
		count += sn_extent_is_held(&node->extents[i]) &&
		    sn_extent_is_damaged(&node->extents[i]);
	return count;
}

bool
sn_extent_is_damaged(const struct sn_extent *extent)
{
	return extent->is_rotten || extent->durable_bytes < extent->whole_bytes ||
	    sn_extent_is_unread(extent);
}

bool
sn_extent_is_unread(const struct sn_extent *extent)
{
	return extent->durable_bytes < extent->unread_bytes;
}

void
sn_extent_take_chain(struct sn_extent *extent, const struct sn_scan_job *job)
{
	assert(job->extent == extent && job->must_look_ahead);
	assert(sn_extent_is_settled(extent));
	extent->durable_bytes = extent->end_bytes = job->length_bytes;
	/* A mark behind the end counts, too: it tells what was acknowledged, here or elsewhere. */
	extent->mark_bytes = num_max(job->mark_bytes, job->ahead_bytes);
	extent->chain_crc = extent->end_crc = job->chain_crc;
	extent->whole_bytes = num_max(extent->whole_bytes, extent->mark_bytes);
	switch (job->end_rc) {
	case 0:
	case -ENODATA:
	case -EBADMSG:  /* a torn tail, if no mark covers it */
	case -EMSGSIZE: /* the same, at the slot's end */
		extent->unread_bytes = 0;
		break;
	default:
		/* Something lies there, or may. */
		extent->unread_bytes = job->length_bytes + DISK_ALIGN;
		break;
	}
}

bool
sn_extent_is_held(const struct sn_extent *extent)
{
	switch ((enum extent_state)extent->sm.state) {
	case EXTENT_OPEN:
	case EXTENT_STOPPED:
	case EXTENT_FREEZING:
	case EXTENT_FROZEN:
	case EXTENT_SEALING:
	case EXTENT_SEALED:
		return true;
	default:
		return false;
	}
}

enum wire_extent_state
sn_extent_wire_state(const struct sn_extent *extent)
{
	assert(sn_extent_is_held(extent));
	switch ((enum extent_state)extent->sm.state) {
	case EXTENT_SEALED:
		return WIRE_EXTENT_SEALED;
	case EXTENT_FROZEN:
		return WIRE_EXTENT_FROZEN;
	default:
		return WIRE_EXTENT_OPEN;
	}
}

static int
extents_alloc(struct node *node)
{
	uint32_t slots = node->super.slot_count;
	uint32_t buckets = HASH_BUCKETS_MIN;

	assert(slots > 0);
	assert(slots <= ONDISK_SLOTS_MAX);
	assert(node->extents == NULL);
	while (buckets < slots)
		buckets *= 2;
	node->extents = sn_calloc(slots, sizeof(*node->extents));
	node->hash = sn_calloc(buckets, sizeof(*node->hash));
	node->hash_mask = buckets - 1;
	return node->extents == NULL || node->hash == NULL ? -ENOMEM : 0;
}

int
sn_extent_init_all(struct node *node)
{
	int rc = extents_alloc(node);

	assert(node->held_count == 0);
	assert(node->free_count == 0);
	if (rc != 0)
		return rc;
	list_init(&node->free_used);
	list_init(&node->free_virgin);
	list_init(&node->free_failed);
	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		struct sn_extent *extent = &node->extents[i];

		extent->magic = SN_EXTENT_MAGIC;
		sm_init(&extent->sm, "extent", extent_table, EXTENT_FREE, i);
		extent->node = node;
		extent->slot.slot_index = i;
		extent->failed_bytes = UINT64_MAX;
		list_init(&extent->checking);
		list_init(&extent->queued);
		list_init(&extent->in_flight);
		list_init(&extent->changes);
	}
	return 0;
}

void
sn_extent_fini_all(struct node *node)
{
	free(node->extents);
	free(node->hash);
	node->extents = NULL;
	node->hash = NULL;
}
