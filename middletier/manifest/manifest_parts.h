/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_parts.h -- the extents of a manifest before the one that the root names */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_PARTS_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_PARTS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_extent;
struct mt_link;

/*
 * Extents that are read before the one that the root names. What makes a manifest longer is pressed back
 * when it needs half as many, or so many bytes (manifest_room.c); the rest is for what cannot wait.
 */
#define MT_MANIFEST_PARTS_MAX 128u

struct mt_manifest_parts {
	struct mt_extent
	    *extents[MT_MANIFEST_PARTS_MAX]; /* sealed, in the order they are read in */
	uint32_t count;
};

/* mt_manifest_parts_add -- @extent is full, and all of it is durable: it is sealed there. */
void mt_manifest_parts_add(struct mt_manifest_parts *parts, struct mt_extent *extent);
/* mt_manifest_parts_encode -- the edits that name them, into @out. Returns their number. */
uint32_t mt_manifest_parts_encode(const struct mt_manifest_parts *parts, uint8_t *out,
    uint32_t *ret_bytes);
/* mt_manifest_parts_delete -- at the nodes, too. */
void mt_manifest_parts_delete(struct mt_manifest_parts *parts);
void mt_manifest_parts_free(struct mt_manifest_parts *parts);
void mt_manifest_parts_on_link(struct mt_manifest_parts *parts, struct mt_link *link, bool is_up);
/*
 * mt_manifest_parts_lack -- has one of them fewer good copies than it could have?
 *
 * *@ret_next_ns is lowered to when that may change by itself: a node has been away for too long.
 */
bool mt_manifest_parts_lack(const struct mt_manifest_parts *parts, uint32_t domain_count,
    uint64_t *ret_next_ns);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_PARTS_H */
