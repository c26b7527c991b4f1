/* SPDX-License-Identifier: Apache-2.0 */
/* test_rebuild_users.c -- a metadata store made anew from an old copy: a right that was taken is not given back */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/user_key.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "middletier/rebuild/rebuild.h"
#include "splitlib/sim/loop_sim.h"
#include "support/made_cluster.h"
#include "tests/support/mt_rig.h"

#define EVE "{\"format\":1,\"rights\":[{\"volumes\":\"g*\",\"may\":\"rw\"}],\"disabled\":false}"

static struct mt_rig *rig;
static uint64_t store_count = 1; /* the first is the rig's own */

struct outcome {
	bool is_done;
	int rc;
	char text[512];
};

static void
on_volume(int rc, const struct mt_volume *volume, void *arg)
{
	(void)volume;
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_mirrored(void *arg)
{
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	return *(const bool *)arg && state != NULL && state->volume_count == 1;
}

/* A cluster with a volume, which the nodes know of, and two users, one of them unreadable. */
static void
setup(void)
{
	struct mt_volume wish = { .name = "golden",
		.size_bytes = NUM_GIB(1),
		.codec_id = 1,
		.replica_count = 3 };
	bool is_made = false;

	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	cr_assert_eq(mt_volume_create(rig->gateway, &wish, on_volume, &is_made), 0);
	cr_assert(mt_rig_run_until(rig, is_mirrored, &is_made));
	made_cluster_put(rig->store, MT_USER_PREFIX "eve", EVE);
	made_cluster_put(rig->store, MT_USER_PREFIX "odd", "what a later release wrote");
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(rebuild_users, .init = setup, .fini = teardown);

static void
on_rebuilt(int rc, const char *text, void *arg)
{
	struct outcome *outcome = arg;

	outcome->is_done = true;
	outcome->rc = rc;
	(void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

struct cut {
	const struct outcome *outcome;
	uint64_t version; /* of the store: when it was changed last */
	uint32_t left;    /* changes of the store until the recovery dies; 0: it does not */
};

/* The recovery is over, or its process dies: right when the store has changed for the n-th time. */
static bool
is_done_or_cut(void *arg)
{
	struct cut *cut = arg;

	if (rig->store->version_last != cut->version) {
		cut->version = rig->store->version_last;
		if (cut->left > 0 && --cut->left == 0)
			return true;
	}
	return cut->outcome->is_done;
}

/* @cut_after: the recovery's process is killed behind so many changes of the store; 0: it is not. */
static void
rebuild_until(bool is_forced, uint32_t cut_after, struct outcome *outcome)
{
	struct mt_rebuild_options options = { .gateway = rig->gateway_options,
		.is_forced = is_forced,
		.fn = on_rebuilt,
		.arg = outcome };
	struct cut cut = { .outcome = outcome, .left = cut_after };
	struct mt_rebuild *rebuilt;

	*outcome = (struct outcome){ 0 };
	mt_rig_run(rig, NUM_S(20)); /* the gateway's lease ends */
	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	options.gateway.shard_count = 0;
	options.gateway.store_id = (struct store_id){ 0x570e, ++store_count };
	options.gateway.loop = sim_loop_create(rig->world, "gateway");
	options.gateway.meta = meta_memory_open(rig->store, options.gateway.loop);
	cut.version = rig->store->version_last;
	rebuilt = mt_rebuild_start(&options, outcome->text, sizeof(outcome->text));
	cr_assert_not_null(rebuilt, "%s", outcome->text);
	cr_assert(mt_rig_run_until(rig, is_done_or_cut, &cut));
	mt_rebuild_destroy(rebuilt);
	options.gateway.meta->ops->close(options.gateway.meta);
	loop_destroy(options.gateway.loop);
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	sim_host_start(rig->gateway_host);
}

static void
rebuild(bool is_forced, struct outcome *outcome)
{
	rebuild_until(is_forced, 0, outcome);
	cr_assert(outcome->is_done);
}

static uint32_t
user_count(void)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(rig->store, MT_USER_PREFIX, &items, &count), 0);
	mt_free(items);
	return count;
}

/* A user of it may have been removed since, and no node knows. */
Test(rebuild_users, users_of_an_old_copy_are_dropped_and_named)
{
	struct meta_snapshot *old = meta_store_snapshot(rig->store);
	struct outcome outcome;

	made_cluster_put(rig->store, MT_USER_PREFIX "eve", NULL);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	cr_assert_eq(user_count(), 2);
	rebuild(false, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_eq(user_count(), 0);
	cr_assert(mt_rig_logged(rig, "user eve of the old store is dropped"));
	cr_assert(mt_rig_logged(rig, "user odd of the old store is dropped"));
	cr_assert_not_null(strstr(outcome.text, "2 users were dropped"), "%s", outcome.text);
	meta_snapshot_destroy(old);
}

/* The store of this moment, which is made anew all the same: nobody knows better. */
Test(rebuild_users, users_of_a_store_that_is_not_older_stay)
{
	struct outcome outcome;

	mt_rig_gateway_stop(rig);
	rebuild(false, &outcome);
	cr_assert_not_null(strstr(outcome.text, "not older"), "%s", outcome.text);
	rebuild(true, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_eq(user_count(), 2);
	cr_assert_null(strstr(outcome.text, "users"), "%s", outcome.text);
}

/* No node knows of drained gateways either; they stay, and whoever recovers is told to look. */
Test(rebuild_users, what_else_the_old_copy_alone_tells_is_said)
{
	struct meta_snapshot *old;
	struct outcome outcome;

	made_cluster_put(rig->store, "shards/drained", "{\"format\":1,\"gateways\":[9]}");
	old = meta_store_snapshot(rig->store);
	made_cluster_put(rig->store, "shards/drained", NULL);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	rebuild(false, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert(mt_rig_logged(rig, "key shards/drained is as the old store has it"));
	meta_snapshot_destroy(old);
}

/* ---- cut off, and run again ---- */

/* The store's keys, one a line, into @ret_text. */
static void
key_names(char *ret_text, size_t bytes)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	size_t at = 0;

	cr_assert_eq(meta_store_list(rig->store, "", &items, &count), 0);
	for (uint32_t i = 0; i < count; i++)
		at += (size_t)snprintf(ret_text + at, bytes - at, "%s\n", items[i].key);
	cr_assert(at > 0 && at < bytes);
	mt_free(items);
}

/* The store is of this moment, or an older copy of it. */
static void
stop_with_store(bool is_old)
{
	struct meta_snapshot *old;

	if (!is_old) {
		mt_rig_gateway_stop(rig);
		return;
	}
	old = meta_store_snapshot(rig->store);
	mt_rig_gateway_restart(rig);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, old), 0);
	meta_snapshot_destroy(old);
}

/* Killed behind each of its changes of the store, and run again: the same comes of it as without. */
static void
cut_everywhere(bool is_old, uint32_t users_then)
{
	char whole[4096], names[4096];
	struct mt_cluster before, after;
	struct outcome outcome;
	bool is_cut = true;

	stop_with_store(is_old);
	rebuild(!is_old, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	key_names(whole, sizeof(whole));
	for (uint32_t n = 1; is_cut; n++) {
		teardown();
		setup();
		stop_with_store(is_old);
		made_cluster_read(rig->store, &before);
		rebuild_until(!is_old, n, &outcome);
		is_cut = !outcome.is_done;
		if (is_cut)
			rebuild(!is_old, &outcome);
		cr_assert_eq(outcome.rc, 0, "cut %u: %s", n, outcome.text);
		cr_assert_eq(user_count(), users_then, "cut %u", n);
		key_names(names, sizeof(names));
		cr_assert_str_eq(names, whole, "cut %u", n);
		made_cluster_read(rig->store, &after);
		cr_assert_gt(after.next_segment, before.next_segment);
		cr_assert(!store_id_is_equal(&after.store_id, &before.store_id));
		cr_assert(store_id_is_equal(&after.replaced[0], &before.store_id), "cut %u", n);
		cr_assert(is_cut || n > 3);
	}
}

Test(rebuild_users, users_of_a_store_that_is_not_older_stay_though_the_recovery_is_cut_off)
{
	cut_everywhere(false, 2);
}

Test(rebuild_users, users_of_an_old_copy_are_dropped_though_the_recovery_is_cut_off)
{
	cut_everywhere(true, 0);
}

/* The recovery was finished, a right was taken, and then the unfinished store was put back: its mark is believed no more. */
Test(rebuild_users, users_of_an_unfinished_store_that_was_finished_since_are_dropped)
{
	struct meta_snapshot *unfinished;
	struct outcome outcome;

	mt_rig_gateway_stop(rig);
	rebuild_until(true, 2, &outcome);
	cr_assert_not(outcome.is_done);
	unfinished = meta_store_snapshot(rig->store);
	rebuild(true, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_eq(user_count(), 2);
	made_cluster_put(rig->store, MT_USER_PREFIX "eve", NULL);
	cr_assert_eq(meta_store_restore(rig->store, unfinished), 0);
	rebuild(true, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_eq(user_count(), 0);
	meta_snapshot_destroy(unfinished);
}
