/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drop.c -- marks of what was deleted: who clears them, when, and which are left alone
 *
 * Changes of volumes are built in with a planted bug, conflict_forgets, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/volume_change.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/holder.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/catalog/waiting.h"
#include "middletier/cluster/drop.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/index/chunk.h"
#include "middletier/index/index.h"
#include "middletier/meta/meta_store.h"
#include "middletier/write/cut.h"
#include "support/mt_rig.h"

#define SHARDS 5u /* two digits */
#define ALL "1f"
#define SEGMENT 40000u
#define PENDING_NS NUM_S(15)

struct mutant_set mutants_on;

static struct mt_rig *rig;

static void
setup(void)
{
	log_set_level(LOG_OFF);
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = SHARDS, .slot_count = 64 });
	mt_rig_up(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(drop, .init = setup, .fini = teardown);

static int put_rc;

static void
on_put(int rc, void *arg)
{
	put_rc = rc;
	*(bool *)arg = true;
}

static bool
is_set(void *arg)
{
	return *(const bool *)arg;
}

static void
put(const char *key, const char *text)
{
	const struct meta_op op = { .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	bool is_done = false;

	cr_assert_eq(rig->meta->ops->txn(rig->meta, &op, 1, on_put, &is_done), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_done));
	cr_assert_eq(put_rc, 0);
}

/* NULL: it is not there. Valid until the next call. */
static const char *
value_of(const char *key)
{
	static char text[1024];
	struct meta_item *items = NULL;
	uint32_t count = 0;
	bool is_there;

	cr_assert_eq(meta_store_list(rig->store, key, &items, &count), 0);
	is_there = count > 0 && strcmp(items[0].key, key) == 0;
	if (is_there)
		(void)snprintf(text, sizeof(text), "%.*s", (int)items[0].value_bytes,
		    (const char *)items[0].value);
	free(items);
	return is_there ? text : NULL;
}

static bool
is_gone(void *arg)
{
	return value_of(arg) == NULL;
}

static void
expect_gone(const char *key)
{
	cr_assert(mt_rig_run_until(rig, is_gone, (void *)(uintptr_t)key), "%s: %s", key,
	    value_of(key));
}

static void
put_deleted(const char *key, const char *waiting)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
	    "{\"id\":9,\"name\":\"v\",\"segment_base\":%u,\"segment_count\":1%s%s%s}", SEGMENT,
	    waiting == NULL ? "" : ",\"waiting\":\"", waiting == NULL ? "" : waiting,
	    waiting == NULL ? "" : "\"");
	put(key, text);
}

static void
put_snapshot(uint64_t number, enum mt_snapshot_state state, const char *waiting)
{
	struct mt_snapshot snapshot = { .number = number,
		.volume_id = 4711,
		.size_bytes = NUM_GIB(1),
		.segment_base = SEGMENT,
		.segment_count = 1,
		.created_s = 1700000000,
		.state = state };
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text;

	(void)snprintf(snapshot.name, sizeof(snapshot.name), "s");
	mt_scope_init(&snapshot.scope, SEGMENT);
	text = mt_snapshot_encode(&snapshot, waiting);
	cr_assert_not_null(text);
	mt_snapshot_key(number, key);
	put(key, text);
	free(text);
}

static const char *
snapshot_value(uint64_t number)
{
	char key[MT_SNAPSHOT_KEY_BYTES];

	mt_snapshot_key(number, key);
	return value_of(key);
}

static void
expect_snapshot_gone(uint64_t number)
{
	char key[MT_SNAPSHOT_KEY_BYTES];

	mt_snapshot_key(number, key);
	expect_gone(key);
}

/* ---- sets of shards ---- */

Test(drop, a_set_of_all_shards_has_a_bit_for_each)
{
	static const struct {
		uint32_t shard_count;
		const char *text;
	} sets[] = { { 1, "1" }, { 2, "3" }, { 3, "7" }, { 4, "f" }, { 5, "1f" }, { 8, "ff" },
		{ 66, "3ffffffffffffffff" } };

	for (uint32_t i = 0; i < NUM_COUNT(sets); i++) {
		char *text = mt_waiting_all(sets[i].shard_count);

		cr_assert_str_eq(text, sets[i].text);
		mt_free(text);
	}
	mt_alloc_fail_at(1);
	cr_assert_null(mt_waiting_all(8));
	mt_alloc_fail_at(0);
}

/* ---- deleted volumes ---- */

Test(drop, a_mark_goes_when_all_shards_have_reclaimed)
{
	put_deleted("deleted/9", ALL);
	mt_drop_kick(rig->gateway);
	expect_gone("deleted/9");
}

Test(drop, what_is_left_of_a_mark_is_taken_up)
{
	put_deleted("deleted/9", "10");
	mt_drop_kick(rig->gateway);
	expect_gone("deleted/9");
}

/* A mark of a cluster that was made before marks said who waits. */
Test(drop, an_old_mark_waits_for_all)
{
	put_deleted("deleted/9", NULL);
	mt_drop_kick(rig->gateway);
	expect_gone("deleted/9");
}

Test(drop, marks_that_cannot_be_understood_stay_and_stop_nobody)
{
	static const char *const bad[] = { "no JSON", "[]", "{\"segment_base\":-1}",
		"{\"segment_base\":1,\"waiting\":\"f\"}", "{\"segment_base\":1,\"waiting\":\"1G\"}",
		"{\"segment_base\":1}", "{\"segment_base\":1,\"waiting\":31}",
		"{\"segment_base\":1,\"segment_count\":4294967297}",
		"{\"segment_base\":36028797018963968,\"segment_count\":1}" };
	char key[32];

	for (uint32_t i = 0; i < NUM_COUNT(bad); i++) {
		(void)snprintf(key, sizeof(key), "deleted/%u", i + 10);
		put(key, bad[i]);
	}
	put_deleted("deleted/9", ALL);
	mt_drop_kick(rig->gateway);
	expect_gone("deleted/9");
	for (uint32_t i = 0; i < NUM_COUNT(bad); i++) {
		(void)snprintf(key, sizeof(key), "deleted/%u", i + 10);
		cr_assert_str_eq(value_of(key), bad[i]);
	}
}

static bool
has_volume(void *arg)
{
	return (mt_volumes_by_name(&rig->gateway->volumes, "v") != NULL) == *(bool *)arg;
}

/* A wrong number in a mark: what is on another volume does not go for it. */
/* As if @volume had been made: a store whose next numbers are not above it is an old one. */
static void
raise_counts(const struct mt_volume *volume)
{
	struct mt_cluster cluster = rig->gateway->cluster;
	char *text;

	cluster.next_volume_id = num_max(cluster.next_volume_id, volume->id + 1);
	cluster.next_segment = num_max(cluster.next_segment,
	    volume->segment_base + UINT64_C(1) * volume->segment_count);
	text = mt_cluster_encode(&cluster);
	cr_assert_not_null(text);
	put("cluster", text);
	free(text);
}

Test(drop, a_mark_with_the_segments_of_a_volume_that_is_there_is_not_obeyed)
{
	const struct mt_volume volume = { .id = 8,
		.name = "v",
		.size_bytes = NUM_GIB(65),
		.segment_base = SEGMENT - 2,
		.segment_count = 3,
		.codec_id = 1,
		.replica_count = 3 };
	const struct meta_op remove = { .kind = META_DELETE, .key = "volumes/v" };
	char *text = mt_volume_encode(&volume);
	bool is_there = true, is_done = false;

	put("volumes/v", text);
	free(text);
	raise_counts(&volume);
	cr_assert(mt_rig_run_until(rig, has_volume, &is_there));
	put_deleted("deleted/9", ALL);
	mt_drop_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not_null(value_of("deleted/9"));
	cr_assert_not_null(strstr(value_of("deleted/9"), "\"" ALL "\""));
	cr_assert_eq(rig->meta->ops->txn(rig->meta, &remove, 1, on_put, &is_done), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_done));
	expect_gone("deleted/9");
}

/* The store is asked once for each time that the ports are. */
static struct {
	const struct meta_ops *real;
	struct meta_ops ops;
	uint32_t order_count;
} orders;

static int
counted_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	orders.order_count += strcmp(prefix, MT_DELETED_PREFIX) == 0;
	return orders.real->list(meta, prefix, fn, arg);
}

#define BUSY_CHUNKS 24u

static struct mt_chunk *busy[BUSY_CHUNKS];

/* A deleted volume has chunks with writes on their way. */
static void
put_busy(void)
{
	struct mt_index *index = mt_rig_shard(rig, 0)->block_index;

	for (uint32_t i = 0; i < BUSY_CHUNKS; i++) {
		busy[i] = mt_chunk_create(index, (uint64_t)SEGMENT * CLEAVE_SEGMENT_CHUNKS + i);
		cr_assert_not_null(busy[i]);
		busy[i]->promised_count = 1;
	}
	orders.real = rig->meta->ops;
	orders.ops = *orders.real;
	orders.ops.list = counted_list;
	rig->meta->ops = &orders.ops;
	put_deleted("deleted/9", ALL);
	mt_drop_kick(rig->gateway);
}

Test(drop, without_progress_the_ports_are_asked_less_and_less_often)
{
	put_busy();
	mt_rig_run(rig, NUM_S(BUSY_CHUNKS));
	cr_assert_geq(orders.order_count, 4);
	cr_assert_leq(orders.order_count, 8);
	for (uint32_t i = 0; i < BUSY_CHUNKS; i++)
		busy[i]->promised_count = 0;
	expect_gone("deleted/9");
}

Test(drop, while_there_is_progress_they_are_asked_every_second)
{
	put_busy();
	for (uint32_t i = 0; i < BUSY_CHUNKS; i++) {
		mt_rig_run(rig, NUM_S(1));
		busy[i]->promised_count = 0;
	}
	cr_assert_geq(orders.order_count, BUSY_CHUNKS * 3 / 4);
	expect_gone("deleted/9");
}

/* Waiting for a shard that nobody serves here. */
Test(drop, a_shard_that_does_not_serve_keeps_its_bit)
{
	struct mt_shard *shard = mt_rig_shard(rig, 2);
	const char *text;

	shard->sm.state = MT_SHARD_REPLAYING;
	put_deleted("deleted/9", ALL);
	mt_drop_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(20));
	text = value_of("deleted/9");
	cr_assert_not_null(text);
	cr_assert_not_null(strstr(text, "\"waiting\":\"04\""), "%s", text);
	shard->sm.state = MT_SHARD_SERVING;
	expect_gone("deleted/9");
}

Test(drop, a_store_that_is_down_is_asked_again)
{
	put_deleted("deleted/9", ALL);
	meta_store_set_down(rig->store, true);
	mt_drop_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(1));
	meta_store_set_down(rig->store, false);
	cr_assert_not_null(value_of("deleted/9"));
	expect_gone("deleted/9");
}

Test(drop, requests_that_time_out_are_made_again)
{
	put_snapshot(5, MT_SNAPSHOT_DELETED, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "deleted/%u", 10 + i);
		put_deleted(key, ALL);
	}
	meta_store_set_timeouts(rig->store, 300, 300);
	mt_drop_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(20));
	meta_store_set_timeouts(rig->store, 0, 0);
	for (uint32_t i = 0; i < 4; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "deleted/%u", 10 + i);
		expect_gone(key);
	}
	expect_snapshot_gone(5);
}

/* ---- snapshots ---- */

Test(drop, one_that_is_pending_for_long_is_void)
{
	put_snapshot(5, MT_SNAPSHOT_PENDING, NULL);
	mt_rig_run(rig, PENDING_NS - NUM_S(2));
	cr_assert_not_null(strstr(snapshot_value(5), "pending"), "%s", snapshot_value(5));
	expect_snapshot_gone(5);
}

static bool
is_deleted(void *arg)
{
	const char *text = snapshot_value(*(const uint64_t *)arg);

	return text == NULL || strstr(text, "deleted") != NULL;
}

/* The key of a snapshot that was says when it was made. */
Test(drop, a_void_one_says_that_it_came_to_nothing)
{
	uint64_t number = 5;

	mt_rig_shard(rig, 2)->sm.state = MT_SHARD_REPLAYING;
	put_snapshot(5, MT_SNAPSHOT_PENDING, NULL);
	cr_assert(mt_rig_run_until(rig, is_deleted, &number));
	cr_assert_not_null(strstr(snapshot_value(5), "\"created_s\":0,"), "%s", snapshot_value(5));
	number = 6;
	put_snapshot(6, MT_SNAPSHOT_LIVE, NULL);
	cr_assert(mt_rig_run_until(rig, is_deleted, &number));
	cr_assert_null(strstr(snapshot_value(6), "\"created_s\":0,"), "%s", snapshot_value(6));
	mt_rig_shard(rig, 2)->sm.state = MT_SHARD_SERVING;
	expect_snapshot_gone(5);
	expect_snapshot_gone(6);
}

Test(drop, a_live_one_without_its_volume_is_deleted)
{
	put_snapshot(5, MT_SNAPSHOT_LIVE, NULL);
	expect_snapshot_gone(5);
}

Test(drop, a_deleted_one_goes_when_all_have_dropped_its_cut)
{
	put_snapshot(5, MT_SNAPSHOT_DELETED, ALL);
	put_snapshot(6, MT_SNAPSHOT_DELETED, NULL);
	expect_snapshot_gone(5);
	expect_snapshot_gone(6);
}

/* No key is left that would have anybody drop what a late order cuts. */
Test(drop, no_shard_begins_one_that_is_gone_whoever_owns_it)
{
	static const struct mt_cut_order order = { .number = 5,
		.segment_count = 1,
		.volume_count = 1,
		.segment_bases = { SEGMENT } };

	put_snapshot(5, MT_SNAPSHOT_DELETED, NULL);
	expect_snapshot_gone(5);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < SHARDS; i++) {
			cr_assert_eq(mt_cut_can_begin(mt_rig_shard(rig, i), 6), 0);
			cr_assert_eq(mt_cut_begin(mt_rig_shard(rig, i), &order, NULL, NULL),
			    -EAGAIN);
		}
		mt_rig_gateway_restart(rig);
	}
}

/* A volume that was rolled back to it sees by it. */
Test(drop, a_number_that_a_scope_names_stays)
{
	struct mt_snapshot snapshot = { .number = 7,
		.volume_id = 4711,
		.size_bytes = NUM_GIB(1),
		.segment_base = SEGMENT,
		.segment_count = 1,
		.clone_count = 1,
		.state = MT_SNAPSHOT_LIVE };
	struct mt_scope scope;
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text;

	/* Number 7 is kept by its clone, and sees what is below 5. */
	(void)snprintf(snapshot.name, sizeof(snapshot.name), "t");
	mt_scope_init(&scope, SEGMENT);
	mt_scope_before(&scope, 5, &snapshot.scope);
	text = mt_snapshot_encode(&snapshot, NULL);
	mt_snapshot_key(7, key);
	put(key, text);
	free(text);
	put_snapshot(5, MT_SNAPSHOT_DELETED, NULL);
	put_snapshot(6, MT_SNAPSHOT_DELETED, NULL);
	expect_snapshot_gone(6);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_not_null(snapshot_value(5));
	cr_assert_null(strstr(snapshot_value(5), "waiting"));
	cr_assert_not_null(strstr(snapshot_value(7), "live"));
}

Test(drop, tables_that_are_incomplete_judge_nobody)
{
	put("volumes/broken", "no JSON");
	mt_rig_run(rig, NUM_S(2));
	put_snapshot(5, MT_SNAPSHOT_LIVE, NULL);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not_null(snapshot_value(5));
	cr_assert_not_null(strstr(snapshot_value(5), "live"));
}

/* ---- tables that are behind ---- */

/* The reading of all volumes is held back, as by a store that is slow. */
static struct {
	const struct meta_ops *real;
	struct meta_ops ops;
	bool is_holding;
	meta_list_fn fn; /* whose reading is held; NULL: none's */
	void *arg;
} held;

static int
held_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	if (!held.is_holding || strcmp(prefix, MT_VOLUME_PREFIX) != 0)
		return held.real->list(meta, prefix, fn, arg);
	cr_assert_null(held.fn);
	held.fn = fn;
	held.arg = arg;
	return 0;
}

static void
hold(void)
{
	held.real = rig->meta->ops;
	held.ops = *held.real;
	held.ops.list = held_list;
	held.is_holding = true;
	held.fn = NULL;
	rig->meta->ops = &held.ops;
}

static void
let_go(void)
{
	held.is_holding = false;
	cr_assert_not_null(held.fn);
	cr_assert_eq(held.real->list(rig->meta, MT_VOLUME_PREFIX, held.fn, held.arg), 0);
}

static void
fill_volume(struct mt_volume *ret_volume, uint64_t id, const char *name)
{
	*ret_volume = (struct mt_volume){ .id = id,
		.size_bytes = NUM_GIB(1),
		.segment_base = SEGMENT,
		.segment_count = 1,
		.replica_count = 3 };
	(void)snprintf(ret_volume->name, sizeof(ret_volume->name), "%s", name);
	mt_scope_init(&ret_volume->scope, SEGMENT);
}

static int change_rc;

static void
on_change(int rc, const struct mt_volume *volume, void *arg)
{
	(void)volume;
	change_rc = rc;
	*(bool *)arg = true;
}

/* Volume 4711, "v", with a snapshot; what @ops make of it here is not read before this gateway changes "v". */
static void
overtake(const struct meta_op *ops, uint32_t count)
{
	const struct mt_holder holder = { .since_s = 0 };
	bool is_put = false, is_changed = false;

	hold();
	cr_assert_eq(rig->meta->ops->txn(rig->meta, ops, count, on_put, &is_put), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_put));
	cr_assert_eq(mt_volume_attach(rig->gateway, "v", 1, &holder, on_change, &is_changed), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_changed));
	cr_assert_eq(put_rc, 0);
	cr_assert_eq(change_rc, -EAGAIN);
	mt_drop_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(1));
}

static bool
is_live(void)
{
	return snapshot_value(5) != NULL && strstr(snapshot_value(5), "live") != NULL;
}

/* The tables are read at last. */
static void
catch_up(void)
{
	cr_assert(is_live(), "%s", snapshot_value(5));
	let_go();
	mt_rig_run(rig, NUM_S(30));
}

static struct meta_op
put_op(const char *key, const char *text)
{
	return (struct meta_op){ .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
}

static char *
volume_text(uint64_t id, const char *name)
{
	struct mt_volume volume;
	char *text;

	fill_volume(&volume, id, name);
	text = mt_volume_encode(&volume);
	cr_assert_not_null(text);
	return text;
}

static void
put_volume_and_snapshot(void)
{
	char *text = volume_text(4711, "v");
	struct mt_volume volume;

	fill_volume(&volume, 4711, "v");
	put("volumes/v", text);
	raise_counts(&volume);
	put_snapshot(5, MT_SNAPSHOT_LIVE, NULL);
	mt_rig_run(rig, NUM_S(2));
	cr_assert_not_null(mt_volumes_by_name(&rig->gateway->volumes, "v"));
	free(text);
}

/* An attach that comes too late finds no volume where one was: it has another name, and keeps its snapshots. */
Test(drop, a_volume_that_was_renamed_meanwhile_keeps_its_snapshots)
{
	char *text = volume_text(4711, "w");
	const struct meta_op ops[] = { { .kind = META_DELETE, .key = "volumes/v" },
		put_op("volumes/w", text) };

	put_volume_and_snapshot();
	overtake(ops, NUM_COUNT(ops));
	catch_up();
	cr_assert_null(mt_volumes_by_name(&rig->gateway->volumes, "v"));
	cr_assert_not_null(mt_volumes_by_name(&rig->gateway->volumes, "w"));
	cr_assert(is_live(), "%s", snapshot_value(5));
	free(text);
}

Test(drop, which_a_planted_bug_takes_from_it)
{
	char *text = volume_text(4711, "w");
	const struct meta_op ops[] = { { .kind = META_DELETE, .key = "volumes/v" },
		put_op("volumes/w", text) };

	put_volume_and_snapshot();
	mutant_set_add(&mutants_on, MUTANT_conflict_forgets);
	overtake(ops, NUM_COUNT(ops));
	cr_assert(!is_live());
	free(text);
}

Test(drop, nor_does_it_lose_them_to_another_that_has_its_name_now)
{
	char *text = volume_text(4711, "w"), *other = volume_text(4712, "v");
	const struct meta_op ops[] = { put_op("volumes/v", other), put_op("volumes/w", text) };

	put_volume_and_snapshot();
	overtake(ops, NUM_COUNT(ops));
	catch_up();
	cr_assert_eq(mt_volumes_by_name(&rig->gateway->volumes, "v")->volume.id, 4712);
	cr_assert_eq(mt_volumes_by_name(&rig->gateway->volumes, "w")->volume.id, 4711);
	cr_assert(is_live(), "%s", snapshot_value(5));
	free(text);
	free(other);
}

Test(drop, of_one_that_was_deleted_meanwhile_they_go)
{
	const struct meta_op op = { .kind = META_DELETE, .key = "volumes/v" };

	put_volume_and_snapshot();
	overtake(&op, 1);
	catch_up();
	cr_assert_null(mt_volumes_by_name(&rig->gateway->volumes, "v"));
	expect_snapshot_gone(5);
}

/* ---- no memory ---- */

Test(drop, whatever_cannot_be_had_is_had_later)
{
	for (uint32_t nth = 1; nth < 40; nth++) {
		put_deleted("deleted/9", ALL);
		put_snapshot(nth, MT_SNAPSHOT_DELETED, NULL);
		mt_alloc_fail_at(nth);
		mt_drop_kick(rig->gateway);
		mt_rig_run(rig, NUM_MS(200));
		mt_alloc_fail_at(0);
		mt_drop_kick(rig->gateway);
		expect_gone("deleted/9");
		expect_snapshot_gone(nth);
	}
}

/* Nobody kicks again: what there is to do is in the store alone. */
Test(drop, what_found_no_memory_is_tried_again_by_itself)
{
	for (uint32_t nth = 1; nth < 40; nth++) {
		put_deleted("deleted/9", ALL);
		mt_alloc_fail_at(nth);
		mt_drop_kick(rig->gateway);
		mt_rig_run(rig, NUM_MS(200));
		mt_alloc_fail_at(0);
		expect_gone("deleted/9");
	}
}

Test(drop, without_memory_at_the_start_nothing_is_reclaimed_and_nothing_else_is_wrong)
{
	mt_drop_fini(rig->gateway);
	mt_alloc_fail_at(1);
	mt_drop_init(rig->gateway);
	mt_alloc_fail_at(0);
	cr_assert_null(rig->gateway->drop);
	mt_drop_kick(rig->gateway);
	put_deleted("deleted/9", ALL);
	mt_rig_run(rig, NUM_S(5));
	cr_assert_not_null(value_of("deleted/9"));
}
