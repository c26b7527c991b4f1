/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seed_kinds.c -- which seeds are of which kind, by a hash of the seed; see run.h
 *
 * A kind that is added has a salt of its own. When it was chosen, none of the seeds that mutants.tsv and regressions.tsv
 * name was of it: their histories know nothing of it.
 */
#include "base/num.h"
#include "cluster.h"
#include "run.h"

#define LEVEL_SEEDS 8u
#define LEVEL_SEED 6u /* of so many */
#define MEMBERS_SALT UINT64_C(26314)
#define MEMBERS_SEEDS 8u
#define BALANCE_SALT UINT64_C(178)
#define BALANCE_SEEDS 8u
#define LIMITS_SALT UINT64_C(53)
#define LIMITS_SEEDS 12u
#define KEYS_SALT UINT64_C(159332)
#define KEYS_SEEDS 32u
#define HEAT_SALT UINT64_C(385)
#define HEAT_SEEDS 8u
#define HOT_SALT UINT64_C(771)
#define HOT_SEEDS 3u
#define SCARCE_SALT UINT64_C(468)
#define SCARCE_SEEDS 8u
#define RECIPES_SALT UINT64_C(25904024)
#define RECIPES_SEEDS 4u
#define DIRECTORIES_SALT UINT64_C(77120931)
#define DIRECTORIES_SEEDS 2u
#define MIRRORS_SALT UINT64_C(4001978609)
#define MIRRORS_SEEDS 3u
#define MIRRORS_MORE_SALT UINT64_C(5431853)
#define MIRRORS_MORE_SEEDS 4u /* of these, too: half of all together */
#define HASTY_SALT UINT64_C(3)
#define STAGE_SEEDS 4u
#define HASTY_SEEDS 16u
#define OFFLOAD_SEEDS 8u /* by each of three salts: a third of all together */

static const uint64_t offload_salts[] = { 2605, 4257, 8834 };

#define ETCD_LEASE_FACTOR 4u /* a lease there lives 2 to 8 s: some tries at several members */

/* The finalizer of SplitMix64. */
uint64_t
sim_run_hash(uint64_t seed, uint64_t salt)
{
	uint64_t mix = seed + salt * UINT64_C(0x9e3779b97f4a7c15);

	mix = (mix ^ mix >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mix = (mix ^ mix >> 27) * UINT64_C(0x94d049bb133111eb);
	return mix ^ mix >> 31;
}

bool
sim_run_has_levels(uint64_t seed)
{
	return seed % LEVEL_SEEDS == LEVEL_SEED;
}

bool
sim_run_has_members(uint64_t seed)
{
	return sim_run_hash(seed, MEMBERS_SALT) % MEMBERS_SEEDS == 0 && !sim_run_has_levels(seed);
}

bool
sim_run_has_balance(uint64_t seed)
{
	return sim_run_hash(seed, BALANCE_SALT) % BALANCE_SEEDS == 0 && !sim_run_has_levels(seed);
}

/* In those of its seeds in which no mutant was found before. */
bool
sim_run_has_flattening(uint64_t seed)
{
	uint64_t place = seed / SIM_RUN_SNAPSHOT_SEEDS;

	return place % 5 == 3 || place % 7 == 2;
}

bool
sim_run_has_limits(uint64_t seed)
{
	return sim_run_hash(seed, LIMITS_SALT) % LIMITS_SEEDS == 0;
}

bool
sim_run_has_heat(uint64_t seed)
{
	return sim_run_hash(seed, HEAT_SALT) % HEAT_SEEDS == 0;
}

bool
sim_run_has_hot_blocks(uint64_t seed)
{
	return sim_run_hash(seed, HOT_SALT) % HOT_SEEDS == 0;
}

bool
sim_run_has_scarce_indexes(uint64_t seed)
{
	return sim_run_hash(seed, SCARCE_SALT) % SCARCE_SEEDS == 0;
}

bool
sim_run_has_recipes(uint64_t seed)
{
	return sim_run_hash(seed, RECIPES_SALT) % RECIPES_SEEDS == 0;
}

bool
sim_run_has_directories(uint64_t seed)
{
	return sim_run_hash(seed, DIRECTORIES_SALT) % DIRECTORIES_SEEDS == 0;
}

bool
sim_run_has_mirrors(uint64_t seed)
{
	return sim_run_hash(seed, MIRRORS_SALT) % MIRRORS_SEEDS == 0 ||
	    sim_run_hash(seed, MIRRORS_MORE_SALT) % MIRRORS_MORE_SEEDS == 0;
}

bool
sim_run_has_stages(uint64_t seed)
{
	return seed % STAGE_SEEDS == 1;
}

bool
sim_run_has_haste(uint64_t seed)
{
	return sim_run_hash(seed, HASTY_SALT) % HASTY_SEEDS == 0;
}

bool
sim_run_has_offload(uint64_t seed)
{
	for (uint32_t i = 0; i < NUM_COUNT(offload_salts); i++) {
		if (sim_run_hash(seed, offload_salts[i]) % OFFLOAD_SEEDS == 0)
			return true;
	}
	return false;
}

/* Releases of before know of no keys. */
bool
sim_run_has_keys(uint64_t seed)
{
	return sim_run_hash(seed, KEYS_SALT) % KEYS_SEEDS == 0 && !sim_run_has_levels(seed);
}

/* By the seed alone: one member, mostly three, or five; and whether it has users. */
void
sim_run_choose_etcd(uint64_t seed, struct sim_cluster_options *options)
{
	static const uint32_t counts[] = { 3, 1, 3, 5 };

	options->is_on_etcd = true;
	options->etcd_members = counts[seed / 2 % NUM_COUNT(counts)];
	options->has_etcd_user = seed % 3 == 0;
	options->lease_ns *= ETCD_LEASE_FACTOR;
	/* Ten in the time of a lease, as by default; or as long ones for a lease that is short. */
	if (seed % 2 == 0)
		options->etcd_try_ns = options->lease_ns / 10;
}
