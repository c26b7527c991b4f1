/* SPDX-License-Identifier: Apache-2.0 */
/* test_gather.c -- GATHER: stretches of an extent come one behind the other; what is not there, or fails, is told */
#include "gather.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "extent.h"
#include "node_state.h"
#include "support/node_rig.h"

static struct node_rig *rig;
static struct rig_extent extent;

static void
setup(void)
{
	rig = rig_create(&(struct rig_options){ .seed = 9, .slot_bytes = NUM_KIB(256) });
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(rig_append(rig, &extent, 8), 0);
}

static void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

TestSuite(gather, .init = setup, .fini = teardown, .timeout = 60);

static uint32_t
sum_of(const struct wire_stretch *stretches, uint32_t count)
{
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += stretches[i].length_bytes;
	return bytes;
}

static struct rig_call *
post(const struct wire_stretch *stretches, uint32_t count, uint32_t bytes)
{
	uint8_t list[WIRE_GATHER_MAX * WIRE_STRETCH_BYTES];

	wire_gather_encode(list, stretches, count);
	return rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_GATHER,
		.id = extent.id,
		.epoch = extent.epoch,
		.length_bytes = bytes,
		.stretch_count = (uint16_t)count },
	    list, count * WIRE_STRETCH_BYTES);
}

static int
rc_of(const struct wire_stretch *stretches, uint32_t count)
{
	struct rig_call *call = post(stretches, count, sum_of(stretches, count));
	int rc = rig_wait(call);

	rig_done(call);
	return rc;
}

/* Is the answer what was sent? */
static bool
answers(const struct wire_stretch *stretches, uint32_t count)
{
	struct rig_call *call = post(stretches, count, sum_of(stretches, count));
	bool is_right = rig_wait(call) == 0 && call->payload_bytes == sum_of(stretches, count);
	uint32_t at = 0;

	for (uint32_t i = 0; is_right && i < count; i++) {
		is_right = memcmp(call->payload + at, extent.data + stretches[i].offset_bytes,
			       stretches[i].length_bytes) == 0;
		at += stretches[i].length_bytes;
	}
	rig_done(call);
	return is_right;
}

/* As many as can be, each over the edge of a disk's block, and as long as that they all just fit. */
static void
fill(struct wire_stretch stretches[WIRE_GATHER_MAX])
{
	for (uint32_t i = 0; i < WIRE_GATHER_MAX; i++)
		stretches[i] = (struct wire_stretch){ i * 2 * DISK_ALIGN + DISK_ALIGN - 1,
			WIRE_GATHER_BYTES_MAX / WIRE_GATHER_MAX };
}

Test(gather, stretches_come_in_order)
{
	const struct wire_stretch one[] = { { 5000, 3 } },
				  some[] = { { 0, 100 }, { 100, 1 }, { 4095, 2 }, { 9000, 5000 },
					  { (uint32_t)extent.end_bytes - 1, 1 } };
	struct wire_stretch most[WIRE_GATHER_MAX];

	fill(most);
	cr_assert_leq(most[WIRE_GATHER_MAX - 1].offset_bytes + 4096u, extent.end_bytes);
	cr_assert(answers(one, 1));
	cr_assert(answers(some, 5));
	cr_assert(answers(most, WIRE_GATHER_MAX));
	cr_assert_eq(node_counters(rig->node)->gathers, 3);
	cr_assert_eq(node_counters(rig->node)->reads, 0);
	cr_assert_eq(rig->node->reads_count, 0);
}

Test(gather, refuses_what_is_not_there)
{
	const struct wire_stretch stretches[] = { { 0, 10 },
		{ (uint32_t)extent.end_bytes - 1, 2 } };
	const struct wire_stretch overlap[] = { { 0, 10 }, { 5, 10 } };
	struct rig_call *call;

	cr_assert_eq(rc_of(stretches, 2), -ERANGE);
	cr_assert_eq(rc_of(overlap, 2), -EINVAL);
	call = post(stretches, 1, 11);
	cr_assert_eq(rig_wait(call), -EINVAL, "they have another length together");
	rig_done(call);
	extent.id.counter++;
	cr_assert_eq(rc_of(stretches, 1), -ENOENT);
	extent.id.counter--;
	cr_assert_eq(rc_of(stretches, 1), 0);
	cr_assert_eq(rig->node->reads_count, 0);
}

Test(gather, a_disk_that_fails_one_fails_all)
{
	uint32_t slot = sn_extent_find(rig->node, &extent.id)->slot.slot_index;
	struct wire_stretch stretches[WIRE_GATHER_MAX];

	fill(stretches);
	for (uint32_t i = 0; i < WIRE_GATHER_MAX; i += 5) {
		cr_assert_eq(disk_sim_add_rule(rig->disk,
				 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_READ),
				     .rc = -EIO,
				     .offset_bytes =
					 rig_data_offset(rig, slot, stretches[i].offset_bytes),
				     .bytes = 1 }),
		    0);
		cr_assert_eq(rc_of(stretches, WIRE_GATHER_MAX), -EIO);
		disk_sim_clear_rules(rig->disk);
		cr_assert_eq(rig->node->reads_count, 0);
	}
	cr_assert_eq(node_counters(rig->node)->reads_failed, 4);
	cr_assert(answers(stretches, WIRE_GATHER_MAX));
}

Test(gather, delete_waits_for_it)
{
	struct wire_stretch stretches[WIRE_GATHER_MAX];
	struct rig_call *calls[4], *delete;

	fill(stretches);
	disk_sim_set_slowness(rig->disk, 20);
	for (uint32_t i = 0; i < 4; i++)
		calls[i] = post(stretches, WIRE_GATHER_MAX, WIRE_GATHER_BYTES_MAX);
	delete = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = extent.id,
		.offset_bytes = extent.incarnation,
		.epoch = 5 },
	    NULL, 0);
	cr_assert_eq(rig_wait(delete), 0);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(calls[i]->is_answered);
		cr_assert_eq(calls[i]->rc, 0);
		rig_done(calls[i]);
	}
	rig_done(delete);
}
