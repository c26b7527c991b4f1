/* SPDX-License-Identifier: Apache-2.0 */
/* receive.h -- receives come back; split_msg_release is cleave/split.h's */
#ifndef CLEAVE_SPLIT_RECEIVE_H
#define CLEAVE_SPLIT_RECEIVE_H

struct split_qp;

/*
 * receive_flush -- @qp is closing: what is half filled, posted and undelivered is released
 *
 * Messages in handlers' hands stay there, without a queue pair.
 */
void receive_flush(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_RECEIVE_H */
