/* SPDX-License-Identifier: Apache-2.0 */
/*
 * append.c -- a batch comes in, is checked, written as it came, made durable, acknowledged in order
 *
 *	CHECKING --passes--> QUEUED --commit--> WRITING --written--> SYNCING --flush--> DURABLE
 *	    \                   \                  \                    \                 | its turn
 *	     +-------------------+------------------+-- FAILED <---------+---+            v
 *	                                                                     +--------- ACKED
 *
 * An append is accepted only at the extent's end, those in flight counted, so appends of an extent
 * stand in one order: that of their offsets. They pass through three queues, `checking`, `queued`,
 * `in_flight`, and each is all before the next. Only the first in `checking` is being checked: the
 * check of the next needs its CRC (the chain).
 *
 * Appends that have passed by the end of a loop turn's handlers go to the disk together: those of an
 * extent as gathered writes, straight from the receives' device memory, all extents in one submission.
 * Each write then waits for a flush (sync.c). Groups overlap: a group may write while another flushes.
 * A write that would share its flush with no other takes it along, as one durable request to the disk.
 *
 * An append is acknowledged when it and all before it are durable (I2). When a write fails, that
 * append and all behind it fail, those before it do not; the extent takes no plain appends any more,
 * so no offset ever gets two contents. A receive's memory stays untouched until the disk has let go.
 *
 * A batch that does not pass its check changes nothing: the end goes back to where it was.
 */
#include "append.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "change.h"
#include "extent.h"
#include "fence.h"
#include "hops.h"
#include "node_state.h"
#include "request.h"

#define SN_WRITE_MAGIC 0x54525753u              /* "SWRT" */
#define SN_WRITE_BYTES_MAX (4u * 1024u * 1024u) /* of one gathered write */

const struct sm_state append_table[APPEND_STATE_NR] = {
	[APPEND_CHECKING] = { "checking", SM_TO(APPEND_QUEUED) | SM_TO(APPEND_FAILED), SM_INITIAL },
	[APPEND_QUEUED] = { "queued", SM_TO(APPEND_WRITING) | SM_TO(APPEND_FAILED), 0 },
	[APPEND_WRITING] = { "writing", SM_TO(APPEND_SYNCING) | SM_TO(APPEND_FAILED), 0 },
	[APPEND_SYNCING] = { "syncing", SM_TO(APPEND_DURABLE) | SM_TO(APPEND_FAILED), 0 },
	[APPEND_DURABLE] = { "durable", SM_TO(APPEND_ACKED) | SM_TO(APPEND_FAILED), 0 },
	[APPEND_ACKED] = { "acked", 0, SM_FINAL },
	[APPEND_FAILED] = { "failed", 0, SM_FINAL | SM_FAILURE },
};

static void append_check_next(struct sn_extent *extent);

static struct sn_request *
request_of(struct sn_append *append)
{
	struct sn_request *req = NUM_CONTAINER_OF(append, struct sn_request, append);

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	return req;
}

static struct sn_append *
first_of(struct loop_link *list)
{
	struct loop_link *link = list_first(list);

	return link == NULL ? NULL : LIST_ENTRY(link, struct sn_append, link);
}

/* ---- the end of an append ---- */

static void
append_finish(struct sn_append *append, int rc)
{
	struct sn_request *req = request_of(append);
	struct sn_extent *extent = req->extent;
	struct node *node = req->node;
	struct wire_node_reply reply = { .rc = rc, .offset_bytes = extent->durable_bytes };

	assert(rc <= 0);
	assert(!append->is_job_running);
	assert(node->appends_count > 0);
	list_remove(&append->link);
	sm_move(&append->sm, rc == 0 ? APPEND_ACKED : APPEND_FAILED);
	node->appends_count--;
	if (rc == 0) {
		SN_COUNT(node, appends, 1);
		SN_COUNT(node, append_bytes, append->bytes);
		reply.length_bytes = sn_hops_append(node, &append->stamps);
	}
	sn_request_finish(req, &reply, NULL);
}

/* Appends from @from_bytes on fail with @rc: now, or, where the disk or an engine holds them, when it lets go. */
static void
appends_fail_in(struct loop_link *list, uint64_t from_bytes, int rc)
{
	struct loop_link *link, *next;

	assert(rc < 0);
	LIST_FOREACH_SAFE(list, link, next) {
		struct sn_append *append = LIST_ENTRY(link, struct sn_append, link);
		bool is_held = append->is_job_running || append->sm.state == APPEND_WRITING ||
		    append->sm.state == APPEND_SYNCING;

		if (append->offset_bytes >= from_bytes && !is_held)
			append_finish(append, rc);
	}
}

/* After any event: acknowledge appends whose turn it is, fail those that must, and let a change go on. */
static void
extent_settle(struct sn_extent *extent)
{
	struct sn_append *append;

	assert(extent->durable_bytes <= extent->end_bytes);
	assert(extent->failed_bytes == UINT64_MAX || extent->failed_rc < 0);
	while ((append = first_of(&extent->in_flight)) != NULL &&
	    append->sm.state == APPEND_DURABLE &&
	    (append->offset_bytes < extent->failed_bytes || MUTANT(gap_accepted))) {
		assert(append->offset_bytes == extent->durable_bytes || MUTANT(gap_accepted));
		extent->durable_bytes = append->offset_bytes + append->bytes;
		extent->mark_bytes = num_max(extent->mark_bytes, append->check.info.mark_bytes);
		extent->chain_crc = append->check.info.batch_crc;
		append_finish(append, 0);
	}
	if (extent->failed_bytes != UINT64_MAX) {
		appends_fail_in(&extent->in_flight, extent->failed_bytes, extent->failed_rc);
		appends_fail_in(&extent->queued, extent->failed_bytes, extent->failed_rc);
		appends_fail_in(&extent->checking, extent->failed_bytes, extent->failed_rc);
		if (list_is_empty(&extent->queued))
			list_remove(&extent->ready_link);
	}
	if (!sn_extent_is_settled(extent))
		return;
	if (extent->failed_bytes != UINT64_MAX) {
		extent->failed_bytes = UINT64_MAX;
		extent->end_bytes = extent->durable_bytes;
		extent->end_crc = extent->chain_crc;
	}
	sn_change_on_settled(extent);
}

/* The disk failed an append at @offset_bytes with @rc: it and all behind it fail, and no plain one comes any more. */
static void
extent_fail_from(struct sn_extent *extent, uint64_t offset_bytes, int rc)
{
	assert(rc < 0);
	assert(offset_bytes >= extent->durable_bytes);
	if (offset_bytes < extent->failed_bytes) {
		extent->failed_bytes = offset_bytes;
		extent->failed_rc = rc;
	}
	sn_extent_stop(extent, rc);
}

/* ---- writing ---- */

static void
write_on_synced(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_write *write = NUM_CONTAINER_OF(waiter, struct sn_write, waiter);
	struct sn_extent *extent = write->extent;
	struct loop_link *link;

	CHECK_OBJ(write, SN_WRITE_MAGIC);
	assert(!list_is_empty(&write->appends));
	while ((link = list_pop_front(&write->appends)) != NULL) {
		struct sn_append *append = LIST_ENTRY(link, struct sn_append, group_link);

		if (rc == 0) {
			sm_move(&append->sm, APPEND_DURABLE);
			continue;
		}
		SN_COUNT(write->node, appends_failed, 1);
		extent_fail_from(extent, append->offset_bytes, rc);
		append_finish(append, rc);
	}
	list_push_back(&write->node->appender->free_writes, &write->link);
	extent_settle(extent);
}

static void
write_on_failed(struct sn_write *write, int rc)
{
	struct sn_extent *extent = write->extent;
	struct node *node = write->node;
	struct loop_link *link;

	CHECK_OBJ(write, SN_WRITE_MAGIC);
	assert(rc < 0);
	assert(!list_is_empty(&write->appends));
	SN_COUNT(node, disk_errors, 1);
	log_limited(LOG_WARN,
	    "append: the disk failed a write, the copy takes no more appends extent=%u.%u.%llu "
	    "offset_bytes=%llu rc=%s: its gateway goes on elsewhere; look for the disk's errors in the "
	    "kernel's log",
	    extent->slot.id.shard, extent->slot.id.epoch,
	    (unsigned long long)extent->slot.id.counter,
	    (unsigned long long)(write->io.offset_bytes -
		ondisk_data_offset(&node->super, extent->slot.slot_index)),
	    log_errno(rc));
	while ((link = list_pop_front(&write->appends)) != NULL) {
		struct sn_append *append = LIST_ENTRY(link, struct sn_append, group_link);

		SN_COUNT(node, appends_failed, 1);
		extent_fail_from(extent, append->offset_bytes, -EIO);
		append_finish(append, -EIO);
	}
	list_push_back(&node->appender->free_writes, &write->link);
	extent_settle(extent);
}

/* Does @write need a flush whatever the cache is? A file's first write to a block is not there before one. */
static bool
write_must_flush(const struct sn_write *write)
{
	return write->node->options.must_prewrite && !write->extent->is_prewritten;
}

static void
write_on_done(struct disk_io *io, int rc, void *arg)
{
	struct sn_write *write = arg;
	struct node *node = write->node;
	struct loop_link *link, *next;

	CHECK_OBJ(write, SN_WRITE_MAGIC);
	assert(node->appender->writes_count > 0);
	node->appender->writes_count--;
	if (rc != 0 && !io->has_flush_failed) {
		write_on_failed(write, rc);
		return;
	}
	LIST_FOREACH_SAFE(&write->appends, link, next) {
		struct sn_append *append = LIST_ENTRY(link, struct sn_append, group_link);

		append->stamps.written_ns = loop_now_ns(node->loop);
		sm_move(&append->sm, APPEND_SYNCING);
	}
	if (io->is_durable && !(rc != 0 && MUTANT(flush_retried)))
		write_on_synced(&write->waiter, sn_sync_judge(node, rc));
	else
		sn_sync_wait(node, &write->waiter, write_on_synced, write_must_flush(write));
}

/* The disk did not take the request: its error comes as a flush's would, never from inside. */
static void
write_on_refused(struct sn_sync_waiter *waiter, int rc)
{
	(void)rc;
	write_on_failed(NUM_CONTAINER_OF(waiter, struct sn_write, waiter), -EIO);
}

/* Submit one write of the appends at the front of @extent's queue. @is_alone: no other extent writes in this turn. */
static void
extent_write_group(struct sn_extent *extent, bool is_alone)
{
	struct node *node = extent->node;
	struct sn_appender *appender = node->appender;
	struct sn_append *append = first_of(&extent->queued);
	struct sn_write *write;
	uint64_t bytes = 0, now_ns = loop_now_fresh_ns(node->loop);
	uint32_t count = 0;

	/* A write has one request at least, and there are as many. */
	assert(append != NULL);
	assert(!list_is_empty(&appender->free_writes));
	write = LIST_ENTRY(list_pop_front(&appender->free_writes), struct sn_write, link);
	assert(list_is_empty(&write->appends));
	write->extent = extent;
	write->io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes = ondisk_data_offset(&node->super, extent->slot.slot_index) +
		    append->offset_bytes,
		.pieces = write->pieces,
		.fn = write_on_done,
		.arg = write,
	};
	while (append != NULL && count < DISK_PIECES_MAX &&
	    bytes + append->bytes <= SN_WRITE_BYTES_MAX) {
		write->pieces[count++] =
		    (struct dev_piece){ .ptr = request_of(append)->msg->payload,
			    .bytes = append->bytes };
		bytes += append->bytes;
		append->stamps.began_ns = now_ns;
		sm_move(&append->sm, APPEND_WRITING);
		list_remove(&append->link);
		list_push_back(&extent->in_flight, &append->link);
		list_push_back(&write->appends, &append->group_link);
		append = first_of(&extent->queued);
	}
	assert(count > 0);
	write->io.piece_count = count;
	write->io.is_durable = is_alone && appender->writes_count == 0 &&
	    list_is_empty(&extent->queued) && sn_sync_is_idle(node, write_must_flush(write));
	SN_COUNT(node, writes, 1);
	if (disk_submit(node->disk, &write->io) == 0)
		appender->writes_count++;
	else
		sn_sync_wait(node, &write->waiter, write_on_refused, false);
}

static void
append_on_commit(struct loop_task *task, void *arg)
{
	struct node *node = arg;
	struct loop_link *link;

	(void)task;
	while ((link = list_pop_front(&node->appender->ready)) != NULL) {
		struct sn_extent *extent = LIST_ENTRY(link, struct sn_extent, ready_link);

		assert(!list_is_empty(&extent->queued)); /* else it is in no line */
		while (!list_is_empty(&extent->queued))
			extent_write_group(extent, list_is_empty(&node->appender->ready));
	}
}

/* ---- checking ---- */

static void
append_enqueue(struct sn_append *append)
{
	struct sn_extent *extent = request_of(append)->extent;
	struct node *node = extent->node;

	assert(first_of(&extent->checking) == append);
	extent->end_crc = append->check.info.batch_crc;
	sm_move(&append->sm, APPEND_QUEUED);
	list_remove(&append->link);
	list_push_back(&extent->queued, &append->link);
	if (!list_contains(&extent->ready_link))
		list_push_back(&node->appender->ready, &extent->ready_link);
	loop_defer(node->loop, &node->appender->commit_task);
}

/* The first append in line does not pass: it, and those behind it, change nothing. */
static void
append_refuse(struct sn_append *append, int rc)
{
	struct sn_extent *extent = request_of(append)->extent;

	assert(rc < 0);
	assert(first_of(&extent->checking) == append);
	extent->end_bytes = append->offset_bytes;
	append_finish(append, rc);
	appends_fail_in(&extent->checking, 0, -ESPIPE);
	assert(list_is_empty(&extent->checking));
}

static int
append_judge(struct sn_append *append)
{
	struct sn_request *req = request_of(append);
	int rc = append->job.rc;

	assert(append->sm.state == APPEND_CHECKING);
	assert(rc <= 0);
	if (rc == 0 && append->check.info.batch_bytes != append->bytes) {
		append->check.ret_field = "batch_bytes";
		rc = -EBADMSG;
	}
	if (rc == 0)
		return 0;
	SN_COUNT(req->node, batches_bad, 1);
	log_limited(LOG_WARN,
	    "append: refused a batch that fails its check extent=%u.%u.%llu offset_bytes=%llu "
	    "field=%s: look at the memory and the network between this node and its gateway",
	    req->wire.id.shard, req->wire.id.epoch, (unsigned long long)req->wire.id.counter,
	    (unsigned long long)append->offset_bytes,
	    append->check.ret_field != NULL ? append->check.ret_field : "?");
	return -EBADMSG;
}

static void
append_on_checked(struct sn_append *append)
{
	struct sn_extent *extent = request_of(append)->extent;
	int rc;

	assert(append->sm.state == APPEND_CHECKING);
	append->is_job_running = false;
	if (append->offset_bytes >= extent->failed_bytes) {
		append_finish(append, extent->failed_rc);
		return;
	}
	rc = append_judge(append);
	if (rc != 0)
		append_refuse(append, rc);
	else
		append_enqueue(append);
}

static void
append_on_job(struct engine_job *job, void *arg)
{
	struct sn_append *append = arg;
	struct sn_extent *extent = request_of(append)->extent;

	(void)job;
	assert(append->is_job_running);
	append_on_checked(append);
	append_check_next(extent);
	extent_settle(extent);
}

static int
append_submit_check(struct sn_append *append)
{
	struct sn_request *req = request_of(append);
	struct sn_extent *extent = req->extent;

	assert(append->sm.state == APPEND_CHECKING);
	assert(!append->is_job_running);
	append->check = (struct batch_check){
		.id = extent->slot.id,
		.kind = extent->slot.kind,
		.offset_bytes = append->offset_bytes,
		.prev_crc = extent->end_crc,
		.must_check_payload = true,
	};
	append->job = (struct engine_job){
		.kind = ENGINE_JOB_BATCH,
		.src = req->msg->payload,
		.src_bytes = append->bytes,
		.batch = &append->check,
		.fn = append_on_job,
		.arg = append,
	};
	return engine_submit(req->node->engines, &append->job);
}

static void
append_check_next(struct sn_extent *extent)
{
	struct sn_append *append;

	while ((append = first_of(&extent->checking)) != NULL && !append->is_job_running) {
		int rc = append_submit_check(append);

		if (rc == 0) {
			append->is_job_running = true;
			return;
		}
		if (rc == 1)
			append_on_checked(append);
		else
			append_refuse(append, -EBUSY);
	}
}

/* ---- the beginning of an append ---- */

/* May an append like @wire come to an extent in this state? Returns 0 or the error that it is told. */
static int
append_judge_state(const struct sn_extent *extent, const struct wire_node *wire)
{
	bool is_recovery = (wire->flags & WIRE_FLAG_RECOVERY) != 0;

	switch ((enum extent_state)extent->sm.state) {
	case EXTENT_OPEN:
		if (is_recovery)
			return -EINVAL;
		return wire->epoch == extent->slot.create_epoch ? 0 : -ESTALE;
	case EXTENT_STOPPED:
		assert(extent->stop_rc < 0);
		return extent->stop_rc;
	case EXTENT_FREEZING:
		return -EACCES;
	case EXTENT_FROZEN:
		if (!is_recovery)
			return MUTANT(epoch_ignored) ? 0 : -EACCES;
		return wire->epoch == extent->freeze_epoch ? 0 : -ESTALE;
	case EXTENT_SEALING:
	case EXTENT_SEALED:
		return -EPERM;
	case EXTENT_CREATING:
		return -EBUSY;
	default:
		return -ENOENT;
	}
}

static int
append_judge_request(struct node *node, const struct wire_node *wire, struct sn_extent **ret_extent)
{
	struct sn_extent *extent;
	int rc;

	if (node->is_read_only)
		return -EROFS;
	if (wire->epoch < sn_fence_epoch(node, wire->id.shard))
		return -ESTALE;
	extent = sn_extent_find(node, &wire->id);
	if (extent == NULL)
		return -ENOENT;
	rc = append_judge_state(extent, wire);
	if (rc != 0)
		return rc;
	if (wire->kind != extent->slot.kind)
		return -EINVAL;
	if (wire->offset_bytes != extent->end_bytes || extent->failed_bytes != UINT64_MAX)
		return -ESPIPE;
	if (wire->offset_bytes + wire->length_bytes > sn_capacity(node))
		return -ERANGE;
	assert(extent->end_bytes <= sn_capacity(node));
	*ret_extent = extent;
	return 0;
}

void
sn_append_start(struct sn_request *req)
{
	struct sn_append *append = &req->append;
	struct node *node = req->node;
	struct sn_extent *extent;
	int rc;

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(req->wire.opcode == WIRE_EXTENT_APPEND);
	assert(node->sm.state == NODE_READY);
	assert(req->wire.length_bytes == req->msg->payload_bytes);
	rc = append_judge_request(node, &req->wire, &extent);
	if (rc != 0) {
		SN_COUNT(node, appends_refused, 1);
		if (rc == -ESTALE)
			SN_COUNT(node, stale_epochs, 1);
		sn_request_fail(req, rc);
		return;
	}
	*append = (struct sn_append){ .offset_bytes = req->wire.offset_bytes,
		.bytes = req->wire.length_bytes,
		.stamps.taken_ns = loop_now_ns(node->loop) };
	sm_init(&append->sm, "append", append_table, APPEND_CHECKING,
	    (uint32_t)(req - node->requests));
	req->extent = extent;
	extent->end_bytes += append->bytes;
	list_push_back(&extent->checking, &append->link);
	node->appends_count++;
	append_check_next(extent);
}

int
sn_append_init(struct node *node)
{
	struct sn_appender *appender = sn_calloc(1, sizeof(*appender));

	assert(node->appender == NULL);
	assert(node->request_count > 0);
	if (appender == NULL)
		return -ENOMEM;
	node->appender = appender;
	list_init(&appender->ready);
	list_init(&appender->free_writes);
	loop_task_init(&appender->commit_task, append_on_commit, node);
	appender->writes = sn_calloc(node->request_count, sizeof(*appender->writes));
	if (appender->writes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < node->request_count; i++) {
		struct sn_write *write = &appender->writes[i];

		write->magic = SN_WRITE_MAGIC;
		write->node = node;
		list_init(&write->appends);
		list_push_back(&appender->free_writes, &write->link);
	}
	return 0;
}

void
sn_append_fini(struct node *node)
{
	if (node->appender == NULL)
		return;
	loop_task_cancel(node->loop, &node->appender->commit_task);
	free(node->appender->writes);
	free(node->appender);
	node->appender = NULL;
}
