/* SPDX-License-Identifier: Apache-2.0 */
/* extent_fixture.h -- a node that runs, and one open extent of a log at it; each test of a suite has others */
#ifndef CLEAVE_TESTS_EXTENT_FIXTURE_H
#define CLEAVE_TESTS_EXTENT_FIXTURE_H

#include <criterion/criterion.h>

#include "support/node_rig.h"

static struct node_rig *rig;
static struct rig_extent extent; /* of shard 3, epoch 5; nothing appended yet */
static uint64_t seed_next;       /* of the next rig */

static inline void
setup(void)
{
	rig = rig_create(&(struct rig_options){ .seed = seed_next++ });
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
}

static inline void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

#endif /* CLEAVE_TESTS_EXTENT_FIXTURE_H */
