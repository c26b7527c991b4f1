/* SPDX-License-Identifier: Apache-2.0 */
/* control.h -- what people and clients ask of a gateway: every op, by its name */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_H

#include <stdint.h>

struct mt_control_op;
struct mt_session;
struct split_msg;
struct wire_control;

/*
 * mt_control_on_message -- a control request has come
 *
 * Ownership: @msg is the request's until it is answered.
 * Errors:    none to the caller; what is refused is answered, with a text that says why.
 * Threads:   the port's of @session.
 */
void mt_control_on_message(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control);

/* mt_control_op_at -- of the table of ops; NULL behind its end. */
const struct mt_control_op *mt_control_op_at(uint32_t index);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_H */
