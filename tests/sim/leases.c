/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c -- see leases.h */
#include "leases.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_state.h"
#include "peeker.h"
#include "run.h"
#include "thief.h"
#include "vm-client/library/internal.h"

#define LEASES_SALT UINT64_C(635)
#define LEASES_SEEDS 8u
#define DIRECT_SALT UINT64_C(1807)
#define DIRECT_SEEDS 8u /* of so many that do not peek, which two of three do, ... */
#define DIRECT_OF_THEM 3u
#define HOLDERS_MAX 256u
#define MAPS_AGAIN_NS                                                                              \
	NUM_MS(50) /* workloads last for seconds, and each lifetime of a map is a test */
#define MAPS_MISS_MAX 2u
#define MAPS_BYTES_MAX NUM_KIB(24) /* some windows: there are fewer chunks than a real volume has */

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
	const void *excused; /* whose clock stands still; NULL: nobody's does */
};

bool
sim_leases_is_in(uint64_t seed)
{
	return sim_run_hash(seed, LEASES_SALT) % LEASES_SEEDS == 0;
}

bool
sim_leases_are_direct(uint64_t seed)
{
	return !sim_peeks_are_in(seed) && !sim_run_has_levels(seed) &&
	    sim_run_hash(seed, DIRECT_SALT) % DIRECT_SEEDS < DIRECT_OF_THEM;
}

void
sim_leases_choose(uint64_t seed, bool has_levels, struct sim_cluster_options *options)
{
	options->has_direct = !options->has_peeks && !has_levels &&
	    sim_run_hash(seed, DIRECT_SALT) % DIRECT_SEEDS < DIRECT_OF_THEM;
	options->has_leases = options->has_peeks || options->has_direct ||
	    (sim_leases_is_in(seed) && !has_levels);
}

const char *
sim_leases_word(const struct sim_cluster *cluster)
{
	return cluster->options.has_peeks ? "hot" : "direct";
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
	const struct maps_options maps = { MAPS_BYTES_MAX, MAPS_AGAIN_NS, MAPS_MISS_MAX };
	const struct sim_cluster_options *options = &leases->cluster->options;

	assert(leases->count < HOLDERS_MAX);
	leases->holders[leases->count++] = (struct holder){ process, volume };
	/* A session that reads past gateways renews leases as users' clients do. */
	if (leases_want(volume, options->has_direct || options->has_peeks) != 0 ||
	    (!options->has_peeks && maps_want(volume, &maps) != 0))
		sim_cluster_fail(leases->cluster, "%s: no memory for leases", leases->name);
	sim_peeks_tune(leases->cluster, volume);
}

void
sim_leases_forget(struct sim_leases *leases, const void *process)
{
	for (uint32_t i = leases->count; i-- > 0;) {
		if (leases->holders[i].process == process)
			leases->holders[i] = leases->holders[--leases->count];
	}
}

void
sim_leases_excuse(struct sim_leases *leases, const void *process)
{
	if (leases != NULL)
		leases->excused = process;
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

		if (other->info.attach < volume->info.attach &&
		    leases->holders[i].process != leases->excused && leases_hold_any(other, shard))
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

/* ---- maps ---- */

static struct sim_map_look
map_look(const struct sim_leases *leases, struct cleave_volume *volume, uint32_t block)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct map_block found;

	if (!maps_look(volume, history_offset(leases->history, block), &found))
		return (struct sim_map_look){ .is_there = false };
	sim_thief_note(leases->cluster->thief, volume, found.source);
	return (struct sim_map_look){ true, found.source != NULL,
		found.source == NULL ? crc32c(0, zeros, sizeof(zeros)) : found.block_crc,
		found.epoch, found.serial };
}

/* Is a newer owner of the shard than that of @epoch past the leases of those before? */
static bool
shard_is_newer(const struct mt_shard *shard, uint32_t epoch)
{
	return shard->sm.state == MT_SHARD_SERVING && shard->epoch > epoch &&
	    (shard->leases_over_ns == 0 ||
		mt_lease_now_ns(shard->port->loop) >= shard->leases_over_ns);
}

static void
check_epoch(struct sim_leases *leases, uint32_t block, uint32_t shard, uint32_t epoch)
{
	struct sim_cluster *cluster = leases->cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = cluster->gateways[i].gateway;

		for (uint32_t p = 0; gateway != NULL && p < gateway->port_count; p++) {
			const struct mt_port *port = &gateway->ports[p];
			const struct mt_shard *owned =
			    port->shard_by_number == NULL ? NULL : port->shard_by_number[shard];

			if (owned != NULL && shard_is_newer(owned, epoch))
				sim_cluster_fail(cluster,
				    "%s block %" PRIu32 ": a map of epoch %" PRIu32
				    " counts while the owner of epoch %" PRIu32 " takes changes",
				    leases->name, block, epoch, owned->epoch);
		}
	}
}

void
sim_leases_on_read(struct sim_leases *leases, struct cleave_volume *volume, uint32_t first,
    uint32_t count, struct sim_map_read *ret_read)
{
	assert(count <= HISTORY_BLOCKS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct sim_map_look *look = &ret_read->looks[i];

		*look = map_look(leases, volume, first + i);
		if (look->is_there)
			check_epoch(leases, first + i, shard_of(leases, volume, first + i),
			    look->epoch);
	}
}

void
sim_leases_on_answer(struct sim_leases *leases, struct cleave_volume *volume, uint32_t first,
    uint32_t count, const struct sim_map_read *read, const uint8_t *data)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct sim_map_look *look = &read->looks[i];
		struct sim_map_look now = map_look(leases, volume, first + i);
		uint32_t crc = crc32c(0, data + (size_t)i * CLEAVE_BLOCK_BYTES, CLEAVE_BLOCK_BYTES);

		if (!look->is_there || !now.is_there || look->serial != now.serial)
			continue;
		leases->cluster->map_read_count += look->is_stored;
		if (look->crc != crc)
			sim_cluster_fail(leases->cluster,
			    "%s block %" PRIu32 ": a map of epoch %" PRIu32 " has CRC %08" PRIx32
			    ", and a read returned %08" PRIx32,
			    leases->name, first + i, look->epoch, look->crc, crc);
	}
}
