/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_old.c -- see rebuild_old.h */
#include "rebuild/rebuild_old.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/drained_key.h"
#include "catalog/node_key.h"
#include "catalog/place.h"
#include "catalog/user_key.h"
#include "rebuild/rebuild_judge.h"
#include "rebuild/rebuild_store.h"

bool
mt_rebuild_old_is_trusted(const struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan)
{
	bool is_current = store->keeps_users;

	assert(plan->shard_count > 0);
	if (!store->is_unfinished)
		is_current = mt_rebuild_judge_is_current(store, plan);
	/* A recovery that was cut off has told no node. Where one obeys a later store, this is a copy of what was finished since. */
	for (uint32_t i = 0; i < plan->obeyed_count; i++)
		is_current = is_current && mt_rebuild_store_is_known(store, &plan->obeyed[i]);
	return is_current && !mt_place_is_other(store->meta, &store->cluster);
}

static bool
begins(const struct mt_rebuild_key *key, const char *prefix)
{
	return strncmp(key->key, prefix, strlen(prefix)) == 0;
}

int
mt_rebuild_old_plan(struct mt_rebuild_store *store)
{
	bool has_nodes = false;
	int rc = 0;

	assert(store->dropped_user_count == 0);
	for (uint32_t i = 0; i < store->old_count && rc == 0; i++) {
		const struct mt_rebuild_key *old = &store->old[i];

		has_nodes = has_nodes || begins(old, MT_NODE_PREFIX);
		if (strcmp(old->key, MT_DRAINED_KEY) == 0)
			log_warn(
			    "recover: key %s is as the old store has it: look for gateways that "
			    "were drained or undrained since (cleave gateway list)",
			    old->key);
		if (!begins(old, MT_USER_PREFIX))
			continue;
		log_warn("recover: user %s of the old store is dropped: it may have been removed "
			 "since, or have other rights: add it again if it shall have them was=%s",
		    old->key + strlen(MT_USER_PREFIX), old->text);
		store->dropped_user_count++;
		rc = mt_rebuild_store_plan_key(store, old->key, NULL);
	}
	if (has_nodes)
		log_warn(
		    "recover: nodes of --node are members, and others are what the old store "
		    "says: look for those that were removed or drained since (cleave node list)");
	return rc;
}
