/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h -- members of JSON objects that came from elsewhere, checked
 *
 *	struct reader reader = { 0 };
 *	json_t *root = reader_load(&reader, text, bytes);
 *	uint64_t id = reader_range(&reader, root, "id", 1, INT64_MAX);
 *	...
 *	rc = reader_rc(&reader);
 *
 * A reader keeps the first member that is wrong, and what is wrong with it. What is wrong is read as 0, ""
 * or NULL, so that the caller asks once, at the end; members that it does not ask for may be there.
 * reader_strict is for what nobody may say more than we know: keys of the store, requests.
 *
 * Ownership: strings and values are borrowed from the object. Threads: any; a reader is one thread's.
 */
#ifndef CLEAVE_BASE_READER_H
#define CLEAVE_BASE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READER_ERROR_BYTES 384u /* of a sentence that says what is wrong; a longer one is cut */

enum reader_problem {
	READER_IS_WRONG, /* says the caller: reader_fail */
	READER_NO_MEMORY,
	READER_NO_OBJECT, /* the whole of it */
	READER_IS_MISSING,
	READER_IS_UNKNOWN,
	READER_WANTS_INTEGER,
	READER_WANTS_RANGE, /* min to max */
	READER_WANTS_TEXT,
	READER_WANTS_SHORTER, /* at most max bytes */
	READER_WANTS_HEX,
	READER_WANTS_BOOL,
	READER_WANTS_LIST, /* of min to max entries */
	READER_WANTS_OBJECT,
	READER_PROBLEM_NR
};

struct reader {
	const char *field; /* the first member that is wrong; NULL: none is yet */
	enum reader_problem problem;
	uint64_t min, max; /* of RANGE, SHORTER and LIST; a max of UINT64_MAX is none */
};

/*
 * reader_load -- the object that @text is; two members of one name are refused
 *
 * Returns what the caller gives back by json_decref; NULL: @reader has failed.
 */
json_t *reader_load(struct reader *reader, const void *text, size_t bytes);
/* reader_fail -- the member @name is wrong; the text stays the caller's. */
void reader_fail(struct reader *reader, const char *name);
/* reader_rc -- 0: nothing is wrong; -ENOMEM: there was no memory for the object; -EBADMSG: see field. */
int reader_rc(const struct reader *reader);
/* reader_say -- "NAME: must be 1 to 5": @reader has failed. */
void reader_say(const struct reader *reader, char ret_text[READER_ERROR_BYTES]);

/* reader_number -- @value, called @name, an integer of @min to @max; 0 when it is wrong. */
uint64_t reader_number(struct reader *reader, const json_t *value, const char *name, uint64_t min,
    uint64_t max);
/* reader_signed -- likewise, of a value that may be negative. */
int64_t reader_signed(struct reader *reader, const json_t *value, const char *name, int64_t min,
    int64_t max);
/* reader_range -- the member, of @min to @max. */
uint64_t reader_range(struct reader *reader, const json_t *object, const char *name, uint64_t min,
    uint64_t max);
/* reader_u64 -- the member, of 0 to @max. */
uint64_t reader_u64(struct reader *reader, const json_t *object, const char *name, uint64_t max);
/* reader_id -- the member, 16 hex digits in lower case; 0 when it is wrong. */
uint64_t reader_id(struct reader *reader, const json_t *object, const char *name);
/* reader_bool -- the member, true or false; false when it is wrong. */
bool reader_bool(struct reader *reader, const json_t *object, const char *name);
/* reader_copy -- @value, called @name, a string shorter than @bytes, into @ret_text; untouched when wrong. */
void reader_copy(struct reader *reader, const json_t *value, const char *name, char *ret_text,
    size_t bytes);
/* reader_text -- the member, likewise. */
void reader_text(struct reader *reader, const json_t *object, const char *name, char *ret_text,
    size_t bytes);
/* reader_cut -- the member, a text for people: what there is no room for is cut off; "" for none. */
void reader_cut(const json_t *object, const char *name, char *ret_text, size_t bytes);
/* reader_array -- the member, a list of @min to @max entries; NULL when it is wrong. */
const json_t *reader_array(struct reader *reader, const json_t *object, const char *name,
    size_t min, size_t max);
/* reader_object -- the member, an object; NULL when it is wrong. */
const json_t *reader_object(struct reader *reader, const json_t *object, const char *name);

/* ---- all members at once ---- */

enum reader_kind {
	READER_TEXT,
	READER_U64,
	READER_I64,
	READER_BOOL,
	READER_ARRAY,
	READER_OBJECT,
	READER_KIND_NR
};

/* A member that may be there. Its output stays untouched when it is absent. */
struct reader_member {
	const char *name;
	enum reader_kind kind;
	bool is_required;
	uint64_t min, max; /* of a U64; TEXT: max is its length in bytes. max 0: none */
	union {
		const char **text;
		uint64_t *u64;
		int64_t *i64;
		bool *flag;
		json_t **array;
		json_t **object;
	} ret;
};

/*
 * reader_strict -- fill @members from @object, in which there is nothing else; "op" may always be there
 *
 * Returns 0, or -EINVAL and a sentence that names the member: unknown, missing, of another type, out of range.
 */
int reader_strict(const json_t *object, const struct reader_member *members, uint32_t count,
    char ret_error[READER_ERROR_BYTES]);

#endif /* CLEAVE_BASE_READER_H */
