/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c -- one sealed extent to one more node, batch by batch
 *
 *	CREATING --> PACING --> READING --> APPENDING --> TRUNCATING --> DONE
 *	   |           | ^         |           |  |             |
 *	   |           | +---------+-----------+  |             |
 *	   +-----------+-----------+--------------+-------------+--> FAILED (what is there is deleted)
 *
 * A window of up to 256 KiB is read from one source (choose.h), the next one from another, so that all
 * nodes are read from; the batches that lie in it whole go straight on
 * from the messages they arrived in, several at a time, for the target checks each in its order and one
 * that does not pass changes nothing there. Only heads are looked at here. A window begins where the
 * target's copy ends, so whatever fails, the next one repairs it:
 *
 *	a source is lost, or what it returns does not pass    another source; none left for that
 *	                                                      batch: -EIO
 *	a node is busy                                        again after a pause
 *	the target is lost, full, fenced, refuses             the copy fails
 *
 * A window is asked for when all that was copied on its budget before is paid for, by other copies, too; while clients
 * write much, a byte costs four.
 */
#include "extent/copy.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/copy_pace.h"
#include "extent/copy_state.h"
#include "extent/copy_window.h"
#include "extent/node_error.h"
#include "extent/node_link.h"

#define COPY_TURN_NS NUM_MS(5) /* another copy's window is looked for again */
#define COPY_RETRY_NS NUM_MS(50)
#define COPY_RETRIES_MAX 100u

static const struct sm_state copy_table[COPY_STATE_NR] = {
	[COPY_CREATING] = { "creating", SM_TO(COPY_PACING) | SM_TO(COPY_FAILED), SM_INITIAL },
	[COPY_PACING] = { "pacing",
	    SM_TO(COPY_READING) | SM_TO(COPY_TRUNCATING) | SM_TO(COPY_FAILED), 0 },
	[COPY_READING] = { "reading",
	    SM_TO(COPY_PACING) | SM_TO(COPY_APPENDING) | SM_TO(COPY_FAILED), 0 },
	[COPY_APPENDING] = { "appending", SM_TO(COPY_PACING) | SM_TO(COPY_FAILED), 0 },
	[COPY_TRUNCATING] = { "truncating",
	    SM_TO(COPY_PACING) | SM_TO(COPY_DONE) | SM_TO(COPY_FAILED), 0 },
	[COPY_DONE] = { "done", 0, SM_FINAL },
	[COPY_FAILED] = { "failed", 0, SM_FINAL | SM_FAILURE },
};

static void copy_pace(struct mt_copy *copy);
static void copy_truncate(struct mt_copy *copy);
static void copy_send(struct mt_copy *copy);

/* ---- its end ---- */

static void
copy_free(struct mt_copy *copy)
{
	loop_timer_stop(copy->options.shard->port->loop, &copy->timer);
	list_remove(&copy->link);
	copy->magic = 0;
	mt_free(copy);
}

static void
copy_tell(struct mt_copy *copy, int rc)
{
	assert(rc <= 0);
	if (copy->is_told || copy->is_stopped)
		return;
	copy->is_told = true;
	copy->options.fn(copy, rc, rc == 0 ? copy->incarnation : 0, copy->options.arg);
}

static int copy_call(struct mt_copy *copy, uint32_t node_id, struct mt_call *call, mt_call_fn fn);

static void
copy_on_deleted(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_copy *copy = arg;

	(void)call;
	(void)rc;
	(void)reply;
	assert(msg == NULL);
	CHECK_OBJ(copy, COPY_MAGIC);
	copy->outstanding_count--;
	copy_free(copy); /* what a lost node keeps is an orphan, and swept */
}

/* FAILED, and nothing is out: tell, delete what is there, go. */
static void
copy_finish_failed(struct mt_copy *copy)
{
	assert(copy->sm.state == COPY_FAILED);
	assert(copy->outstanding_count == 0);
	mt_copy_window_release(&copy->window);
	copy_tell(copy, copy->rc);
	copy->call.request =
	    (struct wire_node){ .opcode = WIRE_EXTENT_DELETE, .offset_bytes = copy->incarnation };
	if (copy->incarnation == 0 ||
	    copy_call(copy, copy->options.target_node_id, &copy->call, copy_on_deleted) != 0)
		copy_free(copy);
}

static void
copy_fail(struct mt_copy *copy, int rc)
{
	struct loop *loop = copy->options.shard->port->loop;

	assert(rc < 0);
	copy->rc = rc;
	loop_timer_stop(loop, &copy->timer);
	sm_move(&copy->sm, COPY_FAILED);
	if (copy->outstanding_count == 0)
		copy_finish_failed(copy);
}

/* ---- calls ---- */

static int
copy_call(struct mt_copy *copy, uint32_t node_id, struct mt_call *call, mt_call_fn fn)
{
	struct mt_shard *shard = copy->options.shard;
	struct mt_link *link = mt_port_link(shard->port, node_id);
	int rc;

	assert(node_id != 0);
	assert(copy->outstanding_count < COPY_APPENDS_MAX);
	if (link == NULL)
		return -ENOTCONN;
	call->request.id = copy->options.id;
	call->request.kind = copy->options.kind;
	call->request.epoch = shard->epoch;
	call->fn = fn;
	call->arg = copy;
	rc = mt_link_call(link, call);
	if (rc == 0)
		copy->outstanding_count++;
	return rc;
}

/* An answer: true when the copy has failed before, and this is nobody's any more. */
static bool
copy_answered(struct mt_copy *copy)
{
	CHECK_OBJ(copy, COPY_MAGIC);
	assert(copy->outstanding_count > 0);
	copy->outstanding_count--;
	if (copy->sm.state != COPY_FAILED)
		return false;
	if (copy->outstanding_count == 0)
		copy_finish_failed(copy);
	return true;
}

/* Again, soon; not for ever. */
static void
copy_retry(struct mt_copy *copy, int rc)
{
	assert(rc < 0);
	if (++copy->retries > COPY_RETRIES_MAX) {
		copy_fail(copy, rc);
		return;
	}
	mt_copy_window_release(&copy->window);
	if (copy->sm.state != COPY_PACING)
		sm_move(&copy->sm, COPY_PACING);
	loop_timer_start(copy->options.shard->port->loop, &copy->timer, COPY_RETRY_NS);
}

static void
copy_target_failed(struct mt_copy *copy, int rc)
{
	assert(rc < 0);
	if (mt_is_busy(rc) && copy->sm.state != COPY_CREATING)
		copy_retry(copy, rc);
	else if (mt_is_fenced(rc))
		copy_fail(copy, -ESTALE);
	else if (mt_is_link_lost(rc))
		copy_fail(copy, -ENOTCONN);
	else if (rc == -ERANGE && copy->sm.state == COPY_APPENDING)
		copy_fail(copy, -ENOSPC); /* its slots are too small: no source is to blame */
	else if (rc == -EIO || rc == -EROFS)
		copy_fail(copy, -EREMOTEIO); /* nor is it where the target's disk fails */
	else
		copy_fail(copy, rc == -ENOSPC || rc == -EEXIST || mt_is_busy(rc) ? rc : -EIO);
}

/* ---- sources ---- */

static void
copy_source_failed(struct mt_copy *copy, int rc, const char *why)
{
	const struct extent_id *id = &copy->options.id;

	assert(rc < 0);
	if (mt_is_busy(rc)) {
		copy_retry(copy, rc);
		return;
	}
	if (mt_is_fenced(rc)) {
		copy_fail(copy, -ESTALE);
		return;
	}
	/* An extent that was reclaimed meanwhile is at no source: whoever began the copy knows. */
	log_limited(rc == -ENOENT ? LOG_DEBUG : LOG_WARN,
	    "copy: another source is read from, %s extent=%" PRIu32 ".%" PRIu32 ".%" PRIu64
	    " node=%" PRIu32 " offset_bytes=%" PRIu64 " rc=%s",
	    why, id->shard, id->epoch, id->counter, copy->options.sources[copy->source].node_id,
	    copy->done_bytes, log_errno(rc));
	if (mt_is_link_lost(rc))
		mt_chooser_note_failed(&copy->chooser, copy->source);
	else
		mt_chooser_note_bad(&copy->chooser, copy->source);
	mt_copy_window_release(&copy->window);
	if (copy->sm.state != COPY_PACING)
		sm_move(&copy->sm, COPY_PACING);
	copy_pace(copy);
}

/* ---- appends ---- */

static void
copy_appends_done(struct mt_copy *copy)
{
	int rc = copy->rc;

	assert(copy->sm.state == COPY_APPENDING);
	assert(copy->outstanding_count == 0);
	copy->rc = 0;
	if (copy->is_source_bad) {
		/* The head has passed here: what did not pass there is payload, and the source's. */
		copy->is_source_bad = false;
		copy_source_failed(copy, -EBADMSG, "a batch of this one does not pass its checks");
	} else if (rc != 0) {
		copy_target_failed(copy, rc);
	} else {
		mt_copy_window_release(&copy->window);
		sm_move(&copy->sm, COPY_PACING);
		copy_pace(copy);
	}
}

static void
copy_on_appended(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_copy *copy = arg;
	struct copy_append *append = NUM_CONTAINER_OF(call, struct copy_append, call);

	assert(msg == NULL);
	append->is_out = false;
	if (copy_answered(copy))
		return;
	assert(copy->sm.state == COPY_APPENDING);
	if (rc == 0 && reply->offset_bytes < append->end_bytes)
		rc = -EPROTO;
	if (rc == 0 && append->end_bytes > copy->done_bytes) {
		copy->done_bytes = append->end_bytes;
		copy->chain_crc = append->batch_crc;
		copy->retries = 0;
		mt_chooser_reset(&copy->chooser); /* what failed there may be whole here */
	} else if (rc != 0 && copy->rc == 0) {
		copy->rc = rc; /* those behind it fail because of it */
		copy->is_source_bad = rc == -EBADMSG;
	}
	if (copy->rc == 0)
		copy_send(copy);
	else if (copy->outstanding_count == 0)
		copy_appends_done(copy);
}

static struct copy_append *
copy_free_append(struct mt_copy *copy)
{
	for (uint32_t i = 0; i < COPY_APPENDS_MAX; i++) {
		if (!copy->appends[i].is_out)
			return &copy->appends[i];
	}
	return NULL;
}

/* In APPENDING: send what the window holds, as many at a time as may be out. */
static void
copy_send(struct mt_copy *copy)
{
	struct copy_window *window = &copy->window;

	assert(copy->sm.state == COPY_APPENDING);
	while (window->next_bytes < window->end_bytes) {
		struct copy_append *append = copy_free_append(copy);
		struct batch_info info;
		int rc;

		if (append == NULL)
			return;
		rc = mt_copy_window_batch(window, copy->options.shard->port->split,
		    &copy->options.id, copy->options.kind, copy->options.length_bytes, &info);
		if (rc == -EMSGSIZE && window->next_bytes > window->at_bytes)
			break; /* the next window begins here */
		if (rc != 0) {
			copy->rc = -EBADMSG;
			copy->is_source_bad = true;
			break;
		}
		mt_copy_window_fill(window, &info, &append->call);
		rc = copy_call(copy, copy->options.target_node_id, &append->call, copy_on_appended);
		if (rc != 0) {
			copy->rc = rc;
			break;
		}
		append->is_out = true;
		append->end_bytes = window->next_bytes + info.batch_bytes;
		append->batch_crc = info.batch_crc;
		mt_copy_window_next(window, &info);
	}
	if (copy->outstanding_count == 0)
		copy_appends_done(copy);
}

/* ---- reads ---- */

static void
copy_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_copy *copy = arg;

	(void)reply;
	copy->window.msgs[call - copy->reads] = msg;
	if (copy_answered(copy))
		return;
	assert(copy->sm.state == COPY_READING);
	if (rc == 0 && (msg == NULL || msg->payload_bytes != call->request.length_bytes))
		rc = -EPROTO;
	if (copy->rc == 0)
		copy->rc = rc;
	if (copy->outstanding_count > 0)
		return;
	rc = copy->rc;
	copy->rc = 0;
	if (rc != 0) {
		copy_source_failed(copy, rc, "a batch of this one cannot be read");
		return;
	}
	sm_move(&copy->sm, COPY_APPENDING);
	copy_send(copy);
}

/* The source of the next window. False: none is left for the batch that it begins with. */
static bool
copy_choose_source(struct mt_copy *copy)
{
	const struct mt_copies copies = { .replicas = copy->options.sources,
		.count = copy->options.source_count,
		.rotor = &copy->rotor };
	struct mt_link *link;
	int index;

	if (copies.count == 0)
		return false;
	index = mt_chooser_pick(&copy->chooser, copy->options.shard->port, &copies, &link);
	if (index < 0)
		return false;
	copy->source = (uint32_t)index;
	return true;
}

static void
copy_read(struct mt_copy *copy)
{
	uint64_t bytes = num_min(copy->options.length_bytes - copy->done_bytes, COPY_WINDOW_BYTES);
	uint32_t node_id;

	assert(copy->sm.state == COPY_PACING);
	assert(copy->outstanding_count == 0);
	if (!copy_choose_source(copy)) {
		copy_fail(copy, -EIO);
		return;
	}
	node_id = copy->options.sources[copy->source].node_id;
	sm_move(&copy->sm, COPY_READING);
	copy->rc = 0;
	mt_copy_window_begin(&copy->window, copy->done_bytes, bytes, copy->chain_crc);
	for (uint32_t i = 0; (uint64_t)i * MT_RECEIVE_BYTES < bytes && copy->rc == 0; i++) {
		uint64_t at = (uint64_t)i * MT_RECEIVE_BYTES;

		copy->reads[i].request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
			.offset_bytes = copy->done_bytes + at,
			.length_bytes = (uint32_t)num_min(bytes - at, MT_RECEIVE_BYTES) };
		copy->rc = copy_call(copy, node_id, &copy->reads[i], copy_on_read);
	}
	if (copy->outstanding_count == 0)
		copy_source_failed(copy, copy->rc, "this one's node cannot be asked");
}

/* ---- pacing ---- */

/* In PACING: the next window when it has its turn; behind the last, the copy is truncated. */
static void
copy_pace(struct mt_copy *copy)
{
	struct loop *loop = copy->options.shard->port->loop;
	uint64_t now_ns = loop_now_ns(loop);

	assert(copy->sm.state == COPY_PACING);
	if (copy->done_bytes == copy->options.length_bytes) {
		copy_truncate(copy);
		return;
	}
	mt_copy_take_turn(copy, now_ns);
	if (copy->turn_ns > now_ns) {
		loop_timer_start(loop, &copy->timer, copy->turn_ns - now_ns);
		return;
	}
	if (!mt_copy_may_read(copy)) {
		loop_timer_start(loop, &copy->timer, COPY_TURN_NS);
		return;
	}
	copy->has_turn = false;
	copy_read(copy);
}

static void
copy_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_copy *copy = arg;

	(void)timer;
	CHECK_OBJ(copy, COPY_MAGIC);
	assert(timer == &copy->timer);
	copy_pace(copy);
}

/* ---- beginning and end at the target ---- */

static void
copy_on_truncated(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_copy *copy = arg;

	(void)call;
	(void)reply;
	assert(msg == NULL);
	if (copy_answered(copy))
		return;
	if (rc != 0) {
		copy_target_failed(copy, rc);
		return;
	}
	sm_move(&copy->sm, COPY_DONE);
	copy_tell(copy, 0);
	copy_free(copy);
}

static void
copy_truncate(struct mt_copy *copy)
{
	int rc;

	assert(copy->done_bytes == copy->options.length_bytes);
	sm_move(&copy->sm, COPY_TRUNCATING);
	copy->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
		.offset_bytes = copy->options.length_bytes };
	rc = copy_call(copy, copy->options.target_node_id, &copy->call, copy_on_truncated);
	if (rc != 0)
		copy_target_failed(copy, rc);
}

static void
copy_on_created(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_copy *copy = arg;

	(void)call;
	assert(msg == NULL);
	if (rc == 0)
		copy->incarnation = reply->offset_bytes;
	if (copy_answered(copy))
		return;
	if (rc != 0) {
		copy_target_failed(copy, rc);
		return;
	}
	sm_move(&copy->sm, COPY_PACING);
	copy_pace(copy);
}

struct mt_copy *
mt_copy_start(const struct mt_copy_options *options)
{
	struct mt_shard *shard = options->shard;
	struct mt_copy *copy = mt_calloc(1, sizeof(*copy));
	int rc;

	assert(options->source_count <= MT_REPLICAS_MAX);
	assert(options->target_node_id != 0);
	assert(options->id.shard == shard->index);
	assert(options->bytes_per_s == 0 || options->spent_ns != NULL);
	if (copy == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	if (shard->copies.next == NULL)
		list_init(&shard->copies);
	copy->magic = COPY_MAGIC;
	copy->options = *options;
	copy->chain_crc = batch_chain_seed(&options->id, options->kind);
	loop_timer_init(&copy->timer, copy_on_timer, copy);
	sm_init(&copy->sm, "copy", copy_table, COPY_CREATING, shard->index);
	copy->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_CREATE };
	rc = copy_call(copy, options->target_node_id, &copy->call, copy_on_created);
	if (rc != 0) {
		mt_free(copy);
		errno = rc == -ENOMEM ? ENOMEM : ENOTCONN;
		return NULL;
	}
	list_push_back(&shard->copies, &copy->link);
	return copy;
}

void
mt_copy_stop(struct mt_copy *copy)
{
	CHECK_OBJ(copy, COPY_MAGIC);
	copy->is_stopped = true;
	if (copy->sm.state != COPY_FAILED)
		copy_fail(copy, -ECANCELED);
}

void
mt_copy_on_link(struct mt_copy *copy, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(copy, COPY_MAGIC);
	/* Calls that are out end by themselves; only a pause would go on unaware. */
	if (!is_up && link->node_id == copy->options.target_node_id &&
	    copy->sm.state == COPY_PACING)
		copy_fail(copy, -ENOTCONN);
}

void
mt_copy_fini(struct mt_shard *shard)
{
	struct loop_link *link;

	if (shard->copies.next == NULL)
		return;
	while ((link = list_first(&shard->copies)) != NULL)
		copy_free(LIST_ENTRY(link, struct mt_copy, link));
}
