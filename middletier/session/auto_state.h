/* SPDX-License-Identifier: Apache-2.0 */
/* auto_state.h -- what a session's writes have shown of the engines; write/auto_engine.c fills it and reads it */
#ifndef CLEAVE_MIDDLETIER_SESSION_AUTO_STATE_H
#define CLEAVE_MIDDLETIER_SESSION_AUTO_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define MT_AUTO_CANDIDATES 6u

struct mt_auto_measure {
	uint32_t sample_count;
	uint32_t block_ns_x16;     /* moving average: time a block */
	uint32_t stored_bytes_x16; /* moving average: what is stored of a block */
};

/* All zeros: nothing known yet. */
struct mt_auto {
	struct mt_auto_measure measures[MT_AUTO_CANDIDATES];
	bool is_settled;
	uint8_t chosen;               /* candidate; when settled */
	uint8_t trial;                /* candidate that was tried last */
	uint16_t wrong_x256;          /* how often the probe was wrong: moving average */
	uint32_t trial_left_count;    /* writes before the next trial */
	uint32_t trial_every_count;   /* doubles while trials change nothing */
	uint32_t settled_stored_x16;  /* of the chosen one, when it was */
	uint32_t settled_write_count; /* since then */
};

#endif /* CLEAVE_MIDDLETIER_SESSION_AUTO_STATE_H */
