/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c -- whose gateways a node obeys, after restarts and lost power too */
#include <criterion/criterion.h>
#include <errno.h>

#include "cleave/disk.h"
#include "storage-node/peer.h"
#include "support/node_rig.h"

static const struct store_id first = { 1, 2 }, second = { 3, 4 }, third = { 1, 3 }, none;
static struct node_rig *rig;
static struct rig_extent extent;

static int
connect_with(struct store_id store, struct store_id replaced)
{
	rig_disconnect(rig);
	return rig_connect_as(rig,
	    &(struct wire_hello){ .role = WIRE_ROLE_GATEWAY,
		.cluster_id = RIG_CLUSTER_ID,
		.session_id = store.high,
		.attach = store.low,
		.volume_id = replaced.high,
		.incarnation = replaced.low });
}

static struct store_id
answered(void)
{
	struct wire_hello hello;
	const char *field;

	cr_assert_eq(wire_hello_decode(rig->hello, WIRE_HELLO_BYTES, &hello, &field), 0);
	return (struct store_id){ hello.session_id, hello.attach };
}

static void
expect_obeys(struct store_id store)
{
	struct store_id got;

	cr_assert_eq(connect_with(store, none), 0);
	got = answered();
	cr_assert(store_id_is_equal(&got, &store));
}

static void
restart(bool is_power_loss)
{
	rig_kill(rig, is_power_loss);
	cr_assert_eq(rig_start(rig), 0);
}

static void
setup(void)
{
	rig = rig_create(NULL);
	cr_assert_eq(rig_start(rig), 0);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
}

static void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

TestSuite(store, .init = setup, .fini = teardown);

Test(store, the_first_one_stays)
{
	expect_obeys(first);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(connect_with(second, none), -ENOTUNIQ);
	cr_assert_eq(connect_with(third, second), -ENOTUNIQ);
	cr_assert_eq(node_counters(rig->node)->stores_refused, 2);
	restart(true);
	cr_assert_eq(connect_with(second, none), -ENOTUNIQ);
	expect_obeys(first);
	cr_assert_eq(rig_append(rig, &extent, 1), -EACCES, "it is stopped, and listened to");
}

Test(store, a_recovered_one_replaces_it)
{
	expect_obeys(first);
	cr_assert_eq(connect_with(second, first), 0);
	cr_assert_eq(connect_with(first, none), -ENOTUNIQ);
	restart(true);
	cr_assert_eq(connect_with(first, none), -ENOTUNIQ);
	cr_assert_eq(connect_with(first, third), -ENOTUNIQ);
	expect_obeys(second);
	cr_assert_eq(connect_with(second, first), 0, "told again");
}

static uint32_t
gateways(void)
{
	const char *peer;
	uint32_t count = sn_peer_gateways(rig->node, &peer);

	cr_assert_eq(peer != NULL, count > 0);
	return count;
}

/* Idle ones, too; not those that are refused with each request, and not who has no store. */
Test(store, connected_gateways_are_known)
{
	struct split_qp *old;

	cr_assert_eq(gateways(), 0);
	cr_assert_eq(connect_with(none, none), 0);
	cr_assert_eq(gateways(), 0);
	expect_obeys(first);
	cr_assert_eq(gateways(), 1);
	old = rig->qp;
	rig->qp = NULL;
	cr_assert_eq(connect_with(second, first), 0);
	cr_assert_eq(gateways(), 1);
	cr_assert_eq(connect_with(none, none), 0);
	cr_assert_eq(gateways(), 0);
	rig_disconnect(rig);
	rig->qp = old;
}

/* Each request is judged: who was let in before the change is not obeyed after it. */
Test(store, connections_of_before_change_nothing)
{
	struct split_qp *old;
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = 1, .epoch = 1 },
		.kind = EXTENT_LOG,
		.epoch = 1 };
	struct wire_node list = { .opcode = WIRE_EXTENT_LIST, .id.shard = UINT32_MAX };

	expect_obeys(first);
	old = rig->qp;
	rig->qp = NULL;
	cr_assert_eq(connect_with(second, first), 0);
	cr_assert_eq(rig_call_rc(rig, &create, NULL, 0, NULL), 0);
	rig_disconnect(rig);
	rig->qp = old;
	rig->is_connected = true;
	rig->is_closed = false;
	create.id.counter++;
	cr_assert_eq(rig_call_rc(rig, &create, NULL, 0, NULL), -ENOTUNIQ);
	cr_assert_eq(rig_call_rc(rig, &list, NULL, 0, NULL), -ENOTUNIQ);
}

/* A recovery, or a cluster that is made. */
Test(store, who_has_none_may_look)
{
	struct wire_node list = { .opcode = WIRE_EXTENT_LIST, .id.shard = UINT32_MAX };
	struct store_id got;

	cr_assert_eq(connect_with(none, none), 0);
	got = answered();
	cr_assert(store_id_is_zero(&got));
	expect_obeys(first);
	cr_assert_eq(connect_with(none, none), 0);
	got = answered();
	cr_assert(store_id_is_equal(&got, &first));
	cr_assert_eq(rig_call_rc(rig, &list, NULL, 0, NULL), 0);
	cr_assert_eq(rig_extent_create(rig, &extent), -ENOTUNIQ);
	cr_assert_eq(rig_fence(rig, 1, 9), -ENOTUNIQ);
}

/* Whoever was let in finds the node so after lost power; the disk fails the n-th write. */
Test(store, the_nth_write_fails)
{
	for (uint32_t nth = 1; nth <= 4; nth++) {
		struct store_id before = { nth, 7 }, after = { nth + 1, 7 };
		struct disk_fault *fault = disk_sim_fault(rig->disk);
		int rc;

		if (nth == 1)
			expect_obeys(before);
		*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
			.at_count = nth,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		rc = connect_with(after, before);
		cr_assert_eq(rc, nth <= 2 ? -EIO : 0, "write %u: %d", nth, rc);
		*fault = (struct disk_fault){ 0 };
		restart(true);
		/* The first copy may have come to the disk: then it has changed, and is told so again. */
		cr_assert_eq(connect_with(after, before), 0);
		restart(true);
		expect_obeys(after);
	}
}
