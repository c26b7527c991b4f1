/* SPDX-License-Identifier: Apache-2.0 */
/* auto_engine.h -- time and saving of each engine, of one volume and service class */
#ifndef CLEAVE_MIDDLETIER_WRITE_AUTO_ENGINE_H
#define CLEAVE_MIDDLETIER_WRITE_AUTO_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "write/policy.h"

struct engine_job;

/* A volume's codec_id: no codec of its own, and in no record. */
#define MT_CODEC_AUTO 255u

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

/* mt_auto_pick -- for the next write. @time_weight: what time counts; 1 when there is enough of it. */
struct mt_policy mt_auto_pick(struct mt_auto *auto_engine, enum service_class service_class,
    uint32_t time_weight);
/*
 * mt_auto_learn -- a STORE that mt_auto_pick chose has run
 *
 * @job: as it came back, with codec_id, level and probe as they went, and run_ns. Returns: true when
 * another engine than before is settled on; mt_auto_chosen says which.
 */
bool mt_auto_learn(struct mt_auto *auto_engine, enum service_class service_class,
    const struct engine_job *job);
/* mt_auto_chosen -- what is settled on: "lz4", or "none" while nothing is. */
const char *mt_auto_chosen(const struct mt_auto *auto_engine, int *ret_level);

#endif /* CLEAVE_MIDDLETIER_WRITE_AUTO_ENGINE_H */
