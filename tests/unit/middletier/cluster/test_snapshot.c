/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot.c -- taking a snapshot of a cluster of two gateways: which numbers are used up, and how many */
#include <jansson.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/snapshot.h"
#include "middletier/common/shard.h"
#include "middletier/meta/meta_store.h"
#include "middletier/write/cut.h"
#include "middletier/write/write_path.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define NOBODYS_BITS "0" /* of another number of shards: such a mark is never cleared */
#define ALL_BITS "fff"
#define FIRST_NUMBER 100u

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;
static struct mt_shard *unserved; /* a shard of a test's */

#define ask(text, want_rc) control_want(&qp, (want_rc), "%s", (text))

static void
setup_cluster(void)
{
	setup();
	two_gateways_up(&sg, &qp);
	json_decref(ask("{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1073741824}", 0));
}

static void
teardown_cluster(void)
{
	sg_close(&qp);
	sg_client_close(&sg);
	teardown();
}

TestSuite(snapshot, .init = setup_cluster, .fini = teardown_cluster);

/* ---- what is in the store ---- */

static uint32_t
key_count(void)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(rig->store, MT_SNAPSHOT_PREFIX, &items, &count), 0);
	free(items);
	return count;
}

static bool
has_no_keys(void *arg)
{
	(void)arg;
	return key_count() == 0;
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

static void
put(const char *key, const char *text)
{
	struct meta *meta = peers[0].meta;
	const struct meta_op op = { .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	bool is_done = false;

	cr_assert_eq(meta->ops->txn(meta, &op, 1, on_put, &is_done), 0);
	cr_assert(mt_rig_run_until(rig, is_set, &is_done));
}

/* The next snapshot's number is @number, if it was not greater. */
static void
go_on_from(uint64_t number)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	json_t *cluster;
	char *text;

	cr_assert_eq(meta_store_list(rig->store, "cluster", &items, &count), 0);
	cr_assert_eq(count, 1);
	cluster = json_loadb(items[0].value, items[0].value_bytes, 0, NULL);
	free(items);
	if (json_integer_value(json_object_get(cluster, "next_snapshot")) < (json_int_t)number)
		json_object_set_new(cluster, "next_snapshot", json_integer((json_int_t)number));
	text = json_dumps(cluster, JSON_COMPACT);
	json_decref(cluster);
	put("cluster", text);
	free(text);
}

/* Deleted ones; @created_s 0: they came to nothing. */
static void
put_numbers(uint32_t count, uint64_t created_s, const char *waiting)
{
	go_on_from(FIRST_NUMBER + count);
	for (uint32_t i = 0; i < count; i++) {
		struct mt_snapshot snapshot = { .number = FIRST_NUMBER + i,
			.volume_id = 1,
			.size_bytes = NUM_GIB(1),
			.segment_base = 1,
			.segment_count = 1,
			.created_s = created_s,
			.state = MT_SNAPSHOT_DELETED };
		char key[MT_SNAPSHOT_KEY_BYTES];
		char *text;

		(void)snprintf(snapshot.name, sizeof(snapshot.name), "s");
		mt_scope_init(&snapshot.scope, 1);
		text = mt_snapshot_encode(&snapshot, waiting);
		cr_assert_not_null(text);
		mt_snapshot_key(snapshot.number, key);
		put(key, text);
		free(text);
	}
}

/* ---- asking ---- */

static void
expect_taken(const char *name)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "{\"op\":\"snapshot.create\",\"name\":\"v@%s\"}", name);
	json_decref(ask(text, 0));
}

/* The request fails with a text that has @word in it. */
static void
expect_refused(const char *word)
{
	json_t *answer = ask("{\"op\":\"snapshot.create\",\"name\":\"v@no\"}", -EAGAIN);
	const char *text = json_string_value(json_object_get(answer, "error"));

	cr_assert(text != NULL && strstr(text, word) != NULL, "%s: %s", word, text);
	json_decref(answer);
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

/* Without a number nothing is left behind, however often it is tried. */
Test(snapshot, a_shard_that_is_not_served_costs_no_number)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct mt_shard *shard = shard_served_by(i);

		shard->sm.state = MT_SHARD_REPLAYING;
		expect_refused("is not served by anybody");
		cr_assert_eq(key_count(), 0, "gateway %u", i);
		shard->sm.state = MT_SHARD_SERVING;
	}
	expect_taken("a");
	cr_assert_eq(key_count(), 1);
	cr_assert_eq(shard_served_by(0)->cut, 1);
	cr_assert_eq(shard_served_by(1)->cut, 1);
}

/* Nor does one that holds already, has no lease, or knows of a greater number. */
Test(snapshot, a_shard_that_would_refuse_costs_no_number)
{
	struct mt_shard *shard = shard_served_by(1);

	shard->cut = 5;
	expect_refused("shard");
	shard->cut = 0;
	shard->write->cut.sm.state = MT_CUT_BROKEN;
	expect_refused("shard");
	shard->write->cut.sm.state = MT_CUT_IDLE;
	cr_assert_eq(key_count(), 0);
	expect_taken("a");
	cr_assert_eq(shard->cut, 1);
}

/* A snapshot of a volume that was rolled back above it: the key "cluster" is of before, or damaged. */
Test(snapshot, a_number_below_what_the_volume_names_is_not_taken)
{
	struct mt_volume volume = mt_volumes_by_name(&peers[0].gateway->volumes, "v")->volume;
	struct mt_scope below;
	char *text;

	mt_scope_before(&volume.scope, 3, &below);
	cr_assert_eq(mt_scope_above(volume.segment_base, 50, &below, &volume.scope), 0);
	text = mt_volume_encode(&volume);
	put("volumes/v", text);
	free(text);
	json_decref(ask("{\"op\":\"snapshot.create\",\"name\":\"v@s\"}", -EBADMSG));
	cr_assert_eq(key_count(), 0);
	cr_assert(mt_rig_logged(rig, "none can be taken of volume v"));
}

Test(snapshot, a_cut_that_cannot_be_is_not_made)
{
	json_decref(ask("{\"op\":\"cut\",\"step\":\"begin\",\"number\":9223372036854775807,"
			"\"segment_base\":1,\"segment_count\":1}",
	    -EINVAL));
	json_decref(ask("{\"op\":\"cut\",\"step\":\"begin\",\"number\":9,"
			"\"segment_base\":9223372036854775807,\"segment_count\":1}",
	    -EINVAL));
	cr_assert_eq(shard_served_by(0)->cut, 0);
}

static bool
is_asking(void *arg)
{
	(void)arg;
	return mt_taking_state(peers[0].gateway) == MT_TAKING_ASKING;
}

/* I5: of a volume that grew before the cut, the old size would show a later write without an earlier one. */
Test(snapshot, a_volume_that_is_resized_meanwhile_has_none)
{
	static const char text[] = "{\"op\":\"snapshot.create\",\"name\":\"v@no\"}";
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp.next_request_id++ };
	uint32_t count = qp.reply_count + 1;
	struct mt_volume volume = mt_volumes_by_name(&peers[0].gateway->volumes, "v")->volume;
	char *grown;

	volume.size_bytes *= 2;
	volume.segment_count = mt_volume_segment_count(volume.size_bytes);
	grown = mt_volume_encode(&volume);
	sg_send(&qp, &header, text, sizeof(text) - 1);
	cr_assert(mt_rig_run_until(rig, is_asking, NULL));
	put("volumes/v", grown);
	free(grown);
	cr_assert_leq(mt_taking_state(peers[0].gateway), MT_TAKING_NUMBERING, "it is too late");
	cr_assert(sg_wait_replies(&qp, count));
	cr_assert_eq(qp.replies[count - 1].header.status, status_from_errno(-EAGAIN));
	cr_assert_not_null(strstr(qp.replies[count - 1].text, "resized"), "%s",
	    qp.replies[count - 1].text);
	expect_taken("a");
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

static void
come_to_nothing(void)
{
	static const char text[] = "{\"op\":\"snapshot.create\",\"name\":\"v@no\"}";
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp.next_request_id++ };
	uint32_t count = qp.reply_count + 1;

	unserved = shard_served_by(1);
	sg_send(&qp, &header, text, sizeof(text) - 1);
	cr_assert(mt_rig_run_until(rig, lose_after_asking, NULL));
	cr_assert(sg_wait_replies(&qp, count));
	unserved->sm.state = MT_SHARD_SERVING;
	cr_assert_eq(qp.replies[count - 1].header.status, status_from_errno(-EAGAIN));
	cr_assert_not_null(strstr(qp.replies[count - 1].text, "is not served by anybody"), "%s",
	    qp.replies[count - 1].text);
}

Test(snapshot, numbers_that_came_to_nothing_are_bounded)
{
	put_numbers(MT_SNAPSHOTS_VOID_MAX - 1, 0, NOBODYS_BITS);
	come_to_nothing();
	cr_assert_eq(key_count(), MT_SNAPSHOTS_VOID_MAX);
	expect_refused("came to nothing");
	cr_assert_eq(key_count(), MT_SNAPSHOTS_VOID_MAX, "that one left a number behind");
	/* Dropped, they are in nobody's way. */
	put_numbers(MT_SNAPSHOTS_VOID_MAX - 1, 0, ALL_BITS);
	cr_assert(mt_rig_run_until(rig, has_no_keys, NULL));
	expect_taken("a");
}

/* Whoever deletes many at once may go on taking others. */
Test(snapshot, numbers_that_were_snapshots_do_not_count)
{
	put_numbers(MT_SNAPSHOTS_VOID_MAX, 1, NOBODYS_BITS);
	expect_taken("a");
}
