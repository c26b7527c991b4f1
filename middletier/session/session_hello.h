/* SPDX-License-Identifier: Apache-2.0 */
/* session_hello.h -- whose hello a port takes */
#ifndef CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H
#define CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H

struct mt_port;
struct split_subject;
struct wire_hello;

/*
 * mt_session_check_hello -- is @hello a client's, of this cluster, and does @port take any?
 *
 * Returns 0; -EPROTO, -EXDEV or -EBUSY, and *@ret_field names what is wrong.
 */
int mt_session_check_hello(const struct mt_port *port, const struct wire_hello *hello,
    const char **ret_field);
/*
 * mt_session_check_subject -- may who has @subject (NULL: the connection is open) come with @hello?
 *
 * Volumes are for clients and admins; monitors and other gateways ask; nodes come to nobody. Returns 0; -EKEYREJECTED and
 * SPLIT_KEY_WHY_BYTES_MAX bytes of @why.
 */
int mt_session_check_subject(const struct split_subject *subject, const struct wire_hello *hello,
    char *why);

#endif /* CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H */
