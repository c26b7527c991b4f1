/* SPDX-License-Identifier: Apache-2.0 */
/* auto_engine.h -- time and saving of each engine, of one volume and service class */
#ifndef CLEAVE_MIDDLETIER_WRITE_AUTO_ENGINE_H
#define CLEAVE_MIDDLETIER_WRITE_AUTO_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "session/auto_state.h"

struct engine_job;

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
