/* SPDX-License-Identifier: Apache-2.0 */
/* companion.c -- see companion.h */
#include "companion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define PAUSE_NS NUM_MS(100)
#define TIMEOUT_NS NUM_S(20)
#define RIVAL_EACH 8u /* of so many turns one asks for the volume */

struct companion {
	struct companion_options options;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *reader; /* NULL: not open */
	struct loop_timer timer;
	struct cleave_io io;
	uint32_t number; /* of the read */
	uint32_t floors[HISTORY_BLOCKS_MAX];
	uint8_t *data; /* HISTORY_BLOCKS_MAX blocks */
	bool is_opening, is_reading, is_asking;
	uint32_t asked_session; /* the writer's, when it began to ask for the volume */
	uint64_t asked_ns;
	uint64_t read_count;
};

static uint32_t
below(struct companion *companion, uint32_t limit)
{
	return (uint32_t)loop_random_below(companion->loop, limit);
}

/* ---- reading ---- */

static void
on_read(struct cleave_io *io, int rc, void *arg)
{
	struct companion *companion = arg;
	const struct companion_options *options = &companion->options;

	(void)io;
	companion->is_reading = false;
	sim_world_trace(options->cluster->world, "%s companion read number=%u rc=%d",
	    options->volume_name, companion->number, rc);
	if (rc == 0) {
		companion->read_count++;
		history_read(options->history, companion->number, companion->data,
		    companion->floors);
	} else if (rc != -ETIMEDOUT) {
		sim_cluster_fail(options->cluster, "%s: a reader beside the writer: %s",
		    options->volume_name, strerror(-rc));
	}
}

static void
read_some(struct companion *companion)
{
	const struct companion_options *options = &companion->options;
	uint32_t count = 1 + below(companion, 4);
	uint32_t first = below(companion, options->block_count - count + 1);
	struct history_op op = { .op = CLEAVE_READ, .is_beside = true };
	int rc;

	count = history_limit(options->history, first, count);
	op.first_block = first;
	op.block_count = count;
	companion->number = history_submit(options->history, &op, companion->floors);
	companion->io = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = history_offset(options->history, first),
		.length_bytes = (uint64_t)count * CLEAVE_BLOCK_BYTES,
		.data = companion->data,
		.fn = on_read,
		.arg = companion };
	rc = cleave_submit(companion->reader, &companion->io);
	if (rc != 0)
		sim_cluster_fail(options->cluster, "%s: a reader's request: %s",
		    options->volume_name, strerror(-rc));
	companion->is_reading = true;
}

static void
on_reader(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct companion *companion = arg;

	(void)error;
	companion->is_opening = false;
	if (rc == 0)
		companion->reader = volume;
}

/* ---- asking for the volume ---- */

static void
on_closed(void *arg)
{
	((struct companion *)arg)->is_asking = false;
}

static void
on_rival(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct companion *companion = arg;
	const struct companion_options *options = &companion->options;
	struct companion_writer writer = options->writer(options->arg);
	uint64_t now_ns = sim_world_now_ns(options->cluster->world);

	sim_world_trace(options->cluster->world, "%s companion asked rc=%d %s",
	    options->volume_name, rc, error == NULL ? "" : error);
	if (rc != 0) {
		companion->is_asking = false;
		return;
	}
	if (writer.session != 0 && writer.session == companion->asked_session &&
	    writer.answered_ns != UINT64_MAX && now_ns - writer.answered_ns < COMPANION_SILENT_NS &&
	    writer.silence_ns < companion->asked_ns)
		sim_cluster_fail(options->cluster,
		    "%s: a second writer was let in, %llu ms after the first was answered",
		    options->volume_name,
		    (unsigned long long)((now_ns - writer.answered_ns) / NUM_MS(1)));
	cleave_volume_close(volume, on_closed, companion);
}

/* ---- its life ---- */

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct companion *companion = arg;
	const struct companion_options *options = &companion->options;
	const char *name = options->volume_name;

	if (!options->is_at_work(options->arg))
		return;
	loop_timer_start(companion->loop, timer,
	    PAUSE_NS / 4 + loop_random_below(companion->loop, PAUSE_NS));
	if (!companion->is_asking && below(companion, RIVAL_EACH) == 0) {
		companion->asked_session = options->writer(options->arg).session;
		companion->asked_ns = sim_world_now_ns(options->cluster->world);
		companion->is_asking =
		    cleave_volume_open(companion->client, name, 0, on_rival, companion) == 0;
	} else if (companion->reader == NULL && !companion->is_opening) {
		companion->is_opening = cleave_volume_open(companion->client, name,
					    CLEAVE_OPEN_READ_ONLY, on_reader, companion) == 0;
	} else if (companion->reader != NULL && !companion->is_reading) {
		read_some(companion);
	}
}

struct companion *
companion_create(const struct companion_options *options)
{
	struct sim_cluster *cluster = options->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct companion *companion = calloc(1, sizeof(*companion));
	struct cleave_client_options client = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.message_count_max = 16,
		.io_timeout_ns = TIMEOUT_NS,
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(companion != NULL);
	companion->options = *options;
	companion->data = malloc((size_t)HISTORY_BLOCKS_MAX * CLEAVE_BLOCK_BYTES);
	assert(companion->data != NULL);
	for (uint32_t i = 0; i < client.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (!sim_host_is_up(options->host))
		sim_host_start(options->host);
	companion->loop = sim_cluster_loop_create(cluster, options->host);
	client.loop = companion->loop;
	client.sim_host = options->host;
	if (cleave_client_create(&client, &companion->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
	loop_timer_init(&companion->timer, on_timer, companion);
	loop_timer_start(companion->loop, &companion->timer, PAUSE_NS);
	return companion;
}

void
companion_destroy(struct companion *companion)
{
	if (companion == NULL)
		return;
	sim_host_kill(companion->options.host, SIM_DEATH_RESET);
	loop_timer_stop(companion->loop, &companion->timer);
	cleave_client_destroy(companion->client);
	loop_destroy(companion->loop);
	free(companion->data);
	free(companion);
}

bool
companion_is_idle(const struct companion *companion)
{
	return companion == NULL ||
	    (!companion->is_opening && !companion->is_reading && !companion->is_asking);
}

uint64_t
companion_read_count(const struct companion *companion)
{
	return companion == NULL ? 0 : companion->read_count;
}
