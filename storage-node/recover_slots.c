/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover_slots.c -- the heads of all slots are read at start, 16 at a time, and say which extents there are
 *
 * A head is three pages: the slot's header and two state pages, of which the younger good one counts. A slot's
 * identity is the youngest that any of them names: they repeat it, so that a lost header does not orphan an
 * extent. Every epoch seen raises its shard's fence. Pages are read one by one where the three cannot be together.
 *
 * Only a good header says that a slot is free: state pages under a lost one may be of a former life, and the copy
 * that the slot holds now has none until its freeze. Nor does anybody know the incarnation of that copy: new ones
 * leap over it. Nor does a state page count under a lost header while the other one is bad: that one may have said that
 * the copy was deleted, and the slot may hold another's bytes since.
 *
 * Failure: a slot of which nothing can be read is BAD and not used, and so is one that looks free under a lost header;
 * where nothing can be read of more than one in UNREADABLE_ONE_IN, the disk is at fault and not the slot, and the start
 * ends: else the node would say that copies are absent, and its room used up, which may be there tomorrow.
 */
#include "recover_slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "disk/disk_host.h"
#include "extent.h"
#include "fence.h"
#include "format/ondisk.h"
#include "node_state.h"

#define SLOT_READS 16u        /* slots that are read at a time */
#define UNREADABLE_ONE_IN 16u /* of all slots: more that cannot be read end the start */

/*
 * Incarnations left out at a start that finds a lost header, for that may be of the disk's youngest copy: one that was
 * given again would be the name of two. No slots take so many creates between two starts, and 2^30 leaps fit below
 * ONDISK_COUNT_MAX. Not covered: two starts of which each misses what was created after the other's leap.
 */
#define INCARNATION_LEAP (1ull << 32)

/* Reads the head of one slot after another. */
struct sn_slot_read {
	struct node *node;
	struct disk_io io;
	struct dev_piece piece;
	uint8_t *pages; /* ONDISK_SLOT_HEAD_BYTES */
	uint32_t slot_index;
	uint32_t page_index; /* being read alone after an error; else ONDISK_SLOT_PAGES */
	int page_rcs[ONDISK_SLOT_PAGES];
};

struct sn_slots {
	sn_slots_fn fn;
	struct sn_slot_read reads[SLOT_READS];
	uint32_t next;             /* slot to read */
	uint32_t left_count;       /* of those that are not read */
	bool is_header_lost;       /* of any slot */
	uint32_t unreadable_count; /* slots of which not one page can be read */
	uint32_t unreadable_slot;  /* the first of them */
	int unreadable_rc;         /* the error of that one */
};

static void slot_read_next(struct sn_slot_read *read);

/* The three pages of a slot, put together. */
struct slot_view {
	bool has_identity;
	struct ondisk_slot slot;
	bool has_state;
	struct ondisk_state state;
	bool is_header_lost; /* something was written here, and no good header is */
	bool is_doubtful;    /* likewise, and a state page is bad: it may have ended the copy */
	int worst_rc;        /* of a page neither good nor unwritten, or of a lost header */
	const char *field;   /* of that page */
};

static void
slot_view_note(struct slot_view *view, int rc, const char *field)
{
	if (rc == 0 || rc == -ENODATA)
		return;
	assert(field != NULL);
	view->worst_rc = rc;
	view->field = field;
}

static void
slot_view_take(struct slot_view *view, const struct ondisk_slot *slot)
{
	assert(slot->incarnation > 0);
	if (view->has_identity && slot->incarnation <= view->slot.incarnation)
		return;
	view->has_identity = true;
	view->slot = *slot;
}

static void
slot_view_fill(const struct sn_slot_read *read, struct slot_view *ret_view)
{
	const struct ondisk_super *super = &read->node->super;
	struct ondisk_state states[2];
	int rcs[2];
	bool is_state_bad = false;
	const char *field = "read";
	struct ondisk_slot slot;
	int rc = read->page_rcs[0];
	bool has_header;

	*ret_view = (struct slot_view){ 0 };
	if (rc == 0)
		rc = ondisk_slot_decode(read->pages, super, read->slot_index, &slot, &field);
	if (rc == 0)
		slot_view_take(ret_view, &slot);
	slot_view_note(ret_view, rc, field);
	has_header = rc == 0;
	for (uint32_t i = 0; i < 2; i++) {
		field = "read";
		rcs[i] = read->page_rcs[1 + i];
		if (rcs[i] == 0)
			rcs[i] = ondisk_state_decode(read->pages + (1 + i) * ONDISK_PAGE_BYTES,
			    super, read->slot_index, &states[i], &field);
		if (rcs[i] == 0)
			slot_view_take(ret_view, &states[i].slot);
		is_state_bad |= rcs[i] != 0 && rcs[i] != -ENODATA;
		slot_view_note(ret_view, rcs[i], field);
	}
	for (uint32_t i = 0; i < 2; i++) {
		bool is_younger = !ret_view->has_state ||
		    states[i].generation > ret_view->state.generation;

		if (rcs[i] != 0 || states[i].slot.incarnation != ret_view->slot.incarnation)
			continue; /* of a former life */
		if (is_younger) {
			ret_view->state = states[i];
			ret_view->has_state = true;
		}
	}
	/* A header is written before any state page, and never unwritten. */
	if (!has_header && ret_view->has_identity && ret_view->worst_rc == 0) {
		ret_view->worst_rc = -ENODATA;
		ret_view->field = "header";
	}
	ret_view->is_header_lost = !has_header && ret_view->worst_rc != 0;
	ret_view->is_doubtful = ret_view->is_header_lost && is_state_bad;
}

/* The slot holds nobody knows what: it is not used before a start that knows. */
static void
slot_retire(struct sn_extent *extent)
{
	struct node *node = extent->node;

	assert(node->bad_count < node->super.slot_count);
	sm_move(&extent->sm, EXTENT_BAD);
	node->bad_count++;
}

/* Has another slot a younger copy of @extent's id? The older copy's create was never answered, or its delete was. */
static bool
extent_is_superseded(struct sn_extent *extent)
{
	struct sn_extent *other = sn_extent_find(extent->node, &extent->slot.id);

	if (other == NULL)
		return false;
	assert(other != extent); /* it is in no table yet */
	if (other->slot.incarnation > extent->slot.incarnation)
		return true;
	sm_move(&other->sm, EXTENT_DELETING);
	sn_extent_remove(other);
	sm_move(&other->sm, EXTENT_FREE);
	if (other->is_header_lost)
		slot_retire(other);
	return false;
}

static void
extent_load(struct sn_extent *extent, const struct slot_view *view)
{
	const struct ondisk_state *state = &view->state;
	struct node *node = extent->node;
	enum ondisk_slot_state what = view->has_state ? state->state : ONDISK_SLOT_OPEN;

	assert(view->has_identity);
	assert(extent->sm.state == EXTENT_FREE);
	extent->is_virgin = false;
	extent->slot = view->slot;
	sn_extent_clear(extent);
	node->incarnation_last = num_max(node->incarnation_last, extent->slot.incarnation);
	sn_fence_note(node, extent->slot.id.shard, extent->slot.create_epoch);
	if (what == ONDISK_SLOT_FROZEN)
		sn_fence_note(node, extent->slot.id.shard, state->freeze_epoch);
	if (what == ONDISK_SLOT_DELETED || view->is_doubtful || extent_is_superseded(extent))
		return; /* free */
	extent->state_generation = view->has_state ? state->generation : 0;
	extent->stop_rc = -EACCES;
	if (what == ONDISK_SLOT_OPEN) {
		sm_move(&extent->sm, EXTENT_STOPPED);
	} else if (what == ONDISK_SLOT_FROZEN) {
		extent->freeze_epoch = state->freeze_epoch;
		extent->whole_bytes = state->length_bytes;
		extent->stop_rc = 0;
		sm_move(&extent->sm, EXTENT_FROZEN);
	} else {
		extent->durable_bytes = extent->end_bytes = state->length_bytes;
		extent->mark_bytes = extent->whole_bytes = state->mark_bytes;
		extent->chain_crc = extent->end_crc = state->chain_crc;
		sm_move(&extent->sm, EXTENT_SEALED);
	}
	sn_extent_insert(extent);
}

/* Counts the slot if not one of its pages could be read. */
static void
slot_note_unreadable(const struct sn_slot_read *read)
{
	struct sn_slots *slots = read->node->slots;

	assert(read->slot_index < read->node->super.slot_count);
	for (uint32_t i = 0; i < ONDISK_SLOT_PAGES; i++)
		if (read->page_rcs[i] == 0)
			return;
	if (slots->unreadable_count++ == 0 || read->slot_index < slots->unreadable_slot) {
		slots->unreadable_rc = read->page_rcs[0];
		slots->unreadable_slot = read->slot_index;
	}
}

static void
slot_load(const struct sn_slot_read *read)
{
	struct node *node = read->node;
	struct sn_extent *extent = &node->extents[read->slot_index];
	struct slot_view view;

	assert(extent->sm.state == EXTENT_FREE);
	assert(!extent->is_virgin);
	slot_note_unreadable(read);
	slot_view_fill(read, &view);
	extent->is_header_lost = view.is_header_lost;
	node->slots->is_header_lost |= view.is_header_lost;
	extent->is_virgin = !view.has_identity && view.worst_rc == 0;
	if (view.has_identity)
		extent_load(extent, &view);
	if (extent->sm.state == EXTENT_FREE && view.is_header_lost)
		slot_retire(extent);
	if (view.worst_rc != 0)
		log_limited(LOG_WARN, "recover: a page of a slot is bad slot=%u rc=%s field=%s: %s",
		    read->slot_index, log_errno(view.worst_rc), view.field,
		    extent->sm.state == EXTENT_BAD ? "the slot is not used"
						   : "its other pages count");
}

/* ---- reading ---- */

static void
slots_on_failed(struct node *node, int rc)
{
	char why[64];

	assert(rc < 0);
	(void)snprintf(why, sizeof(why), "cannot read slots: %s", log_errno(rc)); /* fits */
	node->slots->fn(node, rc, why);
}

static void
slots_on_all(struct node *node)
{
	const struct sn_slots *slots = node->slots;
	char why[NODE_REASON_BYTES_MAX];

	assert(slots->left_count == 0);
	assert(slots->next == node->super.slot_count);
	if (slots->is_header_lost)
		node->incarnation_last =
		    num_min(node->incarnation_last + INCARNATION_LEAP, ONDISK_COUNT_MAX);
	if (slots->unreadable_count <= node->super.slot_count / UNREADABLE_ONE_IN) {
		slots->fn(node, 0, NULL);
		return;
	}
	(void)snprintf(why, sizeof(why),
	    "%u of %u slots cannot be read, offset %llu the first of them: %s",
	    slots->unreadable_count, node->super.slot_count,
	    (unsigned long long)ondisk_slot_offset(&node->super, slots->unreadable_slot),
	    log_errno(slots->unreadable_rc)); /* fits */
	slots->fn(node, slots->unreadable_rc, why);
}

static void
slot_on_read(struct disk_io *io, int rc, void *arg)
{
	struct sn_slot_read *read = arg;
	struct node *node = read->node;
	uint32_t page = read->page_index;

	(void)io;
	if (node->sm.state != NODE_RECOVERING)
		return;
	assert(node->slots->left_count > 0);
	assert(page <= ONDISK_SLOT_PAGES);
	if (rc != 0)
		SN_COUNT(node, disk_errors, 1);
	if (page < ONDISK_SLOT_PAGES)
		read->page_rcs[page++] = rc;
	else if (rc != 0)
		page = 0; /* one of them is bad: which? */
	if (page == ONDISK_SLOT_PAGES) {
		slot_load(read);
		if (--node->slots->left_count > 0)
			slot_read_next(read);
		else
			slots_on_all(node);
		return;
	}
	read->page_index = page;
	read->piece = disk_host_piece(read->pages + page * ONDISK_PAGE_BYTES, ONDISK_PAGE_BYTES);
	read->io.offset_bytes = ondisk_slot_offset(&node->super, read->slot_index) +
	    page * ONDISK_PAGE_BYTES;
	rc = disk_submit(node->disk, &read->io);
	if (rc != 0)
		slots_on_failed(node, rc);
}

static void
slot_read_next(struct sn_slot_read *read)
{
	struct node *node = read->node;
	struct sn_slots *slots = node->slots;
	int rc;

	assert(slots->next <= node->super.slot_count);
	if (slots->next == node->super.slot_count)
		return;
	read->slot_index = slots->next++;
	read->page_index = ONDISK_SLOT_PAGES;
	memset(read->page_rcs, 0, sizeof(read->page_rcs));
	read->piece = disk_host_piece(read->pages, ONDISK_SLOT_HEAD_BYTES);
	read->io = (struct disk_io){
		.op = DISK_READ,
		.offset_bytes = ondisk_slot_offset(&node->super, read->slot_index),
		.pieces = &read->piece,
		.piece_count = 1,
		.fn = slot_on_read,
		.arg = read,
	};
	rc = disk_submit(node->disk, &read->io);
	if (rc != 0)
		slots_on_failed(node, rc);
}

void
sn_slots_read(struct node *node, sn_slots_fn fn)
{
	struct sn_slots *slots = node->slots;
	uint32_t reads = (uint32_t)num_min(SLOT_READS, node->super.slot_count);

	assert(node->sm.state == NODE_RECOVERING);
	assert(slots->fn == NULL);
	assert(fn != NULL);
	slots->fn = fn;
	slots->left_count = node->super.slot_count;
	for (uint32_t i = 0; i < reads; i++)
		slot_read_next(&slots->reads[i]);
}

uint32_t
sn_slots_left_count(const struct node *node)
{
	assert(node->slots != NULL);
	return node->slots->left_count;
}

int
sn_slots_init(struct node *node)
{
	struct sn_slots *slots = sn_calloc(1, sizeof(*slots));

	assert(node->slots == NULL);
	if (slots == NULL)
		return -ENOMEM;
	node->slots = slots;
	for (uint32_t i = 0; i < SLOT_READS; i++) {
		slots->reads[i].node = node;
		slots->reads[i].pages = sn_page_alloc(ONDISK_SLOT_HEAD_BYTES);
		if (slots->reads[i].pages == NULL)
			return -ENOMEM;
	}
	return 0;
}

void
sn_slots_fini(struct node *node)
{
	if (node->slots == NULL)
		return;
	for (uint32_t i = 0; i < SLOT_READS; i++)
		free(node->slots->reads[i].pages);
	free(node->slots);
	node->slots = NULL;
}
