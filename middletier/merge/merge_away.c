/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_away.c -- a recipe goes to another gateway, and what has come of it comes back
 *
 *	      begin             somebody has room            nodes let it in              all parts were taken
 *	IDLE --------> ASKING ------------------> LENDING -----------------> ASSIGNING ------------------> WAITING
 *	 ^               | nobody has               | one will not              | refused, ended, late        | told, failed,
 *	 +---------------+--------------------------+---------------------------+-----------------------------+ ended, late
 *
 * LENDING is where there are keys (merge_lend.h), and over when all is over; without keys it is passed by.
 *
 * Each peer that may have room is asked for its load (JOB_LOAD); the one that does least gets the recipe, part after part
 * (JOB_ASSIGN), each when the one before it was answered. The answer to the last says what has come of it. Whoever is
 * given up is told to end (merge_recall.h), but the merge does not wait for that: what he appends is cut off, or refused,
 * when the extent is sealed.
 *
 * A peer without room for jobs, or that failed, is not asked again for a while. Messages are the port's, one of a kind: until
 * all of them are back no other recipe goes away.
 */
#include "merge/merge_away.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/job.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/peer_link.h"
#include "merge/merge_lend.h"
#include "merge/merge_peers.h"
#include "merge/merge_recall.h"
#include "merge/merge_step.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/told.h"

#define MERGE_AWAY_MAGIC 0x59415741u /* "AWAY" */
#define AWAY_ASK_NS NUM_MS(100)      /* who has not answered by then has no room */
#define AWAY_FULL_NS NUM_MS(100)     /* a peer without room is asked again after it */
#define AWAY_NONE_NS NUM_S(60)       /* one that executes none */

_Static_assert(TOLD_BYTES_MAX <= WIRE_JOB_TOLD_BYTES_MAX, "an answer holds it");
_Static_assert(RECIPE_BYTES_MAX <= WIRE_JOB_RECIPE_BYTES_MAX, "parts hold it");
_Static_assert(WIRE_JOB_PART_BYTES <= MT_PEER_PAYLOAD_BYTES_MAX, "a request holds a part");

enum away_state {
	AWAY_IDLE,
	AWAY_ASKING,
	AWAY_LENDING,
	AWAY_ASSIGNING,
	AWAY_WAITING,
	AWAY_STATE_NR
};

static const struct sm_state away_table[AWAY_STATE_NR] = {
	[AWAY_IDLE] = { "idle", SM_TO(AWAY_ASKING), SM_INITIAL },
	[AWAY_ASKING] = { "asking", SM_TO(AWAY_LENDING) | SM_TO(AWAY_ASSIGNING) | SM_TO(AWAY_IDLE),
	    0 },
	[AWAY_LENDING] = { "lending", SM_TO(AWAY_ASSIGNING) | SM_TO(AWAY_IDLE), 0 },
	[AWAY_ASSIGNING] = { "assigning", SM_TO(AWAY_WAITING) | SM_TO(AWAY_IDLE), 0 },
	[AWAY_WAITING] = { "waiting", SM_TO(AWAY_IDLE), 0 },
};

/* A message of which there is one. */
struct away_message {
	struct mt_peer_request request;
	bool is_out;
};

struct merge_away {
	uint32_t magic;
	struct sm sm;
	struct mt_port *port;
	struct merge_peers peers;
	/* The recipe at hand, or the last one. */
	const struct mt_recipe *recipe;
	const uint8_t *bytes;
	uint32_t recipe_bytes, sent_bytes;
	uint64_t job;
	struct merge_peer *peer; /* who gets it; NULL: nobody has room */
	bool is_given;
	struct mt_told told;
	bool is_over; /* IDLE: rc says how, and no step has said so yet */
	int rc;
	struct loop_timer timer; /* ASKING; then for all of the job */
	struct merge_lend *lend;
	struct away_message part;
	uint8_t part_bytes[SPLIT_HEADER_BYTES_MAX];
	struct merge_recall recall;
	void (*tell)(void *arg);
	void *arg;
};

static void away_assign(struct merge_away *away);

/* ---- peers ---- */

void
mt_merge_away_names(struct merge_away *away, const struct mt_away_names *names)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	mt_merge_peers_names(&away->peers, names);
}

static bool
away_is_quiet(const struct merge_away *away)
{
	return mt_merge_peers_are_quiet(&away->peers) && !away->part.is_out &&
	    mt_merge_recall_is_quiet(&away->recall) && mt_merge_lend_is_quiet(away->lend);
}

bool
mt_merge_away_is_hopeful(const struct merge_away *away)
{
	return away != NULL && away->sm.state == AWAY_IDLE && away_is_quiet(away) &&
	    mt_merge_peers_are_hopeful(&away->peers);
}

/* ---- messages ---- */

static int
away_send(struct merge_away *away, const char *address, struct mt_peer_request *request)
{
	struct mt_peer_link *link = mt_peer_link_to(away->port, address);

	return link == NULL ? -ENOTCONN : mt_peer_link_send(link, request);
}

/* 0: @msg is an answer that says so, and *@ret_answer; else why not. */
static int
away_answer(const struct split_msg *msg, int rc, uint64_t job, struct wire_job *ret_answer)
{
	const char *field;

	if (rc == 0)
		rc = wire_job_decode(msg->header, ret_answer, &field);
	if (rc == 0 && (!ret_answer->is_reply || ret_answer->job != job))
		rc = -EPROTO;
	return rc == 0 ? ret_answer->rc : rc;
}

/* ---- its end ---- */

/* True: @request is ours again. False: its bytes are on their way, to a peer that does not take them: it comes back itself. */
static bool
request_forget(struct mt_peer_request *request)
{
	return !request->is_forgotten && mt_peer_link_forget(request);
}

/* Nobody waits for what is out any more. */
static void
away_forget_messages(struct merge_away *away)
{
	for (uint32_t i = 0; i < away->peers.count; i++) {
		struct merge_peer *peer = &away->peers.items[i];

		if (peer->is_out && request_forget(&peer->request))
			peer->is_out = false;
	}
	if (away->part.is_out && request_forget(&away->part.request))
		away->part.is_out = false;
}

/* @rc: 0: told is filled; else why it has come to nothing. */
static void
away_end(struct merge_away *away, int rc)
{
	assert(away->sm.state != AWAY_IDLE && rc <= 0);
	loop_timer_stop(away->port->loop, &away->timer);
	mt_merge_lend_end(away->lend);
	sm_move(&away->sm, AWAY_IDLE);
	away->is_over = true;
	away->rc = rc;
	away->tell(away->arg);
}

/* Whoever has it is given up. */
static void
away_give_up(struct merge_away *away, int rc)
{
	bool is_begun = away->sm.state == AWAY_WAITING ||
	    (away->sm.state == AWAY_ASSIGNING && away->sent_bytes > 0);

	assert(rc < 0);
	away_forget_messages(away);
	if (is_begun)
		mt_merge_recall_send(&away->recall, away->peer, away->job);
	if (away->peer != NULL && rc != -EBUSY && rc != -ECANCELED)
		mt_merge_peer_failed(away->peer);
	away_end(away, rc);
}

void
mt_merge_away_cancel(struct merge_away *away)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	if (away->sm.state != AWAY_IDLE)
		away_give_up(away, -ECANCELED);
	away->is_over = false;
}

void
mt_merge_away_forget(struct merge_away *away)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	loop_timer_stop(away->port->loop, &away->timer);
	mt_merge_recall_stop(&away->recall);
	if (away->sm.state != AWAY_IDLE)
		sm_move(&away->sm, AWAY_IDLE);
	away->is_over = false;
}

/* ---- the recipe, part after part ---- */

/* All parts were taken: @msg says what has come of it. */
static int
away_take_told(struct merge_away *away, const struct split_msg *msg, const struct wire_job *answer)
{
	uint8_t bytes[WIRE_JOB_TOLD_BYTES_MAX];
	const char *field = "payload_bytes";
	int rc = -EBADMSG;

	assert(answer->payload_bytes <= sizeof(bytes));
	if (answer->payload_bytes > 0) {
		dev_copy_to_host(away->port->split, bytes, msg->payload, answer->payload_bytes);
		rc =
		    mt_told_decode(bytes, answer->payload_bytes, away->recipe, &away->told, &field);
	}
	if (rc != 0)
		log_limited(LOG_WARN,
		    "merge: what another gateway says of a merge cannot be peer=%s field=%s rc=%s",
		    away->peer->address, field, log_errno(rc));
	return rc;
}

static void
away_on_part(struct mt_peer_request *request, int rc, struct split_msg *msg, void *arg)
{
	struct merge_away *away = arg;
	struct wire_job answer = { 0 };

	(void)request;
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	assert(away->part.is_out);
	away->part.is_out = false;
	if (away->sm.state == AWAY_IDLE || (rc == -ECANCELED && msg == NULL))
		return; /* it was given up: whose it was is over */
	rc = away_answer(msg, rc, away->job, &answer);
	if (rc == 0 && away->sm.state == AWAY_WAITING) {
		rc = away_take_told(away, msg, &answer);
		if (rc != 0)
			mt_merge_peer_failed(away->peer);
		away_end(away, rc);
		return;
	}
	assert(away->sm.state == AWAY_ASSIGNING || rc != 0);
	if (rc == 0 && answer.payload_bytes > 0)
		rc = -EPROTO;
	if (rc == 0) {
		away_assign(away);
		return;
	}
	if (rc == -EBUSY)
		mt_merge_peer_leave_alone(away->peer, AWAY_FULL_NS);
	else
		mt_merge_peer_failed(away->peer);
	away_end(away, rc); /* whose job has ended there, too */
}

/* The next part. */
static void
away_assign(struct merge_away *away)
{
	const struct wire_job part = { .opcode = WIRE_JOB_ASSIGN,
		.job = away->job,
		.offset_bytes = away->sent_bytes,
		.recipe_bytes = away->recipe_bytes,
		.payload_bytes = wire_job_part_bytes(away->recipe_bytes, away->sent_bytes) };
	int rc;

	assert(away->sent_bytes < away->recipe_bytes && !away->part.is_out);
	wire_job_encode((struct wire_header *)(void *)away->part_bytes, &part);
	memcpy(away->part_bytes + WIRE_HEADER_BYTES, away->bytes + away->sent_bytes,
	    part.payload_bytes);
	away->part.request = (struct mt_peer_request){ .message = away->part_bytes,
		.message_bytes = WIRE_HEADER_BYTES + part.payload_bytes,
		.fn = away_on_part,
		.arg = away };
	away->part.is_out = true;
	rc = away_send(away, away->peer->address, &away->part.request);
	if (rc != 0) {
		away->part.is_out = false;
		away_give_up(away, rc);
		return;
	}
	away->sent_bytes += part.payload_bytes;
	if (away->sent_bytes < away->recipe_bytes)
		return;
	away->is_given = true;
	sm_move(&away->sm, AWAY_WAITING);
}

/* ---- who has room ---- */

static void
away_on_lent(int rc, void *arg)
{
	struct merge_away *away = arg;

	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	assert(away->sm.state == AWAY_LENDING);
	if (rc != 0) {
		away_end(away,
		    -EAGAIN); /* not the peer's fault: nodes are told again with the next one */
		return;
	}
	sm_move(&away->sm, AWAY_ASSIGNING);
	away_assign(away);
}

/* Do nodes have to let the peer in first? Then it is assigned later, or all is over. */
static bool
away_lend(struct merge_away *away)
{
	const struct mt_peer_link *link = mt_peer_link_to(away->port, away->peer->address);
	uint64_t gateway = link == NULL ? 0 : mt_peer_link_gateway(link);

	if (gateway == 0)
		return false;
	sm_move(&away->sm, AWAY_LENDING);
	if (mt_merge_lend_begin(away->lend, away->recipe, gateway) != 0)
		away_end(away, -EAGAIN);
	return true;
}

/* ASKING: the peer that does least gets it. */
static void
away_choose(struct merge_away *away)
{
	assert(away->sm.state == AWAY_ASKING);
	for (uint32_t i = 0; i < away->peers.count; i++) {
		struct merge_peer *peer = &away->peers.items[i];

		if (peer->has_room && (away->peer == NULL || peer->busy < away->peer->busy))
			away->peer = peer;
	}
	away_forget_messages(away);
	if (away->peer == NULL) {
		away_end(away, -EAGAIN);
		return;
	}
	loop_timer_start(away->port->loop, &away->timer,
	    mt_recipe_deadline_ns(&away->recipe->head));
	if (!away_lend(away)) {
		sm_move(&away->sm, AWAY_ASSIGNING);
		away_assign(away);
	}
}

static void
away_on_load(struct mt_peer_request *request, int rc, struct split_msg *msg, void *arg)
{
	struct merge_peer *peer = arg;
	struct merge_away *away = peer->peers->arg;
	struct wire_job answer = { 0 };

	(void)request;
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	assert(peer->is_out);
	peer->is_out = false;
	if (rc == -ECANCELED && msg == NULL)
		return; /* it came too late */
	rc = away_answer(msg, rc, 0, &answer);
	peer->has_room = rc == 0 && answer.free_count > 0;
	peer->busy = answer.busy;
	/* A peer of an older release has ended the connection. */
	if (rc == -ENOTSUP || rc == -EPROTO || rc == -EPROTONOSUPPORT)
		mt_merge_peer_leave_alone(peer, AWAY_NONE_NS);
	else if (!peer->has_room)
		mt_merge_peer_leave_alone(peer, AWAY_FULL_NS);
	if (away->sm.state != AWAY_ASKING)
		return;
	for (uint32_t i = 0; i < away->peers.count; i++) {
		if (away->peers.items[i].is_out)
			return;
	}
	away_choose(away);
}

static int
peer_ask(struct merge_peer *peer)
{
	const struct wire_job load = { .opcode = WIRE_JOB_LOAD };
	int rc;

	assert(!peer->is_out);
	wire_job_encode((struct wire_header *)(void *)peer->message, &load);
	peer->request = (struct mt_peer_request){ .message = peer->message,
		.message_bytes = WIRE_HEADER_BYTES,
		.fn = away_on_load,
		.arg = peer };
	peer->is_out = true;
	rc = away_send(peer->peers->arg, peer->address, &peer->request);
	if (rc != 0) {
		peer->is_out = false;
		mt_merge_peer_leave_alone(peer, AWAY_FULL_NS);
	}
	return rc;
}

static void
away_on_timer(struct loop_timer *timer, void *arg)
{
	struct merge_away *away = arg;

	(void)timer;
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	if (away->sm.state == AWAY_ASKING)
		away_choose(away);
	else if (away->sm.state == AWAY_LENDING)
		away_end(away, -EAGAIN);
	else
		away_give_up(away, -ETIMEDOUT);
}

int
mt_merge_away_begin(struct merge_away *away, const struct mt_recipe *recipe, const uint8_t *bytes,
    uint32_t recipe_bytes)
{
	uint32_t asked_count = 0;

	assert(mt_merge_away_is_hopeful(away));
	assert(recipe->head.target != RECIPE_NO_TARGET);
	mt_merge_peers_take(&away->peers);
	away->recipe = recipe;
	away->bytes = bytes;
	away->recipe_bytes = recipe_bytes;
	away->sent_bytes = 0;
	away->job++;
	away->peer = NULL;
	away->is_given = away->is_over = false;
	for (uint32_t i = 0; i < away->peers.count; i++) {
		struct merge_peer *peer = &away->peers.items[i];

		peer->has_room = false;
		if (mt_merge_peer_is_due(peer) && peer_ask(peer) == 0)
			asked_count++;
	}
	if (asked_count == 0)
		return -ENOTCONN;
	sm_move(&away->sm, AWAY_ASKING);
	loop_timer_start(away->port->loop, &away->timer, AWAY_ASK_NS);
	return 0;
}

/* ---- what is said of it ---- */

int
mt_merge_away_step(struct merge_away *away)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	if (!away->is_over)
		return STEP_AGAIN;
	away->is_over = false;
	return away->rc == 0 ? STEP_DONE : away->rc;
}

const struct mt_told *
mt_merge_away_told(const struct merge_away *away)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	assert(away->sm.state == AWAY_IDLE && away->rc == 0);
	return &away->told;
}

bool
mt_merge_away_is_given(const struct merge_away *away)
{
	return away->is_given;
}

const char *
mt_merge_away_peer(const struct merge_away *away)
{
	return away->peer == NULL ? "" : away->peer->address;
}

bool
mt_merge_away_is_watched(const struct merge_away *away)
{
	assert(away->peer != NULL);
	return away->peer->watch_count > 0;
}

void
mt_merge_away_note(struct merge_away *away, bool is_good)
{
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	assert(away->peer != NULL);
	if (is_good)
		mt_merge_peer_is_well(away->peer);
	else
		mt_merge_peer_failed(away->peer);
}

/* ---- its life ---- */

int
mt_merge_away_create(struct mt_port *port, void (*tell)(void *arg), void *arg,
    struct merge_away **ret_away)
{
	struct merge_away *away = mt_calloc(1, sizeof(*away));

	assert(tell != NULL);
	if (away == NULL)
		return -ENOMEM;
	away->magic = MERGE_AWAY_MAGIC;
	away->port = port;
	away->tell = tell;
	away->arg = arg;
	mt_merge_peers_init(&away->peers, port->loop, away);
	sm_init(&away->sm, "merge_away", away_table, AWAY_IDLE, port->index);
	loop_timer_init(&away->timer, away_on_timer, away);
	mt_merge_recall_init(&away->recall, port);
	*ret_away = away;
	away->lend = mt_merge_lend_create(port, away_on_lent, away);
	return away->lend == NULL ? -ENOMEM : 0;
}

void
mt_merge_away_destroy(struct merge_away *away)
{
	if (away == NULL)
		return;
	CHECK_OBJ(away, MERGE_AWAY_MAGIC);
	loop_timer_stop(away->port->loop, &away->timer);
	mt_merge_recall_stop(&away->recall);
	mt_merge_lend_destroy(away->lend);
	away->magic = 0;
	mt_free(away);
}
