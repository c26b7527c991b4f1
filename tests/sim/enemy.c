/* SPDX-License-Identifier: Apache-2.0 */
/* enemy.c -- see enemy.h; who answers in a node's place: imposter.c; what is asked of a node: enemy_node.c */
#include "enemy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "enemy_inside.h"
#include "imposter.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/gateway_state.h"

#define ENEMY_TICK_NS NUM_MS(400)
#define ENEMY_DEED_NS NUM_S(10) /* a deed that nobody answers is over */
#define ENEMY_CUT_NS                                                                               \
	NUM_S(10) /* a session ends within a second of its right; clocks may run slowly */
#define ENEMY_TEXT_BYTES 512u
#define ENEMY_RECEIVES 4u
#define ENEMY_RECEIVE_BYTES NUM_KIB(64)

/* Behind the connection. */
enum deed_then {
	THEN_NOTHING, /* it is one too many already */
	THEN_NODE,    /* a request about an extent */
	THEN_CONTROL,
};

struct deed {
	const char *subject; /* whose key it has; NULL: none */
	bool is_alien;       /* of another authority */
	bool is_at_node;     /* else at a gateway */
	enum wire_role role; /* as what it comes */
	bool wants_volume;
	enum deed_then then;
};

static const struct deed deeds[] = {
	{ NULL, false, true, WIRE_ROLE_GATEWAY, false, THEN_NOTHING },
	{ "client/nobody", false, true, WIRE_ROLE_GATEWAY, false, THEN_NOTHING },
	{ "client/nobody", false, true, WIRE_ROLE_CLIENT, false, THEN_NOTHING },
	{ "node/2", false, true, WIRE_ROLE_GATEWAY, false, THEN_NOTHING },
	{ "gateway/1", true, true, WIRE_ROLE_GATEWAY, false, THEN_NOTHING },
	{ ENEMY_ROGUE, false, true, WIRE_ROLE_GATEWAY, false, THEN_NODE },
	{ ENEMY_ROGUE, false, true, WIRE_ROLE_GATEWAY, false, THEN_NODE },
	{ ENEMY_ROGUE, false, true, WIRE_ROLE_GATEWAY, false, THEN_NODE },
	{ NULL, false, false, WIRE_ROLE_CLIENT, false, THEN_NOTHING },
	{ "node/2", false, false, WIRE_ROLE_CLIENT, false, THEN_NOTHING },
	{ "admin/sim", true, false, WIRE_ROLE_CLIENT, false, THEN_NOTHING },
	{ "client/nobody", false, false, WIRE_ROLE_CLIENT, true, THEN_NOTHING },
	{ ENEMY_ROGUE, false, false, WIRE_ROLE_CLIENT, true, THEN_NOTHING },
	{ "client/nobody", false, false, WIRE_ROLE_CLIENT, false, THEN_CONTROL },
	{ "client/nobody", false, false, WIRE_ROLE_CLIENT, false, THEN_CONTROL },
	{ ENEMY_ROGUE, false, false, WIRE_ROLE_CLIENT, false, THEN_CONTROL },
};

/* None of them is for a client without a right, or for a gateway. %s is the volume. */
static const char *const operations[] = {
	"{\"op\":\"volume.create\",\"name\":\"loot\",\"size_bytes\":1048576}",
	"{\"op\":\"volume.rename\",\"name\":\"%s\",\"new\":\"loot\"}",
	"{\"op\":\"volume.resize\",\"name\":\"%s\",\"size_bytes\":1099511627776}",
	"{\"op\":\"volume.delete\",\"name\":\"%s\"}",
	"{\"op\":\"volume.open\",\"name\":\"%s\"}",
	"{\"op\":\"volume.attach\",\"name\":\"%s\",\"take\":true}",
	"{\"op\":\"snapshot.create\",\"name\":\"%s@loot\"}",
	"{\"op\":\"user.add\",\"name\":\"nobody\",\"rights\":[{\"volumes\":\"*\",\"may\":\"rwsa\"}]}",
	"{\"op\":\"user.list\"}",
	"{\"op\":\"gateway.undrain\",\"gateway\":\"0000000000000001\"}",
};

struct enemy_port {
	const char *subject;
	bool is_alien;
	struct split_port *port;
};

/* A connection, and what it asks for. */
struct enemy_call {
	struct sim_enemy *enemy;
	const struct deed *deed; /* NULL: of somebody who may */
	struct split_qp *qp;
	uint32_t index; /* of the node or gateway */
	bool is_ready, is_answered;
	int rc; /* of the answer */
	struct split_send send;
	char text[ENEMY_TEXT_BYTES]; /* of a control request */
	uint8_t message[WIRE_HEADER_BYTES + ENEMY_MESSAGE_BYTES] __attribute__((aligned(8)));
};

struct sim_enemy {
	struct sim_cluster *cluster;
	char volume[64];
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct enemy_port ports[8];
	uint32_t port_count;
	struct loop_timer tick_timer, deed_timer;
	struct enemy_call call;  /* of the deed, or of the operator */
	struct enemy_call guest; /* of who has a right, and loses it */
	struct sim_imposter *imposter;
	bool is_finishing;
	uint64_t deed_count;
};

uint32_t
sim_enemy_below(struct sim_enemy *enemy, uint32_t limit)
{
	return (uint32_t)random_below(enemy->dice, limit);
}

static const char *
enemy_name(const struct deed *deed)
{
	return deed->subject == NULL ? "nobody's" : deed->subject;
}

static struct split_port *
port_get(struct sim_enemy *enemy, const char *subject, bool is_alien)
{
	struct sim_keys *keys = enemy->cluster->keys;
	struct enemy_port *own;

	for (uint32_t i = 0; i < enemy->port_count; i++)
		if (enemy->ports[i].is_alien == is_alien &&
		    (subject == NULL ? enemy->ports[i].subject == NULL
				     : enemy->ports[i].subject != NULL &&
				strcmp(enemy->ports[i].subject, subject) == 0))
			return enemy->ports[i].port;
	assert(enemy->port_count < NUM_COUNT(enemy->ports));
	own = &enemy->ports[enemy->port_count++];
	own->subject = subject;
	own->is_alien = is_alien;
	own->port = open_roce_instance(&(struct split_port_options){ .loop = enemy->loop,
	    .sim_host = enemy->host,
	    .key = subject == NULL ? NULL
		: is_alien         ? sim_keys_alien(keys, subject)
				   : sim_keys_of(keys, subject),
	    .host_bytes = NUM_KIB(256),
	    .device_bytes = NUM_MIB(1),
	    .receive_count = ENEMY_RECEIVES,
	    .receive_payload_bytes = ENEMY_RECEIVE_BYTES,
	    .qp_count_max = 8,
	    .keepalive_ns = NUM_S(5) });
	assert(own->port != NULL);
	return own->port;
}

/* ---- what comes of it ---- */

static void
on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	(void)arg;
}

static void
call_send(struct enemy_call *call, uint32_t bytes)
{
	call->send = (struct split_send){ .header = (struct wire_header *)(void *)call->message,
		.header_bytes = bytes,
		.fn = on_sent,
		.arg = call };
	if (split_send(call->qp, &call->send) != 0)
		split_qp_close(call->qp);
}

static void
call_send_control(struct enemy_call *call)
{
	struct wire_header *header = (struct wire_header *)(void *)call->message;
	uint32_t bytes = (uint32_t)strlen(call->text);

	*header = (struct wire_header){ .opcode = WIRE_CONTROL, .request_id = 1 };
	memcpy(call->message + WIRE_HEADER_BYTES, call->text, bytes);
	call_send(call, WIRE_HEADER_BYTES + bytes);
}

static void
call_send_node(struct enemy_call *call)
{
	struct wire_node request;
	uint32_t bytes;

	if (!sim_enemy_node_request(call->enemy, call->enemy->cluster, call->index, &request)) {
		split_qp_close(call->qp);
		return;
	}
	memset(call->message, 0, sizeof(call->message));
	wire_node_encode((struct wire_header *)(void *)call->message, &request);
	bytes = request.opcode == WIRE_EXTENT_APPEND ? request.length_bytes : 0;
	assert(bytes <= ENEMY_MESSAGE_BYTES);
	(void)snprintf(call->text, sizeof(call->text), "opcode 0x%02x of shard %u under epoch %u",
	    request.opcode, request.id.shard, request.epoch);
	call_send(call, WIRE_HEADER_BYTES + bytes);
}

static void
on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct enemy_call *call = arg;
	const struct deed *deed = call->deed;

	(void)qp;
	(void)hello;
	(void)hello_bytes;
	call->is_ready = true;
	if (deed != NULL && deed->then == THEN_NOTHING)
		sim_cluster_fail(call->enemy->cluster,
		    "enemy: %s %u has let in who has %s key%s, as a %s%s",
		    deed->is_at_node ? "node" : "gateway", call->index + 1, enemy_name(deed),
		    deed->is_alien ? " of another authority" : "",
		    deed->role == WIRE_ROLE_GATEWAY ? "gateway" : "client",
		    deed->wants_volume ? " of a volume" : "");
	if (deed != NULL && deed->then == THEN_NODE)
		call_send_node(call);
	else if (call->text[0] != '\0')
		call_send_control(call);
}

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct enemy_call *call = arg;

	for (uint32_t i = 0; i < count; i++) {
		bool is_reply = (msgs[i]->header->opcode & WIRE_REPLY) != 0;

		call->is_answered = call->is_answered || is_reply;
		call->rc = status_to_errno(msgs[i]->header->status);
		if (is_reply && call->deed != NULL && call->rc == 0)
			sim_cluster_fail(call->enemy->cluster,
			    "enemy: %s %u has done what %s wanted: %s",
			    call->deed->is_at_node ? "node" : "gateway", call->index + 1,
			    enemy_name(call->deed), call->text);
		split_msg_release(msgs[i]);
	}
	if (call->is_answered)
		split_qp_close(qp);
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct enemy_call *call = arg;

	(void)qp;
	sim_world_trace(call->enemy->cluster->world, "enemy %s ends rc=%d %s",
	    call->deed == NULL ? "none" : enemy_name(call->deed), rc, reason == NULL ? "" : reason);
	call->qp = NULL;
}

static const struct split_qp_ops call_ops = { .on_ready = on_ready,
	.on_messages = on_messages,
	.on_closed = on_closed };

/* ---- its deeds ---- */

static const struct mt_volume_entry *
volume_find(const struct sim_enemy *enemy, uint32_t gateway)
{
	struct mt_gateway *own = enemy->cluster->gateways[gateway].gateway;

	if (own == NULL)
		return NULL;
	return mt_volumes_by_name(&own->volumes, enemy->volume);
}

static void
call_connect(struct enemy_call *call, struct split_port *port, const char *address,
    const struct wire_hello *hello)
{
	uint8_t bytes[WIRE_HELLO_BYTES];

	wire_hello_encode(bytes, hello);
	call->is_ready = call->is_answered = false;
	call->rc = 0;
	call->qp = connect_qp(port,
	    &(struct split_connect_options){ .address = address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &call_ops,
		.arg = call,
		.peer_roles = SPLIT_ROLE_GATEWAY | SPLIT_ROLE_NODE });
}

/* False: what it is after is not there now. */
static bool
hello_make(struct sim_enemy *enemy, const struct deed *deed, uint32_t index,
    struct wire_hello *ret_hello)
{
	const struct mt_volume_entry *volume = NULL;

	*ret_hello = (struct wire_hello){ .level = CLEAVE_LEVEL_MAX,
		.role = (uint8_t)deed->role,
		.cluster_id = SIM_CLUSTER_ID };
	if (deed->is_at_node)
		return sim_enemy_node_hello(enemy->cluster, index, ret_hello);
	if (!deed->wants_volume)
		return enemy->cluster->gateways[index].is_ready;
	volume = volume_find(enemy, index);
	if (volume == NULL)
		return false;
	ret_hello->volume_id = volume->volume.id;
	ret_hello->session_id = random_u64(enemy->dice);
	ret_hello->attach = sim_enemy_below(enemy, 2) == 0 ? 0 : volume->volume.attach;
	ret_hello->incarnation = 1;
	return true;
}

static void
deed_begin(struct sim_enemy *enemy)
{
	const struct deed *deed = &deeds[sim_enemy_below(enemy, NUM_COUNT(deeds))];
	const struct sim_cluster *cluster = enemy->cluster;
	uint32_t count = deed->is_at_node ? cluster->options.node_count
					  : cluster->options.gateway_count;
	uint32_t index = sim_enemy_below(enemy, count);
	const char *operation = operations[sim_enemy_below(enemy, NUM_COUNT(operations))];
	struct wire_hello hello;

	if (!hello_make(enemy, deed, index, &hello))
		return;
	enemy->call = (struct enemy_call){ .enemy = enemy, .deed = deed, .index = index };
	if (deed->then == THEN_CONTROL) {
		const char *place = strstr(operation, "%s");
		int before = place == NULL ? (int)strlen(operation) : (int)(place - operation);

		(void)snprintf(enemy->call.text, sizeof(enemy->call.text), "%.*s%s%s", before,
		    operation, place == NULL ? "" : enemy->volume, place == NULL ? "" : place + 2);
	}
	sim_world_trace(cluster->world, "enemy %s at %s %u", enemy_name(deed),
	    deed->is_at_node ? "node" : "gateway", index + 1);
	call_connect(&enemy->call, port_get(enemy, deed->subject, deed->is_alien),
	    deed->is_at_node ? cluster->nodes[index].address : cluster->gateways[index].address,
	    &hello);
	enemy->deed_count += enemy->call.qp != NULL;
	if (enemy->call.qp != NULL)
		loop_timer_start(enemy->loop, &enemy->deed_timer, ENEMY_DEED_NS);
}

static void
on_deed_timer(struct loop_timer *timer, void *arg)
{
	struct sim_enemy *enemy = arg;

	(void)timer;
	if (enemy->call.qp != NULL)
		split_qp_close(enemy->call.qp);
}

static void
on_tick(struct loop_timer *timer, void *arg)
{
	struct sim_enemy *enemy = arg;

	if (enemy->is_finishing)
		return;
	loop_timer_start(enemy->loop, timer,
	    ENEMY_TICK_NS / 2 + random_below(enemy->dice, ENEMY_TICK_NS));
	if (enemy->call.qp == NULL)
		deed_begin(enemy);
	sim_imposter_come(enemy->imposter, sim_enemy_below(enemy, 1u << 20));
}

/* ---- a right that is taken ---- */

static bool
call_is_over(void *arg)
{
	return ((const struct enemy_call *)arg)->qp == NULL;
}

static bool
guest_is_ready(void *arg)
{
	const struct enemy_call *call = arg;

	return call->qp == NULL || call->is_ready;
}

/* As the operator, until a gateway has done it. */
static void
operator_ask(struct sim_enemy *enemy, const char *text, uint64_t limit_ns)
{
	const struct wire_hello hello = { .level = CLEAVE_LEVEL_MAX,
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = SIM_CLUSTER_ID };
	uint64_t end_ns = sim_world_now_ns(enemy->cluster->world) + limit_ns;
	struct enemy_call *call = &enemy->call;

	for (uint32_t i = 0;; i = (i + 1) % enemy->cluster->options.gateway_count) {
		*call = (struct enemy_call){ .enemy = enemy, .index = i };
		(void)snprintf(call->text, sizeof(call->text), "%s", text); /* fits */
		call_connect(call, port_get(enemy, SIM_KEY_OPERATOR, false),
		    enemy->cluster->gateways[i].address, &hello);
		sim_cluster_run_until(enemy->cluster, call_is_over, call, limit_ns,
		    "an operator is answered");
		if (call->is_answered && (call->rc == 0 || call->rc == -EEXIST))
			return;
		if (sim_world_now_ns(enemy->cluster->world) > end_ns)
			sim_cluster_fail(enemy->cluster,
			    "an operator's request waited in vain: rc=%d %s", call->rc, text);
		sim_cluster_run(enemy->cluster, NUM_MS(500));
	}
}

static bool
guest_connect(struct sim_enemy *enemy, uint64_t limit_ns)
{
	uint32_t index = sim_enemy_below(enemy, enemy->cluster->options.gateway_count);
	const struct mt_volume_entry *volume = volume_find(enemy, index);
	struct wire_hello hello = { .level = CLEAVE_LEVEL_MAX,
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = SIM_CLUSTER_ID,
		.session_id = random_u64(enemy->dice),
		.incarnation = 1 };

	if (volume == NULL)
		return false;
	hello.volume_id = volume->volume.id;
	enemy->guest = (struct enemy_call){ .enemy = enemy, .index = index };
	call_connect(&enemy->guest, port_get(enemy, "client/guest", false),
	    enemy->cluster->gateways[index].address, &hello);
	sim_cluster_run_until(enemy->cluster, guest_is_ready, &enemy->guest, limit_ns,
	    "a client with a right is answered");
	return enemy->guest.is_ready && enemy->guest.qp != NULL;
}

static void
guest_is_cut(struct sim_enemy *enemy, uint64_t limit_ns)
{
	uint64_t end_ns = sim_world_now_ns(enemy->cluster->world) + limit_ns;

	operator_ask(enemy,
	    "{\"op\":\"user.add\",\"name\":\"guest\",\"rights\":[{\"volumes\":\"*\",\"may\":\"r\"}]}",
	    limit_ns);
	operator_ask(enemy, "{\"op\":\"user.set\",\"name\":\"guest\",\"disabled\":false}",
	    limit_ns);
	while (!guest_connect(enemy, limit_ns)) {
		if (sim_world_now_ns(enemy->cluster->world) > end_ns)
			sim_cluster_fail(enemy->cluster,
			    "a client with a right waited in vain for its session");
		sim_cluster_run(enemy->cluster, NUM_MS(500));
	}
	operator_ask(enemy, "{\"op\":\"user.set\",\"name\":\"guest\",\"disabled\":true}", limit_ns);
	sim_cluster_run_until(enemy->cluster, call_is_over, &enemy->guest, ENEMY_CUT_NS,
	    "a session whose right was taken is cut off");
	if (guest_connect(enemy, limit_ns))
		sim_cluster_fail(enemy->cluster,
		    "enemy: who has lost its right has come back to gateway %u",
		    enemy->guest.index + 1);
}

/* ---- its life ---- */

static void
on_node_start(uint32_t index, void *arg)
{
	struct sim_enemy *enemy = arg;

	sim_imposter_leave(enemy->imposter, index);
}

struct sim_enemy *
sim_enemy_create(struct sim_cluster *cluster, const char *volume, uint64_t seed)
{
	struct sim_enemy *enemy = calloc(1, sizeof(*enemy));

	assert(enemy != NULL && cluster->keys != NULL);
	enemy->cluster = cluster;
	(void)snprintf(enemy->volume, sizeof(enemy->volume), "%s", volume); /* fits */
	random_seed(enemy->dice, seed * 2 + 19);
	enemy->host = sim_host_create(cluster->net, "enemy");
	assert(enemy->host != NULL);
	if (!sim_host_is_up(enemy->host))
		sim_host_start(enemy->host);
	enemy->loop = sim_cluster_loop_create(cluster, enemy->host);
	enemy->imposter = sim_imposter_create(cluster);
	cluster->on_node_start = on_node_start;
	cluster->on_node_start_arg = enemy;
	loop_timer_init(&enemy->tick_timer, on_tick, enemy);
	loop_timer_init(&enemy->deed_timer, on_deed_timer, enemy);
	loop_timer_start(enemy->loop, &enemy->tick_timer, ENEMY_TICK_NS);
	return enemy;
}

void
sim_enemy_finish(struct sim_enemy *enemy, uint64_t limit_ns)
{
	if (enemy == NULL)
		return;
	enemy->is_finishing = true;
	sim_imposter_leave(enemy->imposter, SIM_NODES_MAX);
	sim_cluster_run_until(enemy->cluster, call_is_over, &enemy->call, limit_ns,
	    "an enemy is answered");
	guest_is_cut(enemy, limit_ns);
	loop_timer_stop(enemy->loop, &enemy->tick_timer);
	loop_timer_stop(enemy->loop, &enemy->deed_timer);
}

void
sim_enemy_destroy(struct sim_enemy *enemy)
{
	if (enemy == NULL)
		return;
	enemy->cluster->on_node_start = NULL;
	sim_imposter_destroy(enemy->imposter);
	sim_host_kill(enemy->host, SIM_DEATH_RESET);
	loop_destroy(enemy->loop);
	free(enemy);
}

uint64_t
sim_enemy_deed_count(const struct sim_enemy *enemy)
{
	return enemy == NULL ? 0 : enemy->deed_count + sim_imposter_count(enemy->imposter);
}
