/* SPDX-License-Identifier: Apache-2.0 */
/* grouper.c -- see grouper.h */
#include "grouper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/client.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/common/alloc.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"

#define GROUPER_SALT UINT64_C(5813)
#define GROUPER_SEEDS 8u
#define GROUPER_LEVEL_SEED 6u /* of so many: processes of two releases */
#define GROUPER_VOLUMES 3u
#define GROUPER_CELLS 4u /* of a volume, each in a chunk of its own */
#define GROUPER_SLOTS (GROUPER_VOLUMES * GROUPER_CELLS)
#define GROUPER_KEPT 6u
#define GROUPER_WRITERS 2u
#define GROUPER_RETRY_NS NUM_MS(500)
#define GROUPER_PAUSE_NS NUM_S(2)
#define GROUPER_FAST_NS NUM_MS(500) /* so long after a question writers do not pause */
#define GROUPER_SLOW_NS NUM_MS(20)
#define GROUPER_DOUBT_NS NUM_S(60) /* a request whose answer was lost has ended by then */
#define GROUPER_TIMEOUT_NS NUM_S(20)
#define GROUPER_FOR_EVER_NS NUM_S(100000)
#define GROUPER_TEXT_BYTES 256u

enum grouper_step {
	GROUPER_CREATE, /* volume @at */
	GROUPER_ATTACH, /* its writer opens it */
	GROUPER_PREPARE,
	GROUPER_TAKE,
	GROUPER_LOOK,   /* into the store: all, or none */
	GROUPER_READ,   /* the group's snapshot @at */
	GROUPER_DELETE, /* likewise */
	GROUPER_DETACH,
	GROUPER_DROP,
	GROUPER_OVER,
};

enum group_state { GROUP_NONE, GROUP_DOUBTFUL, GROUP_REFUSED, GROUP_LIVE };

struct grouper_group {
	uint32_t serial;
	enum group_state state;
	bool is_deleting, is_known;
	uint64_t floor, ceiling; /* 0: the answer was lost */
	uint64_t newest;         /* known: what it held */
	uint64_t asked_ns;
	uint32_t found_count; /* of the list that came last */
};

struct sim_grouper {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client, *other, *writers[GROUPER_WRITERS];
	/* Writing. */
	struct cleave_volume *volumes[GROUPER_VOLUMES];
	struct cleave_io write;
	struct loop_timer write_timer;
	uint8_t write_data[CLEAVE_BLOCK_BYTES];
	uint64_t issued, acked, fast_until_ns;
	bool is_writing, is_stopping;
	/* The operator. */
	struct cleave_call call;
	struct loop_timer timer;
	enum grouper_step step;
	uint32_t at;
	bool is_busy, is_finishing;
	uint32_t serial, taken_count;
	struct grouper_group groups[GROUPER_KEPT];
	struct grouper_group *group;
	bool is_name_taken; /* of the group that is taken, for certain */
	/* The other one. */
	struct cleave_call other_call;
	struct loop_timer other_timer;
	bool is_other_busy;
	uint64_t grown_blocks;
	/* Reading. */
	struct cleave_volume *reading;
	struct cleave_io read;
	uint8_t read_data[CLEAVE_BLOCK_BYTES];
	uint32_t cell;
	uint64_t cells[GROUPER_SLOTS];
};

static uint32_t
below(struct sim_grouper *grouper, uint32_t limit)
{
	return (uint32_t)random_below(grouper->dice, limit);
}

static uint64_t
now_ns(const struct sim_grouper *grouper)
{
	return sim_world_now_ns(grouper->cluster->world);
}

static uint64_t
cell_offset(uint32_t cell)
{
	return cell * (NUM_MIB(64) + CLEAVE_BLOCK_BYTES);
}

static void
pause_for(struct sim_grouper *grouper, uint64_t ns)
{
	grouper->is_busy = false;
	loop_timer_start(grouper->loop, &grouper->timer, ns);
}

static void
again(struct sim_grouper *grouper)
{
	pause_for(grouper, GROUPER_RETRY_NS + random_below(grouper->dice, GROUPER_RETRY_NS));
}

static void
go_on(struct sim_grouper *grouper, enum grouper_step step, uint32_t at, uint64_t ns)
{
	grouper->step = step;
	grouper->at = at;
	pause_for(grouper, ns);
}

/* ---- writing ---- */

static void
on_written(struct cleave_io *io, int rc, void *arg)
{
	struct sim_grouper *grouper = arg;
	bool is_fast = now_ns(grouper) < grouper->fast_until_ns;

	(void)io;
	grouper->is_writing = false;
	if (rc == 0)
		grouper->acked = grouper->issued;
	if (grouper->is_stopping && rc == 0)
		return;
	/* The other client is told. One that was refused is written again. */
	loop_timer_start(grouper->loop, &grouper->write_timer,
	    1 +
		below(grouper,
		    rc == 0 && is_fast ? (uint32_t)NUM_US(100) : (uint32_t)GROUPER_SLOW_NS));
}

static void
on_write_timer(struct loop_timer *timer, void *arg)
{
	struct sim_grouper *grouper = arg;
	uint32_t slot;

	(void)timer;
	if (grouper->issued == grouper->acked) {
		if (grouper->is_stopping)
			return;
		grouper->issued++;
	}
	slot = (uint32_t)((grouper->issued - 1) % GROUPER_SLOTS);
	for (uint32_t i = 0; i < CLEAVE_BLOCK_BYTES / 8; i++)
		num_put_le64(grouper->write_data + (size_t)i * 8, grouper->issued);
	grouper->write = (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = cell_offset(slot / GROUPER_VOLUMES),
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.data = grouper->write_data,
		.fn = on_written,
		.arg = grouper };
	grouper->is_writing = true;
	if (cleave_submit(grouper->volumes[slot % GROUPER_VOLUMES], &grouper->write) != 0)
		sim_cluster_fail(grouper->cluster, "group: cleave_submit");
}

/* ---- asking ---- */

static void on_answer(struct cleave_call *call, int rc, const char *reply, const char *error,
    void *arg);

static void
ask(struct sim_grouper *grouper, const char *format, ...)
{
	char request[GROUPER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(request, sizeof(request), format, args);
	va_end(args);
	grouper->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = grouper };
	sim_world_trace(grouper->cluster->world, "grouper asks %s", request);
	if (cleave_control(grouper->client, &grouper->call, request) != 0)
		sim_cluster_fail(grouper->cluster, "group: cleave_control");
}

static void
on_other(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_grouper *grouper = arg;

	(void)call;
	(void)reply;
	sim_world_trace(grouper->cluster->world, "grouper's other rc=%d %s", rc,
	    error == NULL ? "" : error);
	grouper->is_other_busy = false;
}

/* A volume of the group becomes larger. */
static void
on_other_timer(struct loop_timer *timer, void *arg)
{
	struct sim_grouper *grouper = arg;
	char request[GROUPER_TEXT_BYTES];

	(void)timer;
	(void)snprintf(request, sizeof(request),
	    "{\"op\":\"volume.resize\",\"name\":\"group-%" PRIu32 "\",\"size_bytes\":%" PRIu64 "}",
	    below(grouper, GROUPER_VOLUMES),
	    NUM_GIB(1) + ++grouper->grown_blocks * CLEAVE_BLOCK_BYTES);
	grouper->other_call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_other, .arg = grouper };
	if (cleave_control(grouper->other, &grouper->other_call, request) != 0)
		sim_cluster_fail(grouper->cluster, "group: cleave_control");
}

/* ---- taking ---- */

static void
take(struct sim_grouper *grouper)
{
	struct grouper_group *group = grouper->group;

	group->floor = grouper->acked;
	group->asked_ns = now_ns(grouper);
	group->state = GROUP_DOUBTFUL;
	grouper->fast_until_ns = now_ns(grouper) + GROUPER_FAST_NS;
	if (!grouper->is_other_busy && below(grouper, 3) == 0) {
		grouper->is_other_busy = true;
		loop_timer_start(grouper->loop, &grouper->other_timer,
		    1 + below(grouper, (uint32_t)NUM_MS(80)));
	}
	ask(grouper,
	    "{\"op\":\"snapshot.group\",\"names\":[\"group-0@g%" PRIu32 "\",\"group-1@g%" PRIu32
	    "\",\"group-2@g%" PRIu32 "\"]}",
	    group->serial, group->serial, group->serial);
}

static void
on_taken(struct sim_grouper *grouper, int rc)
{
	struct grouper_group *group = grouper->group;

	if (rc == 0 && grouper->is_name_taken)
		sim_cluster_fail(grouper->cluster,
		    "group: g%" PRIu32 " was made over a snapshot of that name", group->serial);
	group->ceiling = rc == 0 ? grouper->issued : 0;
	if (rc == 0)
		group->state = GROUP_LIVE;
	else if (rc == -EEXIST || rc == -EAGAIN)
		group->state = GROUP_REFUSED;
	grouper->taken_count += rc == 0;
	go_on(grouper, GROUPER_LOOK, 0, 1);
}

/* ---- all, or none ---- */

/* By the store itself: what a gateway lists may be of a while ago. */
static void
count_found(struct sim_grouper *grouper)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	if (sim_store_list(grouper->cluster->store, MT_SNAPSHOT_PREFIX, &items, &count) != 0)
		sim_cluster_fail(grouper->cluster, "out of memory");
	for (uint32_t k = 0; k < GROUPER_KEPT; k++)
		grouper->groups[k].found_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct mt_snapshot snapshot;
		const char *field;
		char *waiting = NULL;

		if (mt_snapshot_decode(items[i].key, items[i].value, items[i].value_bytes,
			&snapshot, &waiting, &field) != 0)
			sim_cluster_fail(grouper->cluster, "group: %s: %s", items[i].key, field);
		mt_free(waiting);
		for (uint32_t k = 0; k < GROUPER_KEPT; k++)
			grouper->groups[k].found_count += snapshot.state == MT_SNAPSHOT_LIVE &&
			    snapshot.group != 0 &&
			    strtoul(snapshot.name + 1, NULL, 10) == grouper->groups[k].serial;
	}
	mt_free(items);
}

static void
judge(struct sim_grouper *grouper, struct grouper_group *group)
{
	bool is_over = now_ns(grouper) > group->asked_ns + GROUPER_DOUBT_NS;

	if (group->state == GROUP_NONE || group->is_deleting)
		return;
	if (group->found_count != 0 && group->found_count != GROUPER_VOLUMES)
		sim_cluster_fail(grouper->cluster,
		    "group: g%" PRIu32 " is there in part, %" PRIu32 " of %u", group->serial,
		    group->found_count, GROUPER_VOLUMES);
	if (group->state == GROUP_LIVE && group->found_count == 0)
		sim_cluster_fail(grouper->cluster, "group: g%" PRIu32 " is gone", group->serial);
	if (group->found_count != 0) {
		group->state = GROUP_LIVE;
		if (group->ceiling == 0)
			group->ceiling = grouper->issued;
	} else if (group->state == GROUP_REFUSED || is_over) {
		group->state = GROUP_NONE;
	}
}

static struct grouper_group *
any_group(struct sim_grouper *grouper, enum group_state state)
{
	uint32_t first = below(grouper, GROUPER_KEPT);

	for (uint32_t i = 0; i < GROUPER_KEPT; i++) {
		struct grouper_group *group = &grouper->groups[(first + i) % GROUPER_KEPT];

		if (group->state == state)
			return group;
	}
	return NULL;
}

/* A single snapshot that was in the way is deleted with its volume. */
static void
look(struct sim_grouper *grouper)
{
	struct grouper_group *live;

	count_found(grouper);
	for (uint32_t i = 0; i < GROUPER_KEPT; i++)
		judge(grouper, &grouper->groups[i]);
	live = any_group(grouper, GROUP_LIVE);
	grouper->group = live;
	if (live != NULL && (grouper->is_finishing || live->is_deleting || below(grouper, 3) != 0))
		go_on(grouper, live->is_deleting ? GROUPER_DELETE : GROUPER_READ, 0, 1);
	else if (!grouper->is_finishing)
		go_on(grouper, GROUPER_PREPARE, 0, 1 + below(grouper, (uint32_t)GROUPER_PAUSE_NS));
	else if (any_group(grouper, GROUP_DOUBTFUL) != NULL)
		go_on(grouper, GROUPER_LOOK, 0, GROUPER_PAUSE_NS);
	else
		go_on(grouper, GROUPER_DETACH, 0, 1);
}

/* ---- one point in time ---- */

static void
check_prefix(struct sim_grouper *grouper)
{
	struct grouper_group *group = grouper->group;
	uint64_t newest = 0;

	for (uint32_t i = 0; i < GROUPER_SLOTS; i++)
		newest = num_max(newest, grouper->cells[i]);
	for (uint32_t i = 0; i < GROUPER_SLOTS; i++) {
		uint64_t number = i + 1 > newest ? 0 : newest - (newest - 1 - i) % GROUPER_SLOTS;

		if (grouper->cells[i] != number)
			sim_cluster_fail(grouper->cluster,
			    "group: g%" PRIu32 " holds write %" PRIu64 ", but of volume %u %" PRIu64
			    ": write %" PRIu64 " was acknowledged before",
			    group->serial, newest, i % GROUPER_VOLUMES, grouper->cells[i], number);
	}
	if (newest < group->floor)
		sim_cluster_fail(grouper->cluster,
		    "group: g%" PRIu32 " ends with write %" PRIu64 ", but %" PRIu64
		    " was acknowledged before",
		    group->serial, newest, group->floor);
	if (newest > group->ceiling || (group->is_known && newest != group->newest))
		sim_cluster_fail(grouper->cluster,
		    "group: g%" PRIu32 " ends with write %" PRIu64 " of later", group->serial,
		    newest);
	group->newest = newest;
	group->is_known = true;
}

static void
on_read_closed(void *arg)
{
	struct sim_grouper *grouper = arg;

	grouper->reading = NULL;
	if (grouper->at + 1 < GROUPER_VOLUMES) {
		go_on(grouper, GROUPER_READ, grouper->at + 1, 1);
		return;
	}
	check_prefix(grouper);
	if (grouper->is_finishing || below(grouper, 2) == 0)
		go_on(grouper, GROUPER_DELETE, 0, 1);
	else
		go_on(grouper, GROUPER_PREPARE, 0, 1 + below(grouper, (uint32_t)GROUPER_PAUSE_NS));
}

static void read_cell(struct sim_grouper *grouper);

static void
on_read(struct cleave_io *io, int rc, void *arg)
{
	struct sim_grouper *grouper = arg;

	(void)io;
	if (rc != 0)
		sim_cluster_fail(grouper->cluster, "group: a read of g%" PRIu32 ": %s",
		    grouper->group->serial, strerror(-rc));
	grouper->cells[grouper->cell * GROUPER_VOLUMES + grouper->at] = num_get_le64(
	    grouper->read_data);
	if (++grouper->cell < GROUPER_CELLS)
		read_cell(grouper);
	else
		cleave_volume_close(grouper->reading, on_read_closed, grouper);
}

static void
read_cell(struct sim_grouper *grouper)
{
	grouper->read = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = cell_offset(grouper->cell),
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.data = grouper->read_data,
		.fn = on_read,
		.arg = grouper };
	if (cleave_submit(grouper->reading, &grouper->read) != 0)
		sim_cluster_fail(grouper->cluster, "group: cleave_submit");
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct sim_grouper *grouper = arg;

	(void)error;
	if (rc == -ENOENT)
		sim_cluster_fail(grouper->cluster,
		    "group: volume %" PRIu32 " of g%" PRIu32 " is gone", grouper->at,
		    grouper->group == NULL ? 0 : grouper->group->serial);
	if (rc != 0) {
		again(grouper);
		return;
	}
	if (grouper->step == GROUPER_READ) {
		grouper->reading = volume;
		grouper->cell = 0;
		read_cell(grouper);
		return;
	}
	grouper->volumes[grouper->at] = volume;
	if (grouper->at + 1 < GROUPER_VOLUMES) {
		go_on(grouper, GROUPER_ATTACH, grouper->at + 1, 1);
		return;
	}
	loop_timer_start(grouper->loop, &grouper->write_timer, 1);
	go_on(grouper, GROUPER_PREPARE, 0, 1);
}

static void
open_volume(struct sim_grouper *grouper)
{
	struct cleave_client *client = grouper->writers[grouper->at % GROUPER_WRITERS];
	char name[GROUPER_TEXT_BYTES];

	if (grouper->step == GROUPER_READ) {
		client = grouper->client;
		(void)snprintf(name, sizeof(name), "group-%" PRIu32 "@g%" PRIu32, grouper->at,
		    grouper->group->serial);
	} else {
		(void)snprintf(name, sizeof(name), "group-%" PRIu32, grouper->at);
	}
	if (cleave_volume_open(client, name, 0, on_open, grouper) != 0)
		sim_cluster_fail(grouper->cluster, "group: cleave_volume_open");
}

static void
on_detached(void *arg)
{
	struct sim_grouper *grouper = arg;

	grouper->volumes[grouper->at] = NULL;
	if (grouper->at + 1 < GROUPER_VOLUMES)
		go_on(grouper, GROUPER_DETACH, grouper->at + 1, 1);
	else
		go_on(grouper, GROUPER_DROP, 0, 1);
}

/* ---- answers ---- */

/* A step that is done with each volume or snapshot in turn: then @next. */
static void
on_each(struct sim_grouper *grouper, bool is_done, enum grouper_step next)
{
	if (!is_done)
		again(grouper);
	else if (grouper->at + 1 < GROUPER_VOLUMES)
		go_on(grouper, grouper->step, grouper->at + 1, 1);
	else
		go_on(grouper, next, 0, 1);
}

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_grouper *grouper = arg;

	(void)call;
	(void)reply;
	sim_world_trace(grouper->cluster->world, "grouper step %d rc=%d %s", (int)grouper->step, rc,
	    error == NULL ? "" : error);
	switch (grouper->step) {
	case GROUPER_CREATE:
		on_each(grouper, rc == 0 || rc == -EEXIST, GROUPER_ATTACH);
		break;
	case GROUPER_PREPARE: /* a name is taken, or perhaps */
		grouper->is_name_taken = rc == 0;
		go_on(grouper, GROUPER_TAKE, 0, 1);
		break;
	case GROUPER_TAKE:
		on_taken(grouper, rc);
		break;
	case GROUPER_DELETE:
		if ((rc == 0 || rc == -ENOENT) && grouper->at + 1 == GROUPER_VOLUMES)
			grouper->group->state = GROUP_NONE;
		on_each(grouper, rc == 0 || rc == -ENOENT,
		    grouper->is_finishing ? GROUPER_LOOK : GROUPER_PREPARE);
		break;
	default:
		on_each(grouper, rc == 0 || rc == -ENOENT, GROUPER_OVER);
		break;
	}
}

/* ---- steps ---- */

static void
prepare(struct sim_grouper *grouper)
{
	struct grouper_group *group = any_group(grouper, GROUP_NONE);

	grouper->is_name_taken = false;
	if (group == NULL || grouper->is_finishing) {
		go_on(grouper, GROUPER_LOOK, 0, GROUPER_RETRY_NS);
		return;
	}
	*group = (struct grouper_group){ .serial = ++grouper->serial };
	grouper->group = group;
	if (below(grouper, 8) == 0)
		ask(grouper,
		    "{\"op\":\"snapshot.create\",\"name\":\"group-%" PRIu32 "@g%" PRIu32 "\"}",
		    below(grouper, GROUPER_VOLUMES), group->serial);
	else
		go_on(grouper, GROUPER_TAKE, 0, 1);
}

static void
do_step(struct sim_grouper *grouper)
{
	grouper->is_busy = true;
	switch (grouper->step) {
	case GROUPER_CREATE:
		ask(grouper,
		    "{\"op\":\"volume.create\",\"name\":\"group-%" PRIu32
		    "\",\"size_bytes\":1073741824,\"engine\":\"none\"}",
		    grouper->at);
		break;
	case GROUPER_ATTACH:
	case GROUPER_READ:
		open_volume(grouper);
		break;
	case GROUPER_PREPARE:
		prepare(grouper);
		break;
	case GROUPER_TAKE:
		take(grouper);
		break;
	case GROUPER_LOOK:
		look(grouper);
		break;
	case GROUPER_DELETE:
		grouper->group->is_deleting = true;
		ask(grouper,
		    "{\"op\":\"snapshot.delete\",\"name\":\"group-%" PRIu32 "@g%" PRIu32 "\"}",
		    grouper->at, grouper->group->serial);
		break;
	case GROUPER_DETACH:
		if (grouper->is_writing || grouper->issued != grouper->acked)
			again(grouper);
		else
			cleave_volume_close(grouper->volumes[grouper->at], on_detached, grouper);
		break;
	case GROUPER_DROP:
		ask(grouper,
		    "{\"op\":\"volume.delete\",\"name\":\"group-%" PRIu32
		    "\",\"snapshots\":true,\"force\":true,\"purge\":true}",
		    grouper->at);
		break;
	case GROUPER_OVER:
		grouper->is_busy = false;
		break;
	}
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_grouper *grouper = arg;

	(void)timer;
	if (!grouper->cluster->is_made)
		again(grouper);
	else
		do_step(grouper);
}

/* ---- its life ---- */

static bool
is_over(void *arg)
{
	const struct sim_grouper *grouper = arg;

	return grouper->step == GROUPER_OVER && !grouper->is_busy && !grouper->is_other_busy;
}

static struct cleave_client *
create_client(struct sim_grouper *grouper)
{
	struct sim_cluster *cluster = grouper->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.loop = grouper->loop,
		.sim_host = grouper->host,
		.message_count_max = 64,
		.keepalive_ns = NUM_S(2),
		.io_timeout_ns = GROUPER_FOR_EVER_NS,
		.control_timeout_ns = GROUPER_TIMEOUT_NS };
	struct cleave_client *client;
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (cleave_client_create(&options, &client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
	return client;
}

bool
sim_grouper_is_in(uint64_t seed)
{
	return sim_run_hash(seed, GROUPER_SALT) % GROUPER_SEEDS == 0 &&
	    seed % GROUPER_SEEDS != GROUPER_LEVEL_SEED;
}

struct sim_grouper *
sim_grouper_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_grouper *grouper;

	/* Short manifests have no room for snapshots of three at once, nor for all three volumes. */
	if (!sim_grouper_is_in(seed) || cluster->options.manifest_bytes != 0)
		return NULL;
	grouper = calloc(1, sizeof(*grouper));
	assert(grouper != NULL);
	grouper->cluster = cluster;
	random_seed(grouper->dice, seed * 2 + 13);
	grouper->host = sim_host_create(cluster->net, "grouper");
	assert(grouper->host != NULL);
	if (!sim_host_is_up(grouper->host))
		sim_host_start(grouper->host);
	grouper->loop = sim_cluster_loop_create(cluster, grouper->host);
	grouper->client = create_client(grouper);
	grouper->other = create_client(grouper);
	for (uint32_t i = 0; i < GROUPER_WRITERS; i++)
		grouper->writers[i] = create_client(grouper);
	loop_timer_init(&grouper->timer, on_timer, grouper);
	loop_timer_init(&grouper->write_timer, on_write_timer, grouper);
	loop_timer_init(&grouper->other_timer, on_other_timer, grouper);
	go_on(grouper, GROUPER_CREATE, 0, 1);
	return grouper;
}

void
sim_grouper_finish(struct sim_grouper *grouper, uint64_t limit_ns)
{
	if (grouper == NULL)
		return;
	grouper->is_finishing = grouper->is_stopping = true;
	sim_cluster_run_until(grouper->cluster, is_over, grouper, limit_ns,
	    "all that was taken together is read and deleted");
	loop_timer_stop(grouper->loop, &grouper->timer);
	loop_timer_stop(grouper->loop, &grouper->write_timer);
}

uint32_t
sim_grouper_count(const struct sim_grouper *grouper)
{
	return grouper == NULL ? 0 : grouper->taken_count;
}

void
sim_grouper_destroy(struct sim_grouper *grouper)
{
	if (grouper == NULL)
		return;
	sim_host_kill(grouper->host, SIM_DEATH_RESET);
	cleave_client_destroy(grouper->client);
	cleave_client_destroy(grouper->other);
	for (uint32_t i = 0; i < GROUPER_WRITERS; i++)
		cleave_client_destroy(grouper->writers[i]);
	loop_destroy(grouper->loop);
	free(grouper);
}
