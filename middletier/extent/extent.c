/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent.c -- the life of an extent, but for its appends (replicate.c)
 *
 *	  placed, CREATE answered by all           a replica failed, or its link is down
 *	CREATING -----------------------> OPEN --------------------------------> BROKEN
 *	   | one refused: gone             | full: its length is in the manifest   | the same
 *	   v                               v                                       |
 *	 (freed)                         SEALED <----------------------------------+
 *
 * One that the manifest names begins as BROKEN: it is restored. One that a guest adopts (merge_guest.c) begins as OPEN.
 *
 * A *request* is a CREATE, TRUNCATE or DELETE at one node: allocated for it, in the extent's list until it
 * is answered, and left to end alone when the extent is freed before. These are few (one a replica and
 * extent); appends allocate nothing.
 *
 * What a failed creation leaves on nodes is deleted, best effort; orphans are swept elsewhere.
 */
#include "extent/extent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent_copies.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "extent/replicate.h"

#define REQUEST_MAGIC 0x54534552u /* "REST" */

static const struct sm_state extent_table[MT_EXTENT_STATE_NR] = {
	[MT_EXTENT_CREATING] = { "creating", SM_TO(MT_EXTENT_OPEN) | SM_TO(MT_EXTENT_BROKEN),
	    SM_INITIAL },
	[MT_EXTENT_OPEN] = { "open", SM_TO(MT_EXTENT_BROKEN) | SM_TO(MT_EXTENT_SEALED),
	    SM_INITIAL },
	[MT_EXTENT_BROKEN] = { "broken", SM_TO(MT_EXTENT_SEALED), SM_INITIAL },
	[MT_EXTENT_SEALED] = { "sealed", 0, SM_FINAL },
};

struct extent_request {
	uint32_t magic;
	struct loop_link link;       /* extent->requests */
	struct loop_link shard_link; /* shard->extent_requests */
	struct mt_extent *extent;    /* NULL: freed meanwhile */
	struct mt_shard *shard;
	uint32_t replica_index;
	uint32_t node_id; /* the replica's, when it was asked */
	struct mt_call call;
};

/* ---- requests ---- */

static void extent_on_created(struct mt_extent *extent, uint32_t replica_index, int rc,
    const struct wire_node_reply *reply);
static void extent_on_truncated(struct mt_extent *extent, uint32_t replica_index, int rc);

/* A deleted extent goes with its last request. */
static void
extent_try_free(struct mt_extent *extent)
{
	if (extent->is_going && list_is_empty(&extent->requests))
		mt_extent_free(extent);
}

static void
request_free(struct extent_request *request)
{
	list_remove(&request->link);
	list_remove(&request->shard_link);
	request->magic = 0;
	mt_free(request);
}

bool
mt_extent_requests_are_quiet(const struct mt_shard *shard)
{
	return shard->extent_requests.next == NULL || list_is_empty(&shard->extent_requests);
}

void
mt_extent_requests_fini(struct mt_shard *shard)
{
	struct loop_link *link;

	if (shard->extent_requests.next == NULL)
		return; /* there never was one */
	while ((link = list_first(&shard->extent_requests)) != NULL) {
		struct extent_request *request =
		    LIST_ENTRY(link, struct extent_request, shard_link);
		struct mt_extent *extent = request->extent;

		request_free(request);
		if (extent != NULL)
			extent_try_free(extent);
	}
}

/* A copy that this owner gave up, and that is still there. */
static void
extent_tell_garbage(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation)
{
	if (shard->garbage_fn != NULL)
		shard->garbage_fn(shard, id, node_id, incarnation);
}

static void
request_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct extent_request *request = arg;
	struct mt_extent *extent = request->extent;
	enum wire_opcode opcode = call->request.opcode;
	uint32_t replica_index = request->replica_index, node_id;

	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(msg == NULL);
	node_id = request->node_id;
	if (opcode == WIRE_EXTENT_DELETE && rc != 0 && rc != -ENOENT)
		extent_tell_garbage(request->shard, &call->request.id, node_id,
		    call->request.offset_bytes);
	request_free(request);
	if (extent == NULL)
		return;
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	if (extent->replicas[replica_index].node_id != node_id)
		extent_try_free(extent); /* replaced meanwhile */
	else if (opcode == WIRE_EXTENT_CREATE)
		extent_on_created(extent, replica_index, rc, reply);
	else if (opcode == WIRE_EXTENT_TRUNCATE)
		extent_on_truncated(extent, replica_index, rc);
	else
		extent_try_free(extent);
}

/* Ask a node about @id; @extent is NULL when nobody wants to know. Returns 0, or why it was not asked. */
static int
request_send(struct mt_shard *shard, struct mt_extent *extent, uint32_t node_id,
    const struct wire_node *wire)
{
	struct mt_link *node = mt_port_link(shard->port, node_id);
	struct loop_link *outstanding = &shard->extent_requests;
	struct extent_request *request;
	int rc;

	assert(extent == NULL || extent->shard == shard);
	if (outstanding->next == NULL)
		list_init(outstanding);
	if (node == NULL)
		return -ENOTCONN;
	request = mt_calloc(1, sizeof(*request));
	if (request == NULL)
		return -ENOMEM;
	request->magic = REQUEST_MAGIC;
	request->extent = extent;
	request->shard = shard;
	request->node_id = node_id;
	request->call.request = *wire;
	request->call.request.epoch = shard->epoch;
	request->call.fn = request_on_answer;
	request->call.arg = request;
	rc = mt_link_call(node, &request->call);
	if (rc != 0) {
		mt_free(request);
		return rc;
	}
	if (extent != NULL) {
		request->replica_index = (uint32_t)mt_extent_replica(extent, node_id);
		list_push_back(&extent->requests, &request->link);
	}
	list_push_back(outstanding, &request->shard_link);
	return 0;
}

static int
extent_ask(struct mt_extent *extent, uint32_t replica_index, enum wire_opcode opcode,
    uint64_t offset_bytes)
{
	assert(replica_index < extent->replica_count);
	return request_send(extent->shard, extent, extent->replicas[replica_index].node_id,
	    &(struct wire_node){ .opcode = opcode,
		.id = extent->id,
		.kind = extent->kind,
		.offset_bytes = offset_bytes,
		.flags = opcode == WIRE_EXTENT_CREATE && extent->is_reserve ? WIRE_FLAG_RESERVE
									    : 0 });
}

int
mt_extent_drop_copy(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation)
{
	int rc = request_send(shard, NULL, node_id,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = *id,
		.offset_bytes = incarnation });

	/* Copies on a node that is down are swept when it is back. */
	if (rc != 0)
		extent_tell_garbage(shard, id, node_id, incarnation);
	return rc;
}

static bool
extent_is_asked(struct mt_extent *extent, uint32_t replica_index, enum wire_opcode opcode)
{
	struct loop_link *link, *next;

	assert(replica_index < extent->replica_count);
	LIST_FOREACH_SAFE(&extent->requests, link, next) {
		const struct extent_request *request =
		    LIST_ENTRY(link, struct extent_request, link);

		if (request->replica_index == replica_index &&
		    request->call.request.opcode == opcode)
			return true;
	}
	return false;
}

/* ---- creation ---- */

static void extent_on_make_task(struct loop_task *task, void *arg);

static struct mt_extent *
extent_alloc(struct mt_shard *shard, const struct extent_id *id, enum extent_kind kind,
    enum mt_extent_state state)
{
	struct mt_extent *extent = mt_calloc(1, sizeof(*extent));

	assert(id->shard == shard->index);
	if (extent == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	extent->magic = MT_EXTENT_MAGIC;
	extent->shard = shard;
	extent->id = *id;
	extent->kind = kind;
	extent->index = UINT32_MAX;
	extent->chain_crc = batch_chain_seed(id, kind);
	list_init(&extent->appends);
	list_init(&extent->requests);
	if (shard->live_extents.next == NULL)
		list_init(&shard->live_extents);
	list_push_back(&shard->live_extents, &extent->shard_link);
	extent->placed_ns = loop_now_ns(shard->port->loop);
	loop_task_init(&extent->make_task, extent_on_make_task, extent);
	sm_init(&extent->sm, "extent", extent_table, state, (uint32_t)id->counter);
	return extent;
}

/* As many as are wished for; when too few nodes are up, fewer, down to what the operator allows. */
static int
extent_place(struct mt_extent *extent, struct mt_link **ret_links)
{
	struct mt_port *port = extent->shard->port;
	uint32_t count_min = port->settings->min_replicas;
	uint32_t count = MT_REPLICAS_MAX;
	uint64_t slot_bytes = UINT64_MAX;
	enum extent_kind kind = extent->is_reserve ? MT_PLACE_RESERVE : extent->kind;
	int rc;

	assert(extent->replica_count == 0);
	assert(count_min >= 1);
	while ((rc = mt_placement_pick(port, kind, count, ret_links)) == -EHOSTDOWN &&
	    count > count_min && count > 1)
		count--;
	if (rc != 0)
		return rc;
	extent->replica_count = count;
	for (uint32_t i = 0; i < count; i++) {
		extent->replicas[i] = (struct mt_replica){ .node_id = ret_links[i]->node_id };
		slot_bytes = num_min(slot_bytes, ret_links[i]->slot_bytes);
	}
	if (slot_bytes < MT_EXTENT_OVERHEAD_BYTES + BATCH_ALIGN)
		return -ENOSPC;
	extent->capacity_bytes = num_round_down(slot_bytes - MT_EXTENT_OVERHEAD_BYTES, BATCH_ALIGN);
	return 0;
}

/* Keeps the error that the caller is told: fenced before no space before too few nodes. */
static void
extent_note_make_rc(struct mt_extent *extent, int rc)
{
	int seen = rc == 0 || rc == -ENOSPC ? rc : mt_is_fenced(rc) ? -ESTALE : -EHOSTDOWN;

	assert(rc <= 0);
	if (seen == -ESTALE || extent->make_rc == 0 ||
	    (seen == -ENOSPC && extent->make_rc != -ESTALE))
		extent->make_rc = seen;
}

static struct mt_extent *
extent_create(struct mt_shard *shard, enum extent_kind kind, bool is_reserve, mt_extent_fn fn,
    void *arg)
{
	struct extent_id id = { .shard = shard->index,
		.epoch = shard->epoch,
		.counter = shard->next_counter };
	struct mt_link *links[MT_REPLICAS_MAX];
	struct mt_extent *extent;

	assert(fn != NULL);
	assert(!is_reserve || kind == EXTENT_LOG);
	if (id.counter > EXTENT_COUNTER_MAX) {
		errno = ENOSPC;
		return NULL;
	}
	extent = extent_alloc(shard, &id, kind, MT_EXTENT_CREATING);
	if (extent == NULL)
		return NULL;
	shard->next_counter++;
	extent->is_reserve = is_reserve;
	extent->make_fn = fn;
	extent->make_arg = arg;
	extent->make_rc = extent_place(extent, links);
	for (uint32_t i = 0; i < extent->replica_count && extent->make_rc == 0; i++)
		extent_note_make_rc(extent, extent_ask(extent, i, WIRE_EXTENT_CREATE, 0));
	if (list_is_empty(&extent->requests))
		loop_defer(shard->port->loop, &extent->make_task);
	return extent;
}

struct mt_extent *
mt_extent_create(struct mt_shard *shard, enum extent_kind kind, mt_extent_fn fn, void *arg)
{
	return extent_create(shard, kind, false, fn, arg);
}

struct mt_extent *
mt_extent_create_reserve(struct mt_shard *shard, mt_extent_fn fn, void *arg)
{
	return extent_create(shard, EXTENT_LOG, true, fn, arg);
}

/* Delete the copies that there are. */
static void
extent_delete_copies(struct mt_extent *extent)
{
	assert(!extent->is_going);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_replica *replica = &extent->replicas[i];

		/* Best effort: what a node that is down keeps is an orphan, and swept. */
		if (replica->incarnation == 0 ||
		    extent_ask(extent, i, WIRE_EXTENT_DELETE, replica->incarnation) != 0)
			extent_tell_garbage(extent->shard, &extent->id, replica->node_id,
			    replica->incarnation);
	}
}

/* Creation's sole exit: @fn may free the extent when it is OPEN. */
static void
extent_finish_create(struct mt_extent *extent)
{
	mt_extent_fn fn = extent->make_fn;
	int rc = extent->make_rc;

	assert(extent->sm.state == MT_EXTENT_CREATING);
	assert(list_is_empty(&extent->requests));
	extent->make_fn = NULL;
	if (rc == 0) {
		sm_move(&extent->sm, MT_EXTENT_OPEN);
		metric_add(&extent->shard->port->metrics[MT_METRIC_extents_opened], 1);
		fn(extent, 0, extent->make_arg);
		return;
	}
	sm_move(&extent->sm, MT_EXTENT_BROKEN);
	fn(extent, rc, extent->make_arg);
	mt_extent_delete(extent);
}

static void
extent_on_make_task(struct loop_task *task, void *arg)
{
	struct mt_extent *extent = arg;

	(void)task;
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	extent_finish_create(extent);
}

/* A connection that ends is told of once, "node: lost"; our own end when we stop, not at all. */
static enum log_level
extent_log_level(int rc)
{
	return rc == -ENOTCONN || rc == -ECONNRESET || rc == -EHOSTDOWN || rc == -ECANCELED
	    ? LOG_INFO
	    : LOG_WARN;
}

static void
extent_on_created(struct mt_extent *extent, uint32_t replica_index, int rc,
    const struct wire_node_reply *reply)
{
	assert(extent->sm.state == MT_EXTENT_CREATING);
	assert(replica_index < extent->replica_count);
	if (rc == 0)
		extent->replicas[replica_index].incarnation = reply->offset_bytes;
	extent_note_make_rc(extent, rc);
	/* A node that has no room again and again is nothing new; the caller says so once. */
	if (rc != 0 && rc != -ENOSPC)
		log_limited(extent_log_level(rc),
		    "extent: a node has not created its copy of a new one shard=%" PRIu32
		    " node=%" PRIu32 " rc=%s",
		    extent->id.shard, extent->replicas[replica_index].node_id, log_errno(rc));
	if (list_is_empty(&extent->requests))
		extent_finish_create(extent);
}

static struct mt_extent *
extent_of(struct mt_shard *shard, const struct extent_id *id, enum extent_kind kind,
    const struct mt_replica *replicas, uint32_t replica_count, enum mt_extent_state state)
{
	struct mt_extent *extent = extent_alloc(shard, id, kind, state);

	assert(replica_count >= 1);
	assert(replica_count <= MT_REPLICAS_MAX);
	if (extent == NULL)
		return NULL;
	for (uint32_t i = 0; i < replica_count; i++)
		extent->replicas[i] = replicas[i];
	extent->replica_count = replica_count;
	return extent;
}

struct mt_extent *
mt_extent_restore(struct mt_shard *shard, const struct extent_id *id, enum extent_kind kind,
    const struct mt_replica *replicas, uint32_t replica_count)
{
	return extent_of(shard, id, kind, replicas, replica_count, MT_EXTENT_BROKEN);
}

struct mt_extent *
mt_extent_adopt(struct mt_shard *shard, const struct extent_id *id, enum extent_kind kind,
    const struct mt_replica *replicas, uint32_t replica_count, const struct mt_extent_end *end)
{
	struct mt_extent *extent =
	    extent_of(shard, id, kind, replicas, replica_count, MT_EXTENT_OPEN);

	assert(end->acked_bytes <= end->end_bytes && end->end_bytes <= end->capacity_bytes);
	if (extent == NULL)
		return NULL;
	extent->capacity_bytes = end->capacity_bytes;
	extent->end_bytes = end->end_bytes;
	extent->acked_bytes = end->acked_bytes;
	extent->chain_crc = end->chain_crc;
	return extent;
}

/* ---- its end ---- */

void
mt_extent_free(struct mt_extent *extent)
{
	struct loop_link *link;

	if (extent == NULL)
		return;
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	while ((link = list_pop_front(&extent->requests)) != NULL)
		LIST_ENTRY(link, struct extent_request, link)->extent = NULL;
	while ((link = list_pop_front(&extent->appends)) != NULL)
		LIST_ENTRY(link, struct mt_append, link)->extent = NULL;
	loop_task_cancel(extent->shard->port->loop, &extent->make_task);
	list_remove(&extent->shard_link);
	extent->magic = 0;
	mt_free(extent);
}

void
mt_extent_delete(struct mt_extent *extent)
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	assert(extent->append_count == 0);
	assert(!extent->is_going);
	extent_delete_copies(extent);
	extent->is_going = true;
	extent_try_free(extent);
}

void
mt_extent_seal(struct mt_extent *extent, uint64_t bytes)
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	assert(extent->append_count == 0);
	sm_move(&extent->sm, MT_EXTENT_SEALED);
	extent->sealed_bytes = extent->end_bytes = extent->acked_bytes = bytes;
	metric_add(&extent->shard->port->metrics[MT_METRIC_extents_sealed], 1);
	mt_extent_upkeep(extent->shard);
}

void
mt_extent_truncate_replicas(struct mt_extent *extent)
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	assert(extent->sm.state == MT_EXTENT_SEALED);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		const struct mt_replica *replica = &extent->replicas[i];

		/* A node that cannot be asked now is asked when its link comes up. */
		if (!replica->is_truncated && !replica->is_damaged &&
		    !extent_is_asked(extent, i, WIRE_EXTENT_TRUNCATE))
			(void)extent_ask(extent, i, WIRE_EXTENT_TRUNCATE, extent->sealed_bytes);
	}
}

static void
extent_on_truncated(struct mt_extent *extent, uint32_t replica_index, int rc)
{
	assert(rc <= 0);
	assert(replica_index < extent->replica_count);
	if (rc == 0 || MUTANT(replica_unverified))
		extent->replicas[replica_index].is_truncated = true;
	else if (mt_is_copy_lost(rc))
		mt_extent_damage(extent, replica_index, "it cannot be sealed", rc);
	extent_try_free(extent);
}

/* ---- links ---- */

void
mt_extent_break(struct mt_extent *extent, uint32_t node_id, int rc)
{
	struct mt_link *link = mt_port_link(extent->shard->port, node_id);
	char text[MT_EXTENT_TEXT_BYTES];

	assert(rc < 0);
	if (extent->sm.state != MT_EXTENT_OPEN)
		return;
	sm_move(&extent->sm, MT_EXTENT_BROKEN);
	if (link != NULL)
		mt_link_refresh(link); /* its disk may take no more writes at all */
	metric_add(&extent->shard->port->metrics[MT_METRIC_extents_broken], 1);
	log_limited(extent_log_level(rc),
	    "extent: takes no more appends, a replica has failed extent=%s node=%" PRIu32
	    " acked_bytes=%" PRIu64 " rc=%s",
	    mt_extent_text(extent, text), node_id, extent->acked_bytes, log_errno(rc));
}

void
mt_extent_on_link(struct mt_extent *extent, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(extent, MT_EXTENT_MAGIC);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (extent->replicas[i].node_id != link->node_id)
			continue;
		if (!is_up)
			mt_extent_break(extent, link->node_id, -ENOTCONN);
		else if (extent->sm.state == MT_EXTENT_SEALED && !extent->is_going)
			mt_extent_truncate_replicas(extent);
	}
}
