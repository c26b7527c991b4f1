/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrub.c -- every copy of an extent is read and checked by its node, now and then
 *
 *	IDLE <---> VERIFYING (one copy, at its node)
 *
 * Copies that a read has found bad come first: a single bad answer may have been the wire, so a copy is
 * damaged when its node's own check says so, not before. A node that cannot read it (EIO) says so twice, some time
 * apart: a moment of a disk is no damage. However often reads find such a copy bad in between, it is verified no sooner,
 * and copies take turns. Where no copy of an extent is good, the damaged ones are verified now and then, too: one that
 * its node finds whole is good again. Else a *pass* goes over all extents, the manifest's, and their replicas, spread
 * over scrub_interval; one that somebody asks for goes as fast as nodes verify, which have a budget of their own. What a pass meets of nodes that are away is left to the next.
 *
 * An open extent is verified up to the length that was acknowledged when its node was asked: so much each
 * replica holds. A bad copy of it cannot be made anew while it grows: its owner seals it without that copy, or
 * begins the manifest anew (repair.c, log_roll.c, run_roll.c), and repair does the rest.
 */
#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"
#include "manifest/manifest.h"
#include "upkeep/scrub.h"
#include "upkeep/upkeep.h"

#define SCRUB_RETRY_NS NUM_MS(200)
#define SCRUB_TWICE_NS NUM_S(60)     /* between two verdicts that a copy cannot be read */
#define SCRUB_HOPELESS_NS NUM_S(600) /* the same where no copy is good: what is damaged is lost */

enum scrub_state { SCRUB_IDLE, SCRUB_VERIFYING, SCRUB_STATE_NR };

static const struct sm_state scrub_table[SCRUB_STATE_NR] = {
	[SCRUB_IDLE] = { "idle", SM_TO(SCRUB_VERIFYING), SM_INITIAL },
	[SCRUB_VERIFYING] = { "verifying", SM_TO(SCRUB_IDLE), 0 },
};

static uint64_t
scrub_now_ns(const struct mt_scrub *scrub)
{
	return loop_now_ns(scrub->shard->port->loop);
}

/* Between two copies of a pass. */
static uint64_t
scrub_gap_ns(const struct mt_scrub *scrub)
{
	const struct mt_shard *shard = scrub->shard;
	uint64_t count = 1;

	assert(!scrub->is_stopped);
	if (scrub->is_asked)
		return 0;
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL)
			count += shard->extents[i]->replica_count;
	}
	for (uint32_t i = 0; mt_manifest_part(shard, i) != NULL; i++)
		count += mt_manifest_part(shard, i)->replica_count;
	return shard->port->settings->scrub_interval_ns / count;
}

/* ---- one copy ---- */

/* How many places a pass goes over: the shard's extents, the manifest's. */
static uint32_t
scrub_extent_count(const struct mt_scrub *scrub)
{
	uint32_t count = scrub->shard->extent_count + 1;

	while (mt_manifest_part(scrub->shard, count - scrub->shard->extent_count - 1) != NULL)
		count++;
	return count;
}

/* How much of @extent each of its copies must hold by now. */
static uint64_t
scrub_bytes_of(const struct mt_extent *extent)
{
	assert(extent->sm.state != MT_EXTENT_CREATING);
	return extent->sm.state == MT_EXTENT_SEALED ? extent->sealed_bytes : extent->acked_bytes;
}

/*
 * The extent that a pass meets at @index: those with something in them, then the manifest's, the open one and the
 * ones before it. NULL: none.
 */
static struct mt_extent *
scrub_extent_at(const struct mt_scrub *scrub, uint32_t index)
{
	const struct mt_shard *shard = scrub->shard;
	struct mt_extent *extent;

	if (index == shard->extent_count)
		return MUTANT(open_unscrubbed) ? NULL : mt_manifest_extent(shard);
	if (index > shard->extent_count)
		return mt_manifest_part(shard, index - shard->extent_count - 1);
	extent = shard->extents[index];
	if (extent == NULL || extent->is_going || extent->sm.state == MT_EXTENT_CREATING)
		return NULL;
	if (extent->sm.state != MT_EXTENT_SEALED &&
	    (extent->acked_bytes == 0 || MUTANT(open_unscrubbed)))
		return NULL;
	return extent;
}

/* The extent whose copy was verified, if that copy is one of its replicas still. */
static struct mt_extent *
scrub_extent(const struct mt_scrub *scrub, uint32_t *ret_replica)
{
	uint32_t count = scrub_extent_count(scrub);

	assert(scrub->node_id != 0);
	for (uint32_t i = 0; i < count; i++) {
		struct mt_extent *extent = scrub_extent_at(scrub, i);
		int index;

		if (extent == NULL || extent_id_pack(&extent->id) != extent_id_pack(&scrub->id))
			continue;
		index = mt_extent_replica(extent, scrub->node_id);
		if (index < 0 || extent->replicas[index].incarnation != scrub->incarnation)
			return NULL;
		*ret_replica = (uint32_t)index;
		return extent;
	}
	return NULL;
}

static bool
is_no_verdict(int rc)
{
	return rc == -ECONNRESET || rc == -ETIMEDOUT || rc == -ENOTCONN || rc == -EBUSY ||
	    rc == -ENOBUFS || rc == -ENOMEM || rc == -EHOSTDOWN || rc == -ECANCELED;
}

static bool
has_good_copy(const struct mt_extent *extent)
{
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (!extent->replicas[i].is_damaged && extent->replicas[i].failed_ns == 0)
			return true;
	}
	return false;
}

/* From when on a copy is to be verified, whatever a pass does; UPKEEP_NEVER: nothing is known against it. */
static uint64_t
scrub_due_ns(const struct mt_extent *extent, const struct mt_replica *replica)
{
	bool has_good = has_good_copy(extent);

	if (replica->is_damaged && has_good)
		return UPKEEP_NEVER;
	if (replica->failed_ns == 0)
		return replica->is_damaged || replica->is_suspect ? 0 : UPKEEP_NEVER;
	return replica->failed_ns + (has_good ? SCRUB_TWICE_NS : SCRUB_HOPELESS_NS);
}

/* The node of a copy has found @rc. True: the copy is damaged. */
static bool
scrub_condemns(const struct mt_scrub *scrub, struct mt_extent *extent, uint32_t replica_index,
    int rc)
{
	struct mt_replica *replica = &extent->replicas[replica_index];
	uint64_t now_ns = scrub_now_ns(scrub), due_ns;

	assert(rc < 0);
	due_ns = replica->failed_ns == 0 ? UPKEEP_NEVER : scrub_due_ns(extent, replica);
	if (rc != -EIO || due_ns <= now_ns || replica->is_damaged) {
		replica->failed_ns = now_ns;
		return true;
	}
	if (replica->failed_ns == 0)
		replica->failed_ns = now_ns;
	return false;
}

static void
scrub_judge(struct mt_scrub *scrub, int rc, const struct wire_node_reply *reply)
{
	uint64_t *metrics = scrub->shard->port->metrics;
	uint32_t replica;
	struct mt_extent *extent = scrub_extent(scrub, &replica);

	assert(scrub->sm.state == SCRUB_IDLE && !scrub->is_call_out);
	if (extent == NULL || is_no_verdict(rc))
		return;
	extent->replicas[replica].is_suspect = false;
	if (rc == 0 && reply->offset_bytes < scrub->want_bytes)
		rc = -ERANGE;
	if (rc != 0) {
		if (scrub_condemns(scrub, extent, replica, rc))
			mt_extent_damage(extent, replica, "its node has verified it", rc);
		return;
	}
	/* A copy not sealed at its length yet may be damaged again when it is: it is not verified again at once. */
	extent->replicas[replica].failed_ns = extent->replicas[replica].is_damaged &&
		!extent->replicas[replica].is_truncated
	    ? scrub_now_ns(scrub)
	    : 0;
	mt_extent_heal(extent, replica);
	metric_add(&metrics[MT_METRIC_copies_verified], 1);
	metric_add(&metrics[MT_METRIC_verified_bytes], scrub->want_bytes);
}

static void
scrub_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_scrub *scrub = arg;
	bool is_retried = rc == -EBUSY || rc == -ENOBUFS || rc == -ENOMEM;

	(void)call;
	assert(scrub->is_call_out);
	assert(msg == NULL);
	scrub->is_call_out = false;
	if (scrub->is_stopped)
		return;
	sm_move(&scrub->sm, SCRUB_IDLE);
	scrub_judge(scrub, rc, reply);
	if (is_retried) {
		scrub->not_before_ns = scrub_now_ns(scrub) + SCRUB_RETRY_NS;
	} else if (scrub->is_pass_copy) {
		scrub->replica_index++;
		scrub->last_ns = scrub_now_ns(scrub);
	}
	mt_extent_upkeep(scrub->shard);
}

/* False: it cannot be asked now. */
static bool
scrub_verify(struct mt_scrub *scrub, const struct mt_extent *extent, uint32_t replica_index)
{
	const struct mt_replica *replica = &extent->replicas[replica_index];
	struct mt_link *link = mt_port_link(scrub->shard->port, replica->node_id);

	assert(!scrub->is_call_out);
	assert(replica_index < extent->replica_count);
	if (link == NULL || !mt_link_is_up(link))
		return false;
	scrub->id = extent->id;
	scrub->node_id = replica->node_id;
	scrub->incarnation = replica->incarnation;
	scrub->want_bytes = scrub_bytes_of(extent);
	scrub->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_VERIFY,
		.id = extent->id,
		.epoch = scrub->shard->epoch };
	scrub->call.fn = scrub_on_answer;
	scrub->call.arg = scrub;
	if (mt_link_call(link, &scrub->call) != 0)
		return false;
	scrub->is_call_out = true;
	sm_move(&scrub->sm, SCRUB_VERIFYING);
	return true;
}

/* ---- which one ---- */

/* Copies take turns: it goes on behind the last one. True: one is being verified. @ret_next_ns: when to look again, UPKEEP_NEVER: there are none. */
static bool
scrub_suspects(struct mt_scrub *scrub, uint64_t *ret_next_ns)
{
	uint32_t count = scrub_extent_count(scrub);
	uint64_t now_ns = scrub_now_ns(scrub);

	assert(scrub->sm.state == SCRUB_IDLE);
	for (uint32_t n = 0; n <= count; n++) {
		uint32_t i = (scrub->suspect_index + n) % count;
		const struct mt_extent *extent = scrub_extent_at(scrub, i);

		for (uint32_t k = n == 0 ? scrub->suspect_replica : 0;
		     extent != NULL && k < extent->replica_count; k++) {
			uint64_t due_ns = scrub_due_ns(extent, &extent->replicas[k]);

			if (due_ns > now_ns) {
				*ret_next_ns = num_min(*ret_next_ns, due_ns);
				continue;
			}
			if (scrub_verify(scrub, extent, k)) {
				scrub->suspect_index = i;
				scrub->suspect_replica = k + 1;
				return true;
			}
			*ret_next_ns = num_min(*ret_next_ns, now_ns + UPKEEP_SOON_NS);
		}
	}
	return false;
}

/* The pass is at its end. */
static void
scrub_end_pass(struct mt_scrub *scrub)
{
	struct mt_shard *shard = scrub->shard;

	assert(scrub->sm.state == SCRUB_IDLE);
	assert(!scrub->is_call_out);
	metric_add(&shard->port->metrics[MT_METRIC_scrubs_done], 1);
	if (scrub->is_asked)
		log_info("shard %u: every copy that could be asked was verified", shard->index);
	scrub->extent_index = scrub->replica_index = 0;
	scrub->is_asked = scrub->is_asked_again;
	scrub->is_asked_again = false;
	/* An empty pass, too, is one an interval. */
	scrub->last_ns = scrub->passed_ns = scrub_now_ns(scrub);
}

/* True: one is being verified. False: the pass has ended, or waits. */
static bool
scrub_pass(struct mt_scrub *scrub)
{
	uint32_t count = scrub_extent_count(scrub);

	assert(scrub->sm.state == SCRUB_IDLE);
	assert(!scrub->is_stopped && !scrub->is_call_out);
	for (; scrub->extent_index < count; scrub->extent_index++) {
		const struct mt_extent *extent = scrub_extent_at(scrub, scrub->extent_index);

		for (; extent != NULL && scrub->replica_index < extent->replica_count;
		     scrub->replica_index++) {
			if (extent->replicas[scrub->replica_index].is_damaged)
				continue;
			if (scrub_verify(scrub, extent, scrub->replica_index))
				return true;
		}
		scrub->replica_index = 0;
	}
	scrub_end_pass(scrub);
	return false;
}

uint64_t
mt_scrub_step(struct mt_scrub *scrub)
{
	uint64_t now_ns = scrub_now_ns(scrub), suspects_ns = UPKEEP_NEVER;

	assert(!scrub->is_stopped);
	if (scrub->sm.state != SCRUB_IDLE)
		return UPKEEP_NEVER; /* its answer calls again */
	if (scrub->not_before_ns > now_ns)
		return scrub->not_before_ns;
	scrub->is_pass_copy = false;
	if (scrub_suspects(scrub, &suspects_ns))
		return UPKEEP_NEVER;
	if (now_ns >= scrub->last_ns + scrub_gap_ns(scrub)) {
		scrub->is_pass_copy = true;
		if (scrub_pass(scrub))
			return UPKEEP_NEVER;
	}
	return num_min(scrub->last_ns + scrub_gap_ns(scrub), suspects_ns);
}

void
mt_scrub_now(struct mt_shard *shard)
{
	struct mt_scrub *scrub = &shard->upkeep->scrub;

	assert(shard->upkeep != NULL);
	if (!shard->upkeep->is_running)
		return;
	if (scrub->is_asked) {
		scrub->is_asked_again = true;
		return;
	}
	/* From the beginning, whatever a pass in the background has seen. */
	scrub->is_asked = true;
	scrub->extent_index = scrub->replica_index = 0;
	scrub->is_pass_copy = false; /* of the one that is out */
	mt_extent_upkeep(shard);
}

/* ---- its life ---- */

void
mt_scrub_init(struct mt_scrub *scrub, struct mt_shard *shard)
{
	assert(shard != NULL);
	*scrub = (struct mt_scrub){ .shard = shard, .is_stopped = true };
	sm_init(&scrub->sm, "scrub", scrub_table, SCRUB_IDLE, shard->index);
}

void
mt_scrub_start(struct mt_scrub *scrub)
{
	assert(!scrub->is_call_out);
	mt_scrub_init(scrub, scrub->shard);
	scrub->is_stopped = false;
	scrub->last_ns = scrub->passed_ns = scrub_now_ns(scrub);
}

void
mt_scrub_stop(struct mt_scrub *scrub)
{
	scrub->is_stopped = true;
}
