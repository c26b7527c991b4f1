/* SPDX-License-Identifier: Apache-2.0 */
/* sim_one_sided.h -- reads of peers' regions, on hosts whose device answers them (sim_net_offload) */
#ifndef CLEAVE_SPLIT_SIM_ONE_SIDED_H
#define CLEAVE_SPLIT_SIM_ONE_SIDED_H

struct sim_end;
struct sim_packet;
struct split_qp;

/* sim_one_sided_kick -- transport_ops.kick_one_sided. */
void sim_one_sided_kick(struct split_qp *qp);
/* sim_one_sided_done -- an answer to a read of @qp's has come: in the process. */
void sim_one_sided_done(struct split_qp *qp, const struct sim_packet *packet);
/* sim_one_sided_serve -- a read has come to @end, whose queue pair is there: outside of all processes. */
void sim_one_sided_serve(struct sim_end *end, const struct sim_packet *packet);
/* sim_one_sided_forget -- @end goes, or its process has. */
void sim_one_sided_forget(struct sim_end *end);

#endif /* CLEAVE_SPLIT_SIM_ONE_SIDED_H */
