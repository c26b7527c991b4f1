/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.h -- sockets with a path: their addresses, and a path that a dead process left */
#ifndef CLEAVE_BASE_UNIX_SOCKET_H
#define CLEAVE_BASE_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

struct stat;

/* unix_socket_address -- @path as an address. 0; -ENAMETOOLONG: it is empty, or has more than 107 bytes. */
int unix_socket_address(const char *path, struct sockaddr_un *ret_address);
/*
 * unix_socket_clear -- make room for a socket of @type at @address: what nobody answers any more is removed
 *
 * Returns: 0; -EEXIST something else is there; -EADDRINUSE somebody answers; what removing it said.
 */
int unix_socket_clear(const struct sockaddr_un *address, int type);
/*
 * unix_socket_folder_is_kept -- is @status, that of @path, a folder's to which not everybody may write? Else anybody may put a
 * socket there, and pose as who is looked for. So may who has made the folder in one to which everybody may write: one in
 * /tmp must be root's or our own. UNIX_SOCKET_FOLDER_OPEN says so, for people.
 */
bool unix_socket_folder_is_kept(const char *path, const struct stat *status);
#define UNIX_SOCKET_FOLDER_OPEN                                                                        \
	"it is no folder, or everybody may write to it, or might have made it: chmod o-w, or another " \
	"place than /tmp is wanted"

#endif /* CLEAVE_BASE_UNIX_SOCKET_H */
