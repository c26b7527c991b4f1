/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_mailbox.h -- a value that main hands to a port's thread: the newest alone counts
 *
 *	main: mt_port_mailbox_put --post, unless one is out--> the port's loop: fn(arg, the newest)
 *
 * Two values put before the loop comes round are one call. A value equal to the last one is not handed on again.
 */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_MAILBOX_H
#define CLEAVE_MIDDLETIER_PORT_PORT_MAILBOX_H

#include <stddef.h>

struct loop;
struct mt_port_mailbox;

/*
 * mt_port_mailbox_create -- an empty one: its first value is compared with @bytes zeros
 *
 * @fn gets @arg and the value, valid until it returns, on @loop's thread. NULL: no memory.
 */
struct mt_port_mailbox *mt_port_mailbox_create(struct loop *loop, size_t bytes,
    void (*fn)(void *arg, const void *value), void *arg);
/*
 * mt_port_mailbox_destroy -- neither side uses it any more. NULL is a no-op
 *
 * A post may be out only where @loop runs no more: after the last turn of a port's own loop; or a killed process's,
 * which has forgotten its posts.
 */
void mt_port_mailbox_destroy(struct mt_port_mailbox *mailbox);
/* mt_port_mailbox_put -- @value, of the mailbox's bytes, is copied; padding is compared, too. Main's thread alone. */
void mt_port_mailbox_put(struct mt_port_mailbox *mailbox, const void *value);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_MAILBOX_H */
