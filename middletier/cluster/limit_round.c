/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_round.c -- gateways tell each other what volumes with limits use, and their ports keep these together
 *
 *	           a volume has limits, each second; or, while one is used, each 200 ms
 *	RESTING --timer--> COUNTING: each port is told its shares, and tells what it has used
 *	   ^                  |'-- nobody uses any --> RESTING
 *	   |                  v
 *	   +------------ ASKING: all other gateways at once, "limits.use"; then each volume's share (port/limit_share.h)
 *
 * A gateway that does not answer counts as it did, for LIMIT_HEARD_NS, and then as one that uses nothing: without the others
 * each gateway keeps the limit by itself, as without rounds. A port that is told nothing for MT_THROTTLE_SHARE_NS does
 * so, too. Nothing is kept: a gateway that starts knows all after a round.
 */
#include "cluster/limit_round.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "common/alloc.h"
#include "common/port.h"
#include "port/limit_share.h"
#include "port/throttle.h"

#define LIMIT_REST_NS NUM_S(1)
#define LIMIT_ROUND_NS NUM_MS(200)
#define LIMIT_ASK_NS NUM_MS(500)
#define LIMIT_HEARD_NS MT_THROTTLE_SHARE_NS
#define LIMIT_SILENT_ROUNDS 25u /* without use, until it rests longer */

enum limit_state { LIMIT_RESTING, LIMIT_COUNTING, LIMIT_ASKING, LIMIT_STATE_NR };

static const struct sm_state limit_table[LIMIT_STATE_NR] = {
	[LIMIT_RESTING] = { "resting", SM_TO(LIMIT_COUNTING), SM_INITIAL },
	[LIMIT_COUNTING] = { "counting", SM_TO(LIMIT_ASKING) | SM_TO(LIMIT_RESTING), 0 },
	[LIMIT_ASKING] = { "asking", SM_TO(LIMIT_RESTING), 0 },
};

/* Volumes, by id. */
struct limit_list {
	uint32_t count;
	struct limit_entry {
		uint64_t id;
		struct limit_use use;
	} entries[MT_THROTTLE_USES_MAX];
};

struct limit_peer {
	struct mt_limit_rounds *rounds;
	uint64_t gateway_id, heard_ns;
	struct limit_list heard;
	struct mt_peer_call call;
};

struct mt_limit_rounds {
	struct mt_gateway *gateway;
	struct sm sm;
	struct loop_timer timer;
	bool is_stopped;
	uint32_t silent_rounds;
	struct limit_list own; /* of all ports here */
	struct limit_owed {
		uint64_t id;
		struct limit_debt debt;
		uint32_t share;
		bool is_over;
	} owed[MT_THROTTLE_USES_MAX]; /* of own's volumes, in its order */
	struct limit_leg {
		struct loop_post post;
		struct mt_limit_rounds *rounds;
		struct mt_port *port;
		struct mt_throttle_use uses[MT_THROTTLE_USES_MAX];
		uint32_t count;
	} legs[MT_PORTS_MAX];
	struct limit_peer *peers; /* MT_GATEWAYS_MAX; the first peer_count of them */
	uint32_t peer_count;
	uint32_t left_count; /* COUNTING: ports; ASKING: gateways, and one */
};

static struct loop *
limit_loop(const struct mt_limit_rounds *rounds)
{
	return rounds->gateway->options.loop;
}

/* The entry of @id, made where there is none; NULL: there are as many as can be. */
static struct limit_use *
list_use(struct limit_list *list, uint64_t id)
{
	assert(id != 0 && list->count <= MT_THROTTLE_USES_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->entries[i].id == id)
			return &list->entries[i].use;
	}
	if (list->count == MT_THROTTLE_USES_MAX)
		return NULL;
	list->entries[list->count] = (struct limit_entry){ .id = id };
	return &list->entries[list->count++].use;
}

static const struct limit_use *
list_find(const struct limit_list *list, uint64_t id)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->entries[i].id == id)
			return &list->entries[i].use;
	}
	return NULL;
}

/* ---- resting ---- */

static bool
limit_is_any(const struct mt_volumes *volumes)
{
	for (uint32_t i = 0; i < volumes->count; i++) {
		if (limits_are_set(&volumes->entries[i].volume.limits))
			return true;
	}
	return false;
}

static void
limit_rest(struct mt_limit_rounds *rounds)
{
	bool is_used = rounds->silent_rounds < LIMIT_SILENT_ROUNDS;

	sm_move(&rounds->sm, LIMIT_RESTING);
	if (!rounds->is_stopped && (is_used || limit_is_any(&rounds->gateway->volumes)))
		loop_timer_start(limit_loop(rounds), &rounds->timer,
		    is_used ? LIMIT_ROUND_NS : LIMIT_REST_NS);
}

/* ---- deciding ---- */

/* Time of its limit that @id may owe without being over: its burst, and what is forgiven at a port. */
static uint64_t
limit_depth_ns(struct mt_limit_rounds *rounds, uint64_t id)
{
	const struct mt_volume_entry *entry = mt_volumes_by_id(&rounds->gateway->volumes, id);
	struct limiter limiter = { .depth_ns = 0 };

	if (entry != NULL)
		limiter_set(&limiter, &entry->volume.limits, MT_THROTTLE_SPARE_NS, 0);
	return num_max(limiter.depth_ns, MT_THROTTLE_SPARE_NS);
}

static void
limit_decide_one(struct mt_limit_rounds *rounds, struct limit_owed *owed)
{
	static const struct limit_use none;
	struct limit_use uses[1 + MT_GATEWAYS_MAX];
	const struct limit_use *own = list_find(&rounds->own, owed->id);
	uint64_t now_ns = loop_now_ns(limit_loop(rounds)), spent, depth_ns;
	uint32_t count = 0, all;

	depth_ns = limit_depth_ns(rounds, owed->id);
	uses[count++] = own == NULL ? none : *own;
	spent = uses[0].spent;
	for (uint32_t i = 0; i < rounds->peer_count; i++) {
		const struct limit_peer *peer = &rounds->peers[i];
		const struct limit_use *use = now_ns - peer->heard_ns < LIMIT_HEARD_NS
		    ? list_find(&peer->heard, owed->id)
		    : NULL;

		if (use == NULL)
			continue;
		uses[count++] = *use;
		spent += use->spent;
	}
	mt_limit_debt_add(&owed->debt, spent, depth_ns, now_ns);
	all = mt_limit_debt_all(&owed->debt, depth_ns);
	owed->is_over = all < LIMIT_SHARE_ALL;
	owed->share = mt_limit_share(uses, count, all);
}

/* Volumes that are used here; of one that was, the debt is kept. */
static void
limit_decide(struct mt_limit_rounds *rounds)
{
	struct limit_owed before[MT_THROTTLE_USES_MAX];

	memcpy(before, rounds->owed, sizeof(before));
	memset(rounds->owed, 0, sizeof(rounds->owed));
	for (uint32_t i = 0; i < rounds->own.count; i++) {
		struct limit_owed *owed = &rounds->owed[i];

		owed->id = rounds->own.entries[i].id;
		for (uint32_t k = 0; k < MT_THROTTLE_USES_MAX; k++) {
			if (before[k].id == owed->id)
				owed->debt = before[k].debt;
		}
		limit_decide_one(rounds, owed);
	}
	limit_rest(rounds);
}

/* ---- asking ---- */

/* Another gateway may say anything: what cannot be is no answer. */
static bool
peer_read(const char *reply, struct limit_list *ret_list)
{
	struct reader reader = { 0 };
	json_t *object = reply == NULL ? NULL : reader_load(&reader, reply, strlen(reply)), *entry;
	size_t i;

	*ret_list = (struct limit_list){ .count = 0 };
	if (object == NULL)
		return false;
	json_array_foreach(json_object_get(object, "volumes"), i, entry)
	{
		uint64_t id = reader_u64(&reader, entry, "id", INT64_MAX);
		const struct limit_use read = {
			.wanting = (uint32_t)reader_u64(&reader, entry, "wanting", MT_PORTS_MAX),
			.quiet = (uint32_t)reader_u64(&reader, entry, "quiet", MT_PORTS_MAX),
			.quiet_spent = reader_u64(&reader, entry, "quiet_spent", UINT32_MAX),
			.spent = reader_u64(&reader, entry, "spent", UINT32_MAX),
		};
		struct limit_use *use = reader.field == NULL && id != 0 ? list_use(ret_list, id)
									: NULL;

		if (use == NULL)
			break;
		*use = read;
	}
	json_decref(object);
	return reader.field == NULL;
}

static void
limit_asked(struct mt_limit_rounds *rounds)
{
	assert(rounds->sm.state == LIMIT_ASKING && rounds->left_count > 0);
	if (--rounds->left_count == 0)
		limit_decide(rounds);
}

static void
peer_on_answer(struct mt_peer_call *call, void *arg)
{
	struct limit_peer *peer = arg;
	struct limit_list list;

	assert(call == &peer->call && !call->is_out);
	if (call->rc == 0 && peer_read(call->reply, &list)) {
		peer->heard = list;
		peer->heard_ns = loop_now_ns(limit_loop(peer->rounds));
	}
	mt_free(call->reply);
	call->reply = NULL;
	limit_asked(peer->rounds);
}

static void
limit_ask(struct mt_limit_rounds *rounds)
{
	const struct mt_member *member = &rounds->gateway->member;
	uint32_t count = 0;

	sm_move(&rounds->sm, LIMIT_ASKING);
	rounds->left_count = 1;
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *to = &member->peers[i];
		struct limit_peer *peer = &rounds->peers[count];

		if (to->gateway_id == rounds->gateway->options.gateway_id || to->port_count == 0)
			continue;
		count++;
		if (peer->gateway_id != to->gateway_id) {
			peer->rounds = rounds;
			peer->gateway_id = to->gateway_id;
			peer->heard = (struct limit_list){ .count = 0 };
		}
		if (mt_peer_call_within(rounds->gateway, &peer->call, to->ports[0],
			"{\"op\":\"limits.use\"}", LIMIT_ASK_NS, peer_on_answer, peer) == 0)
			rounds->left_count++;
	}
	rounds->peer_count = count;
	limit_asked(rounds);
}

/* ---- counting ---- */

static void
limit_counted(struct mt_limit_rounds *rounds)
{
	rounds->own.count = 0;
	for (uint32_t i = 0; i < rounds->gateway->port_count; i++) {
		const struct limit_leg *leg = &rounds->legs[i];

		for (uint32_t k = 0; k < leg->count; k++) {
			const struct mt_throttle_use *from = &leg->uses[k];
			struct limit_use *use = list_use(&rounds->own, from->volume_id);

			if (use == NULL)
				break;
			use->spent += from->spent;
			use->wanting += from->is_wanting;
			use->quiet += !from->is_wanting;
			use->quiet_spent += from->is_wanting ? 0 : from->spent;
		}
	}
	rounds->silent_rounds = rounds->own.count > 0
	    ? 0
	    : (uint32_t)num_min(rounds->silent_rounds + 1, LIMIT_SILENT_ROUNDS);
	if (rounds->own.count == 0 || rounds->is_stopped)
		limit_rest(rounds);
	else
		limit_ask(rounds);
}

static void
limit_on_leg(struct loop_post *post, void *arg)
{
	struct mt_limit_rounds *rounds = ((struct limit_leg *)arg)->rounds;

	assert(rounds->sm.state == LIMIT_COUNTING && rounds->left_count > 0);
	(void)post;
	if (--rounds->left_count == 0)
		limit_counted(rounds);
}

/* On the port; main leaves @owed alone meanwhile. */
static void
limit_on_port(struct loop_post *post, void *arg)
{
	struct limit_leg *leg = arg;

	assert(post == &leg->post);
	for (uint32_t i = 0; i < MT_THROTTLE_USES_MAX && leg->rounds->owed[i].id != 0; i++)
		mt_throttle_share(leg->port, leg->rounds->owed[i].id, leg->rounds->owed[i].share,
		    leg->rounds->owed[i].is_over);
	leg->count = mt_throttle_uses(leg->port, leg->uses);
	post->fn = limit_on_leg;
	loop_post(leg->port->main_loop, post);
}

static void
limit_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_limit_rounds *rounds = arg;
	struct mt_gateway *gateway = rounds->gateway;

	assert(timer == &rounds->timer && rounds->sm.state == LIMIT_RESTING);
	(void)timer;
	if (rounds->is_stopped)
		return;
	sm_move(&rounds->sm, LIMIT_COUNTING);
	rounds->left_count = gateway->port_count;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct limit_leg *leg = &rounds->legs[i];

		leg->rounds = rounds;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = limit_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
}

/* ---- what others ask ---- */

json_t *
mt_limit_rounds_json(struct mt_gateway *gateway)
{
	const struct mt_limit_rounds *rounds = gateway->limit_rounds;
	json_t *list = json_array();

	for (uint32_t i = 0; rounds != NULL && i < rounds->own.count; i++) {
		const struct limit_entry *entry = &rounds->own.entries[i];

		json_array_append_new(list,
		    json_pack("{s:I, s:i, s:i, s:I, s:I}", "id", (json_int_t)entry->id, "wanting",
			(int)entry->use.wanting, "quiet", (int)entry->use.quiet, "quiet_spent",
			(json_int_t)num_min(entry->use.quiet_spent, UINT32_MAX), "spent",
			(json_int_t)num_min(entry->use.spent, UINT32_MAX)));
	}
	return json_pack("{s:o}", "volumes", list);
}

/* ---- its life ---- */

int
mt_limit_rounds_start(struct mt_gateway *gateway)
{
	struct mt_limit_rounds *rounds = mt_calloc(1, sizeof(*rounds));

	assert(gateway->limit_rounds == NULL);
	if (rounds == NULL)
		return -ENOMEM;
	rounds->gateway = gateway;
	rounds->silent_rounds = LIMIT_SILENT_ROUNDS;
	sm_init(&rounds->sm, "limit rounds", limit_table, LIMIT_RESTING, 0);
	loop_timer_init(&rounds->timer, limit_on_timer, rounds);
	gateway->limit_rounds = rounds;
	rounds->peers = mt_calloc(MT_GATEWAYS_MAX, sizeof(*rounds->peers));
	if (rounds->peers == NULL)
		return -ENOMEM;
	mt_limit_rounds_kick(gateway);
	return 0;
}

void
mt_limit_rounds_kick(struct mt_gateway *gateway)
{
	struct mt_limit_rounds *rounds = gateway->limit_rounds;

	if (rounds != NULL && !rounds->is_stopped && rounds->sm.state == LIMIT_RESTING &&
	    !rounds->timer.is_active && limit_is_any(&gateway->volumes))
		loop_timer_start(limit_loop(rounds), &rounds->timer, LIMIT_REST_NS);
}

void
mt_limit_rounds_stop(struct mt_gateway *gateway)
{
	struct mt_limit_rounds *rounds = gateway->limit_rounds;

	if (rounds == NULL)
		return;
	rounds->is_stopped = true;
	loop_timer_stop(limit_loop(rounds), &rounds->timer);
}

void
mt_limit_rounds_fini(struct mt_gateway *gateway)
{
	struct mt_limit_rounds *rounds = gateway->limit_rounds;

	gateway->limit_rounds = NULL;
	if (rounds == NULL)
		return;
	for (uint32_t i = 0; i < rounds->peer_count; i++)
		mt_free(rounds->peers[i].call.reply);
	mt_free(rounds->peers);
	mt_free(rounds);
}
