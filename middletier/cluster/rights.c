/* SPDX-License-Identifier: Apache-2.0 */
/* rights.c -- see rights.h */
#include "cluster/rights.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "cluster/gateway_state.h"

#define RIGHTS_NEVER 0u /* a client has it with no volume */
#define RIGHTS_ALL (SPLIT_ROLE_GATEWAY | SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN | SPLIT_ROLE_MONITOR)

/* Roles that have a right whatever the volume is; and all that a client must be allowed to do with it. */
static const struct {
	const char *name;
	unsigned roles;
	unsigned may;
} rights[MT_RIGHT_NR] = {
	[MT_RIGHT_NONE] = { "NONE", 0, RIGHTS_NEVER },
	[MT_RIGHT_FIND] = { "FIND", RIGHTS_ALL, RIGHTS_NEVER },
	[MT_RIGHT_VOLUME_LOOK] = { "VOLUME_LOOK",
	    SPLIT_ROLE_GATEWAY | SPLIT_ROLE_ADMIN | SPLIT_ROLE_MONITOR, MT_MAY_READ },
	[MT_RIGHT_VOLUME_READ] = { "VOLUME_READ", SPLIT_ROLE_ADMIN, MT_MAY_READ },
	[MT_RIGHT_VOLUME_WRITE] = { "VOLUME_WRITE", SPLIT_ROLE_ADMIN, MT_MAY_READ | MT_MAY_WRITE },
	[MT_RIGHT_SNAPSHOT] = { "SNAPSHOT", SPLIT_ROLE_ADMIN, MT_MAY_SNAPSHOT },
	[MT_RIGHT_CLONE] = { "CLONE", SPLIT_ROLE_ADMIN, MT_MAY_READ | MT_MAY_SNAPSHOT },
	[MT_RIGHT_ROLLBACK] = { "ROLLBACK", SPLIT_ROLE_ADMIN, MT_MAY_SNAPSHOT | MT_MAY_WRITE },
	[MT_RIGHT_ALTER] = { "ALTER", SPLIT_ROLE_ADMIN, MT_MAY_ALTER },
	[MT_RIGHT_LOOK] = { "LOOK", SPLIT_ROLE_GATEWAY | SPLIT_ROLE_ADMIN | SPLIT_ROLE_MONITOR,
	    RIGHTS_NEVER },
	[MT_RIGHT_PEER] = { "PEER", SPLIT_ROLE_GATEWAY | SPLIT_ROLE_ADMIN, RIGHTS_NEVER },
	[MT_RIGHT_CLUSTER] = { "CLUSTER", SPLIT_ROLE_ADMIN, RIGHTS_NEVER },
};

bool
mt_right_allows(enum split_role role, unsigned may, enum mt_right right)
{
	assert(right < MT_RIGHT_NR);
	assert((may & ~MT_MAY_ALL) == 0);
	if ((rights[right].roles & (unsigned)role) != 0)
		return true;
	return role == SPLIT_ROLE_CLIENT && rights[right].may != RIGHTS_NEVER &&
	    (may & rights[right].may) == rights[right].may;
}

const char *
mt_right_name(enum mt_right right)
{
	assert(right < MT_RIGHT_NR);
	return rights[right].name;
}

const char *
mt_right_letters(enum mt_right right, char ret_text[MT_MAY_TEXT_BYTES])
{
	assert(right < MT_RIGHT_NR);
	return mt_may_text(rights[right].may, ret_text);
}

/* ---- on main ---- */

unsigned
mt_right_may(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name)
{
	const struct mt_user *user;

	assert(name != NULL);
	if (subject == NULL || subject->role != SPLIT_ROLE_CLIENT)
		return MT_MAY_ALL;
	user = mt_user_table_find(&gateway->users.table, subject->name);
	return user == NULL ? 0 : mt_user_may(user, name);
}

int
mt_right_judge(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name, enum mt_right right)
{
	unsigned may = 0;

	if (subject == NULL)
		return 0;
	if (subject->role == SPLIT_ROLE_CLIENT && name != NULL) {
		if (!gateway->users.is_loaded)
			return -EHOSTDOWN;
		may = mt_right_may(gateway, subject, name);
		if (may == 0)
			return -ENOENT;
	}
	return mt_right_allows(subject->role, may, right) ? 0 : -ENOKEY;
}

bool
mt_right_sees(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name)
{
	return mt_right_judge(gateway, subject, name, MT_RIGHT_VOLUME_LOOK) == 0;
}
