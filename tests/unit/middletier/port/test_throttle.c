/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_throttle.c -- clients that keep no limits: what a port holds of them, in which order, and how much
 *
 * Shards wait for nodes that never come: what is let go is parked there, in order. A limit of one operation a second
 * lets six go at once (250 ms and 5 s of it), so that a test sends few.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/control/control_request.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/throttle.h"
#include "middletier/port/waits.h"
#include "middletier/write/write_path.h"
#include "support/made_cluster.h"
#include "support/sim_gateway.h"

#define FREE_COUNT 6u /* what one operation a second lets go at once */
#define HELD_MAX 4u   /* of one volume, at a port as small as this */

static struct sg sg;
static struct sg_qp control;

static int
ask_gateway(const char *text)
{
	int rc = 0;
	json_t *answer = sg_control(&control, text, &rc);

	json_decref(answer);
	return rc;
}

static void
command(const char *text)
{
	int rc = ask_gateway(text);

	cr_assert_eq(rc, 0, "%s: %d", text, rc);
}

static void
begin(uint32_t level)
{
	sg_init(&sg, 3);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	if (level > CLEAVE_LEVEL_MIN)
		made_cluster_raise(sg.store, level);
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	command("{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1048576}");
	command("{\"op\":\"volume.create\",\"name\":\"w\",\"size_bytes\":1048576}");
}

static void
setup(void)
{
	begin(CLEAVE_LEVEL_LIMITS);
}

static void
teardown(void)
{
	sg_close(&control);
	sg_fini(&sg);
}

TestSuite(throttle, .init = setup, .fini = teardown);

static struct mt_port *
port(void)
{
	return &sg.gateway->ports[0];
}

static void
open_volume(struct sg_qp *qp, const char *name, uint64_t volume_id, uint64_t session_id,
    uint8_t level)
{
	struct wire_hello hello = sg_hello(volume_id, session_id, 1, 1);
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.attach\",\"name\":\"%s\",\"session\":\"%016" PRIx64
	    "\",\"take\":true}",
	    name, session_id);
	command(text);
	hello.level = level;
	sg_connect(&sg, qp, &hello);
	cr_assert_eq(sg_wait_open(qp), 0);
}

/* One-block writes at rising offsets. */
static void
send_writes(struct sg_qp *qp, uint64_t segment, uint32_t count)
{
	static uint8_t block[4096];
	static uint32_t next;

	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = sg_io(WIRE_WRITE, segment, next++ % 256 * 4096,
		    sizeof(block), port()->shards[0].epoch);

		header.payload_crc = crc32c(0, block, sizeof(block));
		header.vm_id = next;
		sg_send(qp, &header, block, sizeof(block));
	}
	sg_run_for(&sg, NUM_MS(1));
}

static uint64_t
segment_of(const char *name)
{
	return mt_volumes_by_name(&sg.gateway->volumes, name)->volume.segment_base;
}

static uint32_t
parked_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port()->shard_count; i++) {
		struct loop_link *link, *next;

		LIST_FOREACH_SAFE(&port()->shards[i].write->parked[WRITE_LINE_OTHERS], link, next)
			count++;
	}
	return count;
}

static uint32_t
busy_count(const struct sg_qp *qp)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < qp->reply_count; i++)
		count += status_to_errno(qp->replies[i].header.status) == -EBUSY;
	return count;
}

Test(throttle, a_volume_has_its_part_of_the_room_and_no_more)
{
	struct sg_qp v, w;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	command("{\"op\":\"volume.set\",\"name\":\"w\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_MAX);
	open_volume(&w, "w", 2, 0xb, CLEAVE_LEVEL_MAX);
	cr_assert_eq(port()->throttle->volume_held_max, HELD_MAX);
	send_writes(&v, segment_of("v"), FREE_COUNT + HELD_MAX + 5);
	cr_assert_eq(parked_count(), FREE_COUNT, "%u", parked_count());
	cr_assert_eq(port()->throttle->held_count, HELD_MAX);
	cr_assert_eq(busy_count(&v), 5);
	send_writes(&w, segment_of("w"), FREE_COUNT + HELD_MAX);
	cr_assert_eq(busy_count(&w), 0, "the other volume has its own part");
	cr_assert_eq(port()->throttle->held_count, 2 * HELD_MAX);
	sg_close(&v);
	sg_close(&w);
}

Test(throttle, what_is_held_goes_in_order_one_by_one)
{
	struct sg_qp v;
	uint32_t last = 0;
	struct loop_link *link, *next;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_MAX);
	send_writes(&v, segment_of("v"), FREE_COUNT + 3);
	cr_assert_eq(mt_shard_wait(&port()->shards[0]), MT_WAIT_TAKEOVER, "that is told first");
	cr_assert(mt_throttle_holds(port(), 0) || mt_throttle_holds(port(), 1));
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(parked_count(), FREE_COUNT + i, "after %u s", i);
		sg_run_for(&sg, NUM_S(1));
	}
	cr_assert_eq(port()->throttle->held_count, 0);
	cr_assert_eq(mt_gateway_metric(sg.gateway, MT_METRIC_requests_held), 3);
	LIST_FOREACH_SAFE(&port()->shards[0].write->parked[WRITE_LINE_OTHERS], link, next) {
		cr_assert_gt(write_of(link)->io.vm_id, last, "in order of arrival");
		last = write_of(link)->io.vm_id;
	}
	sg_close(&v);
}

Test(throttle, limits_that_are_lifted_let_all_go)
{
	struct sg_qp v;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_MAX);
	send_writes(&v, segment_of("v"), FREE_COUNT + HELD_MAX);
	cr_assert_eq(parked_count(), FREE_COUNT);
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	cr_assert_eq(parked_count(), FREE_COUNT, "the same again refills nothing");
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":0}");
	cr_assert_eq(parked_count(), FREE_COUNT + HELD_MAX);
	cr_assert_eq(port()->throttle->held_count, 0);
	send_writes(&v, segment_of("v"), 10);
	cr_assert_eq(parked_count(), FREE_COUNT + HELD_MAX + 10);
	sg_close(&v);
}

/* I11: it was not begun, and its client has given it up. */
Test(throttle, what_is_held_goes_with_its_session)
{
	uint32_t free_count = split_port_receives_free(port()->split);
	struct sg_qp v, again;
	struct wire_hello hello = sg_hello(1, 0xa, 1, 2);

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_MAX);
	send_writes(&v, segment_of("v"), FREE_COUNT + HELD_MAX);
	sg_connect(&sg, &again, &hello);
	cr_assert_eq(sg_wait_open(&again), 0);
	cr_assert(sg_wait_closed(&v));
	cr_assert_eq(port()->throttle->held_count, 0);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_leq(split_port_receives_free(port()->split), free_count);
	send_writes(&again, segment_of("v"), 1);
	cr_assert_eq(port()->throttle->held_count, 1, "who comes again finds the bucket as it was");
	sg_close(&again);
}

Test(throttle, what_is_refused_costs_nothing)
{
	struct sg_qp v;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_MAX);
	for (uint32_t i = 0; i < 20; i++) {
		struct wire_header header = sg_io(WIRE_READ, segment_of("v"), NUM_MIB(1), 4096, 0);

		sg_send(&v, &header, NULL, 0);
	}
	sg_run_for(&sg, NUM_MS(10));
	cr_assert_eq(port()->throttle->held_count, 0);
	send_writes(&v, segment_of("v"), FREE_COUNT);
	cr_assert_eq(port()->throttle->held_count, 0);
	cr_assert_eq(parked_count(), FREE_COUNT);
	sg_close(&v);
}

/* A client of level 1 knows no tags: what it sent comes back. */
Test(throttle, a_tag_is_for_those_who_know_it)
{
	struct wire_header header = sg_io(WIRE_READ, segment_of("v"), NUM_MIB(1), 4096, 0);
	struct cleave_limits limits = { .iops = 1 };
	struct sg_qp v, w;

	header.vm_id = 77;
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}");
	open_volume(&v, "v", 1, 0xa, CLEAVE_LEVEL_LIMITS);
	sg_send(&v, &header, NULL, 0);
	cr_assert(sg_wait_replies(&v, 1));
	cr_assert_eq(v.replies[0].header.vm_id, limits_tag(&limits));
	sg_close(&v);
	open_volume(&w, "w", 2, 0xb, CLEAVE_LEVEL_MIN);
	header.object_id = segment_of("w");
	sg_send(&w, &header, NULL, 0);
	cr_assert(sg_wait_replies(&w, 1));
	cr_assert_eq(w.replies[0].header.vm_id, 77);
	sg_close(&w);
}

Test(throttle, a_set_says_what_is_wrong_and_writes_nothing_for_nothing)
{
	uint64_t version;

	cr_assert_eq(ask_gateway("{\"op\":\"volume.set\",\"name\":\"x\",\"iops\":1}"), -ENOENT);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":-1}"), -EINVAL);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.set\",\"name\":\"v\",\"bytes_s\":4096}"),
	    -EINVAL);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.set\",\"name\":\"v\",\"other\":1}"), -EINVAL);
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":9,\"read_bytes_s\":65536}");
	version = mt_volumes_by_name(&sg.gateway->volumes, "v")->version;
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":9}");
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "v")->version, version);
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":0}");
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.limits.read_bytes_s,
	    65536);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.limits\",\"id\":1}"), 0);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.limits\",\"id\":99}"), -ENOENT);
}

TestSuite(throttle_early, .fini = teardown);

Test(throttle_early, limits_wait_for_the_level)
{
	begin(CLEAVE_LEVEL_MIN);
	cr_assert_eq(ask_gateway("{\"op\":\"volume.set\",\"name\":\"v\",\"iops\":1}"), -ENOTSUP);
}
