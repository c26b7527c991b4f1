/* SPDX-License-Identifier: Apache-2.0 */
/* member.c -- the gateways that live: keys "gateways/ID" under leases */
#include <errno.h>
#include <string.h>

#include "control.h"

#define MEMBER_FORMAT 1u

void
mt_member_key(char out[32], uint64_t gateway_id)
{
	(void)snprintf(out, 32, "gateways/%" PRIu64, gateway_id);
}

int
mt_member_decode_boot(const void *value, uint32_t bytes, uint64_t *ret_boot_id)
{
	json_error_t error;
	json_t *object = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, &error);
	const char *boot = json_string_value(json_object_get(object, "boot_id"));
	int rc = -EBADMSG;

	if (object == NULL && json_error_code(&error) == json_error_out_of_memory)
		rc = -ENOMEM;
	else if (boot != NULL && mt_hex_parse(boot, ret_boot_id) == 0)
		rc = 0;
	json_decref(object);
	return rc;
}
