/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c -- see dump.h */
#include "move/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/reader.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "meta/etcd_json.h"
#include "meta/meta_txn.h"

#define DUMP_FORMAT 1
#define DUMP_KEYS_MAX (UINT64_C(1) << 24)
/* A value in base64, the key, and what stands around them. */
#define DUMP_LINE_BYTES_MAX (8u * (META_VALUE_BYTES_MAX + META_KEY_BYTES_MAX))

/* ---- writing ---- */

/* Takes @object. NULL: no memory. */
static int
dump_add_line(struct etcd_text *text, json_t *object)
{
	char *line = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	json_decref(object);
	if (line == NULL)
		return -ENOMEM;
	etcd_text_add(text, line);
	etcd_text_add(text, "\n");
	free(line);
	return text->has_failed ? -ENOMEM : 0;
}

static int
dump_add_head(struct etcd_text *text, const struct mt_keys *keys, const struct mt_cluster *cluster,
    uint64_t written_s)
{
	char cluster_id[17], store_id[STORE_ID_TEXT_BYTES];
	json_t *gateways = json_array();
	uint32_t count = 0;

	assert(keys->count > 0);
	(void)snprintf(cluster_id, sizeof(cluster_id), "%016" PRIx64, cluster->cluster_id);
	store_id_text(&cluster->store_id, store_id);
	for (uint32_t i = 0; i < keys->count; i++) {
		const char *key = keys->items[i].key;

		if (meta_key_is_leased(key))
			(void)json_array_append_new(gateways,
			    json_string(key + strlen(META_LEASED_PREFIX))); /* for people */
		else
			count++;
	}
	return dump_add_line(text,
	    json_pack("{s:i, s:s, s:s, s:I, s:I, s:o}", "cleave_store", DUMP_FORMAT, "cluster_id",
		cluster_id, "store_id", store_id, "written_s", (json_int_t)written_s, "keys",
		(json_int_t)count, "gateways", gateways));
}

static int
dump_add_key(struct etcd_text *text, const struct mt_key *key)
{
	json_t *value = memchr(key->value, '\0', key->value_bytes) != NULL
	    ? NULL
	    : json_stringn(key->value, key->value_bytes); /* NULL: no UTF-8 */
	struct etcd_text encoded = { 0 };
	json_t *object;

	assert(!meta_key_is_leased(key->key));
	assert(key->value_bytes <= META_VALUE_BYTES_MAX);
	if (value != NULL)
		return dump_add_line(text,
		    json_pack("{s:s, s:o}", "key", key->key, "value", value));
	etcd_text_base64(&encoded, NULL, 0, key->value, key->value_bytes);
	/* In quotes, as JSON has it. */
	object = encoded.has_failed ? NULL
				    : json_pack("{s:s, s:s%}", "key", key->key, "base64",
					  encoded.bytes + 1, encoded.count - 2);
	etcd_text_fini(&encoded);
	return dump_add_line(text, object);
}

int
mt_dump_encode(const struct mt_keys *keys, const struct mt_cluster *cluster, uint64_t written_s,
    struct etcd_text *ret_text)
{
	char crc[9];
	uint32_t count = 0;
	int rc;

	assert(keys->count > 0);
	assert(ret_text->count == 0 && !ret_text->has_failed); /* its checksum is of all bytes */
	rc = dump_add_head(ret_text, keys, cluster, written_s);
	for (uint32_t i = 0; i < keys->count && rc == 0; i++) {
		if (meta_key_is_leased(keys->items[i].key))
			continue;
		rc = dump_add_key(ret_text, &keys->items[i]);
		count++;
	}
	if (rc != 0)
		return rc;
	(void)snprintf(crc, sizeof(crc), "%08" PRIx32, crc32c(0, ret_text->bytes, ret_text->count));
	return dump_add_line(ret_text,
	    json_pack("{s:I, s:s}", "end", (json_int_t)count, "crc32c", crc));
}

/* ---- reading ---- */

struct dump_reader {
	const char *text; /* what is left of it */
	size_t bytes;
	uint32_t crc; /* of all lines before the last that was taken */
	uint64_t line;
	struct mt_keys *keys;
	uint64_t key_count; /* that the head tells */
	uint64_t cluster_id;
	char store_id[STORE_ID_TEXT_BYTES];
	char *error;
	size_t error_bytes;
};

/* -EBADMSG, always. */
static int __attribute__((format(printf, 2, 3)))
dump_refuse(struct dump_reader *reader, const char *format, ...)
{
	va_list args;
	int bytes;

	assert(reader->error_bytes > 0);
	bytes = snprintf(reader->error, reader->error_bytes, "line %" PRIu64 ": ", reader->line);
	va_start(args, format);
	if (bytes > 0 && (size_t)bytes < reader->error_bytes)
		(void)vsnprintf(reader->error + bytes, reader->error_bytes - (size_t)bytes, format,
		    args); /* cut where too long */
	va_end(args);
	return -EBADMSG;
}

/* The next line's object, which is the caller's; NULL: refused. */
static json_t *
dump_next(struct dump_reader *reader, size_t *ret_line_bytes)
{
	const char *end = reader->bytes == 0 ? NULL : memchr(reader->text, '\n', reader->bytes);
	json_t *object;

	assert(reader->text != NULL || reader->bytes == 0);
	reader->line++;
	if (end == NULL) {
		(void)dump_refuse(reader, "the dump is cut off here: its last line is not there");
		return NULL;
	}
	*ret_line_bytes = (size_t)(end - reader->text) + 1;
	object = *ret_line_bytes > DUMP_LINE_BYTES_MAX
	    ? NULL
	    : json_loadb(reader->text, *ret_line_bytes - 1, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(object)) {
		(void)dump_refuse(reader, "not a line of a dump");
		json_decref(object);
		return NULL;
	}
	return object;
}

static void
dump_take(struct dump_reader *reader, size_t line_bytes)
{
	assert(line_bytes <= reader->bytes);
	assert(line_bytes > 0);
	reader->crc = crc32c(reader->crc, reader->text, line_bytes);
	reader->text += line_bytes;
	reader->bytes -= line_bytes;
}

static int
dump_read_head(struct dump_reader *reader, const json_t *object)
{
	struct reader members = { 0 };
	char text[READER_ERROR_BYTES];

	assert(reader->line == 1);
	(void)reader_range(&members, object, "cleave_store", DUMP_FORMAT, DUMP_FORMAT);
	reader->cluster_id = reader_id(&members, object, "cluster_id");
	reader_text(&members, object, "store_id", reader->store_id, sizeof(reader->store_id));
	reader->key_count = reader_range(&members, object, "keys", 1, DUMP_KEYS_MAX);
	if (reader_rc(&members) == 0)
		return 0;
	reader_say(&members, text);
	return dump_refuse(reader, "no head of a dump that this release can read: %s", text);
}

static int
dump_add(struct dump_reader *reader, const char *key, const char *value, size_t value_bytes)
{
	const struct mt_keys *keys = reader->keys;

	assert(reader->line > 1); /* behind the head */
	if (!meta_key_is_valid(key) || meta_key_is_leased(key))
		return dump_refuse(reader, "no key that a dump may have");
	if (keys->count > 0 && strcmp(keys->items[keys->count - 1].key, key) >= 0)
		return dump_refuse(reader, "not behind the key before it");
	if (value_bytes > META_VALUE_BYTES_MAX)
		return dump_refuse(reader, "a value has at most %u bytes", META_VALUE_BYTES_MAX);
	return mt_keys_add(reader->keys, key, value, (uint32_t)value_bytes, 0);
}

static int
dump_read_base64(struct dump_reader *reader, const char *key, const char *text)
{
	size_t chars = strlen(text);
	uint8_t *bytes = mt_calloc(1, chars + 1);
	int64_t count;
	int rc = -ENOMEM;

	assert(reader->line > 1);
	if (bytes != NULL) {
		count = etcd_base64_decode(text, chars, bytes);
		rc = count < 0 ? dump_refuse(reader, "base64: it is none")
			       : dump_add(reader, key, (const char *)bytes, (size_t)count);
	}
	mt_free(bytes);
	return rc;
}

static int
dump_read_key(struct dump_reader *reader, json_t *object)
{
	const char *key = NULL, *value = NULL, *base64 = NULL;
	const struct reader_member members[] = {
		{ "key", READER_TEXT, true, 0, 0, { .text = &key } },
		{ "value", READER_TEXT, false, 0, 0, { .text = &value } },
		{ "base64", READER_TEXT, false, 0, 0, { .text = &base64 } },
	};
	char text[READER_ERROR_BYTES];

	assert(reader->line > 1);
	if (reader_strict(object, members, NUM_COUNT(members), text) != 0)
		return dump_refuse(reader, "%s", text);
	if ((value == NULL) == (base64 == NULL))
		return dump_refuse(reader, "a key has a value, or base64");
	return value != NULL ? dump_add(reader, key, value, strlen(value))
			     : dump_read_base64(reader, key, base64);
}

static int
dump_read_end(struct dump_reader *reader, json_t *object)
{
	uint64_t count = 0;
	const char *crc = "";
	const struct reader_member members[] = {
		{ "end", READER_U64, true, 0, DUMP_KEYS_MAX, { .u64 = &count } },
		{ "crc32c", READER_TEXT, true, 0, 8, { .text = &crc } },
	};
	char text[READER_ERROR_BYTES], wanted[9];

	assert(reader->line > 1);
	(void)snprintf(wanted, sizeof(wanted), "%08" PRIx32, reader->crc);
	if (reader_strict(object, members, NUM_COUNT(members), text) != 0)
		return dump_refuse(reader, "%s", text);
	if (count != reader->key_count || count != reader->keys->count)
		return dump_refuse(reader,
		    "%" PRIu64 " keys were written, and %" PRIu32 " are here: lines are missing",
		    count, reader->keys->count);
	if (strcmp(crc, wanted) != 0)
		return dump_refuse(reader, "the dump was changed: its checksum is %s, not %s",
		    wanted, crc);
	return 0;
}

/* The dump is of one store: the key "cluster" is there, and is the head's. */
static int
dump_check(struct dump_reader *reader, struct mt_cluster *ret_cluster)
{
	const struct mt_key *key = mt_keys_find(reader->keys, "cluster");
	char store_id[STORE_ID_TEXT_BYTES];
	const char *field = "it is missing";

	assert(reader->line > 0);
	if (reader->bytes > 0)
		return dump_refuse(reader, "something follows the last line");
	if (key == NULL ||
	    mt_cluster_decode(key->value, key->value_bytes, ret_cluster, &field) != 0)
		return dump_refuse(reader, "the key cluster cannot be understood: %s", field);
	store_id_text(&ret_cluster->store_id, store_id);
	if (ret_cluster->cluster_id != reader->cluster_id ||
	    strcmp(store_id, reader->store_id) != 0)
		return dump_refuse(reader, "the head and the key cluster differ");
	return 0;
}

int
mt_dump_decode(const char *text, size_t bytes, struct mt_keys *ret_keys,
    struct mt_cluster *ret_cluster, char *ret_error, size_t error_bytes)
{
	struct dump_reader reader = { .text = text,
		.bytes = bytes,
		.keys = ret_keys,
		.error = ret_error,
		.error_bytes = error_bytes };
	bool is_end = false;
	int rc = 0;

	assert(ret_keys->count == 0);
	assert(error_bytes > 0);
	while (rc == 0 && !is_end) {
		size_t line_bytes;
		json_t *object = dump_next(&reader, &line_bytes);

		if (object == NULL)
			return -EBADMSG;
		is_end = json_object_get(object, "end") != NULL;
		if (reader.line == 1)
			rc = dump_read_head(&reader, object);
		else if (is_end)
			rc = dump_read_end(&reader, object);
		else
			rc = dump_read_key(&reader, object);
		json_decref(object);
		dump_take(&reader, line_bytes);
	}
	return rc != 0 ? rc : dump_check(&reader, ret_cluster);
}
