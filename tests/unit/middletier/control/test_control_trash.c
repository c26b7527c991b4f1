/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_trash.c -- deleted volumes in the trash: moved, listed, restored, purged; when their time is over
 *
 * The gateway has no nodes, so shard 0 is served nowhere: the tests say that it is, for the trash.
 */
#include "middletier/catalog/trash.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/mirror.h"
#include "middletier/cluster/trash.h"
#include "unit/control_rig.h"

/* The gateway of a cluster of level 2. */
static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_TRASH);
}

TestSuite(trash, .init = setup, .fini = rig_teardown);

static void
create(const char *name)
{
	done(ask(0, "{'op':'volume.create','name':'%s','size_bytes':8192}", name));
}

static void
throw_away(const char *name, int keep_s)
{
	done(ask(0, "{'op':'volume.delete','name':'%s','keep_s':%d}", name, keep_s));
}

/* How many there are; of the one at @index, *@ret_left_s is left. */
static size_t
list(size_t index, json_int_t *ret_left_s)
{
	json_t *answer = ask(0, "{'op':'trash.list'}");
	const json_t *volumes = json_object_get(answer, "volumes");
	size_t count = json_array_size(volumes);

	if (ret_left_s != NULL)
		*ret_left_s = integer(json_array_get(volumes, index), "left_s");
	json_decref(answer);
	return count;
}

static void
serve_shard_0(void)
{
	sg.gateway->mirror->is_owner = true;
	mt_trash_kick(sg.gateway);
}

Test(trash, a_volume_goes_there_and_comes_back)
{
	json_t *answer;
	json_int_t id, attach, left_s;

	create("v");
	answer = ask(0, "{'op':'volume.show','name':'v'}");
	id = integer(json_object_get(answer, "volume"), "id");
	attach = integer(json_object_get(answer, "volume"), "attach");
	done(answer);
	answer = ask(0, "{'op':'volume.delete','name':'v'}");
	cr_assert_eq(integer(json_object_get(answer, "trash"), "id"), id);
	cr_assert_eq(integer(json_object_get(answer, "trash"), "keep_s"), 86400);
	done(answer);
	done(ask(-ENOENT, "{'op':'volume.show','name':'v'}"));
	done(ask(-ENOENT, "{'op':'volume.delete','name':'v'}"));
	done(ask(-ENOENT, "{'op':'volume.rename','name':'v','new':'w'}"));
	done(ask(-ENOENT, "{'op':'volume.resize','name':'v','size_bytes':16384}"));
	done(ask(-ENOENT, "{'op':'volume.attach','name':'v','session':'00000000000000aa'}"));
	done(ask(-EINVAL, "{'op':'volume.show','name':'trash/%020d'}", (int)id));
	done(ask(-EINVAL, "{'op':'volume.usage','name':'trash/%020d'}", (int)id));
	answer = ask(0, "{'op':'volume.list'}");
	cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 0);
	cr_assert(!json_is_true(json_object_get(answer, "more")));
	done(answer);
	cr_assert_eq(list(0, &left_s), 1);
	cr_assert(left_s > 86000 && left_s <= 86400);
	answer = ask(0, "{'op':'trash.restore','name':'v'}");
	cr_assert_eq(integer(json_object_get(answer, "volume"), "id"), id);
	cr_assert(integer(json_object_get(answer, "volume"), "attach") > attach,
	    "whoever had it open before may not write again");
	done(answer);
	cr_assert_eq(list(0, NULL), 0);
	done(ask(0, "{'op':'volume.show','name':'v'}"));
}

Test(trash, a_name_that_is_taken_is_not_restored_over)
{
	json_t *answer;

	create("v");
	throw_away("v", 60);
	create("v");
	refused(ask(-EEXIST, "{'op':'trash.restore','name':'v'}"), "'v', id 2");
	refused(ask(-EEXIST, "{'op':'trash.restore','name':'v'}"), "restore 1 NEW");
	answer = ask(0, "{'op':'trash.restore','name':'v','new':'w'}");
	cr_assert_eq(integer(json_object_get(answer, "volume"), "id"), 1);
	done(answer);
	throw_away("v", 60);
	done(ask(-EINVAL, "{'op':'trash.restore','name':'v','new':'w/x'}"));
}

Test(trash, one_name_of_several_is_ambiguous)
{
	create("v");
	throw_away("v", 60);
	create("v");
	throw_away("v", 60);
	refused(ask(-EINVAL, "{'op':'trash.restore','name':'v'}"), "by its id: 1, 2");
	refused(ask(-EINVAL, "{'op':'trash.purge','name':'v'}"), "by its id: 1, 2");
	done(ask(0, "{'op':'trash.restore','name':'2'}"));
	done(ask(0, "{'op':'trash.purge','name':'v'}"));
	refused(ask(-ENOENT, "{'op':'trash.purge','name':'1'}"), "cleave trash list");
	done(ask(-ENOENT, "{'op':'trash.purge','name':'99999999999999999999'}"));
}

/* A slip would purge the wrong one, for good. */
Test(trash, a_number_that_is_an_id_and_anothers_name_is_neither)
{
	create("2");
	create("v");
	throw_away("2", 60);
	throw_away("v", 60);
	refused(ask(-EINVAL, "{'op':'trash.purge','name':'2'}"), "'2' is the id of volume 'v'");
	refused(ask(-EINVAL, "{'op':'trash.purge','name':'2'}"), "another one there, id 1");
	refused(ask(-EINVAL, "{'op':'trash.restore','name':'2'}"), "(--id)");
	done(ask(0, "{'op':'trash.restore','name':'2','by_id':true,'new':'w'}"));
	done(ask(0, "{'op':'trash.restore','name':'2'}"));
	done(ask(0, "{'op':'volume.show','name':'2'}"));
	throw_away("2", 60);
	throw_away("w", 60);
	done(ask(0, "{'op':'trash.purge','name':'2','by_id':true}"));
	done(ask(-ENOENT, "{'op':'trash.purge','name':'2','by_id':true}"));
	cr_assert_eq(list(0, NULL), 1);
	done(ask(0, "{'op':'trash.purge','name':'2'}"));
	cr_assert_eq(list(0, NULL), 0);
}

/* By its id no name is meant, and no other volume of that name. */
Test(trash, a_volume_that_is_called_as_its_id_is_one)
{
	create("1");
	throw_away("1", 60);
	done(ask(0, "{'op':'trash.restore','name':'1'}"));
	throw_away("1", 60);
	create("v");
	throw_away("v", 60);
	refused(ask(-ENOENT, "{'op':'trash.purge','name':'v','by_id':true}"), "cleave trash list");
	done(ask(0, "{'op':'trash.purge','name':'1','by_id':true}"));
	cr_assert_eq(list(0, NULL), 1);
}

Test(trash, a_volume_is_purged_at_once_on_purpose)
{
	json_t *answer;

	create("v");
	refused(ask(-EINVAL, "{'op':'volume.delete','name':'v','purge':true,'keep_s':5}"),
	    "--purge");
	done(ask(-EINVAL, "{'op':'volume.delete','name':'v','keep_s':0}"));
	answer = ask(0, "{'op':'volume.delete','name':'v','purge':true}");
	cr_assert_null(json_object_get(answer, "trash"));
	done(answer);
	cr_assert_eq(list(0, NULL), 0);
	done(ask(-ENOENT, "{'op':'trash.restore','name':'v'}"));
}

Test(trash, nothing_is_purged_before_its_time)
{
	json_int_t left_s;

	create("v");
	serve_shard_0();
	throw_away("v", 1000);
	for (int i = 0; i < 9; i++) {
		sg_run_for(&sg, NUM_S(100));
		cr_assert_eq(list(0, &left_s), 1);
		cr_assert(left_s >= 1000 - 100 * (i + 1) && left_s <= 1020 - 98 * (i + 1), "%d",
		    (int)left_s);
	}
	sg_run_for(&sg, NUM_S(95));
	cr_assert_eq(list(0, NULL), 1);
	sg_run_for(&sg, NUM_S(60)); /* a clock may be fast: some more than 1,000 s */
	cr_assert_eq(list(0, NULL), 0);
	done(ask(-ENOENT, "{'op':'trash.restore','name':'v'}"));
	create("v");
}

/* The time that a gateway was away does not count, whatever a clock on the wall says. */
Test(trash, no_time_passes_without_a_gateway)
{
	json_int_t before_s, left_s;

	create("v");
	serve_shard_0();
	throw_away("v", 1000);
	sg_run_for(&sg, NUM_S(500));
	cr_assert_eq(list(0, &before_s), 1);
	rig_stop();
	sg_run_for(&sg, NUM_S(5000));
	rig_start();
	serve_shard_0();
	cr_assert_eq(list(0, &left_s), 1);
	cr_assert(left_s >= before_s && left_s <= before_s + 1000 / 16 + 1, "%d, then %d",
	    (int)before_s, (int)left_s);
	sg_run_for(&sg, NUM_S(600));
	cr_assert_eq(list(0, NULL), 0);
}

Test(trash, whoever_does_not_serve_shard_0_purges_nothing)
{
	create("v");
	throw_away("v", 5);
	sg_run_for(&sg, NUM_S(60));
	cr_assert_eq(list(0, NULL), 1);
	serve_shard_0();
	sg_run_for(&sg, NUM_S(2));
	cr_assert_eq(list(0, NULL), 0);
}

Test(trash, a_cluster_of_level_1_has_none)
{
	json_t *answer;

	rig_stop();
	made_cluster_raise(sg.store, 1);
	rig_start();
	create("v");
	refused(ask(-ENOTSUP, "{'op':'volume.delete','name':'v','keep_s':5}"), "cluster upgrade");
	refused(ask(-ENOTSUP, "{'op':'snapshot.protect','name':'v@s'}"), "level 1");
	answer = ask(0, "{'op':'volume.delete','name':'v'}");
	cr_assert_null(json_object_get(answer, "trash"));
	done(answer);
	cr_assert_eq(list(0, NULL), 0);
}

/* ---- the key ---- */

static const struct mt_volume sample = { .id = 7,
	.name = "trash/00000000000000000007",
	.size_bytes = 4096,
	.segment_base = 1,
	.segment_count = 1,
	.replica_count = 3,
	.attach = 4,
	.scope = { .span_count = 1, .spans = { { 1, 0, UINT64_MAX } } },
	.trash = { .name = "v",
	    .by = "10.0.0.1:4711",
	    .deleted_s = 1000,
	    .keep_ms = 5000,
	    .left_ms = 4000 } };

Test(trash_key, is_read_as_it_was_written)
{
	char *text = mt_volume_encode(&sample);
	struct mt_volume volume;
	const char *field = "";

	cr_assert_eq(mt_volume_decode(sample.name, text, (uint32_t)strlen(text), &volume, &field),
	    0, "%s", field);
	cr_assert(mt_volume_is_trashed(&volume));
	cr_assert_str_eq(volume.name, sample.name);
	cr_assert_eq(memcmp(&volume.trash, &sample.trash, sizeof(sample.trash)), 0);
	free(text);
}

/* A volume in the trash under a live name would be served; a live one under a name there, be purged. */
Test(trash_key, says_where_it_is)
{
	struct mt_volume live = sample, volume;
	char *text = mt_volume_encode(&sample);
	const char *field = "";

	cr_assert_eq(mt_volume_decode("v", text, (uint32_t)strlen(text), &volume, &field), -EINVAL);
	cr_assert_str_eq(field, "trash");
	cr_assert_eq(mt_volume_decode("trash/00000000000000000008", text, (uint32_t)strlen(text),
			 &volume, &field),
	    -EINVAL);
	free(text);
	live.trash = (struct mt_trash){ .keep_ms = 0 };
	text = mt_volume_encode(&live);
	cr_assert_eq(mt_volume_decode(sample.name, text, (uint32_t)strlen(text), &volume, &field),
	    -EINVAL);
	cr_assert_str_eq(field, "trash");
	free(text);
	cr_assert(!mt_trash_is_name("trash/7") && !mt_trash_is_name("trash"));
	cr_assert(!mt_trash_is_name("trash/0000000000000000000x"));
}

Test(trash_key, a_fast_clock_is_allowed_for)
{
	cr_assert_eq(mt_trash_passed_ms(0), 0);
	cr_assert_eq(mt_trash_passed_ms(NUM_S(64)), 63000);
}
