/* SPDX-License-Identifier: Apache-2.0 */
/* offload_sim.h -- workers of a simulated process: engine_set_options.workers of tests and the simulator */
#ifndef CLEAVE_ENGINES_OFFLOAD_SIM_H
#define CLEAVE_ENGINES_OFFLOAD_SIM_H

#include "cleave/engine.h"

/* Sets with it belong to a simulated loop. Jobs take random times of it, and end in any order. */
extern const struct engine_workers_ops offload_sim_ops;

#endif /* CLEAVE_ENGINES_OFFLOAD_SIM_H */
