/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moved.h -- the key "moved": this metadata store was moved away, and which one took its place
 *
 *	{"format":1,"to":"etcd://10.0.0.1:2379","cluster":"{...}"}
 *
 * It takes the place of the key "cluster", in one transaction, and has that one's text. A gateway that finds
 * it ends, and names the new store. One of a release that does not know it finds no cluster, and ends as well.
 */
#ifndef CLEAVE_MIDDLETIER_CATALOG_MOVED_H
#define CLEAVE_MIDDLETIER_CATALOG_MOVED_H

#include <stdint.h>

#define MT_MOVED_KEY "moved"
#define MT_MOVED_TO_BYTES 1024u
#define MT_MOVED_CLUSTER_BYTES 4096u

struct mt_moved {
	char to[MT_MOVED_TO_BYTES];           /* as --meta names it */
	char cluster[MT_MOVED_CLUSTER_BYTES]; /* the key "cluster", as it was */
};

/* mt_moved_encode -- JSON, to be freed with free(). NULL: out of memory, or @to is no text. */
char *mt_moved_encode(const struct mt_moved *moved);
/* mt_moved_decode -- 0; -EBADMSG and the field; -ENOMEM. */
int mt_moved_decode(const void *value, uint32_t bytes, struct mt_moved *ret_moved,
    const char **ret_field);

/* A start with such a store says this: where it looked, and twice where it went. */
#define MT_MOVED_TEXT                                                                               \
	"%s was moved to %s: give --meta %s from now on. The way back is cleave meta move; a move " \
	"that did not end is run again"

#endif /* CLEAVE_MIDDLETIER_CATALOG_MOVED_H */
