/* SPDX-License-Identifier: Apache-2.0 */
/* session_hello.c -- see session_hello.h */
#include "session/session_hello.h"

#include <errno.h>
#include <stddef.h>

#include "base/mutant.h"
#include "base/sm.h"
#include "cleave/secure.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"

int
mt_session_check_hello(const struct mt_port *port, const struct wire_hello *hello,
    const char **ret_field)
{
	if (hello->role != WIRE_ROLE_CLIENT) {
		*ret_field = "role";
		return -EPROTO;
	}
	if (hello->cluster_id != 0 && hello->cluster_id != port->settings->cluster_id) {
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

	if (subject == NULL || MUTANT(accept_role_ignored))
		return 0;
	return split_subject_check(subject, hello->volume_id != 0 ? &user : &asking, why);
}
