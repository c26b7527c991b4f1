/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_etcd.c -- an etcd in memory: keys, revisions, transactions; see fake_etcd.h
 *
 * All that there is is the history of changes: what the keys are at a revision is what the changes up to it
 * have left. Keys are kept in base64, as they travel, and decoded where an order is needed.
 */
#include "fake_etcd.h"

#include <inttypes.h>
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

static const struct fake_change *
key_at(const struct fake_etcd *etcd, const char *key, uint64_t revision)
{
	for (uint32_t i = etcd->change_count; i-- > 0;) {
		const struct fake_change *change = &etcd->changes[i];

		if (change->revision <= revision && strcmp(change->key, key) == 0)
			return change->value == NULL ? NULL : change;
	}
	return NULL;
}

static void
change_add(struct fake_etcd *etcd, const char *key, const char *value)
{
	const struct fake_change *old = key_at(etcd, key, UINT64_MAX);
	uint64_t version = value == NULL ? 0 : old == NULL ? 1 : old->version + 1;
	struct fake_change *change;

	if (etcd->change_count == etcd->change_capacity) {
		etcd->change_capacity = etcd->change_capacity == 0 ? 64 : 2 * etcd->change_capacity;
		etcd->changes =
		    realloc(etcd->changes, etcd->change_capacity * sizeof(*etcd->changes));
		assert(etcd->changes != NULL);
	}
	change = &etcd->changes[etcd->change_count++];
	*change = (struct fake_change){ .revision = etcd->revision + 1,
		.version = version,
		.key = strdup(key),
		.value = value == NULL ? NULL : strdup(value) };
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
	for (uint32_t i = 0; i < etcd->change_count; i++) {
		const struct fake_change *change = &etcd->changes[i];

		if (change->revision <= revision && change->value != NULL &&
		    fake_etcd_in_range(request, change->key) &&
		    key_at(etcd, change->key, revision) == change)
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
	const struct fake_change *now = key_at(etcd, key, UINT64_MAX);
	bool is_mod = strcmp(target, "MOD") == 0;
	uint64_t wanted = member_u64(compare, is_mod ? "mod_revision" : "version");
	uint64_t is = now == NULL ? 0 : is_mod ? now->revision : now->version;

	assert(is_mod || strcmp(target, "VERSION") == 0);
	if (strcmp(result, "GREATER") == 0)
		return is > wanted;
	assert(strcmp(result, "EQUAL") == 0);
	return is == wanted;
}

/* False: etcd would refuse it. */
static bool
txn_op(struct fake_etcd *etcd, const json_t *op, json_t *responses)
{
	const json_t *put = json_object_get(op, "request_put");
	const json_t *deletion = json_object_get(op, "request_delete_range");
	const json_t *range = json_object_get(op, "request_range");
	const char *key, *value;
	json_t *answer;

	if (range != NULL) {
		answer = json_object();
		range_fill(etcd, range, answer);
		json_array_append_new(responses, json_pack("{s:o}", "response_range", answer));
		return true;
	}
	key = json_string_value(json_object_get(put != NULL ? put : deletion, "key"));
	/* A key that this transaction has changed already. */
	for (uint32_t i = etcd->change_count;
	     i-- > 0 && etcd->changes[i].revision > etcd->revision;)
		if (strcmp(etcd->changes[i].key, key) == 0)
			return false;
	if (put == NULL) {
		if (key_at(etcd, key, UINT64_MAX) != NULL)
			change_add(etcd, key, NULL);
		return true;
	}
	value = json_string_value(json_object_get(put, "value"));
	if (json_is_true(json_object_get(put, "ignore_value"))) {
		const struct fake_change *now = key_at(etcd, key, UINT64_MAX);

		if (now == NULL)
			return false;
		value = now->value;
	}
	change_add(etcd, key, value == NULL ? "" : value);
	return true;
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
	bool has_succeeded = true, is_good = true;

	for (size_t i = 0; i < json_array_size(compares); i++)
		has_succeeded &= compare_holds(etcd, json_array_get(compares, i));
	ops = json_object_get(request, has_succeeded ? "success" : "failure");
	if (etcd->is_full && txn_is_change(ops)) {
		json_decref(responses);
		return fake_etcd_error(429, 8, "etcdserver: mvcc: database space exceeded",
		    ret_text);
	}
	for (size_t i = 0; i < json_array_size(ops); i++)
		is_good &= txn_op(etcd, json_array_get(ops, i), responses);
	if (!is_good) {
		while (etcd->change_count > old_count) {
			free(etcd->changes[--etcd->change_count].key);
			free(etcd->changes[etcd->change_count].value);
		}
		json_decref(responses);
		return fake_etcd_error(400, 3, "etcdserver: duplicate key given in txn request",
		    ret_text);
	}
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

uint32_t
fake_etcd_check_token(struct fake_etcd *etcd, const char *token, char **ret_text)
{
	char good[32];

	(void)snprintf(good, sizeof(good), "token.%u", etcd->token);
	if (etcd->user == NULL || (token != NULL && strcmp(token, good) == 0))
		return 0;
	if (token == NULL)
		return fake_etcd_error(400, 3, "etcdserver: user name is empty", ret_text);
	return fake_etcd_error(401, 16, "etcdserver: invalid auth token", ret_text);
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
	if (etcd->members[member].is_no_etcd) {
		*ret_text = strdup("<html><body>It works!</body></html>");
		status = 404;
	} else if (strcmp(path, "/v3/auth/authenticate") == 0) {
		status = answer_authenticate(etcd, member, request, ret_text);
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
fake_etcd_expire_tokens(struct fake_etcd *etcd)
{
	etcd->token++;
}

void
fake_etcd_compact(struct fake_etcd *etcd)
{
	etcd->compacted = etcd->revision;
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
