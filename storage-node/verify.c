/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c -- read a whole copy and check it, while it is in use
 *
 * A verification follows the chain from its beginning to the durable length of the moment it started
 * (scan.c, with a buffer of its own): each batch's header, chain, descriptors and payload CRCs, by
 * the batch engine. One is at work, a few stand in line, more are told to try again.
 *
 * Gateways' requests go first: one read is outstanding, reads are spaced by the budget of bytes a second,
 * and while appends or reads are at the disk the next one waits, though not for ever.
 *
 * A verification ends early when the copy is deleted (-ENOENT), when the gateway that asked is gone
 * (-ECANCELED), and when the node stops (-EHOSTDOWN). A truncation below its end shortens it. Damage is
 * answered with its offset, -EBADMSG, or -EIO where it cannot be read, and marks the copy in memory (a
 * later verification that passes takes the mark away); nothing is written, for the owner judges. A freeze
 * does the same with a copy that is marked (change.c). A copy that the start could not read is followed to the end of
 * its chain, wherever that is, and has that length from then on.
 */
#include "verify.h"

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
#include "node_state.h"
#include "request.h"
#include "scan.h"

#define VERIFY_YIELD_NS NUM_MS(1) /* a wait for appends and reads at the disk */
#define VERIFY_YIELDS_MAX 16u     /* such waits before a read */

struct sn_verify {
	struct sn_request *req;   /* being verified; NULL: none */
	struct loop_link waiting; /* requests in line, oldest first */
	uint32_t count;           /* of verifications, at work and in line */
	struct sn_scan scan;
	struct sn_scan_job job;
	struct loop_task task;   /* starts the next */
	struct loop_timer timer; /* until the next read */
	uint64_t next_read_ns;   /* the budget allows none before */
	uint32_t yields_count;   /* times that the next read has given way */
	bool is_stopping;
};

static struct sn_extent *
verify_extent(const struct sn_request *req)
{
	struct sn_extent *extent = sn_extent_find(req->node, &req->wire.id);

	if (extent == NULL || !sn_extent_is_held(extent) ||
	    extent->slot.incarnation != req->verify.incarnation)
		return NULL;
	return extent;
}

static bool
verify_is_wanted(const struct sn_request *req)
{
	struct split_qp *qp = req->msg->qp;

	return qp != NULL && split_qp_state(qp) == SPLIT_QP_READY;
}

/* ---- the end ---- */

static void
verify_leave(struct sn_request *req, struct wire_node_reply *reply)
{
	struct sn_verify *verify = req->node->verify;

	assert(verify->count > 0);
	verify->count--;
	if (!list_is_empty(&verify->waiting))
		loop_defer(req->node->loop, &verify->task);
	sn_request_finish(req, reply, NULL);
}

/* The answer about a copy that is still there, by the end of its chain: 0 or a negative errno. */
static int
verify_judge(const struct sn_scan_job *job, const struct sn_extent *extent)
{
	assert(job->end_rc <= 0);
	switch (job->end_rc) {
	case 0:
		/* A truncation may have come since; behind it nothing matters. */
		if (job->length_bytes == extent->durable_bytes &&
		    job->chain_crc != extent->chain_crc)
			return -EBADMSG;
		return 0;
	case -ENODATA:
	case -EBADMSG:
	case -EMSGSIZE:
		return job->length_bytes >= extent->durable_bytes ? 0 : -EBADMSG;
	case -EIO:
	case -ETIME:
	case -EHOSTDOWN:
	case -ECANCELED:
		return job->end_rc;
	default:
		return -EBUSY; /* a queue was full */
	}
}

static void
verify_note(struct sn_extent *extent, const struct sn_scan_job *job, int rc)
{
	struct node *node = extent->node;

	assert(rc <= 0);
	if (rc == 0) {
		SN_COUNT(node, verifies, 1);
		extent->is_rotten = false;
	}
	if (rc != -EBADMSG && rc != -EIO)
		return;
	SN_COUNT(node, verifies_bad, 1);
	extent->is_rotten = true;
	log_limited(LOG_WARN,
	    "verify: a copy is damaged extent=%u.%u.%llu offset_bytes=%llu rc=%s field=%s: its gateway "
	    "makes it anew from another; replace a disk on which this happens again",
	    extent->slot.id.shard, extent->slot.id.epoch,
	    (unsigned long long)extent->slot.id.counter, (unsigned long long)job->length_bytes,
	    log_errno(rc), job->end_field != NULL ? job->end_field : "-");
}

bool
sn_verify_is_due(const struct sn_extent *extent)
{
	return extent->is_rotten || sn_extent_is_unread(extent);
}

uint64_t
sn_verify_limit(const struct sn_extent *extent)
{
	return sn_extent_is_unread(extent) ? sn_capacity(extent->node) : extent->durable_bytes;
}

int
sn_verify_conclude(struct sn_extent *extent, const struct sn_scan_job *job)
{
	int rc = verify_judge(job, extent);

	assert(extent == job->extent);
	verify_note(extent, job, rc);
	/* A truncation that is at work has followed the chain itself: the length is what it finds. */
	if (rc != 0 || !job->must_look_ahead || !sn_extent_is_unread(extent) ||
	    !sn_extent_is_settled(extent) || extent->sm.state == EXTENT_SEALING ||
	    MUTANT(unread_left))
		return rc;
	sn_extent_take_chain(extent, job);
	log_info("verify: a copy that could not be read at the start is read extent=%u.%u.%llu "
		 "length_bytes=%llu",
	    extent->slot.id.shard, extent->slot.id.epoch,
	    (unsigned long long)extent->slot.id.counter, (unsigned long long)job->length_bytes);
	return rc;
}

static void
verify_on_scanned(struct sn_scan_job *job)
{
	struct sn_request *req = job->arg;
	struct sn_extent *extent = verify_extent(req);
	struct wire_node_reply reply = { .rc = -ENOENT };

	assert(req->node->verify->req == req);
	req->node->verify->req = NULL;
	if (extent != NULL) {
		reply.rc = sn_verify_conclude(extent, job);
		reply.offset_bytes = job->length_bytes;
		if (sn_extent_is_damaged(extent))
			reply.flags = WIRE_FLAG_DAMAGED;
	}
	verify_leave(req, &reply);
}

/* ---- pace ---- */

static bool
verify_must_yield(struct node *node)
{
	struct sn_verify *verify = node->verify;

	assert(verify->yields_count <= VERIFY_YIELDS_MAX);
	if (node->appends_count + node->reads_count == 0 ||
	    verify->yields_count == VERIFY_YIELDS_MAX) {
		verify->yields_count = 0;
		return false;
	}
	verify->yields_count++;
	return true;
}

static int
verify_before_read(struct sn_scan_job *job, uint32_t bytes)
{
	struct sn_request *req = job->arg;
	struct node *node = req->node;
	struct sn_verify *verify = node->verify;
	struct sn_extent *extent = verify_extent(req);
	uint64_t now_ns = loop_now_ns(node->loop);

	assert(verify->req == req);
	if (verify->is_stopping)
		return -EHOSTDOWN;
	if (extent == NULL || !verify_is_wanted(req))
		return -ECANCELED;
	/* Somebody else has found its length meanwhile: this one is not to look behind it. */
	if (job->must_look_ahead && !sn_extent_is_unread(extent))
		return -EBUSY;
	/* A truncation may have gone below where the chain was followed to: that much was good. */
	job->limit_bytes =
	    num_max(num_min(job->limit_bytes, sn_verify_limit(extent)), job->length_bytes);
	if (job->length_bytes >= job->limit_bytes)
		return 0;
	if (now_ns < verify->next_read_ns) {
		loop_timer_start(node->loop, &verify->timer, verify->next_read_ns - now_ns);
		return 1;
	}
	if (verify_must_yield(node)) {
		loop_timer_start(node->loop, &verify->timer, VERIFY_YIELD_NS);
		return 1;
	}
	verify->next_read_ns = now_ns + (uint64_t)bytes * NUM_S(1) / node->options.verify_bytes_s;
	SN_COUNT(node, verified_bytes, bytes);
	extent->read_count++;
	return 0;
}

/* A read has ended. A delete of the copy waited for it, so the extent is the same as before. */
static void
verify_after_read(struct sn_scan_job *job)
{
	struct sn_extent *extent = job->extent;

	assert(extent->read_count > 0);
	if (--extent->read_count == 0)
		sn_change_on_settled(extent);
}

static void
verify_on_timer(struct loop_timer *timer, void *arg)
{
	struct node *node = arg;

	(void)timer;
	assert(node->verify->req != NULL);
	sn_scan_resume(&node->verify->scan);
}

/* ---- the beginning ---- */

static void
verify_run(struct sn_request *req)
{
	struct sn_verify *verify = req->node->verify;
	struct sn_extent *extent = verify_extent(req);
	struct wire_node_reply reply = { .rc = -ENOENT };

	assert(verify->count > 0);
	if (extent == NULL || verify->is_stopping) {
		if (extent != NULL)
			reply.rc = -EHOSTDOWN;
		verify_leave(req, &reply);
		return;
	}
	assert(verify->req == NULL);
	verify->req = req;
	verify->yields_count = 0;
	verify->job = (struct sn_scan_job){
		.extent = extent,
		.limit_bytes = sn_verify_limit(extent),
		.must_look_ahead = sn_extent_is_unread(extent),
		.fn = verify_on_scanned,
		.arg = req,
		.before_read = verify_before_read,
		.after_read = verify_after_read,
	};
	sn_scan_run(&verify->scan, &verify->job);
}

static void
verify_on_task(struct loop_task *task, void *arg)
{
	struct node *node = arg;
	struct sn_verify *verify = node->verify;
	struct loop_link *link;

	(void)task;
	while (verify->req == NULL && (link = list_pop_front(&verify->waiting)) != NULL)
		verify_run(LIST_ENTRY(link, struct sn_request, verify.link));
}

void
sn_verify_start(struct sn_request *req)
{
	struct node *node = req->node;
	struct sn_verify *verify = node->verify;
	const struct sn_extent *extent = sn_extent_find(node, &req->wire.id);

	assert(req->wire.opcode == WIRE_EXTENT_VERIFY);
	assert(!verify->is_stopping);
	assert(verify->count <= SN_VERIFIES_MAX);
	if (extent == NULL || !sn_extent_is_held(extent)) {
		sn_request_fail(req, -ENOENT);
		return;
	}
	if (verify->count == SN_VERIFIES_MAX) {
		sn_request_fail(req, -EBUSY);
		return;
	}
	req->verify = (struct sn_verify_request){ .incarnation = extent->slot.incarnation };
	verify->count++;
	list_push_back(&verify->waiting, &req->verify.link);
	loop_defer(node->loop, &verify->task);
}

void
sn_verify_stop(struct node *node)
{
	struct sn_verify *verify = node->verify;

	assert(!verify->is_stopping);
	verify->is_stopping = true;
	loop_defer(node->loop, &verify->task);
	if (verify->req != NULL && verify->scan.sm.state == SCAN_WAITING) {
		loop_timer_stop(node->loop, &verify->timer);
		sn_scan_resume(&verify->scan);
	}
}

int
sn_verify_init(struct node *node)
{
	struct sn_verify *verify = sn_calloc(1, sizeof(*verify));

	assert(node->verify == NULL);
	assert(node->port != NULL);
	if (verify == NULL)
		return -ENOMEM;
	node->verify = verify;
	list_init(&verify->waiting);
	loop_task_init(&verify->task, verify_on_task, node);
	loop_timer_init(&verify->timer, verify_on_timer, node);
	return sn_scan_make(node, &verify->scan, node->options.scan_count, SN_VERIFY_BUFFER_BYTES);
}

void
sn_verify_fini(struct node *node)
{
	if (node->verify == NULL)
		return;
	loop_task_cancel(node->loop, &node->verify->task);
	loop_timer_stop(node->loop, &node->verify->timer);
	free(node->verify);
	node->verify = NULL;
}
