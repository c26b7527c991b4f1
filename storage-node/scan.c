/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- follow an extent's chain of batches, as far as it is good
 *
 *	IDLE --job--> WAITING --may--> READING --bytes--> CHECKING --all passed, or one is cut off--> WAITING
 *	                 \-- must not --> IDLE               \-- the chain ends --> IDLE
 *
 * Only a job with before_read ever waits in WAITING.
 *
 * A scanner owns a buffer of device memory, into which the batch engine alone looks. It reads a buffer
 * at a time. A read that fails does not say that the chain is unreadable: the bytes may lie beyond its
 * end. So the read is done again a page long, and then the batch whose header is in that page. Only
 * when a page where the chain should go on, or a batch that is there, cannot be read, is it an error.
 *
 * A batch that claims more bytes than the limit leaves ends the chain with -EMSGSIZE.
 *
 * The end of a chain tells nothing about what should be there: a torn tail looks like rot. Batches
 * behind it do: each carries the length that was acknowledged when it was sent. So a start looks
 * SCAN_LOOK_BYTES further, at each page for a head of this extent, and keeps the highest mark.
 */
#include "scan.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "extent.h"
#include "node_state.h"

#define SN_SCAN_MAGIC 0x4e435353u /* "SSCN" */

/* The scanners that sn_scan_start takes, and the jobs that wait for one. */
struct sn_scanners {
	struct sn_scan *scans;    /* as many as the node's options say */
	struct loop_link free;    /* struct sn_scan */
	struct loop_link waiting; /* struct sn_scan_job, oldest first */
	struct loop_task task;
};

const struct sm_state scan_table[SCAN_STATE_NR] = {
	[SCAN_IDLE] = { "idle", SM_TO(SCAN_WAITING), SM_INITIAL },
	[SCAN_WAITING] = { "waiting", SM_TO(SCAN_READING) | SM_TO(SCAN_IDLE), 0 },
	[SCAN_READING] = { "reading", SM_TO(SCAN_CHECKING) | SM_TO(SCAN_IDLE), 0 },
	[SCAN_CHECKING] = { "checking", SM_TO(SCAN_WAITING) | SM_TO(SCAN_IDLE), 0 },
};

/*
 * From a chain's end: the broken batch and those that may have been in flight with it, full ones, then the
 * head of the first batch that was sent when the broken one was acknowledged. Its mark tells.
 */
#define SCAN_LOOK_BYTES (BATCH_IN_FLIGHT_MAX * BATCH_BYTES_MAX + BATCH_HEAD_BYTES_MAX)

/* Bytes of a buffer that the next one repeats: a head may lie across the end. */
#define SCAN_LOOK_OVERLAP_BYTES BATCH_HEAD_BYTES_MAX
_Static_assert(SN_SCAN_BUFFER_MIN > BATCH_BYTES_MAX, "a batch fits a buffer");
_Static_assert(SN_SCAN_BUFFER_MIN > SCAN_LOOK_OVERLAP_BYTES, "each buffer looks further");

static void scan_check(struct sn_scan *scan);
static void scan_look(struct sn_scan *scan);

static void
scan_finish(struct sn_scan *scan, int end_rc)
{
	struct sn_scan_job *job = scan->job;
	struct node *node = scan->node;
	struct sn_scanners *scanners = node->scanners;

	assert(job != NULL);
	assert(job->length_bytes <= job->limit_bytes);
	job->end_rc = end_rc;
	scan->job = NULL;
	sm_move(&scan->sm, SCAN_IDLE);
	if (scan->is_shared)
		list_push_back(&scanners->free, &scan->link);
	if (!list_is_empty(&scanners->waiting))
		loop_defer(node->loop, &scanners->task);
	job->fn(job);
}

static void scan_on_read(struct disk_io *io, int rc, void *arg);

/* Bytes behind the chain's end that are to be read: up to the limit, or as far as a look ahead goes. */
static uint64_t
scan_end_bytes(const struct sn_scan *scan)
{
	uint64_t left_bytes = scan->job->limit_bytes - scan->job->length_bytes;

	return scan->is_looking ? num_min(left_bytes, SCAN_LOOK_BYTES) : left_bytes;
}

static uint32_t
scan_want_bytes(const struct sn_scan *scan)
{
	assert(scan->look_bytes <= scan_end_bytes(scan));
	return (uint32_t)num_min(scan_end_bytes(scan) - scan->look_bytes, scan->read_bytes);
}

static void
scan_submit_read(struct sn_scan *scan)
{
	struct sn_scan_job *job = scan->job;
	int rc;

	sm_move(&scan->sm, SCAN_READING);
	scan->filled_bytes = scan_want_bytes(scan);
	assert(scan->filled_bytes > 0);
	assert(scan->filled_bytes <= scan->buffer_bytes);
	assert(num_is_aligned(scan->filled_bytes, DISK_ALIGN));
	scan->at_bytes = 0;
	scan->piece = (struct dev_piece){ .ptr = scan->buffer, .bytes = scan->filled_bytes };
	scan->io = (struct disk_io){
		.op = DISK_READ,
		.offset_bytes =
		    ondisk_data_offset(&scan->node->super, job->extent->slot.slot_index) +
		    job->length_bytes + scan->look_bytes,
		.pieces = &scan->piece,
		.piece_count = 1,
		.fn = scan_on_read,
		.arg = scan,
	};
	rc = disk_submit(scan->node->disk, &scan->io);
	if (rc == 0)
		return;
	if (job->after_read != NULL)
		job->after_read(job);
	scan_finish(scan, rc);
}

void
sn_scan_resume(struct sn_scan *scan)
{
	struct sn_scan_job *job = scan->job;
	int rc = 0;

	assert(scan->sm.state == SCAN_WAITING);
	assert(job != NULL);
	if (job->until_ns != 0 && loop_now_ns(scan->node->loop) > job->until_ns)
		rc = -ETIME;
	else if (job->before_read != NULL)
		rc = job->before_read(job, scan_want_bytes(scan));
	if (rc == 1)
		return;
	if (rc < 0 || job->length_bytes >= job->limit_bytes)
		scan_finish(scan, rc);
	else
		scan_submit_read(scan);
}

static void
scan_read(struct sn_scan *scan)
{
	sm_move(&scan->sm, SCAN_WAITING);
	sn_scan_resume(scan);
}

static void
scan_on_read(struct disk_io *io, int rc, void *arg)
{
	struct sn_scan *scan = arg;

	(void)io;
	CHECK_OBJ(scan, SN_SCAN_MAGIC);
	assert(scan->sm.state == SCAN_READING);
	sm_move(&scan->sm, SCAN_CHECKING);
	if (scan->job->after_read != NULL)
		scan->job->after_read(scan->job);
	if (rc == 0) {
		if (scan->is_looking)
			scan_look(scan);
		else
			scan_check(scan);
		return;
	}
	SN_COUNT(scan->node, disk_errors, 1);
	if (scan->is_looking) {
		scan_finish(scan, scan->job->end_rc);
		return;
	}
	if (scan->read_bytes == scan->buffer_bytes) {
		scan->read_bytes = DISK_ALIGN;
		scan_read(scan);
		return;
	}
	scan_finish(scan, -EIO);
}

/* The chain ends with @rc: look behind it, where that is wanted and tells anything, or finish. */
static void
scan_end(struct sn_scan *scan, int rc)
{
	struct sn_scan_job *job = scan->job;

	assert(!scan->is_looking);
	assert(rc < 0);
	if (!job->must_look_ahead || job->limit_bytes - job->length_bytes <= DISK_ALIGN ||
	    (rc != -ENODATA && rc != -EBADMSG && rc != -EMSGSIZE)) {
		scan_finish(scan, rc);
		return;
	}
	job->end_rc = rc;
	scan->is_looking = true;
	scan->read_bytes = scan->buffer_bytes;
	scan_read(scan);
}

/* Returns true while there may be another batch in the buffer. */
static bool
scan_on_batch(struct sn_scan *scan, int rc)
{
	struct sn_scan_job *job = scan->job;
	const struct batch_info *info = &scan->check.info;

	assert(scan->sm.state == SCAN_CHECKING);
	assert(!scan->is_looking);
	if (rc == 0) {
		job->length_bytes += info->batch_bytes;
		job->mark_bytes = num_max(job->mark_bytes, info->mark_bytes);
		job->chain_crc = info->batch_crc;
		scan->at_bytes += info->batch_bytes;
		scan->read_bytes = scan->buffer_bytes;
		if (job->length_bytes == job->limit_bytes)
			scan_finish(scan, 0);
		else if (scan->at_bytes == scan->filled_bytes)
			scan_read(scan);
		else
			return true;
		return false;
	}
	if (rc == -EMSGSIZE && job->length_bytes + info->batch_bytes <= job->limit_bytes) {
		/* The batch is cut off by the buffer's end, or by a small read: read it from its start. */
		if (scan->read_bytes < info->batch_bytes)
			scan->read_bytes = info->batch_bytes;
		scan_read(scan);
		return false;
	}
	job->end_field = scan->check.ret_field;
	scan_end(scan, rc);
	return false;
}

/* ---- behind the end ---- */

static void
scan_note_probe(struct sn_scan *scan)
{
	struct sn_scan_job *job = scan->job;

	assert(scan->is_looking);
	if (scan->check_job.rc == 0 && scan->check.info.mark_bytes > job->length_bytes)
		job->ahead_bytes = num_max(job->ahead_bytes, scan->check.info.mark_bytes);
}

static void
scan_on_probed(struct engine_job *check_job, void *arg)
{
	(void)check_job;
	scan_note_probe(arg);
	scan_look(arg);
}

/* Run scan->check at at_bytes. Returns true: it is done; false: @fn follows, or the scan has ended. */
static bool
scan_submit(struct sn_scan *scan, void (*fn)(struct engine_job *job, void *arg))
{
	int rc;

	assert(scan->sm.state == SCAN_CHECKING);
	assert(scan->at_bytes < scan->filled_bytes);
	scan->check_job = (struct engine_job){
		.kind = ENGINE_JOB_BATCH,
		.src = dev_ptr_add(scan->buffer, scan->at_bytes),
		.src_bytes = scan->filled_bytes - scan->at_bytes,
		.batch = &scan->check,
		.fn = fn,
		.arg = scan,
	};
	rc = engine_submit(scan->node->engines, &scan->check_job);
	if (rc < 0)
		scan_finish(scan, rc);
	return rc > 0;
}

/* Look for heads from the buffer's second page on: the first is the chain's end, or was looked at before. */
static void
scan_look(struct sn_scan *scan)
{
	struct sn_scan_job *job = scan->job;

	assert(scan->is_looking);
	for (scan->at_bytes += DISK_ALIGN; scan->at_bytes < scan->filled_bytes;
	     scan->at_bytes += DISK_ALIGN) {
		scan->check = (struct batch_check){
			.id = job->extent->slot.id,
			.kind = job->extent->slot.kind,
			.offset_bytes = job->length_bytes + scan->look_bytes + scan->at_bytes,
			.is_probe = true,
		};
		if (!scan_submit(scan, scan_on_probed))
			return;
		scan_note_probe(scan);
	}
	if (scan->look_bytes + scan->filled_bytes == scan_end_bytes(scan)) {
		scan_finish(scan, job->end_rc);
		return;
	}
	scan->look_bytes += scan->filled_bytes - SCAN_LOOK_OVERLAP_BYTES;
	scan_read(scan);
}

/* ---- in the chain ---- */

static void
scan_on_checked(struct engine_job *check_job, void *arg)
{
	struct sn_scan *scan = arg;

	if (scan_on_batch(scan, check_job->rc))
		scan_check(scan);
}

static void
scan_check(struct sn_scan *scan)
{
	struct sn_scan_job *job = scan->job;

	do {
		scan->check = (struct batch_check){
			.id = job->extent->slot.id,
			.kind = job->extent->slot.kind,
			.offset_bytes = job->length_bytes,
			.prev_crc = job->chain_crc,
			.must_check_payload = true,
		};
		if (!scan_submit(scan, scan_on_checked))
			return;
	} while (scan_on_batch(scan, scan->check_job.rc));
}

static void
scan_on_task(struct loop_task *task, void *arg)
{
	struct sn_scanners *scanners = ((struct node *)arg)->scanners;

	(void)task;
	while (!list_is_empty(&scanners->waiting) && !list_is_empty(&scanners->free)) {
		struct sn_scan_job *job =
		    LIST_ENTRY(list_pop_front(&scanners->waiting), struct sn_scan_job, link);
		struct sn_scan *scan =
		    LIST_ENTRY(list_pop_front(&scanners->free), struct sn_scan, link);

		sn_scan_run(scan, job);
	}
}

void
sn_scan_run(struct sn_scan *scan, struct sn_scan_job *job)
{
	CHECK_OBJ(scan, SN_SCAN_MAGIC);
	assert(scan->sm.state == SCAN_IDLE);
	assert(scan->job == NULL);
	assert(job->fn != NULL);
	assert(job->limit_bytes <= sn_capacity(scan->node));
	assert(num_is_aligned(job->limit_bytes, DISK_ALIGN));
	scan->job = job;
	scan->is_looking = false;
	scan->look_bytes = 0;
	scan->read_bytes = scan->buffer_bytes;
	job->length_bytes = job->mark_bytes = job->ahead_bytes = 0;
	job->chain_crc = batch_chain_seed(&job->extent->slot.id, job->extent->slot.kind);
	job->end_field = NULL;
	scan_read(scan);
}

void
sn_scan_start(struct node *node, struct sn_scan_job *job)
{
	assert(node->scanners != NULL);
	assert(job->fn != NULL);
	assert(job->limit_bytes <= sn_capacity(node));
	assert(num_is_aligned(job->limit_bytes, DISK_ALIGN));
	job->link = (struct loop_link){ NULL, NULL };
	list_push_back(&node->scanners->waiting, &job->link);
	loop_defer(node->loop, &node->scanners->task);
}

int
sn_scan_make(struct node *node, struct sn_scan *scan, uint32_t index, uint32_t buffer_bytes)
{
	assert(buffer_bytes > BATCH_BYTES_MAX);
	assert(scan->magic == 0);
	assert(num_is_aligned(buffer_bytes, DISK_ALIGN));
	scan->magic = SN_SCAN_MAGIC;
	scan->node = node;
	sm_init(&scan->sm, "scan", scan_table, SCAN_IDLE, index);
	scan->buffer_bytes = buffer_bytes;
	scan->buffer = dev_alloc(node->port, buffer_bytes);
	return dev_ptr_is_null(scan->buffer) ? -ENOMEM : 0;
}

int
sn_scan_init(struct node *node)
{
	struct sn_scanners *scanners = sn_calloc(1, sizeof(*scanners));
	uint32_t count = node->options.scan_count;

	assert(node->scanners == NULL);
	assert(count > 0);
	assert(count <= SN_SCANS_MAX);
	if (scanners == NULL)
		return -ENOMEM;
	node->scanners = scanners;
	list_init(&scanners->free);
	list_init(&scanners->waiting);
	loop_task_init(&scanners->task, scan_on_task, node);
	scanners->scans = sn_calloc(count, sizeof(*scanners->scans));
	if (scanners->scans == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct sn_scan *scan = &scanners->scans[i];
		int rc = sn_scan_make(node, scan, i, node->options.scan_buffer_bytes);

		if (rc != 0)
			return rc;
		scan->is_shared = true;
		list_push_back(&scanners->free, &scan->link);
	}
	return 0;
}

void
sn_scan_fini(struct node *node)
{
	if (node->scanners == NULL)
		return;
	/* The buffers belong to the port's arena and go with it. */
	loop_task_cancel(node->loop, &node->scanners->task);
	free(node->scanners->scans);
	free(node->scanners);
	node->scanners = NULL;
}
