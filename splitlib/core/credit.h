/* SPDX-License-Identifier: Apache-2.0 */
/* credit.h -- what credit.c and credit_idle.c share; credit.c tells the model */
#ifndef CLEAVE_SPLIT_CREDIT_H
#define CLEAVE_SPLIT_CREDIT_H

#include "internal.h"

#define CREDIT_WAKE_LIMIT 2u /* of who slept, or is a guest: room for one request after the other */

/* credit.c */

/* credit_share_is_full -- whether each of @qp_count may have as much as one alone. */
bool credit_share_is_full(const struct split_port *port, uint32_t qp_count);
/* credit_mark_dirty -- something came back: serve who waits, if anyone does, at the turn's end. */
void credit_mark_dirty(struct split_port *port);
/* credit_wait_leave -- @qp queues for grants no longer. */
void credit_wait_leave(struct split_qp *qp);
/* credit_post_control -- send enum wire_credit_flags, with what else there is to tell. */
void credit_post_control(struct split_qp *qp, uint32_t flags);
/* credit_recall -- ask @qp's peer for the credits that it does not use. */
void credit_recall(struct split_qp *qp);

/* credit_idle.c */

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

#endif /* CLEAVE_SPLIT_CREDIT_H */
