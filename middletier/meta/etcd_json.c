/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_json.c -- requests to etcd's JSON gateway written, and its answers read; see etcd_json.h
 *
 * Requests are written as text, since they have but a few shapes. Answers are read by jansson; what they have
 * beyond what is asked for here is ignored: they are another program's, which grows.
 */
#include "meta/etcd_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "common/alloc.h"

#define TEXT_BYTES_FIRST 512u

/* ---- text ---- */

static bool
text_reserve(struct etcd_text *text, size_t more)
{
	size_t wanted = text->count + more + 1, capacity = text->capacity;
	char *bytes;

	assert(more < SIZE_MAX - text->count);
	if (text->has_failed)
		return false;
	if (wanted <= capacity)
		return true;
	if (capacity == 0)
		capacity = TEXT_BYTES_FIRST;
	while (capacity < wanted)
		capacity *= 2;
	bytes = mt_realloc(text->bytes, capacity);
	if (bytes == NULL) {
		text->has_failed = true;
		return false;
	}
	text->bytes = bytes;
	text->capacity = capacity;
	return true;
}

bool
etcd_text_append(struct etcd_text *text, const char *bytes, size_t count)
{
	assert(text->capacity == 0 || text->count < text->capacity);
	if (!text_reserve(text, count))
		return false;
	memcpy(text->bytes + text->count, bytes, count);
	text->count += count;
	text->bytes[text->count] = '\0';
	return true;
}

void
etcd_text_add(struct etcd_text *text, const char *piece)
{
	assert(piece != NULL);
	(void)etcd_text_append(text, piece, strlen(piece));
}

static void
text_number(struct etcd_text *text, uint64_t number)
{
	char digits[32];

	(void)snprintf(digits, sizeof(digits), "\"%" PRIu64 "\"", number);
	etcd_text_add(text, digits);
}

static const char base64_chars[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

struct base64_source {
	const uint8_t *head, *bytes;
	size_t head_bytes, count;
};

static uint32_t
base64_byte(const struct base64_source *source, size_t at)
{
	if (at < source->head_bytes)
		return source->head[at];
	at -= source->head_bytes;
	return at < source->count ? source->bytes[at] : 0;
}

void
etcd_text_base64(struct etcd_text *text, const void *head, size_t head_bytes, const void *bytes,
    size_t count)
{
	const struct base64_source source = { head, bytes, head_bytes, count };
	size_t total = head_bytes + count;
	char *out;

	assert(head != NULL || head_bytes == 0);
	assert(bytes != NULL || count == 0);
	if (!text_reserve(text, (total + 2) / 3 * 4 + 2))
		return;
	out = text->bytes + text->count;
	*out++ = '"';
	for (size_t i = 0; i < total; i += 3) {
		uint32_t three = base64_byte(&source, i) << 16 | base64_byte(&source, i + 1) << 8 |
		    base64_byte(&source, i + 2);

		*out++ = base64_chars[three >> 18];
		*out++ = base64_chars[three >> 12 & 63];
		*out++ = i + 1 < total ? base64_chars[three >> 6 & 63] : '=';
		*out++ = i + 2 < total ? base64_chars[three & 63] : '=';
	}
	*out++ = '"';
	*out = '\0';
	text->count = (size_t)(out - text->bytes);
	assert(text->count < text->capacity);
}

void
etcd_text_string(struct etcd_text *text, const char *string)
{
	assert(string != NULL);
	etcd_text_add(text, "\"");
	for (; *string != '\0'; string++) {
		char piece[8] = { *string, '\0' };

		if ((unsigned char)*string < 0x20 || *string == '"' || *string == '\\')
			(void)snprintf(piece, sizeof(piece), "\\u%04x", (unsigned char)*string);
		etcd_text_add(text, piece);
	}
	etcd_text_add(text, "\"");
}

void
etcd_text_fini(struct etcd_text *text)
{
	assert((text->bytes == NULL) == (text->capacity == 0));
	mt_free(text->bytes);
	*text = (struct etcd_text){ 0 };
}

/* ---- requests ---- */

static void
json_key(struct etcd_text *text, const char *key)
{
	assert(key[0] != '\0');
	assert(strlen(key) < ETCD_KEY_BYTES_MAX);
	etcd_text_add(text, "\"key\":");
	etcd_text_base64(text, NULL, 0, key, strlen(key));
}

void
etcd_json_range_end(struct etcd_text *text, const char *prefix)
{
	char end[ETCD_KEY_BYTES_MAX];
	size_t count = strlen(prefix);

	assert(count > 0);
	assert(count < sizeof(end));
	memcpy(end, prefix, count + 1);
	/* A path is in front of each key: so this ends before the first byte. */
	while (count > 1 && (unsigned char)end[count - 1] == 0xff)
		count--;
	end[count - 1] = (char)((unsigned char)end[count - 1] + 1);
	etcd_text_add(text, "\"range_end\":");
	etcd_text_base64(text, NULL, 0, end, count);
}

void
etcd_json_range(struct etcd_text *text, const char *key, bool is_prefix)
{
	json_key(text, key);
	if (!is_prefix)
		return;
	etcd_text_add(text, ",");
	etcd_json_range_end(text, key);
}

void
etcd_json_txn_begin(struct etcd_text *text)
{
	assert(text->count == 0);
	etcd_text_add(text, "{\"compare\":[");
	text->needs_comma = false;
}

void
etcd_json_txn_then(struct etcd_text *text)
{
	assert(text->count > 0 || text->has_failed);
	etcd_text_add(text, "],\"success\":[");
	text->needs_comma = false;
}

void
etcd_json_txn_else(struct etcd_text *text)
{
	assert(text->count > 0 || text->has_failed);
	etcd_text_add(text, "],\"failure\":[");
	text->needs_comma = false;
}

void
etcd_json_txn_end(struct etcd_text *text)
{
	assert(text->count > 0 || text->has_failed);
	etcd_text_add(text, "]}");
}

static void
json_element(struct etcd_text *text, const char *opening)
{
	assert(text->count > 0 || text->has_failed);
	if (text->needs_comma)
		etcd_text_add(text, ",");
	text->needs_comma = true;
	etcd_text_add(text, opening);
}

/* @opening: a compare of @key with @number, up to that. */
static void
json_compare(struct etcd_text *text, const char *opening, uint64_t number, const char *key)
{
	assert(number <= INT64_MAX);
	json_element(text, opening);
	text_number(text, number);
	etcd_text_add(text, ",");
	json_key(text, key);
	etcd_text_add(text, "}");
}

void
etcd_json_compare_revision(struct etcd_text *text, const char *key, uint64_t mod_revision)
{
	assert(mod_revision <= ETCD_REVISION_MAX);
	json_compare(text,
	    "{\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":", mod_revision, key);
}

void
etcd_json_compare_version(struct etcd_text *text, const char *key, uint64_t version)
{
	json_compare(text, "{\"target\":\"VERSION\",\"result\":\"EQUAL\",\"version\":", version,
	    key);
}

void
etcd_json_compare_exists(struct etcd_text *text, const char *key)
{
	json_element(text, "{\"target\":\"VERSION\",\"result\":\"GREATER\",\"version\":\"0\",");
	json_key(text, key);
	etcd_text_add(text, "}");
}

void
etcd_json_put(struct etcd_text *text, const char *key, const void *head, size_t head_bytes,
    const void *value, size_t value_bytes)
{
	json_element(text, "{\"request_put\":{");
	json_key(text, key);
	etcd_text_add(text, ",\"value\":");
	etcd_text_base64(text, head, head_bytes, value, value_bytes);
	etcd_text_add(text, "}}");
}

void
etcd_json_touch(struct etcd_text *text, const char *key)
{
	json_element(text, "{\"request_put\":{");
	json_key(text, key);
	etcd_text_add(text, ",\"ignore_value\":true}}");
}

void
etcd_json_delete(struct etcd_text *text, const char *key)
{
	json_element(text, "{\"request_delete_range\":{");
	json_key(text, key);
	etcd_text_add(text, "}}");
}

void
etcd_json_get(struct etcd_text *text, const char *key, bool is_prefix, bool wants_values)
{
	json_element(text, "{\"request_range\":{");
	etcd_json_range(text, key, is_prefix);
	etcd_text_add(text, wants_values ? "}}" : ",\"keys_only\":true}}");
}

/* ---- answers ---- */

static int
base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int64_t
etcd_base64_decode(const char *text, size_t chars, uint8_t *out)
{
	uint8_t *at = out;
	size_t padding = 0;

	assert(text != NULL || chars == 0);
	if (chars % 4 != 0)
		return -1;
	while (padding < 2 && chars > padding && text[chars - padding - 1] == '=')
		padding++;
	for (size_t i = 0; i < chars; i += 4) {
		size_t present = i + 4 < chars ? 4 : 4 - padding;
		uint32_t three = 0;

		for (size_t k = 0; k < 4; k++) {
			int value = k < present ? base64_value(text[i + k]) : 0;

			if (value < 0)
				return -1;
			three = three << 6 | (uint32_t)value;
		}
		for (size_t k = 0; k + 1 < present; k++)
			*at++ = (uint8_t)(three >> (16 - 8 * k));
	}
	assert((size_t)(at - out) <= chars / 4 * 3);
	return at - out;
}

/* A member that is a number, or the text of one; absent: 0. False: something else. */
static bool
json_u64(const json_t *object, const char *name, uint64_t *ret_number)
{
	const json_t *member = json_object_get(object, name);
	const char *text = json_string_value(member);
	uint64_t number = 0;

	*ret_number = 0;
	if (member == NULL || json_is_null(member))
		return true;
	if (json_is_integer(member) && json_integer_value(member) >= 0) {
		*ret_number = (uint64_t)json_integer_value(member);
		return true;
	}
	if (text == NULL || text[0] == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		if (__builtin_mul_overflow(number, 10u, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
			return false;
	}
	*ret_number = number;
	return true;
}

/* A revision or a version of etcd: an int64, and never below 0; one too large is no etcd's. */
static bool
json_i64(const json_t *object, const char *name, uint64_t *ret_number)
{
	return json_u64(object, name, ret_number) && *ret_number <= ETCD_REVISION_MAX;
}

/* Where decoded keys and values go: as much room as the JSON had bytes, which suffices. */
struct decoder {
	struct etcd_answer *answer;
	uint32_t kv_capacity;
	char *at, *end;
};

static bool
decode_bytes(struct decoder *decoder, const json_t *object, const char *name,
    const char **ret_bytes, uint32_t *ret_count)
{
	const json_t *member = json_object_get(object, name);
	int64_t count = 0;

	*ret_bytes = decoder->at;
	*ret_count = 0;
	if (member != NULL && !json_is_string(member))
		return false;
	if (member != NULL) {
		assert(json_string_length(member) < (size_t)(decoder->end - decoder->at));
		count = etcd_base64_decode(json_string_value(member), json_string_length(member),
		    (uint8_t *)decoder->at);
	}
	if (count < 0 || count > UINT32_MAX)
		return false;
	decoder->at += count;
	assert(decoder->at < decoder->end);
	*decoder->at++ = '\0';
	*ret_count = (uint32_t)count;
	return true;
}

static bool
decode_kv(struct decoder *decoder, const json_t *object, bool is_deleted)
{
	struct etcd_kv *kv = &decoder->answer->kvs[decoder->answer->kv_count];

	assert(decoder->answer->kv_count < decoder->kv_capacity);
	kv->is_deleted = is_deleted;
	if (!json_is_object(object) ||
	    !decode_bytes(decoder, object, "key", &kv->key, &kv->key_bytes) ||
	    !decode_bytes(decoder, object, "value", &kv->value, &kv->value_bytes) ||
	    !json_i64(object, "mod_revision", &kv->mod_revision) ||
	    !json_i64(object, "version", &kv->version))
		return false;
	decoder->answer->kv_count++;
	return true;
}

static bool
decode_kvs(struct decoder *decoder, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!decode_kv(decoder, json_array_get(array, i), false))
			return false;
	return true;
}

static bool
decode_event(struct decoder *decoder, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	return decode_kv(decoder, json_object_get(event, "kv"),
	    type != NULL && strcmp(type, "DELETE") == 0);
}

static size_t
kvs_count(const json_t *result)
{
	const json_t *responses = json_object_get(result, "responses");
	size_t count = json_array_size(json_object_get(result, "kvs")) +
	    json_array_size(json_object_get(result, "events"));

	for (size_t i = 0; i < json_array_size(responses); i++)
		count += json_array_size(
		    json_object_get(json_object_get(json_array_get(responses, i), "response_range"),
			"kvs"));
	return count;
}

static int
decode_all_kvs(struct etcd_answer *answer, const json_t *result, size_t bytes)
{
	const json_t *events = json_object_get(result, "events");
	const json_t *responses = json_object_get(result, "responses");
	struct decoder decoder = { .answer = answer };
	size_t count = kvs_count(result);
	bool is_good;

	assert(answer->kvs == NULL);
	assert(answer->memory == NULL);
	assert(count <= bytes);
	if (count == 0)
		return 0;
	decoder.kv_capacity = (uint32_t)count;
	answer->kvs = mt_calloc(count, sizeof(*answer->kvs));
	/* Each has two NULs behind its bytes. */
	answer->memory = mt_calloc(1, bytes + 2 * count + 1);
	if (answer->kvs == NULL || answer->memory == NULL)
		return -ENOMEM;
	decoder.at = answer->memory;
	decoder.end = answer->memory + bytes + 2 * count + 1;
	is_good = decode_kvs(&decoder, json_object_get(result, "kvs"));
	for (size_t i = 0; is_good && i < json_array_size(events); i++)
		is_good = decode_event(&decoder, json_array_get(events, i));
	for (size_t i = 0; is_good && i < json_array_size(responses); i++)
		is_good = decode_kvs(&decoder,
		    json_object_get(json_object_get(json_array_get(responses, i), "response_range"),
			"kvs"));
	assert(!is_good || answer->kv_count == decoder.kv_capacity);
	return is_good ? 0 : -EBADMSG;
}

/* {"error":TEXT,"code":N} of a request, {"error":{"grpc_code":N,"message":TEXT}} of a stream. */
static int
decode_error(struct etcd_answer *answer, const json_t *root, const json_t *error)
{
	const json_t *object = json_is_object(error) ? error : root;
	const char *text = json_string_value(json_object_get(object, "message"));
	uint64_t code;

	assert(error != NULL);
	if (text == NULL)
		text = json_string_value(error);
	if (json_object_get(object, "grpc_code") != NULL) {
		if (!json_u64(object, "grpc_code", &code))
			return -EBADMSG;
	} else if (!json_u64(object, "code", &code)) {
		return -EBADMSG;
	}
	answer->is_error = true;
	answer->code = code > INT32_MAX ? INT32_MAX : (int32_t)code;
	answer->message = text == NULL ? "no reason was given" : text;
	return 0;
}

static int
decode_result(struct etcd_answer *answer, const json_t *result, size_t bytes)
{
	const json_t *header = json_object_get(result, "header");
	uint64_t leader;

	if (!json_u64(header, "cluster_id", &answer->cluster_id) ||
	    !json_i64(header, "revision", &answer->revision) ||
	    !json_i64(result, "compact_revision", &answer->compact_revision) ||
	    !json_u64(result, "dbSize", &answer->database_bytes) ||
	    !json_u64(result, "dbSizeQuota", &answer->quota_bytes) ||
	    !json_u64(result, "leader", &leader))
		return -EBADMSG;
	answer->has_leader = leader != 0;
	answer->has_succeeded = json_is_true(json_object_get(result, "succeeded"));
	answer->has_more = json_is_true(json_object_get(result, "more"));
	answer->is_created = json_is_true(json_object_get(result, "created"));
	answer->is_canceled = json_is_true(json_object_get(result, "canceled"));
	answer->token = json_string_value(json_object_get(result, "token"));
	if (answer->is_canceled) {
		answer->message = json_string_value(json_object_get(result, "cancel_reason"));
		if (answer->message == NULL)
			answer->message = "no reason was given";
	}
	return decode_all_kvs(answer, result, bytes);
}

int
etcd_answer_decode(const char *bytes, size_t count, struct etcd_answer *ret_answer)
{
	struct etcd_answer answer = { 0 };
	json_error_t why;
	json_t *root = json_loadb(bytes, count, 0, &why);
	const json_t *error = json_object_get(root, "error");
	const json_t *result = json_object_get(root, "result");
	int rc;

	assert(bytes != NULL || count == 0);
	*ret_answer = (struct etcd_answer){ 0 };
	if (root == NULL)
		return json_error_code(&why) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
	answer.root = root;
	if (error != NULL)
		rc = decode_error(&answer, root, error);
	else
		rc = decode_result(&answer, result != NULL ? result : root, count);
	/* An answer of etcd has a header, or is an error. */
	if (rc == 0 && !answer.is_error && answer.cluster_id == 0)
		rc = -EBADMSG;
	if (rc != 0) {
		etcd_answer_fini(&answer);
		return rc;
	}
	*ret_answer = answer;
	return 0;
}

void
etcd_answer_fini(struct etcd_answer *answer)
{
	assert(answer->kv_count == 0 || answer->kvs != NULL);
	mt_free(answer->kvs);
	mt_free(answer->memory);
	json_decref(answer->root);
	*answer = (struct etcd_answer){ 0 };
}

const struct etcd_kv *
etcd_answer_find(const struct etcd_answer *answer, const char *key)
{
	assert(answer->kv_count == 0 || answer->kvs != NULL);
	for (uint32_t i = 0; i < answer->kv_count; i++)
		if (strcmp(answer->kvs[i].key, key) == 0)
			return &answer->kvs[i];
	return NULL;
}
