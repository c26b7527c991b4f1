/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_reply.h -- what a request that has ended is answered with: data, extents, an error */
#ifndef CLEAVE_VM_CLIENT_NBD_REPLY_H
#define CLEAVE_VM_CLIENT_NBD_REPLY_H

#include "nbd.h"

/*
 * nbd_reply_make -- fill @request->reply by what its command was and what became of it
 *
 * libcleave has nothing of @request any more. An error is told to the export. A read that is answered in parts has
 * its data in those.
 */
void nbd_reply_make(struct nbd_request *request);

#endif /* CLEAVE_VM_CLIENT_NBD_REPLY_H */
