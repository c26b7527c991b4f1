/* SPDX-License-Identifier: Apache-2.0 */
/* users.h -- what clients may do, as the store has it: the keys "users/", read, watched and told to the ports */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_USERS_H
#define CLEAVE_MIDDLETIER_CLUSTER_USERS_H

#include <stdbool.h>

#include "catalog/user_key.h"
#include "catalog/volume.h"
#include "cluster/watched.h"

struct mt_gateway;

/* Main's. */
struct mt_users {
	struct mt_user_table table;
	bool is_loaded; /* the table is what the store had at some time since the start */
	bool is_untold; /* the table has changed, and not all ports know */
	struct mt_watched watched;
};

/* mt_users_init -- none is known. mt_users_fini -- who waits gets -ECANCELED. */
void mt_users_init(struct mt_gateway *gateway);
void mt_users_fini(struct mt_gateway *gateway);
/*
 * mt_users_watch -- from now on the table is what the store has, within a moment: of a gateway whose ports have a key
 *
 * Sessions that a change takes their right from are closed at every port. Returns 0; -ENOMEM.
 */
int mt_users_watch(struct mt_gateway *gateway);
void mt_users_unwatch(struct mt_gateway *gateway);
/*
 * mt_users_read -- the table as the store has it now, also without a watch; those who ask meanwhile share a reading
 *
 * @waiter->fn, once, never within the call but with -ENOMEM: 0, and every port was told of what has changed; -EIO,
 * -ETIMEDOUT, -ENOMEM; -ECANCELED: the gateway goes.
 */
void mt_users_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_USERS_H */
