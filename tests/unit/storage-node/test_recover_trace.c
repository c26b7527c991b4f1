/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_recover_trace.c -- power fails at every point of a recorded history, in every way
 *
 * A workload runs once; each write and flush of its disk is recorded, and with each answer how far the
 * record had come. Then the disk is built anew for each prefix of the record: what its flushes cover is
 * there, and of the rest all, nothing, each one alone, all but each one, and some torn at 512 bytes.
 * A node starts on each, and what had been answered by then must hold.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "support/node_rig.h"

#define EVENTS_MAX 512u
#define PROMISES_MAX 64u
#define EXTENTS_MAX 8u
#define UNFLUSHED_MAX 32u
#define TORN_SAMPLES 4u

struct event {
	enum disk_op op;
	uint64_t sequence, offset_bytes, bytes;
	uint8_t *data;
};

enum promise_kind { PROMISE_LENGTH, PROMISE_SEALED, PROMISE_DELETED, PROMISE_FENCE };

struct promise {
	enum promise_kind kind;
	const struct rig_extent *extent;
	uint64_t length_bytes;
	uint32_t shard, epoch; /* of a fence */
	uint32_t asked, kept;  /* length of the record then */
};

static struct node_rig *rig;
static struct event events[EVENTS_MAX];
static uint32_t event_count;
static struct promise promises[PROMISES_MAX];
static uint32_t promise_count;
static struct rig_extent extents[EXTENTS_MAX];
static uint8_t *base_image;
static uint64_t capacity;

static void
on_event(const struct disk_sim_event *event, void *arg)
{
	struct event *e = &events[event_count++];

	(void)arg;
	cr_assert_leq(event_count, EVENTS_MAX);
	*e = (struct event){ .op = event->op,
		.sequence = event->sequence,
		.offset_bytes = event->offset_bytes,
		.bytes = event->bytes };
	if (event->bytes > 0) {
		e->data = malloc(event->bytes);
		memcpy(e->data, event->data, event->bytes);
	}
}

static void
promise(enum promise_kind kind, const struct rig_extent *extent, uint64_t length_bytes,
    uint32_t asked)
{
	cr_assert_lt(promise_count, PROMISES_MAX);
	promises[promise_count++] = (struct promise){ .kind = kind,
		.extent = extent,
		.length_bytes = length_bytes,
		.asked = asked,
		.kept = event_count };
}

/* ---- the workload ---- */

static void
do_create(struct rig_extent *e)
{
	uint32_t asked = event_count;

	cr_assert_eq(rig_extent_create(rig, e), 0);
	promise(PROMISE_LENGTH, e, 0, asked);
}

static void
do_append(struct rig_extent *e, uint32_t blocks)
{
	uint32_t asked = event_count;

	cr_assert_eq(rig_append(rig, e, blocks), 0);
	promise(PROMISE_LENGTH, e, e->acked_bytes, asked);
}

static void
do_appends_at_once(struct rig_extent *const *list, uint32_t count)
{
	struct rig_call *calls[8];
	uint32_t asked = event_count;

	for (uint32_t i = 0; i < count; i++)
		calls[i] = rig_append_post(rig, list[i], 1);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(rig_wait(calls[i]), 0);
		promise(PROMISE_LENGTH, list[i], calls[i]->reply.offset_bytes, asked);
		rig_done(calls[i]);
	}
}

static void
do_freeze(struct rig_extent *e, uint32_t epoch)
{
	uint32_t asked = event_count;

	cr_assert_eq(rig_freeze(rig, e, epoch, NULL), 0);
	promise(PROMISE_FENCE, NULL, 0, asked);
	promises[promise_count - 1].shard = e->id.shard;
	promises[promise_count - 1].epoch = epoch;
}

static void
do_append_again(struct rig_extent *e, uint32_t epoch)
{
	uint32_t asked = event_count;
	uint32_t bytes;

	(void)rig_batch(rig, e, 1, 0, &bytes);
	cr_assert_eq(rig_append_again(rig, e, e->batch_count - 1, epoch), 0);
	promise(PROMISE_LENGTH, e, e->end_bytes, asked);
}

static void
do_cut(struct rig_extent *e, uint32_t epoch, uint64_t length_bytes)
{
	uint32_t asked = event_count;

	cr_assert_eq(rig_cut(rig, e, epoch, length_bytes), 0);
	promise(PROMISE_SEALED, e, length_bytes, asked);
}

static void
do_delete(struct rig_extent *e, uint32_t epoch)
{
	uint32_t asked = event_count;

	cr_assert_eq(rig_delete(rig, e, epoch), 0);
	promise(PROMISE_DELETED, e, 0, asked);
}

static void
workload(void)
{
	struct rig_extent *e = extents;

	rig_extent_init(&e[0], 1, 1, 1, EXTENT_LOG);
	rig_extent_init(&e[1], 2, 1, 1, EXTENT_RUN);
	rig_extent_init(&e[2], 3, 1, 1, EXTENT_LOG);
	rig_extent_init(&e[3], 3, 1, 2, EXTENT_MANIFEST);
	do_create(&e[0]);
	do_create(&e[1]);
	do_append(&e[0], 1);
	do_append(&e[0], 2);
	do_append(&e[1], 3);
	do_append(&e[0], 1);
	do_freeze(&e[0], 2);
	do_append_again(&e[0], 2);
	do_freeze(&e[0], 3);
	do_cut(&e[0], 3, e[0].batches[1].offset_bytes + e[0].batches[1].bytes);
	do_cut(&e[1], 1, e[1].end_bytes);
	do_create(&e[2]);
	do_create(&e[3]);
	do_appends_at_once((struct rig_extent *const[]){ &e[2], &e[3], &e[2], &e[2], &e[3] }, 5);
	do_delete(&e[1], 1);
	/* The same name once more, as a copy that a newer owner makes. */
	rig_extent_init(&e[4], 2, 1, 1, EXTENT_RUN);
	e[4].epoch = 4;
	do_create(&e[4]);
	do_append(&e[4], 2);
	do_append(&e[4], 1);
	do_cut(&e[4], 4, e[4].end_bytes);
	do_append(&e[3], 1);
	do_freeze(&e[2], 5);
	do_delete(&e[2], 5);
}

/* ---- what must hold ---- */

static const struct rig_extent *
extent_of(const struct wire_extent_entry *entry)
{
	for (uint32_t i = 0; i < EXTENTS_MAX; i++)
		if (extents[i].data != NULL && extent_id_pack(&extents[i].id) == entry->extent &&
		    extents[i].incarnation == entry->incarnation)
			return &extents[i];
	return NULL;
}

static bool
was_asked(enum promise_kind kind, const struct rig_extent *extent, uint32_t prefix,
    uint64_t *ret_length_bytes)
{
	for (uint32_t i = 0; i < promise_count; i++)
		if (promises[i].kind == kind && promises[i].extent == extent &&
		    promises[i].asked < prefix) {
			*ret_length_bytes = promises[i].length_bytes;
			return true;
		}
	return false;
}

static void
check_promise(const struct promise *p, uint32_t prefix, const struct wire_extent_entry *entry)
{
	uint64_t cut = UINT64_MAX, ignored;

	switch (p->kind) {
	case PROMISE_FENCE:
		cr_assert_eq(rig_fence(rig, p->shard, p->epoch - 1), -ESTALE, "prefix %u", prefix);
		return;
	case PROMISE_DELETED:
		cr_assert_null(entry, "prefix %u", prefix);
		return;
	case PROMISE_SEALED:
	case PROMISE_LENGTH:
		break;
	}
	if (entry == NULL) {
		cr_assert(was_asked(PROMISE_DELETED, p->extent, prefix, &ignored), "prefix %u",
		    prefix);
		return;
	}
	(void)was_asked(PROMISE_SEALED, p->extent, prefix, &cut);
	cr_assert_geq(entry->length_bytes, num_min(p->length_bytes, cut), "prefix %u", prefix);
	if (p->kind == PROMISE_SEALED) {
		cr_assert_eq(entry->state, WIRE_EXTENT_SEALED, "prefix %u", prefix);
		cr_assert_eq(entry->length_bytes, p->length_bytes, "prefix %u", prefix);
	}
}

static void
check_all(uint32_t prefix)
{
	struct wire_extent_entry entries[16];
	int count = rig_list(rig, UINT32_MAX, entries, 16);

	cr_assert_geq(count, 0);
	for (int i = 0; i < count; i++) {
		const struct rig_extent *e = extent_of(&entries[i]);

		cr_assert_not_null(e, "prefix %u: an extent nobody made", prefix);
		cr_assert_eq(entries[i].flags, 0, "prefix %u", prefix);
		cr_assert(rig_is_boundary(e, entries[i].length_bytes), "prefix %u", prefix);
		cr_assert(rig_extent_matches(rig, e, entries[i].length_bytes), "prefix %u", prefix);
		cr_assert_eq(rig_verify(rig, e, NULL), 0, "prefix %u", prefix);
	}
	for (uint32_t i = 0; i < promise_count; i++) {
		const struct wire_extent_entry *entry = NULL;

		if (promises[i].kept > prefix)
			continue;
		for (int j = 0; j < count; j++)
			if (extent_of(&entries[j]) == promises[i].extent)
				entry = &entries[j];
		check_promise(&promises[i], prefix, entry);
	}
}

/* ---- disks ---- */

static void
put_event(const struct event *e, bool is_torn)
{
	for (uint64_t at = 0; at < e->bytes; at += DISK_SIM_SECTOR_BYTES)
		if (!is_torn || rig_random(rig, 2) == 0)
			disk_sim_poke(rig->disk, e->offset_bytes + at, e->data + at,
			    DISK_SIM_SECTOR_BYTES);
}

/* @kept: a bit for each unflushed write; @is_torn: those kept are torn. */
static void
build(uint32_t prefix, uint64_t covered, uint32_t kept, bool is_torn)
{
	uint32_t unflushed = 0;

	rig_kill(rig, true);
	disk_sim_poke(rig->disk, 0, base_image, capacity);
	for (uint32_t i = 0; i < prefix; i++) {
		if (events[i].op != DISK_WRITE)
			continue;
		if (events[i].sequence <= covered)
			put_event(&events[i], false);
		else if ((kept & 1u << unflushed++) != 0)
			put_event(&events[i], is_torn);
	}
	rig_up(rig);
	check_all(prefix);
}

static void
check_prefix(uint32_t prefix)
{
	uint64_t covered = 0;
	uint32_t unflushed = 0, all;

	for (uint32_t i = 0; i < prefix; i++)
		if (events[i].op == DISK_FLUSH)
			covered = num_max(covered, events[i].sequence);
	for (uint32_t i = 0; i < prefix; i++)
		unflushed += events[i].op == DISK_WRITE && events[i].sequence > covered;
	cr_assert_lt(unflushed, UNFLUSHED_MAX);
	all = (1u << unflushed) - 1;
	build(prefix, covered, all, false);
	if (unflushed == 0)
		return;
	build(prefix, covered, 0, false);
	for (uint32_t i = 0; i < unflushed && unflushed > 1; i++) {
		build(prefix, covered, 1u << i, false);
		build(prefix, covered, all & ~(1u << i), false);
	}
	for (uint32_t i = 0; i < TORN_SAMPLES; i++)
		build(prefix, covered, all, true);
}

static void
run_seed(uint64_t seed)
{
	event_count = promise_count = 0;
	rig = rig_create(&(struct rig_options){ .seed = seed, .slot_count = 10 });
	capacity = disk_sim_capacity(rig->disk);
	base_image = malloc(capacity);
	disk_sim_peek(rig->disk, 0, base_image, capacity);
	rig_up(rig);
	disk_sim_trace(rig->disk, on_event, NULL);
	workload();
	disk_sim_trace(rig->disk, NULL, NULL);
	cr_assert_gt(event_count, 40);
	for (uint32_t prefix = 0; prefix <= event_count; prefix++)
		check_prefix(prefix);
	for (uint32_t i = 0; i < event_count; i++) {
		free(events[i].data);
		events[i].data = NULL;
	}
	for (uint32_t i = 0; i < EXTENTS_MAX; i++)
		if (extents[i].data != NULL) {
			rig_extent_fini(&extents[i]);
			extents[i].data = NULL;
		}
	free(base_image);
	rig_destroy(rig);
}

Test(recover_trace, every_prefix_and_sampled_subsets)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		run_seed(seed);
}
