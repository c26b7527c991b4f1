/* SPDX-License-Identifier: Apache-2.0 */
/* write_turn.h -- is there time for a write in this turn of the loop? */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_TURN_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct mt_write;
struct mt_write_state;

/* The share of the present turn that writes have taken. */
struct write_turn {
	struct loop_turn_end end;
	uint32_t taken_bytes; /* that the engine has run over */
	bool is_over;         /* and so some wait for the next */
};

/* mt_write_turn_init -- the count begins anew at each turn's end, until mt_write_turn_fini. */
void mt_write_turn_init(struct mt_write_state *state);
void mt_write_turn_fini(struct mt_write_state *state);
/* mt_write_turn_is_over -- a write that is not of the latency class has to wait for the next turn. */
bool mt_write_turn_is_over(const struct mt_write_state *state);
/* mt_write_turn_take -- the engine has run over @write. */
void mt_write_turn_take(struct mt_write_state *state, const struct mt_write *write);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_TURN_H */
