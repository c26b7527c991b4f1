/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_copy.h -- a metadata store made of another one's keys, instead of what the nodes hold
 *
 * The nodes are asked all the same, as for a recovery: no gateway may live, they must obey the store whose keys
 * these are, and must know nothing that is newer. The copy has an identity of its own, which they obey from then
 * on, and epochs above the source's: so gateways of the source are refused by every node that was told, and
 * fenced by the others.
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_COPY_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/keys.h"

struct meta;
struct mt_rebuild;
struct mt_rebuild_reader;

/* Above all that gateways of the source may claim before they are stopped. */
#define MT_COPY_EPOCHS_SKIPPED 1024u

struct mt_rebuild_copy {
	const struct mt_keys *source; /* sorted, with "cluster", without leased keys; borrowed */
	struct mt_cluster cluster;    /* as it is there */
	/*
	 * NULL, or: all is good, and nothing is written yet; see to it that the source serves nobody. Ends in
	 * mt_rebuild_settled, later or at once.
	 */
	void (*settle)(struct mt_rebuild *rebuild, void *arg);
	void *arg;
	bool is_left; /* the source stays as it is, and nothing else is written */
	/* Private to rebuild_copy.c. */
	struct meta *meta;     /* NULL: there is none yet */
	struct mt_keys there;  /* in the target */
	struct mt_keys wanted; /* to be there, but "cluster" */
	uint32_t wanted_at, gone_at, batch_count;
	uint64_t loading_version;
	char loading[64]; /* the key "loading", while this is written */
	void (*load_fn)(int rc, const char *text, void *arg);
	void (*fn)(int rc, void *arg);
	void *fn_arg;
};

/*
 * mt_rebuild_copy_load -- may the target @meta be written?
 *
 * It is empty; or has the rest of a copy that did not end; or was moved away, and is of this cluster: then @fn is
 * told 0. Else @text names what is there: -EBUSY a gateway is registered; -EALREADY it is a copy of this source,
 * and whole; -EEXIST it holds something; -EXDEV it was another cluster's. Or it cannot be read.
 *
 * Returns 0: @fn once; else never.
 */
int mt_rebuild_copy_load(struct mt_rebuild_copy *copy, struct meta *meta,
    void (*fn)(int rc, const char *text, void *arg), void *arg);
/*
 * mt_rebuild_copy_plan -- what shall be written, with the identity @store_id; *@ret_cluster: that key
 *
 * @lists: of revoked keys, instead of the source's (rebuild_revoked.h); NULL: the source's.
 *
 * Returns 0; else @ret_text says why: -ESTALE the nodes know something that the source does not; -ENODATA a manifest
 * cannot be read, so that cannot be told; -EBADMSG a root cannot be understood; -EOVERFLOW a shard has no epochs
 * left; -ENOMEM. Not noticed: volumes that were deleted, renamed or resized since, for that gives out no number.
 */
int mt_rebuild_copy_plan(struct mt_rebuild_copy *copy, const struct mt_rebuild_reader *reader,
    const struct store_id *store_id, const char *lists, struct mt_cluster *ret_cluster,
    char *ret_text, size_t text_bytes);
/*
 * mt_rebuild_copy_write -- the plan becomes the store @meta, with @cluster, which gets its place
 *
 * "loading" comes first and goes with the last transaction, which has the key "cluster": a copy that did not end
 * is no cluster. Every change compares versions: whoever else writes makes it fail with -EAGAIN. Returns 0: @fn
 * once, 0 or why not; -ENOMEM, -EINVAL: never.
 */
int mt_rebuild_copy_write(struct mt_rebuild_copy *copy, struct meta *meta,
    const struct mt_cluster *cluster, void (*fn)(int rc, void *arg), void *arg);
void mt_rebuild_copy_fini(struct mt_rebuild_copy *copy);

#define MT_LOADING_KEY "loading"

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_COPY_H */
