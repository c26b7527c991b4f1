/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_recall.c -- who was given a job and is given up is told to end
 *
 *	      JOB_CANCEL             no answer in time, and its bytes are on their way
 *	IDLE -----------> SENT --------------------------------------------------------> LEFT
 *	 ^                 | answered, the connection has ended,                          | sent, or the connection has ended
 *	 +-----------------+ no answer in time: the peer has failed                       |
 *	 +--------------------------------------------------------------------------------+
 *
 * The merge does not wait for it: what the peer appends is cut off, or refused, when the extent is sealed. But there is one
 * such message a port, and no other recipe goes away before it is back. So a peer whose connection lasts, and who says
 * nothing, is waited for so long and no longer. Its answer, if it ever comes, finds no request (peer_link.c), and the
 * numbers of jobs are not used again.
 */
#include "merge/merge_recall.h"

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/job.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "merge/merge_peers.h"

#define RECALL_NS NUM_S(1) /* who ends a job has what is out at nodes come back, and says so */

static const struct sm_state recall_table[RECALL_STATE_NR] = {
	[RECALL_IDLE] = { "idle", SM_TO(RECALL_SENT), SM_INITIAL },
	[RECALL_SENT] = { "sent", SM_TO(RECALL_IDLE) | SM_TO(RECALL_LEFT), 0 },
	[RECALL_LEFT] = { "left", SM_TO(RECALL_IDLE), 0 },
};

static void
recall_on_answer(struct mt_peer_request *request, int rc, struct split_msg *msg, void *arg)
{
	struct merge_recall *recall = arg;

	(void)rc; /* it was told to end, no more */
	(void)msg;
	assert(request == &recall->request && recall->sm.state != RECALL_IDLE);
	loop_timer_stop(recall->port->loop, &recall->timer);
	sm_move(&recall->sm, RECALL_IDLE);
}

static void
recall_on_timer(struct loop_timer *timer, void *arg)
{
	struct merge_recall *recall = arg;

	(void)timer;
	assert(recall->sm.state == RECALL_SENT);
	log_limited(LOG_WARN,
	    "merge: another gateway does not say that it has given a merge up: it is left alone "
	    "for a while peer=%s",
	    recall->peer->address);
	mt_merge_peer_failed(recall->peer);
	sm_move(&recall->sm, mt_peer_link_forget(&recall->request) ? RECALL_IDLE : RECALL_LEFT);
}

void
mt_merge_recall_send(struct merge_recall *recall, struct merge_peer *peer, uint64_t job)
{
	const struct wire_job cancel = { .opcode = WIRE_JOB_CANCEL, .job = job };
	struct mt_peer_link *link = mt_peer_link_to(recall->port, peer->address);

	assert(recall->sm.state == RECALL_IDLE);
	wire_job_encode((struct wire_header *)(void *)recall->message, &cancel);
	recall->peer = peer;
	recall->request = (struct mt_peer_request){ .message = recall->message,
		.message_bytes = WIRE_HEADER_BYTES,
		.fn = recall_on_answer,
		.arg = recall };
	if (link == NULL || mt_peer_link_send(link, &recall->request) != 0)
		return; /* its job has ended with the connection */
	sm_move(&recall->sm, RECALL_SENT);
	loop_timer_start(recall->port->loop, &recall->timer, RECALL_NS);
}

bool
mt_merge_recall_is_quiet(const struct merge_recall *recall)
{
	return recall->sm.state == RECALL_IDLE;
}

void
mt_merge_recall_stop(struct merge_recall *recall)
{
	loop_timer_stop(recall->port->loop, &recall->timer);
}

void
mt_merge_recall_init(struct merge_recall *recall, struct mt_port *port)
{
	*recall = (struct merge_recall){ .port = port };
	sm_init(&recall->sm, "merge_recall", recall_table, RECALL_IDLE, port->index);
	loop_timer_init(&recall->timer, recall_on_timer, recall);
}
