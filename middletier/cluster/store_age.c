/* SPDX-License-Identifier: Apache-2.0 */
/* store_age.c -- see store_age.h */
#include "cluster/store_age.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "catalog/volume_table.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_state.h"

struct mt_store_attach {
	uint64_t volume_id, attach;
};

int
mt_store_age_take(struct mt_store_age *age, const struct mt_manifest_state *state)
{
	assert(age->attaches == NULL && age->attach_count == 0);
	assert(state->volume_count <= state->volume_max);
	age->attaches = mt_calloc((size_t)state->volume_count + 1, sizeof(age->attaches[0]));
	if (age->attaches == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < state->volume_count; i++)
		age->attaches[i] =
		    (struct mt_store_attach){ state->volumes[i].id, state->volumes[i].attach };
	age->attach_count = state->volume_count;
	mt_manifest_state_counts(state, &age->counts);
	return 0;
}

void
mt_store_age_fini(struct mt_store_age *age)
{
	mt_free(age->attaches);
	*age = (struct mt_store_age){ 0 };
}

static int
by_volume_id(const void *a, const void *b)
{
	const struct mt_store_attach *left = a, *right = b;

	return left->volume_id < right->volume_id ? -1 : left->volume_id > right->volume_id;
}

/* A volume that was opened since; NULL: none was. */
static const struct mt_volume *
age_find_later(const struct mt_store_age *age, const struct mt_volumes *volumes)
{
	for (uint32_t i = 0; i < volumes->count && age->attach_count > 0; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;
		const struct mt_store_attach wanted = { .volume_id = volume->id };
		const struct mt_store_attach *known = bsearch(&wanted, age->attaches,
		    age->attach_count, sizeof(wanted), by_volume_id);

		if (known != NULL && volume->attach < known->attach)
			return volume;
	}
	return NULL;
}

bool
mt_store_age_is_old(const struct mt_store_age *age, const struct mt_gateway *gateway,
    char ret_text[MT_ERROR_BYTES])
{
	static const char hint[] = "Is --meta an older copy? If the newer store is lost, run "
				   "cleave recover";
	const struct mt_cluster *store = &gateway->cluster, *known = &age->counts;
	const struct mt_volume *later;

	if (mt_cluster_is_behind(store, known)) {
		(void)snprintf(ret_text, MT_ERROR_BYTES,
		    "the metadata store is stale: its next volume, snapshot, clone and key are %" PRIu64
		    ", %" PRIu64 ", %" PRIu64 " and %" PRIu64 ", the storage nodes know of %" PRIu64
		    ", %" PRIu64 ", %" PRIu64 " and %" PRIu64 ". %s",
		    store->next_volume_id, store->next_snapshot, store->next_clone, store->next_key,
		    known->next_volume_id, known->next_snapshot, known->next_clone, known->next_key,
		    hint);
		return true;
	}
	later = age_find_later(age, &gateway->volumes);
	if (later == NULL)
		return false;
	(void)snprintf(ret_text, MT_ERROR_BYTES,
	    "the metadata store is stale: volume '%s' was opened since, as the storage nodes know. %s",
	    later->name, hint);
	return true;
}
