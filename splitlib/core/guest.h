/* SPDX-License-Identifier: Apache-2.0 */
/* guest.h -- connections that give way where others lack room; guest.c tells who */
#ifndef CLEAVE_SPLIT_GUEST_H
#define CLEAVE_SPLIT_GUEST_H

#include <stdbool.h>

struct split_port;
struct split_qp;

/* guest_port_init, guest_port_fini -- of a port that opens, or closes. */
void guest_port_init(struct split_port *port);
void guest_port_fini(struct split_port *port);
/* guest_begin -- @qp is new: a guest from here on, where guests give way, and it is one that came in. */
void guest_begin(struct split_qp *qp);
/* guest_end -- @qp is about to be freed. */
void guest_end(struct split_qp *qp);
/* guest_is -- may @qp be closed when places or receives are needed? Not so a lodger, which gives its place alone. */
bool guest_is(const struct split_qp *qp);
/* guest_on_heard -- @qp said hello, or asked for something: it goes last. No-op of one that is kept. */
void guest_on_heard(struct split_qp *qp);
/*
 * guest_make_room -- close a guest, or a lodger where there is none, so that there is a place and a descriptor for who comes
 *
 * Not from inside of what a queue pair's transport has called. False: there is nobody to close, or the
 * place is free only later.
 */
bool guest_make_room(struct split_port *port);
/* guest_watch -- receives are short: close guests that owe some for too long. */
void guest_watch(struct split_port *port);

#endif /* CLEAVE_SPLIT_GUEST_H */
