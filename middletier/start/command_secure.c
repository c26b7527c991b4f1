/* SPDX-License-Identifier: Apache-2.0 */
/* command_secure.c -- see command_secure.h */
#include "start/command_secure.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/log.h"
#include "cleave/secure_options.h"
#include "cleave/split.h"
#include "cluster/gateway_state.h"
#include "start/command_line.h"

void
mt_command_secure_take(const struct mt_command_line *values, bool is_server,
    struct config_result *result, struct mt_gateway_options *options, struct secure *ret_secure)
{
	const struct split_wanted wanted = { .roles = SPLIT_ROLE_GATEWAY,
		.number = is_server || values->is_release ? values->gateway_id : 0,
		.cluster_id = options->cluster_id };

	*ret_secure = (struct secure){ .key = NULL };
	if (values->is_dump)
		return; /* it speaks with no node: whoever may read the store may do that */
	secure_take(&mt_command_line_program, result, &values->secure, &wanted, ret_secure);
	options->key = ret_secure->key;
	options->security = ret_secure->security;
	if (!is_server && !values->is_release)
		return;
	/* Roots name their owner by it: two gateways with one number would take each other for themselves. */
	if (ret_secure->key != NULL && options->gateway_id == 0)
		options->gateway_id = split_subject_number(split_key_subject(ret_secure->key));
	if (!is_server)
		return;
	for (uint32_t i = 0; i < options->port_count; i++)
		secure_refuse_open(&mt_command_line_program, result, ret_secure, "port",
		    options->ports[i].address);
}

/* Lists of revoked keys that the gateway has learnt stay: secure_reload carries them over. */
void
mt_command_secure_reload(const struct mt_command_line *fresh, struct secure *secure,
    struct mt_gateway *gateway)
{
	struct split_wanted wanted = { .roles = SPLIT_ROLE_GATEWAY };

	if (secure->key == NULL)
		return;
	split_key_free(secure->key);
	secure->key = split_key_share(gateway->revoked.key);
	wanted.number = split_subject_number(split_key_subject(secure->key));
	wanted.cluster_id = gateway->options.cluster_id;
	if (secure_reload("gateway", &fresh->secure, &wanted, secure))
		mt_revoked_rekey(gateway, secure->key);
}

/* The first member of an etcd without TLS that is not of this host, as tcp://HOST:PORT in @ret_member. */
static bool
store_is_open(const char *place, char ret_member[SPLIT_ADDRESS_BYTES_MAX])
{
	static const char scheme[] = "etcd://";
	const char *text = place + strlen(scheme);

	if (strncmp(place, scheme, strlen(scheme)) != 0)
		return false;
	for (;;) {
		size_t bytes = strcspn(text, ",/");

		(void)snprintf(ret_member, SPLIT_ADDRESS_BYTES_MAX, "tcp://%.*s", (int)bytes, text);
		if (strncmp(text, "localhost:", strlen("localhost:")) != 0 &&
		    secure_is_reached(ret_member))
			return true;
		if (text[bytes] != ',')
			return false;
		text += bytes + 1;
	}
}

/* A port that others reach, where there is one: the warning is about it. */
void
mt_command_secure_tell(const struct secure *secure, const struct mt_gateway_options *options,
    const char *place)
{
	char member[SPLIT_ADDRESS_BYTES_MAX];
	const char *address = options->ports[0].address;

	assert(options->port_count > 0);
	for (uint32_t i = 1; i < options->port_count && !secure_is_reached(address); i++)
		address = options->ports[i].address;
	if (secure->key != NULL && store_is_open(place, member))
		log_warn(
		    "gateway: the metadata store is open: whoever reaches it says who owns what, and who may do what, "
		    "and passwords go there in the clear address=%s: give the etcd TLS (etcds://), and --meta-cert "
		    "or --meta-user",
		    member);
	secure_tell("gateway", secure, address);
}
