/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_control.h -- asking a running agent: list, attach, detach, and giving way to a new agent
 *
 * A unix socket of packets (SOCK_SEQPACKET): one JSON object asks, one answers; one that is too long for a packet is an
 * error. Its mode is 0600, and who connects must be root or the agent's own user (SO_PEERCRED): others are closed, and
 * logged.
 *
 *	{"op":"list"}                                    {"exports":[{"name","state","users",
 *	                                                   "size_bytes","uri","persistent","problem"}],
 *	                                                   "exports_file","exports_file_problems"}
 *	{"op":"attach","name":N,"read_only":false,       {"uri":"nbd+unix:///N?socket=PATH",
 *	    "persistent":false}                            "exports_file":PATH, of a persistent one}
 *	{"op":"detach","name":N,"force":false}           {"exports_file":PATH, where there is one}
 *	{"op":"reload"}: of exports_file                 as list
 *	{"op":"list","after":NAME}, {"op":"reload", ...  as list, but a part: some that are behind NAME, by
 *	                                                   name, and "more":true if the last one is to be
 *	                                                   asked behind. Begin with ""
 *	{"op":"give"}   see nbd_handover.h
 *	anything else, or what cannot be done            {"error":"..."}
 */
#ifndef CLEAVE_VM_CLIENT_NBD_CONTROL_H
#define CLEAVE_VM_CLIENT_NBD_CONTROL_H

#include "nbd.h"

#define NBD_CONTROL_BYTES_MAX 16384u
#define NBD_CONTROL_CLIENTS_MAX 8u

struct nbd_control;

/*
 * nbd_control_create -- listen at @path, which must not be another agent's
 *
 * @on_given: the server's clients are another process's now; end. NULL with a text in @ret_error.
 */
struct nbd_control *nbd_control_create(struct nbd_server *server, const char *path,
    void (*on_given)(void *arg), void *arg, char *ret_error, size_t error_bytes);
struct nbd_persistent;
/* nbd_control_persist -- exports can be made to last, by @persistent, which outlives @control. */
void nbd_control_persist(struct nbd_control *control, struct nbd_persistent *persistent);
/* nbd_control_destroy -- NULL is a no-op. */
void nbd_control_destroy(struct nbd_control *control);

#define NBD_URI_BYTES 1024u /* names and paths of sockets, all of whose bytes take three */
/* nbd_uri -- the URI by which a client reaches @name at the server's first unix socket; "" without one. */
void nbd_uri(const struct nbd_server *server, const char *name, char *out, size_t bytes);

#endif /* CLEAVE_VM_CLIENT_NBD_CONTROL_H */
