/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c -- control requests whose answers are structs
 *
 * A request is sent by cleave_control, or cleave_control_wait, which know about gateways, time and lost
 * connections; what is added here is reading the answer. Outside input is checked here once: an answer
 * that has passed has all its members, in their ranges, and its entries rise.
 */
#include "ask.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/num.h"

/* Room for @count entries, which is not 0; what is new is not zeroed. The bounds keep the product small. */
static void *
entries_resize(void *entries, uint32_t count, size_t entry_bytes)
{
	assert(count > 0 && entry_bytes > 0);
	return client_realloc(entries, count * entry_bytes);
}

static void
done_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	(void)answer;
	assert(answer->entries == NULL);
	ask->fn.done(ask, rc, error, ask->arg);
}

const struct cleave_ask_kind ask_done = { .deliver = done_deliver };

/* Requests. */

void
ask_add(json_t **request, const char *member, json_t *value)
{
	assert(request != NULL && member != NULL);
	if (*request == NULL) {
		json_decref(value);
	} else if (json_object_set_new(*request, member, value) != 0) {
		json_decref(*request);
		*request = NULL;
	}
}

void
ask_add_text(json_t **request, const char *member, const char *text)
{
	assert(text != NULL); /* JSON has none: that would look like no memory */
	ask_add(request, member, json_string(text));
}

json_t *
ask_request(const struct ask_op *op)
{
	json_t *request = json_object();

	assert(op->op != NULL && op->kind != NULL);
	ask_add_text(&request, "op", op->op);
	return request;
}

/* A gateway judges what is in it; here, it is a text that JSON can have. */
int
ask_check_name(const char *name, size_t bytes_max)
{
	size_t bytes;

	assert(name != NULL);
	bytes = strnlen(name, bytes_max + 1);
	if (bytes == 0 || bytes > bytes_max)
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return -EINVAL;
	}
	return 0;
}

/* Answers. */

static void
parse_entries(struct reader *reader, const struct cleave_ask_kind *kind, const json_t *array,
    struct ask_answer *answer)
{
	const uint8_t *before = NULL;

	assert(kind->read != NULL && answer->entries != NULL);
	assert(!kind->is_paged || kind->rises != NULL);
	for (uint32_t i = 0; i < answer->count && reader->field == NULL; i++) {
		uint8_t *entry = (uint8_t *)answer->entries + i * kind->entry_bytes;

		kind->read(reader, json_array_get(array, i), entry);
		if (reader->field == NULL && kind->is_paged && before != NULL &&
		    !kind->rises(before, entry))
			reader_fail(reader, kind->many);
		before = entry;
	}
}

/* 0, also when the reader has failed; -ENOMEM. */
static int
parse_root(struct reader *reader, const struct cleave_ask_kind *kind, const json_t *root,
    struct ask_answer *answer)
{
	const json_t *array = NULL;

	assert(kind->one == NULL || kind->many == NULL);
	if (kind->is_optional && json_object_get(root, kind->many) == NULL)
		return 0;
	if (kind->many != NULL) {
		array = reader_array(reader, root, kind->many, 0, ASK_ENTRIES_MAX);
		answer->count = array == NULL ? 0 : (uint32_t)json_array_size(array);
	} else if (kind->one != NULL) {
		answer->count = 1;
	}
	if (kind->is_paged)
		answer->is_more = json_is_true(json_object_get(root, "more"));
	if (answer->is_more && answer->count == 0)
		reader_fail(reader, "more"); /* behind which? */
	if (reader->field != NULL || answer->count == 0)
		return 0;
	answer->entries = entries_resize(NULL, answer->count, kind->entry_bytes);
	if (answer->entries == NULL)
		return -ENOMEM;
	memset(answer->entries, 0, answer->count * kind->entry_bytes);
	if (array != NULL)
		parse_entries(reader, kind, array, answer);
	else
		kind->read(reader, kind->one[0] == '\0' ? root : json_object_get(root, kind->one),
		    answer->entries);
	return 0;
}

int
ask_parse(const char *text, const struct cleave_ask_kind *kind, struct ask_answer *ret_answer,
    const char **ret_field)
{
	struct ask_answer answer = { NULL, 0, false };
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, text, strlen(text));
	int rc = root == NULL ? 0 : parse_root(&reader, kind, root, &answer);

	assert(ret_answer != NULL && ret_field != NULL);
	json_decref(root);
	if (rc == 0 && reader.field == NULL) {
		*ret_answer = answer;
		return 0;
	}
	free(answer.entries);
	*ret_field = reader.field != NULL ? reader.field : "memory";
	return rc != 0 ? rc : reader_rc(&reader);
}

/* ask_parse, with a text for people, of CLEAVE_ERROR_BYTES_MAX bytes, when it fails. */
static int
parse_and_say(const char *reply, const struct cleave_ask_kind *kind, struct ask_answer *ret_answer,
    char *ret_error)
{
	const char *field;
	int rc = ask_parse(reply, kind, ret_answer, &field);

	if (rc == -EBADMSG)
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX,
		    "the gateway's answer cannot be read: %s", field);
	else if (rc != 0)
		(void)ask_refuse(rc, ret_error);
	return rc;
}

/* On a loop. */

static void
ask_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_ask *ask = arg;
	struct ask_answer answer = { NULL, 0, false };
	char text[CLEAVE_ERROR_BYTES_MAX];

	assert(call == &ask->call);
	assert(rc != 0 || reply != NULL);
	ask->answer = reply;
	if (rc == 0) {
		rc = parse_and_say(reply, ask->kind, &answer, text);
		error = rc == 0 ? NULL : text;
	}
	assert((rc == 0) == (error == NULL));
	ask->kind->deliver(ask, rc, &answer, error);
	free(answer.entries); /* @ask may be gone */
}

/* The request's text, which is the caller's to free; NULL: out of memory. */
static char *
request_text(json_t *request)
{
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);

	json_decref(request);
	return text;
}

int
ask_start(struct cleave_client *client, struct cleave_ask *ask, const struct ask_op *op,
    json_t *request)
{
	char *text = request_text(request);
	int rc;

	assert(op->kind != NULL && op->kind->deliver != NULL);
	assert(ask->fn.done != NULL); /* whichever it is */
	if (text == NULL)
		return -ENOMEM;
	ask->kind = op->kind;
	ask->call = (struct cleave_call){
		.must_not_repeat = op->is_change,
		.fn = ask_on_answer,
		.arg = ask,
	};
	rc = cleave_control(client, &ask->call, text);
	free(text);
	return rc;
}

/* Blocking. */

int
ask_refuse(int rc, char *ret_error)
{
	assert(rc < 0);
	if (ret_error != NULL)
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "%s", cleave_error_text(rc));
	return rc;
}

int
ask_wait(struct cleave *cleave, const struct ask_op *op, json_t *request,
    struct ask_answer *ret_answer, char *ret_error)
{
	char *text = request_text(request), *reply = NULL;
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc;

	assert(ret_answer != NULL);
	if (text == NULL)
		return ask_refuse(-ENOMEM, ret_error);
	rc = cleave_control_wait(cleave, text, op->is_change, &reply, error);
	if (rc == 0)
		rc = parse_and_say(reply, op->kind, ret_answer, error);
	free(reply);
	free(text);
	if (rc != 0 && ret_error != NULL)
		memcpy(ret_error, error, sizeof(error));
	return rc;
}

int
ask_wait_one(struct cleave *cleave, const struct ask_op *op, json_t *request, void *ret_entry,
    char *ret_error)
{
	struct ask_answer answer;
	int rc = ask_wait(cleave, op, request, &answer, ret_error);

	assert(op->kind->one != NULL && op->kind->entry_bytes > 0);
	if (rc != 0)
		return rc;
	assert(answer.count == 1);
	memcpy(ret_entry, answer.entries, op->kind->entry_bytes);
	free(answer.entries);
	return 0;
}

/* @page's entries behind @all's; they are @all's or gone. */
static int
list_append(const struct cleave_ask_kind *kind, struct ask_answer *all, struct ask_answer *page)
{
	uint8_t *entries = all->entries;
	int rc = 0;

	assert(page->count <= ASK_ENTRIES_MAX && (page->count > 0 || !page->is_more));
	all->is_more = page->is_more;
	if (page->count == 0)
		return 0;
	if (all->count > 0 &&
	    !kind->rises(entries + (all->count - 1) * kind->entry_bytes, page->entries))
		rc = -EBADMSG; /* it repeats itself: that would never end */
	else if (all->count + page->count > ASK_LIST_MAX)
		rc = -EBADMSG;
	if (rc == 0) {
		entries = entries_resize(entries, all->count + page->count, kind->entry_bytes);
		rc = entries == NULL ? -ENOMEM : 0;
	}
	if (rc == 0) {
		memcpy(entries + all->count * kind->entry_bytes, page->entries,
		    page->count * kind->entry_bytes);
		all->entries = entries;
		all->count += page->count;
	}
	free(page->entries);
	return rc;
}

int
ask_wait_all(struct cleave *cleave, const struct ask_op *op,
    json_t *(*request_of)(const char *name, const void *last), const char *name,
    struct ask_answer *ret_answer, char *ret_error)
{
	const struct cleave_ask_kind *kind = op->kind;
	struct ask_answer all = { NULL, 0, false }, page;
	int rc;

	assert(kind->is_paged);
	do {
		const uint8_t *entries = all.entries;
		const void *last = all.count == 0 ? NULL
						  : entries + (all.count - 1) * kind->entry_bytes;

		rc = ask_wait(cleave, op, request_of(name, last), &page, ret_error);
		if (rc != 0)
			break;
		rc = list_append(kind, &all, &page);
		if (rc != 0)
			(void)ask_refuse(rc, ret_error);
	} while (rc == 0 && all.is_more);
	if (rc == 0)
		*ret_answer = all;
	else
		free(all.entries);
	return rc;
}
