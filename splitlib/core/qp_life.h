/* SPDX-License-Identifier: Apache-2.0 */
/* qp_life.h -- queue pairs are made, become ready, and end */
#ifndef CLEAVE_SPLIT_QP_LIFE_H
#define CLEAVE_SPLIT_QP_LIFE_H

#include "cleave/split.h"

struct split_port;
struct split_qp;
struct transport_ops;

/*
 * qp_create -- in CONNECTING or ACCEPTING, in the port's list
 *
 * Returns: NULL with errno: ENOMEM; ENOBUFS the port has no room for it, and of an acceptor's few
 * surplus ones (is_surplus), which are there to be refused, there are enough as well.
 */
struct split_qp *qp_create(struct split_port *port, const struct transport_ops *ops,
    enum split_qp_state state);
/* qp_free -- of one that never got further than its creation, or is CLOSED. */
void qp_free(struct split_qp *qp);
/* qp_become_ready -- CONNECTING or ACCEPTING to READY. on_ready is called by the caller. */
void qp_become_ready(struct split_qp *qp);
/* qp_finish_now -- do at once what the close task would: for split_port_close. */
void qp_finish_now(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_QP_LIFE_H */
