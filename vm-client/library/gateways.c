/* SPDX-License-Identifier: Apache-2.0 */
/* gateways.c -- see gateways.h */
#include "gateways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/tcp_address.h"
#include "cleave/client.h"

#define GATEWAYS_PORT_MAX 65535u

/* NULL: not set, or empty. */
static const char *
gateways_variable(const char *name)
{
	const char *value = getenv(name);

	assert(name != NULL);
	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* An address of @bytes bytes at @text into @ret_address. NULL, or what is wrong with it. */
static const char *
address_take(const char *text, size_t bytes, char ret_address[SPLIT_ADDRESS_BYTES_MAX])
{
	const char *scheme = memmem(text, bytes, "://", 3) == NULL ? "tcp://" : "";

	assert(memchr(text, ',', bytes) == NULL);
	if (bytes == 0)
		return "an address like " CLEAVE_DEFAULT_GATEWAY " is wanted";
	if (strlen(scheme) + bytes >= SPLIT_ADDRESS_BYTES_MAX)
		return "an address has at most 127 characters";
	(void)snprintf(ret_address, SPLIT_ADDRESS_BYTES_MAX, "%s%.*s", scheme, (int)bytes, text);
	/* The simulated network looks at its addresses itself. */
	if (strncmp(ret_address, "sim://", strlen("sim://")) == 0)
		return NULL;
	return tcp_address_check(ret_address, true);
}

int
gateways_cut(const char *list, char gateways[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX],
    uint32_t *count, char ret_error[CLEAVE_ERROR_BYTES_MAX])
{
	const char *wrong;

	assert(list != NULL);
	assert(*count <= CLEAVE_GATEWAYS_MAX);
	for (;;) {
		size_t bytes = strcspn(list, ",");

		if (*count == CLEAVE_GATEWAYS_MAX) {
			(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX,
			    "'%.100s': at most %u of them", list, CLEAVE_GATEWAYS_MAX);
			return -EINVAL;
		}
		wrong = address_take(list, bytes, gateways[*count]);
		if (wrong != NULL) {
			(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "'%.*s': %s",
			    (int)(bytes < 150 ? bytes : 150), list, wrong);
			return -EINVAL;
		}
		(*count)++;
		if (list[bytes] == '\0')
			return 0;
		list += bytes + 1;
	}
}

static int
gateways_fill(const char *program, struct config_list *gateways)
{
	static char local[sizeof("tcp://127.0.0.1:65535")];
	const char *address = gateways_variable("CLEAVE_GATEWAY");
	const char *port_text = gateways_variable("CLEAVE_GATEWAY_PORT");
	uint64_t port;

	assert(gateways->count <= CONFIG_LIST_MAX);
	if (gateways->count > 0)
		return 0;
	if (address == NULL && port_text != NULL) {
		if (config_parse_u64(port_text, &port) != 0 || port == 0 ||
		    port > GATEWAYS_PORT_MAX) {
			(void)fprintf(stderr, "%s: CLEAVE_GATEWAY_PORT: '%s' is no port, 1 to %u\n",
			    program, port_text, GATEWAYS_PORT_MAX);
			return -EINVAL;
		}
		(void)snprintf(local, sizeof(local), "tcp://127.0.0.1:%u", (unsigned)port);
		address = local;
	}
	gateways->items[0] = address != NULL ? address : CLEAVE_DEFAULT_GATEWAY;
	gateways->count = 1;
	return 0;
}

int
gateways_default(const char *program, struct config_list *gateways)
{
	char addresses[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	char wrong[CLEAVE_ERROR_BYTES_MAX];
	int rc = gateways_fill(program, gateways);
	uint32_t count = 0;

	assert(program != NULL);
	for (uint32_t i = 0; rc == 0 && i < gateways->count; i++) {
		rc = gateways_cut(gateways->items[i], addresses, &count, wrong);
		if (rc != 0)
			(void)fprintf(stderr, "%s: %s: %s\n", program,
			    gateways_variable("CLEAVE_GATEWAY") == gateways->items[i]
				? "CLEAVE_GATEWAY"
				: "--gateway",
			    wrong);
	}
	return rc;
}
