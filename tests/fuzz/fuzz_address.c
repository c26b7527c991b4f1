/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_address.c -- arbitrary text as an address and as a list of gateways, as people and maps give it
 *
 * A host is a number or a name, never both; what a user may give one of the two takes; and what a list was cut
 * into passes the check again.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/tcp_address.h"
#include "vm-client/library/gateways.h"

#define TEXT_BYTES_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_address(const char *text)
{
	char name[SPLIT_ADDRESS_BYTES_MAX], published[SPLIT_ADDRESS_BYTES_MAX];
	const char *host_port = strstr(text, "://");
	struct sockaddr_storage at;
	socklen_t at_bytes;
	uint16_t port;
	bool is_number, is_name;

	if (tcp_address_check(text, false) != NULL)
		return;
	host_port += strlen("://");
	is_number = tcp_address_parse(host_port, &at, &at_bytes) == 0;
	is_name = tcp_address_is_name(host_port, name, &port);
	assert(is_number != is_name && tcp_address_has_name(text) == is_name);
	assert(!(is_name && tcp_address_is_any(text)));
	tcp_address_publish(text, "tcp://127.0.0.1:7100", published);
	assert(tcp_address_check(published, true) == NULL);
	if (!is_number)
		return;
	tcp_address_format(&at, published);
	assert(tcp_address_check(published, false) == NULL);
}

static void
check_list(const char *text)
{
	char gateways[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX], error[CLEAVE_ERROR_BYTES_MAX];
	uint32_t count = 0;

	error[0] = '\0';
	if (gateways_cut(text, gateways, &count, error) != 0) {
		assert(error[0] != '\0' && strlen(error) < sizeof(error));
		return;
	}
	assert(count > 0 && count <= CLEAVE_GATEWAYS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		assert(strncmp(gateways[i], "sim://", 6) == 0 ||
		    tcp_address_check(gateways[i], true) == NULL);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char text[TEXT_BYTES_MAX];

	if (bytes >= sizeof(text))
		return 0;
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	check_address(text);
	check_list(text);
	return 0;
}
