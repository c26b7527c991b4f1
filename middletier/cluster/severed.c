/* SPDX-License-Identifier: Apache-2.0 */
/*
 * severed.c -- a gateway that reaches the metadata store and too few nodes gives its shards to those that reach enough
 *
 *	            timer                          too few domains
 *	RESTING ------------> LOOKING ----------------------------------> ASKING
 *	   ^                     |  our ports                                |  each other gateway that may take, in turn
 *	   |                     |  enough, for as long as mended takes,     |  one reaches enough, and has for
 *	   |                     v  and we are marked                        v  SEVERED_AFTER_NS; we are not marked
 *	   +------------------- PUTTING <-----------------------------------+
 *	                        MT_SEVERED_KEY, by compare-and-swap
 *
 * A mark tells every gateway that nothing falls to us, as if we were drained (view_drain.c): our shards go one after the
 * other, the next when each other one is with a gateway that lives and has agreed on its extents. We take the mark back
 * when enough nodes have been reached for a while, longer each time, so that a loose cable moves few shards. What counts is that others reach what we do not: when all nodes come back, one
 * gateway is connected some seconds before the next, and neither is severed.
 *
 * Invariant: no mark, however wrong, loses a write or serves an old read. A shard is not moved but let go, and taken over
 * as from a gateway that has died. What was acknowledged is on the nodes (I4); what was not is answered MOVED, and sent
 * again by its client. Nothing need be flushed or sealed for it, so it needs no node. The root is released by
 * compare-and-swap; the heir claims it with a higher epoch, fences the nodes, agrees and replays before it serves, so an
 * append of ours that is still on its way is refused (I6).
 *
 * Invariant: while nobody reaches the nodes no shard moves. A shard of ours goes only to a gateway that has answered, the
 * last time that we asked all, that as many domains as a write needs have answered it, within MT_REACH_HEARD_NS:
 * that it has connections is not enough, for those of a dead network stay for seconds. Else the shards stay here, and so
 * they do where no other gateway lives.
 */
#include "cluster/severed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "catalog/drained_key.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/peer.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/port.h"

#define SEVERED_LOOK_NS NUM_S(2)       /* between two looks while enough is reached */
#define SEVERED_TROUBLE_NS NUM_MS(500) /* and while it is not */
#define SEVERED_AFTER_NS NUM_S(6) /* longer than a link waits before it tries to connect again */
#define SEVERED_ANSWER_NS NUM_MS(750) /* that another gateway has for its answer */
#define SEVERED_MENDED_NS                                                                          \
	NUM_S(10) /* enough is reached for so long: the mark goes; twice as long each time, */
#define SEVERED_MENDED_MAX_NS NUM_S(160)
#define SEVERED_FORGET_NS NUM_S(600) /* but for one that was well for so long */

enum severed_machine {
	SEVERED_RESTING,
	SEVERED_LOOKING,
	SEVERED_ASKING,
	SEVERED_PUTTING,
	SEVERED_NR
};

static const struct sm_state severed_table[SEVERED_NR] = {
	[SEVERED_RESTING] = { "resting", SM_TO(SEVERED_LOOKING), SM_INITIAL },
	[SEVERED_LOOKING] = { "looking",
	    SM_TO(SEVERED_RESTING) | SM_TO(SEVERED_ASKING) | SM_TO(SEVERED_PUTTING), 0 },
	[SEVERED_ASKING] = { "asking", SM_TO(SEVERED_RESTING) | SM_TO(SEVERED_PUTTING), 0 },
	[SEVERED_PUTTING] = { "putting", SM_TO(SEVERED_RESTING), 0 },
};

struct mt_severed {
	struct mt_gateway *gateway;
	struct sm sm;
	struct loop_timer timer;
	bool is_stopped;
	bool is_kept_told;     /* the log says that nobody can take our shards */
	uint32_t domain_count; /* of the port that reaches fewest, at the last look */
	bool is_few;           /* too few */
	uint64_t differ_ns;    /* others reach enough, and we do not, since then; 0: it is not so */
	uint64_t enough_ns;    /* enough since then; 0: too few, or not looked yet */
	uint64_t mended_wait_ns; /* how long that has to be */
	uint64_t mended_ns;      /* when a mark last went; 0: never */
	/* Gateways that may take shards: asked in turn; those that reach enough, as of the last time all were asked. */
	uint64_t asked_ids[MT_GATEWAYS_MAX], found_ids[MT_GATEWAYS_MAX], taker_ids[MT_GATEWAYS_MAX];
	uint32_t asked_count, asked, found_count, taker_count;
	struct mt_peer_call call;
	bool is_marking; /* PUTTING: the mark is put, or taken away */
};

static struct loop *
severed_loop(const struct mt_severed *severed)
{
	return severed->gateway->options.loop;
}

static bool
severed_is_marked(const struct mt_severed *severed)
{
	return mt_drained_has(&severed->gateway->member.severed,
	    severed->gateway->options.gateway_id);
}

/* The end of every look. */
static void
severed_rest(struct mt_severed *severed)
{
	sm_move(&severed->sm, SEVERED_RESTING);
	if (!severed->is_stopped)
		loop_timer_start(severed_loop(severed), &severed->timer,
		    severed->is_few || severed_is_marked(severed) ? SEVERED_TROUBLE_NS
								  : SEVERED_LOOK_NS);
}

bool
mt_severed_may_take(const struct mt_gateway *gateway, uint64_t id)
{
	const struct mt_severed *severed = gateway->severed;

	for (uint32_t i = 0; severed != NULL && i < severed->taker_count; i++) {
		if (severed->taker_ids[i] == id)
			return true;
	}
	return false;
}

/* ---- putting ---- */

static void
severed_tell(struct mt_severed *severed)
{
	struct mt_gateway *gateway = severed->gateway;
	uint64_t now_ns = loop_now_ns(severed_loop(severed));
	char object[MT_EVENT_OBJECT_BYTES];

	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	if (severed->is_marking)
		mt_event(gateway->shared.events, now_ns, CLEAVE_EVENT_GATEWAY_SEVERED, object,
		    "gateway: it reaches %" PRIu32
		    " failure domains of storage nodes, writes need %" PRIu32 ", and %" PRIu32
		    " other gateways reach enough: its shards go to them; look at its "
		    "network to the nodes",
		    severed->domain_count, gateway->options.min_replicas, severed->taker_count);
	else
		mt_event(gateway->shared.events, now_ns, CLEAVE_EVENT_GATEWAY_MENDED, object,
		    "gateway: it has reached %" PRIu32
		    " failure domains of storage nodes for %" PRIu64
		    " s, and has its share of the shards again",
		    severed->domain_count, severed->mended_wait_ns / NUM_S(1));
}

static void
severed_on_put(int rc, void *arg)
{
	struct mt_severed *severed = arg;
	uint64_t now_ns = loop_now_ns(severed_loop(severed));

	assert(severed->sm.state == SEVERED_PUTTING);
	if (rc == 0) {
		severed_tell(severed);
		if (severed->is_marking)
			severed->mended_wait_ns = severed->mended_ns != 0 &&
				now_ns - severed->mended_ns < SEVERED_FORGET_NS
			    ? num_min(severed->mended_wait_ns * 2, SEVERED_MENDED_MAX_NS)
			    : SEVERED_MENDED_NS;
		else
			severed->mended_ns = now_ns;
	} else if (rc != -EAGAIN) { /* else another gateway has put its own, or nobody knows */
		log_limited(LOG_WARN,
		    "gateway: cannot say that it reaches %s nodes, trying again rc=%s",
		    severed->is_marking ? "too few" : "enough", log_errno(rc));
	}
	severed_rest(severed);
}

/* The key as it is to be: ours in it or not, and none of gateways that do not live. False: as many as can be are. */
static bool
severed_fill(const struct mt_severed *severed, struct mt_drained *ret_marks)
{
	const struct mt_member *member = &severed->gateway->member;
	uint64_t own = severed->gateway->options.gateway_id;

	*ret_marks = (struct mt_drained){ .version = member->severed.version };
	for (uint32_t i = 0; i < member->peer_count; i++) {
		uint64_t id = member->peers[i].gateway_id;

		if (id != own && mt_drained_has(&member->severed, id))
			(void)mt_drained_add(ret_marks, id); /* no more than there were */
	}
	return !severed->is_marking || mt_drained_add(ret_marks, own) == 0;
}

static void
severed_put(struct mt_severed *severed, bool is_marking)
{
	struct meta *meta = severed->gateway->options.meta;
	struct mt_drained marks;
	char *text = NULL;
	int rc = -ENOMEM;

	severed->is_marking = is_marking;
	sm_move(&severed->sm, SEVERED_PUTTING);
	if (severed_fill(severed, &marks))
		text = mt_drained_encode(&marks);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = MT_SEVERED_KEY,
			    .version = marks.version },
			{ .kind = META_PUT,
			    .key = MT_SEVERED_KEY,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), severed_on_put, severed);
	}
	free(text);
	if (rc != 0)
		severed_rest(severed);
}

/* ---- asking ---- */

static void severed_ask(struct mt_severed *severed);

/* Another gateway may say anything: what cannot be is no answer. */
static bool
severed_read(const struct mt_severed *severed, const char *reply)
{
	struct reader reader = { 0 };
	json_t *object = reply == NULL ? NULL : reader_load(&reader, reply, strlen(reply));
	bool is_enough;
	uint64_t domains;

	if (object == NULL)
		return false;
	is_enough = reader_bool(&reader, object, "enough");
	domains = reader_u64(&reader, object, "domains", UINT32_MAX);
	json_decref(object);
	if (reader.field != NULL)
		return false;
	return (is_enough && domains >= severed->gateway->options.min_replicas) ||
	    MUTANT(severed_blind);
}

static void
severed_on_peer(struct mt_peer_call *call, void *arg)
{
	struct mt_severed *severed = arg;

	assert(severed->sm.state == SEVERED_ASKING && call == &severed->call);
	if (call->rc == 0 && severed_read(severed, call->reply))
		severed->found_ids[severed->found_count++] = severed->asked_ids[severed->asked];
	mt_free(call->reply);
	call->reply = NULL;
	if (severed->is_stopped) {
		severed_rest(severed);
		return;
	}
	severed->asked++;
	severed_ask(severed);
}

static const char *
severed_address(const struct mt_member *member, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == gateway_id && member->peers[i].port_count > 0)
			return member->peers[i].ports[0];
	}
	return NULL;
}

static void
severed_tell_kept(struct mt_severed *severed)
{
	if (severed->is_kept_told || severed_is_marked(severed))
		return;
	severed->is_kept_told = true;
	log_warn("gateway: it reaches %" PRIu32
		 " failure domains of storage nodes, writes need %" PRIu32
		 ", and no other gateway says that it reaches enough: it keeps its shards",
	    severed->domain_count, severed->gateway->options.min_replicas);
}

/* All have answered, or have not in time. Where our shards go on to go, the view is to look who may take them now. */
static void
severed_on_asked(struct mt_severed *severed)
{
	uint64_t now_ns = loop_now_ns(severed_loop(severed));

	severed->taker_count = severed->found_count;
	memcpy(severed->taker_ids, severed->found_ids, sizeof(severed->taker_ids));
	if (severed->taker_count == 0) {
		severed->differ_ns = 0;
		severed_tell_kept(severed);
		severed_rest(severed);
		return;
	}
	severed->differ_ns = severed->differ_ns == 0 ? now_ns : severed->differ_ns;
	if (!severed_is_marked(severed) && now_ns - severed->differ_ns >= SEVERED_AFTER_NS) {
		severed_put(severed, true);
		return;
	}
	if (severed_is_marked(severed))
		mt_view_look(&severed->gateway->member);
	severed_rest(severed);
}

static void
severed_ask(struct mt_severed *severed)
{
	struct mt_gateway *gateway = severed->gateway;

	assert(severed->sm.state == SEVERED_ASKING && !severed->call.is_out);
	for (; severed->asked < severed->asked_count; severed->asked++) {
		const char *address =
		    severed_address(&gateway->member, severed->asked_ids[severed->asked]);

		if (address != NULL &&
		    mt_peer_call_within(gateway, &severed->call, address,
			"{\"op\":\"gateway.reach\"}", SEVERED_ANSWER_NS, severed_on_peer,
			severed) == 0)
			return;
	}
	severed_on_asked(severed);
}

/* Whoever is drained, or severed itself, takes nothing. */
static void
severed_ask_all(struct mt_severed *severed)
{
	const struct mt_member *member = &severed->gateway->member;

	sm_move(&severed->sm, SEVERED_ASKING);
	severed->asked = severed->asked_count = severed->found_count = 0;
	for (uint32_t i = 0; i < member->peer_count; i++) {
		uint64_t id = member->peers[i].gateway_id;

		if (id != severed->gateway->options.gateway_id &&
		    !mt_drained_has(&member->drained, id) && !mt_drained_has(&member->severed, id))
			severed->asked_ids[severed->asked_count++] = id;
	}
	severed_ask(severed);
}

/* ---- looking ---- */

/* There is something to give away: a root that is not released names us, or a shard falls to us, whoever had it. */
static bool
severed_has_shard(const struct mt_severed *severed)
{
	const struct mt_member *member = &severed->gateway->member;
	uint64_t own = severed->gateway->options.gateway_id;

	for (uint32_t i = 0; i < severed->gateway->cluster.shard_count; i++) {
		const struct mt_member_shard *shard = &member->shards[i];
		const struct mt_member_peer *pick = mt_view_pick(member, i);

		if ((pick != NULL && pick->gateway_id == own) ||
		    (shard->has_root && !shard->is_released && shard->gateway_id == own))
			return true;
	}
	return false;
}

static bool
severed_may_act(const struct mt_severed *severed)
{
	const struct mt_gateway *gateway = severed->gateway;

	return !severed->is_stopped && gateway->member.sm.state == MT_MEMBER_UP &&
	    gateway->member.has_view && gateway->cluster.level >= CLEAVE_LEVEL_SEVERED &&
	    (gateway->sm.state == MT_GATEWAY_TAKING || gateway->sm.state == MT_GATEWAY_SERVING);
}

/* The least of all ports, the one that reaches fewest: each has links of its own, and shards of its own. */
static uint32_t
severed_domains(const struct mt_ask *ask, bool is_heard)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		least = (uint32_t)num_min(least,
		    is_heard ? status->heard_domain_count : status->domain_count);
	}
	return least;
}

static void
severed_on_looked(struct mt_ask *ask, void *arg)
{
	struct mt_severed *severed = arg;
	uint64_t now_ns = loop_now_ns(severed_loop(severed));

	assert(severed->sm.state == SEVERED_LOOKING);
	severed->domain_count = severed_domains(ask, false);
	severed->is_few = severed->domain_count < severed->gateway->options.min_replicas;
	if (severed->is_few) {
		severed->enough_ns = 0;
	} else {
		severed->differ_ns = severed->taker_count = 0;
		severed->is_kept_told = false;
		severed->enough_ns = severed->enough_ns == 0 ? now_ns : severed->enough_ns;
	}
	if (!severed_may_act(severed))
		severed_rest(severed);
	else if (!severed->is_few && severed_is_marked(severed) &&
	    now_ns - severed->enough_ns >= severed->mended_wait_ns)
		severed_put(severed, false);
	else if (severed->is_few && severed_has_shard(severed))
		severed_ask_all(severed);
	else
		severed_rest(severed);
}

/* Alone there is nobody to give to, and no mark of ours to take back: what was seen is forgotten. */
static bool
severed_is_alone(const struct mt_severed *severed)
{
	const struct mt_member *member = &severed->gateway->member;

	return !member->has_view || (member->peer_count < 2 && !severed_is_marked(severed));
}

static void
severed_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_severed *severed = arg;

	assert(timer == &severed->timer && severed->sm.state == SEVERED_RESTING);
	if (severed_is_alone(severed)) {
		severed->is_few = false;
		severed->differ_ns = severed->enough_ns = severed->taker_count = 0;
		loop_timer_start(severed_loop(severed), timer, SEVERED_LOOK_NS);
		return;
	}
	sm_move(&severed->sm, SEVERED_LOOKING);
	if (mt_ask_ports(severed->gateway, MT_ASK_REACH, NULL, severed_on_looked, severed) != 0)
		severed_rest(severed);
}

json_t *
mt_severed_json(const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = ask->gateway;
	const struct mt_severed *severed = gateway->severed;
	uint32_t domain_count = severed_domains(ask, true);
	bool is_enough = severed != NULL && severed_may_act(severed) &&
	    !severed_is_marked(severed) && domain_count >= gateway->options.min_replicas;

	return json_pack("{s:I, s:b}", "domains", (json_int_t)domain_count, "enough",
	    (int)is_enough);
}

/* ---- its life ---- */

int
mt_severed_start(struct mt_gateway *gateway)
{
	struct mt_severed *severed = mt_calloc(1, sizeof(*severed));

	assert(gateway->severed == NULL && gateway->cluster.shard_count > 0);
	if (severed == NULL)
		return -ENOMEM;
	severed->gateway = gateway;
	severed->mended_wait_ns = SEVERED_MENDED_NS;
	sm_init(&severed->sm, "severed", severed_table, SEVERED_RESTING, 0);
	loop_timer_init(&severed->timer, severed_on_timer, severed);
	gateway->severed = severed;
	loop_timer_start(gateway->options.loop, &severed->timer, SEVERED_LOOK_NS);
	return 0;
}

void
mt_severed_stop(struct mt_gateway *gateway)
{
	struct mt_severed *severed = gateway->severed;

	if (severed == NULL)
		return;
	severed->is_stopped = true;
	loop_timer_stop(severed_loop(severed), &severed->timer);
}

void
mt_severed_fini(struct mt_gateway *gateway)
{
	if (gateway->severed == NULL)
		return;
	mt_free(gateway->severed->call.reply);
	mt_free(gateway->severed);
	gateway->severed = NULL;
}
