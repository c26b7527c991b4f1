/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_table.c -- a shard that has all the extents it can have: its log ends, and its writes wait, once a second */
#include "base/num.h"
#include "cleave/wire.h"
#include "middletier/common/replica.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/manifest/edit.h"
#include "middletier/write/write_path.h"
#include "unit/fake_port.h"

static struct mt_extent other; /* stands in every slot of the table that the log leaves */

static void
setup(void)
{
	fake_init(23, false);
}

static void
clear(void)
{
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		if (fake.shard.extents[i] != &other)
			continue;
		other.index = i; /* the first in its slot */
		mt_shard_extent_remove(&fake.shard, &other);
	}
}

static void
teardown(void)
{
	clear();
	fake_fini();
}

TestSuite(full_table, .init = setup, .fini = teardown, .timeout = 60);

static void
fill(void)
{
	other.magic = MT_EXTENT_MAGIC;
	other.shard = &fake.shard;
	other.kind = EXTENT_RUN;
	while (mt_shard_extent_add(&fake.shard, &other) == 0)
		;
	cr_assert_eq(fake.shard.extent_count, MT_EXTENTS_PER_SHARD_MAX);
}

/* A spare that the table has no place for is given up, so that the old log can be sealed without one. */
Test(full_table, ends_the_log_and_tries_again_once_a_second)
{
	struct fake_msg *msg;
	uint32_t creates;

	fake_start_quiet();
	cr_assert_eq(fake_wait(fake_write(1, 1, 1)), 0);
	fill();
	creates = fake.nodes[0].counts[WIRE_EXTENT_CREATE];
	fake.nodes[fake.shard.log->replicas[0].node_id - 1].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_APPEND, .countdown = 1, .rc = -EIO };
	msg = fake_write(1, 1, 2);
	fake_run_for(NUM_S(5));
	cr_assert_not(msg->is_answered);
	cr_assert_eq(fake.edits[fake.edit_count - 1].kind, MT_EDIT_EXTENT_SEALED);
	cr_assert_null(fake.shard.log_old);
	cr_assert_leq(fake.nodes[0].counts[WIRE_EXTENT_CREATE], creates + 6);
	clear();
	cr_assert_eq(fake_wait(msg), 0);
	fake_expect(1, 2);
}
