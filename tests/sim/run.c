/* SPDX-License-Identifier: Apache-2.0 */
/* run.c -- see run.h */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balancer.h"
#include "base/log.h"
#include "base/num.h"
#include "base/random.h"
#include "check.h"
#include "cleave/engine.h"
#include "deletes.h"
#include "drainer.h"
#include "encrypted.h"
#include "enemy.h"
#include "etcd_faults.h"
#include "faults.h"
#include "grouper.h"
#include "invariant.h"
#include "leases.h"
#include "levels.h"
#include "limiter.h"
#include "members.h"
#include "middletier/extent/head_mirror.h"
#include "peeker.h"
#include "run.h"
#include "snapper.h"
#include "splitlib/sim/loop_sim.h"
#include "store.h"
#include "thief.h"
#include "trasher.h"
#include "well.h"
#include "workload.h"

#define RUN_CLIENTS_MAX ((SIM_CLIENTS_MAX - 1) / WORKLOAD_HOSTS)
#define RUN_FAULTS_NS NUM_S(600)     /* of virtual time with faults, at most */
#define RUN_HEAL_LIMIT_NS NUM_S(120) /* after the last fault: everything is answered */
#define RUN_SETTLE_NS NUM_S(15)
#define RUN_CLEAR_LIMIT_NS NUM_S(300) /* after snapshots were deleted: nothing is left of them */
#define RUN_LONG_MANIFEST_SEEDS 10u
#define RUN_STAGE_SLOT_BYTES NUM_KIB(128)
#define RUN_STAGE_CHUNKS 1u
#define RUN_STAGE_VOLUME_BYTES NUM_MIB(2)
#define RUN_MANIFEST_PART_BYTES NUM_KIB(8)
#define RUN_HOT_BYTES NUM_KIB(96)        /* of a port: two sets of eight blocks */
#define RUN_INDEX_CACHE_BYTES NUM_KIB(4) /* of a gateway: a few pages, or directories */
#define RUN_MANIFEST_BYTES 2304u         /* four volumes take half of it */
#define RUN_ENCRYPTED_FAULTS 16u         /* between two looks at all that is stored */
#define RUN_BALANCE_SHARDS 8u
#define RUN_BALANCE_CHUNKS                                                                         \
	4u /* of a volume, at most: some shards have much to do, and others nothing */
#define RUN_UPGRADE_LIMIT_NS NUM_S(300)
#define RUN_MEMBERS_LIMIT_NS NUM_S(300)
#define RUN_HOLD_NS NUM_S(5)
#define RUN_HOLD_MIN_NS NUM_MS(16)
#define RUN_HOLD_SHIFTS 5u /* up to 256 ms */
#define RUN_HOLD_CHUNKS 4u
#define RUN_FAR_MAX_NS NUM_MS(20)
#define RUN_EARLY_SEEDS                                                                            \
	8u /* one in so many meets its metadata store of before the first manifest */
#define RUN_PERIOD_NS NUM_S(20)
#define RUN_PERIODS 8u /* at most */
#define RUN_PERIOD_BYTES NUM_KIB(64)
#define RUN_READER_BYTES                                                                           \
	NUM_KIB(12) /* of a node, for a session: its slots of tickets, as they are used */
#define RUN_TABLE_BYTES                                                                            \
	NUM_KIB(8)                /* of a shard whose log has grown old meanwhile: its first runs */
#define RUN_LIFE_BYTES NUM_MIB(2) /* caches, and manifests that were longer once */
#define RUN_HASTY_OPS_PER_FAULT 30u
#define RUN_FAULT_GAP_NS NUM_S(10) /* without progress: the next fault */

#define RUN_FAULTS_COMMON (SIM_FAULTS_ALL & ~SIM_FAULTS_OF_ETCD)
#define RUN_GATEWAYS_MAX 3u

struct run {
	struct sim_run_options options;
	uint64_t dice[4]; /* of the set-up; the world has its own */
	struct sim_cluster *cluster;
	struct workload *workloads[RUN_CLIENTS_MAX];
	struct snapper *snapper;         /* NULL: this seed does without */
	struct sim_levels *levels;       /* NULL: likewise, its processes are of one release */
	struct sim_drainer *drainer;     /* NULL: likewise */
	struct sim_trasher *trasher;     /* NULL: likewise */
	struct sim_grouper *grouper;     /* NULL: likewise */
	struct sim_members *members;     /* NULL: likewise, its nodes stay as they are */
	struct sim_limiter *limiter;     /* NULL: likewise, no volume has a limit */
	struct sim_balancer *balancer;   /* NULL: likewise, shards are shared out by count */
	struct sim_encrypted *encrypted; /* NULL: likewise, nothing is encrypted */
	struct sim_enemy *enemy;         /* NULL: likewise, nobody has a key */
	struct sim_faults faults;
	uint32_t ops_per_fault; /* on average half of it */
	struct sim_invariants invariants;
	uint64_t progress_count;          /* what stops a pause: so many operations */
	struct sim_store_copy *old_store; /* NULL: this seed does without */
};

static uint32_t
dice(struct run *run, uint32_t limit)
{
	return (uint32_t)random_below(run->dice, limit);
}

static bool
run_is_on_etcd(const struct run *run)
{
	if (run->options.meta != SIM_META_BY_SEED)
		return run->options.meta == SIM_META_ETCD;
	return sim_run_is_on_etcd(run->options.seed);
}

/* Half of the classes, a quarter or an eighth: where few kinds meet, each is met more often. */
static uint64_t
choose_faults(struct run *run)
{
	uint64_t faults = RUN_FAULTS_COMMON;

	for (uint32_t i = 0, halvings = 1 + dice(run, 3); i < halvings; i++)
		faults &= random_u64(run->dice);
	if (run->options.faults == SIM_FAULTS_NONE)
		return 0;
	if (run->options.faults != 0)
		return run->options.faults &
		    (run_is_on_etcd(run) ? SIM_FAULTS_ALL : RUN_FAULTS_COMMON);
	if (faults == 0)
		faults = RUN_FAULTS_COMMON;
	/* Half of its own. */
	return run_is_on_etcd(run) ? faults | (random_u64(run->dice) & SIM_FAULTS_OF_ETCD) : faults;
}

/* A rack, a building, or a network that loses packets and sends them again. */
static void
choose_link(struct run *run, struct sim_link_options *link)
{
	static const struct sim_link_options links[] = {
		{ NUM_US(20), NUM_US(60), 0, 0, UINT64_C(3000000000) },
		{ NUM_US(100), NUM_MS(3), 1000, NUM_MS(20), UINT64_C(1000000000) },
		{ NUM_US(50), NUM_US(500), 5000, NUM_MS(200), UINT64_C(100000000) },
	};

	*link = links[dice(run, 4) % 3];
}

static bool
run_has_snapshots(const struct run *run)
{
	if (run->options.snapshots != SIM_SNAPSHOTS_BY_SEED)
		return run->options.snapshots == SIM_SNAPSHOTS_YES;
	return run->options.seed % SIM_RUN_SNAPSHOT_SEEDS == 0;
}

/* Holds that end by themselves before all shards have begun. Of a third of the seeds holds are as users have them. */
static bool
run_has_short_holds(const struct run *run)
{
	return run_has_snapshots(run) && run->options.seed / SIM_RUN_SNAPSHOT_SEEDS % 3 != 0;
}

/* Shards with more chunks than their manifests may have runs of. */
static bool
run_has_long_manifests(const struct run *run)
{
	return run->options.seed % RUN_LONG_MANIFEST_SEEDS == 3 && !run_has_snapshots(run);
}

static bool
run_has_members(const struct run *run)
{
	if (run->options.members != SIM_MEMBERS_BY_SEED)
		return run->options.members == SIM_MEMBERS_YES;
	return sim_run_has_members(run->options.seed);
}

static bool
run_has_keys(const struct run *run)
{
	if (run->options.keys != SIM_KEYS_BY_SEED)
		return run->options.keys == SIM_KEYS_YES;
	return sim_run_has_keys(run->options.seed);
}

static bool
run_has_balance(const struct run *run)
{
	if (run->options.balance != SIM_BALANCE_BY_SEED)
		return run->options.balance == SIM_BALANCE_YES;
	return sim_run_has_balance(run->options.seed);
}

/* Processes of two releases, and an upgrade. */
static bool
run_has_levels(const struct run *run)
{
	return sim_run_has_levels(run->options.seed) && !run_has_members(run) &&
	    run->options.balance != SIM_BALANCE_YES && !run_has_keys(run);
}

/* Less or more is in gateways' memory of what is on the nodes. */
static void
choose_kept(const struct run *run, struct sim_cluster_options *options)
{
	if (sim_run_has_hot_blocks(run->options.seed))
		options->hot_bytes = RUN_HOT_BYTES * options->port_count;
	if (sim_run_has_scarce_indexes(run->options.seed))
		options->index_cache_bytes = RUN_INDEX_CACHE_BYTES;
	if (sim_run_has_mirrors(run->options.seed))
		options->mirror_bytes = MT_HEAD_MIRROR_BYTES_MIN * options->port_count;
	options->directory_batches_min = sim_run_has_directories(run->options.seed) ? 1 : 0;
}

/* Shards that go by load: many, of gateways that have room for them, or just so. Returns how many there are. */
static uint32_t
choose_balance(const struct run *run, struct sim_cluster_options *options, uint32_t gateways)
{
	options->shard_count = RUN_BALANCE_SHARDS;
	options->has_balance = true;
	/* In half of them two gateways have room for all, and not for one placed besides. */
	if (run->options.seed % 2 == 0) {
		options->port_count = 1;
		options->device_bytes = NUM_MIB(8);
		return RUN_GATEWAYS_MAX;
	}
	gateways = (uint32_t)num_max(gateways, 2);
	/* Two ports of the least memory have no room for all. */
	if (options->port_count == 1 && gateways < RUN_GATEWAYS_MAX)
		options->device_bytes = num_max(options->device_bytes, NUM_MIB(16));
	return gateways;
}

static void
draw_cluster(struct run *run, struct sim_cluster_options *options)
{
	*options = (struct sim_cluster_options){ .seed = run->options.seed,
		.is_shuffled = dice(run, 2) == 0,
		.has_drift = dice(run, 2) == 0,
		.drift_ppm_max = dice(run, 2) == 0 ? 200 : 10000,
		.shard_count = 1 + dice(run, 4),
		/* Mostly as users have it. */
		.min_replicas = 2 + dice(run, 4) / 3,
		.slot_bytes = NUM_KIB(128) << dice(run, 3),
		.lease_ns = NUM_MS(500) << dice(run, 3),
		.repair_after_ns = NUM_S(1 + dice(run, 2)),
		.sweep_interval_ns = NUM_S(2),
		/* By the seed alone: the dice fall as before. */
		.orphan_grace_ns = NUM_S(run->options.seed % 4),
		.is_health_watched = run->options.seed % 12 == 8,
		.scrub_interval_ns = NUM_S(5 + dice(run, 60)),
		.node_timeout_ns = NUM_S(1 + dice(run, 5)) };
	/* Two seeds in three have gateways that share a host with the metadata store. */
	options->knows_deaths = run->options.seed % 3 != 0;
	options->port_count = 1 + dice(run, 3) / 2;
	options->device_bytes = NUM_MIB(8) << dice(run, 3);
	options->client_receives = 8u << dice(run, 4);
	choose_link(run, &options->link);
}

static void
choose_cluster(struct run *run, struct sim_cluster_options *options)
{
	const struct sim_run_options *given = &run->options;
	uint32_t gateways = 1 + dice(run, RUN_GATEWAYS_MAX), nodes = 3 + dice(run, 3);

	draw_cluster(run, options);
	if (sim_run_has_stages(run->options.seed))
		options->slot_bytes = RUN_STAGE_SLOT_BYTES;
	options->disk_bytes = num_max(NUM_MIB(128), 1024 * options->slot_bytes);
	/* These seeds have a log as short as may be: all that is written goes through merges. */
	if (given->seed % 2 == 1)
		options->log_bytes = options->slot_bytes;
	/* Manifests of many extents, in a third of the seeds; so short that they press back. */
	if (given->seed % 3 == 1)
		options->manifest_part_bytes = RUN_MANIFEST_PART_BYTES;
	if (run_has_long_manifests(run))
		options->manifest_bytes = RUN_MANIFEST_BYTES;
	/* In half of those merges compress elsewhere, in a quarter of these all that is written. */
	if (given->seed % 4 == 1)
		options->merge_threads = 1;
	if (given->seed % 16 == 5)
		options->engine_threads = 2;
	if (run_has_short_holds(run))
		options->hold_ns = RUN_HOLD_MIN_NS
		    << given->seed / SIM_RUN_SNAPSHOT_SEEDS % RUN_HOLD_SHIFTS;
	if (run_has_short_holds(run) || sim_run_has_haste(given->seed)) {
		options->shard_count = (uint32_t)num_max(options->shard_count, 2);
		gateways = (uint32_t)num_max(gateways, 2);
	}
	options->has_keys = run_has_keys(run);
	options->has_heat = sim_run_has_heat(given->seed);
	choose_kept(run, options);
	gateways = sim_peeks_choose(given->seed, options, gateways);
	sim_leases_choose(given->seed, run_has_levels(run), options);
	options->has_recipes = sim_run_has_recipes(given->seed);
	options->has_offload = sim_run_has_offload(given->seed);
	if (options->has_offload)
		gateways = (uint32_t)num_max(gateways, 2);
	if (run_is_on_etcd(run))
		sim_run_choose_etcd(run->options.seed, options);
	if (run_has_balance(run))
		gateways = choose_balance(run, options, gateways);
	options->gateway_count = given->gateway_count != 0 ? given->gateway_count : gateways;
	options->node_count = given->node_count != 0 ? given->node_count : nodes;
	/* Fewer than the seed has want room for as many; a lone port of the least memory that reads ahead has none for four. */
	if ((options->has_balance && options->gateway_count < gateways) ||
	    (options->has_heat && options->gateway_count * options->port_count == 1 &&
		options->shard_count == 4))
		options->device_bytes = num_max(options->device_bytes, NUM_MIB(16));
}

/* The first volume's snapper. It has a generator of its own: seeds without it decide what they always did. */
static void
run_create_snapper(struct run *run, uint64_t volume_bytes)
{
	const struct workload *workload = run->workloads[0];
	const struct snapper_options options = { .cluster = run->cluster,
		.host = run->cluster->client_hosts[run->cluster->options.client_count - 1],
		.history = workload_history(workload),
		.volume = workload_name(workload),
		.block_count = (uint32_t)(volume_bytes / CLEAVE_BLOCK_BYTES),
		.seed = run->options.seed,
		.flattens = sim_run_has_flattening(run->options.seed) };

	if (run_has_snapshots(run))
		run->snapper = snapper_create(&options);
}

static void
run_create_workloads(struct run *run, uint32_t count, uint32_t op_count)
{
	struct workload_options workload = { .cluster = run->cluster,
		.volume_bytes = NUM_MIB(1) << dice(run, 3),
		.op_count = op_count / count,
		.read_percent = 20 + dice(run, 50),
		.discard_percent = dice(run, 20),
		.in_flight = 1 + dice(run, WORKLOAD_IN_FLIGHT) };

	workload.may_be_full = (run->faults.allowed & SIM_FAULT(all_full)) != 0 ||
	    run_has_long_manifests(run);
	workload.is_peeking = run->cluster->options.has_peeks;
	workload.is_rereading = workload.is_peeking || sim_run_has_hot_blocks(run->options.seed);
	if (dice(run, 4) == 0)
		workload.io_timeout_ns = NUM_MS(500) << dice(run, 5);
	sim_peeks_work(&workload);
	if (sim_run_has_haste(run->options.seed))
		workload.io_timeout_ns = NUM_MS(500);
	workload.chunk_count = 1u << dice(run, 4);
	if (run_has_long_manifests(run)) {
		workload.chunk_count *= 8;
	} else if (run_has_short_holds(run)) {
		workload.chunk_count = (uint32_t)num_max(workload.chunk_count, RUN_HOLD_CHUNKS);
	} else if (sim_run_has_stages(run->options.seed)) {
		workload.chunk_count = (uint32_t)num_min(workload.chunk_count, RUN_STAGE_CHUNKS);
		workload.volume_bytes = num_max(workload.volume_bytes, RUN_STAGE_VOLUME_BYTES);
	}
	if (run_has_balance(run) && !run_has_long_manifests(run))
		workload.chunk_count = (uint32_t)num_min(workload.chunk_count, RUN_BALANCE_CHUNKS);
	/* A snapper's volume: nobody else makes snapshots of it. */
	workload.is_observed = !run_has_snapshots(run);
	for (uint32_t i = 0; i < count; i++) {
		workload.index = i;
		/* The log of these seeds is short: one volume waits where the other goes on. */
		workload.is_accompanied = run->options.seed % 3 == 1;
		workload.is_latency = i % 2 == 1 && run->options.seed % 4 == 3;
		run->workloads[i] = workload_create(&workload);
	}
	run->faults.workload_count = count;
	if (sim_run_has_limits(run->options.seed) && !run_has_members(run) && !run_has_levels(run))
		run->limiter =
		    sim_limiter_create(run->cluster, run->workloads[0], run->options.seed);
	for (uint32_t i = 0; i < count; i++)
		workload_start(run->workloads[i]);
	run_create_snapper(run, workload.volume_bytes);
}

/* So far that the hold at one may have ended before the other has begun. */
static void
run_part_gateways(const struct run *run)
{
	const struct sim_cluster *cluster = run->cluster;
	struct sim_link_options far = cluster->options.link;

	far.latency_max_ns = num_max(far.latency_max_ns, RUN_FAR_MAX_NS);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		for (uint32_t k = 0; k < cluster->options.gateway_count; k++)
			if (k != i)
				sim_net_set_link(cluster->gateways[i].host,
				    cluster->gateways[k].host, &far);
}

/* Holds are as users have them from now on: what is asked for again and again must be done some time. */
static void
run_join_gateways(const struct run *run)
{
	struct sim_cluster *cluster = run->cluster;

	cluster->options.hold_ns = 0;
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		struct sim_cluster_gateway *own = &cluster->gateways[i];

		if (own->gateway != NULL)
			own->gateway->settings.hold_ns = RUN_HOLD_NS;
		for (uint32_t k = 0; k < cluster->options.gateway_count; k++)
			if (k != i)
				sim_net_set_link(own->host, cluster->gateways[k].host,
				    &cluster->options.link);
	}
}

static void
log_in_virtual_time(enum log_level level, const char *line, void *arg)
{
	static const char letters[] = "TDIWE";
	const struct sim_world *world = arg;

	(void)fprintf(stderr, "%12.6f %-10s %c %s\n", (double)sim_world_now_ns(world) / 1e9,
	    sim_world_running(world), letters[level], line);
}

static void
run_begin(struct run *run)
{
	struct sim_cluster_options options;
	const char *level_text = getenv("CLEAVE_SIM_LOG");
	enum log_level level = LOG_OFF;
	uint32_t clients, op_count = run->options.op_count;

	random_seed(run->dice, run->options.seed * 2 + 1);
	choose_cluster(run, &options);
	clients = 1 + dice(run, RUN_CLIENTS_MAX);
	if (run->options.client_count != 0)
		clients = run->options.client_count;
	options.client_count = clients * WORKLOAD_HOSTS + run_has_snapshots(run);
	if (level_text != NULL && log_level_parse(level_text, &level) != 0)
		level = LOG_INFO;
	log_set_level(level);
	run->cluster = sim_cluster_create(&options);
	if (sim_encrypted_is_in(run->options.seed) && !run_has_levels(run))
		run->encrypted = sim_encrypted_create(run->cluster, run->options.seed);
	if (run_has_short_holds(run))
		run_part_gateways(run);
	log_set_sink(log_in_virtual_time, run->cluster->world);
	if (getenv("CLEAVE_SIM_TRACE") != NULL)
		sim_world_set_trace_file(run->cluster->world, stderr);
	run->faults = (struct sim_faults){ .cluster = run->cluster,
		.workloads = run->workloads,
		.allowed = choose_faults(run),
		.victim = dice(run, options.node_count) };
	run->ops_per_fault = 15u << dice(run, 5);
	if (sim_run_has_haste(run->options.seed))
		run->ops_per_fault = RUN_HASTY_OPS_PER_FAULT;
	if (run_has_levels(run))
		run->levels = sim_levels_create(run->cluster, run->options.seed);
	else if (!run_has_members(run))
		run->drainer = sim_drainer_create(run->cluster, run->options.seed);
	if (run_has_members(run))
		run->members =
		    sim_members_create(run->cluster, run->options.seed, run->faults.victim);
	if (run_has_balance(run))
		run->balancer = sim_balancer_create(run->cluster);
	if (run->options.seed % RUN_EARLY_SEEDS == 3)
		sim_check_unmanifested(run->cluster);
	else if (run->members == NULL)
		sim_cluster_start(run->cluster);
	if (run->members != NULL)
		sim_members_start(run->members);
	if (run->levels == NULL) {
		run->trasher = sim_trasher_create(run->cluster, run->options.seed);
		run->grouper = sim_grouper_create(run->cluster, run->options.seed);
	}
	run->cluster->thief = sim_thief_create(run->cluster, run->options.seed);
	run_create_workloads(run, clients, op_count != 0 ? op_count : SIM_RUN_OPS_DEFAULT);
	run->faults.peeker = sim_peeker_create(run->cluster, run->workloads,
	    run->faults.workload_count, run->options.seed);
	if (run_has_keys(run))
		run->enemy = sim_enemy_create(run->cluster, workload_name(run->workloads[0]),
		    run->options.seed);
}

static uint64_t
run_completed_count(const struct run *run)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < run->faults.workload_count; i++)
		sum += workload_completed_count(run->workloads[i]);
	return sum;
}

static bool
run_is_done(void *arg)
{
	const struct run *run = arg;

	for (uint32_t i = 0; i < run->faults.workload_count; i++)
		if (!workload_is_done(run->workloads[i]))
			return false;
	return true;
}

static bool
run_has_progressed(void *arg)
{
	const struct run *run = arg;

	return run_completed_count(run) >= run->progress_count || run_is_done(arg);
}

/* A take-over, or whatever else a fault began, meets another fault, soon or a while after. */
static void
run_second_fault(struct run *run)
{
	uint64_t after_ns = UINT64_C(1000) << sim_cluster_below(run->cluster, 21);

	sim_cluster_run(run->cluster, sim_world_random_below(run->cluster->world, after_ns));
	sim_faults_expire(&run->faults);
	sim_faults_inject(&run->faults);
}

/* A node whose disk has destroyed data is asked for nothing. */
static uint32_t
run_spared(const struct run *run)
{
	return run->faults.has_destroyed ? run->faults.victim : SIM_NODES_MAX;
}

static void
run_check_invariants(struct run *run)
{
	sim_invariants_check(&run->invariants, run->cluster, run_spared(run));
	sim_peeker_check(run->faults.peeker);
}

/*
 * Faults come by work done, so that they meet every part of it, and a little after, so that they meet
 * it halfway; or when nothing goes on any more. Each ends by itself, so that they overlap.
 */
static void
run_faults(struct run *run)
{
	struct sim_world *world = run->cluster->world;
	uint64_t end_ns = sim_world_now_ns(world) + RUN_FAULTS_NS, next_ns = 0;
	uint32_t fault_count = 0;

	while (!run_is_done(run) && sim_world_now_ns(world) < end_ns) {
		if (next_ns == 0) {
			next_ns = sim_world_now_ns(world) + RUN_FAULT_GAP_NS;
			run->progress_count = run_completed_count(run) +
			    sim_world_random_below(world, run->ops_per_fault);
		}
		if (sim_world_run(world, run_has_progressed, run,
			num_min(next_ns, sim_faults_next_ns(&run->faults))) == 0 ||
		    sim_world_now_ns(world) >= next_ns) {
			sim_cluster_run(run->cluster, sim_world_random_below(world, NUM_US(500)));
			run_check_invariants(run);
			if (fault_count++ % RUN_ENCRYPTED_FAULTS == 0)
				sim_encrypted_check(run->encrypted);
			sim_faults_inject(&run->faults);
			if (sim_cluster_below(run->cluster, 2) == 0)
				run_second_fault(run);
			next_ns = 0;
		}
		run_check_invariants(run);
		sim_faults_expire(&run->faults);
	}
	sim_faults_heal(&run->faults);
	if (run_has_short_holds(run))
		run_join_gateways(run);
	if (run->members != NULL)
		sim_members_finish(run->members, RUN_MEMBERS_LIMIT_NS);
	if (sim_cluster_below(run->cluster, 4) == 0)
		run->old_store = sim_store_copy(run->cluster->store);
}

static void
run_verify(struct run *run, const char *what)
{
	for (uint32_t i = 0; i < run->faults.workload_count; i++)
		workload_verify_all(run->workloads[i], RUN_HEAL_LIMIT_NS, what);
	if (run->snapper != NULL)
		snapper_verify(run->snapper, RUN_HEAL_LIMIT_NS);
}

static void
run_check_etcd(struct run *run)
{
	if (!run_is_on_etcd(run))
		return;
	sim_etcd_check_leases(run->cluster);
	sim_etcd_check_gap(run->cluster);
	run_verify(run, "everything is read after a gap in the etcd's changes");
}

/* The clients are gone before what follows looks at memory and slots. */
static void
run_clear_snapshots(struct run *run)
{
	if (run->snapper != NULL)
		snapper_clear(run->snapper, RUN_CLEAR_LIMIT_NS);
}

static void
run_restart_gateways(struct run *run)
{
	for (uint32_t i = 0; i < run->cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(run->cluster, i);
	sim_cluster_start_gateways(run->cluster);
}

/* New gateways have nothing in memory: what they serve is from the disks. */
static void
run_begin_anew(struct run *run)
{
	uint32_t dice = sim_cluster_below(run->cluster, 4);

	if (dice < 2)
		sim_check_scrubs_open(run->cluster, run_spared(run));
	if (dice == 0 || !sim_check_two_rotten(run->cluster, run_spared(run)))
		run_restart_gateways(run);
}

/* Without any one node, where the others are enough. */
static void
run_verify_without(struct run *run)
{
	struct sim_cluster *cluster = run->cluster;
	uint32_t count = cluster->options.node_count;
	uint32_t only = sim_cluster_below(cluster, 4 * count); /* a quarter of the seeds: all */

	if (sim_cluster_here_count(cluster) - 1 < cluster->options.min_replicas)
		return;
	for (uint32_t i = 0; i < count; i++) {
		if (cluster->nodes[i].is_away || (only >= count && only % count != i))
			continue;
		sim_cluster_node_kill(cluster, i, false);
		run_restart_gateways(run);
		run_verify(run, "everything is read while a node is absent");
		sim_check_told(cluster, i);
		sim_cluster_node_start(cluster, i);
		sim_cluster_run(cluster, RUN_SETTLE_NS);
	}
}

/* Without what checkers hold: histories grow with all that is read, manifests are read when something is deleted. */
static uint64_t
run_memory_bytes(const struct run *run)
{
	uint64_t bytes = sim_memory_bytes(run->cluster);

	if (bytes == 0)
		return 0;
	for (uint32_t i = 0; i < run->faults.workload_count; i++)
		bytes -= history_held_bytes(workload_history(run->workloads[i]));
	return bytes - sim_deletes_held_bytes(run->cluster->deletes) -
	    sim_store_held_bytes(run->cluster->store);
}

static uint64_t
run_merge_count(const struct run *run)
{
	return sim_cluster_metric(run->cluster, MT_METRIC_flushes) +
	    sim_cluster_metric(run->cluster, MT_METRIC_compactions);
}

/* Whatever a period has filled, two more find full; from the last merge on, for indexes of its runs stay. */
static void
run_check_memory(struct run *run)
{
	const struct sim_cluster_options *options = &run->cluster->options;
	uint64_t bytes = 0, merge_count = 0;
	uint64_t readers = options->has_direct
	    ? options->node_count * run->faults.workload_count * RUN_READER_BYTES
	    : 0;

	for (uint32_t i = 0, full = 0; i < RUN_PERIODS && full < 3; i++) {
		sim_cluster_run(run->cluster, RUN_PERIOD_NS);
		run_verify(run, "everything is read again");
		sim_check_idle(run->cluster);
		full = i == 0 || run_merge_count(run) != merge_count ? 1 : full + 1;
		merge_count = run_merge_count(run);
		if (full == 1)
			bytes = run_memory_bytes(run);
	}
	sim_check_memory(run->cluster, run_memory_bytes(run), bytes,
	    RUN_PERIOD_BYTES + options->shard_count * RUN_TABLE_BYTES + readers,
	    "before everything was read twice more");
}

/* The copy was made when all worked, or in the middle of faults; all shards have had owners since. */
static void
run_restore(struct run *run)
{
	if (run->old_store == NULL)
		return;
	sim_check_restored(run->cluster, run->old_store);
	run_verify(run, "everything is read after the metadata store was set back");
	sim_store_copy_destroy(run->old_store);
	run->old_store = NULL;
}

static void
run_result(struct run *run, struct sim_run_result *result)
{
	uint64_t spoiled = sim_cluster_metric(run->cluster, MT_METRIC_hot_spoiled);

	if (spoiled > 0) /* no memory rots here */
		sim_cluster_fail(run->cluster, "%" PRIu64 " hot blocks were not what was kept",
		    spoiled);
	*result = (struct sim_run_result){ .trace_hash = sim_world_trace_hash(run->cluster->world),
		.virtual_ns = sim_world_now_ns(run->cluster->world),
		.op_count = run_completed_count(run),
		.takeover_count = sim_cluster_metric(run->cluster, MT_METRIC_takeovers),
		.repair_count = sim_cluster_metric(run->cluster, MT_METRIC_copies_made),
		.sweep_count = sim_cluster_metric(run->cluster, MT_METRIC_orphans_deleted),
		.merge_count = run_merge_count(run),
		.stage_count = sim_cluster_metric(run->cluster, MT_METRIC_merge_stages),
		.hasty_count = sim_cluster_metric(run->cluster, MT_METRIC_hasty_runs),
		.covered_count = sim_cluster_metric(run->cluster, MT_METRIC_covered_runs),
		.away_count = sim_cluster_metric(run->cluster, MT_METRIC_merges_away),
		.recalled_count = sim_cluster_metric(run->cluster, MT_METRIC_merges_recalled),
		.refused_count = sim_cluster_metric(run->cluster, MT_METRIC_merges_refused),
		.hot_count = sim_cluster_metric(run->cluster, MT_METRIC_hot_hits),
		.head_count = sim_cluster_metric(run->cluster, MT_METRIC_heads_taken) };
	result->is_on_etcd = run_is_on_etcd(run);
	result->relief_count = sim_balancer_count(run->balancer);
	result->deed_count = sim_enemy_deed_count(run->enemy);
	result->theft_count = sim_thief_count(run->cluster->thief);
	result->lease_count = run->cluster->lease_count;
	result->map_read_count = run->cluster->map_read_count;
	result->direct_read_count = run->cluster->direct_read_count;
	result->heated_count = sim_cluster_metric(run->cluster, MT_METRIC_direct_heated);
	result->peek_count = run->cluster->peek_count;
	result->torn_count = run->cluster->torn_count;
	result->change_count = sim_members_change_count(run->members);
	result->delete_count = sim_deletes_count(run->cluster->deletes, &result->blind_count);
	result->snapshot_count = run->snapper == NULL ? 0 : snapper_taken_count(run->snapper);
	memcpy(result->fault_counts, run->faults.counts, sizeof(result->fault_counts));
}

void
sim_run_here(const struct sim_run_options *options, struct sim_run_result *ret_result)
{
	struct run run = { .options = *options };
	uint64_t bytes;

	run_begin(&run);
	run_faults(&run);
	if (run.levels != NULL)
		sim_levels_finish(run.levels, RUN_UPGRADE_LIMIT_NS);
	sim_drainer_finish(run.drainer, RUN_HEAL_LIMIT_NS);
	sim_trasher_finish(run.trasher, RUN_HEAL_LIMIT_NS);
	sim_grouper_finish(run.grouper, RUN_HEAL_LIMIT_NS);
	sim_limiter_finish(run.limiter, RUN_HEAL_LIMIT_NS);
	sim_enemy_finish(run.enemy, RUN_HEAL_LIMIT_NS);
	sim_thief_finish(run.cluster->thief, RUN_HEAL_LIMIT_NS);
	sim_cluster_run_until(run.cluster, run_is_done, &run, RUN_HEAL_LIMIT_NS,
	    "everything is answered");
	sim_cluster_run(run.cluster, RUN_SETTLE_NS);
	snapper_finish(run.snapper, RUN_HEAL_LIMIT_NS);
	run_verify(&run, "everything is read");
	sim_balancer_finish(run.balancer);
	sim_encrypted_check(run.encrypted);
	run_check_etcd(&run);
	sim_check_idle(run.cluster);
	bytes = run_memory_bytes(&run);
	run_begin_anew(&run);
	run_verify(&run, "everything is read from new gateways");
	sim_check_idle(run.cluster);
	sim_check_memory(run.cluster, bytes, run_memory_bytes(&run), RUN_LIFE_BYTES,
	    "with new gateways");
	run_restore(&run);
	sim_encrypted_check(run.encrypted);
	run_clear_snapshots(&run);
	sim_check_recovers(run.cluster, run.faults.has_destroyed);
	sim_check_copies(run.cluster);
	run_verify_without(&run);
	sim_check_recovers(run.cluster, false);
	sim_check_copies(run.cluster);
	sim_check_idle(run.cluster);
	run_check_memory(&run);
	sim_encrypted_finish(run.encrypted);
	run_result(&run, ret_result);
	snapper_destroy(run.snapper);
	sim_levels_destroy(run.levels);
	sim_drainer_destroy(run.drainer);
	sim_trasher_destroy(run.trasher);
	sim_grouper_destroy(run.grouper);
	sim_members_destroy(run.members);
	sim_limiter_destroy(run.limiter);
	sim_balancer_destroy(run.balancer);
	sim_enemy_destroy(run.enemy);
	sim_thief_destroy(run.cluster->thief);
	sim_peeker_destroy(run.faults.peeker);
	sim_intruder_fini(&run.faults.intruder);
	for (uint32_t i = 0; i < run.faults.workload_count; i++)
		workload_destroy(run.workloads[i]);
	sim_cluster_destroy(run.cluster);
	sim_encrypted_destroy(run.encrypted);
}
