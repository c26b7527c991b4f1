/* SPDX-License-Identifier: Apache-2.0 */
/* test_member_clients.c -- several gateways: what one was told the others know */
#include <inttypes.h>

#include "unit/control_ask.h"
#include "unit/member_fixture.h"

TestSuite(member_clients, .init = setup, .fini = teardown);

static struct sg sg; /* the client's half of it */

static void
open_client(void)
{
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
}

static void
close_client(void)
{
	sg_client_close(&sg);
}

static void
connect_to(uint32_t index, struct sg_qp *qp, const struct wire_hello *hello)
{
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer%u:7100",
	    index);
	sg_connect(&sg, qp, hello);
}

#define ask(qp, text) control_want((qp), 0, "%s", (text))

Test(member_clients, a_volume_made_at_one_is_known_to_the_other_at_once)
{
	struct sg_qp qps[2];
	json_t *answer;

	open_client();
	for (uint32_t i = 0; i < 2; i++)
		connect_to(i, &qps[i], NULL);
	cr_assert(sg_wait_open(&qps[0]) == 0 && sg_wait_open(&qps[1]) == 0);
	json_decref(ask(&qps[0], "{\"op\":\"volume.create\",\"name\":\"a\",\"size_bytes\":4096}"));
	json_decref(ask(&qps[1], "{\"op\":\"volume.create\",\"name\":\"b\",\"size_bytes\":4096}"));
	answer = ask(&qps[0], "{\"op\":\"volume.show\",\"name\":\"b\"}");
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(answer, "volume"), "id")),
	    2);
	json_decref(answer);
	json_decref(ask(&qps[1], "{\"op\":\"volume.delete\",\"name\":\"a\"}"));
	answer = ask(&qps[0], "{\"op\":\"volume.list\"}");
	cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 1);
	json_decref(answer);
	sg_close(&qps[0]);
	sg_close(&qps[1]);
	close_client();
}

/* Both ask at the same moment: one of them meets the other's change, and is made again. */
Test(member_clients, changes_at_two_gateways_both_happen)
{
	static const char *const texts[2] = {
		"{\"op\":\"volume.create\",\"name\":\"x\",\"size_bytes\":4096}",
		"{\"op\":\"volume.create\",\"name\":\"y\",\"size_bytes\":4096}",
	};
	struct sg_qp qps[2];

	open_client();
	for (uint32_t i = 0; i < 2; i++)
		connect_to(i, &qps[i], NULL);
	cr_assert(sg_wait_open(&qps[0]) == 0 && sg_wait_open(&qps[1]) == 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = 1 };

		sg_send(&qps[i], &header, texts[i], (uint32_t)strlen(texts[i]));
	}
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert(sg_wait_replies(&qps[i], 1));
		cr_assert_eq(qps[i].replies[0].header.status, 0, "%s", qps[i].replies[0].text);
		sg_close(&qps[i]);
	}
	close_client();
}

Test(member_clients, an_attach_at_one_ends_older_sessions_at_the_other)
{
	struct wire_hello hello;
	struct sg_qp control, old, new;

	open_client();
	connect_to(1, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(
	    ask(&control, "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":65536}"));
	json_decref(ask(&control,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}"));
	/* Gateway 0 has not been told of either yet. */
	hello = sg_hello(1, 0xa, 1, 1);
	hello.cluster_id = 0;
	connect_to(0, &old, &hello);
	cr_assert_eq(sg_wait_open(&old), 0);
	json_decref(ask(&control,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000b\","
	    "\"take\":true}"));
	hello = sg_hello(1, 0xb, 2, 1);
	hello.cluster_id = 0;
	connect_to(0, &new, &hello);
	cr_assert_eq(sg_wait_open(&new), 0);
	cr_assert(sg_wait_closed(&old));
	/* A client that claims to be newer than anything is not let in. */
	hello.attach = 9;
	connect_to(0, &old, &hello);
	cr_assert_neq(sg_wait_open(&old), 0);
	sg_close(&new);
	sg_close(&control);
	close_client();
}

/* A session that was put out is told nothing: what it writes when the answer is there must find nobody. */
Test(member_clients, a_roll_back_at_one_has_ended_older_sessions_at_the_other)
{
	struct wire_hello hello;
	struct sg_qp control, old;

	open_client();
	connect_to(1, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(
	    ask(&control, "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":65536}"));
	json_decref(ask(&control, "{\"op\":\"snapshot.create\",\"name\":\"v@s\"}"));
	for (uint64_t attach = 1; attach < 40; attach += 2) {
		json_decref(ask(&control,
		    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}"));
		hello = sg_hello(1, 0xa, attach, 1);
		hello.cluster_id = 0;
		connect_to(0, &old, &hello);
		cr_assert_eq(sg_wait_open(&old), 0);
		json_decref(ask(&control,
		    "{\"op\":\"snapshot.rollback\",\"name\":\"v@s\",\"force\":true}"));
		cr_assert(old.is_closed, "attach %" PRIu64, attach);
		sg_close(&old);
	}
	sg_close(&control);
	close_client();
}

/* The session is connected to one, and another one is asked for the volume. */
Test(member_clients, a_writer_at_one_keeps_others_out_at_the_other)
{
	static const char text[] =
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000b\"}";
	struct wire_hello hello;
	struct sg_qp control, holder;
	int rc = 0;

	open_client();
	connect_to(1, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(
	    ask(&control, "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":65536}"));
	json_decref(ask(&control,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}"));
	hello = sg_hello(1, 0xa, 1, 1);
	hello.cluster_id = 0;
	connect_to(0, &holder, &hello);
	cr_assert_eq(sg_wait_open(&holder), 0);
	sg_run_for(&sg, NUM_S(30));
	json_decref(sg_control(&control, text, &rc));
	cr_assert_eq(rc, -EUSERS, "gateway 0 has it: %d", rc);
	/* The gateway dies: while it may live, and for the session time after that, nobody is let in. */
	peer_kill(0);
	cr_assert(sg_wait_closed(&holder));
	sg_close(&holder);
	for (uint32_t second = 0; second < 12; second++) {
		json_decref(sg_control(&control, text, &rc));
		cr_assert_eq(rc, -EUSERS, "after %u s: %d", second, rc);
		sg_run_for(&sg, NUM_S(1));
	}
	sg_run_for(&sg, NUM_S(4));
	json_decref(sg_control(&control, text, &rc));
	cr_assert_eq(rc, 0, "nobody came: %d", rc);
	sg_close(&control);
	close_client();
}

/* A gateway that gave its shards away says when it last heard of the session, whose time goes on. */
Test(member_clients, shards_that_are_given_away_keep_nobody_waiting)
{
	static const char text[] =
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000b\"}";
	struct sg_qp control;
	int rc = 0;

	made_cluster_at(rig->store, &rig->gateway_options, 2);
	open_client();
	connect_to(1, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	json_decref(
	    ask(&control, "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":65536}"));
	json_decref(ask(&control,
	    "{\"op\":\"volume.attach\",\"name\":\"v\",\"session\":\"000000000000000a\"}"));
	sg_run_for(&sg, NUM_S(6));
	json_decref(ask(&control, "{\"op\":\"gateway.drain\",\"gateway\":\"0000000000000001\"}"));
	drained_mask = 1;
	(void)wait_shared(3);
	json_decref(sg_control(&control, text, &rc));
	cr_assert_eq(rc, -EUSERS, "its time is not over: %d", rc);
	sg_run_for(&sg, NUM_S(5));
	json_decref(sg_control(&control, text, &rc));
	cr_assert_eq(rc, 0, "nobody came: %d", rc);
	sg_close(&control);
	close_client();
}

Test(member_clients, each_has_the_whole_map)
{
	static const char *const ops[2] = { "{\"op\":\"map\"}", "{\"op\":\"gateways\"}" };

	open_client();
	for (uint32_t i = 0; i < 2; i++) {
		struct sg_qp qp;
		json_t *answer, *map, *list;

		connect_to(i, &qp, NULL);
		cr_assert_eq(sg_wait_open(&qp), 0);
		answer = ask(&qp, ops[0]);
		map = json_object_get(answer, "map");
		cr_assert_eq(json_array_size(json_object_get(map, "ports")), 2);
		for (uint32_t shard = 0; shard < SHARDS; shard++) {
			char address[SPLIT_ADDRESS_BYTES_MAX];
			size_t port = (size_t)json_integer_value(
			    json_array_get(json_object_get(map, "port_of_shard"), shard));

			(void)snprintf(address, sizeof(address), "sim://peer%u:7100",
			    winner(3, shard));
			cr_assert_str_eq(json_string_value(
					     json_array_get(json_object_get(map, "ports"), port)),
			    address);
			cr_assert_eq(json_integer_value(
					 json_array_get(json_object_get(map, "epoch_of_shard"),
					     shard)),
			    shard_of(winner(3, shard), shard)->epoch);
		}
		json_decref(answer);
		answer = ask(&qp, ops[1]);
		list = json_object_get(answer, "gateways");
		cr_assert_eq(json_array_size(list), 2);
		for (uint32_t k = 0; k < 2; k++) {
			json_t *gateway = json_array_get(list, k);

			cr_assert_eq(json_integer_value(json_object_get(gateway, "shards_owned")),
			    count_served(k));
			cr_assert_eq(json_is_true(json_object_get(gateway, "self")), k == i);
			cr_assert_eq(json_object_get(gateway, "lease_left_ms") != NULL, k == i);
		}
		json_decref(answer);
		sg_close(&qp);
	}
	close_client();
}
