/* SPDX-License-Identifier: Apache-2.0 */
/* snapper.c -- see snapper.h */
#include <errno.h>
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
#include "snapper.h"
#include "snapper_clone.h"
#include "snapper_inside.h"
#include "splitlib/sim/loop_sim.h"

#define CONTROL_TIMEOUT_NS NUM_S(20)
#define FOR_EVER_NS NUM_S(100000)
#define RETRY_NS NUM_MS(500)
#define RETRY_MAX_NS NUM_S(16)
#define PAUSE_NS NUM_MS(400)
#define DOUBT_NS NUM_S(45) /* a request whose answer was lost has ended by then */

static void snapper_next(struct snapper *snapper);
static void snapper_read(struct snapper *snapper);

uint32_t
snapper_below(struct snapper *snapper, uint32_t limit)
{
	return (uint32_t)random_below(snapper->dice, limit);
}

struct sim_cluster *
snapper_cluster(const struct snapper *snapper)
{
	return snapper->options.cluster;
}

/* ---- one thing at a time ---- */

static void
snapper_pause(struct snapper *snapper, uint64_t ns, void (*retry)(struct snapper *snapper))
{
	snapper->retry = retry;
	loop_timer_start(snapper->loop, &snapper->timer, ns);
}

/* A shard may not be served for long, and a try of a snapshot may leave a number behind. */
void
snapper_again(struct snapper *snapper, void (*retry)(struct snapper *snapper))
{
	snapper_pause(snapper, snapper->retry_ns, retry);
	snapper->retry_ns = num_min(2 * snapper->retry_ns, RETRY_MAX_NS);
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct snapper *snapper = arg;

	(void)timer;
	if (snapper->retry != NULL)
		snapper->retry(snapper);
	else
		snapper_next(snapper);
}

void
snapper_done(struct snapper *snapper)
{
	snapper->is_busy = false;
	snapper->retry_ns = RETRY_NS;
	snapper_pause(snapper, snapper_below(snapper, (uint32_t)PAUSE_NS) + 1, NULL);
}

static void
answer(struct snapper *snapper, const char *what, int rc)
{
	void (*then)(struct snapper *, int) = snapper->then;

	sim_world_trace(snapper_cluster(snapper)->world, "snapper %s rc=%d", what, rc);
	snapper->then = NULL;
	then(snapper, rc);
}

static void
on_call(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	(void)call;
	(void)reply;
	answer(arg, error == NULL ? "call" : error, rc);
}

/* A request's other members, behind the name. */
static const char *
more_of(const struct snapper *snapper, const char *op)
{
	if (strcmp(op, "volume.delete") == 0)
		return ",\"snapshots\":true,\"purge\":true";
	if (strcmp(op, "volume.resize") == 0)
		return ",\"size_bytes\":4096,\"shrink\":true,\"force\":true";
	return snapper->is_forced ? ",\"force\":true" : "";
}

void
snapper_ask(struct snapper *snapper, void (*then)(struct snapper *, int), const char *op,
    const char *name, const char *other)
{
	const char *member = strcmp(op, "volume.reads") == 0 ? "reads" : "new";
	char request[256], text[96] = "";

	if (other != NULL)
		(void)snprintf(text, sizeof(text), ",\"%s\":\"%s\"", member, other);
	(void)snprintf(request, sizeof(request), "{\"op\":\"%s\",\"name\":\"%s\"%s%s}", op, name,
	    text, more_of(snapper, op));
	sim_world_trace(snapper_cluster(snapper)->world, "snapper asks %s", request);
	snapper->then = then;
	snapper->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_call, .arg = snapper };
	if (cleave_control(snapper->client, &snapper->call, request) != 0)
		sim_cluster_fail(snapper_cluster(snapper), "snapper: cleave_control");
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct snapper *snapper = arg;

	(void)error;
	snapper->volume = rc == 0 ? volume : NULL;
	answer(snapper, "open", rc);
}

void
snapper_open(struct snapper *snapper, const char *name, void (*then)(struct snapper *, int))
{
	snapper->then = then;
	if (cleave_volume_open(snapper->client, name, 0, on_open, snapper) != 0)
		sim_cluster_fail(snapper_cluster(snapper), "snapper: cleave_volume_open");
}

static void
on_closed(void *arg)
{
	struct snapper *snapper = arg;

	snapper->volume = NULL;
	answer(snapper, "close", 0);
}

void
snapper_close(struct snapper *snapper, void (*then)(struct snapper *, int))
{
	snapper->then = then;
	cleave_volume_close(snapper->volume, on_closed, snapper);
}

/* ---- reading all of a snapshot, or of the clone ---- */

/* The value that block @i must have: the clone is its origin, but for what was zeroed there. */
static uint32_t
expected(const struct snapper *snapper, uint32_t i)
{
	bool is_zeroed = snapper->is_clone_read && snapper->is_wiped && i >= snapper->hot_first &&
	    i - snapper->hot_first < snapper->hot_count;

	return is_zeroed ? 0 : snapper->shot->numbers[i];
}

static void
check_seen(struct snapper *snapper)
{
	const struct history *history = snapper->options.history;
	uint32_t block_count = snapper->options.block_count;
	struct shot *shot = snapper->shot;

	for (uint32_t i = 0; shot->is_known && i < block_count; i++)
		if (snapper->seen[i] != expected(snapper, i))
			sim_cluster_fail(snapper_cluster(snapper),
			    "%s block %u: operation %u, but it was %u",
			    snapper->is_clone_read ? snapper->clone_name : shot->name, i,
			    snapper->seen[i], expected(snapper, i));
	if (shot->is_known)
		return;
	history_check_snapshot(history, shot->name, snapper->seen, shot->floors, shot->ceilings);
	memcpy(shot->numbers, snapper->seen, block_count * sizeof(*shot->numbers));
	shot->is_known = true;
}

static void
read_closed(struct snapper *snapper, int rc)
{
	(void)rc;
	check_seen(snapper);
	snapper_done(snapper);
}

static void
read_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct snapper *snapper = arg;

	(void)io;
	if (rc != 0)
		sim_cluster_fail(snapper_cluster(snapper), "%s: read of block %u: %s",
		    snapper->shot->name, snapper->at, strerror(-rc));
	for (uint32_t i = 0; i < snapper->count; i++)
		snapper->seen[snapper->at + i] = history_look(snapper->options.history,
		    snapper->at + i, snapper->data + (size_t)i * CLEAVE_BLOCK_BYTES);
	snapper->at += snapper->count;
	if (snapper->at < snapper->options.block_count)
		snapper_read(snapper);
	else
		snapper_close(snapper, read_closed);
}

static void
snapper_read(struct snapper *snapper)
{
	snapper->count = (uint32_t)num_min(READ_BLOCKS, snapper->options.block_count - snapper->at);
	snapper->io = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = history_offset(snapper->options.history, snapper->at),
		.length_bytes = (uint64_t)snapper->count * CLEAVE_BLOCK_BYTES,
		.data = snapper->data,
		.fn = read_on_io,
		.arg = snapper };
	if (cleave_submit(snapper->volume, &snapper->io) != 0)
		sim_cluster_fail(snapper_cluster(snapper), "snapper: cleave_submit");
}

static void
read_opened(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->shot->name);
	if (rc != 0) {
		snapper->verify_at -= snapper->is_verifying;
		snapper_done(snapper);
		return;
	}
	snapper->at = 0;
	snapper_read(snapper);
}

static void
act_read(struct snapper *snapper, struct shot *shot)
{
	snapper->shot = shot;
	snapper->is_clone_read = false;
	snapper_open(snapper, shot->name, read_opened);
}

void
snapper_read_clone(struct snapper *snapper)
{
	snapper->shot = snapper->origin;
	snapper->is_clone_read = true;
	snapper_open(snapper, snapper->clone_name, read_opened);
}

/* ---- taking ---- */

static void
take_done(struct snapper *snapper, int rc)
{
	struct shot *shot = snapper->shot;

	history_issued(snapper->options.history, shot->ceilings);
	if (rc == 0) {
		shot->state = SHOT_LIVE;
		snapper->taken_count++;
	}
	snapper_done(snapper);
}

static void
act_take(struct snapper *snapper, struct shot *shot)
{
	(void)snprintf(shot->name, sizeof(shot->name), "%s@s%u", snapper->options.volume,
	    ++snapper->serial);
	shot->state = SHOT_DOUBTFUL;
	shot->is_known = shot->is_deleting = false;
	shot->asked_ns = loop_now_ns(snapper->loop);
	history_happened(snapper->options.history, shot->floors);
	snapper->shot = shot;
	snapper_ask(snapper, take_done, "snapshot.create", shot->name, NULL);
}

/* ---- deleting ---- */

static void
delete_done(struct snapper *snapper, int rc)
{
	struct shot *shot = snapper->shot;
	bool is_over = loop_now_ns(snapper->loop) > shot->asked_ns + DOUBT_NS;

	if (rc == -ENOENT && shot->state == SHOT_LIVE && !shot->is_deleting)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", shot->name);
	shot->is_deleting = true;
	if (rc == 0 || (rc == -ENOENT && (shot->state == SHOT_LIVE || is_over)))
		shot->state = SHOT_NONE;
	snapper_done(snapper);
}

static void
act_delete(struct snapper *snapper, struct shot *shot)
{
	snapper->shot = shot;
	snapper_ask(snapper, delete_done, "snapshot.delete", shot->name, NULL);
}

static void
clone_delete_done(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT && !snapper->is_clone_deleting)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->clone_name);
	snapper->is_clone_deleting = true;
	if (rc == 0 || rc == -ENOENT)
		snapper->origin = NULL;
	snapper_done(snapper);
}

static void
act_delete_clone(struct snapper *snapper)
{
	snapper_ask(snapper, clone_delete_done, "volume.delete", snapper->clone_name, NULL);
}

/* ---- what comes next ---- */

static struct shot *
any_shot(struct snapper *snapper, enum shot_state state, bool must_be_known)
{
	uint32_t first = snapper_below(snapper, SHOTS_MAX);

	for (uint32_t i = 0; i < SHOTS_MAX; i++) {
		struct shot *shot = &snapper->shots[(first + i) % SHOTS_MAX];

		if (shot->state == state && (shot->is_known || !must_be_known) &&
		    (!shot->is_deleting || state == SHOT_NONE))
			return shot;
	}
	return NULL;
}

/* A snapshot whose deletion was begun goes first. */
static struct shot *
shot_to_delete(struct snapper *snapper)
{
	struct shot *found = NULL;

	for (uint32_t i = 0; i < SHOTS_MAX; i++) {
		struct shot *shot = &snapper->shots[i];

		if (shot->state == SHOT_NONE || shot == snapper->origin)
			continue;
		if (shot->is_deleting)
			return shot;
		found = found == NULL || snapper_below(snapper, 2) == 0 ? shot : found;
	}
	return found;
}

static void
snapper_verify_next(struct snapper *snapper)
{
	if (snapper->verify_at == 0 && snapper_let_go(snapper))
		return;
	while (snapper->verify_at < SHOTS_MAX) {
		struct shot *shot = &snapper->shots[snapper->verify_at++];

		if (shot->state == SHOT_LIVE && !shot->is_deleting) {
			act_read(snapper, shot);
			return;
		}
	}
	if (snapper->verify_at++ == SHOTS_MAX && snapper->origin != NULL &&
	    !snapper->is_clone_deleting) {
		snapper_read_clone(snapper);
		return;
	}
	snapper->is_verifying = snapper->is_busy = false;
}

static bool
act_on_clone(struct snapper *snapper)
{
	struct shot *known = any_shot(snapper, SHOT_LIVE, true);

	if (snapper->origin == NULL && known == NULL)
		return false;
	if (snapper->origin == NULL)
		snapper_clone(snapper, known);
	else if (snapper->options.flattens && !snapper->is_flattening &&
	    !snapper->is_clone_deleting && snapper_below(snapper, 2) == 0)
		snapper_flatten(snapper);
	else if (snapper->is_clone_deleting || snapper_below(snapper, 4) == 0)
		act_delete_clone(snapper);
	else
		snapper_roll(snapper);
	return true;
}

static void
snapper_next(struct snapper *snapper)
{
	struct shot *none = any_shot(snapper, SHOT_NONE, false);
	struct shot *live = any_shot(snapper, SHOT_LIVE, false), *old;
	uint32_t dice = snapper_below(snapper, 10);

	if (snapper->is_verifying) {
		snapper->is_busy = true;
		snapper_verify_next(snapper);
		return;
	}
	if (snapper->is_finishing)
		return;
	snapper->is_busy = true;
	if (dice < 2 && act_on_clone(snapper))
		return;
	old = shot_to_delete(snapper);
	if (dice < 4 && old != NULL)
		act_delete(snapper, old);
	else if (dice < 7 && live != NULL)
		act_read(snapper, live);
	else if (none != NULL)
		act_take(snapper, none);
	else
		snapper_done(snapper);
}

/* ---- from outside ---- */

struct snapper *
snapper_create(const struct snapper_options *options)
{
	struct snapper *snapper = calloc(1, sizeof(*snapper));
	struct sim_cluster *cluster = options->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options client = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.message_count_max = 64,
		.io_timeout_ns = FOR_EVER_NS,
		.control_timeout_ns = CONTROL_TIMEOUT_NS,
		.keepalive_ns = NUM_S(2),
		.sim_host = options->host };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(snapper != NULL);
	snapper->options = *options;
	random_seed(snapper->dice, options->seed);
	snapper->seen = calloc(options->block_count, sizeof(*snapper->seen));
	assert(snapper->seen != NULL);
	for (uint32_t i = 0; i < SHOTS_MAX; i++) {
		uint32_t *numbers = calloc(3 * (size_t)options->block_count, sizeof(*numbers));

		assert(numbers != NULL);
		snapper->shots[i].floors = numbers;
		snapper->shots[i].ceilings = numbers + options->block_count;
		snapper->shots[i].numbers = numbers + 2 * (size_t)options->block_count;
	}
	snapper->kept.numbers = calloc(options->block_count, sizeof(*snapper->kept.numbers));
	assert(snapper->kept.numbers != NULL);
	for (uint32_t i = 0; i < client.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (!sim_host_is_up(options->host))
		sim_host_start(options->host);
	snapper->loop = sim_cluster_loop_create(cluster, options->host);
	loop_timer_init(&snapper->timer, on_timer, snapper);
	client.loop = snapper->loop;
	if (cleave_client_create(&client, &snapper->client, error) != 0)
		sim_cluster_fail(cluster, "snapper: %s", error);
	snapper_done(snapper);
	return snapper;
}

void
snapper_destroy(struct snapper *snapper)
{
	if (snapper == NULL)
		return;
	sim_host_kill(snapper->options.host, SIM_DEATH_RESET);
	cleave_client_destroy(snapper->client);
	loop_destroy(snapper->loop);
	for (uint32_t i = 0; i < SHOTS_MAX; i++)
		free(snapper->shots[i].floors);
	free(snapper->kept.numbers);
	free(snapper->seen);
	free(snapper);
}

static bool
is_idle(void *arg)
{
	const struct snapper *snapper = arg;

	return !snapper->is_busy && !snapper->is_verifying;
}

void
snapper_finish(struct snapper *snapper, uint64_t limit_ns)
{
	if (snapper == NULL)
		return;
	snapper->is_finishing = true;
	sim_cluster_run_until(snapper_cluster(snapper), is_idle, snapper, limit_ns,
	    "what is done with snapshots ends");
	loop_timer_stop(snapper->loop, &snapper->timer);
}

void
snapper_verify(struct snapper *snapper, uint64_t limit_ns)
{
	snapper->is_verifying = true;
	snapper->verify_at = 0;
	snapper_pause(snapper, 1, NULL);
	sim_cluster_run_until(snapper_cluster(snapper), is_idle, snapper, limit_ns,
	    "every snapshot is read");
}

/* No key is left of anything that was deleted, once all shards have reclaimed it. */
static bool
is_reclaimed(void *arg)
{
	static const char *const prefixes[] = { "snapshots/", "deleted/", "flattening/" };
	uint32_t left_count = 0;

	for (uint32_t i = 0; i < NUM_COUNT(prefixes); i++) {
		struct meta_item *items = NULL;
		uint32_t count = 0;

		if (sim_store_list(snapper_cluster(arg)->store, prefixes[i], &items, &count) != 0)
			sim_cluster_fail(snapper_cluster(arg), "out of memory");
		free(items);
		left_count += count;
	}
	return left_count == 0;
}

void
snapper_clear(struct snapper *snapper, uint64_t limit_ns)
{
	uint64_t end_ns = sim_world_now_ns(snapper_cluster(snapper)->world) + limit_ns;

	for (;;) {
		struct shot *shot = shot_to_delete(snapper);

		if (sim_world_now_ns(snapper_cluster(snapper)->world) > end_ns)
			sim_cluster_fail(snapper_cluster(snapper), "a snapshot cannot be deleted");
		snapper->is_busy = true;
		if (snapper->origin != NULL)
			act_delete_clone(snapper);
		else if (shot != NULL)
			act_delete(snapper, shot);
		else
			break;
		sim_cluster_run_until(snapper_cluster(snapper), is_idle, snapper, limit_ns,
		    "a snapshot is deleted");
		sim_cluster_run(snapper_cluster(snapper), RETRY_NS);
	}
	snapper->is_busy = false;
	sim_cluster_run_until(snapper_cluster(snapper), is_reclaimed, snapper, limit_ns,
	    "deleted snapshots and clones are reclaimed");
}

uint32_t
snapper_taken_count(const struct snapper *snapper)
{
	return snapper->taken_count;
}
