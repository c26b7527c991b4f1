/* SPDX-License-Identifier: Apache-2.0 */
/* test_control.c -- control requests: each operation, and each way to get one wrong */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/control/control_request.h"
#include "middletier/control/control_volume.h"
#include "middletier/manifest/edit.h"
#include "middletier/meta/meta_store.h"
#include "unit/control_rig.h"

TestSuite(control, .init = rig_setup, .fini = rig_teardown);

/* The request fails with @rc and a text that holds @word. */
static void
expect_error(const char *request, int rc, const char *word)
{
	refused(ask(rc, "%s", request), word);
}

/* The request succeeds; the caller drops the answer. */
static json_t *
expect_ok(const char *request)
{
	return ask(0, "%s", request);
}

Test(control, create_fills_in_what_the_class_means)
{
	json_t *answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":8192}");
	json_t *volume = json_object_get(answer, "volume");

	cr_assert_str_eq(json_string_value(json_object_get(volume, "name")), "a");
	cr_assert_str_eq(json_string_value(json_object_get(volume, "engine")), "lz4");
	cr_assert_str_eq(json_string_value(json_object_get(volume, "service_class")), "standard");
	cr_assert_eq(integer(volume, "id"), 1);
	cr_assert_eq(integer(volume, "size_bytes"), 8192);
	cr_assert_eq(integer(volume, "level"), 1);
	cr_assert_eq(integer(volume, "replicas"), 3);
	cr_assert_eq(integer(volume, "segment_base"), 1);
	cr_assert_eq(integer(volume, "segment_count"), 1);
	cr_assert_eq(integer(volume, "attach"), 0);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"b\",\"size_bytes\":70368744177664,"
			   "\"service_class\":\"capacity\",\"level\":9,\"replicas\":2}");
	volume = json_object_get(answer, "volume");
	cr_assert_str_eq(json_string_value(json_object_get(volume, "engine")), "zstd");
	cr_assert_eq(integer(volume, "level"), 9);
	cr_assert_eq(integer(volume, "replicas"), 2);
	cr_assert_eq(integer(volume, "segment_base"), 2049);
	cr_assert_eq(integer(volume, "segment_count"), 2048);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"c\",\"size_bytes\":4096,"
			   "\"service_class\":\"latency\"}");
	volume = json_object_get(answer, "volume");
	cr_assert_str_eq(json_string_value(json_object_get(volume, "engine")), "none");
	cr_assert_eq(integer(volume, "segment_base"), 4097);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"d\",\"size_bytes\":4096,"
			   "\"engine\":\"auto\"}");
	volume = json_object_get(answer, "volume");
	cr_assert_str_eq(json_string_value(json_object_get(volume, "engine")), "auto");
	cr_assert_eq(integer(volume, "level"), 0);
	json_decref(answer);
}

Test(control, create_names_what_is_wrong)
{
	static const struct {
		const char *members;
		const char *word;
	} cases[] = {
		{ "", "name" },
		{ ",\"name\":\"a\"", "size_bytes" },
		{ ",\"name\":1,\"size_bytes\":4096", "name" },
		{ ",\"name\":\"\",\"size_bytes\":4096", "name" },
		{ ",\"name\":\"-a\",\"size_bytes\":4096", "name" },
		{ ",\"name\":\".a\",\"size_bytes\":4096", "name" },
		{ ",\"name\":\"a/b\",\"size_bytes\":4096", "name" },
		{ ",\"name\":\"1234567890123456789012345678901234567890123456789012345678901234\","
		  "\"size_bytes\":4096",
		    "name" },
		{ ",\"name\":\"a\",\"size_bytes\":0", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":4097", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":-4096", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":\"4096\"", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":4096.0", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":70368744181760", "size_bytes" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"service_class\":\"gold\"",
		    "service_class" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"engine\":\"gzip\"", "engine" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"engine\":\"lz4\",\"level\":100", "level" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"level\":true", "level" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"replicas\":0", "replicas" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"replicas\":4", "replicas" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"replicas\":1", "replicas" },
		{ ",\"name\":\"a\",\"size_bytes\":4096,\"colour\":\"red\"", "colour" },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		char request[512];

		(void)snprintf(request, sizeof(request), "{\"op\":\"volume.create\"%s}",
		    cases[i].members);
		expect_error(request, -EINVAL, cases[i].word);
		sg_close(&qp);
		sg_connect(&sg, &qp, NULL);
		cr_assert_eq(sg_wait_open(&qp), 0);
	}
	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}"));
	expect_error("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}", -EEXIST,
	    "'a'");
}

Test(control, texts_that_are_no_request_are_refused)
{
	expect_error("", -EINVAL, "JSON");
	expect_error("{", -EINVAL, "JSON");
	expect_error("[]", -EINVAL, "JSON");
	expect_error("{}", -EINVAL, "op");
	expect_error("{\"op\":7}", -EINVAL, "op");
	expect_error("{\"op\":\"volume.paint\"}", -EINVAL, "volume.paint");
	expect_error("{\"op\":\"map\",\"op\":\"map\"}", -EINVAL, "JSON");
	expect_error("{\"op\":\"map\",\"x\":1}", -EINVAL, "x");
	expect_error("{\"op\":\"status\",\"name\":\"a\"}", -EINVAL, "name");
	expect_error("{\"op\":\"volume.list\",\"after\":5}", -EINVAL, "after");
	expect_error("{\"op\":\"slow\",\"after\":-1}", -EINVAL, "after");
	expect_error("{\"op\":\"slow\",\"volume\":\"a\"}", -EINVAL, "volume");
}

Test(control, list_is_sorted_and_comes_in_pages)
{
	json_t *answer, *volumes;

	for (unsigned i = 0; i < MT_VOLUMES_PER_LIST + 2; i++) {
		char request[128];
		int rc;

		/* Odd ones first, so that order of creation is not order of names. */
		(void)snprintf(request, sizeof(request),
		    "{\"op\":\"volume.create\",\"name\":\"v%03u\",\"size_bytes\":4096}",
		    (i * 37) % (MT_VOLUMES_PER_LIST + 2));
		if (i % 32 == 0) {
			sg_close(&qp);
			sg_connect(&sg, &qp, NULL);
			cr_assert_eq(sg_wait_open(&qp), 0);
		}
		answer = sg_control(&qp, request, &rc);
		cr_assert_eq(rc, 0);
		json_decref(answer);
	}
	answer = expect_ok("{\"op\":\"volume.list\"}");
	volumes = json_object_get(answer, "volumes");
	cr_assert_eq(json_array_size(volumes), MT_VOLUMES_PER_LIST);
	cr_assert(json_is_true(json_object_get(answer, "more")));
	for (size_t i = 1; i < json_array_size(volumes); i++)
		cr_assert(strcmp(json_string_value(
				     json_object_get(json_array_get(volumes, i - 1), "name")),
			      json_string_value(
				  json_object_get(json_array_get(volumes, i), "name"))) < 0);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"volume.list\",\"after\":\"v063\"}");
	cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 2);
	cr_assert(json_is_false(json_object_get(answer, "more")));
	json_decref(answer);
	/* Nothing is stored, and nobody is here: the page says as far as it goes, and no more. */
	answer = expect_ok("{\"op\":\"volume.use\"}");
	cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 0);
	cr_assert(json_is_true(json_object_get(answer, "more")));
	cr_assert_str_eq(json_string_value(json_object_get(answer, "last")), "v063");
	json_decref(answer);
	answer = expect_ok("{\"op\":\"volume.use\",\"after\":\"v063\"}");
	cr_assert(json_is_false(json_object_get(answer, "more")));
	json_decref(answer);
	expect_error("{\"op\":\"volume.use\",\"after\":7}", -EINVAL, "after");
	expect_error("{\"op\":\"volume.use\",\"name\":\"v001\"}", -EINVAL, "name");
}

Test(control, show_and_delete)
{
	json_t *usage, *figures;

	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}"));
	json_decref(expect_ok("{\"op\":\"volume.show\",\"name\":\"a\"}"));
	expect_error("{\"op\":\"volume.show\",\"name\":\"b\"}", -ENOENT, "'b'");
	expect_error("{\"op\":\"volume.show\"}", -EINVAL, "name");
	usage = expect_ok("{\"op\":\"volume.usage\",\"name\":\"a\"}");
	figures = json_object_get(usage, "usage");
	cr_assert(json_is_integer(json_object_get(figures, "shard_count")));
	cr_assert_eq(json_integer_value(json_object_get(figures, "run_bytes")), 0);
	cr_assert_eq(json_integer_value(json_object_get(figures, "session_count")), 0);
	json_decref(usage);
	expect_error("{\"op\":\"volume.usage\",\"name\":\"b\"}", -ENOENT, "'b'");
	expect_error("{\"op\":\"volume.usage\"}", -EINVAL, "name");
	expect_error("{\"op\":\"volume.usage\",\"name\":7}", -EINVAL, "name");
	expect_error("{\"op\":\"volume.delete\",\"name\":\"b\"}", -ENOENT, "'b'");
	expect_error("{\"op\":\"volume.delete\",\"name\":\"a\",\"force\":1}", -EINVAL, "force");
	/* Another volume of this name is meant. */
	expect_error("{\"op\":\"volume.delete\",\"name\":\"a\",\"id\":7,\"force\":true}", -ENOENT,
	    "'a' is another one by now");
	expect_error("{\"op\":\"volume.delete\",\"name\":\"a\",\"id\":0}", -EINVAL, "id");
	json_decref(expect_ok("{\"op\":\"volume.delete\",\"name\":\"a\",\"id\":1}"));
	expect_error("{\"op\":\"volume.show\",\"name\":\"a\"}", -ENOENT, "'a'");
	/* An id is never given again. */
	json_t *answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}");
	cr_assert_eq(integer(json_object_get(answer, "volume"), "id"), 2);
	cr_assert_eq(integer(json_object_get(answer, "volume"), "segment_base"), 2049);
	json_decref(answer);
}

/* Shard 0 mirrors them: as many as its manifest has room for. Deleting gives it back. */
Test(control, more_volumes_than_a_manifest_holds_are_refused)
{
	char request[128];
	uint32_t count = 0;

	rig_teardown();
	sg_init(&sg, 1);
	sg.options.manifest_bytes = 4096;
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
	/* Half of it, 124 bytes each, and room for the longest one more. */
	for (; count < (4096 / 2 - MT_EDIT_BYTES_MAX) / 124 + 1; count++) {
		(void)snprintf(request, sizeof(request),
		    "{\"op\":\"volume.create\",\"name\":\"v%u\",\"size_bytes\":4096}", count);
		json_decref(expect_ok(request));
	}
	expect_error("{\"op\":\"volume.create\",\"name\":\"more\",\"size_bytes\":4096}", -ENOSPC,
	    "12 volumes and 0 snapshots, deleted ones that shards have not dropped yet included, "
	    "take 1488 of 2048 bytes in shard 0's manifest: delete some");
	/* A client that has lost the answer asks again: that must not look like a failure. */
	expect_error("{\"op\":\"volume.create\",\"name\":\"v3\",\"size_bytes\":4096}", -EEXIST,
	    "'v3'");
	json_decref(expect_ok("{\"op\":\"volume.show\",\"name\":\"v1\"}"));
	json_decref(expect_ok("{\"op\":\"volume.delete\",\"name\":\"v0\"}"));
	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"more\",\"size_bytes\":4096}"));
}

Test(control, attach_counts_up_and_tells_the_map)
{
	json_t *answer, *map;

	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}"));
	answer = expect_ok(
	    "{\"op\":\"volume.attach\",\"name\":\"a\",\"session\":\"00000000000000Ab\"}");
	cr_assert_eq(integer(answer, "attach"), 1);
	map = json_object_get(answer, "map");
	cr_assert_eq(integer(map, "shard_count"), 4);
	cr_assert_eq(json_array_size(json_object_get(map, "ports")), 1);
	cr_assert_eq(json_array_size(json_object_get(map, "port_of_shard")), 4);
	cr_assert_eq(json_array_size(json_object_get(map, "epoch_of_shard")), 4);
	json_decref(answer);
	answer = expect_ok(
	    "{\"op\":\"volume.attach\",\"name\":\"a\",\"session\":\"00000000000000ac\","
	    "\"take\":true}");
	cr_assert_eq(integer(answer, "attach"), 2);
	json_decref(answer);
	expect_error("{\"op\":\"volume.attach\",\"name\":\"a\"}", -EINVAL, "session");
	expect_error("{\"op\":\"volume.attach\",\"name\":\"a\",\"session\":\"12\"}", -EINVAL,
	    "session");
	expect_error("{\"op\":\"volume.attach\",\"name\":\"a\",\"session\":\"000000000000000g\"}",
	    -EINVAL, "session");
	expect_error("{\"op\":\"volume.attach\",\"name\":\"b\",\"session\":\"0000000000000001\"}",
	    -ENOENT, "'b'");
}

Test(control, map_nodes_and_status)
{
	json_t *answer = expect_ok("{\"op\":\"map\"}");
	json_t *node, *port;

	cr_assert_eq(integer(json_object_get(answer, "map"), "shard_count"), 4);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"node.list\"}");
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 3);
	node = json_array_get(json_object_get(answer, "nodes"), 2);
	cr_assert_str_eq(json_string_value(json_object_get(node, "address")), "sim://node3:7200");
	cr_assert(json_is_string(json_object_get(node, "state")));
	(void)integer(node, "slots_free");
	json_decref(answer);
	answer = expect_ok("{\"op\":\"status\"}");
	cr_assert_str_eq(json_string_value(json_object_get(answer, "gateway")), "0000000000000001");
	cr_assert_eq(json_array_size(json_object_get(answer, "shards")), 4);
	port = json_array_get(json_object_get(answer, "ports"), 0);
	cr_assert_eq(integer(json_object_get(port, "metrics"), "sessions"), 1);
	(void)integer(json_object_get(port, "split"), "host_bytes_in");
	json_decref(answer);
}

Test(control, what_is_logged_and_what_is_slow_can_be_changed)
{
	enum log_level before = log_level_get();
	json_t *answer = expect_ok("{\"op\":\"gateway.set\"}");

	cr_assert_str_eq(json_string_value(json_object_get(answer, "log_level")),
	    log_level_choices[before]);
	json_decref(answer);
	answer = expect_ok(
	    "{\"op\":\"gateway.set\",\"log_level\":\"error\",\"slow_op_ns\":2000000}");
	cr_assert_eq(log_level_get(), LOG_ERROR);
	cr_assert_eq(integer(answer, "slow_op_ns"), 2000000);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"slow\"}");
	cr_assert_eq(integer(answer, "slow_op_ms"), 2);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"gateway.set\",\"slow_op_ns\":0}");
	cr_assert_eq(log_level_get(), LOG_ERROR, "as it was");
	json_decref(answer);
	expect_error("{\"op\":\"gateway.set\",\"log_level\":\"loud\"}", -EINVAL, "log_level");
	expect_error("{\"op\":\"gateway.set\",\"slow_op_ns\":3600000000001}", -EINVAL,
	    "slow_op_ns");
	expect_error("{\"op\":\"gateway.set\",\"slow_op\":1}", -EINVAL, "slow_op");
	expect_error("{\"op\":\"gateway.set\",\"by\":1}", -EINVAL, "by");
	/* Three changes: who has made each is kept, whatever the level of the log was. */
	answer = expect_ok("{\"op\":\"events\",\"after\":0}");
	unsigned count = 0;
	size_t i;
	json_t *event;
	json_array_foreach(json_object_get(answer, "events"), i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "code")), "gateway-set") != 0)
			continue;
		count++;
		cr_assert_not_null(strstr(json_string_value(json_object_get(event, "text")),
		    "cleave gateway set from="));
		cr_assert_not_null(json_object_get(event, "from"));
		cr_assert_null(json_object_get(event, "by"));
	}
	cr_assert_eq(count, 3);
	json_decref(answer);
	log_set_level(before);
}

Test(control, who_asks_is_told_by_its_name)
{
	json_t *answer, *event;
	const char *text;

	/* The quote would end the name in the line, and the line break the line. */
	json_decref(expect_ok("{\"op\":\"gateway.set\",\"slow_op_ns\":7000000,"
			      "\"by\":\"me[1]@a\\\" from=x\\n\"}"));
	answer = expect_ok("{\"op\":\"events\",\"after\":0,\"by\":\"reader\"}");
	event = json_array_get(json_object_get(answer, "events"),
	    json_array_size(json_object_get(answer, "events")) - 1);
	text = json_string_value(json_object_get(event, "text"));
	cr_assert_not_null(strstr(text, "cleave gateway set by=\"me[1]@a? from=x?\" from="), "%s",
	    text);
	cr_assert_str_eq(json_string_value(json_object_get(event, "by")), "me[1]@a? from=x?");
	cr_assert_null(strstr(json_string_value(json_object_get(event, "from")), "x"));
	json_decref(answer);
}

Test(control, sweep_tells_and_confirms)
{
	json_t *answer = expect_ok("{\"op\":\"sweep\"}");

	cr_assert_eq(json_array_size(json_object_get(answer, "orphans")), 0);
	cr_assert_eq(integer(answer, "total"), 0);
	json_decref(answer);
	answer = expect_ok("{\"op\":\"sweep\",\"confirm\":true}");
	cr_assert_eq(integer(answer, "confirmed"), 0);
	json_decref(answer);
	expect_error("{\"op\":\"sweep\",\"confirm\":1}", -EINVAL, "confirm");
	expect_error("{\"op\":\"sweep\",\"force\":true}", -EINVAL, "force");
}

/* A process that is stopped inside a commit holds the store's lock: durable keys wait for it, for as long as it likes. */
Test(control, who_looks_is_answered_while_the_store_stalls)
{
	static const char *const looks[] = {
		"{\"op\":\"volume.show\",\"name\":\"a\"}",
		"{\"op\":\"volume.list\"}",
		"{\"op\":\"volume.usage\",\"name\":\"a\"}",
		"{\"op\":\"volume.use\"}",
		"{\"op\":\"volume.open\",\"name\":\"a\"}",
		"{\"op\":\"snapshot.list\"}",
	};

	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":8192}"));
	meta_store_set_stalled(sg.store, true);
	for (uint32_t i = 0; i < NUM_COUNT(looks); i++)
		json_decref(expect_ok(looks[i]));
	meta_store_set_stalled(sg.store, false);
	expect_error("{\"op\":\"volume.show\",\"name\":\"b\"}", -ENOENT, "b");
	json_decref(expect_ok("{\"op\":\"volume.delete\",\"name\":\"a\"}"));
	expect_error(looks[0], -ENOENT, "a");
}

Test(control, a_look_that_waits_goes_with_its_gateway)
{
	static const char text[] = "{\"op\":\"volume.list\"}";
	const struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 7 };

	meta_store_set_stalled(sg.store, true);
	sg_send(&qp, &header, text, sizeof(text) - 1);
	sg_run_for(&sg, NUM_MS(10));
	sg_kill(&sg);
	sg_run_for(&sg, NUM_S(2));
	cr_assert_eq(qp.reply_count, 0);
}

Test(control, changes_survive_a_kill)
{
	json_t *answer;

	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}"));
	json_decref(expect_ok("{\"op\":\"volume.create\",\"name\":\"b\",\"size_bytes\":4096}"));
	json_decref(expect_ok("{\"op\":\"volume.delete\",\"name\":\"b\"}"));
	json_decref(expect_ok(
	    "{\"op\":\"volume.attach\",\"name\":\"a\",\"session\":\"0000000000000001\"}"));
	sg_kill(&sg);
	cr_assert(sg_wait_closed(&qp));
	sg_close(&qp);
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
	answer = expect_ok("{\"op\":\"volume.show\",\"name\":\"a\"}");
	cr_assert_eq(integer(json_object_get(answer, "volume"), "attach"), 1);
	json_decref(answer);
	expect_error("{\"op\":\"volume.show\",\"name\":\"b\"}", -ENOENT, "'b'");
	answer = expect_ok("{\"op\":\"volume.create\",\"name\":\"c\",\"size_bytes\":4096}");
	cr_assert_eq(integer(json_object_get(answer, "volume"), "id"), 3);
	json_decref(answer);
}

/* More at once than a port has slots for: the rest is told BUSY, and nothing is lost. */
Test(control, a_flood_is_pushed_back)
{
	static const char request[] = "{\"op\":\"status\"}";
	uint32_t ok_count = 0, busy_count = 0;

	for (uint32_t i = 0; i < 40; i++) {
		struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = i };

		sg_send(&qp, &header, request, sizeof(request) - 1);
	}
	cr_assert(sg_wait_replies(&qp, 40));
	for (uint32_t i = 0; i < 40; i++) {
		if (qp.replies[i].header.status == 0)
			ok_count++;
		else if (qp.replies[i].header.status == 18)
			busy_count++;
	}
	cr_assert_eq(ok_count + busy_count, 40);
	cr_assert_geq(ok_count, MT_CONTROL_IN_FLIGHT_MAX);
}

Test(control, a_header_out_of_range_closes_the_queue_pair)
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1, .vm_id = 7 };

	sg_send(&qp, &header, "{}", 2);
	cr_assert(sg_wait_closed(&qp));
}

Test(control, a_client_that_leaves_does_not_hurt)
{
	static const char request[] =
	    "{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}";
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };

	sg_send(&qp, &header, request, sizeof(request) - 1);
	sg_run_for(&sg, NUM_US(150)); /* it has arrived, and main asks the store */
	sg_close(&qp);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
	json_decref(expect_ok("{\"op\":\"volume.show\",\"name\":\"a\"}"));
}
