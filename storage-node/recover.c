/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- what the disk says at start
 *
 *	superblocks -> fence pages -> claim pages -> slot heads, 16 at a time -> open extents' chains -> flush -> serve
 *
 * Superblock and fence pages have two copies each, of which the younger good one counts. Claim pages have one, which may
 * be bad, and are of a node with a key alone. Slot heads are
 * recover_slots.c's.
 *
 * A sealed extent is trusted at its length. The others are followed (scan.c): one that ends below a
 * mark that one of its own batches carries, below the length of its freeze, or unreadably, is damaged.
 * What could not be read is looked at again by the next freeze, truncation or verification, and counts then.
 * A batch that is there and does not pass, with no mark over it, is a torn tail: the end. A flush
 * follows before any length is told, since bytes read from a drive's cache are not durable. No extent
 * is OPEN afterwards: those that were are STOPPED.
 *
 * Failure: no good superblock, or a fence page of which both copies are bad, ends the start (a node
 * that has forgotten a fence must not serve), and so do too many slots of which nothing can be read.
 * A disk that is marked as failed, or fails the flush, is served read-only.
 *
 * A node that has failed, or is stopped, recovers no further: requests at the disk end, and their handlers do nothing.
 */
#include "recover.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "claim_page.h"
#include "disk/disk_host.h"
#include "extent.h"
#include "format/format_pages.h"
#include "node_state.h"
#include "recover_slots.h"
#include "scan.h"

#define PROGRESS_NS NUM_S(1) /* from one line about progress to the next */

struct sn_recover {
	struct node *node;
	struct disk_io io;
	struct dev_piece piece;
	void *page;
	uint32_t step; /* superblock copy, then fence page and copy, then claim page, being read */
	int super_rc;  /* why the first bad superblock is bad; 0: none is */
	const char *super_field;
	bool has_super;
	bool is_other_version; /* a whole copy of another version */
	int fence_rcs[2];      /* of a page's copies */
	const char *fence_field;
	uint32_t next_extent; /* slot to look at for an open extent */
	struct sn_scan_job *scan_jobs;
	uint32_t open_count, done_count;
	uint64_t total_bytes, done_bytes;
	struct sn_sync_waiter sync_waiter;
	struct loop_timer progress;
	uint64_t told; /* how far it was at the last look */
	uint64_t started_ns;
	int (*on_super)(struct node *node); /* sn_recover_start */
	void (*on_done)(struct node *node);
};

static void recover_read_super(struct node *node);
static void recover_read_fence(struct node *node);
static void recover_read_claims(struct node *node);
static void recover_start_scans(struct node *node);
static void recover_scan_next(struct node *node, struct sn_scan_job *job);

void
sn_recover_fail(struct node *node, int rc, const char *format, ...)
{
	va_list args;

	assert(rc < 0);
	if (node->sm.state != NODE_RECOVERING)
		return; /* the first reason counts */
	va_start(args, format);
	(void)vsnprintf(node->ready_reason, sizeof(node->ready_reason), format, args);
	va_end(args);
	node->ready_rc = rc;
	sm_move(&node->sm, NODE_FAILED);
	loop_timer_stop(node->loop, &node->recover->progress);
	loop_defer(node->loop, &node->ready_task);
}

static void
recover_read_page(struct node *node, uint64_t offset_bytes,
    void (*fn)(struct disk_io *io, int rc, void *arg))
{
	struct sn_recover *recover = node->recover;
	int rc;

	assert(offset_bytes % ONDISK_PAGE_BYTES == 0);
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
	const struct sn_recover *recover = node->recover;
	const char *name = node->disk_name;

	assert(recover->super_rc < 0);
	assert(recover->super_rc != -EBADMSG || recover->super_field != NULL);
	switch (recover->super_rc) {
	case -ENODATA:
		sn_recover_fail(node, -ENODATA,
		    "%s: not formatted: no superblock "
		    "(see cleave-storage format --help)",
		    name);
		break;
	case -EPROTONOSUPPORT:
		sn_recover_fail(node, -EPROTONOSUPPORT,
		    "%s: superblock: version is not %u, the only one known here: "
		    "start it with the release that formatted it",
		    name, ONDISK_VERSION);
		break;
	case -EBADMSG:
		if (strcmp(recover->super_field, "capacity") == 0)
			sn_recover_fail(node, -EBADMSG, "%s: " FORMAT_CUT_TEXT, name,
			    (unsigned long long)node->disk->capacity_bytes);
		else
			sn_recover_fail(node, -EBADMSG,
			    "%s: superblock: %s is wrong in both copies: the disk is damaged, or no "
			    "disk of a node; format it, and its copies are made anew",
			    name, recover->super_field);
		break;
	default:
		sn_recover_fail(node, recover->super_rc,
		    "%s: superblock: offset %llu: cannot be read: %s", name,
		    (unsigned long long)ondisk_super_offset(0), log_errno(recover->super_rc));
		break;
	}
}

/* The disk says which node this is, and the key has to say the same: gateways believe none that differs. */
static int
recover_check_key(struct node *node)
{
	const struct split_wanted wanted = { .roles = SPLIT_ROLE_NODE,
		.number = node->super.node_id,
		.cluster_id = node->super.cluster_id };
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	int rc = split_subject_check(split_key_subject(node->key), &wanted, why);

	if (rc != 0)
		sn_recover_fail(node, rc, "--key: %s: %s", node->disk_name, why);
	return rc;
}

static void
recover_on_supers(struct node *node)
{
	const struct node_options *options = &node->options;
	const struct ondisk_super *super = &node->super;
	int rc;

	assert(node->recover->step == ONDISK_SUPER_COPIES);
	if (node->recover->is_other_version)
		node->recover->super_rc = -EPROTONOSUPPORT;
	if (!node->recover->has_super || node->recover->is_other_version) {
		recover_fail_super(node);
		return;
	}
	if (node->recover->super_rc != 0)
		log_warn(
		    "recover: a copy of the superblock is bad disk=%s rc=%s field=%s: the other one "
		    "counts",
		    node->disk_name, log_errno(node->recover->super_rc),
		    node->recover->super_field != NULL ? node->recover->super_field : "-");
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
	if (options->key != NULL && recover_check_key(node) != 0)
		return;
	rc = node->recover->on_super(node);
	if (rc != 0) {
		sn_recover_fail(node, rc, "%s: no memory for its slots and messages: %s",
		    node->disk_name, log_errno(rc));
		return;
	}
	if (super->is_failed)
		sn_sync_begin_broken(node);
	node->recover->step = 0;
	recover_read_fence(node);
}

static void
recover_on_super(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = node->recover;
	struct ondisk_super super;
	const char *field = NULL;

	(void)io;
	if (node->sm.state != NODE_RECOVERING)
		return;
	assert(recover->step < ONDISK_SUPER_COPIES);
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
	/* The error of a copy that is there and wrong tells more than that of an absent one. */
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
	recover_read_page(node, ondisk_super_offset(node->recover->step), recover_on_super);
}

/* ---- fences ---- */

static void
recover_on_slots(struct node *node, int rc, const char *why)
{
	assert(rc <= 0);
	assert((rc == 0) == (why == NULL));
	if (rc != 0)
		sn_recover_fail(node, rc, "%s: %s", node->disk_name, why);
	else
		recover_start_scans(node);
}

static void
recover_on_fence(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = node->recover;
	uint32_t page_index = recover->step / 2;
	uint32_t copy = recover->step % 2;
	struct ondisk_fence fence;
	const char *field = "cannot be read";

	(void)io;
	if (node->sm.state != NODE_RECOVERING)
		return;
	assert(page_index < ONDISK_FENCE_PAGES);
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
		log_warn(
		    "recover: a copy of a fence page is bad disk=%s page=%u field=%s: the other one "
		    "counts",
		    node->disk_name, page_index, recover->fence_field);
	if (++recover->step < 2 * ONDISK_FENCE_PAGES) {
		recover_read_fence(node);
	} else {
		recover->step = 0;
		recover_read_claims(node);
	}
}

static void
recover_read_fence(struct node *node)
{
	uint32_t step = node->recover->step;

	recover_read_page(node, ondisk_fence_offset(step / 2, step % 2), recover_on_fence);
}

/* ---- claims ---- */

static void
recover_on_claims(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_recover *recover = node->recover;
	struct ondisk_claims claims;
	const char *field = "cannot be read";

	(void)io;
	if (node->sm.state != NODE_RECOVERING)
		return;
	assert(recover->step < ONDISK_CLAIM_PAGES);
	if (rc == 0)
		rc = ondisk_claims_decode(recover->page, &node->super, recover->step, &claims,
		    &field);
	if (rc == 0)
		sn_claim_page_load(node, &claims);
	else if (rc != -ENODATA)
		log_warn(
		    "recover: a claim page is bad disk=%s page=%u field=%s: the first gateway that comes has "
		    "the epochs of its shards",
		    node->disk_name, recover->step, field);
	recover->step++;
	recover_read_claims(node);
}

static void
recover_read_claims(struct node *node)
{
	uint32_t step = node->recover->step;

	if (node->claim_pages == NULL || step == ONDISK_CLAIM_PAGES)
		sn_slots_read(node, recover_on_slots);
	else
		recover_read_page(node, ondisk_claims_offset(step), recover_on_claims);
}

/* ---- chains ---- */

static void
recover_start_scans(struct node *node)
{
	struct sn_recover *recover = node->recover;

	assert(recover->open_count == 0);
	assert(recover->total_bytes == 0);
	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		enum extent_state state = (enum extent_state)node->extents[i].sm.state;

		/* Free lists are in the order of slots, whatever that of the reads was. */
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
recover_on_flushed(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_recover *recover = NUM_CONTAINER_OF(waiter, struct sn_recover, sync_waiter);
	struct node *node = recover->node;

	/* After a failed flush lengths are told all the same: sync.c has made the disk read-only. */
	assert(rc == 0 || node->is_read_only);
	if (node->sm.state != NODE_RECOVERING)
		return;
	loop_timer_stop(node->loop, &recover->progress);
	log_info("recover: done disk=%s extents=%u followed=%u bytes=%llu ms=%llu", node->disk_name,
	    node->held_count, recover->open_count,
	    (unsigned long long)node->counters.recovered_bytes,
	    (unsigned long long)((loop_now_ns(node->loop) - recover->started_ns) / NUM_MS(1)));
	recover->on_done(node);
}

static void
recover_on_scanned(struct sn_scan_job *job)
{
	struct sn_extent *extent = job->extent;
	struct node *node = extent->node;
	struct sn_recover *recover = node->recover;

	if (node->sm.state != NODE_RECOVERING)
		return;
	assert(extent->sm.state == EXTENT_STOPPED || extent->sm.state == EXTENT_FROZEN);
	sn_extent_take_chain(extent, job);
	assert(recover->done_count < recover->open_count);
	recover->done_count++;
	recover->done_bytes += sn_capacity(node);
	SN_COUNT(node, recovered_extents, 1);
	SN_COUNT(node, recovered_bytes, job->length_bytes);
	if (sn_extent_is_damaged(extent)) {
		SN_COUNT(node, damaged_extents, 1);
		log_warn(
		    "recover: a copy is damaged extent=%u.%u.%llu length_bytes=%llu whole_bytes=%llu "
		    "rc=%s field=%s: its gateway makes it anew from another",
		    extent->slot.id.shard, extent->slot.id.epoch,
		    (unsigned long long)extent->slot.id.counter,
		    (unsigned long long)extent->durable_bytes,
		    (unsigned long long)num_max(extent->whole_bytes, extent->unread_bytes),
		    log_errno(job->end_rc), job->end_field != NULL ? job->end_field : "-");
	}
	recover_scan_next(node, job);
}

static void
recover_scan_next(struct node *node, struct sn_scan_job *job)
{
	struct sn_recover *recover = node->recover;

	assert(recover->done_count <= recover->open_count);
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
	struct sn_recover *recover = node->recover;
	uint32_t slots = node->super.slot_count;
	uint32_t left = sn_slots_left_count(node);
	/* All slots are looked at before the first extent is read. */
	uint64_t done = ((uint64_t)(slots - left) << 40) + recover->done_bytes;
	char text[64];

	assert(left <= slots);
	if (left > 0)
		(void)snprintf(text, sizeof(text), "%u of %u slots", slots - left, slots);
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
	struct sn_recover *recover = node->recover;

	assert(node->sm.state == NODE_RECOVERING);
	assert(on_super != NULL);
	assert(on_done != NULL);
	assert(recover->on_done == NULL);
	recover->on_super = on_super;
	recover->on_done = on_done;
	recover->started_ns = loop_now_ns(node->loop);
	if (node->disk->capacity_bytes < ONDISK_SLOTS_OFFSET + ONDISK_SLOT_BYTES_MIN) {
		sn_recover_fail(node, -ENOSPC,
		    "%s: too small for a node's disk: %llu bytes, fewer than %llu", node->disk_name,
		    (unsigned long long)node->disk->capacity_bytes,
		    (unsigned long long)(ONDISK_SLOTS_OFFSET + ONDISK_SLOT_BYTES_MIN));
		return;
	}
	loop_timer_start(node->loop, &recover->progress, PROGRESS_NS);
	recover->step = 0;
	recover_read_super(node);
}

void
sn_recover_stop(struct node *node)
{
	assert(node->recover != NULL);
	loop_timer_stop(node->loop, &node->recover->progress);
}

int
sn_recover_init(struct node *node)
{
	struct sn_recover *recover = sn_calloc(1, sizeof(*recover));

	assert(node->recover == NULL);
	assert(node->options.scan_count > 0);
	if (recover == NULL)
		return -ENOMEM;
	node->recover = recover;
	recover->node = node;
	loop_timer_init(&recover->progress, recover_on_progress, node);
	recover->page = sn_page_alloc(ONDISK_PAGE_BYTES);
	recover->scan_jobs = sn_calloc(node->options.scan_count, sizeof(*recover->scan_jobs));
	if (recover->page == NULL || recover->scan_jobs == NULL)
		return -ENOMEM;
	return sn_slots_init(node);
}

void
sn_recover_fini(struct node *node)
{
	struct sn_recover *recover = node->recover;

	sn_slots_fini(node);
	if (recover == NULL)
		return;
	loop_timer_stop(node->loop, &recover->progress);
	free(recover->scan_jobs);
	free(recover->page);
	free(recover);
	node->recover = NULL;
}
