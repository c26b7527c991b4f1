/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shares.c -- several volumes that want more of a port than there is: who is held, in which order it goes, and when
 * nobody is
 *
 * Shards wait for nodes that never come, and are made to look as if they served: what is under way stays there. So the
 * stall lets everything go, or a session that ends.
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
#include "cleave/wire.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/gateway/gateway.h"
#include "middletier/port/shares.h"
#include "middletier/write/write_answer.h"
#include "middletier/write/write_path.h"
#include "support/made_cluster.h"
#include "support/sim_gateway.h"

static struct sg sg;
static struct sg_qp control, v, w;

static struct mt_port *
port(void)
{
	return &sg.gateway->ports[0];
}

static struct mt_share_kind *
writes(void)
{
	return &port()->shares->kinds[1];
}

static void
command(const char *text)
{
	int rc = 0;

	json_decref(sg_control(&control, text, &rc));
	cr_assert_eq(rc, 0, "%s: %d", text, rc);
}

static void
open_volume(struct sg_qp *qp, const char *name, uint64_t volume_id)
{
	struct wire_hello hello = sg_hello(volume_id, volume_id, 1, 1);
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.attach\",\"name\":\"%s\",\"session\":\"%016" PRIx64
	    "\",\"take\":true}",
	    name, volume_id);
	command(text);
	hello.level = CLEAVE_LEVEL_MAX;
	sg_connect(&sg, qp, &hello);
	cr_assert_eq(sg_wait_open(qp), 0);
}

static void
begin(const char *service_class)
{
	char text[160];

	sg_init(&sg, 3);
	sg.options.device_bytes = NUM_MIB(64);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	made_cluster_raise(sg.store, CLEAVE_LEVEL_LIMITS);
	sg_connect(&sg, &control, NULL);
	cr_assert_eq(sg_wait_open(&control), 0);
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1048576,\"service_class\":\"%s\"}",
	    service_class);
	command(text);
	command("{\"op\":\"volume.create\",\"name\":\"w\",\"size_bytes\":1048576}");
	open_volume(&v, "v", 1);
	open_volume(&w, "w", 2);
	for (uint32_t i = 0; i < port()->shard_count; i++)
		port()->shards[i].write->is_started = true;
}

static void
setup(void)
{
	begin("standard");
}

static void
teardown(void)
{
	for (uint32_t i = 0; i < port()->shard_count; i++)
		port()->shards[i].write->is_started = false;
	sg_close(&v);
	sg_close(&w);
	sg_close(&control);
	sg_fini(&sg);
}

TestSuite(shares, .init = setup, .fini = teardown);

/* A port that is busy, as far as it knows. */
static void
be_busy(void)
{
	writes()->window.max = SHARE_WINDOW_MIN;
}

static void
send_writes(struct sg_qp *qp, const char *name, uint32_t count)
{
	static uint8_t block[4096];
	static uint32_t next;
	uint64_t segment = mt_volumes_by_name(&sg.gateway->volumes, name)->volume.segment_base;

	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header =
		    sg_io(WIRE_WRITE, segment, 0, sizeof(block), port()->shards[0].epoch);

		header.payload_crc = crc32c(0, block, sizeof(block));
		header.vm_id = ++next;
		sg_send(qp, &header, block, sizeof(block));
	}
	sg_run_for(&sg, NUM_MS(1));
}

/* Writes of @name that are parked; each is newer than the one before it. */
static uint32_t
parked_of(const char *name)
{
	uint64_t id = mt_volumes_by_name(&sg.gateway->volumes, name)->volume.id;
	uint32_t count = 0, last = 0;

	for (uint32_t i = 0; i < port()->shard_count; i++) {
		struct loop_link *link, *next;

		last = 0;
		LIST_FOREACH_SAFE(&port()->shards[i].write->parked[WRITE_LINE_OTHERS], link, next) {
			const struct mt_write *write = write_of(link);

			if (write->session->hello.volume_id != id)
				continue;
			cr_assert_gt(write->io.vm_id, last, "a write overtook its own");
			last = (uint32_t)write->io.vm_id;
			count++;
		}
	}
	return count;
}

Test(shares, nobody_is_held_where_no_volume_has_shares)
{
	be_busy();
	cr_assert(!mt_shares_are_used(port()));
	send_writes(&v, "v", 16);
	send_writes(&w, "w", 16);
	cr_assert_eq(parked_of("v") + parked_of("w"), 32);
	cr_assert(list_is_empty(&port()->shares->volumes), "no volume was looked at");
}

Test(shares, one_volume_alone_is_not_held)
{
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"weight\":200}");
	cr_assert(mt_shares_are_used(port()));
	be_busy();
	send_writes(&v, "v", 32);
	cr_assert_eq(parked_of("v"), 32);
}

Test(shares, a_port_that_is_not_busy_holds_nobody)
{
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"weight\":200}");
	send_writes(&v, "v", 16);
	send_writes(&w, "w", 16);
	cr_assert_eq(parked_of("v") + parked_of("w"), 32);
}

/* Some are under way; those of either volume that are held keep their order, and go when nothing comes back. */
Test(shares, what_is_held_goes_in_order)
{
	uint32_t held;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"weight\":200}");
	be_busy();
	send_writes(&v, "v", 10);
	send_writes(&w, "w", 12);
	send_writes(&v, "v", 10);
	cr_assert_gt(writes()->queue.count, 8, "%u", writes()->queue.count);
	held = writes()->queue.count;
	sg_run_for(&sg, NUM_MS(400));
	cr_assert_eq(writes()->queue.count, 0, "a port where nothing ends holds nobody");
	cr_assert_eq(parked_of("v"), 20);
	cr_assert_eq(parked_of("w"), 12);
	cr_assert_geq(mt_gateway_metric(sg.gateway, MT_METRIC_requests_shared), held);
	cr_assert_gt(port()->hops.share_wait.sum_ns, 0);
}

/* Six end, and of those that go then two of three are of the volume with twice the weight. */
Test(shares, room_goes_by_weight)
{
	uint32_t before_v, before_w;

	command("{\"op\":\"volume.set\",\"name\":\"v\",\"weight\":400}");
	command("{\"op\":\"volume.set\",\"name\":\"w\",\"weight\":200}");
	be_busy();
	send_writes(&v, "v", 8);
	send_writes(&w, "w", 16);
	send_writes(&v, "v", 8);
	before_v = parked_of("v");
	before_w = parked_of("w");
	/* The first six end badly. */
	for (uint32_t i = 0; i < 6; i++) {
		for (uint32_t k = 0; k < port()->shard_count; k++) {
			struct mt_write_state *state = port()->shards[k].write;
			struct loop_link *link = list_first(&state->parked[WRITE_LINE_OTHERS]);

			if (link == NULL)
				continue;
			before_v -= write_of(link)->session->hello.volume_id == 1;
			before_w -= write_of(link)->session->hello.volume_id == 2;
			mt_write_finish(state, write_of(link), -EIO);
			break;
		}
	}
	sg_run_for(&sg, NUM_MS(1));
	cr_assert_gt(parked_of("v") - before_v, 0);
	cr_assert_leq(parked_of("w") - before_w, (parked_of("v") - before_v) / 2 + 1, "%u, %u",
	    parked_of("v") - before_v, parked_of("w") - before_w);
}

Test(shares, what_is_held_goes_with_its_session)
{
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"min_iops\":1000}");
	be_busy();
	send_writes(&w, "w", 16);
	send_writes(&v, "v", 4);
	send_writes(&w, "w", 4);
	cr_assert_gt(writes()->queue.count, 0);
	sg_close(&w);
	sg_run_for(&sg, NUM_MS(5));
	cr_assert_eq(parked_of("w"), 0, "they are not done");
	cr_assert_eq(parked_of("v"), 4, "there is room now");
	cr_assert_eq(writes()->queue.count, 0);
	command("{\"op\":\"volume.set\",\"name\":\"v\",\"min_iops\":0}");
	cr_assert(!mt_shares_are_used(port()));
}

Test(shares, the_latency_class_is_not_held)
{
	teardown();
	begin("latency");
	command("{\"op\":\"volume.set\",\"name\":\"w\",\"weight\":1000}");
	be_busy();
	send_writes(&w, "w", 16);
	send_writes(&v, "v", 8);
	send_writes(&w, "w", 8);
	cr_assert_eq(port()->write_count, 24, "%u", port()->write_count);
}
