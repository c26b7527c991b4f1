/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h -- control requests whose answers are structs
 *
 *	op + members --> cleave_control --> JSON --ask_parse--> entries of one kind --> a handler
 */
#ifndef CLEAVE_VM_CLIENT_ASK_H
#define CLEAVE_VM_CLIENT_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reader.h"
#include "cleave/manage.h"

#define ASK_ENTRIES_MAX 8192u /* of an answer: more of the shortest do not fit into one */
#define ASK_LIST_MAX                                                                               \
	(UINT32_C(1) << 20) /* of all pages together: a gateway that never ends is broken */

/* An answer, or all pages of one: entries of a kind, in the C library's memory. */
struct ask_answer {
	void *entries;
	uint32_t count;
	bool is_more;
};

/* The content of an answer, and the way to its handler. */
struct cleave_ask_kind {
	const char
	    *one; /* the member that is an entry, "" for the answer itself, or NULL; or ... */
	const char *many;   /* ... that is an array of them, or NULL */
	size_t entry_bytes; /* 0: there is nothing in it */
	bool is_optional;   /* no such member: no entries */
	bool is_paged;      /* "more" tells whether there are others behind the last */
	/* Required with an entry: *@ret_entry, zeroed before, from @object. */
	void (*read)(struct reader *reader, const json_t *object, void *ret_entry);
	/* Required when paged: does @entry belong behind @before? */
	bool (*rises)(const void *before, const void *entry);
	/* Required: calls @ask's handler, the last act. @rc is not 0: there are no entries. */
	void (*deliver)(struct cleave_ask *ask, int rc, const struct ask_answer *answer,
	    const char *error);
};
/* An answer that only says that it was done. */
extern const struct cleave_ask_kind ask_done;

/* A request of control.c's, without its members. */
struct ask_op {
	const char *op;
	const struct cleave_ask_kind *kind;
	bool is_change; /* not to be sent twice */
};

/* ask_request -- {"op":OP}, for members to be added; NULL: out of memory. */
json_t *ask_request(const struct ask_op *op);
/*
 * ask_add, ask_add_text -- a member of a request
 *
 * @value is taken over. *@request is NULL, and what it was freed, when there was no memory; it may be NULL.
 */
void ask_add(json_t **request, const char *member, json_t *value);
void ask_add_text(json_t **request, const char *member, const char *text);
/* ask_check_name -- 0: it may be a name of up to @bytes_max bytes; -EINVAL: it is none. */
int ask_check_name(const char *name, size_t bytes_max);

/*
 * ask_start -- send @request, which is taken over, for @ask, whose handler is set
 *
 * 0: the handler is called exactly once, later; else a negative errno: -ENOMEM, or cleave_control's.
 */
int ask_start(struct cleave_client *client, struct cleave_ask *ask, const struct ask_op *op,
    json_t *request);
/*
 * ask_wait -- send @request, which is taken over, and wait for the answer
 *
 * 0 and *@ret_answer, whose entries are the caller's to free; else a negative errno and a text in
 * @ret_error, which may be NULL.
 */
int ask_wait(struct cleave *cleave, const struct ask_op *op, json_t *request,
    struct ask_answer *ret_answer, char *ret_error);
/* ask_wait_one -- the same, with the answer's only entry in *@ret_entry. */
int ask_wait_one(struct cleave *cleave, const struct ask_op *op, json_t *request, void *ret_entry,
    char *ret_error);
/* ask_wait_all -- the same, page after page: @request_of is told the last entry, or NULL at first. */
int ask_wait_all(struct cleave *cleave, const struct ask_op *op,
    json_t *(*request_of)(const char *name, const void *last), const char *name,
    struct ask_answer *ret_answer, char *ret_error);
/* ask_refuse -- @rc, and its text into @ret_error, which may be NULL. */
int ask_refuse(int rc, char *ret_error);

/* ask_parse -- 0; -EBADMSG and the member that is wrong; -ENOMEM. *@ret_answer is untouched on failure. */
int ask_parse(const char *text, const struct cleave_ask_kind *kind, struct ask_answer *ret_answer,
    const char **ret_field);

#endif /* CLEAVE_VM_CLIENT_ASK_H */
