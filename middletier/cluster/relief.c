/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relief.c -- a gateway that has more to do than the others gives one of its shards away
 *
 *	            +-- timer: each interval                    all have answered, and a shard is to go
 *	RESTING ----+---> COUNTING -----------------> ASKING --------------------------> PUTTING
 *	   ^               our ports      |           each other gateway, in turn            |  MT_PLACED_KEY,
 *	   +------------------------------+------------------------------------------------- +  by compare-and-swap
 *
 * What is put tells every gateway where the shard shall be (assign.h): ours stops it in good order and releases its
 * root, and the other one claims that, as when a gateway is drained.
 *
 * Invariant: between two puts, of whichever gateways, lie RELIEF_PAUSE_LOOKS intervals. Each of them names the version
 * of the key that its gateway has read, and a gateway puts nothing until so much time has gone by, on its own clock,
 * since it first saw that version. The same holds for who lives and who is drained, and for a shard that is not yet
 * where it shall be. A shard that came here stays for RELIEF_STAY_LOOKS intervals, so none goes to and fro.
 *
 * The gateway that gives decides alone. What it does not know it asks for when it decides, so nothing that is old
 * counts; who does not answer may be about to lose its lease, and then nothing is given this time.
 */
#include "cluster/relief.h"

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
#include "catalog/placed_key.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/peer.h"
#include "cluster/relief_rule.h"
#include "common/alloc.h"
#include "common/port.h"

#define RELIEF_SMOOTH_PART 4u /* of the last interval, in a load: half of it is of the last three */
#define RELIEF_PAUSE_LOOKS                                                                         \
	12u /* after so many a load that has moved is told as it is, to 3 percent */
#define RELIEF_STAY_LOOKS 30u /* a shard that came here stays for so many */

enum relief_machine { RELIEF_RESTING, RELIEF_COUNTING, RELIEF_ASKING, RELIEF_PUTTING, RELIEF_NR };

static const struct sm_state relief_table[RELIEF_NR] = {
	[RELIEF_RESTING] = { "resting", SM_TO(RELIEF_COUNTING), SM_INITIAL },
	[RELIEF_COUNTING] = { "counting",
	    SM_TO(RELIEF_RESTING) | SM_TO(RELIEF_ASKING) | SM_TO(RELIEF_PUTTING), 0 },
	[RELIEF_ASKING] = { "asking", SM_TO(RELIEF_RESTING) | SM_TO(RELIEF_PUTTING), 0 },
	[RELIEF_PUTTING] = { "putting", SM_TO(RELIEF_RESTING), 0 },
};

/* A shard, as far as it is served here. */
struct relief_shard {
	uint64_t since_ns; /* served here since then, in this epoch; 0: it is not */
	uint64_t request_count, request_bytes; /* when they were last read */
	uint64_t load;
	uint32_t epoch;
};

struct mt_relief {
	struct mt_gateway *gateway;
	struct sm sm;
	struct loop_timer timer;
	bool is_stopped;
	struct relief_shard *shards; /* the cluster's shard_count */
	struct mt_relief_shard *own; /* those that are served here: the rule's question; as many */
	uint64_t counted_ns;         /* when they were last read */
	uint64_t idle_count;         /* looks that ended, and nothing was put */
	uint64_t load;               /* of all of them */
	uint32_t room; /* shards that each port has memory for besides those that fall to it */
	uint32_t
	    full_port; /* more fall to it than it has memory for, and some were placed here; UINT32_MAX: none is so */
	uint64_t sight;    /* of who lives, who is drained and what is placed, as a number */
	uint64_t quiet_ns; /* since then that is the same, and every shard is where it shall be */
	struct mt_relief_gateway gateways[MT_GATEWAYS_MAX]; /* ASKING: those that live */
	uint32_t gateway_count, asked; /* the one that is being asked: its index */
	struct mt_peer_call call;
	/* PUTTING. */
	struct mt_placed placed;
	char text[256]; /* what the log says when it is put */
};

static struct loop *
relief_loop(const struct mt_relief *relief)
{
	return relief->gateway->options.loop;
}

static uint64_t
relief_looks_ns(const struct mt_relief *relief, uint32_t looks)
{
	return looks * relief->gateway->options.balance_interval_ns;
}

/* The end of every look. */
static void
relief_rest(struct mt_relief *relief)
{
	relief->idle_count += relief->sm.state == RELIEF_COUNTING ||
	    relief->sm.state == RELIEF_ASKING;
	sm_move(&relief->sm, RELIEF_RESTING);
	if (!relief->is_stopped)
		loop_timer_start(relief_loop(relief), &relief->timer,
		    relief->gateway->options.balance_interval_ns);
}

/* ---- is all as it shall be? ---- */

static bool
relief_is_settled(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];
	const struct mt_member_peer *pick = mt_view_pick(member, index);

	if (pick == NULL || !shard->has_root || shard->is_released || !shard->is_settled ||
	    shard->gateway_id != pick->gateway_id || shard->boot_id != pick->boot_id)
		return false;
	return pick->gateway_id != member->gateway->options.gateway_id ||
	    shard->own_state == MT_SHARD_SERVING;
}

/* A gateway that is being drained has shards that shall be elsewhere. */
static bool
relief_is_calm(const struct mt_relief *relief)
{
	const struct mt_gateway *gateway = relief->gateway;
	const struct mt_member *member = &gateway->member;

	if (gateway->sm.state != MT_GATEWAY_SERVING || member->sm.state != MT_MEMBER_UP ||
	    !member->has_view || gateway->cluster.level < CLEAVE_LEVEL_PLACED)
		return false;
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++) {
		if (!relief_is_settled(member, i))
			return false;
	}
	return true;
}

static uint64_t
relief_look_around(const struct mt_member *member)
{
	uint64_t sight = num_mix_u64(
			     num_mix_u64(member->placed.version) ^ member->drained.version) ^
	    member->severed.version;

	assert(member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		sight = num_mix_u64(sight ^ member->peers[i].gateway_id);
		sight = num_mix_u64(sight ^ member->peers[i].boot_id);
	}
	return sight;
}

/* All has been as it shall be, and the same, for as long as a pause is. */
static bool
relief_is_quiet(struct mt_relief *relief)
{
	uint64_t now_ns = loop_now_ns(relief_loop(relief));
	uint64_t sight = relief_look_around(&relief->gateway->member);
	bool is_calm = relief_is_calm(relief);

	if (!is_calm || sight != relief->sight) {
		relief->sight = sight;
		relief->quiet_ns = now_ns;
	}
	if (MUTANT(relief_restless))
		return is_calm;
	return is_calm && now_ns - relief->quiet_ns >= relief_looks_ns(relief, RELIEF_PAUSE_LOOKS);
}

/* ---- putting ---- */

static void
relief_on_put(int rc, void *arg)
{
	struct mt_relief *relief = arg;

	assert(relief->sm.state == RELIEF_PUTTING);
	if (rc == 0)
		log_info("%s", relief->text);
	else if (rc != -EAGAIN) /* else another gateway has given one, or nobody knows */
		log_limited(LOG_WARN,
		    "gateway: cannot say where a shard shall be, trying again later rc=%s",
		    log_errno(rc));
	relief_rest(relief);
}

static void
relief_put(struct mt_relief *relief)
{
	struct meta *meta = relief->gateway->options.meta;
	char *text = mt_placed_encode(&relief->placed);
	int rc = -ENOMEM;

	sm_move(&relief->sm, RELIEF_PUTTING);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = MT_PLACED_KEY,
			    .version = relief->placed.version },
			{ .kind = META_PUT,
			    .key = MT_PLACED_KEY,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), relief_on_put, relief);
	}
	free(text);
	if (rc != 0)
		relief_rest(relief);
}

/* The first shard that was placed here, on @port or, with UINT32_MAX, any; -1: there is none. */
static int64_t
relief_placed_here(const struct mt_gateway *gateway, uint32_t port)
{
	const struct mt_placed *placed = &gateway->member.placed;

	assert(port == UINT32_MAX || port < gateway->port_count);
	for (uint32_t i = 0; i < placed->count; i++) {
		uint32_t shard = placed->shards[i].shard;

		if (placed->shards[i].gateway_id == gateway->options.gateway_id &&
		    (port == UINT32_MAX || shard % gateway->port_count == port))
			return shard;
	}
	return -1;
}

/* A @shard that was placed here goes back to where it is by count. */
static void
relief_give_back(struct mt_relief *relief, uint32_t shard, const char *why)
{
	(void)snprintf(relief->text, sizeof(relief->text),
	    "shard %" PRIu32 ": it is here by load, and goes to where it is by count: %s", shard,
	    why);
	relief->placed = relief->gateway->member.placed;
	mt_placed_remove(&relief->placed, shard);
	relief_put(relief);
}

/* ---- choosing ---- */

static void
relief_choose(struct mt_relief *relief)
{
	const struct mt_member *member = &relief->gateway->member;
	struct mt_relief_question question = { .gateways = relief->gateways,
		.gateway_count = relief->gateway_count,
		.shards = relief->own,
		.floor = relief->gateway->options.balance_floor };
	const struct mt_relief_shard *shard;
	struct mt_relief_move move;
	uint64_t to;

	for (uint32_t i = 0; i < relief->gateway_count; i++) {
		if (relief->gateways[i].id == relief->gateway->options.gateway_id)
			question.self = i;
	}
	assert(question.gateways[question.self].id == relief->gateway->options.gateway_id);
	while (question.shard_count < relief->gateway->cluster.shard_count &&
	    relief->own[question.shard_count].load > 0)
		question.shard_count++;
	if (!relief_is_quiet(relief) || !mt_relief_choose(&question, &move)) {
		relief_rest(relief);
		return;
	}
	shard = &relief->own[move.shard];
	to = relief->gateways[move.taker].id;
	relief->placed = member->placed;
	if (mt_placed_put(&relief->placed, shard->number, to) != 0) {
		log_limited(LOG_WARN,
		    "gateway: %u shards are elsewhere than by count, and no more can be",
		    MT_PLACED_MAX);
		relief_rest(relief);
		return;
	}
	(void)snprintf(relief->text, sizeof(relief->text),
	    "shard %" PRIu32 ": given away, this gateway has more to do than others to=%016" PRIx64
	    " shard_bytes_s=%" PRIu64 " port_bytes_s=%" PRIu64 " mean=%" PRIu64 " after=%" PRIu64,
	    shard->number, to, shard->load, move.load_before, move.mean, move.load_after);
	relief_put(relief);
}

/* ---- asking ---- */

static void relief_ask(struct mt_relief *relief);

/* Another gateway may say anything: what cannot be is no answer. */
static bool
relief_read(const char *reply, struct mt_relief_gateway *gateway)
{
	struct reader reader = { 0 };
	json_t *object = reply == NULL ? NULL : reader_load(&reader, reply, strlen(reply));

	if (object == NULL)
		return false;
	gateway->is_taker = reader_bool(&reader, object, "balance") && gateway->is_taker;
	gateway->load = reader_u64(&reader, object, "load", INT64_MAX);
	gateway->room = (uint32_t)reader_u64(&reader, object, "room", UINT32_MAX);
	json_decref(object);
	return reader.field == NULL;
}

static void
relief_on_peer(struct mt_peer_call *call, void *arg)
{
	struct mt_relief *relief = arg;
	bool is_read = call->rc == 0 && relief_read(call->reply, &relief->gateways[relief->asked]);

	assert(relief->sm.state == RELIEF_ASKING && call == &relief->call);
	mt_free(call->reply);
	call->reply = NULL;
	if (!is_read || relief->is_stopped) {
		relief_rest(relief);
		return;
	}
	relief->asked++;
	relief_ask(relief);
}

/* A gateway that lives has a port; NULL: it does not live any more. */
static const char *
relief_address(const struct mt_member *member, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == gateway_id)
			return member->peers[i].ports[0];
	}
	return NULL;
}

static void
relief_ask(struct mt_relief *relief)
{
	struct mt_gateway *gateway = relief->gateway;
	const char *address;

	assert(relief->sm.state == RELIEF_ASKING && !relief->call.is_out);
	if (relief->asked < relief->gateway_count &&
	    relief->gateways[relief->asked].id == gateway->options.gateway_id)
		relief->asked++;
	if (relief->asked == relief->gateway_count) {
		relief_choose(relief);
		return;
	}
	address = relief_address(&gateway->member, relief->gateways[relief->asked].id);
	if (address == NULL ||
	    mt_peer_call(gateway, &relief->call, address, "{\"op\":\"gateway.load\"}",
		relief_on_peer, relief) != 0)
		relief_rest(relief);
}

/* A gateway that serves no shard has not shown that it reaches the nodes. */
static bool
relief_may_take(const struct mt_member *member, uint64_t gateway_id)
{
	bool has_shard = false;

	for (uint32_t i = 0; i < member->gateway->cluster.shard_count && !has_shard; i++)
		has_shard = member->shards[i].gateway_id == gateway_id;
	return has_shard && !mt_drained_has(&member->drained, gateway_id) &&
	    !mt_drained_has(&member->severed, gateway_id);
}

static void
relief_ask_all(struct mt_relief *relief)
{
	const struct mt_member *member = &relief->gateway->member;

	sm_move(&relief->sm, RELIEF_ASKING);
	relief->gateway_count = member->peer_count;
	relief->asked = 0;
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		relief->gateways[i] = (struct mt_relief_gateway){ .id = peer->gateway_id,
			.port_count = peer->port_count,
			.load = relief->load,
			.room = relief->room,
			.is_taker = relief_may_take(member, peer->gateway_id) };
	}
	relief_ask(relief);
}

/* ---- counting ---- */

static void
relief_count_shard(struct mt_relief *relief, const struct mt_shard_status *status, uint64_t now_ns)
{
	struct relief_shard *shard = &relief->shards[status->index];

	if (!status->is_serving || shard->epoch != status->epoch || shard->since_ns == 0) {
		shard->since_ns = status->is_serving ? now_ns : 0;
		shard->load = 0;
		shard->epoch = status->epoch;
	} else {
		uint64_t load = mt_relief_load(status->request_count - shard->request_count,
		    status->request_bytes - shard->request_bytes, now_ns - relief->counted_ns);

		shard->load -= shard->load / RELIEF_SMOOTH_PART;
		shard->load += load / RELIEF_SMOOTH_PART;
	}
	shard->request_count = status->request_count;
	shard->request_bytes = status->request_bytes;
}

/* The question's shards: those of ours that have a load; the first without one ends them. */
static void
relief_sum(struct mt_relief *relief, uint64_t now_ns)
{
	uint64_t stay_ns = MUTANT(relief_restless) ? 0 : relief_looks_ns(relief, RELIEF_STAY_LOOKS);
	uint32_t shard_count = relief->gateway->cluster.shard_count, count = 0;

	relief->load = 0;
	for (uint32_t i = 0; i < shard_count; i++) {
		const struct relief_shard *shard = &relief->shards[i];

		relief->load += shard->load;
		if (shard->load > 0)
			relief->own[count++] = (struct mt_relief_shard){ .number = i,
				.load = shard->load,
				.may_go = now_ns - shard->since_ns >= stay_ns };
	}
	if (count < shard_count)
		relief->own[count].load = 0;
}

/*
 * Room is counted from what falls to a port, whether it is here yet or not. A gateway that has gone leaves its
 * shares to the others, and then what was placed here may be too much: a shard that a full port waits for is served
 * by nobody.
 */
static void
relief_count_room(struct mt_relief *relief, const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = relief->gateway;

	relief->room = relief->full_port = UINT32_MAX;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;
		uint32_t count = 0;

		for (uint32_t k = i; k < gateway->cluster.shard_count; k += gateway->port_count) {
			const struct mt_member_peer *pick = mt_view_pick(&gateway->member, k);

			count += pick != NULL && pick->gateway_id == gateway->options.gateway_id;
		}
		/* Any may be full with what falls to it by count. */
		if (count > status->ring_max && relief_placed_here(gateway, i) >= 0)
			relief->full_port = i;
		count = (uint32_t)num_max(count, status->ring_count);
		relief->room = (uint32_t)num_min(relief->room,
		    status->ring_max - num_min(status->ring_max, count));
	}
}

static void
relief_count(struct mt_relief *relief, const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = relief->gateway;
	uint64_t now_ns = loop_now_ns(relief_loop(relief));

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++)
			relief_count_shard(relief, &status->shards[k], now_ns);
	}
	relief_count_room(relief, ask);
	relief->counted_ns = now_ns;
	relief_sum(relief, now_ns);
}

static void
relief_on_counted(struct mt_ask *ask, void *arg)
{
	struct mt_relief *relief = arg;
	struct mt_gateway *gateway = relief->gateway;
	int64_t too_much = -1, placed;

	assert(relief->sm.state == RELIEF_COUNTING);
	relief_count(relief, ask);
	if (relief->full_port != UINT32_MAX && gateway->member.sm.state == MT_MEMBER_UP &&
	    !MUTANT(relief_keeps))
		too_much = relief_placed_here(gateway, relief->full_port);
	placed = relief_placed_here(gateway, UINT32_MAX);
	if (relief->is_stopped)
		relief_rest(relief);
	else if (too_much >= 0)
		relief_give_back(relief, (uint32_t)too_much,
		    "its port has no room for all that fall to it");
	else if (!relief_is_quiet(relief))
		relief_rest(relief);
	else if (gateway->options.balance == MT_BALANCE_COUNT && placed >= 0)
		relief_give_back(relief, (uint32_t)placed, "--balance count");
	else if (gateway->options.balance == MT_BALANCE_COUNT || gateway->member.peer_count < 2 ||
	    relief->load / gateway->port_count <= gateway->options.balance_floor)
		relief_rest(relief);
	else
		relief_ask_all(relief);
}

static void
relief_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_relief *relief = arg;

	assert(timer == &relief->timer && relief->sm.state == RELIEF_RESTING);
	(void)timer;
	sm_move(&relief->sm, RELIEF_COUNTING);
	if (mt_ask_ports(relief->gateway, MT_ASK_LOAD, NULL, relief_on_counted, relief) != 0)
		relief_rest(relief);
}

uint64_t
mt_relief_idle_count(const struct mt_gateway *gateway)
{
	return gateway->relief == NULL ? 0 : gateway->relief->idle_count;
}

json_t *
mt_relief_json(const struct mt_gateway *gateway)
{
	const struct mt_relief *relief = gateway->relief;
	bool is_on = relief != NULL && gateway->options.balance == MT_BALANCE_LOAD;

	return json_pack("{s:b, s:I, s:I}", "balance", (int)is_on, "load",
	    relief == NULL ? (json_int_t)0 : (json_int_t)num_min(relief->load, INT64_MAX), "room",
	    relief == NULL ? (json_int_t)0 : (json_int_t)relief->room);
}

/* ---- its life ---- */

int
mt_relief_start(struct mt_gateway *gateway)
{
	struct mt_relief *relief;

	assert(gateway->relief == NULL && gateway->cluster.shard_count > 0);
	if (gateway->options.balance == MT_BALANCE_OFF)
		return 0;
	relief = mt_calloc(1, sizeof(*relief));
	if (relief == NULL)
		return -ENOMEM;
	relief->gateway = gateway;
	relief->shards = mt_calloc(gateway->cluster.shard_count, sizeof(*relief->shards));
	relief->own = mt_calloc(gateway->cluster.shard_count, sizeof(*relief->own));
	sm_init(&relief->sm, "relief", relief_table, RELIEF_RESTING, 0);
	loop_timer_init(&relief->timer, relief_on_timer, relief);
	gateway->relief = relief;
	if (relief->shards == NULL || relief->own == NULL)
		return -ENOMEM;
	relief->counted_ns = relief->quiet_ns = loop_now_ns(gateway->options.loop);
	loop_timer_start(gateway->options.loop, &relief->timer,
	    gateway->options.balance_interval_ns);
	return 0;
}

void
mt_relief_stop(struct mt_gateway *gateway)
{
	struct mt_relief *relief = gateway->relief;

	if (relief == NULL)
		return;
	relief->is_stopped = true;
	loop_timer_stop(relief_loop(relief), &relief->timer);
}

void
mt_relief_fini(struct mt_gateway *gateway)
{
	struct mt_relief *relief = gateway->relief;

	gateway->relief = NULL;
	if (relief == NULL)
		return;
	mt_free(relief->call.reply);
	mt_free(relief->shards);
	mt_free(relief->own);
	mt_free(relief);
}
