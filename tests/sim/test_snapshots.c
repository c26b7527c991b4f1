/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_snapshots.c -- snapshots of a volume whose writer proves the order across shards (I5)
 *
 * One client writes 1, 2, 3 ... with one write outstanding, each into the next chunk, so that every
 * write is acknowledged before the next is issued, by another shard. A snapshot must then hold exactly
 * the writes up to some number: not less than what was acknowledged before it was asked for, not more than
 * what was issued when it was answered; and the same again whenever it is read. Gateways are killed in
 * the middle.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "check.h"
#include "cleave/client.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "faults.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "support/sanitized.h"

#define CHUNKS 16u
#define CHUNK_BLOCKS 2u /* written in each */
#define CELLS (CHUNKS * CHUNK_BLOCKS)
#define SNAPSHOTS_MAX 24u
#define LIMIT_NS NUM_S(300)
#define FAULT_STEPS 200u
#define KEY_LIMIT_NS NUM_S(180)
#define SLOT_LIMIT_NS NUM_S(60)
#define OPEN_SLOTS_MAX 6u
/* A seed decides on one to three gateways. */
#define SEEDS_QUIET TEST_ROUNDS(6u, 3u)
#define SEEDS TEST_ROUNDS(8u, 3u)

struct client {
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *volume;
	struct cleave_call call;
	struct cleave_io io;
	uint8_t data[CLEAVE_BLOCK_BYTES];
	bool is_done;
	int rc;
};

struct snapshot {
	char name[16];
	bool is_known; /* cells are what it held before */
	uint64_t floor, ceiling;
	uint64_t cells[CELLS];
};

static struct {
	struct sim_cluster *cluster;
	struct client writer, reader;
	uint64_t issued, acked;
	bool is_stopping, is_stopped;
	struct snapshot snapshots[SNAPSHOTS_MAX];
	uint32_t snapshot_count;
	struct sim_faults faults; /* allowed 0: none now */
	bool is_exact;            /* no write was ever sent twice */
} rig;

/* ---- clients ---- */

static uint32_t
below(uint32_t limit)
{
	return sim_cluster_below(rig.cluster, limit);
}

static void
client_start(struct client *client, uint32_t index)
{
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.gateway_count = rig.cluster->options.gateway_count,
		.message_count_max = 64,
		.io_timeout_ns = NUM_S(100000),
		.control_timeout_ns = NUM_S(20),
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = rig.cluster->gateways[i].address;
	client->host = rig.cluster->client_hosts[index];
	if (!sim_host_is_up(client->host))
		sim_host_start(client->host);
	client->loop = sim_cluster_loop_create(rig.cluster, client->host);
	options.loop = client->loop;
	options.sim_host = client->host;
	cr_assert_eq(cleave_client_create(&options, &client->client, error), 0, "%s", error);
}

static void
client_end(struct client *client)
{
	sim_host_kill(client->host, SIM_DEATH_RESET);
	cleave_client_destroy(client->client);
	loop_destroy(client->loop);
	*client = (struct client){ 0 };
}

static bool
is_done(void *arg)
{
	return ((const struct client *)arg)->is_done;
}

/* A process, the store or a disk fails for a while, now and then. */
static void
run_with_faults(const struct client *client)
{
	for (uint32_t i = 0; i < FAULT_STEPS && !client->is_done; i++) {
		sim_cluster_run(rig.cluster, below((uint32_t)NUM_MS(40)));
		sim_faults_expire(&rig.faults);
		if (below(10) == 0)
			sim_faults_inject(&rig.faults);
	}
	sim_faults_heal(&rig.faults);
}

static void
wait_for(struct client *client, const char *what)
{
	if (rig.faults.allowed != 0)
		run_with_faults(client);
	sim_cluster_run_until(rig.cluster, is_done, client, LIMIT_NS, what);
	client->is_done = false;
}

static void
on_call(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct client *client = arg;

	(void)call;
	(void)reply;
	sim_world_trace(rig.cluster->world, "answer rc=%d %s", rc, error == NULL ? "" : error);
	client->rc = rc;
	client->is_done = true;
}

static void
ask_soon(const char *op, const char *name, const char *other)
{
	struct client *client = &rig.reader;
	char request[256];

	(void)snprintf(request, sizeof(request), "{\"op\":\"%s\",\"name\":\"%s\"%s%s%s%s}", op,
	    name, other == NULL ? "" : ",\"new\":\"", other == NULL ? "" : other,
	    other == NULL ? "" : "\"",
	    strcmp(op, "volume.delete") == 0 ? ",\"snapshots\":true,\"purge\":true" : "");
	client->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_call, .arg = client };
	client->is_done = false;
	cr_assert_eq(cleave_control(client->client, &client->call, request), 0);
}

static int
ask(const char *op, const char *name, const char *other)
{
	ask_soon(op, name, other);
	wait_for(&rig.reader, op);
	return rig.reader.rc;
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct client *client = arg;

	(void)error;
	client->volume = volume;
	client->rc = rc;
	client->is_done = true;
}

static int
open_volume(struct client *client, const char *name)
{
	client->is_done = false;
	cr_assert_eq(cleave_volume_open(client->client, name, 0, on_open, client), 0);
	wait_for(client, "a volume is opened");
	return client->rc;
}

static void
on_closed(void *arg)
{
	((struct client *)arg)->is_done = true;
}

static void
close_volume(struct client *client)
{
	cleave_volume_close(client->volume, on_closed, client);
	wait_for(client, "a volume is closed");
	client->volume = NULL;
}

/* ---- the writer ---- */

/* Write @number, from 1 on, goes to cell (number - 1) % CELLS: one chunk after the other. */
static uint64_t
cell_offset(uint32_t cell)
{
	return cell % CHUNKS * CLEAVE_CHUNK_BYTES + (uint64_t)(cell / CHUNKS) * CLEAVE_BLOCK_BYTES;
}

static void writer_next(void);

static void
on_written(struct cleave_io *io, int rc, void *arg)
{
	(void)io;
	(void)arg;
	cr_assert_eq(rc, 0, "write %" PRIu64 ": %d", rig.issued, rc);
	rig.acked = rig.issued;
	if (rig.is_stopping)
		rig.is_stopped = true;
	else
		writer_next();
}

static void
writer_next(void)
{
	struct client *writer = &rig.writer;

	rig.issued++;
	for (uint32_t i = 0; i < CLEAVE_BLOCK_BYTES / 8; i++)
		num_put_le64(writer->data + (size_t)i * 8, rig.issued);
	writer->io = (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = cell_offset((uint32_t)((rig.issued - 1) % CELLS)),
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.data = writer->data,
		.fn = on_written };
	cr_assert_eq(cleave_submit(writer->volume, &writer->io), 0);
}

static bool
is_stopped(void *arg)
{
	(void)arg;
	return rig.is_stopped;
}

/* ---- what is read ---- */

static void
on_read(struct cleave_io *io, int rc, void *arg)
{
	struct client *client = arg;

	(void)io;
	client->rc = rc;
	client->is_done = true;
}

static void
read_cells(const char *name, uint64_t cells[CELLS])
{
	struct client *reader = &rig.reader;

	cr_assert_eq(open_volume(reader, name), 0, "%s cannot be opened: %d", name, reader->rc);
	for (uint32_t i = 0; i < CELLS; i++) {
		reader->io = (struct cleave_io){ .op = CLEAVE_READ,
			.offset_bytes = cell_offset(i),
			.length_bytes = CLEAVE_BLOCK_BYTES,
			.data = reader->data,
			.fn = on_read,
			.arg = reader };
		cr_assert_eq(cleave_submit(reader->volume, &reader->io), 0);
		wait_for(reader, "a read");
		cr_assert_eq(reader->rc, 0, "%s: read %u: %d", name, i, reader->rc);
		cells[i] = num_get_le64(reader->data);
		for (uint32_t k = 0; k < CLEAVE_BLOCK_BYTES / 8; k++)
			cr_assert_eq(num_get_le64(reader->data + (size_t)k * 8), cells[i]);
	}
	if (strchr(name, '@') != NULL) {
		reader->io.op = CLEAVE_WRITE;
		cr_assert_eq(cleave_submit(reader->volume, &reader->io), -EROFS);
	}
	close_volume(reader);
}

/* The newest number, when the cells hold all writes up to it and none behind it. */
static uint64_t
prefix_of(const char *name, const uint64_t cells[CELLS])
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < CELLS; i++)
		newest = cells[i] > newest ? cells[i] : newest;
	for (uint32_t i = 0; i < CELLS; i++) {
		uint64_t number = i + 1 > newest ? 0 : newest - (newest - 1 - i) % CELLS;

		cr_assert_eq(cells[i], number,
		    "%s holds write %" PRIu64 ", but of cell %u %" PRIu64 " instead of %" PRIu64,
		    name, newest, i, cells[i], number);
	}
	return newest;
}

static void
check_snapshot(struct snapshot *snapshot)
{
	uint64_t cells[CELLS], newest;
	char name[32];

	(void)snprintf(name, sizeof(name), "v@%s", snapshot->name);
	read_cells(name, cells);
	newest = prefix_of(name, cells);
	cr_assert_geq(newest, snapshot->floor, "%s lacks acknowledged writes", name);
	cr_assert_leq(newest, snapshot->ceiling, "%s holds writes of later", name);
	if (snapshot->is_known)
		cr_assert_eq(memcmp(cells, snapshot->cells, sizeof(cells)), 0, "%s has changed",
		    name);
	memcpy(snapshot->cells, cells, sizeof(cells));
	snapshot->is_known = true;
}

/* Whatever is not the same in both is said to have changed. */
static void
check_difference(const char *name, const uint64_t old[CELLS], const uint64_t new[CELLS])
{
	struct client *reader = &rig.reader;
	uint32_t same_count = 0;

	cr_assert_eq(open_volume(reader, name), 0, "%s: %d", name, reader->rc);
	for (uint32_t i = 0; i < CELLS; i++) {
		struct cleave_extent extent = { .length_bytes = 0 };

		reader->io = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = cell_offset(i),
			.length_bytes = CLEAVE_BLOCK_BYTES,
			.extents = &extent,
			.extent_max = 1,
			.fn = on_read,
			.arg = reader };
		cr_assert_eq(cleave_submit(reader->volume, &reader->io), 0);
		wait_for(reader, "a block status");
		cr_assert_eq(reader->rc, 0);
		if ((extent.flags & CLEAVE_EXTENT_HOLE) == 0) {
			cr_assert_eq(extent.flags & CLEAVE_EXTENT_ZERO, 0,
			    "%s: zeros of which end?", name);
			continue;
		}
		same_count++;
		cr_assert_eq(old[i], new[i], "%s: cell %u has changed", name, i);
	}
	close_volume(reader);
	if (rig.is_exact && memcmp(old, new, sizeof(uint64_t[CELLS])) == 0)
		cr_assert_eq(same_count, CELLS, "%s: nothing has changed", name);
}

static void
check_differences(void)
{
	const struct snapshot *first = &rig.snapshots[below(rig.snapshot_count)];
	const struct snapshot *second = &rig.snapshots[below(rig.snapshot_count)];
	uint64_t cells[CELLS];
	char name[64];

	(void)snprintf(name, sizeof(name), "v@%s@%s", first->name, second->name);
	check_difference(name, first->cells, second->cells);
	read_cells("v", cells);
	(void)snprintf(name, sizeof(name), "v@%s@", first->name);
	check_difference(name, first->cells, cells);
}

/* ---- the test ---- */

/* @is_killed: a gateway dies while it is taken. */
static void
take(bool is_killed, uint64_t faults)
{
	struct snapshot *snapshot = &rig.snapshots[rig.snapshot_count];
	char name[32];

	*snapshot = (struct snapshot){ .floor = rig.acked };
	(void)snprintf(snapshot->name, sizeof(snapshot->name), "s%u", rig.snapshot_count);
	(void)snprintf(name, sizeof(name), "v@%s", snapshot->name);
	ask_soon("snapshot.create", name, NULL);
	if (is_killed) {
		sim_cluster_run(rig.cluster, below((uint32_t)NUM_MS(100)));
		sim_cluster_gateway_kill(rig.cluster, below(rig.cluster->options.gateway_count));
		sim_cluster_run(rig.cluster, NUM_MS(100));
		sim_cluster_start_all(rig.cluster);
	}
	rig.faults.allowed = faults;
	wait_for(&rig.reader, "a snapshot is answered");
	rig.faults.allowed = 0;
	snapshot->ceiling = rig.issued;
	if (rig.reader.rc == 0) {
		rig.snapshot_count++;
		return;
	}
	cr_assert(is_killed || faults != 0 || rig.reader.rc == -EAGAIN ||
		rig.reader.rc == -ETIMEDOUT || rig.reader.rc == -ECONNRESET,
	    "%d", rig.reader.rc);
	/* The snapshot may have come to be all the same: then it must be right. */
	sim_cluster_run(rig.cluster, NUM_S(20));
	snapshot->ceiling = rig.issued;
	if (ask("snapshot.delete", name, NULL) == -ENOENT)
		return;
	cr_assert_eq(rig.reader.rc, 0);
}

/*
 * Gateways are further from each other than from the writer: their shards cut at very different times, and only
 * what is held keeps the writer from getting ahead of those that come last.
 */
static void
slow_links(void)
{
	const struct sim_link_options slow = { .latency_min_ns = NUM_MS(2),
		.latency_max_ns = NUM_MS(20) };
	struct sim_cluster *cluster = rig.cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		for (uint32_t k = 0; k < cluster->options.gateway_count; k++) {
			if (i != k)
				sim_net_set_link(cluster->gateways[i].host,
				    cluster->gateways[k].host, &slow);
		}
	}
}

static void
start(uint64_t seed)
{
	struct sim_cluster_options options = { .seed = seed,
		.gateway_count = 1 + (uint32_t)(seed % 3),
		.shard_count = 4,
		.is_shuffled = true,
		.log_bytes = seed % 2 == 0 ? 0 : 1 };

	memset(&rig, 0, sizeof(rig));
	rig.cluster = sim_cluster_create(&options);
	rig.faults.cluster = rig.cluster;
	sim_cluster_start(rig.cluster);
	slow_links();
	client_start(&rig.writer, 0);
	client_start(&rig.reader, 1);
	ask_soon("volume.create", "v\",\"size_bytes\":1073741824,\"engine\":\"none", NULL);
	wait_for(&rig.reader, "the volume is made");
	cr_assert_eq(rig.reader.rc, 0);
	cr_assert_eq(open_volume(&rig.writer, "v"), 0);
	writer_next();
}

static void
stop_writing(void)
{
	rig.is_stopping = true;
	sim_cluster_run_until(rig.cluster, is_stopped, NULL, LIMIT_NS, "the writer stops");
	close_volume(&rig.writer);
}

static void
end(void)
{
	client_end(&rig.writer);
	client_end(&rig.reader);
	sim_cluster_destroy(rig.cluster);
}

static void
snapshots_under_load(uint64_t seed, bool has_kills, uint64_t faults)
{
	start(seed);
	rig.is_exact = !has_kills && faults == 0;
	for (uint32_t i = 0; i < 12; i++) {
		sim_cluster_run(rig.cluster, below((uint32_t)NUM_MS(300)));
		take(has_kills && below(3) == 0, faults);
		if (rig.snapshot_count > 0 && below(2) == 0)
			check_snapshot(&rig.snapshots[below(rig.snapshot_count)]);
	}
	for (uint32_t i = 0; i < rig.snapshot_count; i++)
		check_snapshot(&rig.snapshots[i]);
	cr_assert_gt(rig.snapshot_count, 0, "seed %" PRIu64 ": no snapshot at all", seed);
}

/* No key is left of what was deleted, once all shards have dropped its cut. */
static bool
is_reclaimed(void *arg)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(rig.cluster->store->memory, arg, &items, &count), 0);
	free(items);
	return count == 0;
}

static bool
is_open(const struct sim_slot *slot, void *arg)
{
	uint32_t *count = arg;

	(*count)++;
	return !slot->is_sealed;
}

/*
 * Volumes that are no more leave nothing behind but what is open: of a shard its manifest, its log, its
 * runs, and what comes next of each.
 */
static bool
is_empty(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < rig.cluster->options.node_count; i++) {
		uint32_t count = 0;

		if (!sim_check_each_slot(rig.cluster, i, is_open, &count) ||
		    count > rig.cluster->options.shard_count * OPEN_SLOTS_MAX)
			return false;
	}
	return true;
}

static void
clones_and_roll_backs(void)
{
	struct snapshot *snapshot = &rig.snapshots[below(rig.snapshot_count)];
	uint64_t cells[CELLS];
	char name[32];

	(void)snprintf(name, sizeof(name), "v@%s", snapshot->name);
	cr_assert_eq(ask("clone", name, "c"), 0);
	read_cells("c", cells);
	cr_assert_eq(memcmp(cells, snapshot->cells, sizeof(cells)), 0, "the clone of %s", name);
	cr_assert_eq(ask("snapshot.delete", name, NULL), -ENOTEMPTY);
	cr_assert_eq(ask("volume.delete", "v", NULL), -ENOTEMPTY);
	/* Writes to the clone are in the clone alone. */
	rig.is_stopping = rig.is_stopped = false;
	cr_assert_eq(open_volume(&rig.writer, "c"), 0);
	writer_next();
	sim_cluster_run(rig.cluster, NUM_MS(200));
	stop_writing();
	check_snapshot(snapshot);
	cr_assert_eq(ask("snapshot.rollback", name, NULL), 0);
	read_cells("v", cells);
	cr_assert_eq(memcmp(cells, snapshot->cells, sizeof(cells)), 0, "rolled back to %s", name);
	cr_assert_eq(ask("volume.delete", "c", NULL), 0);
	/* Nobody writes any more, and in the log is what the volume still needs. */
	sim_cluster_run_until(rig.cluster, is_reclaimed, (void *)(uintptr_t) "deleted/",
	    KEY_LIMIT_NS, "a deleted volume is reclaimed");
}

static void
restart_all(void)
{
	for (uint32_t i = 0; i < rig.cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(rig.cluster, i);
	for (uint32_t i = 0; i < rig.cluster->options.node_count; i++)
		sim_cluster_node_kill(rig.cluster, i, true);
	sim_cluster_run(rig.cluster, NUM_S(1));
	sim_cluster_start_all(rig.cluster);
	sim_cluster_run(rig.cluster, NUM_S(5));
}

static void
everything(uint64_t seed, bool has_kills, uint64_t faults)
{
	snapshots_under_load(seed, has_kills, faults);
	stop_writing();
	check_differences();
	clones_and_roll_backs();
	check_differences();
	restart_all();
	for (uint32_t i = 0; i < rig.snapshot_count; i++)
		check_snapshot(&rig.snapshots[i]);
	cr_assert_eq(ask("volume.delete", "v", NULL), 0);
	sim_cluster_run_until(rig.cluster, is_reclaimed, (void *)(uintptr_t) "snapshots/",
	    KEY_LIMIT_NS, "the cuts of deleted snapshots are dropped");
	sim_cluster_run_until(rig.cluster, is_reclaimed, (void *)(uintptr_t) "deleted/",
	    KEY_LIMIT_NS, "deleted volumes are reclaimed");
	sim_cluster_run_until(rig.cluster, is_empty, NULL, SLOT_LIMIT_NS,
	    "no slot holds anything of what was deleted");
	end();
}

Test(snapshots, are_prefixes_of_what_was_written)
{
	for (uint64_t seed = 1; seed < 1 + SEEDS_QUIET; seed++)
		everything(seed, false, 0);
}

Test(snapshots, survive_the_death_of_gateways)
{
	for (uint64_t seed = 101; seed < 101 + SEEDS; seed++)
		everything(seed, true, 0);
}

Test(snapshots, meet_faults_of_every_kind)
{
	uint64_t faults = SIM_FAULT(node_kill) | SIM_FAULT(node_power) | SIM_FAULT(all_power) |
	    SIM_FAULT(node_pause) | SIM_FAULT(gateway_kill) | SIM_FAULT(gateway_stop) |
	    SIM_FAULT(gateway_pause) | SIM_FAULT(meta_timeout) | SIM_FAULT(meta_cut) |
	    SIM_FAULT(meta_slow) | SIM_FAULT(meta_down) | SIM_FAULT(drift) | SIM_FAULT(disk_stall) |
	    SIM_FAULT(disk_slow);

	for (uint64_t seed = 201; seed < 201 + SEEDS; seed++)
		everything(seed, false, faults);
}
