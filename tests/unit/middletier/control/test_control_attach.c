/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_attach.c -- which volume is opened: the one whose id a client says, and no other one of its name
 *
 * What compares the ids is built in with a planted bug, opened_by_name: the simulator's clients say none.
 */
#define CLEAVE_MUTANTS
#include "middletier/control/control_change.c"

#include "unit/control_elsewhere.h"

#define OURS "'session':'00000000000000aa'"
#define HOLDERS_SESSION 77u

struct mutant_set mutants_on;

TestSuite(control_attach, .init = setup_cluster, .fini = teardown_cluster);

static unsigned long long
id_of(const char *name)
{
	return entry_of(name)->volume.id;
}

/* Another session has the volume, of which no gateway has a connection any more. */
static void
hold_elsewhere(const char *name)
{
	struct mt_volume volume = entry_of(name)->volume;

	volume.attach++;
	volume.session_id = HOLDERS_SESSION;
	put_elsewhere(&volume);
}

static void
expect_held(const char *name)
{
	cr_assert_eq(entry_of(name)->volume.session_id, HOLDERS_SESSION, "%s", name);
}

Test(control_attach, the_volume_that_is_meant_is_opened)
{
	json_decref(ask(0, "{'op':'volume.attach','name':'v'," OURS ",'id':%llu}", id_of("v")));
	json_decref(ask(0, "{'op':'volume.open','name':'v','id':%llu}", id_of("v")));
	refused(ask(-EINVAL, "{'op':'volume.attach','name':'v'," OURS ",'id':0}"), "id");
	refused(ask(-EINVAL, "{'op':'volume.open','name':'v','id':'1'}"), "id");
}

Test(control_attach, another_one_of_its_name_is_not)
{
	unsigned long long id = id_of("v");

	create("w");
	hold_elsewhere("w");
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	refused(ask(-ENOENT, "{'op':'volume.open','name':'v','id':%llu}", id),
	    "another one by now");
	/* Nor taken from who has it, nor is that one named. */
	for (int take = 0; take < 2; take++)
		refused(ask(-ENOENT,
			    "{'op':'volume.attach','name':'v'," OURS ",'id':%llu,'take':%s}", id,
			    take ? "true" : "false"),
		    "another one by now");
	expect_held("v");
	json_decref(ask(0, "{'op':'volume.attach','name':'x'," OURS ",'id':%llu}", id));
}

/* Whatever it is called by now, and whoever has the name that it had. */
Test(control_attach, by_its_id_alone_it_is_opened)
{
	unsigned long long id = id_of("v");
	json_t *answer;

	rename_elsewhere("v", "x");
	create("v");
	answer = ask(0, "{'op':'volume.open','id':%llu}", id);
	cr_assert_str_eq(json_string_value(
			     json_object_get(json_object_get(answer, "volume"), "name")),
	    "x");
	json_decref(answer);
	json_decref(ask(0, "{'op':'volume.attach'," OURS ",'id':%llu}", id));
	cr_assert_eq(entry_of("x")->volume.session_id, 0xaau);
	cr_assert_eq(entry_of("v")->volume.session_id, 0u);
	refused(ask(-ENOENT, "{'op':'volume.open','id':4000}"), "no volume 4000");
	refused(ask(-ENOENT, "{'op':'volume.attach'," OURS ",'id':4000}"), "no volume 4000");
	refused(ask(-EINVAL, "{'op':'volume.open'}"), "name");
	refused(ask(-EINVAL, "{'op':'volume.attach'," OURS "}"), "name");
}

static unsigned long long
opened_id(const char *name)
{
	json_t *answer = ask(0, "{'op':'volume.open','name':'%s'}", name);
	unsigned long long id = (unsigned long long)json_integer_value(
	    json_object_get(json_object_get(answer, "volume"), "id"));

	json_decref(answer);
	return id;
}

Test(control_attach, a_snapshot_is_opened_by_the_id_that_an_open_told)
{
	unsigned long long id = opened_id("v@s"), changes_id = opened_id("v@s@");

	json_decref(ask(0, "{'op':'volume.open','name':'v@s','id':%llu}", id));
	json_decref(ask(0, "{'op':'volume.attach','name':'v@s'," OURS ",'id':%llu}", id));
	json_decref(ask(0, "{'op':'volume.open','name':'v@s@','id':%llu}", changes_id));
	json_decref(ask(0, "{'op':'snapshot.delete','name':'v@s'}"));
	json_decref(ask(0, "{'op':'snapshot.create','name':'v@s'}"));
	refused(ask(-ENOENT, "{'op':'volume.open','name':'v@s','id':%llu}", id),
	    "another one by now");
}

/* ---- while it is asked who has it ---- */

static bool
is_asking(void *arg)
{
	(void)arg;
	return peers[0].gateway->holding != NULL; /* from its first question on */
}

/*
 * The first gateway asks who has "v", whose holder has been silent for long. Before it is answered "w" has got that name:
 * attached as often, by somebody who was heard a moment ago.
 */
static uint32_t
begin_and_swap(const char *members)
{
	char text[256];
	uint32_t count;

	create("w");
	hold_elsewhere("v");
	hold_elsewhere("w");
	mt_rig_run(rig, peers[0].gateway->options.session_ns + NUM_S(1));
	(void)snprintf(text, sizeof(text), "{'op':'volume.attach','name':'v'," OURS "%s}", members);
	count = begin(text, is_asking);
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	entry_of("v")->heard_ns = loop_now_ns(peers[0].loop);
	return count;
}

Test(control_attach, whoever_has_another_one_of_its_name_keeps_that)
{
	uint32_t count = begin_and_swap("");

	expect_end(count, -EUSERS, "in use by");
	expect_held("v");
}

Test(control_attach, nor_is_it_opened_where_another_id_was_said)
{
	char members[32];

	(void)snprintf(members, sizeof(members), ",'id':%llu", id_of("v"));
	expect_end(begin_and_swap(members), -ENOENT, "another one by now");
	expect_held("v");
	expect_held("x");
}

/* A name that was given to another volume since the client looked gets no snapshot of that one. */
Test(control_attach, nor_is_a_snapshot_taken_of_another_one)
{
	unsigned long long id = id_of("v");

	refused(ask(-EINVAL, "{'op':'snapshot.create','name':'v@s','id':0}"), "id");
	refused(ask(-EINVAL, "{'op':'snapshot.create','name':'v@s','id':'1'}"), "id");
	create("w");
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	refused(ask(-ENOENT, "{'op':'snapshot.create','name':'v@s','id':%llu}", id),
	    "another one by now");
}

Test(control_attach, a_planted_bug_opens_it)
{
	unsigned long long id = id_of("v");

	create("w");
	rename_elsewhere("v", "x");
	rename_elsewhere("w", "v");
	mutant_set_add(&mutants_on, MUTANT_opened_by_name);
	json_decref(ask(0, "{'op':'volume.attach','name':'v'," OURS ",'id':%llu}", id));
}
