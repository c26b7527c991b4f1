/* SPDX-License-Identifier: Apache-2.0 */
/* session_hello.h -- whose hello a port takes */
#ifndef CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H
#define CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H

#include <stdbool.h>
#include <stdint.h>

struct mt_port;
struct mt_session;
struct split_subject;
struct wire_hello;

/*
 * mt_session_check_hello -- is @hello a client's or another gateway's, of this cluster, and does @port take any?
 *
 * Returns 0; -EPROTO, -EXDEV or -EBUSY, and *@ret_field names what is wrong.
 */
int mt_session_check_hello(const struct mt_port *port, const struct wire_hello *hello,
    const char **ret_field);
/*
 * mt_session_check_subject -- may who has @subject (NULL: the connection is open) come with @hello?
 *
 * Volumes are for clients and admins; monitors and other gateways ask; who says that it is a gateway has a gateway's key;
 * nodes come to nobody. Returns 0; -EKEYREJECTED and
 * SPLIT_KEY_WHY_BYTES_MAX bytes of @why.
 */
int mt_session_check_subject(const struct split_subject *subject, const struct wire_hello *hello,
    char *why);
/*
 * mt_session_is_difference_with -- it reads what has changed between two ends, and @id is one of them: a
 * volume's id, or a snapshot's number with MT_SNAPSHOT_ID
 */
bool mt_session_is_difference_with(const struct mt_session *session, uint64_t id);

#endif /* CLEAVE_MIDDLETIER_SESSION_SESSION_HELLO_H */
