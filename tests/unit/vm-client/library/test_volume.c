/* SPDX-License-Identifier: Apache-2.0 */
/* test_volume.c -- volumes as texts, their names, their table and its changes */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/cluster/volume_refresh.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "support/sim_gateway.h"

static const struct mt_volume example = {
	.id = 7,
	.name = "disk.1",
	.size_bytes = CLEAVE_SEGMENT_BYTES + 4096,
	.segment_base = 3,
	.segment_count = 2,
	.service_class = SERVICE_CAPACITY,
	.codec_id = ENGINE_ZSTD,
	.level = 5,
	.replica_count = 2,
	.attach = 9,
	.session_id = UINT64_C(0xfedcba9876543210),
};

Test(volume, names)
{
	cr_assert(mt_volume_name_check("a") == NULL);
	cr_assert(mt_volume_name_check("A-z_0.9") == NULL);
	cr_assert(mt_volume_name_check(
		      "123456789012345678901234567890123456789012345678901234567890123") == NULL);
	cr_assert(mt_volume_name_check("") != NULL);
	cr_assert(mt_volume_name_check("-a") != NULL);
	cr_assert(mt_volume_name_check(".") != NULL);
	cr_assert(mt_volume_name_check("a b") != NULL);
	cr_assert(mt_volume_name_check("a/b") != NULL);
	cr_assert(mt_volume_name_check("\xc3\xa4") != NULL);
	cr_assert(mt_volume_name_check(
		      "1234567890123456789012345678901234567890123456789012345678901234") != NULL);
}

Test(volume, a_text_comes_back)
{
	char *text = mt_volume_encode(&example);
	struct mt_volume got = { 0 };
	const char *field = NULL;

	cr_assert_eq(mt_volume_decode("disk.1", text, (uint32_t)strlen(text), &got, &field), 0,
	    "%s", field);
	cr_assert_eq(got.id, example.id);
	cr_assert_str_eq(got.name, example.name);
	cr_assert_eq(got.size_bytes, example.size_bytes);
	cr_assert_eq(got.segment_base, example.segment_base);
	cr_assert_eq(got.segment_count, example.segment_count);
	cr_assert_eq(got.service_class, example.service_class);
	cr_assert_eq(got.codec_id, example.codec_id);
	cr_assert_eq(got.level, example.level);
	cr_assert_eq(got.replica_count, example.replica_count);
	cr_assert_eq(got.attach, example.attach);
	cr_assert_eq(got.session_id, example.session_id);
	free(text);
}

/* Each member away, and each of another kind, is an error that names it. */
Test(volume, broken_texts_are_named)
{
	static const char *const members[] = { "id", "size_bytes", "service_class", "engine",
		"level", "replicas", "segment_base", "segment_count", "attach", "session" };
	char *good = mt_volume_encode(&example);

	for (size_t i = 0; i < 2 * NUM_COUNT(members); i++) {
		const char *member = members[i / 2], *field = NULL;
		json_t *object = json_loads(good, 0, NULL);
		struct mt_volume got;
		char *text;

		if (i % 2 == 0)
			json_object_del(object, member);
		else
			json_object_set_new(object, member, json_array());
		text = json_dumps(object, 0);
		cr_assert_eq(mt_volume_decode("v", text, (uint32_t)strlen(text), &got, &field),
		    -EINVAL);
		cr_assert(strncmp(field, member, strlen(member)) == 0, "%s: %s", member, field);
		free(text);
		json_decref(object);
	}
	free(good);
}

static void
expect_bad_value(const char *member, json_t *value)
{
	char *good = mt_volume_encode(&example);
	json_t *object = json_loads(good, 0, NULL);
	struct mt_volume got;
	const char *field = NULL;
	char *text;

	json_object_set_new(object, member, value);
	text = json_dumps(object, 0);
	cr_assert_eq(mt_volume_decode("v", text, (uint32_t)strlen(text), &got, &field), -EINVAL,
	    "%s", text);
	free(text);
	json_decref(object);
	free(good);
}

Test(volume, values_out_of_range_are_refused)
{
	struct mt_volume got;
	const char *field;

	expect_bad_value("id", json_integer(0));
	expect_bad_value("id", json_integer((json_int_t)MT_SNAPSHOT_OF_VOLUME));
	expect_bad_value("attach", json_integer(INT64_MAX));
	expect_bad_value("origin", json_integer(INT64_MAX));
	expect_bad_value("segment_base", json_integer(INT64_MAX));
	expect_bad_value("segment_base", json_integer(INT64_C(1) << 55)); /* no clone has it */
	expect_bad_value("segment_base", json_integer(UINT32_MAX)); /* its second is a clone's */
	expect_bad_value("size_bytes", json_integer((json_int_t)CLEAVE_VOLUME_BYTES_MAX + 4096));
	expect_bad_value("service_class", json_string("gold"));
	expect_bad_value("engine", json_string("rar"));
	expect_bad_value("level", json_integer(1000));
	expect_bad_value("replicas", json_integer(4));
	expect_bad_value("segment_count", json_integer(1));
	expect_bad_value("session", json_string("xyz"));
	expect_bad_value("colour", json_string("red"));
	cr_assert_eq(mt_volume_decode("v", "[1]", 3, &got, &field), -EINVAL);
	cr_assert_eq(mt_volume_decode("v", "", 0, &got, &field), -EINVAL);
	cr_assert_eq(mt_volume_decode("a/b", "{}", 2, &got, &field), -EINVAL);
}

Test(volume, the_cluster_key_comes_back)
{
	struct mt_cluster cluster = { .cluster_id = 5,
		.shard_count = 8,
		.next_volume_id = 3,
		.next_segment = 17 };
	struct mt_cluster got = { 0 };
	const char *field = NULL;
	char *text = mt_cluster_encode(&cluster);

	cr_assert_eq(mt_cluster_decode(text, (uint32_t)strlen(text), &got, &field), 0, "%s", field);
	cr_assert_eq(got.cluster_id, 5);
	cr_assert_eq(got.shard_count, 8);
	cr_assert_eq(got.next_volume_id, 3);
	cr_assert_eq(got.next_segment, 17);
	free(text);
	cr_assert_eq(mt_cluster_decode("{\"format\":2}", 12, &got, &field), -EINVAL);
	cr_assert(strncmp(field, "format", 6) == 0, "%s", field);
}

Test(volume, place_in_the_cluster_key_comes_back)
{
	struct mt_cluster cluster = { .cluster_id = 5,
		.shard_count = 8,
		.next_volume_id = 3,
		.next_segment = 17,
		.place = "12@2026-01-02T03:04:05.000000006Z" };
	struct mt_cluster got = { 0 };
	const char *field = NULL;
	char *text = mt_cluster_encode(&cluster), *at;

	cr_assert_eq(mt_cluster_decode(text, (uint32_t)strlen(text), &got, &field), 0, "%s", field);
	cr_assert_str_eq(got.place, cluster.place);
	at = strstr(text, "12@");
	cr_assert_not_null(at);
	*at = '%'; /* it is for messages, too */
	cr_assert_eq(mt_cluster_decode(text, (uint32_t)strlen(text), &got, &field), -EINVAL);
	cr_assert_str_eq(field, "place");
	free(text);
}

/* Changes against a store that another gateway changes as well, or that loses answers. */

static void
ignore(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

struct outcome {
	bool is_done;
	int rc;
	struct mt_volume volume;
};

static void
on_change(int rc, const struct mt_volume *volume, void *arg)
{
	struct outcome *outcome = arg;

	outcome->is_done = true;
	outcome->rc = rc;
	outcome->volume = *volume;
}

static bool
is_done(void *arg)
{
	const struct outcome *outcome = arg;

	return outcome->is_done;
}

static int
create(struct sg *sg, const char *name)
{
	struct mt_volume wish = example;
	struct outcome outcome = { 0 };
	int rc;

	(void)snprintf(wish.name, sizeof(wish.name), "%s", name);
	rc = mt_volume_create(sg->gateway, &wish, on_change, &outcome);
	if (rc != 0)
		return rc;
	cr_assert(sg_run(sg, is_done, &outcome));
	return outcome.rc;
}

static void
start(struct sg *sg)
{
	sg_init(sg, 4);
	cr_assert_eq(sg_start(sg), 0, "%s", sg->error);
	sg_run_for(sg, NUM_MS(50));
}

/* Another clone would be given the segments of the first. */
Test(volume, a_cluster_has_so_many_and_no_more)
{
	struct mt_cluster *cluster;
	struct sg sg;

	start(&sg);
	cluster = &sg.gateway->cluster;
	cluster->next_segment = MT_ROOTS_MAX - MT_VOLUME_SEGMENTS + 1;
	cr_assert_eq(create(&sg, "a"), -ENOSPC);
	cluster->next_segment = MT_ROOTS_MAX - MT_VOLUME_SEGMENTS;
	cr_assert_eq(create(&sg, "a"), 0);
	cr_assert_eq(cluster->next_segment, MT_ROOTS_MAX);
	cr_assert_eq(create(&sg, "b"), -ENOSPC);
	cluster->next_segment = 1;
	cluster->next_volume_id = MT_NUMBER_MAX + 1;
	cr_assert_eq(create(&sg, "b"), -ENOSPC);
	sg_fini(&sg);
}

/* The numbers that a recovery leaves can be read, however few they are. */
Test(volume, numbers_are_skipped_up_to_the_last)
{
	struct mt_cluster cluster = { .cluster_id = 5,
		.shard_count = 8,
		.next_volume_id = MT_NUMBER_MAX - 3,
		.next_segment = MT_ROOTS_MAX - 3,
		.next_snapshot = MT_NUMBER_MAX - 3,
		.next_clone = CLEAVE_CLONE_MAX - 3 };
	const struct mt_cluster skipped = { .next_volume_id = 9,
		.next_segment = 9,
		.next_snapshot = 9,
		.next_clone = 9 };
	struct mt_cluster got = { 0 };
	const char *field = NULL;
	char *text;

	mt_cluster_skip(&cluster, &skipped);
	text = mt_cluster_encode(&cluster);
	cr_assert_eq(mt_cluster_decode(text, (uint32_t)strlen(text), &got, &field), 0, "%s", field);
	cr_assert_eq(got.next_volume_id, MT_NUMBER_MAX + 1);
	cr_assert_eq(got.next_segment, MT_ROOTS_MAX);
	cr_assert_eq(got.next_snapshot, MT_NUMBER_MAX + 1);
	cr_assert_eq(got.next_clone, CLEAVE_CLONE_MAX + 1);
	free(text);
}

Test(volume, the_table_finds_by_name_and_id)
{
	static const char *const names[] = { "m", "a", "z", "b" };
	struct mt_volumes *volumes;
	struct sg sg;

	start(&sg);
	volumes = &sg.gateway->volumes;
	for (size_t i = 0; i < NUM_COUNT(names); i++)
		cr_assert_eq(create(&sg, names[i]), 0);
	cr_assert_eq(create(&sg, "b"), -EEXIST);
	cr_assert_eq(volumes->count, 4);
	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		struct mt_volume_entry *entry = mt_volumes_by_name(volumes, names[i]);

		cr_assert(entry != NULL);
		cr_assert_eq(entry->volume.id, i + 1);
		cr_assert(mt_volumes_by_id(volumes, i + 1) == entry);
	}
	cr_assert(mt_volumes_by_name(volumes, "aa") == NULL);
	cr_assert(mt_volumes_by_id(volumes, 5) == NULL);
	cr_assert_eq(mt_volumes_after(volumes, ""), 0);
	cr_assert_eq(mt_volumes_after(volumes, "b"), 2);
	cr_assert_eq(mt_volumes_after(volumes, "zz"), 4);
	sg_fini(&sg);
}

Test(volume, one_change_at_a_time)
{
	struct mt_volume wish = example;
	struct outcome outcome = { 0 };
	struct sg sg;

	start(&sg);
	cr_assert_eq(mt_volume_create(sg.gateway, &wish, on_change, &outcome), 0);
	cr_assert_eq(mt_volume_create(sg.gateway, &wish, on_change, &outcome), -EBUSY);
	cr_assert(sg_run(&sg, is_done, &outcome));
	cr_assert_eq(outcome.rc, 0);
	sg_fini(&sg);
}

/* Somebody else's change is noticed, read, and the next try succeeds. */
Test(volume, a_conflict_is_told_and_healed)
{
	struct sg sg;
	char *text;

	start(&sg);
	{
		struct mt_cluster cluster = sg.gateway->cluster;
		struct meta_op op = { .kind = META_PUT, .key = "cluster" };

		cluster.next_volume_id = 40;
		text = mt_cluster_encode(&cluster);
		op.value = text;
		op.value_bytes = (uint32_t)strlen(text);
		cr_assert_eq(sg.meta->ops->txn(sg.meta, &op, 1, ignore, NULL), 0);
		sg_run_for(&sg, NUM_MS(10));
		free(text);
	}
	cr_assert_eq(create(&sg, "v"), -EAGAIN);
	cr_assert_eq(create(&sg, "v"), 0);
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.id, 40);
	sg_fini(&sg);
}

/* An answer that got lost: whatever happened, the table says so afterwards. */
Test(volume, a_lost_answer_is_looked_up)
{
	struct sg sg;
	int rc;

	start(&sg);
	meta_store_set_timeouts(sg.store, 0, 1000);
	rc = create(&sg, "v");
	cr_assert_eq(rc, -ETIMEDOUT);
	meta_store_set_timeouts(sg.store, 0, 0);
	/* The reads were lost as well: the next change meets a conflict, and heals it. */
	rc = create(&sg, "w");
	cr_assert(rc == -EAGAIN || rc == 0);
	cr_assert(create(&sg, "w") == (rc == 0 ? -EEXIST : 0));
	sg_fini(&sg);
}

/* Reading anew. */

struct fresh {
	struct mt_volumes_waiter waiter;
	uint32_t count;
	int rc;
};

static void
on_fresh(int rc, void *arg)
{
	struct fresh *fresh = arg;

	fresh->rc = rc;
	fresh->count++;
}

static bool
is_fresh(void *arg)
{
	return ((const struct fresh *)arg)->count > 0;
}

static void
refresh(struct sg *sg, struct fresh *fresh)
{
	*fresh = (struct fresh){ .waiter = { .fn = on_fresh, .arg = fresh }, .rc = 1 };
	mt_volumes_refresh(sg->gateway, &fresh->waiter);
}

/* As another gateway would. */
static void
put_key(struct sg *sg, const char *key, const char *text)
{
	struct meta *meta = meta_memory_open(sg->store, sg->client_loop);
	const struct meta_op op = { .kind = text == NULL ? META_DELETE : META_PUT,
		.key = key,
		.value = text,
		.value_bytes = text == NULL ? 0 : (uint32_t)strlen(text) };

	cr_assert_eq(meta->ops->txn(meta, &op, 1, ignore, NULL), 0);
	sg_run_for(sg, NUM_MS(5));
	meta->ops->close(meta);
}

static void
put_volume(struct sg *sg, const char *key, uint64_t id, uint64_t attach)
{
	struct mt_volume volume = example;
	char *text;

	volume.id = id;
	volume.attach = attach;
	text = mt_volume_encode(&volume);
	put_key(sg, key, text);
	free(text);
}

Test(volume, who_asks_during_a_reading_gets_the_next_one)
{
	struct fresh first, second, third;
	struct sg sg;

	start(&sg);
	refresh(&sg, &first);
	refresh(&sg, &second);
	refresh(&sg, &third);
	cr_assert(sg_run(&sg, is_fresh, &first));
	cr_assert_eq(second.count, 0, "the reading had begun before");
	cr_assert(sg_run(&sg, is_fresh, &second));
	cr_assert(first.rc == 0 && second.rc == 0 && third.rc == 0);
	cr_assert_eq(third.count, 1, "one reading for both");
	sg_fini(&sg);
}

Test(volume, what_has_not_changed_is_not_decoded_again)
{
	struct mt_volume_entry *same, *other;
	struct fresh fresh;
	struct sg sg;

	start(&sg);
	cr_assert_eq(create(&sg, "same"), 0);
	cr_assert_eq(create(&sg, "other"), 0);
	sg_run_for(&sg, NUM_MS(50));
	same = mt_volumes_by_name(&sg.gateway->volumes, "same");
	same->volume.level = 77; /* its text does not say so */
	put_volume(&sg, "volumes/other", 2, example.attach + 5);
	refresh(&sg, &fresh);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	same = mt_volumes_by_name(&sg.gateway->volumes, "same");
	other = mt_volumes_by_name(&sg.gateway->volumes, "other");
	cr_assert_eq(same->volume.level, 77);
	cr_assert_eq(other->volume.attach, example.attach + 5, "another version is read");
	sg_fini(&sg);
}

Test(volume, a_reading_that_a_change_overlaps_is_made_again)
{
	struct mt_volume wish = example;
	struct outcome outcome = { 0 };
	struct fresh fresh;
	struct sg sg;

	start(&sg);
	refresh(&sg, &fresh);
	cr_assert_eq(mt_volume_create(sg.gateway, &wish, on_change, &outcome), 0);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	cr_assert_eq(fresh.rc, 0);
	cr_assert(outcome.is_done, "not before the change");
	cr_assert(mt_volumes_by_name(&sg.gateway->volumes, example.name) != NULL);
	/* And the other way round: asked for while a change is made. */
	outcome.is_done = false;
	cr_assert_eq(mt_volume_attach(sg.gateway, example.name, 5, &example.holder, on_change,
			 &outcome),
	    0);
	refresh(&sg, &fresh);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	cr_assert(outcome.is_done);
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, example.name)->volume.attach,
	    example.attach + 1);
	sg_fini(&sg);
}

Test(volume, changes_of_others_are_seen_without_being_asked_for)
{
	struct mt_volumes *volumes;
	struct sg sg;

	start(&sg);
	volumes = &sg.gateway->volumes;
	put_volume(&sg, "volumes/a", 3, 0);
	sg_run_for(&sg, NUM_MS(20));
	cr_assert(mt_volumes_by_name(volumes, "a") != NULL);
	put_volume(&sg, "volumes/a", 3, 4);
	put_volume(&sg, "volumes/b", 4, 0);
	sg_run_for(&sg, NUM_MS(20));
	cr_assert_eq(mt_volumes_by_name(volumes, "a")->volume.attach, 4);
	cr_assert_eq(mt_volumes_by_name(volumes, "a")->told_attach, 4, "its ports were told");
	put_key(&sg, "volumes/a", NULL);
	sg_run_for(&sg, NUM_MS(20));
	cr_assert(mt_volumes_by_name(volumes, "a") == NULL);
	/* Another one by the same name. */
	put_volume(&sg, "volumes/b", 9, 0);
	sg_run_for(&sg, NUM_MS(20));
	cr_assert_eq(mt_volumes_by_name(volumes, "b")->volume.id, 9);
	sg_fini(&sg);
}

Test(volume, a_store_that_is_away_leaves_the_table_as_it_was)
{
	struct fresh fresh;
	struct sg sg;

	start(&sg);
	cr_assert_eq(create(&sg, "v"), 0);
	meta_memory_cut_off(sg.meta, true);
	put_volume(&sg, "volumes/w", 7, 0);
	refresh(&sg, &fresh);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	cr_assert_eq(fresh.rc, -ETIMEDOUT);
	cr_assert(mt_volumes_by_name(&sg.gateway->volumes, "v") != NULL);
	cr_assert(sg.gateway->volumes.is_loaded);
	meta_memory_cut_off(sg.meta, false);
	sg_run_for(&sg, NUM_S(5));
	cr_assert(mt_volumes_by_name(&sg.gateway->volumes, "w") != NULL);
	sg_fini(&sg);
}

Test(volume, a_store_of_another_cluster_is_not_believed)
{
	struct mt_cluster cluster;
	struct fresh fresh;
	struct sg sg;
	char *text;

	start(&sg);
	cr_assert_eq(create(&sg, "v"), 0);
	cluster = sg.gateway->cluster;
	cluster.shard_count++;
	text = mt_cluster_encode(&cluster);
	put_key(&sg, "cluster", text);
	free(text);
	refresh(&sg, &fresh);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	cr_assert_eq(fresh.rc, -EBADMSG);
	cr_assert_eq(sg.gateway->cluster.shard_count, 4);
	put_key(&sg, "cluster", NULL);
	refresh(&sg, &fresh);
	cr_assert(sg_run(&sg, is_fresh, &fresh));
	cr_assert_eq(fresh.rc, -EBADMSG);
	cr_assert(mt_volumes_by_name(&sg.gateway->volumes, "v") != NULL);
	sg_fini(&sg);
}

Test(volume, a_gateway_that_is_killed_answers_nobody)
{
	struct fresh fresh, late;
	struct sg sg;

	start(&sg);
	refresh(&sg, &fresh);
	refresh(&sg, &late);
	sg_kill(&sg);
	cr_assert_eq(fresh.rc, -ECANCELED);
	cr_assert_eq(late.rc, -ECANCELED);
	sg_fini(&sg);
}

Test(volume, a_refresh_out_of_memory_says_so)
{
	struct fresh fresh;
	struct sg sg;
	uint32_t nth;

	start(&sg);
	cr_assert_eq(create(&sg, "v"), 0);
	for (nth = 1;; nth++) {
		mt_alloc_fail_at(nth);
		refresh(&sg, &fresh);
		cr_assert(sg_run(&sg, is_fresh, &fresh));
		if (!mt_alloc_has_failed())
			break;
		mt_alloc_fail_at(0);
		cr_assert(fresh.rc == -ENOMEM || fresh.rc == 0 || fresh.rc == -ETIMEDOUT ||
			fresh.rc == -EIO,
		    "%u: %d", nth, fresh.rc);
		cr_assert(mt_volumes_by_name(&sg.gateway->volumes, "v") != NULL);
		cr_assert_lt(nth, 100);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(fresh.rc, 0);
	sg_fini(&sg);
}
