/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_store.h -- the metadata store that a rebuild found, what it shall be, and writing that */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_STORE_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/moved.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/port.h"
#include "rebuild/survey.h"

struct mt_kms;
struct mt_manifest_state;
struct mt_rebuild_shard;
struct mt_root;
struct mt_survey;

struct mt_rebuild_key {
	char *key, *text; /* text NULL: to be deleted */
	uint64_t version;
};

/* The store as it was, and as it shall be. */
struct mt_rebuild_store {
	struct meta *meta;          /* NULL: there is none yet, and nothing to load */
	struct mt_rebuild_key *old; /* every key; text is its value, NUL behind it */
	uint32_t old_count;
	bool has_cluster, has_gateway;
	bool
	    is_unfinished; /* a recovery was cut off: has_cluster, as it was before (rebuild_mark.h) */
	bool keeps_users; /* is_unfinished: that recovery trusted the store */
	bool is_moved;    /* away: has_cluster, as it was then, where that can be understood */
	char moved_to[MT_MOVED_TO_BYTES];
	struct mt_cluster cluster; /* has_cluster; once planned: as it shall be */
	struct mt_rebuild_key *keys;
	uint32_t key_count, key_max, key_at;
	uint32_t first_count;        /* keys of the first transaction; 0: as many as it holds */
	uint32_t batch_count;        /* keys of the transaction that is out */
	uint32_t dropped_user_count; /* planned: users of the old store that go */
	void (*fn)(int rc, void *arg);
	void *arg;
};

/* The decisions of rebuild.c. */
struct mt_rebuild_plan {
	uint64_t cluster_id;
	uint32_t shard_count;
	const struct mt_survey *survey;
	const struct mt_rebuild_shard *shards;  /* shard_count */
	const struct mt_manifest_state *mirror; /* shard_count 0 in it: there is none */
	uint32_t epoch_margin;    /* above what was seen: for nodes that were not reached */
	struct store_id store_id; /* of the store that is made */
	struct store_id obeyed[MT_NODES_MAX]; /* what each node obeys; zero: none, or not listed */
	uint32_t obeyed_count;
	bool
	    is_old_trusted; /* the old store counts where no node can say otherwise (rebuild_old.h) */
	struct mt_kms *kms; /* KEKs, for the names of encrypted volumes; NULL: none */
};

/*
 * mt_rebuild_store_load -- read every key of store->meta, where there is one
 *
 * Returns 0: @fn is called once, with 0 or a negative errno (-EPROTONOSUPPORT: the cluster is of a level above ours,
 * which is logged); else a negative errno, and @fn never is.
 */
int mt_rebuild_store_load(struct mt_rebuild_store *store, void (*fn)(int rc, void *arg), void *arg);
/*
 * mt_rebuild_store_judge -- may a recovery begin with the store as it was loaded? 0, or @ret_text says why not
 *
 * -EBUSY a gateway is registered; -EXDEV it is another cluster's; -EREMCHG it was moved away.
 */
int mt_rebuild_store_judge(const struct mt_rebuild_store *store, uint64_t cluster_id,
    char *ret_text, size_t text_bytes);
/* mt_rebuild_store_is_known -- @id is the store's own, or that of a store it replaced, or zero. */
bool mt_rebuild_store_is_known(const struct mt_rebuild_store *store, const struct store_id *id);
/* mt_rebuild_store_root -- @shard's old root; false: there is none that can be understood. */
bool mt_rebuild_store_root(const struct mt_rebuild_store *store, uint32_t shard,
    struct mt_root *ret_root);
/* mt_rebuild_store_plan_key -- the key @name shall have the value @text, jansson's, which is taken over; NULL: go. 0; -ENOMEM. */
int mt_rebuild_store_plan_key(struct mt_rebuild_store *store, const char *name, char *text);
/*
 * mt_rebuild_store_plan -- decide every key that shall be written, but "cluster"; once
 *
 * Returns: 0; -ENOMEM; -EINVAL a volume or snapshot cannot be understood, -EOVERFLOW a shard has no epochs left:
 *          the log names it.
 */
int mt_rebuild_store_plan(struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan);
/*
 * mt_rebuild_store_write -- write the plan into the store; store->meta is there by now
 *
 * The key "cluster" goes first and comes last: a store without it is unfinished, and the mark in its place says what
 * it was. Every change compares versions: whoever else writes makes it fail with -EAGAIN.
 *
 * Returns: 0: @fn is called once, with 0 or a negative errno; -ENOMEM, and @fn never is.
 */
int mt_rebuild_store_write(struct mt_rebuild_store *store, void (*fn)(int rc, void *arg),
    void *arg);
void mt_rebuild_store_fini(struct mt_rebuild_store *store);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_STORE_H */
