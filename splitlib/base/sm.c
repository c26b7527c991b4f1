/* SPDX-License-Identifier: Apache-2.0 */
/* sm.c -- the one place where a declared state machine changes its state */
#include "base/sm.h"

#include <stddef.h>

#include "base/check.h"

static sm_trace_fn sm_tracer;

void
sm_init(struct sm *sm, const char *name, const struct sm_state *table, uint32_t initial,
    uint32_t id)
{
	assert(table != NULL);
	assert(initial < SM_STATES_MAX);
	assert((table[initial].flags & SM_INITIAL) != 0);
	*sm = (struct sm){ .table = table, .name = name, .state = initial, .id = id };
}

void
sm_move(struct sm *sm, uint32_t to)
{
	uint32_t from = sm->state;

	assert(sm->table != NULL);
	assert(to < SM_STATES_MAX);
	assert((sm->table[from].to & SM_TO(to)) != 0);
	/* A target that the table does not describe is a typing error in the table. */
	assert(sm->table[to].name != NULL);
	sm->state = to;
	if (sm_tracer != NULL)
		sm_tracer(sm, from, to);
}

bool
sm_is_final(const struct sm *sm)
{
	assert(sm->table != NULL);
	assert(sm->state < SM_STATES_MAX);
	return (sm->table[sm->state].flags & SM_FINAL) != 0;
}

const char *
sm_state_name(const struct sm *sm)
{
	assert(sm->table != NULL);
	assert(sm->state < SM_STATES_MAX);
	return sm->table[sm->state].name;
}

void
sm_set_tracer(sm_trace_fn fn)
{
	sm_tracer = fn;
}
