/* SPDX-License-Identifier: Apache-2.0 */
/* trasher.c -- see trasher.h */
#include "trasher.h"

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
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster.h"
#include "middletier/common/alloc.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"

#define TRASHER_SALT UINT64_C(3369)
#define TRASHER_SEEDS 8u
#define TRASHER_LEVEL_SEED 6u /* of so many: processes of two releases */
#define TRASHER_RETRY_NS NUM_MS(500)
#define TRASHER_TIMEOUT_NS NUM_S(10)
#define TRASHER_IO_TIMEOUT_NS NUM_S(30)
#define TRASHER_TEXT_BYTES 192u
#define TRASHER_KEEP_S_MAX 8u

/* Steps with a volume, in this order; some may be left out. */
enum trasher_step {
	TRASHER_CREATE,
	TRASHER_OPEN, /* to write */
	TRASHER_SNAPSHOT,
	TRASHER_DELETE,
	TRASHER_OTHER, /* takes its name */
	TRASHER_RESTORE,
	TRASHER_LOOK, /* open it to read, or its snapshot */
	TRASHER_DROP_OTHER,
	TRASHER_DROP, /* what is there under its name, into the trash for a second, or for good */
};

struct sim_trasher {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	struct cleave_volume *volume;
	struct cleave_io io;
	struct loop_timer timer;
	enum trasher_step step;
	bool is_busy, is_finishing;
	/* The volume. */
	uint32_t serial;
	char name[32];
	bool has_block, has_snapshot;
	bool has_other, may_have_other; /* of its name, while it is in the trash */
	bool is_unsure;                 /* of the present step: a try ended without an answer */
	bool is_doubtful; /* such a try of a step before its restoration may happen yet */
	bool is_back;     /* it was restored, for certain */
	uint64_t keep_s;
	uint64_t
	    asked_ns; /* by the world's clock, when its deletion was first asked for; 0: was not */
	uint8_t data[CLEAVE_BLOCK_BYTES];
};

static uint32_t
below(struct sim_trasher *trasher, uint32_t limit)
{
	return (uint32_t)random_below(trasher->dice, limit);
}

static uint64_t
now_ns(const struct sim_trasher *trasher)
{
	return sim_world_now_ns(trasher->cluster->world);
}

/* ---- from step to step ---- */

static void
wait(struct sim_trasher *trasher, uint64_t ns)
{
	trasher->is_busy = false;
	loop_timer_start(trasher->loop, &trasher->timer, ns);
}

static void
again(struct sim_trasher *trasher)
{
	wait(trasher, TRASHER_RETRY_NS + random_below(trasher->dice, TRASHER_RETRY_NS));
}

static void
go_on(struct sim_trasher *trasher, enum trasher_step step, uint64_t wait_ns)
{
	trasher->step = step;
	trasher->is_unsure = false;
	wait(trasher, wait_ns);
}

static void
begin_volume(struct sim_trasher *trasher)
{
	(void)snprintf(trasher->name, sizeof(trasher->name), "trash-%" PRIu32, ++trasher->serial);
	trasher->has_block = trasher->has_snapshot = trasher->has_other = false;
	trasher->may_have_other = trasher->is_back = trasher->is_doubtful = false;
	trasher->asked_ns = 0;
	trasher->keep_s = 2 + below(trasher, TRASHER_KEEP_S_MAX - 1);
	go_on(trasher, TRASHER_CREATE, 1 + below(trasher, (uint32_t)NUM_MS(500)));
}

/* ---- blocks ---- */

static void
on_closed(void *arg)
{
	struct sim_trasher *trasher = arg;

	trasher->volume = NULL;
	if (trasher->step == TRASHER_OPEN)
		go_on(trasher, below(trasher, 2) == 0 ? TRASHER_SNAPSHOT : TRASHER_DELETE, 1);
	else
		go_on(trasher, TRASHER_DROP_OTHER, 1);
}

static void
on_io(struct cleave_io *io, int rc, void *arg)
{
	struct sim_trasher *trasher = arg;

	(void)io;
	if (trasher->step == TRASHER_OPEN)
		trasher->has_block = rc == 0;
	else if (rc == 0 && trasher->has_block && !trasher->is_doubtful)
		for (uint32_t i = 0; i < sizeof(trasher->data); i++)
			if (trasher->data[i] != (uint8_t)trasher->serial)
				sim_cluster_fail(trasher->cluster,
				    "trash: volume %s came back, but not its block", trasher->name);
	cleave_volume_close(trasher->volume, on_closed, trasher);
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct sim_trasher *trasher = arg;

	(void)error;
	if (rc == -ENOENT && trasher->is_back && !trasher->is_doubtful)
		sim_cluster_fail(trasher->cluster, "trash: volume %s came back without %s",
		    trasher->name, trasher->has_snapshot ? "its snapshot" : "itself");
	if (rc == -ENOENT && trasher->step == TRASHER_LOOK) {
		go_on(trasher, TRASHER_DROP_OTHER, 1); /* nobody knows whether it was restored */
		return;
	}
	if (rc != 0) {
		again(trasher);
		return;
	}
	trasher->volume = volume;
	if (trasher->step == TRASHER_OPEN)
		memset(trasher->data, (int)trasher->serial, sizeof(trasher->data));
	trasher->io =
	    (struct cleave_io){ .op = trasher->step == TRASHER_OPEN ? CLEAVE_WRITE : CLEAVE_READ,
		    .length_bytes = sizeof(trasher->data),
		    .data = trasher->data,
		    .fn = on_io,
		    .arg = trasher };
	if (cleave_submit(volume, &trasher->io) != 0)
		sim_cluster_fail(trasher->cluster, "trash: cleave_submit");
}

static void
open_volume(struct sim_trasher *trasher)
{
	char name[TRASHER_TEXT_BYTES];

	(void)snprintf(name, sizeof(name), "%s%s", trasher->name,
	    trasher->step == TRASHER_LOOK && trasher->has_snapshot ? "@s" : "");
	if (cleave_volume_open(trasher->client, name, 0, on_open, trasher) != 0)
		sim_cluster_fail(trasher->cluster, "trash: cleave_volume_open");
}

/* ---- answers ---- */

static void
on_deleted(struct sim_trasher *trasher, int rc)
{
	/* A try without an answer may have been it. */
	if (rc != 0 && rc != -ENOENT) {
		again(trasher);
		return;
	}
	if (rc == -ENOENT && !trasher->is_unsure)
		sim_cluster_fail(trasher->cluster, "trash: volume %s is gone", trasher->name);
	go_on(trasher, below(trasher, 3) == 0 ? TRASHER_OTHER : TRASHER_RESTORE,
	    1 + below(trasher, (uint32_t)(NUM_S(trasher->keep_s) / 1000)) * UINT64_C(1300));
}

static void
on_restored(struct sim_trasher *trasher, int rc)
{
	uint64_t end_ns = trasher->asked_ns + NUM_S(trasher->keep_s);

	if (rc == 0 && trasher->has_other)
		sim_cluster_fail(trasher->cluster, "trash: volume %s came back over another one",
		    trasher->name);
	if (rc == -ENOENT && !trasher->is_unsure && now_ns(trasher) < end_ns)
		sim_cluster_fail(trasher->cluster,
		    "trash: volume %s is gone before its time, %" PRIu64 " ms", trasher->name,
		    (end_ns - now_ns(trasher)) / NUM_MS(1));
	trasher->is_back = rc == 0;
	if (rc == 0 || (rc == -ENOENT && trasher->is_unsure && !trasher->may_have_other))
		go_on(trasher, TRASHER_LOOK, 1);
	else if (rc == -ENOENT || rc == -EEXIST)
		go_on(trasher, TRASHER_DROP_OTHER, 1);
	else
		again(trasher);
}

static void
on_made(struct sim_trasher *trasher, int rc)
{
	bool is_there = rc == 0 || rc == -EEXIST;

	if (trasher->step == TRASHER_CREATE && is_there) {
		go_on(trasher, TRASHER_OPEN, 1);
	} else if (trasher->step == TRASHER_SNAPSHOT) {
		/* Not where the name is taken: one that could not be voided yet has it, too. */
		trasher->has_snapshot = rc == 0;
		go_on(trasher, TRASHER_DELETE, 1);
	} else if (trasher->step == TRASHER_OTHER) {
		trasher->has_other = is_there;
		trasher->may_have_other = true;
		go_on(trasher, TRASHER_RESTORE, 1);
	} else {
		again(trasher);
	}
}

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_trasher *trasher = arg;
	bool is_sure = rc == 0 || rc == -ENOENT || rc == -EEXIST || rc == -ENOTEMPTY ||
	    rc == -ENOSPC;
	enum trasher_step step = trasher->step;

	(void)call;
	(void)reply;
	trasher->is_doubtful = trasher->is_doubtful || (step < TRASHER_RESTORE && !is_sure);
	sim_world_trace(trasher->cluster->world, "trasher %s step %d rc=%d %s", trasher->name,
	    (int)trasher->step, rc, error == NULL ? "" : error);
	switch (trasher->step) {
	case TRASHER_DELETE:
		on_deleted(trasher, rc);
		break;
	case TRASHER_RESTORE:
		on_restored(trasher, rc);
		break;
	case TRASHER_DROP_OTHER:
	case TRASHER_DROP:
		if (rc != 0 && rc != -ENOENT)
			again(trasher);
		else if (trasher->step == TRASHER_DROP_OTHER)
			go_on(trasher, TRASHER_DROP, 1);
		else
			begin_volume(trasher);
		break;
	default:
		on_made(trasher, rc);
		break;
	}
	trasher->is_unsure = trasher->is_unsure || (trasher->step == step && !is_sure);
	/* There is no volume of the name, whatever came of the tries before, or that would have been the answer. */
	if (rc == -ENOSPC && step == TRASHER_CREATE)
		trasher->is_unsure = false;
}

static void
ask(struct sim_trasher *trasher, const char *op, const char *format, ...)
{
	char request[2 * TRASHER_TEXT_BYTES], members[TRASHER_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(members, sizeof(members), format, args);
	va_end(args);
	(void)snprintf(request, sizeof(request), "{\"op\":\"%s\",\"name\":\"%s%s}", op,
	    trasher->name, members);
	trasher->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = trasher };
	if (cleave_control(trasher->client, &trasher->call, request) != 0)
		sim_cluster_fail(trasher->cluster, "trash: cleave_control");
}

/* ---- asking ---- */

static void
do_step(struct sim_trasher *trasher)
{
	trasher->is_busy = true;
	switch (trasher->step) {
	case TRASHER_CREATE:
	case TRASHER_OTHER:
		ask(trasher, "volume.create", "\",\"size_bytes\":1048576");
		break;
	case TRASHER_OPEN:
	case TRASHER_LOOK:
		open_volume(trasher);
		break;
	case TRASHER_SNAPSHOT:
		ask(trasher, "snapshot.create", "@s\"");
		break;
	case TRASHER_DELETE:
		if (trasher->asked_ns == 0)
			trasher->asked_ns = now_ns(trasher);
		ask(trasher, "volume.delete",
		    "\",\"snapshots\":true,\"force\":true,\"keep_s\":%" PRIu64, trasher->keep_s);
		break;
	case TRASHER_RESTORE:
		ask(trasher, "trash.restore", "\"");
		break;
	case TRASHER_DROP_OTHER:
		ask(trasher, "volume.delete",
		    "\",\"snapshots\":true,\"force\":true,\"purge\":true");
		break;
	case TRASHER_DROP:
		ask(trasher, "volume.delete", "\",\"snapshots\":true,\"force\":true,\"keep_s\":1");
		break;
	}
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_trasher *trasher = arg;

	(void)timer;
	if (trasher->is_finishing && trasher->step == TRASHER_CREATE && !trasher->is_unsure)
		return;
	if (!trasher->cluster->is_made)
		again(trasher);
	else
		do_step(trasher);
}

/* ---- its life ---- */

static bool
is_empty(void *arg)
{
	const struct sim_trasher *trasher = arg;
	struct meta_item *items = NULL;
	uint32_t count = 0;

	if (trasher->is_busy || trasher->step != TRASHER_CREATE || trasher->is_unsure)
		return false;
	if (sim_store_list(trasher->cluster->store, "volumes/trash/", &items, &count) != 0)
		sim_cluster_fail(trasher->cluster, "out of memory");
	mt_free(items);
	return count == 0;
}

static void
create_client(struct sim_trasher *trasher)
{
	struct sim_cluster *cluster = trasher->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.loop = trasher->loop,
		.sim_host = trasher->host,
		.io_timeout_ns = TRASHER_IO_TIMEOUT_NS,
		.control_timeout_ns = TRASHER_TIMEOUT_NS };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (cleave_client_create(&options, &trasher->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
}

bool
sim_trasher_is_in(uint64_t seed)
{
	return sim_run_hash(seed, TRASHER_SALT) % TRASHER_SEEDS == 0 &&
	    seed % TRASHER_SEEDS != TRASHER_LEVEL_SEED;
}

struct sim_trasher *
sim_trasher_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_trasher *trasher;

	if (!sim_trasher_is_in(seed))
		return NULL;
	trasher = calloc(1, sizeof(*trasher));
	assert(trasher != NULL);
	trasher->cluster = cluster;
	random_seed(trasher->dice, seed * 2 + 11);
	trasher->host = sim_host_create(cluster->net, "trasher");
	assert(trasher->host != NULL);
	if (!sim_host_is_up(trasher->host))
		sim_host_start(trasher->host);
	trasher->loop = sim_cluster_loop_create(cluster, trasher->host);
	create_client(trasher);
	loop_timer_init(&trasher->timer, on_timer, trasher);
	begin_volume(trasher);
	return trasher;
}

void
sim_trasher_finish(struct sim_trasher *trasher, uint64_t limit_ns)
{
	if (trasher == NULL)
		return;
	trasher->is_finishing = true;
	sim_cluster_run_until(trasher->cluster, is_empty, trasher, limit_ns,
	    "the trash empties itself");
	loop_timer_stop(trasher->loop, &trasher->timer);
}

void
sim_trasher_destroy(struct sim_trasher *trasher)
{
	if (trasher == NULL)
		return;
	sim_host_kill(trasher->host, SIM_DEATH_RESET);
	cleave_client_destroy(trasher->client);
	loop_destroy(trasher->loop);
	free(trasher);
}
