/* SPDX-License-Identifier: Apache-2.0 */
/* port_listen.c -- see port_listen.h */
#include "port/port_listen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/log.h"
#include "base/tcp_address.h"
#include "base/unix_socket.h"
#include "cleave/split.h"
#include "session/session.h"

#define LISTEN_SCHEME "tcp://"
#define LISTEN_FOLDER_MODE (S_IRWXU | S_IRGRP | S_IXGRP)
#define LISTEN_WHY_BYTES 160u

/* Publish, in gateways/ID, roots and maps, what the port advertises, and not what it is bound to. */
static void
port_advertise(struct mt_port *port, const struct mt_port_options *options)
{
	char bound[SPLIT_ADDRESS_BYTES_MAX];

	assert(options->address[0] != '\0');
	memcpy(bound, port->address, sizeof(bound));
	if (options->advertise != NULL && options->advertise[0] != '\0')
		tcp_address_publish(options->advertise, bound, port->address);
	else if (tcp_address_has_name(options->address))
		tcp_address_publish(options->address, bound, port->address);
	if (strcmp(bound, port->address) != 0)
		log_info("port: listens port=%" PRIu32 " address=%s advertised=%s", port->index,
		    bound, port->address);
}

/* Where there are no keys clients believe whoever has a socket in it. */
static int
folder_make(const char *folder, char ret_why[LISTEN_WHY_BYTES])
{
	struct stat status;

	if ((mkdir(folder, LISTEN_FOLDER_MODE) != 0 && errno != EEXIST) ||
	    stat(folder, &status) != 0) {
		int rc = -errno;

		(void)snprintf(ret_why, LISTEN_WHY_BYTES, "%s", strerrordesc_np(-rc));
		return rc;
	}
	if (unix_socket_folder_is_kept(folder, &status))
		return 0;
	(void)snprintf(ret_why, LISTEN_WHY_BYTES, UNIX_SOCKET_FOLDER_OPEN);
	return -EACCES;
}

static int
listen_in_folder(struct mt_port *port, const char *folder, char ret_why[LISTEN_WHY_BYTES])
{
	const char *host_port = port->address + strlen(LISTEN_SCHEME);
	char address[2 * SPLIT_ADDRESS_BYTES_MAX];
	int rc = folder_make(folder, ret_why);

	assert(strncmp(port->address, LISTEN_SCHEME, strlen(LISTEN_SCHEME)) == 0);
	if (rc != 0)
		return rc;
	(void)snprintf(address, sizeof(address), "unix://%.*s/%s", (int)SPLIT_ADDRESS_BYTES_MAX,
	    folder, host_port); /* fits */
	rc = split_listen(port->split, address, mt_session_on_accept, port, NULL);
	if (rc == -EINVAL)
		(void)snprintf(ret_why, LISTEN_WHY_BYTES,
		    "with a port's address behind it a path from / on of at most 107 bytes is wanted");
	else if (rc != 0)
		(void)snprintf(ret_why, LISTEN_WHY_BYTES, "%s", strerrordesc_np(-rc));
	else
		log_info("port: listens port=%" PRIu32 " address=%s", port->index, address);
	return rc;
}

int
mt_port_listen(struct mt_port *port, const struct mt_port_options *options, char *ret_error,
    size_t error_bytes)
{
	char why[LISTEN_WHY_BYTES];
	int rc;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	rc = split_listen(port->split, options->address, mt_session_on_accept, port, port->address);
	if (rc == -EADDRINUSE)
		(void)snprintf(ret_error, error_bytes,
		    "port %s: the address is in use: another process listens there",
		    options->address);
	else if (rc != 0)
		(void)snprintf(ret_error, error_bytes, "port %s: cannot listen there: %s",
		    options->address,
		    split_port_reason(port->split)[0] != '\0' ? split_port_reason(port->split)
							      : strerror(-rc));
	if (rc != 0)
		return rc;
	port_advertise(port, options);
	if (options->local == NULL ||
	    strncmp(port->address, LISTEN_SCHEME, strlen(LISTEN_SCHEME)) != 0)
		return 0;
	rc = listen_in_folder(port, options->local, why);
	if (rc != 0)
		(void)snprintf(ret_error, error_bytes, "port %s: --local %s: %s", options->address,
		    options->local, why);
	return rc;
}
