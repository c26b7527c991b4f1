/* SPDX-License-Identifier: Apache-2.0 */
/* session_hello.c -- see session_hello.h */
#include "session/session_hello.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/sm.h"
#include "catalog/snapshot.h"
#include "cleave/secure.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "session/session.h"

int
mt_session_check_hello(const struct mt_port *port, const struct wire_hello *hello,
    const char **ret_field)
{
	bool is_gateway = hello->role == WIRE_ROLE_GATEWAY;

	/* Another gateway is no user of a volume. */
	if (hello->role == WIRE_ROLE_NODE || (is_gateway && hello->volume_id != 0)) {
		*ret_field = "role";
		return -EPROTO;
	}
	if ((hello->cluster_id != 0 || is_gateway) &&
	    hello->cluster_id != port->settings->cluster_id) {
		*ret_field = "cluster_id";
		return -EXDEV;
	}
	if (port->sm.state >= MT_PORT_STOPPING) {
		*ret_field = "the gateway is stopping";
		return -EBUSY;
	}
	return 0;
}

int
mt_session_check_subject(const struct split_subject *subject, const struct wire_hello *hello,
    char *why)
{
	static const struct split_wanted user = { .roles = SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN };
	static const struct split_wanted asking = { .roles = SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN |
		    SPLIT_ROLE_MONITOR | SPLIT_ROLE_GATEWAY };
	static const struct split_wanted gateway = { .roles = SPLIT_ROLE_GATEWAY };
	const struct split_wanted *wanted = hello->role == WIRE_ROLE_GATEWAY ? &gateway
	    : hello->volume_id != 0                                          ? &user
									     : &asking;

	if (subject == NULL || MUTANT(accept_role_ignored))
		return 0;
	return split_subject_check(subject, wanted, why);
}

bool
mt_session_is_difference_with(const struct mt_session *session, uint64_t id)
{
	const struct wire_hello *hello = &session->hello;

	assert(id != 0);
	if ((hello->volume_id & MT_SNAPSHOT_ID) == 0 || hello->attach < 2)
		return false;
	if ((id & MT_SNAPSHOT_ID) == 0)
		return hello->volume_id == (id | MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME);
	return hello->volume_id == id || hello->attach - 1 == (id & ~MT_SNAPSHOT_ID);
}
