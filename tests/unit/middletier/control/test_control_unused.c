/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_unused.c -- what is done to a volume that nobody uses, while others attach it or give it another name
 *
 * The first of two gateways asks both who uses the volume. What asks is built in with a planted bug, newcomer_ignored,
 * that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/control/control_change.c"

#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/cluster/snapshot.h"
#include "unit/control_elsewhere.h"

struct mutant_set mutants_on;

TestSuite(unused, .init = setup_cluster, .fini = teardown_cluster);

static void
attach_elsewhere(void)
{
	struct mt_volume volume = entry_of("v")->volume;

	volume.attach++;
	volume.session_id = OTHERS_SESSION;
	put_elsewhere(&volume);
}

static bool
is_kept_alone(void *arg)
{
	(void)arg;
	return entry_of("v")->is_deleting;
}

static bool
is_taking(void *arg)
{
	(void)arg;
	return mt_taking_state(peers[0].gateway) == MT_TAKING_ASKING;
}

static void
expect_all_there(void)
{
	json_t *answer = ask(0, "{'op':'volume.show','name':'v'}");

	cr_assert_eq(json_integer_value(
			 json_object_get(json_object_get(answer, "volume"), "size_bytes")),
	    SIZE_BYTES);
	json_decref(answer);
	cr_assert_eq(mt_snapshots_live_count(&tables()->snapshots, entry_of("v")->volume.id), 1);
}

/* ---- somebody comes ---- */

Test(unused, a_volume_that_was_attached_meanwhile_is_not_deleted)
{
	uint32_t count =
	    begin("{'op':'volume.delete','name':'v','purge':true,'snapshots':true}", is_kept_alone);

	attach_elsewhere();
	expect_end(count, -ENOTEMPTY, "in use by");
	expect_all_there();
}

Test(unused, nor_is_it_cut_short)
{
	uint32_t count = begin("{'op':'volume.resize','name':'v','size_bytes':4096,'shrink':true}",
	    is_kept_alone);

	attach_elsewhere();
	expect_end(count, -ENOTEMPTY, "in use by");
	expect_all_there();
}

Test(unused, nor_is_it_rolled_back)
{
	uint32_t count = begin("{'op':'snapshot.rollback','name':'v@s'}", is_taking);
	uint64_t attach;

	attach_elsewhere();
	attach = entry_of("v")->volume.attach;
	expect_end(count, -ENOTEMPTY, "in use by");
	expect_all_there();
	cr_assert_eq(entry_of("v")->volume.attach, attach);
	cr_assert_eq(entry_of("v")->volume.session_id, OTHERS_SESSION);
}

Test(unused, who_insists_puts_out_whoever_came)
{
	uint32_t count = begin("{'op':'snapshot.rollback','name':'v@s','force':true}", is_taking);

	attach_elsewhere();
	expect_end(count, 0, "volume");
	cr_assert_eq(entry_of("v")->volume.session_id, 0);
}

/* The user has agreed to the loss of nothing: the volume was as large as its snapshot. */
Test(unused, what_a_volume_has_grown_by_meanwhile_is_not_rolled_back)
{
	uint32_t count = begin("{'op':'snapshot.rollback','name':'v@s'}", is_taking);
	struct mt_volume volume = entry_of("v")->volume;

	volume.size_bytes *= 2;
	volume.segment_count = mt_volume_segment_count(volume.size_bytes);
	put_elsewhere(&volume);
	expect_end(count, -EINVAL, "--shrink");
	cr_assert_eq(entry_of("v")->volume.size_bytes, 2 * SIZE_BYTES);
}

Test(unused, a_planted_bug_does_so)
{
	uint32_t count = begin("{'op':'snapshot.rollback','name':'v@s'}", is_taking);

	mutant_set_add(&mutants_on, MUTANT_newcomer_ignored);
	attach_elsewhere();
	expect_end(count, 0, "volume");
}

/* ---- another name ---- */

Test(unused, another_volume_that_has_its_name_by_then_keeps_its_content)
{
	struct mt_scope scope;
	uint32_t count;

	create("w");
	json_decref(ask(0, "{'op':'snapshot.create','name':'w@s'}"));
	scope = entry_of("w")->volume.scope;
	count = begin("{'op':'snapshot.rollback','name':'v@s'}", is_taking);
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	expect_end(count, -ENOENT, "another one by now");
	cr_assert_eq(memcmp(&entry_of("v")->volume.scope, &scope, sizeof(scope)), 0);
	cr_assert_eq(mt_snapshots_live_count(&tables()->snapshots, entry_of("x")->volume.id), 1);
}

Test(unused, whoever_insists_deletes_no_other_one_by_the_way)
{
	uint64_t id = entry_of("v")->volume.id;
	uint32_t count =
	    begin("{'op':'volume.delete','name':'v','snapshots':true,'force':true}", is_kept_alone);

	rename_elsewhere("v", "x");
	expect_end(count, -ENOENT, "'v'");
	cr_assert_eq(entry_of("x")->volume.id, id);
}

Test(unused, nor_one_that_has_its_name_when_the_request_begins_again)
{
	uint64_t id;
	uint32_t count;

	create("w");
	id = entry_of("w")->volume.id;
	count =
	    begin("{'op':'volume.delete','name':'v','purge':true,'snapshots':true}", is_kept_alone);
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	expect_end(count, -ENOENT, "another one by now");
	cr_assert_eq(entry_of("v")->volume.id, id);
	cr_assert_eq(mt_snapshots_live_count(&tables()->snapshots, entry_of("x")->volume.id), 1);
}

Test(unused, a_renamed_volume_lets_sessions_in_again)
{
	uint32_t count =
	    begin("{'op':'volume.delete','name':'v','purge':true,'snapshots':true}", is_kept_alone);

	rename_elsewhere("v", "x");
	expect_end(count, -ENOENT, "'v'"); /* it looks at all of them */
	json_decref(ask(0, "{'op':'volume.attach','name':'x','session':'00000000000000aa'}"));
}
