/* SPDX-License-Identifier: Apache-2.0 */
/* edit_decode.h -- edits of a manifest from bytes, which may be anything */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_EDIT_DECODE_H
#define CLEAVE_MIDDLETIER_MANIFEST_EDIT_DECODE_H

#include <stdint.h>

struct mt_edit;

/*
 * mt_edit_decode -- the edit at the beginning of @bytes bytes
 *
 * Returns the bytes consumed; or, and the field: -EPROTONOSUPPORT its kind, version, length, flags or level are unknown to
 * this release, so a newer one has written it; -EBADMSG nobody writes that.
 */
int mt_edit_decode(const uint8_t *in, uint32_t bytes, struct mt_edit *ret_edit,
    const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_EDIT_DECODE_H */
