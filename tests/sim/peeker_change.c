/* SPDX-License-Identifier: Apache-2.0 */
/* peeker_change.c -- see peeker_change.h */
#include "peeker_change.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "cluster.h"
#include "history.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_state.h"
#include "middletier/read/hot_inside.h"
#include "middletier/read/read_path.h"
#include "peeker.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"
#include "vm-client/library/internal.h"
#include "workload.h"

#define POLL_NS NUM_US(200)
#define LEFT_MAX_NS NUM_MS(40) /* of the gateway's lease, when it stands still */
#define LEFT_MIN_NS NUM_MS(5)
#define STORED_NS NUM_MS(3) /* in which a write gets to the nodes */
#define STILL_NS NUM_S(3)   /* longer than leases */
#define BLOCKS_MAX 8u       /* which change together, where nothing but changes happens */
#define WARM_MAX 16u        /* that are read before, so that they are shown */
#define WARM_AT_ONCE 2u
#define WARM_TRIES 512u

enum change_state {
	CHANGE_NONE,
	CHANGE_WAITED_FOR, /* for the gateway's lease to be about to end, while it shows a block */
	CHANGE_STORED,     /* that is written; the gateway does not hear that it is stored */
	CHANGE_STILL,      /* the gateway stands: until another one serves the shard */
	CHANGE_READ,       /* somebody opens the volume there, and reads the block */
};

/* A block's, beside the session. */
struct change_read {
	struct sim_peeker_change *change;
	struct cleave_io io;
	uint32_t block;
	uint32_t number; /* of the read */
	uint32_t floors[HISTORY_BLOCKS_MAX];
	uint8_t data[CLEAVE_BLOCK_BYTES];
};

struct sim_peeker_change {
	struct sim_cluster *cluster;
	enum change_state state;
	struct workload *workload;
	uint32_t gateway;
	void *process;                            /* its meta, which is cut off from the store */
	uint32_t blocks[BLOCKS_MAX], block_count; /* of one shard */
	uint64_t stored_ns;                       /* of the world: by then they are */
	struct sim_host *cut_off; /* the session's, from other gateways; NULL: it is not */
	uint32_t warm[WARM_MAX], warm_count, warm_next; /* blocks that are read before */
	struct loop_timer timer;
	/* A reader beside the session; NULL: there is none. */
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *volume;
	struct change_read reads[BLOCKS_MAX];
};

struct sim_peeker_change *
sim_peeker_change_create(struct sim_cluster *cluster)
{
	struct sim_peeker_change *change = calloc(1, sizeof(*change));

	assert(change != NULL);
	change->cluster = cluster;
	change->host = sim_host_create(cluster->net, "beside");
	assert(change->host != NULL);
	return change;
}

/* ---- what is there ---- */

static uint64_t
offset_of(const struct sim_peeker_change *change, uint32_t block)
{
	return history_offset(workload_history(change->workload), block);
}

static uint32_t
shard_of(const struct sim_peeker_change *change, uint32_t block)
{
	const struct cleave_volume_info *info = &workload_volume(change->workload)->info;
	uint64_t offset_bytes = offset_of(change, block);

	return wire_shard_of(info->segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
	    offset_bytes % CLEAVE_SEGMENT_BYTES, change->cluster->options.shard_count);
}

/* Does the table of @port show the block to its session? */
static bool
port_shows(const struct mt_port *port, uint64_t volume, uint64_t segment, uint32_t block)
{
	const struct mt_hot *hot = port->read == NULL ? NULL : port->read->hot;

	for (uint32_t i = 0; hot != NULL && i < hot->set_count * HOT_WAYS; i++) {
		const struct mt_hot_slot *slot = &hot->slots[i];

		if (slot->is_shown && slot->key.segment == segment && slot->key.block == block &&
		    slot->key.object != NULL && slot->key.object->volume == volume)
			return true;
	}
	return false;
}

static bool
is_shown(const struct sim_peeker_change *change, uint32_t block)
{
	const struct mt_gateway *gateway = change->cluster->gateways[change->gateway].gateway;
	const struct cleave_volume_info *info = &workload_volume(change->workload)->info;
	uint64_t offset_bytes = offset_of(change, block);
	uint64_t segment = info->segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES;
	uint32_t at = (uint32_t)(offset_bytes % CLEAVE_SEGMENT_BYTES / CLEAVE_BLOCK_BYTES);

	for (uint32_t i = 0; gateway != NULL && i < gateway->port_count; i++) {
		if (port_shows(&gateway->ports[i], info->id, segment, at))
			return true;
	}
	return false;
}

/* Does gateway @index serve the shard of @block? */
static bool
serves(const struct sim_peeker_change *change, uint32_t index, uint32_t block)
{
	const struct mt_gateway *gateway = change->cluster->gateways[index].gateway;
	uint32_t shard = shard_of(change, block);

	for (uint32_t p = 0; gateway != NULL && p < gateway->port_count; p++) {
		struct mt_shard **shards = gateway->ports[p].shard_by_number;

		if (shards != NULL && shards[shard] != NULL &&
		    shards[shard]->sm.state == MT_SHARD_SERVING)
			return true;
	}
	return false;
}

/* Blocks of one shard of the gateway's that were written some time. */
static void
choose_warm(struct sim_peeker_change *change)
{
	struct sim_cluster *cluster = change->cluster;
	const struct history *history = workload_history(change->workload);
	uint32_t count = history_block_count(history);
	uint32_t *numbers = calloc(count, sizeof(*numbers));

	assert(numbers != NULL);
	history_happened(history, numbers);
	change->warm_count = change->warm_next = 0;
	for (uint32_t i = 0; i < WARM_TRIES && change->warm_count < WARM_MAX; i++) {
		uint32_t block = sim_cluster_below(cluster, count);

		if (numbers[block] == 0 || !serves(change, change->gateway, block) ||
		    (change->warm_count > 0 &&
			shard_of(change, block) != shard_of(change, change->warm[0])))
			continue;
		change->warm[change->warm_count++] = block;
	}
	free(numbers);
}

static bool
is_among(const struct sim_peeker_change *change, uint32_t block)
{
	for (uint32_t i = 0; i < change->block_count; i++) {
		if (change->blocks[i] == block)
			return true;
	}
	return false;
}

/* Blocks that the session has peeked at, newest first, and that are shown to it yet; of the first one's shard. */
static void
choose_blocks(struct sim_peeker_change *change)
{
	uint32_t max = sim_peeks_are_changing(change->cluster->options.seed) ? BLOCKS_MAX : 1;
	uint32_t block;

	change->block_count = 0;
	for (uint32_t i = 0;
	     change->block_count < max && workload_peeked_block(change->workload, i, &block); i++) {
		if (is_shown(change, block) && !is_among(change, block) &&
		    (change->block_count == 0 ||
			shard_of(change, block) == shard_of(change, change->blocks[0])))
			change->blocks[change->block_count++] = block;
	}
}

/* Blocks whose change the gateway has heard of are passed over. */
static void
keep_shown(struct sim_peeker_change *change)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < change->block_count; i++) {
		if (is_shown(change, change->blocks[i]))
			change->blocks[count++] = change->blocks[i];
	}
	change->block_count = count;
}

/* Another gateway that serves the blocks' shard; NULL: none does yet. */
static struct sim_cluster_gateway *
heir_of(const struct sim_peeker_change *change)
{
	struct sim_cluster *cluster = change->cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		if (i != change->gateway && serves(change, i, change->blocks[0]))
			return &cluster->gateways[i];
	}
	return NULL;
}

/* ---- who reads beside ---- */

static void
beside_end(struct sim_peeker_change *change)
{
	if (change->client == NULL)
		return;
	sim_host_kill(change->host, SIM_DEATH_RESET);
	cleave_client_destroy(change->client);
	loop_destroy(change->loop);
	change->client = NULL;
	change->volume = NULL;
}

static void
beside_on_read(struct cleave_io *io, int rc, void *arg)
{
	struct change_read *read = arg;
	struct sim_peeker_change *change = read->change;

	assert(io == &read->io && change->state == CHANGE_READ);
	sim_world_trace(change->cluster->world, "peeker: block %u was read there rc=%d",
	    read->block, rc);
	if (rc != 0)
		return;
	history_read(workload_history(change->workload), read->number, read->data, read->floors);
	workload_ask(change->workload, read->block, false);
}

static void
beside_read(struct sim_peeker_change *change, uint32_t index)
{
	struct change_read *read = &change->reads[index];
	const struct history_op op = { .op = CLEAVE_READ,
		.is_beside = true,
		.first_block = change->blocks[index],
		.block_count = 1 };

	read->change = change;
	read->block = change->blocks[index];
	read->number = history_submit(workload_history(change->workload), &op, read->floors);
	read->io = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = offset_of(change, read->block),
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.data = read->data,
		.fn = beside_on_read,
		.arg = read };
	if (cleave_submit(change->volume, &read->io) != 0)
		sim_cluster_fail(change->cluster, "a reader's request is refused");
}

static void
beside_on_opened(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct sim_peeker_change *change = arg;

	(void)error;
	if (rc != 0)
		return;
	change->volume = volume;
	for (uint32_t i = 0; i < change->block_count; i++)
		beside_read(change, i);
}

static void
beside_begin(struct sim_peeker_change *change, const struct sim_cluster_gateway *heir)
{
	const char *gateways[] = { heir->address };
	struct cleave_client_options client = { .gateways = gateways,
		.gateway_count = 1,
		.io_timeout_ns = STILL_NS,
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	if (!sim_host_is_up(change->host))
		sim_host_start(change->host);
	change->loop = sim_cluster_loop_create(change->cluster, change->host);
	client.loop = change->loop;
	client.sim_host = change->host;
	if (cleave_client_create(&client, &change->client, error) != 0)
		sim_cluster_fail(change->cluster, "client: %s", error);
	if (cleave_volume_open(change->client, workload_name(change->workload),
		CLEAVE_OPEN_READ_ONLY, beside_on_opened, change) != 0)
		sim_cluster_fail(change->cluster, "a reader cannot open");
}

/* ---- its course ---- */

/* Answers of nodes to the gateway are cut off, or get there again. */
static void
cut_answers(struct sim_peeker_change *change, bool is_cut)
{
	struct sim_cluster *cluster = change->cluster;

	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_host *node = cluster->nodes[i].host;
		struct sim_host *gateway = cluster->gateways[change->gateway].host;

		if (is_cut)
			sim_net_cut(node, gateway);
		else
			sim_net_heal(node, gateway);
	}
}

/* The next owner would tell the session where the shard is: it would read there. */
static void
cut_session(struct sim_peeker_change *change)
{
	struct sim_cluster *cluster = change->cluster;

	if (!sim_peeks_are_changing(cluster->options.seed))
		return;
	change->cut_off = workload_host(change->workload);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (i != change->gateway)
			sim_net_partition(change->cut_off, cluster->gateways[i].host);
}

static void
join_session(struct sim_peeker_change *change)
{
	struct sim_cluster *cluster = change->cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count && change->cut_off != NULL; i++)
		if (i != change->gateway)
			sim_net_join(change->cut_off, cluster->gateways[i].host);
	change->cut_off = NULL;
}

/* Nothing but what is shown is asked for, and shown; or the session goes on. */
static void
rest(struct sim_peeker_change *change, bool is_resting)
{
	if (!sim_peeks_are_changing(change->cluster->options.seed))
		return;
	if (is_resting)
		choose_warm(change);
	workload_rest(change->workload, is_resting);
}

static bool
is_over(const struct sim_peeker_change *change)
{
	return change->cluster->gateways[change->gateway].meta != change->process ||
	    change->cluster->gateways[change->gateway].gateway == NULL ||
	    !workload_is_held(change->workload);
}

/* How long the gateway believes in its lease yet. */
static uint64_t
left_ns(const struct sim_peeker_change *change)
{
	const struct sim_cluster_gateway *own = &change->cluster->gateways[change->gateway];
	uint64_t until_ns = mt_lease_until_ns(&own->gateway->shared),
		 now_ns = mt_lease_now_ns(own->loop);

	return until_ns > now_ns ? until_ns - now_ns : 0;
}

static void
read_warm(struct sim_peeker_change *change)
{
	for (uint32_t i = 0; i < WARM_AT_ONCE && change->warm_count > 0; i++)
		workload_ask(change->workload,
		    change->warm[change->warm_next++ % change->warm_count], false);
}

static void
on_waited_for(struct sim_peeker_change *change)
{
	read_warm(change);
	if (left_ns(change) > LEFT_MAX_NS)
		return;
	choose_blocks(change);
	if (change->block_count == 0)
		return;
	cut_answers(change, true);
	for (uint32_t i = 0; i < change->block_count; i++)
		workload_ask(change->workload, change->blocks[i], true);
	change->state = CHANGE_STORED;
	change->stored_ns = sim_world_now_ns(change->cluster->world) + STORED_NS;
}

static void
on_stored(struct sim_peeker_change *change)
{
	struct sim_cluster_gateway *own = &change->cluster->gateways[change->gateway];
	uint64_t now_ns = sim_world_now_ns(change->cluster->world);

	if (now_ns < change->stored_ns)
		return;
	cut_answers(change, false);
	keep_shown(change);
	if (change->block_count == 0) {
		change->state = CHANGE_WAITED_FOR;
		return;
	}
	sim_world_trace(change->cluster->world, "peeker: gateway %u stands still, %u blocks change",
	    change->gateway + 1, change->block_count);
	sim_loop_pause(own->loop, STILL_NS);
	own->still_until_ns = now_ns + STILL_NS;
	sim_store_ring(change->cluster->store, own->meta, false);
	cut_session(change);
	rest(change, false);
	change->state = CHANGE_STILL;
}

static void
on_still(struct sim_peeker_change *change)
{
	struct sim_cluster_gateway *heir = heir_of(change);

	if (heir == NULL)
		return;
	sim_world_trace(change->cluster->world, "peeker: gateway %u serves it", heir->index + 1);
	change->state = CHANGE_READ;
	beside_begin(change, heir);
}

static void
change_on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_peeker_change *change = arg;

	assert(timer == &change->timer);
	if (is_over(change) || (change->state < CHANGE_STILL && left_ns(change) < LEFT_MIN_NS)) {
		sim_world_trace(change->cluster->world, "peeker: no block changes, state %d",
		    (int)change->state);
		if (change->state == CHANGE_STORED)
			cut_answers(change, false);
		rest(change, false);
		change->state = CHANGE_NONE;
		return;
	}
	if (change->state == CHANGE_WAITED_FOR)
		on_waited_for(change);
	else if (change->state == CHANGE_STORED)
		on_stored(change);
	else if (change->state == CHANGE_STILL)
		on_still(change);
	if (change->state != CHANGE_READ)
		loop_timer_start(sim_world_nature(change->cluster->world), timer, POLL_NS);
}

void
sim_peeker_change_begin(struct sim_peeker_change *change, struct workload *workload,
    uint32_t gateway)
{
	struct sim_cluster_gateway *own = &change->cluster->gateways[gateway];

	assert(change->state == CHANGE_NONE && own->meta != NULL);
	change->workload = workload;
	change->gateway = gateway;
	change->process = own->meta;
	change->state = CHANGE_WAITED_FOR;
	sim_world_trace(change->cluster->world, "peeker: a block of %s is to change at gateway %u",
	    workload_name(workload), gateway + 1);
	sim_store_cut_off(change->cluster->store, own->meta, true);
	rest(change, true);
	loop_timer_init(&change->timer, change_on_timer, change);
	loop_timer_start(sim_world_nature(change->cluster->world), &change->timer, POLL_NS);
}

bool
sim_peeker_change_is_over(const struct sim_peeker_change *change)
{
	return change->process != NULL && change->state == CHANGE_NONE;
}

void
sim_peeker_change_heal(struct sim_peeker_change *change)
{
	if (change->process == NULL)
		return;
	loop_timer_stop(sim_world_nature(change->cluster->world), &change->timer);
	if (change->state == CHANGE_STORED)
		cut_answers(change, false);
	if (change->cluster->gateways[change->gateway].meta == change->process)
		sim_store_cut_off(change->cluster->store, change->process, false);
	beside_end(change);
	join_session(change);
	rest(change, false);
	change->process = NULL;
	change->state = CHANGE_NONE;
}

void
sim_peeker_change_destroy(struct sim_peeker_change *change)
{
	sim_peeker_change_heal(change);
	free(change);
}
