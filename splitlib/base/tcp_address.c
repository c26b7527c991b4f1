/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.c -- hosts, by number or name, and ports; see tcp_address.h */
#include "base/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/num.h"

#define TCP_LABEL_BYTES_MAX 63u

/* The parts of "HOST:PORT". */
struct host_port {
	char host[SPLIT_ADDRESS_BYTES_MAX]; /* without brackets */
	uint16_t port;
	bool is_bracketed;
};

/* Cut @text at its last colon; brackets round the host are taken off. 0 or -EINVAL. */
static int
host_port_split(const char *text, struct host_port *ret)
{
	const char *colon = strrchr(text, ':');
	size_t bytes;
	uint64_t port;

	assert(ret != NULL);
	if (colon == NULL || config_parse_u64(colon + 1, &port) != 0 || port > UINT16_MAX)
		return -EINVAL;
	assert(colon >= text);
	bytes = (size_t)(colon - text);
	ret->is_bracketed = bytes >= 2 && text[0] == '[' && colon[-1] == ']';
	if (ret->is_bracketed) {
		text++;
		bytes -= 2;
	}
	if (bytes == 0 || bytes >= sizeof(ret->host))
		return -EINVAL;
	memcpy(ret->host, text, bytes);
	ret->host[bytes] = '\0';
	ret->port = (uint16_t)port;
	return 0;
}

int
tcp_address_parse(const char *host_port, struct sockaddr_storage *ret_address, socklen_t *ret_bytes)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct host_port parts;
	int rc;

	assert(ret_address != NULL && ret_bytes != NULL);
	rc = host_port_split(host_port, &parts);
	if (rc != 0)
		return rc;
	/* As it always was, and without a thread: the name that every test and example has. */
	if (!parts.is_bracketed && strcmp(parts.host, "localhost") == 0)
		(void)snprintf(parts.host, sizeof(parts.host), "127.0.0.1"); /* fits */
	memset(ret_address, 0, sizeof(*ret_address));
	if (parts.is_bracketed) {
		if (inet_pton(AF_INET6, parts.host, &v6.sin6_addr) != 1)
			return -EINVAL;
		v6.sin6_port = htons(parts.port);
		memcpy(ret_address, &v6, sizeof(v6));
		*ret_bytes = sizeof(v6);
		return 0;
	}
	if (inet_pton(AF_INET, parts.host, &v4.sin_addr) != 1)
		return -EINVAL;
	v4.sin_port = htons(parts.port);
	memcpy(ret_address, &v4, sizeof(v4));
	*ret_bytes = sizeof(v4);
	return 0;
}

/*
 * Letters, digits, '-' and '_' in labels with dots between. Not all of digits is the last label: getaddrinfo
 * would take 10.1 for 10.0.0.1, and who writes that means something else.
 */
static bool
host_is_name(const char *host)
{
	size_t label_bytes = 0;
	bool is_number = true;

	assert(host[0] != '\0');
	for (const char *c = host; *c != '\0'; c++) {
		bool is_digit = *c >= '0' && *c <= '9';

		if (*c == '.') {
			if (label_bytes == 0)
				return false;
			label_bytes = 0; /* a dot at the end says that the name is whole */
			continue;
		}
		if (!is_digit && !(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') &&
		    (*c != '-' || label_bytes == 0) && *c != '_')
			return false;
		is_number = (label_bytes == 0 || is_number) && is_digit;
		if (++label_bytes > TCP_LABEL_BYTES_MAX)
			return false;
	}
	return !is_number;
}

bool
tcp_address_is_name(const char *host_port, char ret_name[SPLIT_ADDRESS_BYTES_MAX],
    uint16_t *ret_port)
{
	struct sockaddr_storage at;
	struct host_port parts;
	socklen_t bytes;

	assert(ret_name != NULL && ret_port != NULL);
	if (tcp_address_parse(host_port, &at, &bytes) == 0 ||
	    host_port_split(host_port, &parts) != 0 || parts.is_bracketed ||
	    !host_is_name(parts.host))
		return false;
	memcpy(ret_name, parts.host, sizeof(parts.host));
	*ret_port = parts.port;
	return true;
}

/* The part behind the scheme; NULL: it has none of ours. */
static const char *
address_host_port(const char *address)
{
	static const char *const schemes[] = { "tcp://", "verbs://" };

	assert(address != NULL);
	for (size_t i = 0; i < NUM_COUNT(schemes); i++) {
		if (strncmp(address, schemes[i], strlen(schemes[i])) == 0)
			return address + strlen(schemes[i]);
	}
	return NULL;
}

const char *
tcp_address_check(const char *address, bool is_peer)
{
	const char *host_port = address_host_port(address);
	char name[SPLIT_ADDRESS_BYTES_MAX];
	struct sockaddr_storage at;
	socklen_t bytes;
	uint16_t port;

	if (host_port == NULL)
		return "begins with neither tcp:// nor verbs://";
	if (strlen(address) >= SPLIT_ADDRESS_BYTES_MAX)
		return "an address has at most 127 characters";
	if (tcp_address_parse(host_port, &at, &bytes) != 0 &&
	    !tcp_address_is_name(host_port, name, &port))
		return "HOST:PORT is wanted behind tcp:// or verbs://, with HOST a name, an IPv4 "
		       "address, or an IPv6 address in brackets";
	if (is_peer && strcmp(strrchr(host_port, ':'), ":0") == 0)
		return "nobody listens at port 0";
	return NULL;
}

bool
tcp_address_has_name(const char *address)
{
	const char *host_port = address_host_port(address);
	char name[SPLIT_ADDRESS_BYTES_MAX];
	uint16_t port;

	return host_port != NULL && tcp_address_is_name(host_port, name, &port);
}

bool
tcp_address_is_any(const char *address)
{
	const char *host_port = address_host_port(address);
	struct sockaddr_storage at;
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;
	socklen_t bytes;

	if (host_port == NULL || tcp_address_parse(host_port, &at, &bytes) != 0)
		return false;
	memcpy(&v4, &at, sizeof(v4));
	memcpy(&v6, &at, sizeof(v6));
	return at.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)
					: v4.sin_addr.s_addr == INADDR_ANY;
}

#define TCP_V4_LOOPBACK_NET 127u /* 127.0.0.0/8 */

bool
tcp_address_is_loopback(const struct sockaddr_storage *address)
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	assert(address->ss_family == AF_INET || address->ss_family == AF_INET6);
	memcpy(&v4, address, sizeof(v4));
	memcpy(&v6, address, sizeof(v6));
	if (address->ss_family == AF_INET)
		return ntohl(v4.sin_addr.s_addr) >> 24 == TCP_V4_LOOPBACK_NET;
	return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
	    (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) &&
		v6.sin6_addr.s6_addr[12] == TCP_V4_LOOPBACK_NET);
}

void
tcp_address_publish(const char *address, const char *bound, char *ret_text)
{
	const char *colon = strrchr(address, ':');

	assert(strrchr(bound, ':') != NULL);
	assert(colon != NULL && strlen(address) < SPLIT_ADDRESS_BYTES_MAX);
	if (strcmp(colon, ":0") == 0)
		(void)snprintf(ret_text, SPLIT_ADDRESS_BYTES_MAX, "%.*s%s", (int)(colon - address),
		    address, strrchr(bound, ':'));
	else
		(void)snprintf(ret_text, SPLIT_ADDRESS_BYTES_MAX, "%s", address);
}

void
tcp_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
	assert(address->ss_family == AF_INET || address->ss_family == AF_INET6);
	/* Both have it at the same place. */
	struct sockaddr_in v4;

	_Static_assert(offsetof(struct sockaddr_in, sin_port) ==
		offsetof(struct sockaddr_in6, sin6_port),
	    "the port is where it is");
	memcpy(&v4, address, sizeof(v4));
	v4.sin_port = htons(port);
	memcpy(address, &v4, sizeof(v4));
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

	assert(scheme[0] != '\0');
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
