/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h -- members of the JSON objects that gateways answer with, checked */
#ifndef CLEAVE_VM_CLIENT_READER_H
#define CLEAVE_VM_CLIENT_READER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/client.h"

/* A parser's position: the first member that is wrong stays. */
struct reader {
	const char *field; /* NULL: none is wrong yet */
};

/* reader_fail -- the member @name is wrong. */
void reader_fail(struct reader *reader, const char *name);
/* reader_u64 -- the member, 0 .. @max; 0 when it is wrong. */
uint64_t reader_u64(struct reader *reader, const json_t *object, const char *name, uint64_t max);
/* reader_id -- the member, 16 hex digits; 0 when it is wrong. */
uint64_t reader_id(struct reader *reader, const json_t *object, const char *name);
/* reader_text -- the member, which has to be shorter than @bytes. */
void reader_text(struct reader *reader, const json_t *object, const char *name, char *ret_text,
    size_t bytes);
/* reader_cut -- the member, a text for people: what there is no room for is cut off; "" for none. */
void reader_cut(const json_t *object, const char *name, char *ret_text, size_t bytes);
/* reader_array -- the member, of @min to @max entries; NULL when it is wrong. */
const json_t *reader_array(struct reader *reader, const json_t *object, const char *name,
    size_t min, size_t max);
/* reader_volume -- @object, a volume as a gateway describes it; its attach is another's business. */
void reader_volume(struct reader *reader, const json_t *object,
    struct cleave_volume_info *ret_info);

#endif /* CLEAVE_VM_CLIENT_READER_H */
