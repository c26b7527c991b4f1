/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_input.h -- what a client has sent: one buffer, and in it flags, options, requests, payloads
 *
 * Whether a connection ends is its owner's to do: nbd_connection.c.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_INPUT_H
#define CLEAVE_VM_CLIENT_NBD_INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nbd.h"

/* nbd_input_bytes -- in the buffer, not acted upon. */
uint32_t nbd_input_bytes(const struct nbd_connection *connection);
/* nbd_input_is_wanted -- may more be read? Not while too much is in flight, or is to be sent (I9). */
bool nbd_input_is_wanted(const struct nbd_connection *connection);
/*
 * nbd_input_read -- read once, into the buffer or a payload's own place
 *
 * Returns as read does: bytes, 0 the peer has closed, -errno.
 */
ssize_t nbd_input_read(struct nbd_connection *connection);
/*
 * nbd_input_parse -- act upon what is in the buffer, as far as it goes
 *
 * Returns 0; -ESHUTDOWN: end the connection in order; another negative errno: break it, *@ret_why says why.
 */
int nbd_input_parse(struct nbd_connection *connection, const char **ret_why);
/* nbd_input_on_option -- @rc is what an option's handler returned: the same returns, and 1: parse on. */
int nbd_input_on_option(struct nbd_connection *connection, int rc, const char **ret_why);

#endif /* CLEAVE_VM_CLIENT_NBD_INPUT_H */
