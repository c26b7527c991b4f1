/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.c -- the replicas of an extent whose owner is gone become one length
 *
 *	                +--------- a node is lost ---------+-----------+
 *	                v                                  |           |
 *	start --> FREEZING --> (judge) --> READING --> APPENDING ---> (judge)
 *	             ^            | | \                                 |
 *	      later  |            | |  +-----> COPYING ---> (judge)     |
 *	             +--- STUCK <-+ |                                   |
 *	                            +-----> TRUNCATING --> DONE <-------+
 *
 * FREEZE is the fence (I6): once a replica has answered, no append of an older epoch is acknowledged
 * by all. Every replica is waited for, until the deadline; then those that have answered will do. What an
 * answer is worth:
 *
 *	a checked chain      counts; the longest one among them is the agreed length
 *	sealed               an earlier take-over got this far: its length is the agreed one
 *	damaged, no copy,    counts for nothing, but a mark it carries is still evidence of what was
 *	the disk has failed  acknowledged
 *	                     (asked anew every five seconds, while anybody is waited for: a disk may be read again)
 *	busy, no memory      no answer: asked again
 *	none: the node has   as damaged: it was removed, or given up for lost, and nobody will ever hear of
 *	left the cluster     it again
 *
 * A write is acknowledged when every replica has it (I4), so any single undamaged chain holds all
 * that was acknowledged. A chain that ends below a mark is therefore damaged; and when no undamaged
 * chain reaches the highest mark, something that was acknowledged is gone, or lies on a node that
 * gives a wrong answer today: that is never agreed upon. It is logged, and asked again. A mark that was told
 * once counts to the end, whatever its node answers later.
 *
 * A lone answer proves nothing: a disk that has lost its end without a trace answers like one that never
 * had it. So two undamaged copies must have answered, or one that is sealed, or every replica in some
 * way: then there is nobody left who could know better. An extent made on one node, and a gateway that is
 * told that one replica is enough (min_replicas 1), do with one. Where two are damaged for sure, and the
 * manifest says so, the third is not asked to find another.
 *
 * What lies behind the highest mark may have been acknowledged or not; but once it is read by somebody it
 * must not vanish. So when replicas are missing it has to be on min_replicas nodes before it counts:
 * the extent is copied to further ones, and else the missing are waited for, by name. (A manifest extent
 * too, though its next checkpoint is on that many before anything is served: its length is in the root
 * before that, and would then be owed by one node alone.) When all have answered, and some are damaged,
 * and there is no further node, it goes on with what there is. A replica that did
 * not answer stays in the list, not truncated: it is told the length when it comes back, and counts only then.
 *
 * Two take-overs that died before they recorded a length may have truncated different replicas at different
 * ones. Neither was served from; the longest holds all that was acknowledged, and so would any other.
 *
 * A shorter chain gets the others' tail, batch by batch: the payload goes from the message it arrived
 * in straight on to the node that lacks it, and only the batch's head is looked at, on its way.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/copy.h"
#include "extent/node_link.h"
#include "shard/agree.h"
#include "shard/agree_copy.h"
#include "shard/agree_judge.h"
#include "shard/agree_repair.h"
#include "shard/agree_replica.h"

#define AGREE_RETRY_NS NUM_S(1)
#define AGREE_LOG_NS NUM_S(5)
#define AGREE_STUCK_NS NUM_S(5)

static const struct sm_state agree_table[MT_AGREE_STATE_NR] = {
	[MT_AGREE_FREEZING] = { "freezing",
	    SM_TO(MT_AGREE_READING) | SM_TO(MT_AGREE_STUCK) | SM_TO(MT_AGREE_COPYING) |
		SM_TO(MT_AGREE_TRUNCATING),
	    SM_INITIAL },
	[MT_AGREE_STUCK] = { "stuck", SM_TO(MT_AGREE_FREEZING), 0 },
	[MT_AGREE_READING] = { "reading", SM_TO(MT_AGREE_APPENDING) | SM_TO(MT_AGREE_FREEZING), 0 },
	[MT_AGREE_APPENDING] = { "appending", SM_TO(MT_AGREE_FREEZING), 0 },
	[MT_AGREE_COPYING] = { "copying", SM_TO(MT_AGREE_FREEZING), 0 },
	[MT_AGREE_TRUNCATING] = { "truncating", SM_TO(MT_AGREE_DONE) | SM_TO(MT_AGREE_FREEZING),
	    0 },
	[MT_AGREE_DONE] = { "done", 0, SM_FINAL },
};

/* ---- calls ---- */

static void
agree_finish(struct mt_agree *agree, int rc)
{
	assert(!agree->is_stopped);
	assert(rc <= 0);
	agree->is_stopped = true;
	agree->shard->awaited_node = 0;
	loop_timer_stop(agree->shard->port->loop, &agree->timer);
	agree->fn(agree, rc, agree->arg);
}

int
mt_agree_call(struct mt_agree *agree, uint32_t replica_index, struct mt_call *call, mt_call_fn fn,
    void *arg)
{
	struct mt_link *link =
	    mt_port_link(agree->shard->port, agree->replicas[replica_index].node_id);
	int rc;

	assert(replica_index < agree->replica_count);
	if (link == NULL)
		return -ENOTCONN;
	call->request.id = agree->id;
	call->request.kind = agree->kind;
	call->request.epoch = agree->shard->epoch;
	call->host = NULL;
	call->head_bytes = 0;
	call->fn = fn;
	call->arg = arg;
	rc = mt_link_call(link, call);
	if (rc == 0)
		agree->outstanding_count++;
	return rc;
}

/* True when the answer is for nobody any more. */
bool
mt_agree_answered(struct mt_agree *agree, int rc)
{
	CHECK_OBJ(agree, AGREE_MAGIC);
	assert(agree->outstanding_count > 0);
	agree->outstanding_count--;
	if (agree->is_stopped)
		return true;
	if (rc == -ESTALE) {
		agree_finish(agree, rc);
		return true;
	}
	return false;
}

/* ---- freeze ---- */

static void
replica_on_frozen(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree_replica *replica = arg;
	struct mt_agree *agree = replica->agree;

	(void)call;
	assert(msg == NULL);
	if (mt_agree_answered(agree, rc))
		return;
	assert(replica->sm.state == MT_AGREE_ASKED);
	replica->refused_rc = rc;
	if (rc == 0) {
		mt_agree_replica_take_length(replica, reply);
	} else if (mt_agree_is_verdict(rc)) {
		replica->length_bytes = 0;
		if (MUTANT(mark_forgotten))
			replica->mark_bytes = 0;
		mt_agree_damage(replica, "its node has no good copy", rc);
	} else {
		/* Lost, or busy: asked again when it is back, or by the timer. */
		sm_move(&replica->sm, MT_AGREE_UNASKED);
		return;
	}
	mt_agree_step(agree);
}

static void
replica_freeze(struct mt_agree_replica *replica)
{
	assert(replica->sm.state == MT_AGREE_UNASKED);
	replica->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_FREEZE };
	replica->call.piece_count = 0;
	if (mt_agree_call(replica->agree, mt_agree_replica_index(replica), &replica->call,
		replica_on_frozen, replica) == 0)
		sm_move(&replica->sm, MT_AGREE_ASKED);
}

/* ---- judge ---- */

/* Once: the answers that there are agree upon nothing. */
static void
agree_log_stuck(struct mt_agree *agree, const char *why)
{
	char text[MT_AGREE_TEXT_BYTES];

	assert(agree->sm.state == MT_AGREE_FREEZING);
	for (uint32_t i = 0; i < agree->replica_count && !agree->is_stuck_logged; i++) {
		const struct mt_agree_replica *replica = &agree->states[i];

		log_error("shard %" PRIu32 ": cannot be taken over: %s extent=%s node=%" PRIu32
			  " state=%s length_bytes=%" PRIu64 " mark_bytes=%" PRIu64
			  " chain=%08" PRIx32,
		    agree->shard->index, why, mt_agree_text(agree, text),
		    mt_agree_replica_node_id(replica), sm_state_name(&replica->sm),
		    replica->length_bytes, replica->mark_bytes, replica->chain_crc);
	}
	agree->is_stuck_logged = true;
}

static void
agree_stick(struct mt_agree *agree, const char *why)
{
	agree_log_stuck(agree, why);
	sm_move(&agree->sm, MT_AGREE_STUCK);
	loop_timer_start(agree->shard->port->loop, &agree->timer, AGREE_STUCK_NS);
}

static void agree_truncate(struct mt_agree *agree);

static void
agree_log_short(struct mt_agree *agree)
{
	char text[MT_AGREE_TEXT_BYTES];

	if (agree->is_short_logged)
		return;
	agree->is_short_logged = true;
	log_warn("shard %" PRIu32 ": extent=%s has %" PRIu32 " good copies, %" PRIu32
		 " are wanted, and no other node has a slot for its %" PRIu64
		 " bytes: start those that are down, or add one",
	    agree->shard->index, mt_agree_text(agree, text), mt_agree_count(agree, MT_AGREE_FROZEN),
	    agree->shard->port->settings->min_replicas, agree->agreed_bytes);
}

/* In FREEZING; no answer is outstanding. Some replicas may be away: then damaged ones are asked anew by the timer. */
static void
agree_judge(struct mt_agree *agree)
{
	const char *why = mt_agree_find_length(agree);
	bool is_complete = mt_agree_count(agree, MT_AGREE_UNASKED) == 0;
	struct mt_agree_replica *lacking;

	assert(agree->sm.state == MT_AGREE_FREEZING);
	assert(mt_agree_count(agree, MT_AGREE_ASKED) == 0);
	if (why != NULL) {
		/* A replica that is away may hold records that these have not. */
		if (is_complete)
			agree_stick(agree, why);
		else if (mt_agree_count(agree, MT_AGREE_UNASKED) < agree->replica_count)
			agree_log_stuck(agree, why);
		return;
	}
	agree->is_stuck_logged = false;
	mt_agree_damage_short(agree);
	if (!mt_agree_is_proven(agree) && !is_complete)
		return; /* those that are away may know better */
	lacking = mt_agree_find(agree, false);
	if (lacking != NULL && !MUTANT(tail_not_copied)) {
		mt_agree_repair(agree, mt_agree_replica_index(mt_agree_find(agree, true)),
		    mt_agree_replica_index(lacking));
		return;
	}
	if (!mt_agree_is_enough(agree)) {
		if (mt_agree_recall(agree)) {
			mt_agree_step(agree);
			return;
		}
		if (mt_agree_place(agree)) {
			sm_move(&agree->sm, MT_AGREE_COPYING);
			return;
		}
		agree_log_short(agree);
		if (!is_complete)
			return; /* until they come back, or another node */
	}
	agree_truncate(agree);
}

/*
 * Replicas that are away are waited for: until the deadline, but no longer than any node is waited for since it
 * was last seen. 0: none is.
 */
static uint64_t
agree_wait_until_ns(const struct mt_agree *agree)
{
	struct mt_port *port = agree->shard->port;
	uint64_t until_ns = 0;

	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_link *link = mt_port_link(port, agree->replicas[i].node_id);
		uint64_t away_until_ns = agree->deadline_ns;

		if (agree->states[i].sm.state != MT_AGREE_UNASKED)
			continue;
		if (link != NULL && !mt_link_is_up(link))
			away_until_ns = num_min(away_until_ns,
			    link->changed_ns + port->settings->node_timeout_ns);
		until_ns = num_max(until_ns, away_until_ns);
	}
	return until_ns;
}

/* In FREEZING: ask who was not asked; judge when all have answered, or those that will. */
void
mt_agree_step(struct mt_agree *agree)
{
	assert(agree->magic == AGREE_MAGIC);
	if (agree->sm.state != MT_AGREE_FREEZING)
		return;
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (agree->states[i].sm.state != MT_AGREE_UNASKED)
			continue;
		if (mt_port_has_left(agree->shard->port, agree->replicas[i].node_id))
			mt_agree_damage(&agree->states[i], "its node has left the cluster",
			    -ENODEV);
		else
			replica_freeze(&agree->states[i]);
	}
	if (mt_agree_count(agree, MT_AGREE_ASKED) > 0)
		return;
	if (loop_now_ns(agree->shard->port->loop) >= agree_wait_until_ns(agree))
		agree_judge(agree);
}

/* ---- one more node ---- */

void
mt_agree_placed(struct mt_agree *agree, int rc)
{
	assert(agree->sm.state == MT_AGREE_COPYING && agree->copy == NULL);
	if (rc == -ESTALE) {
		agree_finish(agree, rc);
		return;
	}
	sm_move(&agree->sm, MT_AGREE_FREEZING);
	mt_agree_step(agree);
}

/* ---- truncate ---- */

/* Every replica that could be asked has answered. */
static void
agree_truncate_done(struct mt_agree *agree)
{
	uint32_t good_count = 0;
	char text[MT_AGREE_TEXT_BYTES];

	assert(agree->sm.state == MT_AGREE_TRUNCATING && agree->outstanding_count == 0);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_agree_replica *replica = &agree->states[i];

		good_count += mt_agree_is_good(replica);
		agree->replicas[i].is_damaged = replica->sm.state == MT_AGREE_DAMAGED;
		agree->replicas[i].is_truncated = mt_agree_is_good(replica) &&
		    (replica->is_truncated || MUTANT(tail_not_copied));
	}
	if (good_count == 0) {
		sm_move(&agree->sm, MT_AGREE_FREEZING);
		agree_judge(agree);
		return;
	}
	if (good_count < agree->replica_count)
		log_warn("shard %" PRIu32 ": extent=%s has %" PRIu32 " of %" PRIu32 " copies",
		    agree->shard->index, mt_agree_text(agree, text), good_count,
		    agree->replica_count);
	sm_move(&agree->sm, MT_AGREE_DONE);
	agree_finish(agree, 0);
}

static void
replica_on_truncated(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree_replica *replica = arg;
	struct mt_agree *agree = replica->agree;

	(void)call;
	(void)reply;
	assert(msg == NULL);
	if (mt_agree_answered(agree, rc))
		return;
	assert(agree->sm.state == MT_AGREE_TRUNCATING);
	if (rc == 0)
		replica->is_truncated = true;
	else if (mt_agree_is_verdict(rc))
		mt_agree_damage(replica, "it could not be sealed", rc);
	/* A node that is lost meanwhile is told when it comes back. */
	if (agree->outstanding_count == 0)
		agree_truncate_done(agree);
}

static void
agree_truncate(struct mt_agree *agree)
{
	assert(agree->outstanding_count == 0);
	sm_move(&agree->sm, MT_AGREE_TRUNCATING);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		struct mt_agree_replica *replica = &agree->states[i];

		if (!mt_agree_is_good(replica) || replica->is_truncated)
			continue;
		if (MUTANT(tail_not_copied) && replica->length_bytes < agree->agreed_bytes)
			continue;
		replica->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
			.offset_bytes = agree->agreed_bytes };
		replica->call.piece_count = 0;
		(void)mt_agree_call(agree, i, &replica->call, replica_on_truncated, replica);
	}
	if (agree->outstanding_count == 0)
		agree_truncate_done(agree);
}

/* ---- its life ---- */

static void
agree_log_waiting(struct mt_agree *agree)
{
	uint64_t now_ns = loop_now_ns(agree->shard->port->loop);
	char text[MT_AGREE_TEXT_BYTES];

	if (agree->sm.state != MT_AGREE_FREEZING) {
		agree->shard->awaited_node = 0;
		return;
	}
	if (now_ns - agree->log_ns < AGREE_LOG_NS)
		return;
	agree->log_ns = now_ns;
	agree->shard->awaited_node = 0;
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_agree_replica *replica = &agree->states[i];
		int rc = replica->refused_rc;

		if (replica->sm.state >= MT_AGREE_FROZEN)
			continue;
		/* Before that it is waited for as any is that may come back at once. */
		if (agree->shard->awaited_node == 0 && now_ns >= agree_wait_until_ns(agree))
			agree->shard->awaited_node = agree->replicas[i].node_id;
		log_info("shard %" PRIu32 ": waits for node %" PRIu32
			 " to freeze extent %s: %s epoch=%" PRIu32 " rc=%s",
		    agree->shard->index, agree->replicas[i].node_id, mt_agree_text(agree, text),
		    rc == 0 ? "it does not answer" : status_text(status_from_errno(rc)),
		    agree->shard->epoch, log_errno(rc));
	}
}

/* At the deadline it is looked anew, at the latest. */
static void
agree_start_timer(struct mt_agree *agree)
{
	struct loop *loop = agree->shard->port->loop;
	uint64_t now_ns = loop_now_ns(loop), wait_ns = AGREE_RETRY_NS;
	uint64_t until_ns = agree_wait_until_ns(agree);

	assert(!agree->is_stopped);
	if (until_ns > now_ns)
		wait_ns = num_min(wait_ns, until_ns - now_ns);
	loop_timer_start(loop, &agree->timer, wait_ns);
}

/* Somebody is away who is not waited for any longer: copies that were damaged may do by now. */
static void
agree_ask_anew(struct mt_agree *agree)
{
	uint64_t now_ns = loop_now_ns(agree->shard->port->loop);

	if (agree->sm.state != MT_AGREE_FREEZING || mt_agree_count(agree, MT_AGREE_ASKED) > 0 ||
	    now_ns < agree->anew_ns || now_ns < agree_wait_until_ns(agree) ||
	    MUTANT(damaged_unasked))
		return;
	agree->anew_ns = now_ns + AGREE_STUCK_NS;
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		struct mt_agree_replica *replica = &agree->states[i];

		if (replica->sm.state == MT_AGREE_DAMAGED &&
		    !mt_port_has_left(agree->shard->port, mt_agree_replica_node_id(replica)))
			sm_move(&replica->sm, MT_AGREE_UNASKED);
	}
}

static void
agree_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_agree *agree = arg;

	(void)timer;
	CHECK_OBJ(agree, AGREE_MAGIC);
	assert(!agree->is_stopped);
	if (agree->sm.state == MT_AGREE_STUCK) {
		for (uint32_t i = 0; i < agree->replica_count; i++)
			sm_move(&agree->states[i].sm, MT_AGREE_UNASKED);
		sm_move(&agree->sm, MT_AGREE_FREEZING);
	}
	agree_log_waiting(agree);
	agree_ask_anew(agree);
	agree->copy_tried = agree->orphans_tried = 0;
	agree_start_timer(agree);
	mt_agree_step(agree);
}

int
mt_agree_start(struct mt_agree *agree)
{
	struct loop *loop = agree->shard->port->loop;

	assert(agree->magic != AGREE_MAGIC);
	assert(agree->fn != NULL);
	assert(agree->replica_count >= 1);
	assert(agree->replica_count <= MT_REPLICAS_MAX);
	agree->head = mt_calloc(1, BATCH_HEAD_BYTES_MAX);
	if (agree->head == NULL)
		return -ENOMEM;
	agree->magic = AGREE_MAGIC;
	sm_init(&agree->sm, "agree", agree_table, MT_AGREE_FREEZING, agree->shard->index);
	for (uint32_t i = 0; i < agree->replica_count; i++)
		mt_agree_replica_init(agree, i);
	agree->repair = (struct mt_agree_repair){ 0 };
	agree->outstanding_count = 0;
	agree->is_stopped = agree->is_stuck_logged = agree->is_short_logged = false;
	agree->copy = NULL;
	agree->copy_tried = agree->orphans_tried = 0;
	agree->passed_count = 0;
	agree->wanted_count = mt_agree_count_wanted(agree);
	/* Links come up one after the other: the first seconds are nothing to tell of. */
	agree->log_ns = loop_now_ns(loop) - AGREE_LOG_NS + 2 * AGREE_RETRY_NS;
	agree->anew_ns = loop_now_ns(loop) + AGREE_STUCK_NS;
	loop_timer_init(&agree->timer, agree_on_timer, agree);
	agree_start_timer(agree);
	mt_agree_step(agree);
	return 0;
}

void
mt_agree_on_link(struct mt_agree *agree, struct mt_link *link, bool is_up)
{
	if (agree->magic == 0)
		return; /* none has begun, or it has ended */
	CHECK_OBJ(agree, AGREE_MAGIC);
	if (agree->is_stopped)
		return;
	if (agree->copy != NULL)
		mt_copy_on_link(agree->copy, link, is_up);
	else if (is_up)
		mt_agree_step(agree);
}

void
mt_agree_stop(struct mt_agree *agree)
{
	if (agree->magic == 0 || agree->is_stopped)
		return; /* it has ended */
	CHECK_OBJ(agree, AGREE_MAGIC);
	agree->is_stopped = true;
	agree->shard->awaited_node = 0;
	loop_timer_stop(agree->shard->port->loop, &agree->timer);
	if (agree->copy != NULL)
		mt_copy_stop(agree->copy);
	agree->copy = NULL;
}

bool
mt_agree_is_quiet(const struct mt_agree *agree)
{
	return agree->outstanding_count == 0;
}

void
mt_agree_fini(struct mt_agree *agree)
{
	if (agree->magic == 0)
		return;
	CHECK_OBJ(agree, AGREE_MAGIC);
	loop_timer_stop(agree->shard->port->loop, &agree->timer);
	mt_free(agree->head);
	agree->head = NULL;
	agree->magic = 0;
}
