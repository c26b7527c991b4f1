/* SPDX-License-Identifier: Apache-2.0 */
/* send_assemble.h -- what goes next on the wire, of the sends that are queued */
#ifndef CLEAVE_SPLIT_SEND_ASSEMBLE_H
#define CLEAVE_SPLIT_SEND_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cleave/split.h"

struct qp_control;
struct split_qp;

/* send_post_control -- queue hello or credits; no-op when it is queued. */
void send_post_control(struct split_qp *qp, struct qp_control *control);
/* send_post_credit -- tell @flags (enum wire_credit_flags) in a message of credits, with what else there is. */
void send_post_credit(struct split_qp *qp, uint32_t flags);
/* send_make_sendable -- the oldest of credit_wait goes to the wire's queue. */
void send_make_sendable(struct split_qp *qp);
/*
 * send_gather -- what is to go next, stamped, as an I/O vector
 *
 * Returns the entries written, at most @iov_max, for about @bytes_max bytes; *@ret_bytes their sum.
 */
uint32_t send_gather(struct split_qp *qp, struct iovec *iov, uint32_t iov_max, uint64_t bytes_max,
    uint64_t *ret_bytes);
/* send_advance -- @bytes of what send_gather gave are out: finish the sends that are through. */
void send_advance(struct split_qp *qp, uint64_t bytes);
/*
 * For transports that post whole messages: send_prepare stamps the header of one of qp->sendable,
 * which cannot be taken back from then on; send_complete ends it, in the queue or out of it.
 */
void send_prepare(struct split_qp *qp, struct split_send *send);
void send_complete(struct split_qp *qp, struct split_send *send, int rc);
/* send_is_control -- hello or credits. */
bool send_is_control(const struct split_send *send);
/* send_post_library -- queue a message of one_sided.c: it needs no credit and counts for nobody. */
void send_post_library(struct split_qp *qp, struct split_send *send);
/* send_is_final -- stamped: its header and length may not change any more. */
bool send_is_final(const struct split_send *send);
/* send_total_bytes -- header and payload. */
uint64_t send_total_bytes(const struct split_send *send);
/* send_flush -- finish every send with @rc. */
void send_flush(struct split_qp *qp, int rc);
/* send_kick_later -- something is sendable that was not sent: look again in the next round. */
void send_kick_later(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_SEND_ASSEMBLE_H */
