/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h -- the metadata store that is copied: its keys at one moment; and its end, when another takes its place
 */
#ifndef CLEAVE_MIDDLETIER_MOVE_SOURCE_H
#define CLEAVE_MIDDLETIER_MOVE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/keys.h"
#include "catalog/moved.h"
#include "common/limits.h"

struct meta;

/* @text says what was wrong; rc 0: nothing, and it is "". */
typedef void (*mt_source_fn)(int rc, const char *text, void *arg);

struct mt_source {
	struct meta *meta;   /* borrowed */
	const char *name;    /* of it, for messages; borrowed */
	uint64_t cluster_id; /* whose it must be; 0: any */
	/* Found. */
	struct mt_keys keys; /* sorted, leased ones among them; "cluster" also where it was moved */
	struct mt_cluster cluster;
	bool is_moved;
	char moved_to[MT_MOVED_TO_BYTES]; /* is_moved */
	const char *gateway;              /* a key of a gateway that is registered; NULL: none is */
	/* Private to source.c. */
	const char *to;
	char text[2 * MT_ERROR_BYTES];
	int rc;
	mt_source_fn fn;
	void *arg;
};

/*
 * mt_source_load -- all keys of one moment
 *
 * -ENOENT there is no cluster; -EXDEV it is another one; -EBADMSG it cannot be understood; -EIO, -ETIMEDOUT.
 * Returns 0: @fn once; -ENOMEM: never.
 */
int mt_source_load(struct mt_source *source, mt_source_fn fn, void *arg);
/*
 * mt_source_end -- no gateway serves from it any more: the key "moved", which names @to, takes the place of "cluster"
 *
 * After mt_source_load. @to is borrowed. -EBUSY a gateway has come, or anything has changed, since then: it is as it
 * was. One that was moved to @to already stays so. Returns 0: @fn once; -ENOMEM: never.
 */
int mt_source_end(struct mt_source *source, const char *to, mt_source_fn fn, void *arg);
void mt_source_fini(struct mt_source *source);

#endif /* CLEAVE_MIDDLETIER_MOVE_SOURCE_H */
