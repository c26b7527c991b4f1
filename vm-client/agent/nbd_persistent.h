/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_persistent.h -- exports that outlive the agent: the file that lists them, read at the start and when told to
 *
 *	file --read--> exports of the server --looked at, one at a time--> served, or a problem that is told
 *	                                              ^-- again, after 1 s to 60 s --'
 *
 * An export opens its volume when a client comes. So that a volume that is not there is known before, each is opened
 * once to read, which takes nothing from anybody, and closed. One that cannot be had keeps no other one out.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_PERSISTENT_H
#define CLEAVE_VM_CLIENT_NBD_PERSISTENT_H

#include <jansson.h>

#include "nbd.h"

struct nbd_persistent;

/* nbd_persistent_create -- of @server, which outlives it; @path is borrowed. NULL: out of memory. */
struct nbd_persistent *nbd_persistent_create(struct nbd_server *server, const char *path);
/* nbd_persistent_destroy -- the client is gone. NULL is a no-op. */
void nbd_persistent_destroy(struct nbd_persistent *persistent);
/*
 * nbd_persistent_load -- read the file, and make the server's exports what it lists
 *
 * An export whose line is gone goes when its last client has, unless the file has problems: it may be one of them. Others
 * than the file's stay. Problems are logged, and kept for nbd_persistent_problems; a file that cannot be read changes
 * nothing. Blocks, for a file.
 */
void nbd_persistent_load(struct nbd_persistent *persistent);
/* nbd_persistent_look -- @export has become one of the file's: is it there? */
void nbd_persistent_look(struct nbd_persistent *persistent, struct nbd_export *export);
/* nbd_persistent_path -- the file. */
const char *nbd_persistent_path(const struct nbd_persistent *persistent);
/* nbd_persistent_problems -- what is wrong with the file, as an array of texts; NULL: out of memory. */
json_t *nbd_persistent_problems(const struct nbd_persistent *persistent);

#endif /* CLEAVE_VM_CLIENT_NBD_PERSISTENT_H */
