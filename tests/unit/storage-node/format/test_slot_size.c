/* SPDX-License-Identifier: Apache-2.0 */
/* test_slot_size.c -- the slot size of a disk: as given, as the cluster's nodes have it, or by the disk's size */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "storage-node/format/format_pages.h"
#include "storage-node/format/ondisk.h"
#include "storage-node/format/slot_size.h"

static char text[SLOT_SIZE_TEXT_BYTES];

static uint64_t
choose(uint64_t capacity_bytes, uint64_t given_bytes, uint64_t others_bytes)
{
	const struct slot_size_ask ask = { .capacity_bytes = capacity_bytes,
		.given_bytes = given_bytes,
		.others_bytes = others_bytes };
	uint64_t slot_bytes = 0;

	cr_assert_eq(slot_size_choose(&ask, &slot_bytes, text), 0, "%s", text);
	return slot_bytes;
}

Test(slot_size, where_nobody_says_one_it_goes_by_the_disks_size)
{
	cr_assert_eq(choose(NUM_GIB(2), 0, 0), NUM_MIB(4));
	cr_assert_eq(choose(NUM_GIB(100), 0, 0), NUM_MIB(64));
	cr_assert_str_eq(text, "");
	cr_assert_eq(choose(NUM_GIB(2), NUM_KIB(128), 0), NUM_KIB(128));
	cr_assert_str_eq(text, "");
}

Test(slot_size, a_disk_of_any_size_gets_what_the_clusters_nodes_have)
{
	cr_assert_eq(choose(NUM_GIB(2), 0, NUM_MIB(16)), NUM_MIB(16));
	cr_assert_str_eq(text, "");
	cr_assert_eq(choose(NUM_GIB(100), 0, NUM_MIB(16)), NUM_MIB(16));
	cr_assert_str_eq(text, "");
}

Test(slot_size, a_disk_of_too_few_such_slots_is_refused_unless_a_size_is_given)
{
	const uint64_t least = ONDISK_SLOTS_OFFSET + SLOT_SIZE_SLOTS_MIN * NUM_MIB(16);
	const struct slot_size_ask few = { .capacity_bytes = least - 4096,
		.others_bytes = NUM_MIB(16) };
	const struct slot_size_ask none = { .capacity_bytes = 4096, .others_bytes = NUM_MIB(16) };
	uint64_t slot_bytes = 0;

	cr_assert_eq(choose(least, 0, NUM_MIB(16)), NUM_MIB(16));
	cr_assert_eq(slot_size_choose(&few, &slot_bytes, text), -ENOSPC);
	cr_assert_eq(slot_bytes, 0, "untouched");
	cr_assert_str_eq(text,
	    "it has room for 15 slots of 16384 KiB, which the cluster's nodes have, and 16 are the fewest. "
	    "Give it a larger disk or --size; or say --slot-size 1024K: then an extent with a copy here "
	    "wastes 93 % of each of their slots that it takes, and they fill up sooner");
	cr_assert_eq(slot_size_choose(&none, &slot_bytes, text), -ENOSPC);
	cr_assert_not_null(strstr(text, "room for 0 slots"), "%s", text);
	cr_assert_eq(choose(least - 4096, NUM_MIB(1), NUM_MIB(16)), NUM_MIB(1));
}

Test(slot_size, one_that_is_given_and_differs_is_warned_of)
{
	cr_assert_eq(choose(NUM_GIB(2), NUM_MIB(16), NUM_MIB(16)), NUM_MIB(16));
	cr_assert_str_eq(text, "");
	cr_assert_eq(choose(NUM_GIB(2), NUM_MIB(4), NUM_MIB(16)), NUM_MIB(4));
	cr_assert_str_eq(text,
	    "warning: slots of 4096 KiB, and the cluster's nodes have 16384 KiB: an extent with a copy here "
	    "wastes 75 % of each of their slots that it takes, and they fill up sooner. Without "
	    "--slot-size it gets theirs");
	cr_assert_eq(choose(NUM_GIB(100), NUM_MIB(64), NUM_MIB(16)), NUM_MIB(64));
	cr_assert_str_eq(text,
	    "warning: slots of 65536 KiB, and the cluster's nodes have 16384 KiB: an extent with a copy there "
	    "wastes 75 % of each slot here that it takes. Without --slot-size it gets theirs");
	cr_assert_eq(choose(NUM_GIB(2), NUM_MIB(16) - 4096, NUM_MIB(16)), NUM_MIB(16) - 4096);
	cr_assert_not_null(strstr(text, "wastes 1 %"), "%s", text);
}

Test(slot_size, a_disk_of_more_such_slots_than_there_can_be_is_warned_of)
{
	const uint64_t most = ONDISK_SLOTS_OFFSET + ONDISK_SLOTS_MAX * NUM_MIB(2);

	cr_assert_eq(choose(most, 0, NUM_MIB(2)), NUM_MIB(2));
	cr_assert_str_eq(text, "");
	cr_assert_eq(choose(most + NUM_GIB(1), 0, NUM_MIB(2)), NUM_MIB(2));
	cr_assert_str_eq(text,
	    "warning: 1048576 slots of 2048 KiB, which the cluster's nodes have, are the most of a disk: 1024 "
	    "MiB of it are not used. Split it, and join each part");
}
