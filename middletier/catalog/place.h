/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h -- a metadata store that was copied is noticed when a gateway starts with it
 *
 * A copy has its original's identity, so nodes cannot tell the two apart: gateways of both would take the
 * shards from each other, and each would serve what it knows. But the copy lies in another file, or etcd. The key
 * "cluster" names the one that it was written to (meta_ops.place), and a gateway whose store lies in another
 * one ends before it claims or asks anything. `cleave-gateway --create`, `cleave recover` and
 * `cleave-gateway --accept-copy` write the place; a store of before there were any gets it at its next start.
 */
#ifndef CLEAVE_MIDDLETIER_CATALOG_PLACE_H
#define CLEAVE_MIDDLETIER_CATALOG_PLACE_H

#include <stdbool.h>

#include "cleave/meta.h"

struct mt_cluster;

/* A start with such a store says this: where it looked, meta_ops.place_how and place_what, the place
 * in the key, and the one that was found. */
#define MT_PLACE_TEXT                                                                                  \
	"%s is a copy of a metadata store, or %s (%s was %s, is %s). If the original still runs or "   \
	"is newer, both would take the shards from each other, and what was acknowledged since the "   \
	"copy would be lost. If the original is gone for good and this is its newest state, run this " \
	"with --accept-copy, once; if this is older, run cleave recover"

/* mt_place_of -- of @meta, now; "": that is not known. */
void mt_place_of(struct meta *meta, char ret_place[META_PLACE_BYTES]);
/* mt_place_is_valid -- what a place can look like; "" is one. */
bool mt_place_is_valid(const char *place);
/* mt_place_is_other -- the key was written to another place than @meta's. False where either is not known. */
bool mt_place_is_other(struct meta *meta, const struct mt_cluster *cluster);

#endif /* CLEAVE_MIDDLETIER_CATALOG_PLACE_H */
