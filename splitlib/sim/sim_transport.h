/* SPDX-License-Identifier: Apache-2.0 */
/* sim_transport.h -- queue pairs over the simulated network, as a process sees them */
#ifndef CLEAVE_SPLIT_SIM_TRANSPORT_H
#define CLEAVE_SPLIT_SIM_TRANSPORT_H

#include "cleave/loop.h"

struct transport_ops;

extern const struct transport_ops transport_sim_ops;
/* The same on hosts whose device answers reads of regions. */
extern const struct transport_ops transport_sim_offload_ops;

/* sim_end_on_post -- a process looks at its end's inbox: runs in the process. */
void sim_end_on_post(struct loop_post *post, void *arg);

#endif /* CLEAVE_SPLIT_SIM_TRANSPORT_H */
