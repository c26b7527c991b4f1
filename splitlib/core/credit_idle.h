/* SPDX-License-Identifier: Apache-2.0 */
/* credit_idle.h -- silent peers give their credits back; for credit.c and credit_grant.c */
#ifndef CLEAVE_SPLIT_CREDIT_IDLE_H
#define CLEAVE_SPLIT_CREDIT_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct split_port;
struct split_qp;

/* credit_idle_port_init, credit_idle_port_fini -- of a port that opens, or closes. */
void credit_idle_port_init(struct split_port *port);
void credit_idle_port_fini(struct split_port *port);
/* credit_idle_is_awake -- whether @qp is counted, and may hold grants. */
bool credit_idle_is_awake(const struct split_qp *qp);
/* credit_idle_on_heard -- requests came, or WANT, or the connection: awake from now on. */
void credit_idle_on_heard(struct split_qp *qp);
/* credit_idle_on_batch -- requests were taken, nothing granted since: is a @share enough? */
void credit_idle_on_batch(struct split_qp *qp, uint32_t share);
/* credit_idle_on_return -- after what the peer returned was taken back. */
void credit_idle_on_return(struct split_qp *qp);
/* credit_idle_leave -- @qp, which holds nothing, is counted no longer. No-op when it is not. */
void credit_idle_leave(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_CREDIT_IDLE_H */
