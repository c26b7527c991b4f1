/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation.h -- a cluster is made: by this alone (`cleave-gateway --create`), and once
 *
 * A gateway that finds no cluster in its metadata store does not serve. The directory may be a wrong
 * one, or not be mounted, or be lost; who knows that it is none of these says so, here.
 */
#ifndef CLEAVE_MIDDLETIER_START_CREATION_H
#define CLEAVE_MIDDLETIER_START_CREATION_H

#include <stddef.h>

#include "cluster/gateway_state.h"

struct meta;
struct mt_creation;

struct mt_creation_options {
	/* As for a gateway: loop, cluster_id, store_id, shard_count, nodes, node_timeout_ns, sim_host; meta: NULL
	 * where there is no store yet. */
	struct mt_gateway_options gateway;
	/* meta is NULL: make the store, when all else is good. NULL: it cannot be made, the text says why. */
	struct meta *(*open)(char *ret_error, size_t error_bytes, void *arg);
	/* Once. rc 0: the cluster is made; else @text says why the store is as it was. */
	void (*fn)(int rc, const char *text, void *arg);
	void *arg;
};

/*
 * mt_creation_start -- look at the store and at every node, then write the key "cluster"
 *
 * Refuses (-EEXIST) a store that holds a cluster, or the rest of one; (-EHOSTDOWN) when a node does not
 * answer: what it holds is not known; (-ENOTEMPTY) when a node holds extents, or obeys a
 * store: it is of another cluster.
 * Returns NULL with a text in @ret_error.
 */
struct mt_creation *mt_creation_start(const struct mt_creation_options *options, char *ret_error,
    size_t error_bytes);
/* mt_creation_destroy -- at any time, not within fn. NULL is a no-op. */
void mt_creation_destroy(struct mt_creation *creation);

#endif /* CLEAVE_MIDDLETIER_START_CREATION_H */
