/* SPDX-License-Identifier: Apache-2.0 */
/* http_host.c -- see http_host.h */
#include "base/http_host.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/check.h"

#define HTTP_HOST_BYTES 256u /* a name has 253 at most */

/* "NAME", "NAME:PORT", "[V6]:PORT" without brackets and port. Returns false: it is too long, or none of these. */
static bool
host_take(const char *host, char out[HTTP_HOST_BYTES])
{
	bool is_v6 = host[0] == '[';
	const char *begin = host + is_v6;
	size_t bytes = strcspn(begin, is_v6 ? "]" : ":");
	const char *rest = begin + bytes + is_v6;

	if (bytes == 0 || bytes >= HTTP_HOST_BYTES || (is_v6 && begin[bytes] != ']'))
		return false;
	memcpy(out, begin, bytes);
	out[bytes] = '\0';
	return rest[0] == '\0' ||
	    (rest[0] == ':' && rest[1 + strspn(rest + 1, "0123456789")] == '\0');
}

bool
http_host_is_ours(const char *host, const char *name)
{
	char taken[HTTP_HOST_BYTES], own[HOST_NAME_MAX + 1];
	struct in6_addr address;

	assert(host != NULL && name != NULL);
	if (!host_take(host, taken))
		return false;
	if (host[0] == '[')
		return inet_pton(AF_INET6, taken, &address) == 1;
	if (inet_pton(AF_INET, taken, &address) == 1 || strcasecmp(taken, "localhost") == 0 ||
	    strcasecmp(taken, name) == 0)
		return true;
	return gethostname(own, sizeof(own)) == 0 && strcasecmp(taken, own) == 0;
}
