/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_handover.h -- clients go from an agent to its successor and do not notice
 *
 *	old                                  new
 *	 |  <---- {"op":"give","carries":true,..}
 *	 | park: read no further request,     |
 *	 | finish those that were taken       |
 *	 | --- {"listener":..} + descriptor ->|
 *	 | --- {"export":..} ---------------->|
 *	 | --- {"connection":..} + descriptor, unread bytes; what is half here or not sent, in a file ->
 *	 | --- {"end":true} ----------------->|  takes them over
 *	 | <-------------- {"taken":true} --- |
 *	 | --- {"yours":true} --------------->|  opens the volumes, compares their ids, takes them from old
 *	 | ends
 *
 * What was given is read by nobody until "yours", or until the old agent has died. Before "taken" comes
 * the old one can go on as before: it says "kept" and does, when the new one fails, or when requests
 * wait for a gateway that is slow. A request whose payload is half here, and replies that the client
 * has not taken, go along (nbd_carry.c); a successor of a version that does not say "carries" gets none
 * of that: the old agent waits for such clients, for half of NBD_HANDOVER_S, and then cuts them off. So are
 * those in their handshake, at once. They come again.
 * The old agent gives up when no "taken" comes in its time and none has come that it did not see yet. A successor that
 * has gone by then is told nothing, and the old agent keeps its clients. "Has died" is the end of the socket, behind
 * all that was said there: a reset in front of it is none.
 * An export that was attached at run time goes along to a successor that says "exports", and so does one that goes
 * with its last client, while it has one. Where the new agent does not export what a client uses, it takes nothing, and
 * ends.
 * A connection names its export, and the id of the volume that it has: where another volume bears the name by now,
 * the new agent cuts it off, and takes nothing. An agent of a version that does not say the id is believed.
 * Nobody can hand over the keys of a client under TLS: the old agent stays for it, and relays between it
 * and the new one what it says, until the last such client has gone; see nbd_relay.c.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_HANDOVER_H
#define CLEAVE_VM_CLIENT_NBD_HANDOVER_H

#include "nbd.h"

#define NBD_HANDOVER_S 5 /* bounds each step */

struct nbd_handover;
/* @rc: 0, everything was given; else nothing was, and the server goes on. */
typedef void (*nbd_handover_fn)(int rc, void *arg);

/*
 * nbd_handover_give -- to whom asked at @fd, which is borrowed until @fn. NULL: out of memory.
 *
 * @is_carrying: it takes what was half received, and not sent yet.
 */
struct nbd_handover *nbd_handover_give(struct nbd_server *server, int fd, bool is_carrying,
    nbd_handover_fn fn, void *arg);
/* nbd_handover_cancel -- no @fn; the server goes on. */
void nbd_handover_cancel(struct nbd_handover *handover);
/* nbd_handover_take -- everything of the agent that listens at @path. Blocks. 0, or a text. */
int nbd_handover_take(struct nbd_server *server, const char *path, char *ret_error,
    size_t error_bytes);

#endif /* CLEAVE_VM_CLIENT_NBD_HANDOVER_H */
