/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_etcd.c -- an etcd in memory: keys, revisions, transactions; see fake_etcd.h
 *
 * All that there is is the history of changes: what the keys are at a revision is what the changes up to it
 * have left. Keys are kept in base64, as they travel, and decoded where an order is needed.
 */
#include "fake_etcd.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "middletier/meta/etcd_json.h"

#define CLUSTER_ID "14841639068965178418"
#define FOREIGN_ID "4711"
#define KEY_MAX 1024u

struct fake_etcd_copy {
	uint64_t revision, compacted;
	struct fake_change *changes;
	uint32_t change_count;
};

/* ---- numbers and keys ---- */

static uint64_t
member_u64(const json_t *object, const char *name)
{
	const json_t *member = json_object_get(object, name);

	if (json_is_string(member))
		return strtoull(json_string_value(member), NULL, 10);
	return (uint64_t)json_integer_value(member);
}

static void
set_u64(json_t *object, const char *name, uint64_t number)
{
	char text[32];

	if (number == 0)
		return;
	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	json_object_set_new(object, name, json_string(text));
}

static int64_t
key_decode(const char *base64, uint8_t out[KEY_MAX])
{
	assert(base64 != NULL);
	assert(strlen(base64) < KEY_MAX);
	return etcd_base64_decode(base64, strlen(base64), out);
}

/* As etcd orders keys: byte by byte, the shorter one first. */
static int
key_compare(const char *one, const char *other)
{
	uint8_t a[KEY_MAX], b[KEY_MAX];
	int64_t a_bytes = key_decode(one, a), b_bytes = key_decode(other, b);
	int order = memcmp(a, b, (size_t)(a_bytes < b_bytes ? a_bytes : b_bytes));

	if (order != 0)
		return order;
	return a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

bool
fake_etcd_in_range(const json_t *request, const char *key)
{
	const char *first = json_string_value(json_object_get(request, "key"));
	const char *end = json_string_value(json_object_get(request, "range_end"));

	if (end == NULL)
		return strcmp(first, key) == 0;
	return key_compare(first, key) <= 0 && key_compare(key, end) < 0;
}

/* ---- history ---- */

/* The place of a key among all that there were, or where it would be. */
static uint32_t
key_place(const struct fake_etcd *etcd, const void *raw, size_t bytes, bool *ret_is_there)
{
	uint32_t low = 0, high = etcd->key_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct fake_key *at = &etcd->keys[middle];
		int order = memcmp(at->raw, raw, at->bytes < bytes ? at->bytes : bytes);

		if (order == 0 && at->bytes == bytes) {
			*ret_is_there = true;
			return middle;
		}
		if (order < 0 || (order == 0 && at->bytes < bytes))
			low = middle + 1;
		else
			high = middle;
	}
	*ret_is_there = false;
	return low;
}

/* The key's newest change, which may be a deletion. NULL: there is none. */
static struct fake_change *
key_last(const struct fake_etcd *etcd, const char *key)
{
	uint8_t raw[KEY_MAX];
	bool is_there;
	uint32_t place = key_place(etcd, raw, (size_t)key_decode(key, raw), &is_there);

	return is_there ? &etcd->changes[etcd->keys[place].last] : NULL;
}

static const struct fake_change *
key_now(const struct fake_etcd *etcd, const char *key)
{
	const struct fake_change *last = key_last(etcd, key);

	return last == NULL || last->value == NULL ? NULL : last;
}

/* @last: the index of its newest change. */
static void
key_note(struct fake_etcd *etcd, const char *key, uint32_t last)
{
	uint8_t raw[KEY_MAX];
	size_t bytes = (size_t)key_decode(key, raw);
	bool is_there;
	uint32_t place = key_place(etcd, raw, bytes, &is_there);
	struct fake_key *at;

	if (is_there) {
		etcd->keys[place].last = last;
		return;
	}
	if (etcd->key_count == etcd->key_capacity) {
		etcd->key_capacity = etcd->key_capacity == 0 ? 64 : 2 * etcd->key_capacity;
		etcd->keys = realloc(etcd->keys, etcd->key_capacity * sizeof(*etcd->keys));
		assert(etcd->keys != NULL);
	}
	at = &etcd->keys[place];
	memmove(at + 1, at, (etcd->key_count - place) * sizeof(*at));
	etcd->key_count++;
	*at = (struct fake_key){ .raw = malloc(bytes + 1), .bytes = bytes, .last = last };
	assert(at->raw != NULL);
	memcpy(at->raw, raw, bytes);
}

void
fake_etcd_keys_forget(struct fake_etcd *etcd)
{
	for (uint32_t i = 0; i < etcd->key_count; i++)
		free(etcd->keys[i].raw);
	etcd->key_count = 0;
}

/* All of them anew: the changes were moved. */
static void
keys_note(struct fake_etcd *etcd)
{
	fake_etcd_keys_forget(etcd);
	for (uint32_t i = 0; i < etcd->change_count; i++)
		key_note(etcd, etcd->changes[i].key, i);
}

static void
change_add(struct fake_etcd *etcd, const char *key, const char *value)
{
	struct fake_change *old = key_last(etcd, key), *change;
	uint64_t version = value == NULL ? 0 : old == NULL ? 1 : old->version + 1;

	if (old != NULL)
		old->next_revision = etcd->revision + 1;
	if (etcd->change_count == etcd->change_capacity) {
		etcd->change_capacity = etcd->change_capacity == 0 ? 64 : 2 * etcd->change_capacity;
		etcd->changes =
		    realloc(etcd->changes, etcd->change_capacity * sizeof(*etcd->changes));
		assert(etcd->changes != NULL);
	}
	change = &etcd->changes[etcd->change_count];
	*change = (struct fake_change){ .revision = etcd->revision + 1,
		.version = version,
		.at_ns = loop_now_ns(etcd->loop),
		.key = strdup(key),
		.value = value == NULL ? NULL : strdup(value) };
	assert(change->key != NULL);
	key_note(etcd, key, etcd->change_count++);
}

static void
changes_free(struct fake_change *changes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		free(changes[i].key);
		free(changes[i].value);
	}
	free(changes);
}

static struct fake_change *
changes_copy(const struct fake_change *changes, uint32_t count)
{
	struct fake_change *copy = calloc(count + 1, sizeof(*copy));

	assert(copy != NULL);
	for (uint32_t i = 0; i < count; i++) {
		copy[i] = changes[i];
		copy[i].key = strdup(changes[i].key);
		copy[i].value = changes[i].value == NULL ? NULL : strdup(changes[i].value);
	}
	return copy;
}

/* Changes that no revision behind the compacted one shows are gone for good. */
static void
changes_compact(struct fake_etcd *etcd)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < etcd->change_count; i++) {
		struct fake_change *change = &etcd->changes[i];
		bool is_over = change->next_revision != 0 &&
		    change->next_revision <= etcd->compacted;

		if (is_over || (change->value == NULL && change->revision < etcd->compacted)) {
			free(change->key);
			free(change->value);
		} else {
			etcd->changes[count++] = *change;
		}
	}
	etcd->change_count = count;
	keys_note(etcd);
}

static int
change_order(const void *one, const void *other)
{
	return key_compare((*(const struct fake_change *const *)one)->key,
	    (*(const struct fake_change *const *)other)->key);
}

/* The keys of a range as they are at a revision, sorted: to be freed. */
static const struct fake_change **
range_at(const struct fake_etcd *etcd, const json_t *request, uint64_t revision,
    uint32_t *ret_count)
{
	const struct fake_change **found = calloc(etcd->change_count + 1u, sizeof(*found));
	uint32_t count = 0;

	assert(found != NULL);
	if (revision >= etcd->revision) {
		for (uint32_t i = 0; i < etcd->key_count; i++) {
			const struct fake_change *last = &etcd->changes[etcd->keys[i].last];

			if (last->value != NULL && fake_etcd_in_range(request, last->key))
				found[count++] = last;
		}
		*ret_count = count;
		return found;
	}
	for (uint32_t i = 0; i < etcd->change_count; i++) {
		const struct fake_change *change = &etcd->changes[i];

		if (change->revision <= revision && change->value != NULL &&
		    (change->next_revision == 0 || change->next_revision > revision) &&
		    fake_etcd_in_range(request, change->key))
			found[count++] = change;
	}
	qsort(found, count, sizeof(found[0]), change_order);
	*ret_count = count;
	return found;
}

/* ---- requests ---- */

json_t *
fake_etcd_header(const struct fake_etcd *etcd, uint32_t member)
{
	json_t *header = json_object();

	assert(member < etcd->member_count);
	json_object_set_new(header, "cluster_id",
	    json_string(etcd->members[member].is_foreign ? FOREIGN_ID : CLUSTER_ID));
	set_u64(header, "member_id", member + 1);
	set_u64(header, "revision", etcd->revision);
	json_object_set_new(header, "raft_term", json_string("2"));
	return header;
}

static char *
answer_text(json_t *answer)
{
	char *text = json_dumps(answer, JSON_COMPACT);

	assert(text != NULL);
	json_decref(answer);
	return text;
}

uint32_t
fake_etcd_error(uint32_t status, int code, const char *message, char **ret_text)
{
	*ret_text = answer_text(
	    json_pack("{s:s, s:s, s:i}", "error", message, "message", message, "code", code));
	return status;
}

static json_t *
kv_object(const struct fake_change *change, bool is_keys_only)
{
	json_t *kv = json_pack("{s:s}", "key", change->key);

	set_u64(kv, "mod_revision", change->revision);
	set_u64(kv, "version", change->version);
	if (!is_keys_only && change->value[0] != '\0')
		json_object_set_new(kv, "value", json_string(change->value));
	return kv;
}

/* The members of an answer to a range, put into @answer. */
static void
range_fill(const struct fake_etcd *etcd, const json_t *request, json_t *answer)
{
	uint64_t revision = member_u64(request, "revision"), limit = member_u64(request, "limit");
	bool is_count = json_is_true(json_object_get(request, "count_only"));
	bool is_keys = json_is_true(json_object_get(request, "keys_only"));
	const struct fake_change **found;
	json_t *kvs = json_array();
	uint32_t count;

	found = range_at(etcd, request, revision == 0 ? etcd->revision : revision, &count);
	for (uint32_t i = 0; i < count && !is_count && (limit == 0 || i < limit); i++)
		json_array_append_new(kvs, kv_object(found[i], is_keys));
	if (json_array_size(kvs) > 0)
		json_object_set(answer, "kvs", kvs);
	if (limit != 0 && count > limit)
		json_object_set_new(answer, "more", json_true());
	set_u64(answer, "count", count);
	json_decref(kvs);
	free(found);
}

static uint32_t
answer_range(struct fake_etcd *etcd, uint32_t member, const json_t *request, char **ret_text)
{
	uint64_t revision = member_u64(request, "revision");
	json_t *answer;

	if (revision != 0 && revision < etcd->compacted)
		return fake_etcd_error(400, 11,
		    "etcdserver: mvcc: required revision has been compacted", ret_text);
	if (revision > etcd->revision)
		return fake_etcd_error(400, 11,
		    "etcdserver: mvcc: required revision is a future revision", ret_text);
	answer = json_pack("{s:o}", "header", fake_etcd_header(etcd, member));
	range_fill(etcd, request, answer);
	*ret_text = answer_text(answer);
	return 200;
}

static bool
compare_holds(const struct fake_etcd *etcd, const json_t *compare)
{
	const char *key = json_string_value(json_object_get(compare, "key"));
	const char *target = json_string_value(json_object_get(compare, "target"));
	const char *result = json_string_value(json_object_get(compare, "result"));
	const struct fake_change *now = key_now(etcd, key);
	bool is_mod = strcmp(target, "MOD") == 0;
	uint64_t wanted = member_u64(compare, is_mod ? "mod_revision" : "version");
	uint64_t is = now == NULL ? 0 : is_mod ? now->revision : now->version;

	assert(is_mod || strcmp(target, "VERSION") == 0);
	if (strcmp(result, "GREATER") == 0)
		return is > wanted;
	assert(strcmp(result, "EQUAL") == 0);
	return is == wanted;
}

/* The key that an operation changes; NULL: it changes none. */
static const char *
op_key(const json_t *op)
{
	const json_t *put = json_object_get(op, "request_put");
	const json_t *deletion = json_object_get(op, "request_delete_range");

	return json_string_value(json_object_get(put != NULL ? put : deletion, "key"));
}

/* Etcd refuses a key that is changed twice, and to put the value of a key that is not there. */
static bool
txn_is_good(const struct fake_etcd *etcd, const json_t *ops)
{
	for (size_t i = 0; i < json_array_size(ops); i++) {
		const json_t *op = json_array_get(ops, i);
		const json_t *put = json_object_get(op, "request_put");
		const char *key = op_key(op);

		if (json_is_true(json_object_get(put, "ignore_value")) &&
		    key_now(etcd, key) == NULL)
			return false;
		for (size_t n = 0; n < i && key != NULL; n++) {
			const char *other = op_key(json_array_get(ops, n));

			if (other != NULL && strcmp(other, key) == 0)
				return false;
		}
	}
	return true;
}

static void
txn_op(struct fake_etcd *etcd, const json_t *op, json_t *responses)
{
	const json_t *put = json_object_get(op, "request_put");
	const json_t *range = json_object_get(op, "request_range");
	const char *key = op_key(op), *value;

	if (range != NULL) {
		json_t *answer = json_object();

		range_fill(etcd, range, answer);
		json_array_append_new(responses, json_pack("{s:o}", "response_range", answer));
		return;
	}
	if (put == NULL) {
		if (key_now(etcd, key) != NULL)
			change_add(etcd, key, NULL);
		return;
	}
	value = json_string_value(json_object_get(put, "value"));
	if (json_is_true(json_object_get(put, "ignore_value")))
		value = key_now(etcd, key)->value;
	change_add(etcd, key, value == NULL ? "" : value);
}

static bool
txn_is_change(const json_t *ops)
{
	for (size_t i = 0; i < json_array_size(ops); i++)
		if (json_object_get(json_array_get(ops, i), "request_put") != NULL)
			return true;
	return false;
}

static uint32_t
answer_txn(struct fake_etcd *etcd, uint32_t member, const json_t *request, char **ret_text)
{
	const json_t *compares = json_object_get(request, "compare"), *ops;
	uint32_t old_count = etcd->change_count;
	json_t *responses = json_array(), *answer;
	bool has_succeeded = true;

	for (size_t i = 0; i < json_array_size(compares); i++)
		has_succeeded &= compare_holds(etcd, json_array_get(compares, i));
	ops = json_object_get(request, has_succeeded ? "success" : "failure");
	if (etcd->is_full && txn_is_change(ops)) {
		json_decref(responses);
		return fake_etcd_error(429, 8, "etcdserver: mvcc: database space exceeded",
		    ret_text);
	}
	if (!txn_is_good(etcd, ops)) {
		json_decref(responses);
		return fake_etcd_error(400, 3, "etcdserver: duplicate key given in txn request",
		    ret_text);
	}
	for (size_t i = 0; i < json_array_size(ops); i++)
		txn_op(etcd, json_array_get(ops, i), responses);
	if (etcd->change_count > old_count) {
		etcd->revision++;
		fake_etcd_notify(etcd);
	}
	answer = json_pack("{s:o}", "header", fake_etcd_header(etcd, member));
	if (has_succeeded)
		json_object_set_new(answer, "succeeded", json_true());
	if (json_array_size(responses) > 0)
		json_object_set(answer, "responses", responses);
	json_decref(responses);
	*ret_text = answer_text(answer);
	return 200;
}

static uint32_t
answer_compaction(struct fake_etcd *etcd, uint32_t member, const json_t *request, char **ret_text)
{
	uint64_t revision = member_u64(request, "revision");

	if (revision <= etcd->compacted || revision > etcd->revision)
		return fake_etcd_error(400, 11,
		    "etcdserver: mvcc: required revision has been compacted", ret_text);
	etcd->compacted = revision;
	changes_compact(etcd);
	fake_etcd_notify(etcd);
	*ret_text = answer_text(json_pack("{s:o}", "header", fake_etcd_header(etcd, member)));
	return 200;
}

static uint32_t
answer_authenticate(struct fake_etcd *etcd, uint32_t member, const json_t *request, char **ret_text)
{
	const char *user = json_string_value(json_object_get(request, "name"));
	const char *password = json_string_value(json_object_get(request, "password"));
	char token[32];

	if (etcd->user == NULL)
		return fake_etcd_error(412, 9, "etcdserver: authentication is not enabled",
		    ret_text);
	if (user == NULL || password == NULL || strcmp(user, etcd->user) != 0 ||
	    strcmp(password, etcd->password) != 0)
		return fake_etcd_error(400, 3,
		    "etcdserver: authentication failed, invalid user ID or password", ret_text);
	(void)snprintf(token, sizeof(token), "token.%u", etcd->token);
	*ret_text = answer_text(
	    json_pack("{s:o, s:s}", "header", fake_etcd_header(etcd, member), "token", token));
	return 200;
}

static uint32_t
answer_status(struct fake_etcd *etcd, uint32_t member, char **ret_text)
{
	char size[32], quota[32];
	json_t *answer = json_pack("{s:o}", "header", fake_etcd_header(etcd, member));

	(void)snprintf(size, sizeof(size), "%" PRIu64, etcd->database_bytes);
	(void)snprintf(quota, sizeof(quota), "%" PRIu64, etcd->quota_bytes);
	json_object_set_new(answer, "dbSize", json_string(size));
	/* As etcd writes it: 0 is left out. */
	if (!etcd->members[member].is_leaderless)
		json_object_set_new(answer, "leader", json_string("10276657743932975437"));
	if (etcd->tells_quota)
		json_object_set_new(answer, "dbSizeQuota", json_string(quota));
	*ret_text = answer_text(answer);
	return 200;
}

/* For Prometheus, and no JSON. */
static uint32_t
answer_metrics(struct fake_etcd *etcd, char **ret_text)
{
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes %.17g\n"
	    "etcd_server_version{server_version=\"3.4.23\"} 1\n",
	    (double)etcd->quota_bytes);
	*ret_text = strdup(text);
	return 200;
}

uint32_t
fake_etcd_check_token(struct fake_etcd *etcd, const char *token, char **ret_text)
{
	char good[32];

	(void)snprintf(good, sizeof(good), "token.%u", etcd->token);
	if (etcd->user == NULL || (token != NULL && strcmp(token, good) == 0))
		return 0;
	if (token == NULL)
		return fake_etcd_error(400, 3, "etcdserver: user name is empty", ret_text);
	/* A JWT is refused by another word, from any change of users and roles on. */
	return etcd->token % 2 == 0
	    ? fake_etcd_error(400, 3, "etcdserver: revision of auth store is old", ret_text)
	    : fake_etcd_error(401, 16, "etcdserver: invalid auth token", ret_text);
}

/* As empty as ours was. */
static struct fake_etcd *
foreign_of(struct fake_etcd *etcd, uint32_t member)
{
	if (etcd->foreign == NULL) {
		etcd->foreign = fake_etcd_create(etcd->loop, etcd->member_count);
		assert(etcd->foreign != NULL);
	}
	etcd->foreign->members[member].is_foreign = true;
	return etcd->foreign;
}

uint32_t
fake_etcd_answer(struct fake_etcd *etcd, uint32_t member, const char *path, const char *token,
    const char *body, char **ret_text)
{
	json_error_t error;
	json_t *request = json_loads(body, 0, &error);
	uint32_t status;

	assert(request != NULL);
	etcd->members[member].request_count++;
	if (etcd->members[member].is_foreign)
		etcd = foreign_of(etcd, member);
	if (etcd->members[member].is_no_etcd) {
		*ret_text = strdup("<html><body>It works!</body></html>");
		status = 404;
	} else if (strcmp(path, "/v3/auth/authenticate") == 0) {
		status = answer_authenticate(etcd, member, request, ret_text);
	} else if (strcmp(path, "/v3/maintenance/status") == 0) {
		status = answer_status(etcd, member, ret_text);
	} else if (strcmp(path, "/metrics") == 0) {
		status = answer_metrics(etcd, ret_text);
	} else {
		status = fake_etcd_check_token(etcd, token, ret_text);
		if (status == 0 && strcmp(path, "/v3/kv/range") == 0)
			status = answer_range(etcd, member, request, ret_text);
		else if (status == 0 && strcmp(path, "/v3/kv/txn") == 0)
			status = answer_txn(etcd, member, request, ret_text);
		else if (status == 0)
			status = answer_compaction(etcd, member, request, ret_text);
	}
	json_decref(request);
	return status;
}

/* ---- the service ---- */

struct fake_etcd *
fake_etcd_create(struct loop *loop, uint32_t member_count)
{
	struct fake_etcd *etcd = calloc(1, sizeof(*etcd));

	assert(member_count > 0 && member_count <= FAKE_ETCD_MEMBERS_MAX);
	if (etcd == NULL)
		return NULL;
	etcd->loop = loop;
	etcd->member_count = member_count;
	etcd->delay_min_ns = NUM_US(50);
	etcd->delay_max_ns = NUM_US(500);
	etcd->revision = 1;
	list_init(&etcd->calls);
	return etcd;
}

void
fake_etcd_set_user(struct fake_etcd *etcd, const char *user, const char *password)
{
	free(etcd->user);
	free(etcd->password);
	etcd->user = user == NULL ? NULL : strdup(user);
	etcd->password = user == NULL ? NULL : strdup(password);
}

void
fake_etcd_set_size(struct fake_etcd *etcd, uint64_t database_bytes, uint64_t quota_bytes,
    bool tells_quota)
{
	etcd->database_bytes = database_bytes;
	etcd->quota_bytes = quota_bytes;
	etcd->tells_quota = tells_quota;
}

void
fake_etcd_expire_tokens(struct fake_etcd *etcd)
{
	etcd->token++;
}

void
fake_etcd_compact(struct fake_etcd *etcd)
{
	etcd->compacted = etcd->revision;
	changes_compact(etcd);
	fake_etcd_notify(etcd);
}

struct fake_etcd_copy *
fake_etcd_copy(const struct fake_etcd *etcd)
{
	struct fake_etcd_copy *copy = calloc(1, sizeof(*copy));

	assert(copy != NULL);
	copy->revision = etcd->revision;
	copy->compacted = etcd->compacted;
	copy->change_count = etcd->change_count;
	copy->changes = changes_copy(etcd->changes, etcd->change_count);
	return copy;
}

/* The members stop, and start again on the backup. */
void
fake_etcd_restore(struct fake_etcd *etcd, const struct fake_etcd_copy *copy)
{
	fake_etcd_end_streams(etcd);
	changes_free(etcd->changes, etcd->change_count);
	etcd->changes = changes_copy(copy->changes, copy->change_count);
	etcd->change_count = copy->change_count;
	etcd->change_capacity = copy->change_count + 1;
	etcd->revision = copy->revision;
	etcd->compacted = copy->compacted;
	keys_note(etcd);
}

void
fake_etcd_copy_destroy(struct fake_etcd_copy *copy)
{
	changes_free(copy->changes, copy->change_count);
	free(copy);
}

uint64_t
fake_etcd_revision(const struct fake_etcd *etcd)
{
	return etcd->revision;
}

uint64_t
fake_etcd_compacted(const struct fake_etcd *etcd)
{
	return etcd->compacted;
}

uint64_t
fake_etcd_request_count(const struct fake_etcd *etcd, uint32_t member)
{
	assert(member < etcd->member_count);
	return etcd->members[member].request_count;
}

const struct fake_change *
fake_etcd_find(const struct fake_etcd *etcd, const char *key)
{
	bool is_there;
	uint32_t place = key_place(etcd, key, strlen(key), &is_there);
	const struct fake_change *last = is_there ? &etcd->changes[etcd->keys[place].last] : NULL;

	return last == NULL || last->value == NULL ? NULL : last;
}

void
fake_etcd_each(const struct fake_etcd *etcd, const char *prefix,
    void (*fn)(const char *key, const struct fake_change *change, void *arg), void *arg)
{
	char key[KEY_MAX + 1];

	for (uint32_t i = 0; i < etcd->key_count; i++) {
		const struct fake_key *at = &etcd->keys[i];
		const struct fake_change *last = &etcd->changes[at->last];

		memcpy(key, at->raw, at->bytes);
		key[at->bytes] = '\0';
		if (last->value != NULL && strncmp(key, prefix, strlen(prefix)) == 0)
			fn(key, last, arg);
	}
}

void
fake_etcd_copy_each(const struct fake_etcd_copy *copy, const char *prefix,
    void (*fn)(const char *key, const struct fake_change *change, void *arg), void *arg)
{
	uint8_t key[KEY_MAX + 1];

	for (uint32_t i = 0; i < copy->change_count; i++) {
		const struct fake_change *change = &copy->changes[i];

		if (change->next_revision != 0 || change->value == NULL)
			continue;
		key[key_decode(change->key, key)] = '\0';
		if (strncmp((const char *)key, prefix, strlen(prefix)) == 0)
			fn((const char *)key, change, arg);
	}
}

uint64_t
fake_etcd_held_bytes(const struct fake_etcd *etcd)
{
	uint64_t bytes = malloc_usable_size(etcd->changes) + malloc_usable_size(etcd->keys);

	for (uint32_t i = 0; i < etcd->change_count; i++)
		bytes += malloc_usable_size(etcd->changes[i].key) +
		    malloc_usable_size(etcd->changes[i].value);
	for (uint32_t i = 0; i < etcd->key_count; i++)
		bytes += malloc_usable_size(etcd->keys[i].raw);
	if (etcd->foreign != NULL)
		bytes += malloc_usable_size(etcd->foreign) + fake_etcd_held_bytes(etcd->foreign);
	return bytes + fake_etcd_calls_bytes(etcd);
}
