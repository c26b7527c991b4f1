/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c -- which transport an address names, and what transports tell a port's owner */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "port.h"
#include "transport.h"

#define ADDRESS_SEPARATOR "://"

const struct transport_ops *
transport_find(const struct split_port *port, const char *address, const char **ret_host_port)
{
	const char *separator;
	size_t bytes;

	if (address == NULL || strlen(address) >= SPLIT_ADDRESS_BYTES_MAX)
		return NULL;
	separator = strstr(address, ADDRESS_SEPARATOR);
	if (separator == NULL)
		return NULL;
	bytes = (size_t)(separator - address);
	for (uint32_t i = 0; i < port->transport_count; i++) {
		const struct transport_ops *ops = port->transports[i];

		if (strlen(ops->scheme) == bytes && memcmp(ops->scheme, address, bytes) == 0) {
			*ret_host_port = separator + strlen(ADDRESS_SEPARATOR);
			return ops;
		}
	}
	return NULL;
}

void
transport_reason(struct split_port *port, const char *format, ...)
{
	va_list args;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	va_start(args, format);
	(void)vsnprintf(port->reason, sizeof(port->reason), format, args); /* cut where too long */
	va_end(args);
}
