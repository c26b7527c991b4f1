/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_node_model.c -- owners of several epochs ask for anything, at once, while disks fail and power goes
 *
 * A few extents of one shard, each with a chain of batches that is known beforehand. Random requests are
 * posted, several under way at a time, with random epochs, lengths and batches; between them the process
 * is killed, with and without its power. Against that stands a small model: what was answered holds until
 * somebody asks for something else, and never comes an answer that an acknowledged fence forbids.
 *
 * All that happens also has to have taken every edge of every state table of the node. A seed that fails
 * is told: CLEAVE_TEST_SEED runs it alone, CLEAVE_TEST_SEEDS says how many to try.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/sm.h"
#include "storage-node/append.h"
#include "storage-node/change.h"
#include "storage-node/extent.h"
#include "storage-node/fence.h"
#include "storage-node/scan.h"
#include "storage-node/sync.h"
#include "support/node_rig.h"

#define SHARD 3u
#define EXTENTS 5u
#define BATCHES 6u
#define POSTED_MAX 10u
#define SEEDS 450u
#define STEPS 120u

/* Promises about the copy that is there. */
struct view {
	uint64_t incarnation; /* 0: none is known of */
	uint64_t acked_bytes;
	uint64_t known_bytes;     /* a length that the node has told */
	uint64_t cut_asked_bytes; /* the least; UINT64_MAX: none was */
	bool is_cut_acked;
	uint64_t cut_acked_bytes;
	bool is_delete_asked;
	uint32_t creates_out; /* under way */
	uint32_t next_batch;  /* a guess */
	/* A create has failed: its header may be on the disk, an empty extent after some restart. */
	bool is_ghost_possible;
	bool is_unflushed; /* such a one, on a disk that no flush can be trusted on */
};

struct posted {
	struct rig_call *call;
	uint32_t extent;
	uint32_t fence; /* acknowledged when it was posted */
	bool is_corrupt;
};

static struct node_rig *rig;
static struct rig_extent extents[EXTENTS];
static struct view views[EXTENTS];
static struct posted posted[POSTED_MAX];
static uint32_t posted_count;
static uint32_t epoch_now, fence_acked;
static bool reads_may_fail;
static bool was_broken; /* a flush has failed: what a read shows need not be durable, ever */
static uint64_t seed_now;

/* ---- edges ---- */

#define TABLES 6u
#define STATES_MAX 16u

static struct {
	const struct sm_state *table;
	uint32_t state_count;
	uint32_t edges[STATES_MAX];
} tables[TABLES];

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < TABLES; i++)
		if (sm->table == tables[i].table)
			tables[i].edges[from] |= SM_TO(to);
}

/* ---- answers ---- */

static void
on_create(struct view *view, const struct rig_call *call)
{
	view->creates_out--;
	if (call->rc == -EIO || call->rc == -EROFS || call->rc == -ECONNRESET)
		view->is_ghost_possible = true;
	if (call->rc != 0)
		return;
	cr_assert_gt(call->reply.offset_bytes, view->incarnation, "seed %lu", seed_now);
	cr_assert(view->incarnation == 0 || view->is_delete_asked, "seed %lu", seed_now);
	*view = (struct view){ .incarnation = call->reply.offset_bytes,
		.cut_asked_bytes = UINT64_MAX,
		.creates_out = view->creates_out,
		.is_ghost_possible = view->is_ghost_possible };
}

static void
on_append(struct view *view, const struct rig_call *call, const struct rig_extent *e,
    bool is_corrupt)
{
	uint64_t end = call->request.offset_bytes + call->request.length_bytes;

	cr_assert(call->rc != 0 || !is_corrupt, "seed %lu", seed_now);
	if (call->rc != 0)
		return;
	cr_assert_geq(call->reply.offset_bytes, end, "seed %lu", seed_now);
	/* All that comes before is there as well. */
	cr_assert_leq(call->request.offset_bytes, num_max(view->acked_bytes, view->known_bytes),
	    "seed %lu", seed_now);
	view->acked_bytes = num_max(view->acked_bytes, end);
	for (uint32_t i = 0; i < BATCHES; i++)
		if (e->batches[i].offset_bytes + e->batches[i].bytes == end)
			view->next_batch = i + 1;
}

static void
on_answer(const struct posted *p)
{
	const struct rig_call *call = p->call;
	const struct wire_node *request = &call->request;
	struct view *view = &views[p->extent];
	bool is_fenced = request->opcode != WIRE_EXTENT_READ &&
	    request->opcode != WIRE_EXTENT_VERIFY;

	if (is_fenced && call->rc == 0)
		cr_assert_geq(request->epoch, p->fence, "seed %lu opcode %x", seed_now,
		    request->opcode);
	switch (request->opcode) {
	case WIRE_EXTENT_CREATE:
		on_create(view, call);
		break;
	case WIRE_EXTENT_APPEND:
		on_append(view, call, &extents[p->extent], p->is_corrupt);
		break;
	case WIRE_EXTENT_TRUNCATE:
		if (call->rc == 0 && view->incarnation != 0) {
			view->is_cut_acked = true;
			view->cut_acked_bytes = request->offset_bytes;
		}
		break;
	case WIRE_EXTENT_FREEZE:
		if (call->rc == 0 || call->rc == -ENOENT)
			fence_acked = (uint32_t)num_max(fence_acked, request->epoch);
		if (call->rc == 0)
			cr_assert_geq(call->reply.offset_bytes,
			    num_min(view->acked_bytes, view->cut_asked_bytes), "seed %lu",
			    seed_now);
		if (call->rc == 0)
			view->known_bytes = num_max(view->known_bytes, call->reply.offset_bytes);
		/* The length that it tells is durable. */
		if (call->rc == 0 && !was_broken)
			view->acked_bytes = num_max(view->acked_bytes, call->reply.offset_bytes);
		break;
	case WIRE_SHARD_FENCE:
		if (call->rc == 0)
			fence_acked = (uint32_t)num_max(fence_acked, request->epoch);
		break;
	case WIRE_EXTENT_READ:
		if (call->rc == 0)
			cr_assert_eq(memcmp(call->payload,
					 extents[p->extent].data + request->offset_bytes,
					 request->length_bytes),
			    0, "seed %lu", seed_now);
		break;
	default:
		break;
	}
}

static void
harvest(bool must_wait)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < posted_count; i++) {
		if (must_wait)
			(void)rig_wait(posted[i].call);
		if (!posted[i].call->is_answered) {
			posted[kept++] = posted[i];
			continue;
		}
		on_answer(&posted[i]);
		rig_done(posted[i].call);
	}
	posted_count = kept;
}

/* ---- requests ---- */

static void
post(uint32_t extent, struct wire_node *request, const void *payload, uint32_t bytes)
{
	request->id = extents[extent].id;
	request->kind = extents[extent].kind;
	posted[posted_count] = (struct posted){ .extent = extent, .fence = fence_acked };
	posted[posted_count].call = rig_post(rig, request, payload, bytes);
	cr_assert_not_null(posted[posted_count].call);
	posted_count++;
}

static uint32_t
some_epoch(void)
{
	switch (rig_random(rig, 12)) {
	case 0:
		return ++epoch_now;
	case 1:
		return epoch_now > 2 ? epoch_now - 1 : epoch_now;
	case 2:
		return 1 + (uint32_t)rig_random(rig, epoch_now);
	default:
		return epoch_now;
	}
}

static void
post_append(uint32_t extent, uint32_t epoch, uint16_t flags)
{
	const struct rig_extent *e = &extents[extent];
	uint32_t i = views[extent].next_batch;
	bool is_corrupt = rig_random(rig, 15) == 0;
	uint8_t batch[16384];

	if (rig_random(rig, 8) == 0)
		i = (uint32_t)rig_random(rig, BATCHES);
	if (i >= BATCHES)
		return;
	if (rig_random(rig, 2) == 0)
		views[extent].next_batch = i + 1; /* the next one at once */
	cr_assert_leq(e->batches[i].bytes, sizeof(batch));
	memcpy(batch, e->data + e->batches[i].offset_bytes, e->batches[i].bytes);
	batch[140] ^= is_corrupt;
	post(extent,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.offset_bytes = e->batches[i].offset_bytes,
		.length_bytes = e->batches[i].bytes,
		.epoch = epoch,
		.flags = flags },
	    batch, e->batches[i].bytes);
	posted[posted_count - 1].is_corrupt = is_corrupt;
}

static void
post_cut(uint32_t extent, uint32_t epoch)
{
	struct view *view = &views[extent];
	uint64_t length = view->acked_bytes;

	if (view->creates_out > 0)
		return;
	if (rig_random(rig, 3) == 0)
		length = 4096 * rig_random(rig, extents[extent].end_bytes / 4096 + 1);
	view->cut_asked_bytes = num_min(view->cut_asked_bytes, length);
	post(extent,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
		.offset_bytes = length,
		.epoch = epoch },
	    NULL, 0);
}

static void
post_some(uint32_t extent, uint32_t epoch)
{
	struct view *view = &views[extent];
	struct wire_node request = { .epoch = epoch };

	switch (rig_random(rig, 9)) {
	case 0:
		request.opcode = WIRE_EXTENT_FREEZE;
		break;
	case 1:
		request.opcode = WIRE_SHARD_FENCE;
		break;
	case 2:
	case 3:
		request.opcode = WIRE_EXTENT_READ;
		request.offset_bytes = 512 * rig_random(rig, 20);
		request.length_bytes = 1 + (uint32_t)rig_random(rig, 9000);
		break;
	case 4:
		request.opcode = WIRE_EXTENT_VERIFY;
		break;
	case 5:
	case 6:
		post_cut(extent, epoch);
		return;
	case 7:
		request.opcode = WIRE_EXTENT_DELETE;
		request.offset_bytes = view->incarnation;
		view->is_delete_asked = true;
		break;
	default:
		request.opcode = WIRE_EXTENT_CREATE;
		view->creates_out++;
		break;
	}
	post(extent, &request, NULL, 0);
}

static void
step(void)
{
	uint32_t extent = (uint32_t)rig_random(rig, EXTENTS);
	uint32_t epoch = some_epoch();

	if (posted_count == POSTED_MAX)
		harvest(true);
	if ((views[extent].incarnation == 0 || views[extent].is_delete_asked) &&
	    rig_random(rig, 2) == 0) {
		views[extent].creates_out++;
		post(extent, &(struct wire_node){ .opcode = WIRE_EXTENT_CREATE, .epoch = epoch },
		    NULL, 0);
	} else if (rig_random(rig, 5) < 3) {
		post_append(extent, epoch, rig_random(rig, 2) == 0 ? WIRE_FLAG_RECOVERY : 0);
	} else {
		post_some(extent, epoch);
	}
	if (rig_random(rig, 3) == 0)
		rig_run(rig, rig_random(rig, NUM_US(400)));
	harvest(false);
}

/* ---- the model against the node ---- */

static void
check_extent(uint32_t index, const struct wire_extent_entry *entry)
{
	const struct rig_extent *e = &extents[index];
	struct view *view = &views[index];

	if (entry == NULL) {
		cr_assert(view->incarnation == 0 || view->is_delete_asked || view->is_unflushed,
		    "seed %lu", seed_now);
		*view = (struct view){ .cut_asked_bytes = UINT64_MAX,
			.incarnation = view->is_unflushed ? 0 : view->incarnation,
			.is_delete_asked = true,
			.is_ghost_possible = view->is_ghost_possible };
		return;
	}
	cr_assert(rig_is_boundary(e, entry->length_bytes), "seed %lu", seed_now);
	if (!reads_may_fail) {
		cr_assert_eq(entry->flags, 0, "seed %lu", seed_now);
		cr_assert(rig_extent_matches(rig, e, entry->length_bytes), "seed %lu", seed_now);
	}
	view->known_bytes = entry->length_bytes;
	view->next_batch = 0;
	while (view->next_batch < BATCHES &&
	    e->batches[view->next_batch].offset_bytes < entry->length_bytes)
		view->next_batch++;
	if (entry->incarnation != view->incarnation) {
		/* A create that nobody got an answer to, or one that failed. */
		cr_assert(view->is_ghost_possible, "seed %lu", seed_now);
		if (entry->incarnation < view->incarnation)
			cr_assert_eq(entry->length_bytes, 0, "seed %lu", seed_now);
		cr_assert(view->incarnation == 0 || view->is_delete_asked || view->is_unflushed,
		    "seed %lu", seed_now);
		view->incarnation = entry->incarnation;
		view->is_unflushed = was_broken;
		view->acked_bytes = 0;
		view->cut_asked_bytes = entry->length_bytes;
		view->is_cut_acked = view->is_delete_asked = false;
		return;
	}
	cr_assert_geq(entry->length_bytes, num_min(view->acked_bytes, view->cut_asked_bytes),
	    "seed %lu", seed_now);
	if (view->is_cut_acked) {
		cr_assert_eq(entry->state, WIRE_EXTENT_SEALED, "seed %lu", seed_now);
		cr_assert_eq(entry->length_bytes, view->cut_acked_bytes, "seed %lu", seed_now);
	}
}

static void
check_all(void)
{
	struct wire_extent_entry entries[16];
	int count = rig_list(rig, SHARD, entries, 16);

	cr_assert(count >= 0 && count <= (int)EXTENTS, "seed %lu: %d", seed_now, count);
	for (uint32_t i = 0; i < EXTENTS; i++) {
		const struct wire_extent_entry *entry = NULL;

		for (int j = 0; j < count; j++)
			if (entries[j].extent == extent_id_pack(&extents[i].id))
				entry = &entries[j];
		check_extent(i, entry);
	}
	if (fence_acked > 0 && !node_is_read_only(rig->node))
		cr_assert_eq(rig_fence(rig, SHARD, fence_acked - 1), -ESTALE, "seed %lu", seed_now);
}

static void
set_faults(void)
{
	struct disk_sim_faults faults = { .slow_requests = rig_random(rig, 3) == 0 ? 200 : 5 };

	reads_may_fail = rig_random(rig, 3) == 0;
	faults.read_fails = reads_may_fail ? 100 : 0;
	faults.write_fails = rig_random(rig, 3) == 0 ? 60 : 0;
	faults.flush_fails = rig_random(rig, 6) == 0 ? 50 : 0;
	disk_sim_set_faults(rig->disk, &faults);
}

static void
restart(void)
{
	bool is_power_loss = rig_random(rig, 2) == 0;

	was_broken = was_broken || node_is_read_only(rig->node);
	rig_kill(rig, is_power_loss);
	harvest(true);
	for (uint32_t i = 0; i < EXTENTS; i++)
		views[i].creates_out = 0;
	disk_sim_set_faults(rig->disk, &(struct disk_sim_faults){ 0 });
	rig_up(rig);
	reads_may_fail = false;
	check_all();
	set_faults();
}

static void
run_seed(uint64_t seed)
{
	uint32_t bytes;

	seed_now = seed;
	rig = rig_create(&(
	    struct rig_options){ .seed = seed, .slot_count = 12, .must_prewrite = seed % 3 == 0 });
	rig_up(rig);
	epoch_now = 1;
	fence_acked = posted_count = 0;
	was_broken = false;
	for (uint32_t i = 0; i < EXTENTS; i++) {
		rig_extent_init(&extents[i], SHARD, 1, i, (enum extent_kind)(1 + i % 3));
		for (uint32_t k = 0; k < BATCHES; k++)
			(void)rig_batch(rig, &extents[i], 1, 0, &bytes);
		views[i] = (struct view){ .cut_asked_bytes = UINT64_MAX };
	}
	set_faults();
	for (uint32_t i = 0; i < STEPS; i++) {
		step();
		if (rig_random(rig, 25) == 0)
			restart();
	}
	harvest(true);
	disk_sim_set_faults(rig->disk, &(struct disk_sim_faults){ 0 });
	reads_may_fail = true; /* a verification may have marked a copy */
	check_all();
	restart();
	for (uint32_t i = 0; i < EXTENTS; i++)
		rig_extent_fini(&extents[i]);
	rig_destroy(rig);
}

/* Edges that this test cannot take, and who does. */
static uint32_t
excused(const struct sm_state *table, uint32_t from)
{
	/* A read that the disk does not even take: its queue is full. */
	if (table == scan_table && from == SCAN_READING)
		return SM_TO(SCAN_IDLE);
	/* Queued until the turn ends; a turn of the simulated loop is one event. */
	if (table == append_table && from == APPEND_QUEUED)
		return SM_TO(APPEND_FAILED);
	/* A freeze of what is frozen or sealed, and cannot be read twice in a row: test_verify.c. */
	if (table == change_table && from == CHANGE_SCANNING)
		return SM_TO(CHANGE_SYNCING);
	/* At a start, a header that cannot be read: test_recover_slots.c. */
	if (table == extent_table && from == EXTENT_FREE)
		return SM_TO(EXTENT_BAD);
	return 0;
}

Test(node_model, promises_hold_and_every_edge_is_taken, .timeout = 3600)
{
	const char *seed = getenv("CLEAVE_TEST_SEED");
	const char *seeds = getenv("CLEAVE_TEST_SEEDS");
	uint64_t count = seeds != NULL ? strtoull(seeds, NULL, 0) : SEEDS;

	tables[0].table = extent_table, tables[0].state_count = EXTENT_STATE_NR;
	tables[1].table = change_table, tables[1].state_count = CHANGE_STATE_NR;
	tables[2].table = fence_table, tables[2].state_count = FENCE_STATE_NR;
	tables[3].table = sync_table, tables[3].state_count = SYNC_STATE_NR;
	tables[4].table = scan_table, tables[4].state_count = SCAN_STATE_NR;
	tables[5].table = append_table, tables[5].state_count = APPEND_STATE_NR;
	if (seed != NULL) {
		run_seed(strtoull(seed, NULL, 0));
		return;
	}
	sm_set_tracer(on_move);
	for (uint64_t i = 1; i <= count; i++)
		run_seed(i);
	sm_set_tracer(NULL);
	for (size_t i = 0; i < TABLES && count >= SEEDS; i++)
		for (uint32_t from = 0; from < tables[i].state_count; from++) {
			uint32_t missing = tables[i].table[from].to & ~tables[i].edges[from] &
			    ~excused(tables[i].table, from);

			cr_expect_eq(missing, 0, "table %zu state %s never goes to 0x%x", i,
			    tables[i].table[from].name, missing);
		}
}
