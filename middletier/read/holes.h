/* SPDX-License-Identifier: Apache-2.0 */
/* holes.h -- chunks that hold nothing */
#ifndef CLEAVE_MIDDLETIER_READ_HOLES_H
#define CLEAVE_MIDDLETIER_READ_HOLES_H

struct mt_session;
struct split_msg;
struct wire_io;

/* mt_holes -- holes.c: answer a HOLES of a segment that is the session's volume's, at once. */
void mt_holes(struct mt_session *session, struct split_msg *msg, const struct wire_io *io);

#endif /* CLEAVE_MIDDLETIER_READ_HOLES_H */
