/* SPDX-License-Identifier: Apache-2.0 */
/* test_move.c -- a metadata store becomes another one, with real nodes in virtual time; and when it must not */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/catalog/keys.h"
#include "middletier/catalog/moved.h"
#include "middletier/catalog/placed_key.h"
#include "middletier/catalog/root.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/mirror.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/index/index.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "middletier/meta/meta_txn.h"
#include "middletier/move/source.h"
#include "middletier/rebuild/rebuild.h"
#include "middletier/rebuild/rebuild_copy.h"
#include "splitlib/sim/loop_sim.h"
#include "tests/support/mt_rig.h"

#define BLOCKS 5u

#define DRAINED "{\"format\":1,\"gateways\":[\"0000000000000009\"]}"
#define PLACED "{\"format\":1,\"shards\":[[1,\"0000000000000009\"]]}"

static struct mt_rig *rig;
static struct meta_store *first, *second; /* the rig's at its start, and an empty one */
static uint64_t store_count = 1;          /* identities that were drawn */
static uint32_t fail_nth;                 /* allocation of the next move; 0: none */
static bool has_alloc_failed;

/* ---- a process that moves ---- */

/* Changes that go to a store pass until one too many comes. */
struct door {
	struct meta_ops ops;
	const struct meta_ops *inner;
};

static struct door doors[2];
static uint32_t changes_left = UINT32_MAX;
static bool is_last_sent; /* the one too many is, and nobody hears of it */
static bool is_killed;

struct mover {
	struct loop *loop;
	struct meta *from, *to;
	struct mt_source source;
	struct mt_rebuild_copy copy;
	struct mt_rebuild *rebuild;
	void (*before_end)(void); /* the source */
	bool is_loaded, is_done, is_load;
	int rc;
	char text[512];
};

static int
door_txn(struct meta *meta, const struct meta_op *ops, uint32_t count, meta_txn_fn fn, void *arg)
{
	const struct door *door = NUM_CONTAINER_OF(meta->ops, struct door, ops);

	if (changes_left > 0) {
		changes_left--;
		return door->inner->txn(meta, ops, count, fn, arg);
	}
	is_killed = true;
	return is_last_sent ? door->inner->txn(meta, ops, count, fn, arg) : 0;
}

static struct meta *
door_open(struct door *door, struct meta_store *store, struct loop *loop)
{
	struct meta *meta = meta_memory_open(store, loop);

	cr_assert_not_null(meta);
	door->inner = meta->ops;
	door->ops = *meta->ops;
	door->ops.txn = door_txn;
	meta->ops = &door->ops;
	return meta;
}

static void
on_source(int rc, const char *text, void *arg)
{
	struct mover *mover = arg;

	mover->is_loaded = true;
	mover->rc = rc;
	(void)snprintf(mover->text, sizeof(mover->text), "%s", text);
}

static void
on_ended(int rc, const char *text, void *arg)
{
	mt_rebuild_settled(((struct mover *)arg)->rebuild, rc, text);
}

static void
settle(struct mt_rebuild *rebuild, void *arg)
{
	struct mover *mover = arg;

	if (mover->before_end != NULL)
		mover->before_end();
	if (mt_source_end(&mover->source, "etcd://there", on_ended, mover) != 0)
		mt_rebuild_settled(rebuild, -ENOMEM, "out of memory");
}

static void
on_done(int rc, const char *text, void *arg)
{
	struct mover *mover = arg;

	cr_assert_not(mover->is_done);
	mover->is_done = true;
	mover->rc = rc;
	(void)snprintf(mover->text, sizeof(mover->text), "%s", text);
}

static bool
is_source_loaded(void *arg)
{
	return ((struct mover *)arg)->is_loaded || is_killed;
}

static bool
is_mover_done(void *arg)
{
	return ((struct mover *)arg)->is_done || is_killed;
}

static void
mover_open(struct mover *mover, bool is_load)
{
	*mover = (struct mover){ .is_load = is_load };
	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	mover->loop = sim_loop_create(rig->world, "gateway");
	mover->from = door_open(&doors[0], first, mover->loop);
	mover->to = door_open(&doors[1], second, mover->loop);
	mover->source = (struct mt_source){ .meta = mover->from,
		.name = "here",
		.cluster_id = MT_RIG_CLUSTER_ID };
}

static void
mover_load(struct mover *mover)
{
	mover->rc = mt_source_load(&mover->source, on_source, mover);
	if (mover->rc != 0)
		return;
	cr_assert(mt_rig_run_until(rig, is_source_loaded, mover));
}

static void
mover_start(struct mover *mover)
{
	struct mt_rebuild_options options = { .gateway = rig->gateway_options,
		.copy = &mover->copy,
		.fn = on_done,
		.arg = mover };

	mover->copy = (struct mt_rebuild_copy){ .source = &mover->source.keys,
		.cluster = mover->source.cluster,
		.settle = mover->is_load ? NULL : settle,
		.arg = mover };
	options.gateway.loop = mover->loop;
	options.gateway.meta = mover->to;
	options.gateway.store_id = (struct store_id){ 0x570e, ++store_count };
	mover->rebuild = mt_rebuild_start(&options, mover->text, sizeof(mover->text));
}

static void
mover_close(struct mover *mover)
{
	mt_rebuild_destroy(mover->rebuild);
	mt_rebuild_copy_fini(&mover->copy);
	mt_source_fini(&mover->source);
	mover->from->ops->close(mover->from);
	mover->to->ops->close(mover->to);
	loop_destroy(mover->loop);
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	sim_host_start(rig->gateway_host);
}

/* All of it, with @before_end between the look and the mark. */
static int
run_move(bool is_load, void (*before_end)(void), char ret_text[512])
{
	struct mover mover;

	is_killed = false;
	mover_open(&mover, is_load);
	mover.before_end = before_end;
	mt_alloc_fail_at(fail_nth);
	mover_load(&mover);
	if (mover.rc == 0 && !is_killed) {
		mover_start(&mover);
		if (mover.rebuild != NULL)
			cr_assert(mt_rig_run_until(rig, is_mover_done, &mover), "%s", mover.text);
		else
			mover.rc = -ENOMEM;
	}
	has_alloc_failed = mt_alloc_has_failed() != 0;
	mt_alloc_fail_at(0);
	if (ret_text != NULL)
		memcpy(ret_text, mover.text, sizeof(mover.text));
	mover_close(&mover);
	return mover.rc;
}

static void
expect_moved(void)
{
	char text[512];

	cr_assert_eq(run_move(false, NULL, text), 0, "%s", text);
}

static void
expect_refused(bool is_load, void (*before_end)(void), int rc, const char *wanted)
{
	char text[512];

	cr_assert_eq(run_move(is_load, before_end, text), rc, "%s", text);
	cr_assert_not_null(strstr(text, wanted), "%s", text);
}

/* ---- what is in a store ---- */

static struct mt_keys
keys_of(struct meta_store *store)
{
	struct meta_item *items = NULL;
	struct mt_keys keys = { 0 };
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(store, "", &items, &count), 0);
	cr_assert_eq(mt_keys_add_items(&keys, items, count), 0);
	mt_free(items);
	return keys;
}

static bool
has_key(struct meta_store *store, const char *key)
{
	struct mt_keys keys = keys_of(store);
	bool is_there = mt_keys_find(&keys, key) != NULL;

	mt_keys_fini(&keys);
	return is_there;
}

static void
change(struct meta_store *store, const char *key, const char *value)
{
	struct meta_op op = { .kind = value == NULL ? META_DELETE : META_PUT,
		.key = key,
		.value = value,
		.value_bytes = value == NULL ? 0 : (uint32_t)strlen(value) };
	struct meta_txn *txn;

	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(store, txn), 0);
	mt_free(txn);
}

static struct mt_root
root_of(const struct mt_keys *keys, uint32_t shard)
{
	char name[MT_ROOT_KEY_BYTES];
	struct mt_root root = { 0 };
	const struct mt_key *key;
	const char *field;

	mt_root_key(name, shard);
	key = mt_keys_find(keys, name);
	cr_assert_not_null(key);
	cr_assert_eq(mt_root_decode(key->value, key->value_bytes, shard, &root, &field), 0);
	return root;
}

static struct mt_cluster
cluster_of(const struct mt_keys *keys)
{
	const struct mt_key *key = mt_keys_find(keys, "cluster");
	struct mt_cluster cluster = { 0 };
	const char *field;

	cr_assert_not_null(key);
	cr_assert_eq(mt_cluster_decode(key->value, key->value_bytes, &cluster, &field), 0);
	return cluster;
}

static void
on_volume(int rc, const struct mt_volume *volume, void *arg)
{
	(void)volume;
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

static bool
is_mirrored(void *arg)
{
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	return state != NULL && state->volume_count == *(uint32_t *)arg &&
	    !rig->gateway->mirror->is_out;
}

static void
make_volume(const char *name, uint32_t count_then)
{
	struct mt_volume wish = { .size_bytes = NUM_GIB(40), .codec_id = 1, .replica_count = 3 };
	bool is_made = false;

	(void)snprintf(wish.name, sizeof(wish.name), "%s", name);
	cr_assert_eq(mt_volume_create(rig->gateway, &wish, on_volume, &is_made), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_made));
	cr_assert(mt_rig_run_until(rig, is_mirrored, &count_then));
}

/* A cluster of one volume and some blocks, whose gateway has stopped. */
static void
setup(void)
{
	struct mt_extent *log;

	changes_left = UINT32_MAX;
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	first = rig->store;
	second = meta_store_create(
	    &(struct meta_store_options){ .loop = sim_world_nature(rig->world) });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	make_volume("a", 1);
	log = mt_rig_log_open(rig);
	cr_assert_not_null(log);
	cr_assert_eq(mt_rig_append(rig, log, 0, BLOCKS, 7, UINT64_MAX), 0);
	mt_rig_gateway_stop(rig);
	/* Among the roots, and no roots. */
	change(first, MT_DRAINED_KEY, DRAINED);
	change(first, MT_PLACED_KEY, PLACED);
}

static void
teardown(void)
{
	if (rig->gateway != NULL)
		mt_rig_gateway_kill(rig);
	meta_store_destroy(rig->store == first ? second : first);
	mt_rig_destroy(rig);
}

TestSuite(move, .init = setup, .fini = teardown);

/* A gateway of @store serves all that there was. */
static void
expect_served(struct meta_store *store, uint32_t volume_count)
{
	rig->store = store;
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(rig->gateway->volumes.count, volume_count);
	cr_assert_eq(mt_rig_shard(rig, 0)->block_index->key_count, BLOCKS);
}

static bool
has_failed(void *arg)
{
	return ((struct mt_rig *)arg)->has_failed;
}

static void
expect_not_served(struct meta_store *store, const char *word)
{
	rig->store = store;
	rig->is_unmade = true;
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_run_until(rig, has_failed, rig));
	cr_assert_not_null(strstr(rig->gateway->failure, word), "%s", rig->gateway->failure);
	mt_rig_gateway_kill(rig);
	rig->has_failed = false;
	rig->store = store == first ? second : first;
}

/* ---- it works ---- */

Test(move, copy_has_all_keys_newer_epochs_and_an_identity_of_its_own)
{
	struct mt_keys before = keys_of(first), after;
	struct mt_cluster old = cluster_of(&before), new;

	expect_moved();
	after = keys_of(second);
	new = cluster_of(&after);
	cr_assert_eq(after.count, before.count);
	for (uint32_t i = 0; i < before.count; i++)
		cr_assert_str_eq(after.items[i].key, before.items[i].key);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(root_of(&after, i).epoch, root_of(&before, i).epoch + 1024);
	cr_assert_str_eq(mt_keys_find(&after, MT_DRAINED_KEY)->value, DRAINED);
	cr_assert_str_eq(mt_keys_find(&after, MT_PLACED_KEY)->value, PLACED);
	cr_assert_str_eq(mt_keys_find(&after, "volumes/a")->value,
	    mt_keys_find(&before, "volumes/a")->value);
	cr_assert_not(store_id_is_equal(&new.store_id, &old.store_id));
	cr_assert(store_id_is_equal(&new.replaced[0], &old.store_id));
	cr_assert_eq(new.next_volume_id, old.next_volume_id);
	mt_keys_fini(&before);
	mt_keys_fini(&after);
	expect_not_served(first, "was moved to etcd://there");
	expect_served(second, 1);
	cr_assert_gt(mt_rig_shard(rig, 0)->epoch, 1024);
}

Test(move, store_that_was_moved_away_takes_it_back)
{
	struct meta_store *swap = first;

	expect_moved();
	expect_served(second, 1);
	mt_rig_gateway_stop(rig);
	first = second;
	second = swap;
	expect_moved();
	cr_assert_not(has_key(second, MT_MOVED_KEY));
	expect_not_served(first, "was moved to");
	expect_served(second, 1);
}

/* ---- killed ---- */

Test(move, run_again_after_each_change_at_which_it_was_killed)
{
	bool is_over = false;

	for (uint32_t n = 0; !is_over; n++) {
		for (int sent = 0; sent < 2 && !is_over; sent++) {
			if (n + (uint32_t)sent > 0) {
				teardown();
				setup();
			}
			changes_left = n;
			is_last_sent = sent == 1;
			(void)run_move(false, NULL, NULL);
			is_over = !is_killed;
			changes_left = UINT32_MAX;
			mt_rig_run(rig, NUM_S(1));
			/* Whatever has happened, at most one of them is a cluster. */
			cr_assert(!has_key(first, "cluster") || !has_key(second, "cluster"));
			if (!has_key(second, "cluster"))
				expect_moved();
			cr_assert_not(has_key(second, MT_LOADING_KEY));
			expect_not_served(first, "was moved to");
			expect_served(second, 1);
		}
		cr_assert_leq(n, 20);
	}
}

/* ---- in its way ---- */

static void
a_gateway_comes(void)
{
	change(first, "gateways/9", "{}");
}

Test(move, gateway_that_comes_meanwhile_keeps_its_store)
{
	expect_refused(false, a_gateway_comes, -EBUSY, "gateways/9");
	cr_assert(has_key(first, "cluster"));
	cr_assert_not(has_key(first, MT_MOVED_KEY));
	cr_assert_not(has_key(second, "cluster"));
	change(first, "gateways/9", NULL);
	expect_moved();
	expect_served(second, 1);
}

static void
a_volume_changes(void)
{
	change(first, "volumes/b", "{}");
}

Test(move, change_meanwhile_is_not_lost)
{
	expect_refused(false, a_volume_changes, -EBUSY, "somebody else changes it");
	cr_assert(has_key(first, "cluster"));
	cr_assert_not(has_key(first, MT_MOVED_KEY));
}

Test(move, target_that_holds_anything_is_refused)
{
	change(second, "volumes/x", "{}");
	expect_refused(false, NULL, -EEXIST, "volumes/x");
	change(second, "volumes/x", NULL);
	change(second, "cluster", "{}");
	expect_refused(false, NULL, -EEXIST, "cannot be understood");
	change(second, "cluster", NULL);
	change(second, "gateways/3", "{}");
	expect_refused(false, NULL, -EBUSY, "gateways/3");
	change(second, "gateways/3", NULL);
	cr_assert(has_key(first, "cluster"));
	expect_moved();
	expect_refused(false, NULL, -EALREADY, "already");
}

Test(move, second_copy_of_one_source_is_refused)
{
	struct meta_store *copy = second;
	char text[512];

	cr_assert_eq(run_move(true, NULL, text), 0, "%s", text);
	second = meta_store_create(
	    &(struct meta_store_options){ .loop = sim_world_nature(rig->world) });
	expect_refused(true, NULL, -EXDEV, "obeys another metadata store");
	cr_assert_not(has_key(second, "cluster"));
	meta_store_destroy(second);
	second = copy;
	expect_served(second, 1);
}

/* Only one of them is a cluster in the end, and it is whole. */
Test(move, two_copies_into_one_store_do_not_mix)
{
	struct mover one, other;

	is_killed = false;
	mover_open(&one, true);
	mover_open(&other, true);
	mover_load(&one);
	mover_load(&other);
	mover_start(&one);
	mover_start(&other);
	cr_assert(mt_rig_run_until(rig, is_mover_done, &one));
	cr_assert(mt_rig_run_until(rig, is_mover_done, &other));
	cr_assert(one.rc != 0 || other.rc != 0);
	mover_close(&one);
	mover_close(&other);
	if (one.rc != 0 && other.rc != 0)
		cr_assert_eq(run_move(true, NULL, NULL), 0);
	expect_served(second, 1);
}

/* ---- older than what the nodes hold ---- */

static struct meta_snapshot *
older(void)
{
	struct meta_snapshot *snapshot = meta_store_snapshot(first);

	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	return snapshot;
}

static void
expect_too_old(struct meta_snapshot *snapshot)
{
	if (rig->gateway != NULL)
		mt_rig_gateway_stop(rig);
	cr_assert_eq(meta_store_restore(first, snapshot), 0);
	meta_snapshot_destroy(snapshot);
	expect_refused(false, NULL, -ESTALE, "older than what the nodes hold");
	cr_assert(has_key(first, "cluster"));
	cr_assert_not(has_key(second, MT_LOADING_KEY));
}

Test(move, store_of_before_a_take_over_is_refused)
{
	expect_too_old(older());
}

Test(move, store_of_before_a_volume_was_made_is_refused)
{
	struct meta_snapshot *snapshot;

	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	snapshot = meta_store_snapshot(first);
	make_volume("b", 2);
	expect_too_old(snapshot);
}

Test(move, nth_allocation_fails)
{
	bool is_over = false;
	uint32_t nth;

	for (nth = 1; !is_over; nth++) {
		fail_nth = nth;
		is_over = run_move(false, NULL, NULL) == 0 && !has_alloc_failed;
		fail_nth = 0;
		mt_rig_run(rig, NUM_S(1));
		cr_assert(!has_key(first, "cluster") || !has_key(second, "cluster"));
		if (!has_key(second, "cluster"))
			expect_moved();
		if (is_over)
			break;
		teardown();
		setup();
	}
	cr_assert_gt(nth, 20);
	expect_served(second, 1);
}
