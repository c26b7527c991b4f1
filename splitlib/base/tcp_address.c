/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.c -- numeric hosts and ports, in brackets or not */
#include "base/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/num.h"

#define TCP_HOST_BYTES_MAX 64u

/* Cut "HOST:PORT" at its last colon; brackets round the host are taken off. */
static int
host_port_split(const char *host_port, char host[TCP_HOST_BYTES_MAX], bool *ret_is_bracketed,
    in_port_t *ret_port)
{
	const char *colon = strrchr(host_port, ':');
	size_t bytes;
	uint64_t port;

	if (colon == NULL || config_parse_u64(colon + 1, &port) != 0 || port > UINT16_MAX)
		return -EINVAL;
	assert(colon >= host_port);
	bytes = (size_t)(colon - host_port);
	*ret_is_bracketed = bytes >= 2 && host_port[0] == '[' && colon[-1] == ']';
	if (*ret_is_bracketed) {
		host_port++;
		bytes -= 2;
	}
	if (bytes == 0 || bytes >= TCP_HOST_BYTES_MAX)
		return -EINVAL;
	memcpy(host, host_port, bytes);
	host[bytes] = '\0';
	*ret_port = htons((uint16_t)port);
	return 0;
}

int
tcp_address_parse(const char *host_port, struct sockaddr_storage *ret_address, socklen_t *ret_bytes)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	char host[TCP_HOST_BYTES_MAX];
	bool is_bracketed;
	in_port_t port;
	int rc;

	rc = host_port_split(host_port, host, &is_bracketed, &port);
	if (rc != 0)
		return rc;
	if (!is_bracketed && strcmp(host, "localhost") == 0)
		(void)snprintf(host, sizeof(host), "127.0.0.1"); /* fits */
	memset(ret_address, 0, sizeof(*ret_address));
	if (is_bracketed) {
		if (inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
			return -EINVAL;
		v6.sin6_port = port;
		memcpy(ret_address, &v6, sizeof(v6));
		*ret_bytes = sizeof(v6);
		return 0;
	}
	if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
		return -EINVAL;
	v4.sin_port = port;
	memcpy(ret_address, &v4, sizeof(v4));
	*ret_bytes = sizeof(v4);
	return 0;
}

const char *
tcp_address_check(const char *address, bool is_peer)
{
	static const char *const schemes[] = { "tcp://", "verbs://" };
	struct sockaddr_storage at;
	const char *host_port = NULL;
	socklen_t bytes;

	for (size_t i = 0; i < NUM_COUNT(schemes); i++) {
		if (strncmp(address, schemes[i], strlen(schemes[i])) == 0)
			host_port = address + strlen(schemes[i]);
	}
	if (host_port == NULL)
		return "begins with neither tcp:// nor verbs://";
	if (strlen(address) >= SPLIT_ADDRESS_BYTES_MAX ||
	    tcp_address_parse(host_port, &at, &bytes) != 0)
		return "HOST:PORT is wanted behind tcp:// or verbs://, with HOST a number: an IPv4 "
		       "address, an IPv6 address in brackets, or localhost; names are not looked up";
	if (is_peer && strcmp(strrchr(host_port, ':'), ":0") == 0)
		return "nobody listens at port 0";
	return NULL;
}

void
tcp_address_format(const struct sockaddr_storage *address, char *ret_text)
{
	tcp_address_format_as("tcp", address, ret_text);
}

void
tcp_address_format_as(const char *scheme, const struct sockaddr_storage *address, char *ret_text)
{
	char host[INET6_ADDRSTRLEN] = "?"; /* of a peer that has gone before it was asked for */

	if (address->ss_family == AF_INET6) {
		struct sockaddr_in6 v6;

		memcpy(&v6, address, sizeof(v6));
		(void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host)); /* fits */
		(void)snprintf(ret_text, SPLIT_ADDRESS_BYTES_MAX, "%s://[%s]:%u", scheme, host,
		    ntohs(v6.sin6_port));
	} else {
		struct sockaddr_in v4;

		memcpy(&v4, address, sizeof(v4));
		(void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)); /* fits */
		(void)snprintf(ret_text, SPLIT_ADDRESS_BYTES_MAX, "%s://%s:%u", scheme, host,
		    ntohs(v4.sin_port));
	}
}
