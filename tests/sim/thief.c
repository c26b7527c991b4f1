/* SPDX-License-Identifier: Apache-2.0 */
/* thief.c -- see thief.h */
#include "thief.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "leases.h"
#include "run.h"
#include "storage-node/node_state.h"
#include "storage-node/permit.h"
#include "vm-client/library/internal.h"

#define THIEF_SALT UINT64_C(8643)
#define THIEF_SEEDS 2u /* of those whose sessions read at nodes */
#define THIEF_TICK_NS NUM_MS(100)
#define THIEF_VISIT_NS NUM_S(10) /* then it goes, answered or not */
#define THIEF_READS_MAX 24u      /* of a visit */
#define THIEF_LOOT 16u           /* tickets, of as many attaches */
#define THIEF_AGAIN 16u /* of so many maps of one attach another takes the place of the last */
#define THIEF_READ_BYTES 4096u

/* A ticket for each of a source's copies, and whose they are. */
struct loot {
	uint64_t volume_id, attach, session_id;
	struct wire_map_source source;
};

struct sim_thief {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct split_port *port;
	struct loop_timer tick_timer;
	struct loot loot[THIEF_LOOT];
	uint32_t loot_count; /* ever; the newest took the oldest one's place */
	bool is_finishing;
	uint64_t refused_count;
	/* A visit. */
	struct split_qp *qp; /* NULL: none */
	uint64_t began_ns;   /* of the world */
	uint32_t index;      /* of the node */
	struct loot shown;
	uint32_t copy; /* of it, at that node */
	bool is_other; /* it came as a session of its own */
	bool is_ready; /* connected */
	bool is_taken; /* the ticket was believed */
	bool is_out;   /* an answer is to come */
	bool is_sending;
	bool must_fail; /* what was asked last */
	uint32_t read_count;
	struct split_send send;
	struct dev_piece piece;
	struct wire_header header;
};

bool
sim_thief_is_in(uint64_t seed)
{
	return sim_leases_are_direct(seed) && !sim_run_has_keys(seed) &&
	    sim_run_hash(seed, THIEF_SALT) % THIEF_SEEDS == 0;
}

static uint32_t
below(struct sim_thief *thief, uint32_t limit)
{
	return (uint32_t)random_below(thief->dice, limit);
}

/* ---- loot ---- */

static struct loot *
loot_of(struct sim_thief *thief, uint64_t volume_id, uint64_t attach)
{
	for (uint32_t i = 0; i < num_min(thief->loot_count, THIEF_LOOT); i++) {
		if (thief->loot[i].volume_id == volume_id && thief->loot[i].attach == attach)
			return &thief->loot[i];
	}
	return NULL;
}

void
sim_thief_note(struct sim_thief *thief, const struct cleave_volume *volume,
    const struct wire_map_source *source)
{
	struct loot *loot;

	if (thief == NULL || source == NULL)
		return;
	loot = loot_of(thief, volume->info.id, volume->info.attach);
	if (loot != NULL && below(thief, THIEF_AGAIN) != 0)
		return;
	if (loot == NULL)
		loot = &thief->loot[thief->loot_count++ % THIEF_LOOT];
	*loot = (struct loot){ volume->info.id, volume->info.attach, volume->session_id, *source };
}

/* ---- what a node may not believe ---- */

/* Has a fence come to the node that ends tickets of the attach? Fences last as long as the process, and its connections. */
static bool
is_fenced(const struct sim_thief *thief)
{
	const struct node *node = thief->cluster->nodes[thief->index].node;

	return node != NULL &&
	    thief->shown.attach < sn_permit_fenced_below(node, thief->shown.volume_id);
}

static void
thief_judge(struct sim_thief *thief, bool is_believed, const char *what)
{
	if (!is_believed) {
		thief->refused_count += thief->must_fail;
		return;
	}
	if (!thief->must_fail)
		return;
	sim_cluster_fail(thief->cluster,
	    "thief: node %" PRIu32 " believes %s by a ticket of %s, volume %" PRIu64
	    " attach %" PRIu64,
	    thief->index + 1, what,
	    thief->is_other ? "another session" : "a session that is put out",
	    thief->shown.volume_id, thief->shown.attach);
}

/* ---- a visit ---- */

static void
on_sent(struct split_send *send, int rc, void *arg)
{
	struct sim_thief *thief = arg;

	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	thief->is_sending = false;
}

static void
thief_send(struct sim_thief *thief, bool has_payload)
{
	assert(!thief->is_sending && !thief->is_out);
	thief->send = (struct split_send){ .header = &thief->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &thief->piece,
		.piece_count = has_payload,
		.fn = on_sent,
		.arg = thief };
	thief->is_sending = thief->is_out = split_send(thief->qp, &thief->send) == 0;
	if (!thief->is_out)
		split_qp_close(thief->qp);
}

static void
thief_show(struct sim_thief *thief)
{
	const struct wire_map_source *source = &thief->shown.source;
	struct wire_ticket ticket = { .id = extent_id_unpack(source->extent),
		.from_bytes = source->from_bytes,
		.to_bytes = source->to_bytes,
		.volume_id = thief->shown.volume_id,
		.attach = thief->shown.attach,
		.key_number = source->copies[thief->copy].key_number };
	uint8_t bytes[WIRE_TICKET_BYTES];

	memcpy(ticket.mac, source->copies[thief->copy].mac, sizeof(ticket.mac));
	wire_ticket_encode(bytes, &ticket);
	dev_copy_from_host(thief->port, thief->piece.ptr, bytes, sizeof(bytes));
	thief->must_fail = thief->is_other || is_fenced(thief);
	wire_direct_encode(&thief->header,
	    &(struct wire_direct){ .opcode = WIRE_TICKETS, .request_id = 1, .ticket_count = 1 });
	thief_send(thief, true);
}

static void
thief_read(struct sim_thief *thief)
{
	const struct wire_map_source *source = &thief->shown.source;

	thief->read_count++;
	thief->must_fail = thief->is_other || !thief->is_taken || is_fenced(thief);
	wire_direct_encode(&thief->header,
	    &(struct wire_direct){ .opcode = WIRE_DIRECT_READ,
		.request_id = 2,
		.id = extent_id_unpack(source->extent),
		.offset_bytes = source->from_bytes,
		.length_bytes =
		    (uint32_t)num_min(source->to_bytes - source->from_bytes, THIEF_READ_BYTES) });
	thief_send(thief, false);
}

static void
on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct sim_thief *thief = arg;

	(void)qp;
	(void)hello;
	(void)hello_bytes;
	thief->is_ready = true;
	thief_show(thief);
}

static void
thief_take(struct sim_thief *thief, const struct split_msg *msg)
{
	struct wire_node_reply reply;
	const char *field;

	if (wire_node_reply_decode(msg->header, &reply, &field) != 0 || !thief->is_out)
		sim_cluster_fail(thief->cluster, "thief: node %" PRIu32 " says something else",
		    thief->index + 1);
	thief->is_out = false;
	if (reply.opcode == WIRE_TICKETS) {
		thief->is_taken = reply.rc == 0 && (reply.offset_bytes & 1) != 0;
		thief_judge(thief, thief->is_taken, "who comes");
	} else {
		thief_judge(thief, reply.rc == 0, "who reads");
	}
}

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		thief_take(arg, msgs[i]);
		split_msg_release(msgs[i]);
	}
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct sim_thief *thief = arg;

	(void)qp;
	sim_world_trace(thief->cluster->world, "thief leaves rc=%d %s", rc,
	    reason == NULL ? "" : reason);
	thief->qp = NULL;
	thief->is_out = false;
}

static const struct split_qp_ops visit_ops = { .on_ready = on_ready,
	.on_messages = on_messages,
	.on_closed = on_closed };

static uint32_t
node_find(const struct sim_cluster *cluster, uint32_t node_id)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		const struct sim_cluster_node *own = &cluster->nodes[i];

		if (own->node != NULL && own->is_ready && own->node->super.node_id == node_id)
			return i;
	}
	return SIM_NODES_MAX;
}

static void
visit_begin(struct sim_thief *thief)
{
	struct wire_hello hello = { .level = CLEAVE_LEVEL_MAX,
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = SIM_CLUSTER_ID };
	uint8_t bytes[WIRE_HELLO_BYTES];

	if (thief->loot_count == 0)
		return;
	thief->shown = thief->loot[below(thief, (uint32_t)num_min(thief->loot_count, THIEF_LOOT))];
	thief->copy = below(thief, CLEAVE_COPIES);
	thief->index = node_find(thief->cluster, thief->shown.source.copies[thief->copy].node_id);
	if (thief->index == SIM_NODES_MAX)
		return;
	thief->is_other = below(thief, 2) == 0;
	hello.session_id = thief->is_other ? random_u64(thief->dice) | 1 : thief->shown.session_id;
	thief->is_ready = thief->is_taken = thief->is_out = false;
	thief->read_count = 0;
	thief->began_ns = sim_world_now_ns(thief->cluster->world);
	wire_hello_encode(bytes, &hello);
	sim_world_trace(thief->cluster->world, "thief at node %u as %s", thief->index + 1,
	    thief->is_other ? "somebody else" : "who has the ticket");
	thief->qp = connect_qp(thief->port,
	    &(struct split_connect_options){ .address = thief->cluster->nodes[thief->index].address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &visit_ops,
		.arg = thief,
		.peer_roles = SPLIT_ROLE_NODE });
}

static void
on_tick(struct loop_timer *timer, void *arg)
{
	struct sim_thief *thief = arg;
	uint64_t now_ns = sim_world_now_ns(thief->cluster->world);

	if (!thief->is_finishing)
		loop_timer_start(thief->loop, timer,
		    THIEF_TICK_NS / 2 + random_below(thief->dice, THIEF_TICK_NS));
	if (thief->qp == NULL) {
		if (!thief->is_finishing)
			visit_begin(thief);
	} else if (thief->is_finishing || thief->read_count == THIEF_READS_MAX ||
	    now_ns - thief->began_ns > THIEF_VISIT_NS) {
		split_qp_close(thief->qp);
	} else if (thief->is_ready && !thief->is_out && !thief->is_sending) {
		thief_read(thief);
	}
}

/* ---- its life ---- */

struct sim_thief *
sim_thief_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_thief *thief;

	if (!cluster->options.has_direct || !sim_thief_is_in(seed) || cluster->keys != NULL)
		return NULL;
	thief = calloc(1, sizeof(*thief));
	assert(thief != NULL);
	thief->cluster = cluster;
	random_seed(thief->dice, sim_run_hash(seed, THIEF_SALT));
	thief->host = sim_host_create(cluster->net, "thief");
	assert(thief->host != NULL);
	if (!sim_host_is_up(thief->host))
		sim_host_start(thief->host);
	thief->loop = sim_cluster_loop_create(cluster, thief->host);
	thief->port = open_roce_instance(&(struct split_port_options){ .loop = thief->loop,
	    .sim_host = thief->host,
	    .host_bytes = NUM_KIB(256),
	    .device_bytes = NUM_MIB(1),
	    .receive_count = 4,
	    .receive_payload_bytes = NUM_KIB(64),
	    .qp_count_max = 4,
	    .keepalive_ns = NUM_S(5) });
	assert(thief->port != NULL);
	thief->piece = (struct dev_piece){ .ptr = dev_alloc(thief->port, WIRE_TICKET_BYTES),
		.bytes = WIRE_TICKET_BYTES };
	assert(!dev_ptr_is_null(thief->piece.ptr));
	loop_timer_init(&thief->tick_timer, on_tick, thief);
	loop_timer_start(thief->loop, &thief->tick_timer, THIEF_TICK_NS);
	return thief;
}

static bool
thief_is_gone(void *arg)
{
	return ((const struct sim_thief *)arg)->qp == NULL;
}

void
sim_thief_finish(struct sim_thief *thief, uint64_t limit_ns)
{
	if (thief == NULL)
		return;
	thief->is_finishing = true;
	sim_cluster_run_until(thief->cluster, thief_is_gone, thief, limit_ns,
	    "a thief has left its node");
	loop_timer_stop(thief->loop, &thief->tick_timer);
}

void
sim_thief_destroy(struct sim_thief *thief)
{
	if (thief == NULL)
		return;
	sim_host_kill(thief->host, SIM_DEATH_RESET);
	loop_destroy(thief->loop);
	free(thief);
}

uint64_t
sim_thief_count(const struct sim_thief *thief)
{
	return thief == NULL ? 0 : thief->refused_count;
}
