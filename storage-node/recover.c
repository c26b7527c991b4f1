/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- what the disk says at start
 *
 *	superblocks -> fence pages -> slot heads, 16 at a time -> open extents' chains -> flush -> serve
 *
 * Of a superblock, a fence page, a state page there are two copies, and the younger good one counts.
 * A slot's identity is the youngest that its header and its state pages name: they repeat it, so that
 * a lost header does not orphan an extent. Every epoch seen raises its shard's fence.
 *
 * A sealed extent is trusted at its length. The others are followed (scan.c): one that ends below a
 * mark that one of its own batches carries, below the length of its freeze, or unreadably, is damaged.
 * A batch that is there and does not pass, with no mark over it, is a torn tail: the end. What was
 * found is flushed before it is told to anyone, since bytes read from a drive's cache are not durable.
 * Nothing is open afterwards: what was, is STOPPED.
 *
 * Failure: no good superblock, or a fence page of which both copies are bad, ends the start (a node
 * that has forgotten a fence must not serve). A slot of which nothing can be read is BAD and not used
 * again; where that is more than one in UNREADABLE_ONE_IN, the disk is at fault and not the slot, and the
 * start ends: it would say that copies are absent, and its room used up, which may be there tomorrow.
 * A disk that is marked as failed, or fails the flush, is served read-only.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"
#include "internal.h"

#define PROGRESS_NS NUM_S(1)
#define UNREADABLE_ONE_IN 16u

static void recover_read_super(struct node *node);
static void recover_read_fence(struct node *node);
static void slot_read_next(struct sn_slot_read *read);
static void recover_scan_next(struct node *node, struct sn_scan_job *job);

void
sn_recover_fail(struct node *node, int rc, const char *format, ...)
{
	va_list args;

	if (node->sm.state != NODE_RECOVERING)
		return; /* the first reason counts */
	va_start(args, format);
	(void)vsnprintf(node->ready_reason, sizeof(node->ready_reason), format, args);
	va_end(args);
	node->ready_rc = rc;
	sm_move(&node->sm, NODE_FAILED);
	loop_timer_stop(node->loop, &node->recover.progress);
	loop_defer(node->loop, &node->ready_task);
}

static void
recover_read_page(struct node *node, uint64_t offset_bytes,
    void (*fn)(struct disk_io *io, int rc, void *arg))
{
	struct sn_recover *recover = &node->recover;
	int rc;

	recover->piece = disk_host_piece(recover->page, ONDISK_PAGE_BYTES);
	recover->io = (struct disk_io){
		.op = DISK_READ,
		.offset_bytes = offset_bytes,
		.pieces = &recover->piece,
		.piece_count = 1,
		.fn = fn,
		.arg = node,
	};
	rc = disk_submit(node->disk, &recover->io);
	if (rc != 0)
		sn_recover_fail(node, rc, "%s: cannot read: %s", node->disk_name, log_errno(rc));
}

/* ---- superblocks ---- */

static void
recover_fail_super(struct node *node)
{
	const struct sn_recover *recover = &node->recover;
	const char *name = node->disk_name;

	switch (recover->super_rc) {
	case -ENODATA:
		sn_recover_fail(node, -ENODATA,
		    "%s: not formatted: no superblock "
		    "(see cleave-storage format --help)",
		    name);
		break;
	case -EPROTONOSUPPORT:
		sn_recover_fail(node, -EPROTONOSUPPORT,
		    "%s: superblock: version is not %u, "
		    "the only one known here",
		    name, ONDISK_VERSION);
		break;
	case -EBADMSG:
		if (strcmp(recover->super_field, "capacity") == 0)
			sn_recover_fail(node, -EBADMSG,
			    "%s: superblock: capacity: the disk has only "
			    "%llu bytes left, was it truncated?",
			    name, (unsigned long long)node->disk->capacity_bytes);
		else
			sn_recover_fail(node, -EBADMSG,
			    "%s: superblock: %s is wrong in both copies", name,
			    recover->super_field);
		break;
	default:
		sn_recover_fail(node, recover->super_rc,
		    "%s: superblock: offset %llu: cannot be read: %s", name,
		    (unsigned long long)ondisk_super_offset(0), log_errno(recover->super_rc));
		break;
	}
}

static void
recover_on_supers(struct node *node)
{
	const struct node_options *options = &node->options;
	const struct ondisk_super *super = &node->super;
	int rc;

	if (node->recover.is_other_version)
		node->recover.super_rc = -EPROTONOSUPPORT;
	if (!node->recover.has_super || node->recover.is_other_version) {
		recover_fail_super(node);
		return;
	}
	if (node->recover.super_rc != 0)
		log_warn("recover: a superblock copy is bad disk=%s rc=%s field=%s",
		    node->disk_name, log_errno(node->recover.super_rc),
		    node->recover.super_field != NULL ? node->recover.super_field : "-");
	if (options->cluster_id != 0 && options->cluster_id != super->cluster_id) {
		sn_recover_fail(node, -EXDEV,
		    "%s: superblock: cluster_id is %016llx, not %016llx: "
		    "this disk belongs to another cluster",
		    node->disk_name, (unsigned long long)super->cluster_id,
		    (unsigned long long)options->cluster_id);
		return;
	}
	if (options->node_id != 0 && options->node_id != super->node_id) {
		sn_recover_fail(node, -EXDEV,
		    "%s: superblock: node_id is %u, not %u: this is another node's disk",
		    node->disk_name, super->node_id, options->node_id);
		return;
	}
	rc = node->recover.on_super(node);
	if (rc != 0) {
		sn_recover_fail(node, rc, "%s: out of memory or limits: %s", node->disk_name,
		    log_errno(rc));
		return;
	}
	if (super->is_failed) {
		log_error("disk: a flush failed here before, read-only disk=%s", node->disk_name);
		node->is_read_only = true;
		sm_move(&node->sync.sm, SYNC_BROKEN);
	}
	node->recover.step = 0;
	recover_read_fence(node);
}

static void
recover_on_super(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = &node->recover;
	struct ondisk_super super;
	const char *field = NULL;

	(void)io;
	if (rc == 0)
		rc = ondisk_super_decode(recover->page, node->disk->capacity_bytes, &super, &field);
	/* A single copy of another version is enough: somebody has begun to make it one. A flipped bit of
	 * the version fails the CRC, and is damage like any other. */
	if (rc == -EPROTONOSUPPORT && ondisk_crc_is_good(recover->page))
		recover->is_other_version = true;
	if (rc == 0 && (!recover->has_super || super.generation > node->super.generation)) {
		node->super = super;
		recover->has_super = true;
	}
	/* A copy that is there and wrong tells more than one that is not there. */
	if (rc != 0 && (recover->super_rc == 0 || recover->super_rc == -ENODATA)) {
		recover->super_rc = rc;
		recover->super_field = field;
	}
	if (++recover->step < ONDISK_SUPER_COPIES)
		recover_read_super(node);
	else
		recover_on_supers(node);
}

static void
recover_read_super(struct node *node)
{
	recover_read_page(node, ondisk_super_offset(node->recover.step), recover_on_super);
}

/* ---- fences ---- */

static void
recover_start_slots(struct node *node)
{
	struct sn_recover *recover = &node->recover;
	uint32_t reads = (uint32_t)num_min(SN_SLOT_READS, node->super.slot_count);

	recover->next_slot = 0;
	recover->slots_left_count = node->super.slot_count;
	for (uint32_t i = 0; i < reads; i++)
		slot_read_next(&recover->slot_reads[i]);
}

static void
recover_on_fence(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = &node->recover;
	uint32_t page_index = recover->step / 2;
	uint32_t copy = recover->step % 2;
	struct ondisk_fence fence;
	const char *field = "cannot be read";

	(void)io;
	if (rc == 0)
		rc = ondisk_fence_decode(recover->page, &node->super, page_index, &fence, &field);
	if (rc == 0)
		sn_fence_load(node, &fence);
	else
		recover->fence_field = field;
	recover->fence_rcs[copy] = rc;
	if (copy == 1 && recover->fence_rcs[0] != 0 && recover->fence_rcs[1] != 0) {
		sn_recover_fail(node, rc == -EIO ? rc : -EBADMSG,
		    "%s: fence page %u: %s in both copies, offset %llu", node->disk_name,
		    page_index, recover->fence_field,
		    (unsigned long long)ondisk_fence_offset(page_index, 0));
		return;
	}
	if (copy == 1 && (recover->fence_rcs[0] != 0 || recover->fence_rcs[1] != 0))
		log_warn("recover: a fence page's copy is bad disk=%s page=%u field=%s",
		    node->disk_name, page_index, recover->fence_field);
	if (++recover->step < 2 * ONDISK_FENCE_PAGES)
		recover_read_fence(node);
	else
		recover_start_slots(node);
}

static void
recover_read_fence(struct node *node)
{
	uint32_t step = node->recover.step;

	recover_read_page(node, ondisk_fence_offset(step / 2, step % 2), recover_on_fence);
}

/* ---- slots ---- */

/* The three pages of a slot, put together. */
struct slot_view {
	bool has_identity;
	struct ondisk_slot slot;
	bool has_state;
	struct ondisk_state state;
	int worst_rc;      /* of the pages that are neither good nor unwritten */
	const char *field; /* of that page */
};

static void
slot_view_note(struct slot_view *view, int rc, const char *field)
{
	if (rc == 0 || rc == -ENODATA)
		return;
	view->worst_rc = rc;
	view->field = field;
}

static void
slot_view_take(struct slot_view *view, const struct ondisk_slot *slot)
{
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
	const char *field = "read";
	struct ondisk_slot slot;
	int rc = read->page_rcs[0];

	*ret_view = (struct slot_view){ 0 };
	if (rc == 0)
		rc = ondisk_slot_decode(read->pages, super, read->slot_index, &slot, &field);
	if (rc == 0)
		slot_view_take(ret_view, &slot);
	slot_view_note(ret_view, rc, field);
	for (uint32_t i = 0; i < 2; i++) {
		field = "read";
		rcs[i] = read->page_rcs[1 + i];
		if (rcs[i] == 0)
			rcs[i] = ondisk_state_decode(read->pages + (1 + i) * ONDISK_PAGE_BYTES,
			    super, read->slot_index, &states[i], &field);
		if (rcs[i] == 0)
			slot_view_take(ret_view, &states[i].slot);
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
}

/* Two slots with one name: the older copy's create was never answered, or its delete was. */
static bool
extent_is_superseded(struct sn_extent *extent)
{
	struct sn_extent *other = sn_extent_find(extent->node, &extent->slot.id);

	if (other == NULL)
		return false;
	if (other->slot.incarnation > extent->slot.incarnation)
		return true;
	sm_move(&other->sm, EXTENT_DELETING);
	sn_extent_remove(other);
	sm_move(&other->sm, EXTENT_FREE);
	return false;
}

static void
extent_load(struct sn_extent *extent, const struct slot_view *view)
{
	const struct ondisk_state *state = &view->state;
	struct node *node = extent->node;
	enum ondisk_slot_state what = view->has_state ? state->state : ONDISK_SLOT_OPEN;

	extent->is_virgin = false;
	extent->slot = view->slot;
	sn_extent_clear(extent);
	node->incarnation_last = num_max(node->incarnation_last, extent->slot.incarnation);
	sn_fence_note(node, extent->slot.id.shard, extent->slot.create_epoch);
	if (what == ONDISK_SLOT_DELETED || extent_is_superseded(extent))
		return; /* free */
	extent->state_generation = view->has_state ? state->generation : 0;
	extent->stop_rc = -EACCES;
	if (what == ONDISK_SLOT_OPEN) {
		sm_move(&extent->sm, EXTENT_STOPPED);
	} else if (what == ONDISK_SLOT_FROZEN) {
		sn_fence_note(node, extent->slot.id.shard, state->freeze_epoch);
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

static void
slot_is_bad(const struct sn_slot_read *read)
{
	struct node *node = read->node;
	struct sn_recover *recover = &node->recover;

	sm_move(&node->extents[read->slot_index].sm, EXTENT_BAD);
	node->bad_count++;
	for (uint32_t i = 0; i < ONDISK_SLOT_PAGES; i++)
		if (read->page_rcs[i] == 0)
			return;
	if (recover->unreadable_count++ == 0 || read->slot_index < recover->unreadable_slot) {
		recover->unreadable_rc = read->page_rcs[0];
		recover->unreadable_slot = read->slot_index;
	}
}

static void
slot_load(const struct sn_slot_read *read)
{
	struct node *node = read->node;
	struct sn_extent *extent = &node->extents[read->slot_index];
	struct slot_view view;

	slot_view_fill(read, &view);
	if (view.worst_rc != 0)
		log_limited(LOG_WARN, "recover: a slot's page is bad slot=%u rc=%s field=%s",
		    read->slot_index, log_errno(view.worst_rc), view.field);
	if (view.has_identity) {
		extent_load(extent, &view);
	} else if (view.worst_rc != 0) {
		slot_is_bad(read);
	} else {
		extent->is_virgin = true;
	}
}

static bool
recover_is_readable(struct node *node)
{
	const struct sn_recover *recover = &node->recover;

	if (recover->unreadable_count <= node->super.slot_count / UNREADABLE_ONE_IN)
		return true;
	sn_recover_fail(node, recover->unreadable_rc,
	    "%s: %u of %u slots cannot be read, offset %llu the first of them: %s", node->disk_name,
	    recover->unreadable_count, node->super.slot_count,
	    (unsigned long long)ondisk_slot_offset(&node->super, recover->unreadable_slot),
	    log_errno(recover->unreadable_rc));
	return false;
}

static void
recover_start_scans(struct node *node)
{
	struct sn_recover *recover = &node->recover;

	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		enum extent_state state = (enum extent_state)node->extents[i].sm.state;

		/* In order of slots, whatever the order of reads was. */
		if (state == EXTENT_FREE)
			sn_extent_add_free(&node->extents[i]);
		if (state != EXTENT_STOPPED && state != EXTENT_FROZEN)
			continue;
		recover->open_count++;
		recover->total_bytes += sn_capacity(node);
	}
	recover->next_extent = 0;
	recover->done_count = 0;
	for (uint32_t i = 0; i < node->options.scan_count; i++)
		recover_scan_next(node, &recover->scan_jobs[i]);
}

static void
slot_on_loaded(struct sn_slot_read *read)
{
	struct node *node = read->node;
	struct sn_recover *recover = &node->recover;

	slot_load(read);
	if (--recover->slots_left_count > 0)
		slot_read_next(read);
	else if (recover_is_readable(node))
		recover_start_scans(node);
}

static void
slot_on_read(struct disk_io *io, int rc, void *arg)
{
	struct sn_slot_read *read = arg;
	uint32_t page = read->page_index;

	(void)io;
	if (rc != 0)
		SN_COUNT(read->node, disk_errors, 1);
	if (page < ONDISK_SLOT_PAGES)
		read->page_rcs[page++] = rc;
	else if (rc != 0)
		page = 0; /* one of them is bad: which? */
	if (page == ONDISK_SLOT_PAGES) {
		slot_on_loaded(read);
		return;
	}
	read->page_index = page;
	read->piece = disk_host_piece(read->pages + page * ONDISK_PAGE_BYTES, ONDISK_PAGE_BYTES);
	read->io.offset_bytes = ondisk_slot_offset(&read->node->super, read->slot_index) +
	    page * ONDISK_PAGE_BYTES;
	rc = disk_submit(read->node->disk, &read->io);
	if (rc != 0)
		sn_recover_fail(read->node, rc, "%s: cannot read slots: %s", read->node->disk_name,
		    log_errno(rc));
}

static void
slot_read_next(struct sn_slot_read *read)
{
	struct node *node = read->node;
	int rc;

	if (node->recover.next_slot == node->super.slot_count)
		return;
	read->slot_index = node->recover.next_slot++;
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
		sn_recover_fail(node, rc, "%s: cannot read slots: %s", node->disk_name,
		    log_errno(rc));
}

/* ---- chains ---- */

static void
recover_on_flushed(struct sn_sync_waiter *waiter, int rc)
{
	struct node *node = NUM_CONTAINER_OF(waiter, struct node, recover.sync_waiter);

	/* Not durable, so not to be told: but sync.c has made the disk read-only by now. */
	assert(rc == 0 || node->is_read_only);
	node->recover.on_done(node);
}

static void
recover_on_scanned(struct sn_scan_job *job)
{
	struct sn_extent *extent = job->extent;
	struct node *node = extent->node;
	struct sn_recover *recover = &node->recover;

	extent->durable_bytes = extent->end_bytes = job->length_bytes;
	/* Also one behind the end: it tells what was acknowledged, here or elsewhere. */
	extent->mark_bytes = num_max(job->mark_bytes, job->ahead_bytes);
	extent->chain_crc = extent->end_crc = job->chain_crc;
	extent->whole_bytes = num_max(extent->whole_bytes, extent->mark_bytes);
	switch (job->end_rc) {
	case 0:
	case -ENODATA:
	case -EBADMSG:  /* a torn tail, if no mark covers it */
	case -EMSGSIZE: /* the same, at the slot's end */
		break;
	default:
		/* Unreadable: something lies there, or may. */
		extent->whole_bytes = num_max(extent->whole_bytes, job->length_bytes + DISK_ALIGN);
		break;
	}
	recover->done_count++;
	recover->done_bytes += sn_capacity(node);
	SN_COUNT(node, recovered_extents, 1);
	SN_COUNT(node, recovered_bytes, job->length_bytes);
	if (sn_extent_is_damaged(extent)) {
		SN_COUNT(node, damaged_extents, 1);
		log_warn("recover: damaged extent=%u.%u.%llu length_bytes=%llu whole_bytes=%llu "
			 "rc=%s field=%s",
		    extent->slot.id.shard, extent->slot.id.epoch,
		    (unsigned long long)extent->slot.id.counter,
		    (unsigned long long)extent->durable_bytes,
		    (unsigned long long)extent->whole_bytes, log_errno(job->end_rc),
		    job->end_field != NULL ? job->end_field : "-");
	}
	recover_scan_next(node, job);
}

static void
recover_scan_next(struct node *node, struct sn_scan_job *job)
{
	struct sn_recover *recover = &node->recover;

	while (recover->next_extent < node->super.slot_count) {
		struct sn_extent *extent = &node->extents[recover->next_extent++];

		if (extent->sm.state != EXTENT_STOPPED && extent->sm.state != EXTENT_FROZEN)
			continue;
		*job = (struct sn_scan_job){
			.extent = extent,
			.limit_bytes = sn_capacity(node),
			.must_look_ahead = true,
			.fn = recover_on_scanned,
		};
		sn_scan_start(node, job);
		return;
	}
	if (recover->done_count == recover->open_count && recover->sync_waiter.fn == NULL)
		sn_sync_wait(node, &recover->sync_waiter, recover_on_flushed, true);
}

static void
recover_on_progress(struct loop_timer *timer, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = &node->recover;
	uint32_t slots = node->super.slot_count;
	/* All slots are looked at before the first extent is read. */
	uint64_t done = ((uint64_t)(slots - recover->slots_left_count) << 40) + recover->done_bytes;
	char text[64];

	if (recover->slots_left_count > 0)
		(void)snprintf(text, sizeof(text), "%u of %u slots",
		    slots - recover->slots_left_count, slots);
	else
		(void)snprintf(text, sizeof(text), "%llu of %llu MiB",
		    (unsigned long long)(recover->done_bytes >> 20),
		    (unsigned long long)(recover->total_bytes >> 20));
	log_info("recover: %s", text);
	if (node->options.on_progress != NULL)
		node->options.on_progress(text, done > recover->told, node->options.arg);
	recover->told = num_max(recover->told, done);
	loop_timer_start(node->loop, timer, PROGRESS_NS);
}

void
sn_recover_start(struct node *node, int (*on_super)(struct node *node),
    void (*on_done)(struct node *node))
{
	struct sn_recover *recover = &node->recover;

	recover->on_super = on_super;
	recover->on_done = on_done;
	recover->started_ns = loop_now_ns(node->loop);
	if (node->disk->capacity_bytes < ONDISK_SLOTS_OFFSET + ONDISK_SLOT_BYTES_MIN) {
		sn_recover_fail(node, -ENOSPC, "%s: too small: %llu bytes", node->disk_name,
		    (unsigned long long)node->disk->capacity_bytes);
		return;
	}
	loop_timer_start(node->loop, &recover->progress, PROGRESS_NS);
	recover->step = 0;
	recover_read_super(node);
}

int
sn_recover_init(struct node *node)
{
	struct sn_recover *recover = &node->recover;

	loop_timer_init(&recover->progress, recover_on_progress, node);
	recover->page = sn_page_alloc(ONDISK_PAGE_BYTES);
	recover->slot_reads = sn_calloc(SN_SLOT_READS, sizeof(*recover->slot_reads));
	recover->scan_jobs = sn_calloc(node->options.scan_count, sizeof(*recover->scan_jobs));
	if (recover->page == NULL || recover->slot_reads == NULL || recover->scan_jobs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < SN_SLOT_READS; i++) {
		recover->slot_reads[i].node = node;
		recover->slot_reads[i].pages = sn_page_alloc(ONDISK_SLOT_HEAD_BYTES);
		if (recover->slot_reads[i].pages == NULL)
			return -ENOMEM;
	}
	return 0;
}

void
sn_recover_fini(struct node *node)
{
	struct sn_recover *recover = &node->recover;

	if (recover->progress.fn != NULL)
		loop_timer_stop(node->loop, &recover->progress);
	if (recover->slot_reads != NULL)
		for (uint32_t i = 0; i < SN_SLOT_READS; i++)
			free(recover->slot_reads[i].pages);
	free(recover->slot_reads);
	free(recover->scan_jobs);
	free(recover->page);
	recover->slot_reads = NULL;
	recover->scan_jobs = NULL;
	recover->page = NULL;
}
