/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_key.c -- the keys "keys/NNNNNNNNNN", as the store has them
 *
 *	{"format":1,"volume":7,"kek":"default","wrapped":"AbC...=","state":"active"}
 *
 * A value that cannot be read gives no key: what was encrypted with it is not served, and nothing else follows.
 */
#include "catalog/data_key.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "cleave/meta.h"
#include "common/alloc.h"

#define DATA_KEY_FORMAT 1u
#define KEK_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
#define WRAPPED_TEXT_BYTES (4u * ((MT_WRAPPED_BYTES_MAX + 2u) / 3u))

static const char *const state_names[MT_DATA_KEY_STATE_NR] = {
	[MT_DATA_KEY_ACTIVE] = "active",
	[MT_DATA_KEY_RETIRING] = "retiring",
};

const char *
mt_kek_name_check(const char *name)
{
	size_t bytes = strlen(name);

	if (bytes == 0 || bytes >= MT_KEK_NAME_BYTES)
		return "must have 1 to 63 characters";
	if (strspn(name, KEK_NAME_CHARS) != bytes)
		return "may hold letters, digits, '.', '_' and '-' alone";
	return NULL;
}

const char *
mt_data_key_state_name(enum mt_data_key_state state)
{
	assert(state < MT_DATA_KEY_STATE_NR);
	return state_names[state];
}

void
mt_data_key_key(uint64_t id, char ret_key[MT_DATA_KEY_KEY_BYTES])
{
	assert(id != 0 && id <= UINT32_MAX);
	(void)snprintf(ret_key, MT_DATA_KEY_KEY_BYTES, MT_DATA_KEY_PREFIX "%010" PRIu64, id);
}

/* ---- encode ---- */

/* The wrapped bytes in base64. False: no memory. */
static bool
wrapped_text(const struct mt_data_key *data_key, char ret_text[WRAPPED_TEXT_BYTES + 1])
{
	const gnutls_datum_t bytes = { .data = (unsigned char *)data_key->wrapped,
		.size = data_key->wrapped_bytes };
	gnutls_datum_t text;

	assert(data_key->wrapped_bytes >= 1 && data_key->wrapped_bytes <= MT_WRAPPED_BYTES_MAX);
	if (gnutls_base64_encode2(&bytes, &text) < 0)
		return false;
	assert(text.size <= WRAPPED_TEXT_BYTES);
	memcpy(ret_text, text.data, text.size);
	ret_text[text.size] = '\0';
	gnutls_free(text.data);
	return true;
}

char *
mt_data_key_encode(const struct mt_data_key *data_key)
{
	char wrapped[WRAPPED_TEXT_BYTES + 1], *text;
	json_t *object;

	assert(data_key->id != 0 && data_key->volume != 0);
	if (!wrapped_text(data_key, wrapped))
		return NULL;
	object = json_pack("{s:i, s:I, s:s, s:s, s:s}", "format", (int)DATA_KEY_FORMAT, "volume",
	    (json_int_t)data_key->volume, "kek", data_key->kek, "wrapped", wrapped, "state",
	    mt_data_key_state_name(data_key->state));
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

/* Ten digits, and nothing else. 0: they are none, or no id. */
static uint64_t
id_parse(const char *digits)
{
	uint64_t id;

	if (strlen(digits) != MT_DATA_KEY_DIGITS ||
	    strspn(digits, "0123456789") != MT_DATA_KEY_DIGITS)
		return 0;
	id = strtoull(digits, NULL, 10);
	return id <= UINT32_MAX ? id : 0;
}

/* A value has one text: what encodes to another one is refused. 0; -EINVAL; -ENOMEM. */
static int
wrapped_parse(const char *text, struct mt_data_key *data_key)
{
	const gnutls_datum_t in = { .data = (unsigned char *)(uintptr_t)text,
		.size = (unsigned)strlen(text) };
	char again[WRAPPED_TEXT_BYTES + 1];
	gnutls_datum_t out;
	int rc;

	if (in.size == 0 || in.size > WRAPPED_TEXT_BYTES)
		return -EINVAL;
	rc = gnutls_base64_decode2(&in, &out);
	if (rc < 0)
		return rc == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
	rc = out.size >= 1 && out.size <= MT_WRAPPED_BYTES_MAX ? 0 : -EINVAL;
	if (rc == 0) {
		memcpy(data_key->wrapped, out.data, out.size);
		data_key->wrapped_bytes = out.size;
		rc = wrapped_text(data_key, again) ? 0 : -ENOMEM;
	}
	gnutls_free(out.data);
	if (rc == 0 && strcmp(again, text) != 0)
		rc = -EINVAL;
	return rc;
}

static const char *
state_parse(const char *name, enum mt_data_key_state *ret_state)
{
	for (uint32_t i = 0; i < MT_DATA_KEY_STATE_NR; i++) {
		if (strcmp(name, state_names[i]) == 0) {
			*ret_state = (enum mt_data_key_state)i;
			return NULL;
		}
	}
	return "state: must be active or retiring";
}

int
mt_data_key_decode(const char *key, const void *value, uint32_t bytes,
    struct mt_data_key *ret_data_key, const char **ret_field)
{
	struct mt_data_key data_key = { .version = ret_data_key->version };
	const char *kek = "", *wrapped = "", *state = "", *problem = NULL;
	uint64_t format = 0;
	const struct reader_member members[] = {
		{ "format", READER_U64, true, DATA_KEY_FORMAT, DATA_KEY_FORMAT,
		    { .u64 = &format } },
		{ "volume", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &data_key.volume } },
		{ "kek", READER_TEXT, true, 0, MT_KEK_NAME_BYTES - 1, { .text = &kek } },
		{ "wrapped", READER_TEXT, true, 0, WRAPPED_TEXT_BYTES, { .text = &wrapped } },
		{ "state", READER_TEXT, true, 0, 0, { .text = &state } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	assert(strncmp(key, MT_DATA_KEY_PREFIX, strlen(MT_DATA_KEY_PREFIX)) == 0);
	if (rc == 0) {
		data_key.id = id_parse(key + strlen(MT_DATA_KEY_PREFIX));
		problem = state_parse(state, &data_key.state);
		if (mt_kek_name_check(kek) != NULL)
			problem = "kek: must be a KEK's name";
		(void)snprintf(data_key.kek, sizeof(data_key.kek), "%s", kek);
		rc = wrapped_parse(wrapped, &data_key);
		if (rc == -EINVAL)
			problem = "wrapped: must be up to 512 bytes in base64";
		if (data_key.id == 0)
			problem = "its key ends in no key's id, ten digits";
	}
	json_decref(object);
	if (problem != NULL && rc != -ENOMEM) {
		*ret_field = problem;
		rc = -EINVAL;
	}
	if (rc == 0)
		*ret_data_key = data_key;
	return rc;
}

/* ---- all of them ---- */

int
mt_data_key_table_read(const struct meta_item *items, uint32_t count,
    struct mt_data_key_table *ret_table, uint32_t *ret_bad)
{
	struct mt_data_key_table table = { .max = (uint32_t)num_min(count, MT_DATA_KEYS_MAX) };

	assert(ret_table->entries == NULL);
	*ret_bad = count - table.max;
	if (table.max > 0)
		table.entries = mt_calloc(table.max, sizeof(*table.entries));
	if (table.max > 0 && table.entries == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table.max; i++) {
		struct mt_data_key *data_key = &table.entries[table.count];
		const char *field;
		int rc;

		data_key->version = items[i].version;
		rc = mt_data_key_decode(items[i].key, items[i].value, items[i].value_bytes,
		    data_key, &field);
		if (rc == -ENOMEM) {
			mt_data_key_table_fini(&table);
			return rc;
		}
		if (rc != 0 && (*ret_bad)++ == 0)
			log_limited(LOG_ERROR,
			    "keys: unreadable in the metadata store, what it encrypts is not "
			    "served key=%.64s field=\"%s\"",
			    items[i].key, field);
		table.count += rc == 0;
	}
	*ret_table = table;
	return 0;
}

static int
id_compare(const void *id, const void *data_key)
{
	uint64_t wanted = *(const uint64_t *)id;
	uint64_t have = ((const struct mt_data_key *)data_key)->id;

	return wanted < have ? -1 : wanted > have;
}

const struct mt_data_key *
mt_data_key_table_find(const struct mt_data_key_table *table, uint64_t id)
{
	assert(table->count <= table->max);
	return table->count == 0
	    ? NULL
	    : bsearch(&id, table->entries, table->count, sizeof(*table->entries), id_compare);
}

void
mt_data_key_table_fini(struct mt_data_key_table *table)
{
	mt_free(table->entries);
	*table = (struct mt_data_key_table){ 0 };
}
