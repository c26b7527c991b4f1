/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_edits.h -- a manifest's state as the edits of a checkpoint, and how long these are */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_EDITS_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_EDITS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_edit;
struct mt_manifest_state;

/*
 * mt_manifest_state_edit -- the @index-th edit of a checkpoint; false behind the last
 *
 * @next_sequence goes into the last one.
 */
bool mt_manifest_state_edit(const struct mt_manifest_state *state, uint64_t index,
    uint64_t next_sequence, struct mt_edit *ret_edit);
/* mt_manifest_state_bytes -- at most so many bytes of edits are a checkpoint of it; kept, not counted. */
uint64_t mt_manifest_state_bytes(const struct mt_manifest_state *state);
/* mt_manifest_state_pressed_bytes -- of these all but extents, whose number has a bound of its own. */
uint64_t mt_manifest_state_pressed_bytes(const struct mt_manifest_state *state);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_EDITS_H */
