/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.h -- socket addresses from text and back */
#ifndef CLEAVE_BASE_TCP_ADDRESS_H
#define CLEAVE_BASE_TCP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "cleave/split.h"

/*
 * tcp_address_parse -- "HOST:PORT", "[V6]:PORT"; HOST is numeric, or localhost
 *
 * Other names are not looked up here: that would block the loop (resolve.h). Returns 0 or -EINVAL.
 */
int tcp_address_parse(const char *host_port, struct sockaddr_storage *ret_address,
    socklen_t *ret_bytes);
/* tcp_address_is_name -- is it "NAME:PORT", which tcp_address_parse refuses? Else the outputs are untouched. */
bool tcp_address_is_name(const char *host_port, char ret_name[SPLIT_ADDRESS_BYTES_MAX],
    uint16_t *ret_port);
/*
 * tcp_address_check -- may a user give @address, "tcp://HOST:PORT" or "verbs://HOST:PORT"?
 *
 * @is_peer: somebody is to be found there, so that port 0 is none.
 * Returns: NULL; or what is wrong, and what is wanted: a text that stands behind the address.
 */
const char *tcp_address_check(const char *address, bool is_peer);
/* tcp_address_has_name -- is the host of @address, with its scheme, a name? */
bool tcp_address_has_name(const char *address);
/* tcp_address_is_any -- does @address, with its scheme, say "all of this machine's": 0.0.0.0 or [::]? */
bool tcp_address_is_any(const char *address);
/* tcp_address_is_loopback -- does nobody but this machine reach @address, of IPv4 or IPv6? Not "all of them". */
bool tcp_address_is_loopback(const struct sockaddr_storage *address);
/*
 * tcp_address_publish -- where others find what is bound at @bound and is called @address
 *
 * @address with its port, or, where that is 0, @bound's. Both have a scheme and passed tcp_address_check. Into
 * SPLIT_ADDRESS_BYTES_MAX bytes.
 */
void tcp_address_publish(const char *address, const char *bound, char *ret_text);
/* tcp_address_set_port -- of an IPv4 or IPv6 address. */
void tcp_address_set_port(struct sockaddr_storage *address, uint16_t port);
/* tcp_address_format -- with the scheme, into SPLIT_ADDRESS_BYTES_MAX bytes. */
void tcp_address_format(const struct sockaddr_storage *address, char *ret_text);
/* tcp_address_format_as -- the same for another transport whose addresses look like these. */
void tcp_address_format_as(const char *scheme, const struct sockaddr_storage *address,
    char *ret_text);

#endif /* CLEAVE_BASE_TCP_ADDRESS_H */
