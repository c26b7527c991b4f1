/* SPDX-License-Identifier: Apache-2.0 */
/* local.h -- the unix socket by which a gateway of this host is reached, beside its address */
#ifndef CLEAVE_VM_CLIENT_LOCAL_H
#define CLEAVE_VM_CLIENT_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/client.h"
#include "cleave/split.h"

struct local_socket {
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* "unix://FOLDER/HOST:PORT" */
	uint64_t device, inode, changed_ns;
};

/*
 * local_take -- the folder that @options name, else $CLEAVE_LOCAL, else "", which is none
 *
 * Returns: NULL; or what is wrong with it, for people: it is too long, or anybody's. It is in @ret_folder
 * then, too, as far as it fits.
 */
const char *local_take(const struct cleave_client_options *options,
    char ret_folder[SPLIT_ADDRESS_BYTES_MAX]);
/*
 * local_find -- has the gateway's port at @address, "tcp://HOST:PORT", a socket in @folder?
 *
 * A socket that neither root nor the folder's owner has made there is none; nor is any where everybody may write to the
 * folder, or could have made it. Blocks for a few looks at folders in memory.
 * Returns: true, and @ret_socket is it; false: there is none. Somebody need not answer there.
 */
bool local_find(const char *folder, const char *address, struct local_socket *ret_socket);
/* Are @a and @b one file? A socket that is made anew, under its old name, is another one. */
bool local_is_same(const struct local_socket *a, const struct local_socket *b);

#endif /* CLEAVE_VM_CLIENT_LOCAL_H */
