/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_lease_value.c -- see etcd_lease_value.h */
#include "meta/etcd_lease_value.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "meta/etcd_client.h"

#define LEASE_TTL_MS_MAX (UINT64_C(1) << 53)

void
etcd_lease_key(const struct etcd_client *client, char *out, uint64_t lease)
{
	char name[ETCD_LEASE_ID_CHARS + 1];

	assert(lease != 0);
	(void)snprintf(name, sizeof(name), "%016" PRIx64, lease);
	etcd_client_key(client, out, ETCD_LEASES, name);
}

uint32_t
etcd_lease_head(char out[ETCD_VALUE_HEAD_BYTES_MAX + 1], uint64_t lease)
{
	int bytes = lease == 0
	    ? snprintf(out, ETCD_VALUE_HEAD_BYTES_MAX + 1, "%c", ETCD_VALUE_PLAIN)
	    : snprintf(out, ETCD_VALUE_HEAD_BYTES_MAX + 1, "%c%016" PRIx64, ETCD_VALUE_LEASED,
		  lease);

	assert(bytes > 0 && (uint32_t)bytes <= ETCD_VALUE_HEAD_BYTES_MAX);
	return (uint32_t)bytes;
}

uint64_t
etcd_lease_read_id(const char *text)
{
	char digits[ETCD_LEASE_ID_CHARS + 1];

	assert(text != NULL);
	memcpy(digits, text, ETCD_LEASE_ID_CHARS);
	digits[ETCD_LEASE_ID_CHARS] = '\0';
	if (strspn(digits, "0123456789abcdef") != ETCD_LEASE_ID_CHARS)
		return 0;
	return strtoull(digits, NULL, 16);
}

int
etcd_lease_of(const char *value, uint32_t bytes, uint64_t *ret_lease, uint32_t *ret_head_bytes)
{
	assert(value != NULL || bytes == 0);
	if (bytes >= 1 && value[0] == ETCD_VALUE_PLAIN) {
		*ret_lease = 0;
		*ret_head_bytes = 1;
		return 0;
	}
	if (bytes < ETCD_VALUE_HEAD_BYTES_MAX || value[0] != ETCD_VALUE_LEASED)
		return -EBADMSG;
	*ret_lease = etcd_lease_read_id(value + 1);
	*ret_head_bytes = ETCD_VALUE_HEAD_BYTES_MAX;
	return *ret_lease == 0 ? -EBADMSG : 0;
}

uint64_t
etcd_lease_read_ttl(const char *value, uint32_t bytes)
{
	json_error_t error;
	json_t *object = json_loadb(value, bytes, 0, &error);
	json_int_t format = json_integer_value(json_object_get(object, "format"));
	json_int_t ttl_ms = json_integer_value(json_object_get(object, "ttl_ms"));

	assert(value != NULL || bytes == 0);
	json_decref(object);
	if (format != ETCD_LEASE_FORMAT || ttl_ms <= 0 || (uint64_t)ttl_ms > LEASE_TTL_MS_MAX)
		return 0;
	return NUM_MS(ttl_ms);
}

bool
etcd_lease_is_by(const char *value, uint32_t bytes, const char *by)
{
	json_error_t error;
	json_t *object = json_loadb(value, bytes, 0, &error);
	const char *text = json_string_value(json_object_get(object, "by"));
	bool is_by = text != NULL && strcmp(text, by) == 0;

	assert(by != NULL);
	json_decref(object);
	return is_by;
}
