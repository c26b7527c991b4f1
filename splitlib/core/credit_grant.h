/* SPDX-License-Identifier: Apache-2.0 */
/* credit_grant.h -- credits for peers that send requests; credit_grant.c tells the model */
#ifndef CLEAVE_SPLIT_CREDIT_GRANT_H
#define CLEAVE_SPLIT_CREDIT_GRANT_H

#include <stdbool.h>
#include <stdint.h>

struct split_port;
struct split_qp;

/* credit_grant_port_init, credit_grant_port_fini -- of a port that opens, or closes. */
void credit_grant_port_init(struct split_port *port);
void credit_grant_port_fini(struct split_port *port);
/* credit_on_ready -- @qp has become READY: the first grant. */
void credit_on_ready(struct split_qp *qp);
/* credit_on_batch -- requests were taken: grant anew. */
void credit_on_batch(struct split_qp *qp);
/* credit_on_answered -- a request of @qp's has its answer, which is about to leave. */
void credit_on_answered(struct split_qp *qp);
/* credit_on_posted -- a receive was posted on @qp. */
void credit_on_posted(struct split_qp *qp);
/* credit_on_kept -- @qp is no guest any more: it may have as much as others. */
void credit_on_kept(struct split_qp *qp);
/* credit_on_want -- the peer of @qp has requests and no credit. */
void credit_on_want(struct split_qp *qp);
/* credit_on_return -- the peer of @qp gives @count credits back. 0; -EPROTO it has not so many. */
int credit_on_return(struct split_qp *qp, uint32_t count);
/* credit_grant_serve -- those that wait for grants get what there is, each in turn. */
void credit_grant_serve(struct split_port *port);
/* credit_announce -- tell grants that cannot wait for a message of ours. */
void credit_announce(struct split_port *port);
/* credit_stamp -- grants to put into a message about to leave. */
uint16_t credit_stamp(struct split_qp *qp);
/* credit_wait_leave -- @qp queues for grants no longer. No-op when it does not. */
void credit_wait_leave(struct split_qp *qp);
/* credit_recall -- ask the peer of @qp, which is READY, for the credits that it does not use. */
void credit_recall(struct split_qp *qp);
/* credit_recall_soon -- receives are short: recall what lies idle, soon. */
void credit_recall_soon(struct split_port *port);
/* credit_share_is_full -- may each of @qp_count have as much as one alone? */
bool credit_share_is_full(const struct split_port *port, uint32_t qp_count);

#endif /* CLEAVE_SPLIT_CREDIT_GRANT_H */
