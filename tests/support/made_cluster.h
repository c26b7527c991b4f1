/* SPDX-License-Identifier: Apache-2.0 */
/* made_cluster.h -- a metadata store as `cleave-gateway --create` leaves it, at once and without nodes */
#ifndef CLEAVE_TESTS_MADE_CLUSTER_H
#define CLEAVE_TESTS_MADE_CLUSTER_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/meta_store.h"
#include "middletier/meta/meta_txn.h"

/* made_cluster_at -- of @level; nothing, where there is a key "cluster" already, whatever it says. */
static inline void
made_cluster_at(struct meta_store *store, const struct mt_gateway_options *options, uint32_t level)
{
	struct mt_cluster cluster = { .cluster_id = options->cluster_id,
		.store_id = store_id_is_zero(&options->store_id) ? (struct store_id){ 0x570e, 1 }
								 : options->store_id,
		.shard_count = options->shard_count != 0 ? options->shard_count
							 : CLEAVE_SHARDS_DEFAULT,
		.next_volume_id = 1,
		.next_segment = 1,
		.next_snapshot = 1,
		.next_clone = 1,
		.level = level };
	char *text = mt_cluster_encode(&cluster);
	struct meta_op ops[] = {
		{ .kind = META_COMPARE_VERSION, .key = "cluster", .version = 0 },
		{ .kind = META_PUT,
		    .key = "cluster",
		    .value = text,
		    .value_bytes = (uint32_t)strlen(text) },
	};
	struct meta_txn *txn;
	int rc = meta_txn_copy(ops, 2, &txn);

	assert(rc == 0);
	rc = meta_store_txn(store, txn);
	assert(rc == 0 || rc == -EAGAIN);
	(void)rc;
	mt_free(txn);
	free(text);
}
/* made_cluster -- likewise, of the first level. */
static inline void
made_cluster(struct meta_store *store, const struct mt_gateway_options *options)
{
	made_cluster_at(store, options, 0);
}

/* made_cluster_read -- the key "cluster" as it is. */
static inline void
made_cluster_read(struct meta_store *store, struct mt_cluster *ret_cluster)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	const char *field;
	int rc = meta_store_list(store, "cluster", &items, &count);

	assert(rc == 0 && count == 1);
	rc = mt_cluster_decode(items->value, items->value_bytes, ret_cluster, &field);
	assert(rc == 0);
	(void)rc;
	mt_free(items);
}

/* made_cluster_put -- @key is @text, whatever it was; NULL: it is not there any more. */
static inline void
made_cluster_put(struct meta_store *store, const char *key, const char *text)
{
	const struct meta_op op = { .kind = text == NULL ? META_DELETE : META_PUT,
		.key = key,
		.value = text,
		.value_bytes = text == NULL ? 0 : (uint32_t)strlen(text) };
	struct meta_txn *txn;
	int rc = meta_txn_copy(&op, 1, &txn);

	assert(rc == 0);
	rc = meta_store_txn(store, txn);
	assert(rc == 0);
	(void)rc;
	mt_free(txn);
}

/* made_cluster_write -- the key "cluster" becomes @cluster, whatever it was. */
static inline void
made_cluster_write(struct meta_store *store, const struct mt_cluster *cluster)
{
	char *text = mt_cluster_encode(cluster);

	made_cluster_put(store, "cluster", text);
	free(text);
}

/* made_cluster_raise -- the key is of @level from now on, whoever speaks that. */
static inline void
made_cluster_raise(struct meta_store *store, uint32_t level)
{
	struct mt_cluster cluster;

	made_cluster_read(store, &cluster);
	cluster.level = level;
	made_cluster_write(store, &cluster);
}

#endif /* CLEAVE_TESTS_MADE_CLUSTER_H */
