/* SPDX-License-Identifier: Apache-2.0 */
/* sim_conn.h -- connections of the simulated network, and packets under way on them */
#ifndef CLEAVE_SPLIT_SIM_CONN_H
#define CLEAVE_SPLIT_SIM_CONN_H

#include "sim_state.h"

/* sim_conn_open -- a connection from @qp's host to @to, OPEN under way. NULL: out of memory. */
struct sim_conn *sim_conn_open(struct split_qp *qp, struct sim_host *to);
/* sim_packet_create -- a packet with @bytes of zeros for data, the caller's. NULL: out of memory. */
struct sim_packet *sim_packet_create(enum sim_packet_kind kind, uint32_t bytes);
/* sim_packet_send -- put @packet, which is in no list and the network's from here on, into @end's pipe. */
void sim_packet_send(struct sim_end *end, struct sim_packet *packet);
/* sim_packet_send_kind -- send one without data; without memory the other end finds out by its silence timer. */
void sim_packet_send_kind(struct sim_end *end, enum sim_packet_kind kind);
/* sim_end_post -- let the process look at its inbox. */
void sim_end_post(struct sim_end *end);
/* sim_end_consumed -- @bytes of the other end's pipe have been taken out of our inbox. */
void sim_end_consumed(struct sim_end *end, uint32_t bytes);
/* sim_end_detach -- the queue pair is gone. The connection may be freed here. */
void sim_end_detach(struct sim_end *end);
/* sim_conn_try_free -- when neither end nor anything under way needs it any more. */
void sim_conn_try_free(struct sim_conn *conn);
/* sim_conn_watch -- start or stop the ends' silence timers, as the paths are. */
void sim_conn_watch(struct sim_conn *conn);
/* sim_conn_free -- at once, with all that is under way. */
void sim_conn_free(struct sim_conn *conn);
/* sim_packets_free -- of a pipe or an inbox. */
void sim_packets_free(struct loop_link *packets);
/* sim_pipe_arm -- see to it that the first packet of @end's pipe arrives when it is due. */
void sim_pipe_arm(struct sim_end *end);
/* sim_end_tell -- into the process's own inbox, behind what is there: it comes from its kernel. */
void sim_end_tell(struct sim_end *end, enum sim_packet_kind kind);

#endif /* CLEAVE_SPLIT_SIM_CONN_H */
