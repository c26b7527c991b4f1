/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.h -- socket addresses from text and back */
#ifndef CLEAVE_BASE_TCP_ADDRESS_H
#define CLEAVE_BASE_TCP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "cleave/split.h"

/*
 * tcp_address_parse -- "HOST:PORT", "[V6]:PORT"; HOST is numeric, or localhost
 *
 * Names are not looked up: that would block the loop. Returns 0 or -EINVAL.
 */
int tcp_address_parse(const char *host_port, struct sockaddr_storage *ret_address,
    socklen_t *ret_bytes);
/*
 * tcp_address_check -- may a user give @address, "tcp://HOST:PORT" or "verbs://HOST:PORT"?
 *
 * @is_peer: somebody is to be found there, so that port 0 is none.
 * Returns: NULL; or what is wrong, and what is wanted: a text that stands behind the address.
 */
const char *tcp_address_check(const char *address, bool is_peer);
/* tcp_address_format -- with the scheme, into SPLIT_ADDRESS_BYTES_MAX bytes. */
void tcp_address_format(const struct sockaddr_storage *address, char *ret_text);
/* tcp_address_format_as -- the same for another transport whose addresses look like these. */
void tcp_address_format_as(const char *scheme, const struct sockaddr_storage *address,
    char *ret_text);

#endif /* CLEAVE_BASE_TCP_ADDRESS_H */
