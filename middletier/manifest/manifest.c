/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.c -- a shard's log of edits
 *
 *	                     begin, or the extent is full or broken
 *	            +------------------------------------------------------+
 *	            v   full                                               |
 *	        CREATING <-> CHECKPOINTING --> STORING --> READY <--> APPENDING
 *	         |    ^         |               |    ^
 *	         v    |         v               v    |
 *	       WAITING (for nodes, memory, the metadata store) -- and from anywhere: STOPPED
 *
 * Commits are queued, and go to the extent several to a batch, one batch in flight; a commit is never
 * cut in two, so that it is durable whole or not at all. The state has every commit's edits from the
 * moment it was asked for.
 *
 * A new extent is begun under the same epoch when the present one takes no more: the whole state goes
 * there as a checkpoint, all commits that wait included, then the root moves to it by
 * compare-and-swap. Only that makes it count, and completes those commits; a half-written one is
 * deleted. The extent before is deleted once the root has moved. A checkpoint that fills an extent goes on
 * in another one, which names those before it (manifest_parts.c); the root moves to the last.
 *
 * A state that needs more than MT_MANIFEST_PARTS_MAX extents is not written: commits wait, reads go on,
 * and what is deleted meanwhile makes it shorter. It is pressed back long before (manifest_room.c).
 *
 * When the outcome of a batch is unknown, nobody is told: its commits are part of the checkpoint. A
 * take-over may find them or not.
 */
#include "manifest/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/root.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/replicate.h"
#include "manifest/edit.h"
#include "manifest/manifest_checkpoint.h"
#include "manifest/manifest_commits.h"
#include "manifest/manifest_parts.h"
#include "manifest/manifest_state.h"

#define MANIFEST_COMMITS_MAX 256u
#define MANIFEST_BACKOFF_MIN_NS NUM_MS(50)
#define MANIFEST_BACKOFF_MAX_NS NUM_S(2)

static const struct sm_state manifest_table[MANIFEST_NR] = {
	[MANIFEST_CREATING] = { "creating",
	    SM_TO(MANIFEST_CHECKPOINTING) | SM_TO(MANIFEST_WAITING) | SM_TO(MANIFEST_STOPPED),
	    SM_INITIAL },
	[MANIFEST_CHECKPOINTING] = { "checkpointing",
	    SM_TO(MANIFEST_STORING) | SM_TO(MANIFEST_CREATING) | SM_TO(MANIFEST_WAITING) |
		SM_TO(MANIFEST_STOPPED),
	    0 },
	[MANIFEST_STORING] = { "storing",
	    SM_TO(MANIFEST_READY) | SM_TO(MANIFEST_WAITING) | SM_TO(MANIFEST_STOPPED), 0 },
	[MANIFEST_READY] = { "ready",
	    SM_TO(MANIFEST_APPENDING) | SM_TO(MANIFEST_CREATING) | SM_TO(MANIFEST_STOPPED), 0 },
	[MANIFEST_APPENDING] = { "appending",
	    SM_TO(MANIFEST_READY) | SM_TO(MANIFEST_CREATING) | SM_TO(MANIFEST_STOPPED), 0 },
	[MANIFEST_WAITING] = { "waiting",
	    SM_TO(MANIFEST_CREATING) | SM_TO(MANIFEST_STORING) | SM_TO(MANIFEST_STOPPED), 0 },
	[MANIFEST_STOPPED] = { "stopped", 0, SM_FINAL },
};

static void manifest_kick(struct mt_manifest *manifest);

static bool
is_fenced(int rc)
{
	return rc == -ESTALE || rc == -EACCES;
}

/* ---- commits ---- */

int
mt_manifest_commit(struct mt_shard *shard, const struct mt_edit *edits, uint32_t count,
    mt_manifest_fn fn, void *arg)
{
	struct mt_manifest *manifest = shard->manifest;

	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	assert(count >= 1);
	assert(count <= MT_COMMIT_EDITS_MAX);
	if (manifest->sm.state == MANIFEST_STOPPED)
		return manifest->stop_rc;
	if (manifest->commits.count == MANIFEST_COMMITS_MAX)
		return -ENOBUFS;
	if (mt_manifest_state_reserve(&manifest->state, count) != 0)
		return -ENOMEM;
	if (mt_manifest_commits_add(&manifest->commits, edits, count, fn, arg) != 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const char *field = NULL;
		int rc = mt_manifest_state_apply(&manifest->state, &edits[i], &field);

		assert(rc == 0); /* an edit that contradicts the state is our bug */
	}
	if (manifest->sm.state == MANIFEST_READY)
		loop_defer(shard->port->loop, &manifest->task); /* with its neighbours */
	return 0;
}

/* ---- waiting ---- */

static void
manifest_wait(struct mt_manifest *manifest, enum manifest_machine resume, int rc)
{
	struct mt_shard *shard = manifest->shard;
	uint64_t half_ns = manifest->backoff_ns / 2;

	assert(rc < 0);
	assert(resume == MANIFEST_CREATING || resume == MANIFEST_STORING);
	if (!manifest->is_wait_logged)
		log_warn("shard %" PRIu32 ": manifest waits for %s rc=%s", shard->index,
		    rc == -EFBIG                     ? "volumes or snapshots to be deleted"
			: resume == MANIFEST_STORING ? "the metadata store"
						     : "storage nodes",
		    log_errno(rc));
	manifest->is_wait_logged = true;
	manifest->resume = resume;
	sm_move(&manifest->sm, MANIFEST_WAITING);
	loop_timer_start(shard->port->loop, &manifest->timer,
	    half_ns + loop_random_below(shard->port->loop, half_ns + 1));
	manifest->backoff_ns = num_min(manifest->backoff_ns * 2, MANIFEST_BACKOFF_MAX_NS);
}

static void
manifest_resume(struct mt_manifest *manifest)
{
	assert(manifest->sm.state == MANIFEST_WAITING);
	loop_timer_stop(manifest->shard->port->loop, &manifest->timer);
	if (manifest->resume == MANIFEST_STORING)
		mt_manifest_store(manifest);
	else
		mt_manifest_begin(manifest);
}

static void
manifest_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_manifest *manifest = arg;

	(void)timer;
	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	assert(manifest->sm.state == MANIFEST_WAITING);
	manifest_resume(manifest);
}

/* The shard cannot go on; says so, and ends every commit. */
static void
manifest_give_up(struct mt_manifest *manifest, int rc, const char *why)
{
	assert(rc < 0);
	mt_shard_event(manifest->shard, CLEAVE_EVENT_SHARD_STOPPED,
	    "shard %" PRIu32 ": stopped: %s rc=%s", manifest->shard->index, why, log_errno(rc));
	mt_shard_stop(manifest->shard, rc);
}

void
mt_manifest_begin_failed(struct mt_manifest *manifest, int rc)
{
	assert(rc < 0);
	if (manifest->next != NULL)
		mt_extent_delete(manifest->next);
	manifest->next = NULL;
	mt_manifest_parts_delete(&manifest->next_parts);
	mt_free(manifest->checkpoint);
	manifest->checkpoint = NULL;
	manifest_wait(manifest, MANIFEST_CREATING, rc);
	if (is_fenced(rc))
		mt_shard_on_stale(manifest->shard);
}

/* ---- batches ---- */

int
mt_manifest_send(struct mt_manifest *manifest, struct mt_extent *extent, uint32_t edit_count,
    uint32_t edit_bytes, mt_append_fn fn)
{
	struct mt_append *batch = &manifest->batch;

	assert(edit_count > 0);
	assert(edit_bytes <= MANIFEST_EDITS_BYTES_MAX);
	assert(manifest->batch.unanswered_count == 0);
	batch->info = (struct batch_info){
		.kind = EXTENT_MANIFEST,
		.record_count = edit_count,
		.desc_bytes = edit_bytes,
		.used_bytes = BATCH_HEADER_BYTES + edit_bytes,
		.batch_bytes = (uint32_t)num_round_up(BATCH_HEADER_BYTES + edit_bytes, BATCH_ALIGN),
	};
	batch->payload = DEV_PTR_NULL;
	batch->fn = fn;
	batch->arg = manifest;
	return mt_extent_append(extent, batch);
}

uint8_t *
mt_manifest_edit_buffer(struct mt_manifest *manifest)
{
	assert(manifest->batch.unanswered_count == 0);
	return manifest->batch.hosts[0] + WIRE_HEADER_BYTES + BATCH_HEADER_BYTES;
}

static void
manifest_on_appended(struct mt_append *batch, int rc, void *arg)
{
	struct mt_manifest *manifest = arg;

	(void)batch;
	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	assert(batch == &manifest->batch);
	if (manifest->sm.state == MANIFEST_STOPPED)
		return;
	assert(manifest->sm.state == MANIFEST_APPENDING);
	if (rc != 0) {
		sm_move(&manifest->sm, MANIFEST_CREATING);
		mt_manifest_begin(manifest);
		if (is_fenced(rc))
			mt_shard_on_stale(manifest->shard);
		return;
	}
	sm_move(&manifest->sm, MANIFEST_READY);
	mt_manifest_commits_end(&manifest->commits, 0);
	manifest_kick(manifest);
}

/* Commits that wait go out in one batch, as many as fit. */
static void
manifest_kick(struct mt_manifest *manifest)
{
	uint32_t edit_count, edit_bytes;

	if (manifest->sm.state != MANIFEST_READY || list_is_empty(&manifest->commits.waiting))
		return;
	assert(manifest->extent != NULL);
	edit_count = mt_manifest_commits_take(&manifest->commits, mt_manifest_edit_buffer(manifest),
	    MANIFEST_EDITS_BYTES_MAX, &edit_bytes);
	if (mt_manifest_send(manifest, manifest->extent, edit_count, edit_bytes,
		manifest_on_appended) == 0) {
		sm_move(&manifest->sm, MANIFEST_APPENDING);
		return;
	}
	/* Full, or broken: nothing of this batch has left. */
	sm_move(&manifest->sm, MANIFEST_CREATING);
	mt_manifest_begin(manifest);
}

static void
manifest_on_task(struct loop_task *task, void *arg)
{
	(void)task;
	manifest_kick(arg);
}

/* ---- a new extent ---- */

void
mt_manifest_begin(struct mt_manifest *manifest)
{
	if (manifest->sm.state == MANIFEST_WAITING)
		sm_move(&manifest->sm, MANIFEST_CREATING);
	assert(manifest->sm.state == MANIFEST_CREATING);
	assert(manifest->next == NULL);
	manifest->next =
	    mt_extent_create(manifest->shard, EXTENT_MANIFEST, mt_manifest_on_created, manifest);
	if (manifest->next != NULL)
		return;
	if (errno == ENOSPC)
		manifest_give_up(manifest, -ENOSPC, "its epoch has no extent numbers left");
	else
		mt_manifest_begin_failed(manifest, -errno);
}

/* ---- a new extent: root ---- */

/* Deletes the parts before an earlier owner's extent. Best effort, as below. */
static void
manifest_delete_read_parts(struct mt_manifest *manifest)
{
	struct mt_manifest_state *state = &manifest->state;

	assert(manifest->parts.count == 0);
	while (state->part_count > 0) {
		const struct mt_state_extent *part = &state->parts[--state->part_count];
		struct mt_extent *old = mt_extent_restore(manifest->shard, &part->id,
		    EXTENT_MANIFEST, part->replicas, part->replica_count);

		if (old != NULL)
			mt_extent_delete(old);
	}
}

/* Best effort: what is left of it is an orphan, and swept. */
static void
manifest_delete_old(struct mt_manifest *manifest, const struct mt_root *old_root)
{
	struct mt_extent *old = manifest->extent;

	assert(manifest->extent != manifest->next);
	mt_manifest_parts_delete(&manifest->parts);
	manifest_delete_read_parts(manifest);

	if (old == NULL && old_root->has_manifest)
		old = mt_extent_restore(manifest->shard, &old_root->manifest, EXTENT_MANIFEST,
		    old_root->manifest_replicas, old_root->manifest_replica_count);
	if (old != NULL)
		mt_extent_delete(old);
	manifest->extent = NULL;
}

static void
manifest_on_stored(int rc, const struct mt_root *root, void *arg)
{
	struct mt_manifest *manifest = arg;
	struct mt_shard *shard = manifest->shard;
	struct mt_root old_root = *shard->root;

	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	if (manifest->sm.state == MANIFEST_STOPPED)
		return;
	assert(manifest->sm.state == MANIFEST_STORING);
	if (rc == -ESTALE) {
		manifest_give_up(manifest, rc, "another gateway has taken it over");
		return;
	}
	if (rc != 0) {
		manifest_wait(manifest, MANIFEST_STORING, rc);
		return;
	}
	*shard->root = *root;
	manifest_delete_old(manifest, &old_root);
	manifest->extent = manifest->next;
	manifest->next = NULL;
	manifest->parts = manifest->next_parts;
	manifest->next_parts.count = 0;
	manifest->is_wait_logged = false;
	manifest->backoff_ns = MANIFEST_BACKOFF_MIN_NS;
	sm_move(&manifest->sm, MANIFEST_READY);
	mt_manifest_commits_end(&manifest->commits, 0);
	manifest_kick(manifest);
}

void
mt_manifest_store(struct mt_manifest *manifest)
{
	const struct mt_extent *next = manifest->next;
	struct mt_root *wanted = &manifest->wanted;
	int rc;

	assert(manifest->next != NULL);
	assert(manifest->checkpoint == NULL);
	sm_move(&manifest->sm, MANIFEST_STORING);
	if (MUTANT(manifest_dropped_early))
		manifest_delete_old(manifest, manifest->shard->root);
	*wanted = *manifest->shard->root;
	wanted->has_manifest = true;
	wanted->manifest = next->id;
	wanted->manifest_replica_count = next->replica_count;
	memcpy(wanted->manifest_replicas, next->replicas, sizeof(next->replicas));
	wanted->manifest_sealed_bytes = MT_ROOT_OPEN;
	rc = mt_root_store(manifest->shard, wanted, manifest_on_stored, manifest);
	if (rc != 0)
		manifest_wait(manifest, MANIFEST_STORING, rc);
}

/* ---- its life ---- */

static struct mt_manifest *
manifest_create(struct mt_shard *shard)
{
	struct mt_manifest *manifest = mt_calloc(1, sizeof(*manifest));

	assert(shard->manifest == NULL);
	if (manifest == NULL)
		return NULL;
	if (mt_append_init(&manifest->batch, shard->port) != 0) {
		mt_free(manifest);
		return NULL;
	}
	manifest->magic = MANIFEST_MAGIC;
	manifest->shard = shard;
	manifest->backoff_ns = MANIFEST_BACKOFF_MIN_NS;
	mt_manifest_commits_init(&manifest->commits);
	loop_timer_init(&manifest->timer, manifest_on_timer, manifest);
	loop_task_init(&manifest->task, manifest_on_task, manifest);
	sm_init(&manifest->sm, "manifest", manifest_table, MANIFEST_CREATING, shard->index);
	return manifest;
}

int
mt_manifest_open(struct mt_shard *shard, struct mt_manifest_state *state, mt_manifest_fn fn,
    void *arg)
{
	struct mt_manifest *manifest;

	assert(shard->manifest == NULL);
	assert(state->epoch == shard->epoch);
	assert(fn != NULL);
	manifest = manifest_create(shard);
	if (manifest == NULL)
		return -ENOMEM;
	/* The opening is a commit without edits: complete when the root has moved. */
	if (mt_manifest_commits_add(&manifest->commits, NULL, 0, fn, arg) != 0) {
		mt_append_fini(&manifest->batch, shard->port);
		mt_free(manifest);
		return -ENOMEM;
	}
	shard->manifest = manifest;
	manifest->state = *state;
	mt_manifest_state_init(state);
	mt_manifest_begin(manifest);
	return 0;
}

const struct mt_manifest_state *
mt_manifest_state(const struct mt_shard *shard)
{
	assert(shard->manifest == NULL || shard->manifest->magic == MANIFEST_MAGIC);
	return shard->manifest != NULL ? &shard->manifest->state : NULL;
}

void
mt_manifest_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	struct mt_manifest *manifest = shard->manifest;

	if (manifest == NULL)
		return;
	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	if (manifest->extent != NULL)
		mt_extent_on_link(manifest->extent, link, is_up);
	if (manifest->next != NULL)
		mt_extent_on_link(manifest->next, link, is_up);
	mt_manifest_parts_on_link(&manifest->parts, link, is_up);
	mt_manifest_parts_on_link(&manifest->next_parts, link, is_up);
	if (is_up && manifest->sm.state == MANIFEST_WAITING)
		manifest_resume(manifest);
}

struct mt_extent *
mt_manifest_extent(const struct mt_shard *shard)
{
	return shard->manifest != NULL ? shard->manifest->extent : NULL;
}

struct mt_extent *
mt_manifest_part(const struct mt_shard *shard, uint32_t index)
{
	const struct mt_manifest *manifest = shard->manifest;

	assert(manifest == NULL || manifest->parts.count <= MT_MANIFEST_PARTS_MAX);
	return manifest != NULL && index < manifest->parts.count ? manifest->parts.extents[index]
								 : NULL;
}

bool
mt_manifest_is_settled(const struct mt_shard *shard)
{
	const struct mt_manifest *manifest = shard->manifest;

	assert(manifest == NULL || manifest->commits.count != 0 ||
	    list_is_empty(&manifest->commits.waiting));
	return manifest != NULL && manifest->sm.state == MANIFEST_READY &&
	    manifest->commits.count == 0;
}

uint64_t
mt_manifest_tend(struct mt_shard *shard, uint32_t domain_count)
{
	struct mt_manifest *manifest = shard->manifest;
	const struct mt_extent *extent = manifest->extent;
	uint64_t now_ns = loop_now_ns(shard->port->loop), next_ns = UINT64_MAX;

	assert(manifest->shard == shard);
	if (extent == NULL ||
	    (mt_extent_is_whole(extent, (uint32_t)num_min(domain_count, MT_REPLICAS_MAX)) &&
		mt_extent_leaving(extent) < 0 &&
		!mt_manifest_parts_lack(&manifest->parts, domain_count, &next_ns)))
		return next_ns;
	if (manifest->sm.state != MANIFEST_READY || now_ns < extent->placed_ns + MT_EXTENT_TEND_NS)
		return now_ns + MT_EXTENT_TEND_NS;
	sm_move(&manifest->sm, MANIFEST_CREATING);
	mt_manifest_begin(manifest);
	return UINT64_MAX; /* once more when it has come to an end, or failed */
}

void
mt_manifest_stop(struct mt_shard *shard, int rc)
{
	struct mt_manifest *manifest = shard->manifest;

	assert(rc < 0);
	assert(shard->manifest == NULL || shard->manifest->shard == shard);
	if (manifest == NULL || manifest->sm.state == MANIFEST_STOPPED)
		return;
	manifest->stop_rc = rc;
	sm_move(&manifest->sm, MANIFEST_STOPPED);
	loop_timer_stop(shard->port->loop, &manifest->timer);
	loop_task_cancel(shard->port->loop, &manifest->task);
	mt_manifest_commits_end(&manifest->commits, rc);
	mt_manifest_commits_refuse(&manifest->commits, rc);
}

bool
mt_manifest_is_quiet(const struct mt_shard *shard)
{
	const struct mt_manifest *manifest = shard->manifest;

	return manifest == NULL ||
	    (manifest->sm.state == MANIFEST_STOPPED && manifest->batch.unanswered_count == 0);
}

void
mt_manifest_fini(struct mt_shard *shard)
{
	struct mt_manifest *manifest = shard->manifest;

	if (manifest == NULL)
		return;
	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	loop_timer_stop(shard->port->loop, &manifest->timer);
	loop_task_cancel(shard->port->loop, &manifest->task);
	mt_manifest_commits_fini(&manifest->commits);
	mt_extent_free(manifest->extent);
	mt_extent_free(manifest->next);
	mt_manifest_parts_free(&manifest->parts);
	mt_manifest_parts_free(&manifest->next_parts);
	mt_append_fini(&manifest->batch, shard->port);
	mt_manifest_state_fini(&manifest->state);
	mt_free(manifest->checkpoint);
	manifest->magic = 0;
	mt_free(manifest);
	shard->manifest = NULL;
}
