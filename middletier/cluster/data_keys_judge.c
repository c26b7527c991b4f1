/* SPDX-License-Identifier: Apache-2.0 */
/* data_keys_judge.c -- see data_keys_judge.h */
#include "cluster/data_keys_judge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "catalog/data_key.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/keyring.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"

#define DATA_KEYS_CLONES_MAX 64u /* so deep a chain of origins is looked through */

/* Is @id among the volumes that @volume, or a snapshot of it, shows blocks of? */
static bool
volume_shows(const struct mt_volumes *volumes, const struct mt_volume *volume, uint64_t id)
{
	const struct mt_snapshot_entry *origin;
	const struct mt_volume_entry *entry;
	uint64_t next = volume->id;

	if ((next & MT_SNAPSHOT_ID) != 0 && (next & MT_SNAPSHOT_OF_VOLUME) == 0) {
		origin = mt_snapshots_by_number(&volumes->snapshots, next & ~MT_SNAPSHOT_ID);
		next = origin == NULL ? 0 : origin->snapshot.volume_id;
	}
	next &= ~(MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME);
	for (uint32_t i = 0; i < DATA_KEYS_CLONES_MAX && next != 0; i++) {
		if (next == id)
			return true;
		entry = mt_volumes_by_id(volumes, next);
		origin = entry == NULL || entry->volume.origin == 0
		    ? NULL
		    : mt_snapshots_by_number(&volumes->snapshots, entry->volume.origin);
		next = origin == NULL ? 0 : origin->snapshot.volume_id;
	}
	return false;
}

static void
judge_text(const struct mt_gateway *gateway, const struct mt_data_key *data_key, int rc,
    char *ret_why)
{
	uint64_t id = gateway->options.gateway_id;

	if (rc == -ENOKEY)
		(void)snprintf(ret_why, MT_DATA_KEY_WHY_BYTES,
		    "it is encrypted, and gateway %" PRIu64 " has no KEK '%s': start it with --kek",
		    id, data_key->kek);
	else if (rc == -EBADMSG)
		(void)snprintf(ret_why, MT_DATA_KEY_WHY_BYTES,
		    "it is encrypted, and the KEK '%s' of gateway %" PRIu64
		    " does not open its key: it is another one",
		    data_key->kek, id);
	else
		(void)snprintf(ret_why, MT_DATA_KEY_WHY_BYTES,
		    "it is encrypted, and gateway %" PRIu64
		    " cannot use the KEK '%s' now: its log says "
		    "why",
		    id, data_key->kek);
}

bool
mt_data_keys_judge(const struct mt_gateway *gateway, const struct mt_volume *volume, char *ret_why)
{
	const struct mt_data_keys *keys = &gateway->data_keys;

	if (volume->key_id != 0 && !keyring_has(keys->ring, volume->key_id) &&
	    mt_data_key_table_find(&keys->table, volume->key_id) == NULL) {
		(void)snprintf(ret_why, MT_DATA_KEY_WHY_BYTES,
		    "it is encrypted, and its key %" PRIu32
		    " cannot be read in the metadata store: see the log of gateway %" PRIu64,
		    volume->key_id, gateway->options.gateway_id);
		return false;
	}
	for (uint32_t i = 0; i < keys->table.count; i++) {
		const struct mt_data_key *data_key = &keys->table.entries[i];

		if (keys->open_rcs[i] == 0 ||
		    !volume_shows(&gateway->volumes, volume, data_key->volume))
			continue;
		judge_text(gateway, data_key, keys->open_rcs[i], ret_why);
		return false;
	}
	return true;
}

int
mt_data_keys_kek_opens(const struct mt_gateway *gateway, const char *kek)
{
	const struct mt_data_keys *keys = &gateway->data_keys;
	int rc = keys->is_loaded ? 0 : 1;

	assert(kek != NULL);
	for (uint32_t i = 0; i < keys->table.count && rc != -EBADMSG; i++) {
		if (strcmp(keys->table.entries[i].kek, kek) == 0 && keys->open_rcs[i] != 0)
			rc = keys->open_rcs[i];
	}
	return rc;
}
