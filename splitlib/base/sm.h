/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sm.h -- declared state machines
 *
 * An object that outlives one callback has a table of states and the edges that may be taken; only
 * sm_move changes its state, and it asserts the edge. With a tracer set (simulator, tests) each move
 * is reported, so that a run's history can be hashed and edge coverage measured.
 */
#ifndef CLEAVE_BASE_SM_H
#define CLEAVE_BASE_SM_H

#include <stdbool.h>
#include <stdint.h>

#define SM_INITIAL 1u
#define SM_FINAL 2u
#define SM_FAILURE 4u
#define SM_STATES_MAX 32

/* SM_TO -- an edge in a table: SM_TO(APPEND_WRITING) | SM_TO(APPEND_FAILED). */
#define SM_TO(state) (1u << (state))

struct sm_state {
	const char *name;
	uint32_t to; /* bit set of SM_TO(next state) */
	uint32_t flags;
};

struct sm {
	const struct sm_state *table;
	const char *name; /* of the machine: "append" */
	uint32_t state;
	uint32_t id; /* for traces: whatever tells two objects apart */
};

typedef void (*sm_trace_fn)(const struct sm *sm, uint32_t from, uint32_t to);

/* sm_init -- put @sm into @initial, which the table must mark SM_INITIAL. */
void sm_init(struct sm *sm, const char *name, const struct sm_state *table, uint32_t initial,
    uint32_t id);
/* sm_move -- take the edge to @to; asserts that the table has it. */
void sm_move(struct sm *sm, uint32_t to);
/* sm_is_final -- is @sm in a state that its table marks SM_FINAL? */
bool sm_is_final(const struct sm *sm);
/* sm_state_name -- the name of @sm's state: static. */
const char *sm_state_name(const struct sm *sm);
/* sm_set_tracer -- per process; NULL switches tracing off. Not thread-safe: set it at start. */
void sm_set_tracer(sm_trace_fn fn);

#endif /* CLEAVE_BASE_SM_H */
