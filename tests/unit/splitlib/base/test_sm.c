/* SPDX-License-Identifier: Apache-2.0 */
/* test_sm.c -- state machines take the declared edges and no other */
#include <criterion/criterion.h>
#include <signal.h>

#include "base/sm.h"

enum { DOOR_CLOSED, DOOR_OPEN, DOOR_BROKEN, DOOR_NR };

static const struct sm_state door_table[DOOR_NR] = {
	[DOOR_CLOSED] = { "closed", SM_TO(DOOR_OPEN), SM_INITIAL },
	[DOOR_OPEN] = { "open", SM_TO(DOOR_CLOSED) | SM_TO(DOOR_BROKEN), 0 },
	[DOOR_BROKEN] = { "broken", 0, SM_FINAL | SM_FAILURE },
};

static struct {
	uint32_t id, from, to;
	unsigned count;
} traced;

static void
trace(const struct sm *sm, uint32_t from, uint32_t to)
{
	traced.id = sm->id;
	traced.from = from;
	traced.to = to;
	traced.count++;
}

Test(sm, takes_declared_edges)
{
	struct sm door;

	sm_init(&door, "door", door_table, DOOR_CLOSED, 7);
	cr_assert_str_eq(sm_state_name(&door), "closed");
	sm_move(&door, DOOR_OPEN);
	sm_move(&door, DOOR_CLOSED);
	sm_move(&door, DOOR_OPEN);
	cr_assert(!sm_is_final(&door));
	sm_move(&door, DOOR_BROKEN);
	cr_assert(sm_is_final(&door));
	cr_assert_str_eq(sm_state_name(&door), "broken");
	cr_assert_str_eq(door.name, "door");
}

Test(sm, each_move_is_traced_while_a_tracer_is_set)
{
	struct sm door;

	sm_init(&door, "door", door_table, DOOR_CLOSED, 7);
	sm_set_tracer(trace);
	sm_move(&door, DOOR_OPEN);
	cr_assert_eq(traced.count, 1);
	cr_assert_eq(traced.id, 7);
	cr_assert_eq(traced.from, DOOR_CLOSED);
	cr_assert_eq(traced.to, DOOR_OPEN);
	sm_set_tracer(NULL);
	sm_move(&door, DOOR_CLOSED);
	cr_assert_eq(traced.count, 1);
}

Test(sm, an_undeclared_edge_is_a_bug, .signal = SIGABRT)
{
	struct sm door;

	sm_init(&door, "door", door_table, DOOR_CLOSED, 0);
	sm_move(&door, DOOR_BROKEN);
}

Test(sm, a_final_state_is_left_by_no_edge, .signal = SIGABRT)
{
	struct sm door;

	sm_init(&door, "door", door_table, DOOR_CLOSED, 0);
	sm_move(&door, DOOR_OPEN);
	sm_move(&door, DOOR_BROKEN);
	sm_move(&door, DOOR_BROKEN);
}

Test(sm, only_an_initial_state_begins, .signal = SIGABRT)
{
	struct sm door;

	sm_init(&door, "door", door_table, DOOR_OPEN, 0);
}
