/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_crash_loops.c -- a crash at the n-th I/O of a flush, a compaction, a snapshot, a deletion, for each n; of a merge
 * that another gateway executes, too
 *
 * A small scenario is run again and again, in a new cluster of the same seed. The n-th time whoever is the
 * victim dies at its n-th I/O and comes back; the loop ends when the scenario has ended before. Each time
 * the content of the volume and of every snapshot is what it must be, also when it is read by a gateway
 * that has nothing in memory, and nothing is left that nobody names.
 *
 *	victim        I/O                                                       its death
 *	a gateway     a message to or from it, a request to the metadata store  kill -9
 *	a node        a request to its disk                                     power loss
 *	everything    a request to the disk of one node                         power loss of all
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "check.h"
#include "cleave/client.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cluster.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "support/sanitized.h"

#define SEED 7u
#define BLOCKS 96u
#define IO_BLOCKS 16u
#define SLOT_BYTES NUM_KIB(128)
#define LIMIT_NS NUM_S(300)
#define COMPACT_NS NUM_S(20)
#define DOWN_NS NUM_MS(50)
#define CRASHES_MAX 5000u
#define CRASH_STEP TEST_ROUNDS(1u, 5u) /* I/Os from one crash to the next */

enum victim { VICTIM_GATEWAY, VICTIM_OTHER, VICTIM_NODE, VICTIM_ALL };

static struct {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	struct cleave_volume *volume;
	struct cleave_io io;
	uint8_t data[IO_BLOCKS * CLEAVE_BLOCK_BYTES];
	bool is_done;
	int rc;
	/* The crash. */
	enum victim victim;
	uint64_t base_count, at_count, reached_count; /* at_count 0: none, or it has been */
	uint64_t base_compactions, base_flushes, base_away;
	bool is_over; /* without a crash */
	uint32_t name_serial;
} rig;

/* Contents of a volume, a snapshot or a clone: of each block a version; 0 zeros. */
struct content {
	char name[40];
	uint32_t versions[BLOCKS];
};

/* ---- the crash ---- */

static uint64_t
gateway_io_count(void)
{
	const struct mt_gateway *gateway =
	    rig.cluster->gateways[rig.victim == VICTIM_OTHER].gateway;
	uint64_t count = meta_store_applied_count(rig.cluster->store->memory);

	for (uint32_t i = 0; gateway != NULL && i < gateway->port_count; i++) {
		const struct split_counters *counters = split_port_counters(
		    gateway->ports[i].split);

		count += metric_read(&counters->messages_in) + metric_read(&counters->messages_out);
	}
	return count;
}

static uint64_t
io_count(void)
{
	const struct disk_sim_counters *counters;

	if (rig.victim == VICTIM_GATEWAY || rig.victim == VICTIM_OTHER)
		return gateway_io_count();
	counters = disk_sim_counters(rig.cluster->nodes[0].disk);
	return counters->reads_count + counters->writes_count + counters->flushes_count;
}

static bool
is_crash_due(void)
{
	return rig.at_count != 0 && io_count() >= rig.base_count + rig.at_count;
}

static void
crash(void)
{
	rig.reached_count = io_count() - rig.base_count;
	rig.at_count = 0;
	for (uint32_t i = 0; i < rig.cluster->options.gateway_count; i++) {
		if (rig.victim == VICTIM_ALL ||
		    rig.victim == (i == 0 ? VICTIM_GATEWAY : VICTIM_OTHER))
			sim_cluster_gateway_kill(rig.cluster, i);
	}
	if (rig.victim != VICTIM_NODE)
		rig.base_flushes = 0; /* the next one counts from there */
	for (uint32_t i = 0; i < rig.cluster->options.node_count; i++)
		if (rig.victim == VICTIM_ALL || (rig.victim == VICTIM_NODE && i == 0))
			sim_cluster_node_kill(rig.cluster, i, true);
	sim_cluster_run(rig.cluster, DOWN_NS);
	sim_cluster_start_all(rig.cluster);
}

static bool
is_either(void *arg)
{
	bool (*until)(void) = *(bool (**)(void))arg;

	return until() || is_crash_due();
}

static void
run_until(bool (*until)(void), const char *what)
{
	while (!until()) {
		sim_cluster_run_until(rig.cluster, is_either, &until, LIMIT_NS, what);
		if (is_crash_due())
			crash();
	}
}

static uint64_t pass_until_ns;

static bool
is_passed(void)
{
	return sim_world_now_ns(rig.cluster->world) >= pass_until_ns;
}

static void
pass(uint64_t ns)
{
	pass_until_ns = sim_world_now_ns(rig.cluster->world) + ns;
	run_until(is_passed, "time passes");
}

/* ---- a client ---- */

static bool
is_done(void)
{
	return rig.is_done;
}

static int
wait_for(const char *what)
{
	run_until(is_done, what);
	rig.is_done = false;
	return rig.rc;
}

static void
on_call(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	(void)call;
	(void)reply;
	(void)error;
	(void)arg;
	rig.rc = rc;
	rig.is_done = true;
}

static int
ask(const char *op, const char *name, const char *more)
{
	char request[256];

	(void)snprintf(request, sizeof(request), "{\"op\":\"%s\",\"name\":\"%s\"%s}", op, name,
	    more);
	rig.call = (struct cleave_call){ .must_not_repeat = true, .fn = on_call };
	cr_assert_eq(cleave_control(rig.client, &rig.call, request), 0);
	return wait_for(op);
}

/*
 * Until it is so: a lost answer is asked for again. A volume whose session could not be ended, for its gateway
 * had died, counts as in use for the session's time.
 */
static void
ask_until(const char *op, const char *name, const char *more, int done_rc)
{
	for (uint32_t i = 0; i < 100; i++) {
		int rc = ask(op, name, more);

		if (rc == 0 || (i > 0 && rc == done_rc))
			return;
		cr_assert(rc == -EAGAIN || rc == -ETIMEDOUT || rc == -ECONNRESET ||
			rc == -ECONNREFUSED || rc == -EBUSY || rc == -EREMCHG || rc == -ENOTEMPTY,
		    "%s %s: %d", op, name, rc);
		pass(NUM_MS(200));
	}
	cr_assert(false, "%s %s: never", op, name);
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	(void)error;
	(void)arg;
	rig.volume = volume;
	rig.rc = rc;
	rig.is_done = true;
}

static void
on_closed(void *arg)
{
	(void)arg;
	rig.is_done = true;
}

static void
open_volume(const char *name)
{
	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(cleave_volume_open(rig.client, name, 0, on_open, NULL), 0);
		if (wait_for("a volume is opened") == 0)
			return;
		cr_assert_neq(rig.rc, -ENOENT, "%s is gone", name);
		pass(NUM_MS(200));
	}
	cr_assert(false, "%s cannot be opened: %d", name, rig.rc);
}

static void
close_volume(void)
{
	cleave_volume_close(rig.volume, on_closed, NULL);
	(void)wait_for("a volume is closed");
	rig.volume = NULL;
}

static void
on_io(struct cleave_io *io, int rc, void *arg)
{
	(void)io;
	(void)arg;
	rig.rc = rc;
	rig.is_done = true;
}

static void
submit(enum cleave_op op, uint32_t block)
{
	rig.io = (struct cleave_io){ .op = op,
		.offset_bytes = (uint64_t)block * CLEAVE_BLOCK_BYTES,
		.length_bytes = sizeof(rig.data),
		.data = rig.data,
		.fn = on_io };
	cr_assert_eq(cleave_submit(rig.volume, &rig.io), 0);
	cr_assert_eq(wait_for("a request"), 0, "block %u: %d", block, rig.rc);
}

static void
pattern(uint8_t *out, uint32_t block, uint32_t version)
{
	for (uint32_t i = 0; i < CLEAVE_BLOCK_BYTES / 8; i++)
		num_put_le64(out + (size_t)i * 8,
		    version == 0 ? 0 : num_mix_u64(((uint64_t)version << 40) + block * 512u + i));
}

/* Blocks from @first on, each @step-th sixteen of them. */
static void
write_pass(struct content *content, uint32_t first, uint32_t step, uint32_t version)
{
	open_volume(content->name);
	for (uint32_t block = first; block < BLOCKS; block += step * IO_BLOCKS) {
		for (uint32_t i = 0; i < IO_BLOCKS; i++) {
			pattern(rig.data + (size_t)i * CLEAVE_BLOCK_BYTES, block + i, version);
			content->versions[block + i] = version;
		}
		submit(CLEAVE_WRITE, block);
	}
	close_volume();
}

static void
check(const struct content *content, const char *when)
{
	uint8_t expected[CLEAVE_BLOCK_BYTES];

	open_volume(content->name);
	for (uint32_t block = 0; block < BLOCKS; block += IO_BLOCKS) {
		memset(rig.data, 0xee, sizeof(rig.data));
		submit(CLEAVE_READ, block);
		for (uint32_t i = 0; i < IO_BLOCKS; i++) {
			pattern(expected, block + i, content->versions[block + i]);
			cr_assert_eq(memcmp(rig.data + (size_t)i * CLEAVE_BLOCK_BYTES, expected,
					 sizeof(expected)),
			    0, "%s: %s block %u is not of version %u; crash at I/O %" PRIu64, when,
			    content->name, block + i, content->versions[block + i],
			    rig.reached_count);
		}
	}
	close_volume();
}

/* ---- a cluster ---- */

static void
start(enum victim victim, uint32_t gateway_count)
{
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options client = { .gateways = gateways,
		.gateway_count = gateway_count,
		.message_count_max = 64,
		.io_timeout_ns = NUM_S(100000),
		.control_timeout_ns = NUM_S(20),
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	log_set_level(LOG_OFF);
	memset(&rig, 0, sizeof(rig));
	rig.victim = victim;
	rig.cluster = sim_cluster_create(&(struct sim_cluster_options){ .seed = SEED,
	    .gateway_count = gateway_count,
	    .has_offload = gateway_count > 1,
	    .shard_count = 1,
	    .client_count = 1,
	    .slot_bytes = SLOT_BYTES,
	    .disk_bytes = NUM_MIB(64),
	    .device_bytes = NUM_MIB(8),
	    .lease_ns = NUM_S(1),
	    .node_timeout_ns = NUM_S(2),
	    .log_bytes = SLOT_BYTES });
	sim_cluster_start(rig.cluster);
	for (uint32_t i = 0; i < gateway_count; i++)
		gateways[i] = rig.cluster->gateways[i].address;
	rig.host = rig.cluster->client_hosts[0];
	if (!sim_host_is_up(rig.host))
		sim_host_start(rig.host);
	rig.loop = sim_cluster_loop_create(rig.cluster, rig.host);
	client.loop = rig.loop;
	client.sim_host = rig.host;
	cr_assert_eq(cleave_client_create(&client, &rig.client, error), 0, "%s", error);
}

static void
end(void)
{
	sim_host_kill(rig.host, SIM_DEATH_RESET);
	cleave_client_destroy(rig.client);
	loop_destroy(rig.loop);
	sim_cluster_destroy(rig.cluster);
}

static void
create(struct content *content, const char *name)
{
	memset(content, 0, sizeof(*content));
	(void)snprintf(content->name, sizeof(content->name), "%s", name);
	ask_until("volume.create", name, ",\"size_bytes\":1073741824,\"engine\":\"none\"", -EEXIST);
}

/* Merges, and runs that others had covered. */
static uint64_t
compacted_count(void)
{
	return sim_cluster_metric(rig.cluster, MT_METRIC_compactions) +
	    sim_cluster_metric(rig.cluster, MT_METRIC_covered_runs);
}

/* From here on I/Os count. */
static void
arm(uint64_t at_count)
{
	rig.base_count = io_count();
	rig.at_count = at_count;
	rig.base_compactions = compacted_count();
	rig.base_flushes = sim_cluster_metric(rig.cluster, MT_METRIC_flushes);
	rig.base_away = sim_cluster_metric(rig.cluster, MT_METRIC_merges_away);
}

static void
disarm(void)
{
	if (rig.at_count != 0)
		rig.is_over = true;
	rig.at_count = 0;
}

/* ---- scenarios: the content of all there is when it has ended ---- */

#define CONTENTS_MAX 6u
struct contents {
	struct content items[CONTENTS_MAX];
	uint32_t count;
};

/* Ends with what it was about, crash or not. */
typedef void (*scenario_fn)(struct contents *contents, uint64_t at_count);

static bool
has_flushed(void)
{
	return sim_cluster_metric(rig.cluster, MT_METRIC_flushes) > rig.base_flushes;
}

static bool
has_compacted(void)
{
	return compacted_count() > rig.base_compactions;
}

static bool
has_compacted_or_passed(void)
{
	return has_compacted() || is_passed();
}

static void
flush_scenario(struct contents *contents, uint64_t at_count)
{
	struct content *v = &contents->items[0];
	uint32_t version = 1;

	contents->count = 1;
	create(v, "v");
	write_pass(v, 0, 1, version++);
	arm(at_count);
	while (!has_flushed()) {
		write_pass(v, 0, 2, version++);
		cr_assert_lt(version, 50, "no flush");
	}
	pass(NUM_MS(200));
}

static bool
has_gone_away(void)
{
	return sim_cluster_metric(rig.cluster, MT_METRIC_merges_away) > rig.base_away;
}

/* A gateway has the shard, and another one executes its merges. Who has crashed is left alone for a while. */
static void
away_scenario(struct contents *contents, uint64_t at_count)
{
	struct content *v = &contents->items[0];
	uint32_t version = 1;

	contents->count = 1;
	create(v, "v");
	write_pass(v, 0, 1, version++);
	arm(at_count);
	while (!has_gone_away() && (rig.at_count != 0 || version < 12)) {
		write_pass(v, 0, 2, version++);
		cr_assert_lt(version, 50, "nothing goes away");
	}
	pass(NUM_MS(200));
}

/* Another name each time: one whose answer was lost may be there. */
static void
take(struct contents *contents, const struct content *of)
{
	struct content *snapshot = &contents->items[contents->count++];

	*snapshot = *of;
	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(snapshot->name, sizeof(snapshot->name), "%.8s@s%u", of->name,
		    rig.name_serial++);
		if (ask("snapshot.create", snapshot->name, "") == 0)
			return;
		pass(NUM_MS(200));
	}
	cr_assert(false, "no snapshot: %d", rig.rc);
}

/* Blocks that only a deleted snapshot saw are garbage. */
static void
compact_scenario(struct contents *contents, uint64_t at_count)
{
	struct content *v = &contents->items[0];
	struct contents others = { .count = 0 };

	contents->count = 1;
	create(v, "v");
	for (uint32_t version = 1; version < 6; version++)
		write_pass(v, 0, 1, version);
	take(&others, v);
	/* So many that the last merge is a flush: the next one that is due, a compaction, has its turn before another. */
	for (uint32_t version = 6; version < 12; version++)
		write_pass(v, 0, 1, version);
	arm(at_count);
	ask_until("snapshot.delete", others.items[0].name, "", -ENOENT);
	/* After a crash a flush may have it done by the way. */
	pass_until_ns = sim_world_now_ns(rig.cluster->world) + COMPACT_NS;
	run_until(has_compacted_or_passed, "garbage is compacted");
	cr_assert(has_compacted() || rig.at_count == 0);
	pass(NUM_MS(200));
}

static void
snapshot_scenario(struct contents *contents, uint64_t at_count)
{
	struct content *v = &contents->items[0], *clone;
	char more[64];

	contents->count = 1;
	create(v, "v");
	write_pass(v, 0, 1, 1);
	arm(at_count);
	take(contents, v);
	write_pass(v, 0, 2, 2);
	take(contents, v);
	write_pass(v, IO_BLOCKS, 2, 3);
	/* A clone of the first, and back to the second. */
	clone = &contents->items[contents->count++];
	*clone = contents->items[1];
	(void)snprintf(clone->name, sizeof(clone->name), "c");
	(void)snprintf(more, sizeof(more), ",\"new\":\"c\"");
	ask_until("clone", contents->items[1].name, more, -EEXIST);
	write_pass(clone, 0, 3, 4);
	ask_until("snapshot.rollback", contents->items[2].name, "", 0);
	memcpy(v->versions, contents->items[2].versions, sizeof(v->versions));
	write_pass(v, 2 * IO_BLOCKS, 4, 5);
}

static bool
is_reclaimed(void)
{
	static const char *const prefixes[] = { "snapshots/", "deleted/" };
	uint32_t left_count = 0;

	for (uint32_t i = 0; i < NUM_COUNT(prefixes); i++) {
		struct meta_item *items = NULL;
		uint32_t count = 0;

		cr_assert_eq(meta_store_list(rig.cluster->store->memory, prefixes[i], &items,
				 &count),
		    0);
		free(items);
		left_count += count;
	}
	return left_count == 0;
}

static bool
is_open(const struct sim_slot *slot, void *arg)
{
	(void)arg;
	return !slot->is_sealed;
}

static bool
is_empty(void)
{
	for (uint32_t i = 0; i < rig.cluster->options.node_count; i++)
		if (!sim_check_each_slot(rig.cluster, i, is_open, NULL))
			return false;
	return true;
}

/* Nothing is in the log, so all of it goes at once. */
static void
delete_scenario(struct contents *contents, uint64_t at_count)
{
	struct content v;

	contents->count = 0;
	create(&v, "v");
	write_pass(&v, 0, 1, 1);
	for (uint32_t version = 2; version < 5; version++)
		write_pass(&v, 0, 2, version);
	arm(at_count);
	ask_until("volume.delete", "v", ",\"purge\":true", -ENOENT);
	run_until(is_reclaimed, "what was deleted is reclaimed");
	run_until(is_empty, "no slot holds anything of it");
}

/* ---- loops ---- */

/* True: a crash came; false: the scenario was over before. */
static bool
run_once(enum victim victim, scenario_fn scenario, uint64_t at_count, uint32_t gateway_count)
{
	struct contents contents = { .count = 0 };
	bool has_crashed;

	start(victim, gateway_count);
	scenario(&contents, at_count);
	disarm();
	has_crashed = !rig.is_over;
	for (uint32_t i = 0; i < contents.count; i++)
		check(&contents.items[i], "afterwards");
	for (uint32_t i = 0; i < gateway_count; i++)
		sim_cluster_gateway_kill(rig.cluster, i);
	sim_cluster_start(rig.cluster);
	for (uint32_t i = 0; i < contents.count; i++)
		check(&contents.items[i], "by a new gateway");
	sim_check_recovers(rig.cluster, false);
	sim_check_copies(rig.cluster);
	end();
	return has_crashed;
}

static void
loop_over_gateways(enum victim victim, scenario_fn scenario, uint32_t gateway_count)
{
	uint64_t crash_count = 0, at_count = 1;

	while (run_once(victim, scenario, at_count, gateway_count)) {
		at_count = rig.reached_count + CRASH_STEP; /* several in one turn are one moment */
		cr_assert_lt(++crash_count, CRASHES_MAX);
	}
	(void)fprintf(stderr, "%" PRIu64 " crashes, %" PRIu64 " I/Os\n", crash_count, at_count - 1);
	cr_assert_gt(crash_count, 10);
}

static void
loop_over(enum victim victim, scenario_fn scenario)
{
	loop_over_gateways(victim, scenario, 1);
}

/* The two are owner and worker, either way. */
Test(crash_loops, a_merge_that_goes_away_when_one_gateway_dies)
{
	loop_over_gateways(VICTIM_GATEWAY, away_scenario, 2);
}

Test(crash_loops, a_merge_that_goes_away_when_the_other_gateway_dies)
{
	loop_over_gateways(VICTIM_OTHER, away_scenario, 2);
}

Test(crash_loops, a_merge_that_goes_away_when_a_node_dies)
{
	loop_over_gateways(VICTIM_NODE, away_scenario, 2);
}

Test(crash_loops, a_merge_that_goes_away_when_all_goes_dark)
{
	loop_over_gateways(VICTIM_ALL, away_scenario, 2);
}

Test(crash_loops, a_flush_of_a_gateway_that_dies)
{
	loop_over(VICTIM_GATEWAY, flush_scenario);
}

Test(crash_loops, a_flush_to_a_node_that_dies)
{
	loop_over(VICTIM_NODE, flush_scenario);
}

Test(crash_loops, a_flush_when_all_goes_dark)
{
	loop_over(VICTIM_ALL, flush_scenario);
}

Test(crash_loops, a_compaction_of_a_gateway_that_dies)
{
	loop_over(VICTIM_GATEWAY, compact_scenario);
}

Test(crash_loops, a_compaction_when_all_goes_dark)
{
	loop_over(VICTIM_ALL, compact_scenario);
}

Test(crash_loops, a_snapshot_of_a_gateway_that_dies)
{
	loop_over(VICTIM_GATEWAY, snapshot_scenario);
}

Test(crash_loops, a_snapshot_on_a_node_that_dies)
{
	loop_over(VICTIM_NODE, snapshot_scenario);
}

Test(crash_loops, a_snapshot_when_all_goes_dark)
{
	loop_over(VICTIM_ALL, snapshot_scenario);
}

Test(crash_loops, a_deletion_of_a_gateway_that_dies)
{
	loop_over(VICTIM_GATEWAY, delete_scenario);
}

Test(crash_loops, a_deletion_when_all_goes_dark)
{
	loop_over(VICTIM_ALL, delete_scenario);
}
