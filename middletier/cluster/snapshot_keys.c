/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_keys.c -- see snapshot_keys.h */
#include "cluster/snapshot_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/cluster_key.h"
#include "catalog/numbers.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cluster/gateway_state.h"
#include "cluster/snapshot.h"
#include "common/alloc.h"

/* A transaction on the keys of a row, and perhaps "cluster": compares first, then puts. */
struct keys_txn {
	uint32_t count; /* of ops */
	struct meta_op ops[2 * CLEAVE_GROUP_VOLUMES_MAX + 2];
	char keys[CLEAVE_GROUP_VOLUMES_MAX][MT_SNAPSHOT_KEY_BYTES];
	char *texts[CLEAVE_GROUP_VOLUMES_MAX + 1];
	uint32_t text_count;
};

static void
keys_free(struct keys_txn *txn)
{
	for (uint32_t i = 0; txn != NULL && i < txn->text_count; i++)
		free(txn->texts[i]);
	mt_free(txn);
}

static void
keys_compare(struct keys_txn *txn, const char *key, uint64_t version)
{
	assert(txn->count < 2 * CLEAVE_GROUP_VOLUMES_MAX + 2);
	txn->ops[txn->count++] =
	    (struct meta_op){ .kind = META_COMPARE_VERSION, .key = key, .version = version };
}

/* @text is taken over; -ENOMEM: it is NULL. */
static int
keys_put(struct keys_txn *txn, const char *key, char *text)
{
	assert(txn->text_count <= CLEAVE_GROUP_VOLUMES_MAX);
	if (text == NULL)
		return -ENOMEM;
	txn->texts[txn->text_count++] = text;
	txn->ops[txn->count++] = (struct meta_op){ .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	return 0;
}

/* @versions NULL: none of the keys is there. */
static int
keys_add_row(struct keys_txn *txn, const struct mt_snapshot_row *row, const uint64_t *versions)
{
	int rc = 0;

	assert(row->count > 0 && row->count <= CLEAVE_GROUP_VOLUMES_MAX);
	for (uint32_t i = 0; i < row->count && rc == 0; i++) {
		struct mt_snapshot snapshot = row->snapshots[i];

		if (versions != NULL)
			mt_snapshot_void(&snapshot);
		mt_snapshot_key(snapshot.number, txn->keys[i]);
		keys_compare(txn, txn->keys[i], versions == NULL ? 0 : versions[i]);
		rc = keys_put(txn, txn->keys[i], mt_snapshot_encode(&snapshot, NULL));
	}
	return rc;
}

int
mt_snapshot_put_keys(struct mt_gateway *gateway, const struct mt_cluster *next,
    const struct mt_snapshot_row *row, meta_txn_fn fn, void *arg)
{
	struct meta *meta = gateway->options.meta;
	struct keys_txn *txn = mt_calloc(1, sizeof(*txn));
	int rc = -ENOMEM;

	assert(fn != NULL && next->shard_count > 0);
	if (txn != NULL) {
		keys_compare(txn, "cluster", next->version);
		rc = keys_put(txn, "cluster", mt_cluster_encode(next));
		if (rc == 0)
			rc = keys_add_row(txn, row, NULL);
		if (rc == 0)
			rc = meta->ops->txn(meta, txn->ops, txn->count, fn, arg);
	}
	keys_free(txn);
	return rc;
}

bool
mt_snapshot_read_versions(const struct mt_gateway *gateway, const struct mt_snapshot_row *row,
    uint64_t *ret_versions)
{
	assert(row->count > 0);
	for (uint32_t i = 0; i < row->count; i++) {
		const struct mt_snapshot_entry *entry =
		    mt_snapshots_by_number(&gateway->volumes.snapshots, row->snapshots[i].number);

		if (entry == NULL || entry->snapshot.state != MT_SNAPSHOT_PENDING)
			return false;
		ret_versions[i] = entry->version;
	}
	return true;
}

int
mt_snapshot_void_keys(struct mt_gateway *gateway, const struct mt_snapshot_row *row,
    const uint64_t *versions, meta_txn_fn fn, void *arg)
{
	struct meta *meta = gateway->options.meta;
	struct keys_txn *txn = mt_calloc(1, sizeof(*txn));
	int rc = -ENOMEM;

	assert(fn != NULL && versions[0] != 0);
	if (txn != NULL) {
		rc = keys_add_row(txn, row, versions);
		if (rc == 0)
			rc = meta->ops->txn(meta, txn->ops, txn->count, fn, arg);
	}
	keys_free(txn);
	return rc;
}

int
mt_snapshot_check_numbers(const struct mt_gateway *gateway, const struct mt_taking_wish *wishes,
    uint32_t count)
{
	uint64_t next = gateway->cluster.next_snapshot;

	assert(count > 0);
	if (next > MT_NUMBER_MAX - count + 1)
		return -ENOSPC;
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_volume *volume = wishes[i].volume;

		assert(volume->scope.span_count > 0);
		if (next > volume->scope.spans[0].cut_from)
			continue;
		log_error(
		    "snapshot: none can be taken of volume %s, which was rolled back above snapshot "
		    "%" PRIu64 ", and the next number is %" PRIu64
		    ": the key cluster is damaged, or of an older copy of the metadata store",
		    volume->name, volume->scope.spans[0].cut_from, next);
		return -EBADMSG;
	}
	return 0;
}
