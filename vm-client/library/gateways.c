/* SPDX-License-Identifier: Apache-2.0 */
/* gateways.c -- see gateways.h */
#include "gateways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config_value.h"
#include "base/tcp_address.h"
#include "cleave/client.h"

#define GATEWAYS_PORT_MAX 65535u

/* NULL: not set, or empty. */
static const char *
gateways_variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static int
gateways_fill(const char *program, struct config_list *gateways)
{
	static char local[sizeof("tcp://127.0.0.1:65535")];
	const char *address = gateways_variable("CLEAVE_GATEWAY");
	const char *port_text = gateways_variable("CLEAVE_GATEWAY_PORT");
	uint64_t port;

	if (gateways->count > CLEAVE_GATEWAYS_MAX) {
		(void)fprintf(stderr, "%s: --gateway: at most %u of them\n", program,
		    CLEAVE_GATEWAYS_MAX);
		return -EINVAL;
	}
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
	int rc = gateways_fill(program, gateways);

	for (uint32_t i = 0; rc == 0 && i < gateways->count; i++) {
		const char *wrong = tcp_address_check(gateways->items[i], true);

		if (wrong == NULL)
			continue;
		(void)fprintf(stderr, "%s: %s: '%s': %s\n", program,
		    gateways_variable("CLEAVE_GATEWAY") == gateways->items[i] ? "CLEAVE_GATEWAY"
									      : "--gateway",
		    gateways->items[i], wrong);
		rc = -EINVAL;
	}
	return rc;
}
