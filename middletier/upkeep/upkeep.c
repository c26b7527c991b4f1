/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep.c -- when a shard's background work is done
 *
 * A single task looks at everything; whoever sees something change defers it. Each part then says when it
 * wants to be called again, and one timer waits for the earliest: none while nothing is due (I12).
 */
#include "upkeep/upkeep.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"
#include "manifest/manifest.h"
#include "upkeep/orphans.h"
#include "upkeep/repair.h"
#include "upkeep/scrub.h"
#include "upkeep/sweep.h"

#define UPKEEP_MAGIC 0x454b5055u /* "UPKE" */

static void
upkeep_look(struct mt_upkeep *upkeep)
{
	struct loop *loop = upkeep->shard->port->loop;
	uint64_t next_ns, now_ns;

	CHECK_OBJ(upkeep, UPKEEP_MAGIC);
	if (!upkeep->is_running)
		return;
	next_ns = mt_sweep_step(&upkeep->sweep);
	next_ns = num_min(next_ns, mt_scrub_step(&upkeep->scrub));
	next_ns = num_min(next_ns, mt_repair_step(&upkeep->repair));
	loop_timer_stop(loop, &upkeep->timer);
	if (next_ns == UPKEEP_NEVER || !upkeep->is_running)
		return;
	now_ns = loop_now_ns(loop);
	loop_timer_start(loop, &upkeep->timer, next_ns > now_ns ? next_ns - now_ns : 1);
}

static void
upkeep_on_task(struct loop_task *task, void *arg)
{
	(void)task;
	upkeep_look(arg);
}

static void
upkeep_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	upkeep_look(arg);
}

int
mt_upkeep_init(struct mt_shard *shard)
{
	struct mt_upkeep *upkeep = mt_calloc(1, sizeof(*upkeep));

	assert(shard->upkeep == NULL);
	if (upkeep == NULL)
		return -ENOMEM;
	upkeep->magic = UPKEEP_MAGIC;
	upkeep->shard = shard;
	loop_task_init(&upkeep->task, upkeep_on_task, upkeep);
	loop_timer_init(&upkeep->timer, upkeep_on_timer, upkeep);
	mt_repair_init(&upkeep->repair, shard);
	mt_sweep_init(&upkeep->sweep, shard);
	mt_scrub_init(&upkeep->scrub, shard);
	shard->upkeep = upkeep;
	return 0;
}

void
mt_upkeep_start(struct mt_shard *shard)
{
	struct mt_upkeep *upkeep = shard->upkeep;

	CHECK_OBJ(upkeep, UPKEEP_MAGIC);
	assert(shard->upkeep_task == NULL && shard->garbage_fn == NULL);
	assert(shard->sm.state == MT_SHARD_SERVING);
	assert(!upkeep->is_running);
	upkeep->is_running = true;
	shard->upkeep_task = &upkeep->task;
	shard->garbage_fn = mt_sweep_know;
	mt_repair_start(&upkeep->repair);
	mt_sweep_start(&upkeep->sweep);
	mt_scrub_start(&upkeep->scrub);
	mt_extent_upkeep(shard);
}

void
mt_upkeep_stop(struct mt_shard *shard)
{
	struct mt_upkeep *upkeep = shard->upkeep;

	CHECK_OBJ(upkeep, UPKEEP_MAGIC);
	if (!upkeep->is_running)
		return;
	assert(shard->upkeep_task == &upkeep->task);
	upkeep->is_running = false;
	shard->upkeep_task = NULL;
	shard->garbage_fn = NULL;
	loop_task_cancel(shard->port->loop, &upkeep->task);
	loop_timer_stop(shard->port->loop, &upkeep->timer);
	mt_repair_stop(&upkeep->repair);
	mt_sweep_stop(&upkeep->sweep);
	mt_scrub_stop(&upkeep->scrub);
}

bool
mt_upkeep_is_quiet(const struct mt_shard *shard)
{
	const struct mt_upkeep *upkeep = shard->upkeep;

	CHECK_OBJ(upkeep, UPKEEP_MAGIC);
	return !upkeep->is_running && !upkeep->repair.is_call_out && !upkeep->sweep.is_call_out &&
	    !upkeep->scrub.is_call_out;
}

void
mt_upkeep_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	struct mt_upkeep *upkeep = shard->upkeep;

	assert(link->port == shard->port);
	if (!upkeep->is_running)
		return;
	mt_repair_on_link(&upkeep->repair, link, is_up);
	if (is_up)
		mt_sweep_node(&upkeep->sweep, link->node_id);
	mt_extent_upkeep(shard);
}

void
mt_upkeep_fini(struct mt_shard *shard)
{
	struct mt_upkeep *upkeep = shard->upkeep;

	if (upkeep == NULL)
		return;
	CHECK_OBJ(upkeep, UPKEEP_MAGIC);
	shard->upkeep_task = NULL;
	shard->garbage_fn = NULL;
	loop_task_cancel(shard->port->loop, &upkeep->task);
	loop_timer_stop(shard->port->loop, &upkeep->timer);
	mt_sweep_fini(&upkeep->sweep);
	upkeep->magic = 0;
	mt_free(upkeep);
	shard->upkeep = NULL;
}

/* An open extent that one more lost node could bring near its end. It is sealed, or made anew, soon. */
static bool
upkeep_open_lacks(const struct mt_extent *extent)
{
	assert(extent == NULL || extent->replica_count <= MT_REPLICAS_MAX);
	return extent != NULL &&
	    (extent->sm.state == MT_EXTENT_OPEN || extent->sm.state == MT_EXTENT_BROKEN) &&
	    !mt_extent_is_whole(extent, MT_REPLICAS_MAX);
}

uint32_t
mt_upkeep_lacking_count(const struct mt_shard *shard)
{
	assert(shard->upkeep == NULL || shard->upkeep->shard == shard);
	return shard->upkeep != NULL && shard->upkeep->is_running
	    ? shard->upkeep->repair.lacking_count
	    : 0;
}

uint64_t
mt_upkeep_scrub_age_ns(const struct mt_shard *shard)
{
	assert(shard->upkeep == NULL || shard->upkeep->shard == shard);
	return shard->upkeep != NULL && shard->upkeep->is_running
	    ? loop_now_ns(shard->port->loop) - shard->upkeep->scrub.passed_ns
	    : 0;
}

static bool
upkeep_open_leaves(const struct mt_extent *extent)
{
	return extent != NULL && extent->sm.state == MT_EXTENT_OPEN && !upkeep_open_lacks(extent) &&
	    mt_extent_leaving(extent) >= 0;
}

uint32_t
mt_upkeep_leaving_count(const struct mt_shard *shard)
{
	uint32_t count;

	assert(shard->upkeep == NULL || shard->upkeep->shard == shard);
	if (shard->upkeep == NULL || !shard->upkeep->is_running)
		return 0;
	count = shard->upkeep->repair.leaving_count;
	for (uint32_t i = 0; i < shard->extent_count; i++)
		count += upkeep_open_leaves(shard->extents[i]);
	return count + upkeep_open_leaves(mt_manifest_extent(shard));
}

uint32_t
mt_upkeep_orphan_count(const struct mt_shard *shard, uint32_t *ret_held_count)
{
	assert(ret_held_count != NULL);
	*ret_held_count = 0;
	return shard->upkeep != NULL && shard->upkeep->is_running
	    ? mt_orphans_count(&shard->upkeep->sweep.orphans, ret_held_count)
	    : 0;
}

uint32_t
mt_upkeep_open_lacking_count(const struct mt_shard *shard)
{
	uint32_t count = 0;

	assert(shard->upkeep == NULL || shard->upkeep->shard == shard);
	if (shard->upkeep == NULL || !shard->upkeep->is_running)
		return 0;
	for (uint32_t i = 0; i < shard->extent_count; i++)
		count += upkeep_open_lacks(shard->extents[i]);
	return count + upkeep_open_lacks(mt_manifest_extent(shard));
}
