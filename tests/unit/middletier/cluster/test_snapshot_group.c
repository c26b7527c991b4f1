/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot_group.c -- snapshots of several volumes at one point in time: all of them, or none, and every refusal */
#include <jansson.h>

#include "base/num.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/snapshot.h"
#include "middletier/common/shard.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define NOBODYS_BITS "0" /* of another number of shards: such a mark is never cleared */
#define FIRST_NUMBER 100u
#define TEXT_BYTES 8192u
#define GROUP "{\"op\":\"snapshot.group\",\"names\":[\"a@s\",\"b@s\",\"c@t\"]}"

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;
static struct mt_shard *unserved; /* a shard of a test's */

#define ask(text, want_rc) control_want(&qp, (want_rc), "%s", (text))

/* The error has @word in it. */
static void
expect_refused(const char *text, int rc, const char *word)
{
	refused(ask(text, rc), word);
}

static void
setup_at(uint32_t level)
{
	static const char *const names[] = { "a", "b", "c" };
	char text[128];

	setup();
	made_cluster_at(rig->store, &rig->gateway_options, level);
	two_gateways_up(&sg, &qp);
	for (uint32_t i = 0; i < NUM_COUNT(names); i++) {
		(void)snprintf(text, sizeof(text),
		    "{\"op\":\"volume.create\",\"name\":\"%s\",\"size_bytes\":1073741824}",
		    names[i]);
		json_decref(ask(text, 0));
	}
}

static void
setup_cluster(void)
{
	setup_at(CLEAVE_LEVEL_GROUPS);
}

static void
teardown_cluster(void)
{
	sg_close(&qp);
	sg_client_close(&sg);
	teardown();
}

TestSuite(snapshot_group, .init = setup_cluster, .fini = teardown_cluster);

/* ---- what is in the store ---- */

/* Keys of snapshots, and how many of them are live. */
static uint32_t
key_count(uint32_t *ret_live_count)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(rig->store, MT_SNAPSHOT_PREFIX, &items, &count), 0);
	*ret_live_count = 0;
	for (uint32_t i = 0; i < count; i++)
		*ret_live_count += strstr(items[i].value, "\"live\"") != NULL;
	free(items);
	return count;
}

static void
expect_keys(uint32_t expected, uint32_t expected_live)
{
	uint32_t live, count = key_count(&live);

	cr_assert_eq(count, expected);
	cr_assert_eq(live, expected_live);
}

static void
on_changed(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_set(void *arg)
{
	return *(const bool *)arg;
}

/* @text NULL: the key is deleted. */
static void
change(const char *key, const char *text)
{
	struct meta *meta = peers[0].meta;
	const struct meta_op op = { .kind = text == NULL ? META_DELETE : META_PUT,
		.key = key,
		.value = text,
		.value_bytes = text == NULL ? 0 : (uint32_t)strlen(text) };
	bool is_done = false;

	cr_assert_eq(meta->ops->txn(meta, &op, 1, on_changed, &is_done), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_done));
}

static struct mt_volume
volume_of(const char *name)
{
	return mt_volumes_by_name(&peers[0].gateway->volumes, name)->volume;
}

/* @count numbers came to nothing, and nobody drops them. */
static void
put_void_numbers(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mt_snapshot snapshot = { .number = FIRST_NUMBER + i,
			.name = "s",
			.volume_id = 1,
			.size_bytes = NUM_GIB(1),
			.segment_base = 1,
			.segment_count = 1,
			.state = MT_SNAPSHOT_DELETED };
		char key[MT_SNAPSHOT_KEY_BYTES];
		char *text;

		mt_scope_init(&snapshot.scope, 1);
		text = mt_snapshot_encode(&snapshot, NOBODYS_BITS);
		cr_assert_not_null(text);
		mt_snapshot_key(snapshot.number, key);
		change(key, text);
		free(text);
	}
}

static struct mt_shard *
shard_served_by(uint32_t index)
{
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (serves(index, i))
			return shard_of(index, i);
	}
	cr_assert_fail("gateway %u serves nothing", index);
	return NULL;
}

/* ---- all ---- */

Test(snapshot_group, all_are_made_with_numbers_in_a_row)
{
	static const char *const names[] = { "a", "b", "c" };
	json_t *answer = ask(GROUP, 0), *list = json_object_get(answer, "snapshots");

	cr_assert_eq(json_array_size(list), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const json_t *snapshot = json_array_get(list, i);

		cr_assert_eq(json_integer_value(json_object_get(snapshot, "number")), 1 + (int)i);
		cr_assert_eq(json_integer_value(json_object_get(snapshot, "group")), 1);
		cr_assert_str_eq(json_string_value(json_object_get(snapshot, "volume")), names[i]);
		cr_assert_str_eq(json_string_value(json_object_get(snapshot, "name")),
		    i == 2 ? "t" : "s");
		cr_assert_str_eq(json_string_value(json_object_get(snapshot, "state")), "live");
	}
	json_decref(answer);
	expect_keys(3, 3);
	/* A single step in each shard, at both gateways: the others heard of all volumes. */
	cr_assert_eq(shard_served_by(0)->cut, 3);
	cr_assert_eq(shard_served_by(1)->cut, 3);
	cr_assert(mt_rig_logged(rig, "snapshot 3: taken: t of volume c group=1"));
	/* The next one has the next number, and is alone. */
	answer = ask("{\"op\":\"snapshot.create\",\"name\":\"a@u\"}", 0);
	cr_assert_eq(json_integer_value(
			 json_object_get(json_object_get(answer, "snapshot"), "number")),
	    4);
	cr_assert_null(json_object_get(json_object_get(answer, "snapshot"), "group"));
	json_decref(answer);
}

Test(snapshot_group, one_volume_is_no_group)
{
	json_t *answer = ask("{\"op\":\"snapshot.group\",\"names\":[\"a@s\"]}", 0);
	const json_t *list = json_object_get(answer, "snapshots");

	cr_assert_eq(json_array_size(list), 1);
	cr_assert_null(json_object_get(json_array_get(list, 0), "group"));
	json_decref(answer);
	expect_keys(1, 1);
}

static void
names_of(uint32_t count, char text[TEXT_BYTES])
{
	size_t used = (size_t)snprintf(text, TEXT_BYTES, "{\"op\":\"snapshot.group\",\"names\":[");

	for (uint32_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s\"v%u@s\"",
		    i == 0 ? "" : ",", i);
	(void)snprintf(text + used, TEXT_BYTES - used, "]}");
}

/* As many as may be: one transaction, one message to each gateway, one commit in each shard. */
Test(snapshot_group, as_many_volumes_as_may_be)
{
	char text[TEXT_BYTES];

	for (uint32_t i = 0; i < CLEAVE_GROUP_VOLUMES_MAX; i++) {
		(void)snprintf(text, sizeof(text),
		    "{\"op\":\"volume.create\",\"name\":\"v%u\",\"size_bytes\":1048576}", i);
		json_decref(ask(text, 0));
	}
	names_of(CLEAVE_GROUP_VOLUMES_MAX, text);
	json_decref(ask(text, 0));
	expect_keys(CLEAVE_GROUP_VOLUMES_MAX, CLEAVE_GROUP_VOLUMES_MAX);
	cr_assert_eq(shard_served_by(1)->cut, CLEAVE_GROUP_VOLUMES_MAX);
	names_of(CLEAVE_GROUP_VOLUMES_MAX + 1, text);
	expect_refused(text, -EINVAL, "must be 1 to 32");
}

/* ---- refused, and nothing has happened ---- */

Test(snapshot_group, what_cannot_be_costs_no_number)
{
	expect_refused("{\"op\":\"snapshot.group\"}", -EINVAL, "names: required");
	expect_refused("{\"op\":\"snapshot.group\",\"name\":\"a@s\"}", -EINVAL, "names: required");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[]}", -EINVAL, "must be 1 to 32");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":{}}", -EINVAL, "names");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\",7]}", -EINVAL,
	    "must be texts");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\",\"b\"]}", -EINVAL,
	    "must be VOLUME@SNAPSHOT");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\",\"b@\"]}", -EINVAL, "name");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\",\"a@t\"]}", -EINVAL,
	    "'a' is there twice");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\"],\"force\":true}", -EINVAL,
	    "force");
	expect_refused("{\"op\":\"snapshot.group\",\"names\":[\"a@s\",\"d@s\"]}", -ENOENT, "'d'");
	expect_refused("{\"op\":\"snapshot.create\",\"names\":[\"a@s\"]}", -EINVAL,
	    "snapshot.group");
	expect_keys(0, 0);
	json_decref(ask("{\"op\":\"snapshot.create\",\"name\":\"b@s\"}", 0));
	expect_refused(GROUP, -EEXIST, "'b' has a snapshot 's' already");
	expect_keys(1, 1);
}

/* Gateways of the release before would not know what they are asked. */
Test(snapshot_group_level, a_cluster_of_the_first_level_has_none)
{
	setup_at(CLEAVE_LEVEL_MIN);
	expect_refused(GROUP, -ENOTSUP, "cleave cluster upgrade");
	expect_keys(0, 0);
	json_decref(ask("{\"op\":\"snapshot.create\",\"name\":\"a@s\"}", 0));
	teardown_cluster();
}

Test(snapshot_group, a_cut_that_cannot_be_is_not_made)
{
	static const struct {
		const char *members, *word;
	} wrong[] = {
		{ "\"number\":9,\"others\":[1]", "others: a volume is there twice" },
		{ "\"number\":9,\"others\":[-1]", "others: must be numbers" },
		{ "\"number\":9,\"others\":[\"4\"]", "others: must be numbers" },
		{ "\"number\":9,\"others\":[9223372036854775807]", "others: there are no such" },
		{ "\"number\":9,\"others\":7", "others" },
		{ "\"number\":1152921504606846975,\"others\":[2049]", "number: " },
		{ "\"number\":9,\"others\":[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,"
		  "25,26,27,28,29,30,31,32,33]",
		    "others: too many" },
	};
	char text[512];

	for (uint32_t i = 0; i < NUM_COUNT(wrong); i++) {
		(void)snprintf(text, sizeof(text),
		    "{\"op\":\"cut\",\"step\":\"begin\",%s,\"segment_base\":1,\"segment_count\":1}",
		    wrong[i].members);
		expect_refused(text, -EINVAL, wrong[i].word);
	}
	cr_assert_eq(shard_served_by(0)->cut, 0);
}

/* A group needs as many numbers as it has volumes: what it may leave behind is bounded, too. */
Test(snapshot_group, numbers_that_came_to_nothing_are_bounded)
{
	put_void_numbers(MT_SNAPSHOTS_VOID_MAX - 2);
	expect_refused(GROUP, -EAGAIN, "came to nothing");
	expect_keys(MT_SNAPSHOTS_VOID_MAX - 2, 0);
	change("snapshots/00000000000000000100", NULL);
	json_decref(ask(GROUP, 0));
	expect_keys(MT_SNAPSHOTS_VOID_MAX, 3);
}

/* ---- refused in the middle: none is there ---- */

static bool
is_asking(void *arg)
{
	(void)arg;
	return mt_taking_state(peers[0].gateway) == MT_TAKING_ASKING;
}

/* The group is asked for, and while it is being taken @key becomes @text. */
static void
expect_none(const char *key, const char *text, int rc, const char *word)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp.next_request_id++ };
	uint32_t count = qp.reply_count + 1, live, before = 0, keys;

	(void)key_count(&before);
	sg_send(&qp, &header, GROUP, sizeof(GROUP) - 1);
	cr_assert(mt_rig_run_until(rig, is_asking, NULL));
	change(key, text);
	cr_assert_leq(mt_taking_state(peers[0].gateway), MT_TAKING_NUMBERING, "it is too late");
	cr_assert(sg_wait_replies(&qp, count));
	cr_assert_eq(qp.replies[count - 1].header.status, status_from_errno(rc), "%s",
	    qp.replies[count - 1].text);
	cr_assert_not_null(strstr(qp.replies[count - 1].text, word), "%s",
	    qp.replies[count - 1].text);
	keys = key_count(&live);
	cr_assert_eq(live, before, "%u of %u keys are live", live, keys);
}

Test(snapshot_group, a_volume_that_is_resized_meanwhile_is_in_the_way_of_all)
{
	struct mt_volume volume = volume_of("b");
	char *text;

	volume.size_bytes *= 2;
	volume.segment_count = mt_volume_segment_count(volume.size_bytes);
	text = mt_volume_encode(&volume);
	expect_none("volumes/b", text, -EAGAIN, "volume 'b': it was resized");
	free(text);
	json_decref(ask(GROUP, 0));
}

Test(snapshot_group, a_volume_that_is_deleted_meanwhile_is_in_the_way_of_all)
{
	expect_none("volumes/c", NULL, -ENOENT, "'c'");
	expect_refused(GROUP, -ENOENT, "'c'");
}

/* Renamed, and another one has its name. */
Test(snapshot_group, a_volume_that_is_another_one_meanwhile_is_in_the_way_of_all)
{
	struct mt_volume volume = volume_of("c");
	char *text;

	volume.id += 10;
	volume.segment_base += 10 * MT_VOLUME_SEGMENTS;
	mt_scope_init(&volume.scope, volume.segment_base);
	text = mt_volume_encode(&volume);
	expect_none("volumes/c", text, -ENOENT, "'c'");
	free(text);
}

/* With a lower number, before ours was begun: what it held then would be in the snapshot, instead of what it holds. */
Test(snapshot_group, a_volume_that_is_rolled_back_meanwhile_is_in_the_way_of_all)
{
	struct mt_volume volume = volume_of("a");
	struct mt_scope below;
	char *text;

	json_decref(ask("{\"op\":\"snapshot.create\",\"name\":\"a@1\"}", 0));
	json_decref(ask("{\"op\":\"snapshot.create\",\"name\":\"a@2\"}", 0));
	mt_scope_before(&volume.scope, 1, &below);
	cr_assert_eq(mt_scope_above(volume.segment_base, 2, &below, &volume.scope), 0);
	text = mt_volume_encode(&volume);
	expect_none("volumes/a", text, -EAGAIN, "volume 'a': it was rolled back");
	free(text);
	json_decref(ask(GROUP, 0));
}

/* A shard that says that it will take part may be gone when it is asked to. */
static bool
lose_after_asking(void *arg)
{
	(void)arg;
	if (mt_taking_state(peers[0].gateway) == MT_TAKING_NUMBERING)
		unserved->sm.state = MT_SHARD_REPLAYING;
	return unserved->sm.state == MT_SHARD_REPLAYING;
}

Test(snapshot_group, a_shard_that_goes_leaves_all_numbers_void)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp.next_request_id++ };
	uint32_t count = qp.reply_count + 1;

	unserved = shard_served_by(1);
	sg_send(&qp, &header, GROUP, sizeof(GROUP) - 1);
	cr_assert(mt_rig_run_until(rig, lose_after_asking, NULL));
	cr_assert(sg_wait_replies(&qp, count));
	unserved->sm.state = MT_SHARD_SERVING;
	cr_assert_eq(qp.replies[count - 1].header.status, status_from_errno(-EAGAIN));
	cr_assert_not_null(strstr(qp.replies[count - 1].text, "is not served by anybody"));
	expect_keys(3, 0);
	cr_assert(mt_rig_logged(rig, "snapshot 1, and those taken with it: void"));
	json_decref(ask(GROUP, 0));
}

/* ---- the coordinator dies, at each step ---- */

static bool
has_no_keys(void *arg)
{
	uint32_t live;

	(void)arg;
	return key_count(&live) == 0;
}

static enum mt_taking_state wanted;

static bool
is_at_step(void *arg)
{
	(void)arg;
	return mt_taking_state(peers[0].gateway) == wanted;
}

/* Whoever finds the keys pending makes them void, and the shards forget them. */
Test(snapshot_group, none_is_there_when_the_coordinator_dies_before_the_last_transaction)
{
	for (wanted = MT_TAKING_ASKING; wanted < MT_TAKING_READY; wanted++) {
		struct wire_header header = { .opcode = WIRE_CONTROL,
			.request_id = qp.next_request_id++ };

		sg_send(&qp, &header, GROUP, sizeof(GROUP) - 1);
		cr_assert(mt_rig_run_until(rig, is_at_step, NULL), "step %d", (int)wanted);
		peer_kill(0);
		mt_rig_run(rig, NUM_S(1)); /* what was on its way to the store is there */
		cr_assert(mt_rig_run_until(rig, has_no_keys, NULL), "step %d", (int)wanted);
		sg_close(&qp);
		peer_start(0);
		(void)wait_shared(3);
		sg_connect(&sg, &qp, NULL);
		cr_assert_eq(sg_wait_open(&qp), 0);
	}
	json_decref(ask(GROUP, 0));
	expect_keys(3, 3);
}
