/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_answer.c -- what a write's client is told, and when
 *
 * Every write ends in mt_write_finish, from whichever state. What it holds goes back there: its promise in the
 * index, its engine job, its message. An answer of success is held back while a snapshot of its volume is being
 * taken (cut.c), so that no write behind the snapshot is known to be done before the snapshot is (I5).
 */
#include "write/write_answer.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/room_waits.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/turn.h"
#include "index/index.h"
#include "session/read_lease.h"
#include "session/reply.h"
#include "session/session.h"
#include "write/cut.h"
#include "write/write_hops.h"
#include "write/write_job.h"
#include "write/write_path.h"

static void
write_reply_ok(struct mt_shard *shard, const struct mt_write *write)
{
	uint64_t *metrics = shard->port->metrics;
	struct wire_header header;

	assert(write->msg != NULL);
	metric_add(&shard->request_count, 1);
	if (write_has_payload(write)) {
		metric_add(&shard->request_bytes, write->io.length_bytes);
		metric_add(&metrics[MT_METRIC_writes], 1);
		metric_add(&metrics[MT_METRIC_write_bytes], write->io.length_bytes);
		metric_add(&metrics[MT_METRIC_stored_bytes], write->stored_bytes);
	} else {
		metric_add(&metrics[MT_METRIC_discards], 1);
	}
	wire_io_reply(&header, &write->io, 0, 0, shard->epoch);
	mt_reply_tag(write->session, &header);
	mt_read_lease_stamp(write->session, shard, &header);
	/* A queue pair that is gone takes no reply: the message goes back to the pool all the same. */
	split_msg_reply(write->msg, &header, NULL, 0, NULL, NULL);
}

static void
write_note_refused(struct mt_shard *shard, const struct mt_write *write)
{
	const struct mt_volume *volume = &write->session->volume;
	struct mt_port *port = shard->port;

	metric_add(&port->metrics[MT_METRIC_writes_refused_room], 1);
	mt_room_waits_note(&port->room_waits, port->shared->events, volume->id, volume->name,
	    loop_now_ns(port->loop), write->is_pinned ? MT_ROOM_PINNED : MT_ROOM_REFUSED);
}

void
mt_write_finish(struct mt_write_state *state, struct mt_write *write, int rc)
{
	struct mt_session *session = write->session;

	assert(rc <= 0);
	assert(write->sm.state != WRITE_FREE);
	assert(write->sm.state != WRITE_STORING); /* an engine thread still reads its payload */
	if (write->is_promised)
		mt_index_unpromise(state->shard->block_index, write->io.segment, write_block(write),
		    write_block_count(write));
	write->is_promised = false;
	if (write->job != NULL)
		mt_write_job_free(state, write->job);
	write->job = NULL;
	list_remove(&write->link);
	if (rc == 0 && write->sm.state == WRITE_BATCHED &&
	    mt_cut_holds(&state->cut, write->io.segment)) {
		mt_write_hops_leave(write);
		sm_move(&write->sm, WRITE_HELD);
		list_push_back(&state->held, &write->link);
		return;
	}
	mt_turn_on_ahead(session->port, session->volume.service_class);
	/* Durable it may be; but whether a later owner has answered for it is not ours to know (I7). */
	if (rc == 0 && !mt_port_has_lease(session->port))
		rc = -EREMCHG;
	mt_write_hops_end(state->shard, write, rc);
	if (rc == -ENOSPC)
		write_note_refused(state->shard, write);
	if (rc == 0)
		write_reply_ok(state->shard, write);
	else
		mt_reply_error(session, write->msg, &write->io, rc, state->shard->epoch);
	write->msg = NULL;
	write->session = NULL;
	sm_move(&write->sm, WRITE_FREE);
	list_push_front(&state->free_writes, &write->link);
	mt_session_request_done(session, true);
}

void
mt_write_release_held(struct mt_write_state *state, int rc)
{
	struct loop_link *link;

	assert(rc <= 0);
	while ((link = list_first(&state->held)) != NULL) {
		assert(write_of(link)->sm.state == WRITE_HELD);
		mt_write_finish(state, write_of(link), rc);
	}
}

void
mt_write_fail_parked(struct mt_write_state *state, int rc)
{
	struct loop_link *link, *next;

	assert(rc < 0);
	LIST_FOREACH_SAFE(&state->storing, link, next) {
		struct mt_write *write = write_of(link);

		/* An engine thread still reads the others' payloads. */
		if (write->sm.state == WRITE_STORED)
			mt_write_finish(state, write, rc);
	}
	for (uint32_t i = 0; i < WRITE_LINE_NR; i++) {
		while ((link = list_first(&state->parked[i])) != NULL)
			mt_write_finish(state, write_of(link), rc);
	}
}

/* Writes of @list are in order of admission, which is nearly that of arrival. */
static void
write_older(const struct loop_link *list, const struct mt_write **oldest)
{
	const struct mt_write *write;

	if (list_is_empty(list))
		return;
	write = write_of(list->next);
	if (*oldest == NULL || write->stamps.taken_ns < (*oldest)->stamps.taken_ns)
		*oldest = write;
}

const struct mt_write *
mt_write_oldest(const struct mt_shard *shard)
{
	const struct mt_write_state *state = shard->write;
	const struct mt_write *oldest = NULL;

	assert(state != NULL && state->shard == shard);
	for (uint32_t i = 0; i < WRITE_LINE_NR; i++)
		write_older(&state->parked[i], &oldest);
	write_older(&state->storing, &oldest);
	write_older(&state->held, &oldest);
	for (uint32_t i = 0; i < WRITE_BATCHES_MAX; i++)
		write_older(&state->batches[i].writes, &oldest);
	return oldest;
}
