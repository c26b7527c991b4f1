/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c -- see workload.h */
#include "workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/num.h"
#include "companion.h"
#include "history.h"
#include "leases.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"
#include "workload_inside.h"

#define WAIT_LIMIT_NS NUM_S(600)
#define FOR_EVER_NS NUM_S(100000)
#define REOPEN_AFTER_NS NUM_MS(200)
#define PROBES_MAX 32u
#define PEEKING_PROBES_MAX 512u
#define PEEKING_READS 32u    /* of so many probes one is a write: it may show a session its end */
#define REREAD_BLOCKS_MAX 4u /* as gateways keep them: read/read_hot.h */
#define HOT_BLOCKS 32u
#define OBSERVATIONS_MAX 8u        /* of a session */
#define OBSERVATIONS_HASTY_MAX 64u /* ... that gives up soon */
#define ALL_ONE_IN 24u             /* discards and zero writes: of the whole volume */

static void slot_on_done(struct cleave_io *io, int rc, void *arg);
static void session_on_open_timer(struct loop_timer *timer, void *arg);
static void session_on_next(struct loop_task *task, void *arg);
static void session_on_probe(struct loop_task *task, void *arg);

/* Requests. */

static uint32_t
below(struct session *session, uint32_t limit)
{
	return (uint32_t)loop_random_below(session->loop, limit);
}

/* The present one by an attachment of its own that it had given up: it asks again. */
static void
session_lost(struct session *session)
{
	if (session->is_lost)
		return;
	session->is_lost = true;
	if (!session->is_old)
		loop_timer_start(session->loop, &session->open_timer, REOPEN_AFTER_NS);
}

/* Reads that were not answered are sent again, by the next session if this one is lost. */
static void
slot_note_repeat(struct slot *slot)
{
	slot->must_repeat = slot->session->workload->is_verifying && !slot->is_probe &&
	    !slot->session->is_old;
}

static void
slot_submit(struct slot *slot, enum cleave_op op, uint32_t first, uint32_t count)
{
	struct session *session = slot->session;
	struct workload *workload = session->workload;
	struct history_op note = { .op = op,
		.first_block = first,
		.block_count = count,
		.session = session->number,
		.is_forbidden = slot->is_probe };
	int rc;

	slot->number = history_submit(workload->history, &note, slot->floors);
	slot->first = first;
	slot->count = count;
	slot->io = (struct cleave_io){ .op = op,
		.offset_bytes = history_offset(workload->history, first),
		.length_bytes = count == workload->block_count
		    ? workload_bytes(workload)
		    : (uint64_t)count * CLEAVE_BLOCK_BYTES,
		.data = op == CLEAVE_READ || op == CLEAVE_WRITE ? slot->data : NULL,
		.fn = slot_on_done,
		.arg = slot };
	for (uint32_t i = 0; op == CLEAVE_WRITE && i < count; i++)
		history_fill(workload->history, slot->number, first + i,
		    slot->data + (size_t)i * CLEAVE_BLOCK_BYTES);
	slot->is_busy = true;
	slot->volume = session->volume;
	if (op == CLEAVE_READ && workload->leases != NULL)
		sim_leases_on_read(workload->leases, slot->volume, first, count, &slot->maps);
	rc = cleave_submit(session->volume, &slot->io);
	if (rc == 0)
		return;
	if (rc != -ESHUTDOWN)
		sim_cluster_fail(workload->cluster, "cleave_submit: %s", strerror(-rc));
	slot->is_busy = false;
	slot_note_repeat(slot);
	session_lost(session);
}

/* Half of all goes to a few hot blocks, so that requests meet each other. */
static void
slot_issue_random(struct slot *slot)
{
	struct session *session = slot->session;
	struct workload *workload = session->workload;
	const struct workload_options *options = &workload->options;
	uint32_t count = 1 + below(session, below(session, 2) == 0 ? 2 : WORKLOAD_BLOCKS_MAX);
	uint32_t range = below(session, 2) == 0 ? HOT_BLOCKS : workload->block_count;
	uint32_t first = below(session, (uint32_t)num_max(range, count + 1) - count);
	uint32_t dice = below(session, 100);
	enum cleave_op op = CLEAVE_WRITE;
	struct workload_choice choice;

	if (dice < options->read_percent)
		op = CLEAVE_READ;
	else if (dice < options->read_percent + options->discard_percent)
		op = below(session, 2) == 0 ? CLEAVE_DISCARD : CLEAVE_WRITE_ZEROES;
	if (options->is_rereading && slot->io.fn != NULL && slot->io.op == CLEAVE_READ &&
	    below(session, 4) != 0) {
		op = CLEAVE_READ;
		first = slot->first;
		count = (uint32_t)num_min(slot->count, options->is_peeking ? 1 : REREAD_BLOCKS_MAX);
	}
	count = history_limit(workload->history, first, count);
	if (op != CLEAVE_READ && op != CLEAVE_WRITE && below(session, ALL_ONE_IN) == 0) {
		first = 0;
		count = workload->block_count;
	}
	workload->issued_count++;
	slot->is_probe = false;
	choice = (struct workload_choice){ op, first, count };
	if (options->is_peeking)
		workload_peek_choose(slot, &choice);
	slot_submit(slot, choice.op, choice.first, choice.count);
}

static void
slot_issue_verify(struct slot *slot)
{
	struct workload *workload = slot->session->workload;
	uint32_t first = workload->verify_next_block;
	uint32_t count = (uint32_t)num_min(WORKLOAD_BLOCKS_MAX, workload->block_count - first);

	if (slot->must_repeat) {
		first = slot->first;
		count = slot->count;
	} else {
		workload->verify_next_block += count;
	}
	slot->is_probe = slot->must_repeat = false;
	if (count > 0)
		slot_submit(slot, CLEAVE_READ, first, count);
}

static void
session_on_next(struct loop_task *task, void *arg)
{
	struct session *session = arg;
	struct workload *workload = session->workload;
	uint32_t depth = workload->options.in_flight;

	(void)task;
	if (session->volume == NULL || !workload->is_started)
		return;
	for (uint32_t i = 0; i < depth && !session->is_old && !session->is_lost; i++) {
		if (session->slots[i].is_busy)
			continue;
		if (workload->is_verifying) {
			slot_issue_verify(&session->slots[i]);
		} else if (workload->issued_count < workload->options.op_count &&
		    !workload->is_resting) {
			slot_issue_random(&session->slots[i]);
		}
	}
}

/* A session that peeks has some more, for probes: where its gateway stands still all others wait. */
static uint32_t
session_slot_count(const struct session *session)
{
	const struct workload_options *options = &session->workload->options;

	return options->in_flight + (options->is_peeking ? WORKLOAD_PROBES : 0);
}

/*
 * The old session, at a block that the new one has been served; or reads one that it has peeked at last. It writes to the
 * former alone: a gateway that the new one has not met yet, and that did not say that it knows of it, serves the old one.
 */
static void
session_on_probe(struct loop_task *task, void *arg)
{
	struct session *session = arg;
	bool is_peeking = session->workload->options.is_peeking;
	uint32_t probes_max = is_peeking ? PEEKING_PROBES_MAX : PROBES_MAX;

	(void)task;
	if (session->volume == NULL || session->is_lost || session->probe_count == probes_max)
		return;
	for (uint32_t i = 0; i < session_slot_count(session); i++) {
		struct slot *slot = &session->slots[i];
		uint32_t served = session->probe_block;

		if (slot->is_busy)
			continue;
		session->probe_count++;
		slot->is_probe = true;
		if (is_peeking)
			workload_peek_probe(session);
		if (is_peeking ? below(session, PEEKING_READS) != 0 : below(session, 2) == 0)
			slot_submit(slot, CLEAVE_READ, session->probe_block, 1);
		else
			slot_submit(slot, CLEAVE_WRITE, served, 1);
		return;
	}
}

/* By a slot that is for probes, of which there are none: nobody has come in the session's place. */
static void
session_on_ask(struct loop_task *task, void *arg)
{
	struct session *session = arg;
	uint32_t depth = session->workload->options.in_flight, at = 0;

	(void)task;
	for (uint32_t i = depth; i < session_slot_count(session); i++) {
		struct slot *slot = &session->slots[i];

		if (slot->is_busy || session->is_old || session->is_lost ||
		    at == session->asked_count)
			continue;
		slot->is_probe = slot->must_repeat = false;
		slot_submit(slot, session->must_write ? CLEAVE_WRITE : CLEAVE_READ,
		    session->asked[at++], 1);
	}
	session->asked_count = 0;
}

/* Completions. */

static void
note_looks(const struct slot *slot)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];

	for (uint32_t i = 0; i < slot->count; i++) {
		const uint8_t *data = slot->data + (size_t)i * CLEAVE_BLOCK_BYTES;

		slot->session->workload->looks[slot->first + i] =
		    memcmp(data, zeros, sizeof(zeros)) == 0 ? LOOK_ZEROS : LOOK_DATA;
	}
}

static void
slot_on_written(struct slot *slot)
{
	struct session *session = slot->session;
	struct workload *workload = session->workload;
	struct observer *observer = &session->observer;
	uint32_t over = history_written(workload->history, slot->number);
	const struct history_op *lost = history_op(workload->history, over);

	if (over == 0 || lost->block_count > HISTORY_BLOCKS_MAX || !workload->options.is_observed ||
	    session->is_old || session->is_lost || observer->is_busy ||
	    observer->count >= (sim_run_has_haste(workload->cluster->options.seed)
				       ? OBSERVATIONS_HASTY_MAX
				       : OBSERVATIONS_MAX))
		return;
	workload->counters.observations++;
	observer->session = session->number;
	observer_start(observer, lost, history_offset(workload->history, lost->first_block));
}

static void
session_note_answer(struct session *session)
{
	uint64_t now_ns = sim_world_now_ns(session->workload->cluster->world);

	if (session->answered_ns != UINT64_MAX &&
	    now_ns - session->answered_ns >= COMPANION_SILENT_NS)
		session->silence_ns = now_ns;
	session->answered_ns = now_ns;
}

/* Adds to *@sum what a counter of a client has grown by since it was *@seen. */
static void
note_growth(uint64_t now, uint64_t *seen, uint64_t *sum)
{
	*sum += now - *seen;
	*seen = now;
}

static void
note_past(struct session *session, const struct slot *slot)
{
	const struct cleave_stats *stats = cleave_client_stats(session->client);
	struct sim_cluster *cluster = session->workload->cluster;

	if (stats->hot_reads != session->peek_count && slot->count == 1)
		workload_peek_note(session, slot->first);
	note_growth(stats->direct_reads, &session->direct_read_count, &cluster->direct_read_count);
	note_growth(stats->hot_reads, &session->peek_count, &cluster->peek_count);
	note_growth(stats->hot_torn, &session->torn_count, &cluster->torn_count);
}

/* A read past its gateway may be served after a newer session's read: histories judge what it returns. */
static bool
slot_is_forbidden(const struct slot *slot)
{
	const struct sim_cluster_options *options = &slot->session->workload->cluster->options;

	return slot->is_probe &&
	    (slot->io.op != CLEAVE_READ || (!options->has_direct && !options->has_peeks));
}

static void
slot_on_success(struct slot *slot)
{
	struct session *session = slot->session;
	struct workload *workload = session->workload;

	session_note_answer(session);
	workload->counters.cost_done += limits_ops(
	    slot->io.data != NULL ? (uint32_t)slot->io.length_bytes : 0);
	if (slot_is_forbidden(slot))
		sim_cluster_fail(workload->cluster,
		    "%s block %u: session %u was served after session %u", workload->name,
		    slot->first, session->number, workload->present->number);
	note_past(session, slot);
	if (slot->io.op == CLEAVE_READ && workload->is_verifying)
		note_looks(slot);
	if (slot->io.op == CLEAVE_READ && workload->leases != NULL)
		sim_leases_on_answer(workload->leases, slot->volume, slot->first, slot->count,
		    &slot->maps, slot->data);
	if (slot->io.op == CLEAVE_READ)
		history_read(workload->history, slot->number, slot->data, slot->floors);
	else
		slot_on_written(slot);
	/* A discard of holes alone is answered without a change, and waits for nobody. */
	if (slot->io.op == CLEAVE_WRITE && workload->leases != NULL)
		sim_leases_on_change(workload->leases, slot->volume, slot->first, slot->count);
	if (session->is_old || workload->old == NULL ||
	    below(session, workload->options.is_peeking ? 2 : 4) != 0)
		return;
	workload->old->probe_block = slot->first;
	loop_defer(workload->old->loop, &workload->old->probe_task);
}

static void
slot_on_error(struct slot *slot, int rc)
{
	struct session *session = slot->session;
	struct workload *workload = session->workload;

	if (slot->is_probe && (rc == -ESHUTDOWN || rc == -ETIMEDOUT))
		workload->counters.probes_refused++;
	if (rc == -ESHUTDOWN) {
		workload->counters.ops_fenced++;
		slot_note_repeat(slot);
		if (slot->volume == session->volume)
			session_lost(session);
		return;
	}
	if (rc == -ETIMEDOUT && (workload->options.io_timeout_ns != 0 || slot->is_probe)) {
		workload->counters.ops_timed_out++;
		if (slot->io.op != CLEAVE_READ && !slot->is_probe)
			history_given_up(workload->history, slot->number);
		slot_note_repeat(slot);
		return;
	}
	if (rc == -ENOSPC && workload->options.may_be_full && slot->io.op != CLEAVE_READ) {
		workload->counters.ops_refused++;
		return;
	}
	sim_cluster_fail(workload->cluster, "%s: op %d at block %u of %u: %s", workload->name,
	    (int)slot->io.op, slot->first, slot->count, strerror(-rc));
}

static void
slot_on_done(struct cleave_io *io, int rc, void *arg)
{
	struct slot *slot = arg;
	struct session *session = slot->session;
	struct workload *workload = session->workload;

	sim_world_trace(workload->cluster->world, "%s session %u done op=%d number=%u rc=%d",
	    workload->name, session->number, (int)io->op, slot->number, rc);
	slot->is_busy = false;
	if (rc == 0)
		slot_on_success(slot);
	else
		slot_on_error(slot, rc);
	workload->counters.ops_done++;
	loop_defer(session->loop, &session->next_task);
}

/* Sessions. */

static void
session_on_opened(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct session *session = arg;

	(void)error;
	sim_world_trace(session->workload->cluster->world, "%s session %u open rc=%d",
	    session->workload->name, session->number, rc);
	if (rc != 0) {
		loop_timer_start(session->loop, &session->open_timer, REOPEN_AFTER_NS);
		return;
	}
	session->volume = volume;
	session->workload->volume_id = cleave_volume_info(volume)->id;
	workload_peek_opened(session->workload, volume);
	if (session->workload->leases != NULL)
		sim_leases_add(session->workload->leases, session, volume);
	if (!session->is_old)
		session->workload->is_taking = false;
	/* Superseded while it opened: its attach may be the later one, and it may well be served. */
	session->is_lost = session->is_old;
	loop_defer(session->loop, &session->next_task);
}

static void
session_open(struct session *session)
{
	int rc;

	session->number = history_session(session->workload->history);
	session->workload->counters.sessions++;
	session->volume = NULL; /* one that was lost stays until the process ends */
	session->is_lost = false;
	session->answered_ns = UINT64_MAX;
	session->silence_ns = 0;
	rc = cleave_volume_open(session->client, session->workload->name,
	    session->must_take ? CLEAVE_OPEN_TAKE : 0, session_on_opened, session);
	if (rc != 0)
		sim_cluster_fail(session->workload->cluster, "cleave_volume_open: %d", rc);
}

static void
session_on_open_timer(struct loop_timer *timer, void *arg)
{
	struct session *session = arg;

	(void)timer;
	if (!session->is_old)
		session_open(session);
}

static struct session *
session_create(struct workload *workload)
{
	struct sim_cluster *cluster = workload->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct session *session = calloc(1, sizeof(*session));
	struct cleave_client_options client = { .gateways = gateways,
		.key = sim_cluster_client_key(workload->options.cluster),
		.gateway_count = cluster->options.gateway_count,
		.message_count_max = 64,
		.holes_chunks_min = 1 + workload->options.index % 2 * 3,
		.io_timeout_ns = workload->options.io_timeout_ns,
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(session != NULL);
	if (client.io_timeout_ns == 0)
		client.io_timeout_ns = FOR_EVER_NS;
	for (uint32_t i = 0; i < client.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	session->workload = workload;
	session->host =
	    cluster->client_hosts[WORKLOAD_HOSTS * workload->options.index + workload->host_index];
	if (!sim_host_is_up(session->host))
		sim_host_start(session->host);
	session->loop = sim_cluster_loop_create(cluster, session->host);
	loop_task_init(&session->next_task, session_on_next, session);
	loop_task_init(&session->probe_task, session_on_probe, session);
	loop_task_init(&session->ask_task, session_on_ask, session);
	loop_timer_init(&session->open_timer, session_on_open_timer, session);
	for (uint32_t i = 0; i < session_slot_count(session); i++) {
		session->slots[i].session = session;
		session->slots[i].data = malloc((size_t)WORKLOAD_BLOCKS_MAX * CLEAVE_BLOCK_BYTES);
		assert(session->slots[i].data != NULL);
	}
	client.loop = session->loop;
	client.sim_host = session->host;
	if (cleave_client_create(&client, &session->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
	session->observer = (struct observer){ .cluster = cluster,
		.history = workload->history,
		.client = session->client,
		.volume_name = workload->name,
		.data = malloc((size_t)HISTORY_BLOCKS_MAX * CLEAVE_BLOCK_BYTES) };
	assert(session->observer.data != NULL);
	return session;
}

/* kill -9 of its process. */
static void
session_destroy(struct session *session)
{
	if (session == NULL)
		return;
	if (session->workload->leases != NULL)
		sim_leases_forget(session->workload->leases, session);
	sim_host_kill(session->host,
	    sim_cluster_below(session->workload->cluster, 2) == 0 ? SIM_DEATH_RESET
								  : SIM_DEATH_SILENT);
	cleave_client_destroy(session->client);
	loop_destroy(session->loop);
	for (uint32_t i = 0; i < session_slot_count(session); i++)
		free(session->slots[i].data);
	free(session->observer.data);
	free(session);
}

static bool
session_is_idle(const struct session *session)
{
	for (uint32_t i = 0; i < NUM_COUNT(session->slots); i++)
		if (session->slots[i].is_busy || session->slots[i].must_repeat)
			return false;
	return !session->observer.is_busy;
}

/* The volume. */

static void
on_created(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct workload *workload = arg;

	(void)call;
	(void)reply;
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "volume.create: %d, %s", rc, error);
	workload->is_created = true;
}

static bool
is_created(void *arg)
{
	return ((struct workload *)arg)->is_created;
}

/* For the companion. */
static struct companion_writer
workload_writer(void *arg)
{
	const struct session *session = ((const struct workload *)arg)->present;

	if (session == NULL || session->volume == NULL || session->is_lost)
		return (struct companion_writer){ .session = 0 };
	return (
	    struct companion_writer){ session->number, session->answered_ns, session->silence_ns };
}

static bool
workload_is_at_work(void *arg)
{
	const struct workload *workload = arg;

	return workload->issued_count < workload->options.op_count;
}

static void
workload_accompany(struct workload *workload)
{
	const struct companion_options options = { .cluster = workload->cluster,
		.history = workload->history,
		.host = workload->cluster->client_hosts[WORKLOAD_HOSTS * workload->options.index +
		    WORKLOAD_HOSTS - 1],
		.volume_name = workload->name,
		.block_count = workload->block_count,
		.writer = workload_writer,
		.is_at_work = workload_is_at_work,
		.arg = workload };

	workload->companion = companion_create(&options);
}

struct workload *
workload_create(const struct workload_options *options)
{
	struct workload *workload = calloc(1, sizeof(*workload));
	static const char *const engines[] = { "none", "lz4", "zstd" };
	char reads[32] = "", request[192];
	int rc;

	assert(workload != NULL);
	assert(options->in_flight > 0);
	assert(options->in_flight <= WORKLOAD_IN_FLIGHT);
	assert(options->chunk_count > 0);
	workload->options = *options;
	workload->cluster = options->cluster;
	workload->block_count = (uint32_t)(options->volume_bytes / CLEAVE_BLOCK_BYTES);
	workload->looks = calloc(workload->block_count, sizeof(*workload->looks));
	assert(workload->looks != NULL);
	workload->history = history_create(workload->cluster, options->index, workload->block_count,
	    options->chunk_count);
	(void)snprintf(workload->name, sizeof(workload->name), "volume%u", options->index + 1);
	if (workload->cluster->options.has_leases)
		(void)snprintf(reads, sizeof(reads), ",\"reads\":\"%s\"",
		    sim_leases_word(workload->cluster));
	(void)snprintf(request, sizeof(request),
	    "{\"op\":\"volume.create\",\"name\":\"%s\",\"size_bytes\":%" PRIu64
	    ",\"engine\":\"%s\"%s%s}",
	    workload->name, workload_bytes(workload),
	    engines[sim_cluster_below(workload->cluster, 3)],
	    options->is_latency ? ",\"service_class\":\"latency\"" : "", reads);
	if (workload->cluster->options.has_leases)
		workload->leases =
		    sim_leases_create(workload->cluster, workload->name, workload->history);
	workload->present = session_create(workload);
	workload->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_created, .arg = workload };
	rc = cleave_control(workload->present->client, &workload->call, request);
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "cleave_control: %d", rc);
	sim_cluster_run_until(workload->cluster, is_created, workload, WAIT_LIMIT_NS,
	    "the volume is made");
	session_open(workload->present);
	if (options->is_accompanied)
		workload_accompany(workload);
	return workload;
}

void
workload_destroy(struct workload *workload)
{
	companion_destroy(workload->companion);
	session_destroy(workload->old);
	session_destroy(workload->present);
	sim_leases_destroy(workload->leases);
	history_destroy(workload->history);
	free(workload->looks);
	free(workload);
}

void
workload_start(struct workload *workload)
{
	workload->is_started = true;
	if (workload->present != NULL)
		loop_defer(workload->present->loop, &workload->present->next_task);
}

bool
workload_is_done(const struct workload *workload)
{
	return workload->issued_count == workload->options.op_count && workload->present != NULL &&
	    workload->present->volume != NULL && !workload->present->is_lost &&
	    session_is_idle(workload->present) && companion_is_idle(workload->companion) &&
	    (workload->old == NULL || session_is_idle(workload->old));
}

uint32_t
workload_op_count(const struct workload *workload)
{
	return workload->options.op_count;
}

uint32_t
workload_completed_count(const struct workload *workload)
{
	return (uint32_t)workload->counters.ops_done;
}

const struct workload_counters *
workload_counters(const struct workload *workload)
{
	return &workload->counters;
}

static bool
is_verified(void *arg)
{
	const struct workload *workload = arg;

	return workload->verify_next_block == workload->block_count && workload_is_done(workload);
}

void
workload_verify_all(struct workload *workload, uint64_t limit_ns, const char *what)
{
	workload->is_verifying = true;
	workload->verify_next_block = 0;
	memset(workload->looks, 0, workload->block_count * sizeof(*workload->looks));
	loop_defer(workload->present->loop, &workload->present->next_task);
	sim_cluster_run_until(workload->cluster, is_verified, workload, limit_ns, what);
	workload->is_verifying = false;
	for (uint32_t i = 0; i < workload->block_count; i++)
		if (workload->looks[i] == LOOK_NONE)
			sim_cluster_fail(workload->cluster,
			    "%s block %u: was not read to verify it", workload->name, i);
	workload_check_status(workload, limit_ns, what);
}

/* Faults. */

void
workload_kill(struct workload *workload)
{
	if (workload->present == NULL)
		return;
	sim_world_trace(workload->cluster->world, "kill %s session %u", workload->name,
	    workload->present->number);
	session_destroy(workload->present);
	workload->present = NULL;
}

void
workload_restart(struct workload *workload)
{
	if (workload->present != NULL)
		return;
	workload->present = session_create(workload);
	/*
	 * Half of them wait until their predecessor's time is over. Of one that died before it
	 * had taken the volume that is never: who holds it lives on.
	 */
	workload->present->must_take = sim_cluster_below(workload->cluster, 2) == 0 ||
	    workload->is_taking;
	session_open(workload->present);
}

void
workload_takeover(struct workload *workload)
{
	if (workload->present == NULL)
		return;
	session_destroy(workload->old);
	workload->old = workload->present;
	workload->old->is_old = true;
	/* A session that is still attaching could come to be the newest yet. */
	if (workload->old->volume == NULL) {
		session_destroy(workload->old);
		workload->old = NULL;
	}
	workload->host_index = 1 - workload->host_index;
	workload->present = session_create(workload);
	workload->present->must_take = workload->is_taking = true;
	session_open(workload->present);
}

void
workload_pause(struct workload *workload, uint64_t duration_ns)
{
	if (workload->present != NULL)
		sim_loop_pause(workload->present->loop, duration_ns);
}

bool
workload_is_held(const struct workload *workload)
{
	return workload->present != NULL && workload->present->volume != NULL &&
	    !workload->present->is_lost;
}

struct history *
workload_history(const struct workload *workload)
{
	return workload->history;
}

const char *
workload_name(const struct workload *workload)
{
	return workload->name;
}

uint64_t
workload_timeout_ns(const struct workload *workload)
{
	return workload->options.io_timeout_ns;
}

struct sim_host *
workload_host(const struct workload *workload)
{
	return workload->cluster
	    ->client_hosts[WORKLOAD_HOSTS * workload->options.index + workload->host_index];
}
