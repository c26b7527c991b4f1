/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_flatten.c -- a clone asked to let go of its origin, called off; what becomes of its mark, its scope, its origin
 *
 * The gateway has no nodes: no shard is served. The tests take the snapshot by putting its key, and say that the shards have
 * copied by clearing the mark's bits.
 */
#include "middletier/catalog/flatten_key.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "unit/control_rig.h"

#define SOON_NS NUM_S(3)

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_FLATTEN);
}

TestSuite(control_flatten, .init = setup, .fini = rig_teardown);
TestSuite(control_flatten_before, .init = rig_setup, .fini = rig_teardown);

static struct mt_volume
volume(const char *name)
{
	const struct mt_volume_entry *entry = mt_volumes_by_name(&sg.gateway->volumes, name);

	cr_assert_not_null(entry, "%s", name);
	return entry->volume;
}

/* A live snapshot of @name, whose scope is what such a one has. */
static void
snapshot(const char *name, uint64_t number)
{
	struct mt_volume of = volume(name);
	struct mt_snapshot taken = { .number = number,
		.name = "s",
		.volume_id = of.id,
		.size_bytes = of.size_bytes,
		.segment_base = of.segment_base,
		.segment_count = of.segment_count,
		.created_s = 1,
		.state = MT_SNAPSHOT_LIVE };
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text;

	mt_scope_before(&of.scope, number, &taken.scope);
	mt_snapshot_key(number, key);
	text = mt_snapshot_encode(&taken, NULL);
	rig_put(key, text);
	free(text);
}

/* Volume v, its snapshot 5, and c, a clone of that. */
static void
make_clone(void)
{
	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	snapshot("v", 5);
	done(ask(0, "{'op':'clone','name':'v@s','new':'c'}"));
}

/* All shards have copied what they have of c. */
static void
all_copied(void)
{
	struct mt_flatten_mark mark = { .id = volume("c").id };
	char key[MT_FLATTEN_KEY_BYTES];
	char *text = mt_flatten_encode(&mark, sg.gateway->cluster.shard_count);

	mt_flatten_key(mark.id, key);
	rig_put(key, text);
	free(text);
}

Test(control_flatten, says_how_many_shards_wait)
{
	json_t *answer;
	json_int_t left;

	make_clone();
	answer = ask(0, "{'op':'volume.flatten','name':'c'}");
	left = json_integer_value(json_object_get(answer, "left"));
	cr_assert_eq(left, sg.gateway->cluster.shard_count);
	json_decref(answer);
	sg_run_for(&sg, SOON_NS);
	answer = ask(0, "{'op':'volume.flatten','name':'c'}");
	cr_assert_eq(json_integer_value(json_object_get(answer, "left")), left, "asked again");
	json_decref(answer);
	answer = ask(0, "{'op':'volume.show','name':'c'}");
	cr_assert_eq(json_integer_value(
			 json_object_get(json_object_get(json_object_get(answer, "volume"),
					     "flattening"),
			     "left")),
	    left);
	json_decref(answer);
	cr_assert_eq(volume("c").scope.span_count, 2, "nobody has copied: the origin is there");
	refused(ask(-ENOTEMPTY, "{'op':'snapshot.delete','name':'v@s'}"), "1 clones");
}

/* Also the clone that waits for its turn, behind the one at work. */
Test(control_flatten, status_names_the_clones)
{
	json_t *answer, *list;

	make_clone();
	answer = ask(0, "{'op':'status'}");
	cr_assert_null(json_object_get(answer, "flattening"));
	done(answer);
	done(ask(0, "{'op':'clone','name':'v@s','new':'d'}"));
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	done(ask(0, "{'op':'volume.flatten','name':'d'}"));
	sg_run_for(&sg, SOON_NS);
	answer = ask(0, "{'op':'status'}");
	list = json_object_get(answer, "flattening");
	cr_assert_eq(json_array_size(list), 2u);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "name")), "c");
	cr_assert_eq(integer(json_array_get(list, 0), "left"), sg.gateway->cluster.shard_count);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "name")), "d");
	done(answer);
	done(ask(0, "{'op':'volume.delete','name':'c'}"));
	answer = ask(0, "{'op':'status'}");
	cr_assert_eq(json_array_size(json_object_get(answer, "flattening")), 1u,
	    "in the trash it waits");
	done(answer);
}

/* A volume without an origin shares nothing. */
Test(control_flatten, usage_says_what_a_clone_shares)
{
	json_t *answer, *origin;

	make_clone();
	answer = ask(0, "{'op':'volume.usage','name':'c'}");
	origin = json_object_get(json_object_get(answer, "usage"), "origin");
	cr_assert_eq(integer(origin, "bytes"), 0, "no shard is served");
	cr_assert_eq(integer(origin, "copied_bytes"), 0);
	cr_assert_eq(integer(origin, "bytes_s"), 0);
	done(answer);
	answer = ask(0, "{'op':'volume.usage','name':'v'}");
	cr_assert_null(json_object_get(json_object_get(answer, "usage"), "origin"));
	done(answer);
}

Test(control_flatten, what_cannot_be_is_refused)
{
	make_clone();
	refused(ask(-EINVAL, "{'op':'volume.flatten','name':'v'}"), "no clone");
	refused(ask(-ENOENT, "{'op':'volume.flatten','name':'x'}"), "'x'");
	refused(ask(-ENOENT, "{'op':'volume.flatten','name':'c','cancel':true}"),
	    "not being flattened");
	refused(ask(-EINVAL, "{'op':'volume.flatten','name':'c','wait':true}"), "wait");
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
}

Test(control_flatten_before, needs_the_second_level)
{
	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	refused(ask(-ENOTSUP, "{'op':'volume.flatten','name':'v'}"), "cleave cluster upgrade");
}

/* The clone, its snapshot and a clone of that let go; the origin's count is one less. */
Test(control_flatten, when_all_is_copied_the_origin_may_go)
{
	make_clone();
	snapshot("c", 7);
	done(ask(0, "{'op':'clone','name':'c@s','new':'d'}"));
	cr_assert_eq(volume("d").scope.span_count, 3);
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	all_copied();
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
	cr_assert_eq(volume("c").scope.span_count, 1);
	cr_assert_eq(volume("c").origin, 0);
	cr_assert_eq(volume("d").scope.span_count, 2);
	cr_assert_eq(volume("d").origin, 7, "it is a clone of c still");
	cr_assert_eq(mt_snapshots_by_number(&sg.gateway->volumes.snapshots, 7)
			 ->snapshot.scope.span_count,
	    1);
	done(ask(0, "{'op':'snapshot.delete','name':'v@s'}"));
	refused(ask(-EINVAL, "{'op':'volume.flatten','name':'c'}"), "was flattened");
}

Test(control_flatten, in_the_trash_it_waits)
{
	make_clone();
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	sg_run_for(&sg, SOON_NS);
	{
		struct mt_flatten_mark mark = { .id = volume("c").id };
		char key[MT_FLATTEN_KEY_BYTES];
		char *text = mt_flatten_encode(&mark, sg.gateway->cluster.shard_count);

		mt_flatten_key(mark.id, key);
		done(ask(0, "{'op':'volume.delete','name':'c'}"));
		rig_put(key, text);
		free(text);
	}
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 1);
	refused(ask(-ENOTEMPTY, "{'op':'snapshot.delete','name':'v@s'}"), "1 clones");
	done(ask(0, "{'op':'trash.restore','name':'c'}"));
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
	cr_assert_eq(volume("c").origin, 0);
}

Test(control_flatten, the_mark_goes_with_its_clone)
{
	make_clone();
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	done(ask(0, "{'op':'volume.delete','name':'c','purge':true}"));
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
}

Test(control_flatten, called_off_it_is_a_clone_still)
{
	make_clone();
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	sg_run_for(&sg, SOON_NS);
	done(ask(0, "{'op':'volume.flatten','name':'c','cancel':true}"));
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
	cr_assert_eq(volume("c").scope.span_count, 2);
	refused(ask(-ENOENT, "{'op':'volume.flatten','name':'c','cancel':true}"),
	    "not being flattened");
}

/* The clone was rolled back to a snapshot of its own whose scope had let go of the origin already. */
static void
roll_back_to_cut(void)
{
	struct mt_volume cut = volume("c");
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	cr_assert(mt_scope_cut_tail(&cut.scope, cut.segment_base));
	text = mt_volume_encode(&cut);
	mt_volume_key("c", key);
	rig_put(key, text);
	free(text);
	cr_assert(volume("c").origin == 5 && volume("c").scope.span_count == 1);
}

static void
lets_go(void)
{
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 0);
	cr_assert_eq(volume("c").origin, 0);
	done(ask(0, "{'op':'snapshot.delete','name':'v@s'}"));
}

Test(control_flatten, rolled_back_meanwhile_it_still_lets_its_origin_go)
{
	make_clone();
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	roll_back_to_cut();
	all_copied();
	sg_run_for(&sg, SOON_NS);
	lets_go();
}

/* Called off in between: the origin counts it still, so it can be flattened. */
Test(control_flatten, what_shows_no_origin_and_has_one_is_flattened)
{
	make_clone();
	roll_back_to_cut();
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	all_copied();
	sg_run_for(&sg, SOON_NS);
	lets_go();
}

/* A mark that cannot be understood stops nothing else, and is left where it is. */
Test(control_flatten, a_mark_that_is_garbage_is_left_alone)
{
	make_clone();
	rig_put(MT_FLATTEN_PREFIX "1x", "{}");
	done(ask(0, "{'op':'volume.flatten','name':'c'}"));
	all_copied();
	sg_run_for(&sg, SOON_NS);
	cr_assert_eq(volume("c").origin, 0);
	cr_assert_eq(rig_key_count(MT_FLATTEN_PREFIX), 1);
}
