/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sim_faults.c -- what goes wrong with a simulated disk: by rule, by the dice, or the next time
 *
 * Dice have a random state of their own, and one that can not come up is not thrown: a seed's other
 * choices stay the same whatever faults are on. What a request fails with and how long it takes is
 * decided when it is submitted; where it goes, and whether it happens, when it is done.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "disk/disk_host.h"
#include "disk_sim_faults.h"
#include "disk_sim_pages.h"
#include "disk_sim_state.h"

#define PER_MILLE 1000u
#define STALL_MIN_NS NUM_S(2)
#define STALL_MAX_NS NUM_S(30)
#define SLOW_MIN_FACTOR 10u
#define SLOW_MAX_FACTOR 1000u
#define FAULT_SEED 0x6661756c74u /* "fault" */

static uint64_t
dice_below(struct disk_sim *sim, uint64_t limit)
{
	return random_below(sim->fault_random, limit);
}

static bool
dice_say(struct disk_sim *sim, uint32_t per_mille)
{
	assert(per_mille <= PER_MILLE);
	return per_mille != 0 && dice_below(sim, PER_MILLE) < per_mille;
}

static uint64_t
faults_end(const struct disk_sim *sim)
{
	return sim->faults.end_bytes != 0 ? sim->faults.end_bytes : sim->options.capacity_bytes;
}

/* Faults of the data strike only here. */
static bool
is_in_reach(const struct disk_sim *sim, uint64_t offset)
{
	return offset >= sim->faults.first_bytes && offset < faults_end(sim);
}

static uint64_t
dice_offset(struct disk_sim *sim, uint64_t bytes)
{
	uint64_t first = sim->faults.first_bytes;
	uint64_t end = faults_end(sim);
	uint64_t room = end - first > bytes ? end - first - bytes : 0;

	assert(end > first);
	return first + dice_below(sim, room / DISK_ALIGN + 1) * DISK_ALIGN;
}

/* ---- requests that fail ---- */

static bool
ranges_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static int
rules_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op)
{
	uint64_t bytes = disk_pieces_bytes(io->pieces, io->piece_count);

	assert(op <= DISK_FLUSH);
	for (uint32_t i = 0; i < sim->rule_count; i++) {
		struct disk_sim_rule *rule = &sim->rules[i];
		int rc = rule->rc;

		if ((rule->ops & DISK_FAULT_OP(op)) == 0)
			continue;
		if (op != DISK_FLUSH && rule->bytes != 0 &&
		    !ranges_overlap(rule->offset_bytes, rule->bytes, io->offset_bytes, bytes))
			continue;
		if (rule->count != 0 && --rule->count == 0)
			*rule = sim->rules[--sim->rule_count];
		return rc;
	}
	return 0;
}

static int
dice_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op)
{
	const struct disk_sim_faults *faults = &sim->faults;
	uint32_t per_mille = 0;

	switch (op) {
	case DISK_READ:
		per_mille = is_in_reach(sim, io->offset_bytes) ? faults->read_fails : 0;
		break;
	case DISK_WRITE:
		per_mille = is_in_reach(sim, io->offset_bytes) ? faults->write_fails : 0;
		break;
	case DISK_FLUSH:
		per_mille = faults->flush_fails;
		break;
	}
	return dice_say(sim, per_mille) ? -EIO : 0;
}

int
sim_faults_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op)
{
	int rc = rules_judge(sim, io, op);

	if (rc == 0)
		rc = dice_judge(sim, io, op);
	if (rc == 0)
		return 0;
	if (op == DISK_READ)
		sim->counts.failed_reads++;
	else if (op == DISK_WRITE)
		sim->counts.failed_writes++;
	else
		sim->counts.failed_flushes++;
	return rc;
}

int
disk_sim_add_rule(struct disk_sim *sim, const struct disk_sim_rule *rule)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(rule->rc < 0);
	if (sim->rule_count == DISK_SIM_RULES_MAX)
		return -ENOBUFS;
	sim->rules[sim->rule_count++] = *rule;
	return 0;
}

void
disk_sim_clear_rules(struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->rule_count = 0;
}

bool
sim_is_bad(const struct disk_sim *sim, uint64_t offset, uint64_t bytes)
{
	assert(sim->bad_count <= DISK_SIM_BAD_RANGES_MAX);
	for (uint32_t i = 0; i < sim->bad_count; i++)
		if (ranges_overlap(sim->bad[i].offset_bytes, sim->bad[i].bytes, offset, bytes))
			return true;
	return false;
}

void
sim_heal(struct disk_sim *sim, uint64_t offset, uint64_t bytes)
{
	assert(sim->bad_count <= DISK_SIM_BAD_RANGES_MAX);
	for (uint32_t i = 0; i < sim->bad_count;) {
		const struct sim_range *bad = &sim->bad[i];

		if (offset <= bad->offset_bytes && bad->offset_bytes + bad->bytes <= offset + bytes)
			sim->bad[i] = sim->bad[--sim->bad_count];
		else
			i++;
	}
}

/* ---- requests that do something else ---- */

bool
sim_faults_lose_write(struct disk_sim *sim, uint64_t offset)
{
	bool is_lost = sim->is_next_write_lost ||
	    (is_in_reach(sim, offset) && dice_say(sim, sim->faults.write_lost));

	assert(offset < sim->options.capacity_bytes);
	sim->is_next_write_lost = false;
	sim->counts.lost_writes += is_lost;
	return is_lost;
}

uint64_t
sim_faults_write_to(struct disk_sim *sim, uint64_t offset, uint64_t bytes)
{
	uint64_t to = offset;

	assert(
	    bytes <= sim->options.capacity_bytes && offset <= sim->options.capacity_bytes - bytes);
	if (sim->is_next_write_misdirected) {
		sim->is_next_write_misdirected = false;
		to = num_min(sim->misdirect_write_to_bytes, sim->options.capacity_bytes - bytes);
	} else if (is_in_reach(sim, offset) && dice_say(sim, sim->faults.write_misdirected)) {
		to = dice_offset(sim, bytes);
	}
	sim->counts.misdirected_writes += to != offset;
	return to;
}

uint64_t
sim_faults_read_from(struct disk_sim *sim, uint64_t offset, uint64_t bytes)
{
	uint64_t from = offset;

	assert(
	    bytes <= sim->options.capacity_bytes && offset <= sim->options.capacity_bytes - bytes);
	if (sim->is_next_read_misdirected) {
		sim->is_next_read_misdirected = false;
		from = num_min(sim->misdirect_read_from_bytes, sim->options.capacity_bytes - bytes);
	} else if (is_in_reach(sim, offset) && dice_say(sim, sim->faults.read_misdirected)) {
		from = dice_offset(sim, bytes);
	}
	sim->counts.misdirected_reads += from != offset;
	return from;
}

bool
sim_faults_flush_lies(struct disk_sim *sim)
{
	bool is_lie = sim->is_lying || dice_say(sim, sim->faults.flush_lies);

	sim->counts.lying_flushes += is_lie;
	return is_lie;
}

/* ---- rot ---- */

void
disk_sim_rot(struct disk_sim *sim, uint64_t offset_bytes, uint32_t bit)
{
	struct sim_page *page;
	uint8_t mask = (uint8_t)(1u << (bit & 7));

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	page = sim_page_get(sim, offset_bytes / DISK_ALIGN);
	page->present[offset_bytes % DISK_ALIGN] ^= mask;
	if (page->durable != NULL)
		page->durable[offset_bytes % DISK_ALIGN] ^= mask;
	sim->counts.rotten_bits++;
}

/* The first page from a random one on that was ever written. UINT64_MAX: none. */
static uint64_t
dice_written_page(struct disk_sim *sim)
{
	uint64_t first = sim->faults.first_bytes / DISK_ALIGN;
	uint64_t count = faults_end(sim) / DISK_ALIGN - first;
	uint64_t at = dice_below(sim, count);

	assert(count > 0);
	for (uint64_t i = 0; i < count; i++, at++)
		if (sim->pages[first + at % count] != NULL)
			return first + at % count;
	return UINT64_MAX;
}

bool
disk_sim_rot_somewhere(struct disk_sim *sim, uint64_t *ret_offset_bytes)
{
	uint64_t page, offset;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	page = dice_written_page(sim);
	if (page == UINT64_MAX)
		return false;
	offset = page * DISK_ALIGN + dice_below(sim, DISK_ALIGN);
	disk_sim_rot(sim, offset, (uint32_t)dice_below(sim, 8));
	if (ret_offset_bytes != NULL)
		*ret_offset_bytes = offset;
	return true;
}

void
sim_faults_rot(struct disk_sim *sim)
{
	if (sim->faults.rot_places_max == 0 || !dice_say(sim, sim->faults.rot))
		return;
	if (disk_sim_rot_somewhere(sim, NULL))
		sim->faults.rot_places_max--;
}

/* ---- time ---- */

uint64_t
sim_faults_delay(struct disk_sim *sim, uint64_t now_ns, uint64_t latency_ns)
{
	const struct disk_sim_faults *faults = &sim->faults;

	if (dice_say(sim, faults->stalls)) {
		uint64_t min = faults->stall_min_ns != 0 ? faults->stall_min_ns : STALL_MIN_NS;
		uint64_t max = faults->stall_max_ns != 0 ? faults->stall_max_ns : STALL_MAX_NS;

		assert(min <= max);
		sim->stalled_until_ns = now_ns + min + dice_below(sim, max - min + 1);
		sim->counts.stalls++;
	}
	if (dice_say(sim, faults->slow_requests)) {
		latency_ns *= SLOW_MIN_FACTOR +
		    dice_below(sim, SLOW_MAX_FACTOR - SLOW_MIN_FACTOR + 1);
		sim->counts.slow_requests++;
	}
	return latency_ns;
}

/* ---- what the test asks for ---- */

void
disk_sim_set_faults(struct disk_sim *sim, const struct disk_sim_faults *faults)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(num_is_aligned(faults->first_bytes, DISK_ALIGN));
	assert(num_is_aligned(faults->end_bytes, DISK_ALIGN));
	assert(faults->end_bytes <= sim->options.capacity_bytes);
	assert(faults->end_bytes == 0 || faults->first_bytes < faults->end_bytes);
	sim->faults = *faults;
}

struct disk_fault *
disk_sim_fault(struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return &sim->fault;
}

void
disk_sim_set_slowness(struct disk_sim *sim, uint32_t factor)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(factor > 0);
	sim->slowness = factor;
}

void
disk_sim_set_full(struct disk_sim *sim, bool is_full)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->is_full = is_full;
}

void
disk_sim_set_written_ahead(struct disk_sim *sim, bool is_written_ahead)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->is_written_ahead = is_written_ahead;
}

void
disk_sim_set_shared(struct disk_sim *sim, bool is_shared)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->is_shared = is_shared;
}

void
disk_sim_set_lying(struct disk_sim *sim, bool is_lying)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->is_lying = is_lying;
}

void
disk_sim_misdirect_next_write(struct disk_sim *sim, uint64_t offset_bytes)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(num_is_aligned(offset_bytes, DISK_ALIGN));
	sim->is_next_write_misdirected = true;
	sim->misdirect_write_to_bytes = offset_bytes;
}

void
disk_sim_lose_next_write(struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	sim->is_next_write_lost = true;
}

int
disk_sim_set_bad(struct disk_sim *sim, uint64_t offset_bytes, uint64_t bytes)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(bytes > 0);
	if (sim->bad_count == DISK_SIM_BAD_RANGES_MAX)
		return -ENOBUFS;
	sim->bad[sim->bad_count++] =
	    (struct sim_range){ .offset_bytes = offset_bytes, .bytes = bytes };
	return 0;
}

void
disk_sim_misdirect_next_read(struct disk_sim *sim, uint64_t offset_bytes)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(num_is_aligned(offset_bytes, DISK_ALIGN));
	sim->is_next_read_misdirected = true;
	sim->misdirect_read_from_bytes = offset_bytes;
}

const struct disk_sim_counts *
disk_sim_counts(const struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return &sim->counts;
}

void
sim_faults_init(struct disk_sim *sim)
{
	random_seed(sim->fault_random, sim->options.seed ^ FAULT_SEED);
}
