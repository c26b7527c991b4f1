/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mirror.c -- volumes and next ids follow into shard 0's manifest, and stay there
 *
 * It is built in with a planted bug, backup_mirrored: in the simulator a store is set back under gateways that run only
 * where it loses nothing durable.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/mirror.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/meta.h"
#include "middletier/catalog/holder.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/mirror.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/common/alloc.h"
#include "middletier/common/shard.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_mirror.h"
#include "middletier/manifest/manifest_state.h"
#include "tests/support/mt_rig.h"

struct mutant_set mutants_on;

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	mt_rig_up(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(mirror, .init = setup, .fini = teardown);

struct change {
	bool is_done;
	int rc;
};

static void
on_change(int rc, const struct mt_volume *volume, void *arg)
{
	struct change *change = arg;

	(void)volume;
	change->is_done = true;
	change->rc = rc;
}

static bool
change_is_done(void *arg)
{
	return ((struct change *)arg)->is_done;
}

static void
wait_for(struct change *change, int rc)
{
	cr_assert_eq(rc, 0);
	cr_assert(mt_rig_run_until(rig, change_is_done, change));
	cr_assert_eq(change->rc, 0);
}

static void
make(const char *name, uint64_t size_bytes)
{
	struct mt_volume wish = { .size_bytes = size_bytes, .codec_id = 1, .replica_count = 3 };
	struct change change = { 0 };

	(void)snprintf(wish.name, sizeof(wish.name), "%s", name);
	wait_for(&change, mt_volume_create(rig->gateway, &wish, on_change, &change));
}

static void
attach(const char *name)
{
	const struct mt_holder holder = { .client = "test" };
	struct change change = { 0 };

	wait_for(&change, mt_volume_attach(rig->gateway, name, 77, &holder, on_change, &change));
}

static void
remove_volume(const char *name)
{
	struct change change = { 0 };

	wait_for(&change, mt_volume_delete(rig->gateway, name, on_change, &change));
}

/* The manifest says what the table says. */
static bool
is_mirrored(void *arg)
{
	const struct mt_manifest_state *state;
	const struct mt_volumes *volumes = &rig->gateway->volumes;

	(void)arg;
	if (mt_rig_shard(rig, 0)->sm.state != MT_SHARD_SERVING || rig->gateway->mirror->is_out)
		return false;
	state = mt_manifest_state(mt_rig_shard(rig, 0));
	if (state->volume_count != volumes->count || state->shard_count != 2 ||
	    state->next_volume_id != rig->gateway->cluster.next_volume_id ||
	    state->next_segment != rig->gateway->cluster.next_segment)
		return false;
	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;
		const struct mt_volume *copy = mt_manifest_state_volume(state, volume->id);

		if (copy == NULL || strcmp(copy->name, volume->name) != 0 ||
		    copy->size_bytes != volume->size_bytes || copy->attach != volume->attach ||
		    copy->session_id != volume->session_id ||
		    copy->segment_base != volume->segment_base)
			return false;
	}
	return true;
}

Test(mirror, cluster_is_there_before_any_volume)
{
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->shard_count, 2);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 1))->shard_count, 0);
}

Test(mirror, changes_follow)
{
	make("b", NUM_GIB(40));
	make("a", NUM_MIB(1));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	attach("a");
	attach("a");
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	remove_volume("b");
	make("c", NUM_MIB(1));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 2);
}

Test(mirror, many_volumes_take_several_commits)
{
	char name[16];

	for (uint32_t i = 0; i < 50; i++) {
		(void)snprintf(name, sizeof(name), "v%u", i);
		make(name, NUM_MIB(1));
	}
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
}

static void
on_put(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_set(void *arg)
{
	return *(const bool *)arg;
}

/* Each would be written over the other, again and again, for as long as the shard is served. */
/* Each client that comes changes a volume, and a copy looks at all of them. */
Test(mirror, it_rests_where_volumes_are_many)
{
	struct mt_mirror *mirror = rig->gateway->mirror;
	char name[16];

	for (uint32_t i = 0; i < 128; i++) {
		(void)snprintf(name, sizeof(name), "v%03u", i);
		make(name, NUM_MIB(1));
	}
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	mirror->rest_until_ns = loop_now_ns(rig->gateway->options.loop) + NUM_MS(100);
	attach("v007");
	cr_assert_lt(loop_now_ns(rig->gateway->options.loop), mirror->rest_until_ns);
	cr_assert_not(mirror->is_out, "it rests");
	cr_assert_not(is_mirrored(NULL));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	cr_assert_geq(mirror->rest_until_ns, loop_now_ns(rig->gateway->options.loop), "and again");
}

Test(mirror, two_volumes_of_one_id_are_not_mirrored_for_ever)
{
	bool is_put = false;
	struct meta_op op = { .kind = META_PUT, .key = "volumes/b" };
	char *text;

	make("a", NUM_MIB(1));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	text = mt_volume_encode(&mt_volumes_by_name(&rig->gateway->volumes, "a")->volume);
	op.value = text;
	op.value_bytes = (uint32_t)strlen(text);
	cr_assert_eq(rig->meta->ops->txn(rig->meta, &op, 1, on_put, &is_put), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_put));
	free(text);
	mt_rig_run(rig, NUM_S(5));
	cr_assert_eq(rig->gateway->volumes.count, 2);
	cr_assert_not(rig->gateway->mirror->is_out);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 1);
	cr_assert_str_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volumes[0].name, "a");
}

Test(mirror, outlives_the_gateway)
{
	make("a", NUM_MIB(1));
	make("b", NUM_MIB(2));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	mt_rig_gateway_restart(rig);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 2);
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	/* Killed before it was mirrored: the next owner does it. */
	remove_volume("a");
	mt_rig_gateway_restart(rig);
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 1);
}

Test(mirror, volume_that_cannot_be_read_is_not_forgotten)
{
	make("a", NUM_MIB(1));
	make("b", NUM_MIB(1));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	rig->gateway->volumes.is_incomplete = true;
	rig->gateway->volumes.count = 1; /* as if "b" had not been understood */
	mt_mirror_kick(rig->gateway);
	mt_rig_run(rig, NUM_S(5));
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 2);
}

Test(mirror, out_of_memory_it_tries_again)
{
	make("a", NUM_MIB(1));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	snprintf(rig->gateway->volumes.entries[0].volume.name, MT_NAME_BYTES, "z");
	mt_alloc_fail_at(1);
	mt_mirror_kick(rig->gateway);
	mt_alloc_fail_at(0);
	cr_assert_not(rig->gateway->mirror->is_out);
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
}

Test(mirror, stopping_ends_what_is_under_way)
{
	make("a", NUM_MIB(1));
	mt_mirror_kick(rig->gateway);
	cr_assert(rig->gateway->mirror->is_out);
	mt_rig_gateway_stop(rig);
}

/* ---- the store is set back to a backup under the gateway ---- */

struct backup {
	struct meta_op ops[8];
	uint32_t count;
	bool is_done;
};

static void
on_listed(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct backup *backup = arg;

	cr_assert_eq(rc, 0);
	for (uint32_t i = 0; i < count && backup->count < NUM_COUNT(backup->ops); i++)
		backup->ops[backup->count++] = (struct meta_op){ .kind = META_PUT,
			.key = strdup(items[i].key),
			.value = memcpy(malloc(items[i].value_bytes), items[i].value,
			    items[i].value_bytes),
			.value_bytes = items[i].value_bytes };
	backup->is_done = true;
}

static void
back_up(struct backup *backup, const char *prefix)
{
	backup->is_done = false;
	cr_assert_eq(rig->meta->ops->list(rig->meta, prefix, on_listed, backup), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &backup->is_done));
}

static void
set_back(struct backup *backup, const char *gone)
{
	bool is_put = false;

	if (gone != NULL)
		backup->ops[backup->count++] =
		    (struct meta_op){ .kind = META_DELETE, .key = strdup(gone) };
	cr_assert_eq(rig->meta->ops->txn(rig->meta, backup->ops, backup->count, on_put, &is_put),
	    0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_put));
	for (uint32_t i = 0; i < backup->count; i++) {
		free((void *)(uintptr_t)backup->ops[i].key);
		free((void *)(uintptr_t)backup->ops[i].value);
	}
}

static bool
has_failed(void *arg)
{
	(void)arg;
	return rig->has_failed;
}

/* The manifest alone knows of the volume that was made since: it is not taken out of it. */
Test(mirror, a_volume_that_a_backup_lacks_is_kept)
{
	struct backup backup = { .count = 0 };
	const struct mt_volume *kept;

	make("a", NUM_MIB(1));
	back_up(&backup, "cluster");
	make("b", NUM_MIB(2));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	set_back(&backup, "volumes/b");
	cr_assert(mt_rig_run_until(rig, has_failed, NULL));
	kept = mt_manifest_state_volume(mt_manifest_state(mt_rig_shard(rig, 0)), 2);
	cr_assert_not_null(kept);
	cr_assert_str_eq(kept->name, "b");
}

static bool
has_forgotten(void *arg)
{
	(void)arg;
	return !rig->gateway->mirror->is_out &&
	    mt_manifest_state(mt_rig_shard(rig, 0))->volume_count == 1;
}

Test(mirror, with_its_bug_the_volume_is_lost_without_a_word)
{
	struct backup backup = { .count = 0 };

	make("a", NUM_MIB(1));
	back_up(&backup, "cluster");
	make("b", NUM_MIB(2));
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	mutant_set_add(&mutants_on, MUTANT_backup_mirrored);
	set_back(&backup, "volumes/b");
	cr_assert(mt_rig_run_until(rig, has_forgotten, NULL));
	cr_assert_not(rig->has_failed);
}

/* A client that had it before would be let in again beside the one whose writes were acknowledged. */
Test(mirror, an_attach_is_not_set_back)
{
	struct backup backup = { .count = 0 };
	uint64_t number;

	make("a", NUM_MIB(1));
	attach("a");
	back_up(&backup, "volumes/a");
	attach("a");
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	number = mt_volumes_by_name(&rig->gateway->volumes, "a")->volume.attach;
	set_back(&backup, NULL);
	cr_assert(mt_rig_run_until(rig, has_failed, NULL));
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volumes[0].attach, number);
}

/* A number that was given and is not used any more is no sign of an old store. */
Test(mirror, a_volume_that_was_made_and_deleted_is_no_older_store)
{
	make("a", NUM_MIB(1));
	for (uint32_t i = 0; i < 5; i++) {
		make("b", NUM_MIB(1));
		remove_volume("b");
	}
	cr_assert(mt_rig_run_until(rig, is_mirrored, NULL));
	cr_assert_not(rig->has_failed);
	cr_assert_eq(mt_manifest_state(mt_rig_shard(rig, 0))->volume_count, 1);
}
