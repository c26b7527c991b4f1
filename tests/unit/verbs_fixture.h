/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_fixture.h -- split_fixture.h over the fake of RDMA's libraries: before a test, and what may not be left after it */
#ifndef CLEAVE_TESTS_UNIT_VERBS_FIXTURE_H
#define CLEAVE_TESTS_UNIT_VERBS_FIXTURE_H

#include <stdlib.h>

#include "support/fake_verbs.h"
#include "unit/split_fixture.h"

static inline void
verbs_fixture_begin(void)
{
	fake_verbs_reset();
	fixture_idle_ns[NET_VERBS] = NUM_MS(80);
	(void)setenv("CLEAVE_TEST_VERBS", "verbs://10.0.0.1:0", 1);
}

static inline void
verbs_fixture_end(void)
{
	cr_assert_eq(fake_verbs.object_count, 0, "the device's objects leak");
	cr_assert_eq(fake_verbs.not_ready_count, 0, "a send met no receive");
}

#endif /* CLEAVE_TESTS_UNIT_VERBS_FIXTURE_H */
