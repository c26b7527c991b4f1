/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.c -- see local.h
 *
 * A gateway that is told of the same folder has a socket for each of its ports there, named as the port is in the map. So
 * who finds it is on the gateway's host, and a map tells all hosts the same. Whether the one who listens may be believed
 * is a matter of keys, as everywhere; without keys it is who could make the file.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/num.h"
#include "base/unix_socket.h"

#define LOCAL_SCHEME "tcp://"

const char *
local_take(const struct cleave_client_options *options, char ret_folder[SPLIT_ADDRESS_BYTES_MAX])
{
	const char *folder = options->local;
	struct stat status;

	ret_folder[0] = '\0';
	/* In the simulator nothing may differ from one run to the next. */
	if (folder == NULL && options->sim_host == NULL)
		folder = getenv("CLEAVE_LOCAL");
	if (folder == NULL || folder[0] == '\0')
		return NULL;
	(void)snprintf(ret_folder, SPLIT_ADDRESS_BYTES_MAX, "%s", folder);
	if (folder[0] != '/' || strlen(folder) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return "a path from / on of at most 107 bytes is wanted";
	/* A folder that is not there yet may come later. */
	if (stat(folder, &status) == 0 && !unix_socket_folder_is_kept(folder, &status))
		return UNIX_SOCKET_FOLDER_OPEN;
	return NULL;
}

bool
local_find(const char *folder, const char *address, struct local_socket *ret_socket)
{
	const char *host_port = address + strlen(LOCAL_SCHEME);
	struct stat of_folder, of_socket;
	struct sockaddr_un at;
	char path[2 * SPLIT_ADDRESS_BYTES_MAX];

	assert(strlen(address) < SPLIT_ADDRESS_BYTES_MAX);
	if (folder[0] == '\0' || strncmp(address, LOCAL_SCHEME, strlen(LOCAL_SCHEME)) != 0 ||
	    strchr(host_port, '/') != NULL)
		return false;
	(void)snprintf(path, sizeof(path), "%s/%s", folder, host_port); /* fits */
	if (unix_socket_address(path, &at) != 0 || lstat(path, &of_socket) != 0 ||
	    !S_ISSOCK(of_socket.st_mode) || stat(folder, &of_folder) != 0 ||
	    !unix_socket_folder_is_kept(folder, &of_folder) ||
	    (of_socket.st_uid != 0 && of_socket.st_uid != of_folder.st_uid))
		return false;
	(void)snprintf(ret_socket->address, sizeof(ret_socket->address), "unix://%s",
	    at.sun_path); /* fits */
	ret_socket->device = of_socket.st_dev;
	ret_socket->inode = of_socket.st_ino;
	ret_socket->changed_ns = NUM_S((uint64_t)of_socket.st_ctim.tv_sec) +
	    (uint64_t)of_socket.st_ctim.tv_nsec;
	return true;
}

bool
local_is_same(const struct local_socket *a, const struct local_socket *b)
{
	return a->device == b->device && a->inode == b->inode && a->changed_ns == b->changed_ns &&
	    strcmp(a->address, b->address) == 0;
}
