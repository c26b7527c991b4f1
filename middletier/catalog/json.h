/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- JSON that keys of the store and answers to control requests have in common */
#ifndef CLEAVE_MIDDLETIER_CATALOG_JSON_H
#define CLEAVE_MIDDLETIER_CATALOG_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"
#include "cleave/wire.h"
#include "common/limits.h"

struct mt_scope;
struct mt_volume;

_Static_assert(MT_ERROR_BYTES == READER_ERROR_BYTES,
    "one bound of a sentence that says what is wrong");

/* Integers are JSON integers; those of 2^63 and above, which JSON cannot hold here, are refused. */
json_t *mt_json_volume(const struct mt_volume *volume);
/* mt_json_volume_held -- with "holder": who has it open for writing, if anybody. */
json_t *mt_json_volume_held(const struct mt_volume *volume);
/*
 * mt_json_put_scope -- the member "spans": [[segment_base, cut_from, cut_below] ...]; a plain scope has none
 *
 * The last number is left out where a span has no end. Returns 0; -1: no memory.
 */
int mt_json_put_scope(json_t *object, const struct mt_scope *scope, uint64_t segment_base);
/* mt_json_take_scope -- @spans may be NULL. NULL, or the field that is wrong. */
const char *mt_json_take_scope(const json_t *spans, uint64_t segment_base,
    struct mt_scope *ret_scope);

/*
 * mt_json_load -- fill @members from @value, a key's object of @bytes in which there is nothing else
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field is a sentence that says what is wrong, valid until the thread's next call.
 * *@ret_object has the members' texts and arrays, and is the caller's to give back by json_decref, whatever was
 * returned.
 */
int mt_json_load(const void *value, uint32_t bytes, const struct reader_member *members,
    uint32_t count, json_t **ret_object, const char **ret_field);

/* mt_hex_parse -- exactly 16 hex digits. 0 or -EINVAL. */
int mt_hex_parse(const char *text, uint64_t *ret_value);

#endif /* CLEAVE_MIDDLETIER_CATALOG_JSON_H */
