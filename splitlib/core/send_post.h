/* SPDX-License-Identifier: Apache-2.0 */
/* send_post.h -- messages are queued for the wire; send_assemble.c gathers them */
#ifndef CLEAVE_SPLIT_SEND_POST_H
#define CLEAVE_SPLIT_SEND_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"

struct qp_control;
struct split_qp;

/* In split_send.total_bytes: a message of one_sided.c or region.c, which counts for nobody. */
#define SEND_LIBRARYS (UINT64_C(1) << 62)
/* In split_send.total_bytes: its frame is in the room of sealed.c, or was. */
#define SEND_SEALED (UINT64_C(1) << 61)

/* send_queue -- @send, which is filled and in no queue, is the last to leave. */
void send_queue(struct split_qp *qp, struct split_send *send);
/* send_make_sendable -- the oldest of credit_wait, where there is one, goes to the wire's queue. */
void send_make_sendable(struct split_qp *qp);
/* send_post_control -- queue hello or credits; no-op when it is queued. */
void send_post_control(struct split_qp *qp, struct qp_control *control);
/* send_post_credit -- tell @flags (enum wire_credit_flags) in a message of credits, with what else there is. */
void send_post_credit(struct split_qp *qp, uint32_t flags);
/* send_post_library -- queue a message of one_sided.c or region.c: it needs no credit. */
void send_post_library(struct split_qp *qp, struct split_send *send);
/* send_is_control -- hello or credits. */
bool send_is_control(const struct split_send *send);
/* send_kick_later -- something is sendable that was not sent: look again in the next round. */
void send_kick_later(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_SEND_POST_H */
