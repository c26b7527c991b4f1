/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_checkpoint.h -- the whole state into new extents, batch after batch */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_CHECKPOINT_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_CHECKPOINT_H

struct mt_extent;

/* mt_manifest_on_created -- mt_extent_create's, of manifest->next. */
void mt_manifest_on_created(struct mt_extent *extent, int rc, void *arg);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_CHECKPOINT_H */
