/* SPDX-License-Identifier: Apache-2.0 */
/* json.h -- members read from the JSON of keys and requests, and the JSON that keys and answers share */
#ifndef CLEAVE_MIDDLETIER_CATALOG_JSON_H
#define CLEAVE_MIDDLETIER_CATALOG_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "common/limits.h"

struct mt_scope;
struct mt_volume;

enum mt_json_kind {
	MT_JSON_TEXT,
	MT_JSON_U64,
	MT_JSON_I64,
	MT_JSON_BOOL,
	MT_JSON_ARRAY,
	MT_JSON_OBJECT,
};

/* A member of a request. Outputs stay untouched when it is absent. */
struct mt_json_member {
	const char *name;
	enum mt_json_kind kind;
	bool is_required;
	uint64_t min, max; /* U64; max 0: none. TEXT: max is its length */
	union {
		const char **text;
		uint64_t *u64;
		int64_t *i64;
		bool *flag;
		json_t **array;  /* borrowed from the object */
		json_t **object; /* likewise */
	} ret;
};
/*
 * mt_json_read -- fill @members from @object, strictly
 *
 * "op" may always be there. Returns 0, or -EINVAL and a sentence that names the member: unknown,
 * missing, of another type, out of range.
 */
int mt_json_read(const json_t *object, const struct mt_json_member *members, uint32_t count,
    char ret_error[MT_ERROR_BYTES]);
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

const char *mt_service_class_name(enum service_class service_class);
/* mt_service_class_parse -- 0 or -EINVAL. */
int mt_service_class_parse(const char *name, enum service_class *ret_class);
/* mt_hex_parse -- exactly 16 hex digits. 0 or -EINVAL. */
int mt_hex_parse(const char *text, uint64_t *ret_value);

#endif /* CLEAVE_MIDDLETIER_CATALOG_JSON_H */
