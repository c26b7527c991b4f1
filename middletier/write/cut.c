/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut.c -- a shard's part in a snapshot: from here on its records belong to the next one
 *
 *	        begin            records of before are durable     the edit is
 *	IDLE ----------> DRAINING ----------------> COMMITTING -----------> HOLDING
 *	 ^                  |                           |                      |
 *	 |<- time-out, stop +          time-out, stop   v                      |
 *	 |<-------------- the edit has ended -------- BROKEN                   |
 *	 +<----------------------------------------- released, time-out, stop -+
 *
 * With the begin shard->cut becomes the snapshot's number: what is batched from now on is not in it, and
 * answers to writes of its volume are kept back (write_answer.c), until they are released or hold_ns (settings.h) have
 * passed. The coordinator (snapshot.c) is answered when all that was batched before has been
 * acknowledged by its replicas, so that a snapshot does not change after it was made, and when the cut
 * is in the manifest, so that a later owner of the shard knows of it. A hold that ends by itself is gone: the
 * coordinator asks again, and hears so.
 *
 * Before it takes a number, the coordinator asks whether a begin would find us ready; that binds nobody.
 *
 * Numbers only grow: a shard that knows a greater one has batched records for it, and refuses.
 *
 * Several volumes are cut in one step, each by a number of its own (cut.h): no record comes between two of them, and
 * answers to the writes of all are kept back from it on.
 *
 * A cut in the index keeps records on both sides apart; so it is there before the first record behind it.
 * A number that comes to nothing stays as a cut until its mark is seen (drop.c).
 *
 * An order may come late: its snapshot was given up, all shards have dropped its number, and no key is left by which
 * anybody would drop what it cuts. So a shard has dropped a number only when its manifest knows that one or a greater
 * one: where it does not, because the order never came or came to nothing, the drop passes the number, by an edit
 * that cuts nothing. Whoever owns the shard then or later knows it before it serves, and refuses the order as any
 * that is not newer; an owner of before cannot commit. No drop is done while an order is at work.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/lease.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "index/index_cuts.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "write/cut.h"
#include "write/write_answer.h"
#include "write/write_batch.h"
#include "write/write_path.h"

static const struct sm_state cut_table[MT_CUT_STATE_NR] = {
	[MT_CUT_IDLE] = { "idle", SM_TO(MT_CUT_DRAINING), SM_INITIAL },
	[MT_CUT_DRAINING] = { "draining", SM_TO(MT_CUT_COMMITTING) | SM_TO(MT_CUT_IDLE), 0 },
	[MT_CUT_COMMITTING] = { "committing", SM_TO(MT_CUT_HOLDING) | SM_TO(MT_CUT_BROKEN), 0 },
	[MT_CUT_HOLDING] = { "holding", SM_TO(MT_CUT_IDLE), 0 },
	[MT_CUT_BROKEN] = { "broken", SM_TO(MT_CUT_IDLE), 0 },
};

static void cut_on_timer(struct loop_timer *timer, void *arg);

void
mt_cut_init(struct mt_shard *shard)
{
	struct mt_cut *cut = &shard->write->cut;

	sm_init(&cut->sm, "cut", cut_table, MT_CUT_IDLE, shard->index);
	loop_timer_init(&cut->timer, cut_on_timer, shard);
}

bool
mt_cut_has(const struct mt_cut_order *order, uint64_t segment)
{
	uint32_t count = MUTANT(group_held_apart) ? 1 : order->volume_count;

	assert(order->volume_count <= CLEAVE_GROUP_VOLUMES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (segment >= order->segment_bases[i] &&
		    segment - order->segment_bases[i] < order->segment_count)
			return true;
	}
	return false;
}

/* The last act of whoever calls it. */
static void
cut_answer(struct mt_cut *cut, int rc)
{
	mt_cut_fn fn = cut->fn;

	assert(rc <= 0);
	cut->fn = NULL;
	if (fn != NULL)
		fn(rc, cut->arg);
}

/* No answer is kept back any more. An edit that is on its way will be, and is not waited for. */
static void
cut_end(struct mt_shard *shard)
{
	struct mt_cut *cut = &shard->write->cut;

	assert(mt_cut_is_holding(cut));
	loop_timer_stop(shard->port->loop, &cut->timer);
	sm_move(&cut->sm, cut->sm.state == MT_CUT_COMMITTING ? MT_CUT_BROKEN : MT_CUT_IDLE);
	mt_write_release_held(shard->write, 0);
}

static void
cut_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_shard *shard = arg;

	(void)timer;
	assert(mt_cut_is_holding(&shard->write->cut));
	log_warn("shard %" PRIu32 ": nobody has ended the hold for snapshot %" PRIu64
		 " in time: writes are answered again, and the snapshot may have to be taken anew",
	    shard->index, shard->write->cut.order.number);
	cut_end(shard);
	cut_answer(&shard->write->cut, -ETIMEDOUT);
}

static void
cut_on_committed(int rc, void *arg)
{
	struct mt_shard *shard = arg;
	struct mt_cut *cut = &shard->write->cut;

	if (cut->sm.state == MT_CUT_BROKEN) {
		sm_move(&cut->sm, MT_CUT_IDLE);
		return;
	}
	assert(cut->sm.state == MT_CUT_COMMITTING);
	if (rc != 0) {
		cut_end(shard);
		sm_move(&cut->sm, MT_CUT_IDLE);
	} else {
		sm_move(&cut->sm, MT_CUT_HOLDING);
	}
	cut_answer(cut, rc);
}

/* DRAINING: on when no batch of before is left. */
static int
cut_commit(struct mt_shard *shard)
{
	struct mt_cut *cut = &shard->write->cut;
	struct mt_edit edits[CLEAVE_GROUP_VOLUMES_MAX];
	int rc;

	assert(cut->sm.state == MT_CUT_DRAINING);
	assert(mt_cut_last(&cut->order) == shard->cut);
	if (mt_write_batches_have_older(shard->write, shard->cut))
		return 0;
	for (uint32_t i = 0; i < cut->order.volume_count; i++)
		edits[i] = (struct mt_edit){ .kind = MT_EDIT_CUT,
			.cut = cut->order.number + i,
			.sequence = shard->next_sequence,
			.segment_base = cut->order.segment_bases[i],
			.segment_count = cut->order.segment_count };
	rc = mt_manifest_commit(shard, edits, cut->order.volume_count, cut_on_committed, shard);
	if (rc == 0)
		sm_move(&cut->sm, MT_CUT_COMMITTING);
	return rc;
}

void
mt_cut_on_batch(struct mt_shard *shard)
{
	int rc;

	if (shard->write->cut.sm.state != MT_CUT_DRAINING)
		return;
	rc = cut_commit(shard);
	if (rc == 0)
		return;
	cut_end(shard);
	cut_answer(&shard->write->cut, rc);
}

static int
cut_check(const struct mt_shard *shard, uint64_t number)
{
	if (shard->sm.state != MT_SHARD_SERVING)
		return -EREMCHG;
	if (shard->write->cut.sm.state != MT_CUT_IDLE)
		return -EBUSY;
	return number <= shard->cut ? -EAGAIN : 0;
}

int
mt_cut_can_begin(const struct mt_shard *shard, uint64_t number)
{
	int rc = cut_check(shard, number);

	return rc == 0 && !mt_port_has_lease(shard->port) ? -ETIMEDOUT : rc;
}

/* Cuts that were added before one fails may stay: their numbers are void, and dropped (drop.c). */
static int
cut_add(struct mt_shard *shard, const struct mt_cut_order *order)
{
	int rc = 0;

	assert(order->segment_count > 0);
	for (uint32_t i = 0; i < order->volume_count && rc == 0; i++) {
		const struct mt_index_cut cut = { order->number + i, order->segment_bases[i],
			order->segment_count };

		rc = mt_index_add_cut(shard->block_index, &cut);
	}
	return rc;
}

int
mt_cut_begin(struct mt_shard *shard, const struct mt_cut_order *order, mt_cut_fn fn, void *arg)
{
	struct mt_cut *cut = &shard->write->cut;
	int rc;

	assert(order->number > 0 && order->volume_count > 0);
	assert(order->volume_count <= CLEAVE_GROUP_VOLUMES_MAX);
	assert(cut->fn == NULL || cut->sm.state != MT_CUT_IDLE);
	rc = cut_check(shard, order->number);
	if (rc == 0)
		rc = cut_add(shard, order);
	if (rc != 0)
		return rc;
	mt_write_batches_close(shard->write);
	shard->cut = mt_cut_last(order);
	cut->order = *order;
	sm_move(&cut->sm, MT_CUT_DRAINING);
	rc = cut_commit(shard);
	if (rc != 0) {
		sm_move(&cut->sm, MT_CUT_IDLE); /* the number is used up here, nothing else */
		return rc;
	}
	cut->fn = fn;
	cut->arg = arg;
	loop_timer_start(shard->port->loop, &cut->timer, shard->port->settings->hold_ns);
	write_pump_soon(shard->write);
	return 0;
}

bool
mt_cut_is_held(const struct mt_shard *shard, uint64_t number)
{
	const struct mt_cut *cut = &shard->write->cut;

	bool is_held = cut->sm.state == MT_CUT_HOLDING || MUTANT(hold_ended_confirmed);

	return shard->sm.state == MT_SHARD_SERVING && is_held && cut->order.number == number &&
	    mt_port_has_lease(shard->port);
}

void
mt_cut_release(struct mt_shard *shard, uint64_t number)
{
	struct mt_cut *cut = &shard->write->cut;

	if (!mt_cut_is_holding(cut) || cut->order.number != number)
		return;
	cut_end(shard);
	cut_answer(cut, -ECANCELED); /* released before it was made */
}

void
mt_cut_stop(struct mt_shard *shard, int rc)
{
	struct mt_cut *cut = &shard->write->cut;

	assert(rc <= 0);
	loop_timer_stop(shard->port->loop, &cut->timer);
	if (rc == 0)
		cut->fn = NULL;
	/* Answers that are kept back are the write path's, which stops as well. */
	if (cut->sm.state == MT_CUT_COMMITTING)
		sm_move(&cut->sm, MT_CUT_BROKEN);
	else if (mt_cut_is_holding(cut))
		sm_move(&cut->sm, MT_CUT_IDLE);
	cut_answer(cut, rc);
}

static void
cut_on_dropped(int rc, void *arg)
{
	(void)rc; /* the shard has stopped, or it is durable: whoever asks again will see */
	(void)arg;
}

/* @number was not cut here: from now on it never is. */
static void
cut_pass(struct mt_shard *shard, uint64_t number)
{
	const struct mt_edit edit = { .kind = MT_EDIT_CUT,
		.cut = number,
		.sequence = shard->next_sequence };

	if (shard->write->cut.sm.state != MT_CUT_IDLE)
		return; /* perhaps by this order */
	if (shard->cut < number) {
		mt_write_batches_close(shard->write);
		shard->cut = number;
		write_pump_soon(shard->write);
	}
	/* Where there is no room for it now, the next call tries again. */
	(void)mt_manifest_commit(shard, &edit, 1, cut_on_dropped, shard);
}

int
mt_cut_drop(struct mt_shard *shard, uint64_t number)
{
	const struct mt_manifest_state *state = mt_manifest_state(shard);
	const struct mt_edit edit = { .kind = MT_EDIT_CUT_DROPPED, .cut = number };

	assert(shard->sm.state == MT_SHARD_SERVING);
	if (mt_manifest_state_cut(state) < number && !MUTANT(number_unpassed)) {
		cut_pass(shard, number);
		return -EAGAIN;
	}
	for (uint32_t i = 0; i < state->cut_count; i++) {
		if (state->cuts[i].cut != number || state->cuts[i].segment_count == 0)
			continue;
		if (mt_manifest_commit(shard, &edit, 1, cut_on_dropped, shard) == 0)
			mt_index_drop_cut(shard->block_index, number);
		return -EAGAIN;
	}
	/* The cut may have come to nothing before its edit. */
	mt_index_drop_cut(shard->block_index, number);
	return mt_manifest_is_settled(shard) ? 0 : -EAGAIN;
}
