/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.h -- a metadata store made anew from the storage nodes (`cleave recover`)
 *
 * For when the store is lost, or is an old copy, which every gateway refuses. No gateway may run.
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "cluster/gateway_state.h"

struct meta;
struct mt_rebuild;
struct mt_rebuild_copy;

struct mt_rebuild_options {
	/* As for a gateway: loop, meta, cluster_id, store_id, nodes, min_replicas, node_timeout_ns, sim_host;
	 * shard_count, when it is not 0, must be what is found; meta: NULL where there is no store yet. */
	struct mt_gateway_options gateway;
	/* meta is NULL: make the store, when all else is good. NULL: it cannot be made, the text says why. */
	struct meta *(*open)(char *ret_error, size_t error_bytes, void *arg);
	bool is_forced; /* go on where it would be refused; what that costs is in the log */
	bool must_take; /* go on beside gateways that live: the nodes refuse them from then on */
	/* NULL: a recovery. Else the store, which must be empty, becomes a copy of these keys (rebuild_copy.h);
	 * borrowed. */
	struct mt_rebuild_copy *copy;
	/* Once. rc 0: the store is whole; else @text says why it was left as it was (-EIO, -EAGAIN,
	 * -ETIMEDOUT while it was written: it has no key "cluster" then, so run it again). */
	void (*fn)(int rc, const char *text, void *arg);
	void *arg;
};

/*
 * mt_rebuild_start -- ask all nodes, read the newest manifests, write the store
 *
 * Logs what it found of each node and each shard. Refuses (-EEXIST) when the store is not older than
 * what the nodes hold; (-EBUSY) when a gateway is registered (where its lease ends only while somebody watches,
 * after having watched for longer than that), or, but with must_take, connected to a node that
 * answers: it serves from another store, or another copy of this one; (-ENODATA) when so many nodes do not
 * answer, or copies are so damaged, that something newer may exist; or volumes are not known; (-EXDEV) when
 * nodes obey more than one store. The new store has the identity options->gateway.store_id, which the
 * nodes obey from then on; nodes that are away learn it from the next gateway. A copy is refused also as
 * mt_rebuild_copy_judge and mt_rebuild_copy_check say, and -EXDEV where a node obeys any other store than its source.
 * Returns NULL with a text in @ret_error.
 */
struct mt_rebuild *mt_rebuild_start(const struct mt_rebuild_options *options, char *ret_error,
    size_t error_bytes);
/* mt_rebuild_destroy -- at any time, not within fn. NULL is a no-op. */
void mt_rebuild_destroy(struct mt_rebuild *rebuild);

/*
 * mt_rebuild_settled -- the answer to copy->settle: the source serves nobody from now on, or why that is not so
 *
 * The last act of who calls it.
 */
void mt_rebuild_settled(struct mt_rebuild *rebuild, int rc, const char *text);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_H */
