/* SPDX-License-Identifier: Apache-2.0 */
/* test_rebuild_users.c -- a metadata store made anew from an old copy: a right that was taken is not given back */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
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

static bool
is_done(void *arg)
{
	return ((const struct outcome *)arg)->is_done;
}

static void
rebuild(bool is_forced, struct outcome *outcome)
{
	struct mt_rebuild_options options = { .gateway = rig->gateway_options,
		.is_forced = is_forced,
		.fn = on_rebuilt,
		.arg = outcome };
	struct mt_rebuild *rebuilt;

	*outcome = (struct outcome){ 0 };
	mt_rig_run(rig, NUM_S(20)); /* the gateway's lease ends */
	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	options.gateway.shard_count = 0;
	options.gateway.store_id = (struct store_id){ 0x570e, 2 };
	options.gateway.loop = sim_loop_create(rig->world, "gateway");
	options.gateway.meta = meta_memory_open(rig->store, options.gateway.loop);
	rebuilt = mt_rebuild_start(&options, outcome->text, sizeof(outcome->text));
	cr_assert_not_null(rebuilt, "%s", outcome->text);
	cr_assert(mt_rig_run_until(rig, is_done, outcome));
	mt_rebuild_destroy(rebuilt);
	options.gateway.meta->ops->close(options.gateway.meta);
	loop_destroy(options.gateway.loop);
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
