/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload_peek.c -- what sessions ask for that read out of their gateways' memory (peeker.h)
 *
 * Slots there change hands only where more blocks are hot than fit: so a part of the requests is about blocks of one set
 * of a page (rivals). Others are about what is under way already, in either order, and about what the session has read so
 * of late, which ought to be hidden then. A session that took the volume reads what the older one may have written yet,
 * and changes what that one reads; the older one looks at it at once.
 */
#include "base/check.h"
#include "base/num.h"
#include "cleave/hot.h"
#include "history.h"
#include "leases.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"
#include "vm-client/library/internal.h"
#include "workload_inside.h"

#define RIVALS_SALT UINT64_C(911)
#define CHOICES 12u
#define STILL_PPM (-999000) /* of a clock that stands still, as good as */

static uint32_t
below(struct session *session, uint32_t limit)
{
	return (uint32_t)loop_random_below(session->loop, limit);
}

/* ---- blocks of one set ---- */

static uint32_t
set_of(const struct workload *workload, const struct cleave_volume *volume, uint32_t block)
{
	uint64_t offset_bytes = history_offset(workload->history, block);

	return wire_hot_set(wire_hot_hash(volume->info.segment_base +
				    offset_bytes / CLEAVE_SEGMENT_BYTES,
				(uint32_t)(offset_bytes % CLEAVE_SEGMENT_BYTES /
				    CLEAVE_BLOCK_BYTES)),
	    HOT_PAGE_SETS);
}

void
workload_peek_opened(struct workload *workload, const struct cleave_volume *volume)
{
	uint32_t set =
	    (uint32_t)(sim_run_hash(workload->cluster->options.seed, RIVALS_SALT) % HOT_PAGE_SETS);

	if (!workload->options.is_peeking || workload->rival_count > 0)
		return;
	for (uint32_t i = 0;
	     i < workload->block_count && workload->rival_count < WORKLOAD_RIVALS_MAX; i++) {
		if (set_of(workload, volume, i) == set)
			workload->rivals[workload->rival_count++] = i;
	}
}

/* ---- what was read so ---- */

void
workload_peek_note(struct session *session, uint32_t block)
{
	session->peeked[session->peeked_count++ % WORKLOAD_PEEKED_MAX] = block;
}

static bool
peeked_pick(struct session *of, struct session *by, uint32_t *ret_block)
{
	uint32_t count = (uint32_t)num_min(of->peeked_count, WORKLOAD_PEEKED_MAX);

	if (count == 0)
		return false;
	*ret_block = of->peeked[below(by, count)];
	return true;
}

static bool
peeked_has(const struct session *session, uint32_t block)
{
	uint32_t count = (uint32_t)num_min(session->peeked_count, WORKLOAD_PEEKED_MAX);

	for (uint32_t i = 0; i < count; i++) {
		if (session->peeked[i] == block)
			return true;
	}
	return false;
}

void
workload_peek_probe(struct session *session)
{
	if (!peeked_has(session, session->probe_block) || below(session, 4) == 0)
		(void)peeked_pick(session, session, &session->probe_block);
}

/* ---- what is asked for ---- */

/* A block that @of has asked for, and was not answered yet. */
static bool
busy_pick(struct session *of, struct session *by, bool must_write, uint32_t *ret_block)
{
	const struct slot *slot = &of->slots[below(by, of->workload->options.in_flight)];

	if (!slot->is_busy || (must_write && slot->io.op != CLEAVE_WRITE))
		return false;
	*ret_block = slot->first;
	return true;
}

static void
ask_for(struct workload_choice *choice, uint32_t block, bool is_write)
{
	*choice = (struct workload_choice){ is_write ? CLEAVE_WRITE : CLEAVE_READ, block, 1 };
}

void
workload_peek_choose(struct slot *slot, struct workload_choice *choice)
{
	struct session *session = slot->session, *old = session->workload->old;
	const struct workload *workload = session->workload;
	uint32_t dice = below(session, CHOICES), block;

	if (old != NULL && dice < CHOICES / 2) {
		if (busy_pick(old, session, true, &block))
			ask_for(choice, block, false);
		else if (peeked_pick(old, session, &block))
			ask_for(choice, block, dice % 3 != 0);
		return;
	}
	if (dice < 3 && workload->rival_count > 0) {
		block = workload->rivals[below(session, workload->rival_count)];
		ask_for(choice, block, below(session, 8) == 0);
	} else if (dice < 5 && busy_pick(session, session, false, &block)) {
		ask_for(choice, block, dice == 4);
	} else if (dice < 8 && peeked_pick(session, session, &block)) {
		ask_for(choice, block, dice == 5);
	}
}

/* ---- for the peeker ---- */

void
workload_stop_clock(struct workload *workload)
{
	struct session *session = workload->present;

	session->has_still_clock = true;
	session->still_since_ns = sim_world_now_ns(workload->cluster->world);
	sim_loop_set_skew(session->loop, 0, STILL_PPM);
	sim_leases_excuse(workload->leases, session);
}

static void
session_start_clock(struct session *session)
{
	if (session == NULL || !session->has_still_clock)
		return;
	session->has_still_clock = false;
	sim_loop_set_skew(session->loop,
	    sim_world_now_ns(session->workload->cluster->world) - session->still_since_ns, 0);
}

void
workload_start_clock(struct workload *workload)
{
	session_start_clock(workload->present);
	session_start_clock(workload->old);
	sim_leases_excuse(workload->leases, NULL);
}

void
workload_ask(struct workload *workload, uint32_t block, bool is_write)
{
	struct session *session = workload->present;

	if (!workload_is_held(workload))
		return;
	if (session->must_write != is_write || session->asked_count == WORKLOAD_PROBES)
		session->asked_count = 0;
	session->asked[session->asked_count++] = block;
	session->must_write = is_write;
	loop_defer(session->loop, &session->ask_task);
}

void
workload_rest(struct workload *workload, bool is_resting)
{
	workload->is_resting = is_resting;
	if (!is_resting && workload->present != NULL)
		loop_defer(workload->present->loop, &workload->present->next_task);
}

bool
workload_peeked(const struct workload *workload, uint64_t *ret_offset_bytes)
{
	const struct session *session = workload->present;

	if (session == NULL || session->peeked_count == 0)
		return false;
	*ret_offset_bytes = history_offset(workload->history,
	    session->peeked[(session->peeked_count - 1) % WORKLOAD_PEEKED_MAX]);
	return true;
}

bool
workload_peeked_block(const struct workload *workload, uint32_t index, uint32_t *ret_block)
{
	const struct session *session = workload->present;

	if (session == NULL || index >= num_min(session->peeked_count, WORKLOAD_PEEKED_MAX))
		return false;
	*ret_block = session->peeked[(session->peeked_count - 1 - index) % WORKLOAD_PEEKED_MAX];
	return true;
}

struct cleave_volume *
workload_volume(const struct workload *workload)
{
	return workload->present == NULL ? NULL : workload->present->volume;
}

uint64_t
workload_volume_id(const struct workload *workload)
{
	return workload->volume_id;
}
