/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c -- see leases.h */
#include "leases.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "run.h"
#include "vm-client/library/internal.h"

#define LEASES_SALT UINT64_C(635)
#define LEASES_SEEDS 8u
#define HOLDERS_MAX 256u

struct holder {
	const void *process;
	struct cleave_volume *volume;
};

struct sim_leases {
	struct sim_cluster *cluster;
	const char *name;
	const struct history *history;
	struct holder holders[HOLDERS_MAX]; /* alive, newest or not */
	uint32_t count;
};

bool
sim_leases_is_in(uint64_t seed)
{
	return sim_run_hash(seed, LEASES_SALT) % LEASES_SEEDS == 0;
}

struct sim_leases *
sim_leases_create(struct sim_cluster *cluster, const char *name, const struct history *history)
{
	struct sim_leases *leases = calloc(1, sizeof(*leases));

	assert(leases != NULL);
	leases->cluster = cluster;
	leases->name = name;
	leases->history = history;
	return leases;
}

void
sim_leases_destroy(struct sim_leases *leases)
{
	free(leases);
}

void
sim_leases_add(struct sim_leases *leases, const void *process, struct cleave_volume *volume)
{
	assert(leases->count < HOLDERS_MAX);
	leases->holders[leases->count++] = (struct holder){ process, volume };
	if (leases_want(volume) != 0)
		sim_cluster_fail(leases->cluster, "%s: no memory for leases", leases->name);
}

void
sim_leases_forget(struct sim_leases *leases, const void *process)
{
	for (uint32_t i = leases->count; i-- > 0;) {
		if (leases->holders[i].process == process)
			leases->holders[i] = leases->holders[--leases->count];
	}
}

static uint32_t
shard_of(const struct sim_leases *leases, const struct cleave_volume *volume, uint32_t block)
{
	uint64_t offset_bytes = history_offset(leases->history, block);

	return wire_shard_of(volume->info.segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
	    offset_bytes % CLEAVE_SEGMENT_BYTES, leases->cluster->options.shard_count);
}

static void
check_block(struct sim_leases *leases, const struct cleave_volume *volume, uint32_t block)
{
	uint32_t shard = shard_of(leases, volume, block);

	for (uint32_t i = 0; i < leases->count; i++) {
		const struct cleave_volume *other = leases->holders[i].volume;

		if (other->info.attach < volume->info.attach && leases_hold_any(other, shard))
			sim_cluster_fail(leases->cluster,
			    "%s block %" PRIu32 ": a change of attach %" PRIu64
			    " was acknowledged while attach %" PRIu64
			    " had a read lease on shard %" PRIu32,
			    leases->name, block, volume->info.attach, other->info.attach, shard);
	}
}

void
sim_leases_on_change(struct sim_leases *leases, const struct cleave_volume *volume, uint32_t first,
    uint32_t count)
{
	leases->cluster->lease_count += leases_hold_any(volume, shard_of(leases, volume, first));
	for (uint32_t i = 0; i < count; i++)
		check_block(leases, volume, first + i);
}
