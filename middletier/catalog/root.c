/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.c -- a shard's root key, "shards/NNNNN": JSON that a person can read
 *
 *	{"format":1,"epoch":7,"gateway":"00c0ffee00c0ffee","boot":"0123456789abcdef",
 *	 "port":"tcp://10.0.0.1:7100",
 *	 "manifest":{"epoch":7,"counter":1,"sealed_bytes":-1,
 *	  "replicas":[{"node":1,"incarnation":"000000000000002a","damaged":false}, ...]}}
 *
 * 64-bit names are 16 hex digits, because JSON's numbers are not that long. "manifest" is missing
 * until the shard has one, and then "empty":true is there where a recovery was forced to begin without; sealed_bytes is -1 while it takes edits. "released":true is there when its
 * owner has let go of it. What is not listed here is refused: a root that is not understood may not
 * be taken over.
 */
#include "catalog/root.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "common/root.h"

#define ROOT_FORMAT 1
#define ROOT_HEX_BYTES 17u

void
mt_root_key(char out[MT_ROOT_KEY_BYTES], uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	(void)snprintf(out, MT_ROOT_KEY_BYTES, MT_ROOT_PREFIX "%05" PRIu32, shard);
}

bool
mt_root_is_key(const char *key)
{
	const size_t bytes = strlen(MT_ROOT_PREFIX);

	assert(key != NULL);
	return strncmp(key, MT_ROOT_PREFIX, bytes) == 0 && key[bytes] >= '0' && key[bytes] <= '9';
}

/* ---- encode ---- */

static void
root_hex(char out[ROOT_HEX_BYTES], uint64_t value)
{
	(void)snprintf(out, ROOT_HEX_BYTES, "%016" PRIx64, value);
}

static json_t *
root_encode_replicas(const struct mt_root *root)
{
	json_t *replicas = json_array();

	assert(root->manifest_replica_count >= 1);
	assert(root->manifest_replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < root->manifest_replica_count; i++) {
		const struct mt_replica *replica = &root->manifest_replicas[i];
		char incarnation[ROOT_HEX_BYTES];
		json_t *object;

		root_hex(incarnation, replica->incarnation);
		object = json_pack("{s:I, s:s, s:b}", "node", (json_int_t)replica->node_id,
		    "incarnation", incarnation, "damaged", replica->is_damaged ? 1 : 0);
		if (json_array_append_new(replicas, object) != 0) {
			json_decref(replicas);
			return NULL;
		}
	}
	return replicas;
}

static json_t *
root_encode_manifest(const struct mt_root *root)
{
	uint64_t sealed_bytes = root->manifest_sealed_bytes;
	json_t *replicas = root_encode_replicas(root);

	assert(root->has_manifest);
	if (replicas == NULL)
		return NULL;
	/* "o" takes the reference, also when packing fails. */
	return json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)root->manifest.epoch,
	    "counter", (json_int_t)root->manifest.counter, "sealed_bytes",
	    sealed_bytes == MT_ROOT_OPEN ? (json_int_t)-1 : (json_int_t)sealed_bytes, "replicas",
	    replicas);
}

char *
mt_root_encode(const struct mt_root *root)
{
	char gateway[ROOT_HEX_BYTES], boot[ROOT_HEX_BYTES];
	json_t *object;
	char *text;

	assert(!root->has_manifest || root->manifest_replica_count > 0);
	assert(root->manifest_replica_count <= MT_REPLICAS_MAX);
	assert(root->epoch != 0);
	root_hex(gateway, root->gateway_id);
	root_hex(boot, root->boot_id);
	object = json_pack("{s:i, s:I, s:s, s:s, s:s}", "format", ROOT_FORMAT, "epoch",
	    (json_int_t)root->epoch, "gateway", gateway, "boot", boot, "port", root->port_address);
	if (object == NULL)
		return NULL;
	if ((root->is_released && json_object_set_new(object, "released", json_true()) != 0) ||
	    (root->has_manifest &&
		json_object_set_new(object, "manifest", root_encode_manifest(root)) != 0) ||
	    (!root->has_manifest && root->may_be_empty &&
		json_object_set_new(object, "empty", json_true()) != 0)) {
		json_decref(object);
		return NULL;
	}
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

static void
root_read_replica(struct reader *reader, const json_t *object, struct mt_replica *replica)
{
	if (!json_is_object(object) || json_object_size(object) != 3) {
		reader_fail(reader, "replicas");
		return;
	}
	replica->node_id = (uint32_t)reader_range(reader, object, "node", 1, UINT32_MAX);
	replica->incarnation = reader_id(reader, object, "incarnation");
	replica->is_damaged = reader_bool(reader, object, "damaged");
}

static void
root_read_replicas(struct reader *reader, const json_t *manifest, struct mt_root *root)
{
	const json_t *array = reader_array(reader, manifest, "replicas", 1, MT_REPLICAS_MAX);

	root->manifest_replica_count = (uint32_t)json_array_size(array);
	for (uint32_t i = 0; i < root->manifest_replica_count; i++) {
		struct mt_replica *replica = &root->manifest_replicas[i];

		root_read_replica(reader, json_array_get(array, i), replica);
		for (uint32_t k = 0; k < i; k++) {
			if (root->manifest_replicas[k].node_id == replica->node_id)
				reader_fail(reader, "node");
		}
	}
}

static void
root_read_manifest(struct reader *reader, const json_t *object, uint32_t shard,
    struct mt_root *root)
{
	const json_t *sealed = json_object_get(object, "sealed_bytes");

	assert(shard < CLEAVE_SHARDS_MAX);
	if (!json_is_object(object) || json_object_size(object) != 4) {
		reader_fail(reader, "manifest");
		return;
	}
	root->has_manifest = true;
	root->manifest = (struct extent_id){ .shard = shard,
		.epoch = (uint32_t)reader_u64(reader, object, "epoch", root->epoch),
		.counter = reader_u64(reader, object, "counter", EXTENT_COUNTER_MAX) };
	root->manifest_sealed_bytes = MT_ROOT_OPEN;
	if (!json_is_integer(sealed) || json_integer_value(sealed) != -1) {
		root->manifest_sealed_bytes =
		    reader_u64(reader, object, "sealed_bytes", CLEAVE_CHUNK_BYTES);
		if (!num_is_aligned(root->manifest_sealed_bytes, BATCH_ALIGN))
			reader_fail(reader, "sealed_bytes");
	}
	root_read_replicas(reader, object, root);
}

static void
root_read(struct reader *reader, const json_t *object, uint32_t shard, struct mt_root *root)
{
	const json_t *manifest = json_object_get(object, "manifest");
	const json_t *released = json_object_get(object, "released");
	const json_t *empty = json_object_get(object, "empty");

	(void)reader_range(reader, object, "format", ROOT_FORMAT, ROOT_FORMAT);
	if (json_object_size(object) !=
	    5u + (manifest != NULL ? 1u : 0) + (released != NULL ? 1u : 0) +
		(empty != NULL ? 1u : 0))
		reader_fail(reader, "unknown member");
	root->is_released = released != NULL && reader_bool(reader, object, "released");
	root->epoch = (uint32_t)reader_range(reader, object, "epoch", 1, EXTENT_EPOCH_MAX);
	root->gateway_id = reader_id(reader, object, "gateway");
	root->boot_id = reader_id(reader, object, "boot");
	reader_text(reader, object, "port", root->port_address, sizeof(root->port_address));
	root->may_be_empty = json_is_true(empty);
	if (empty != NULL && (!root->may_be_empty || manifest != NULL))
		reader_fail(reader, "empty");
	if (manifest != NULL)
		root_read_manifest(reader, manifest, shard, root);
}

int
mt_root_decode(const void *text, uint32_t bytes, uint32_t shard, struct mt_root *ret_root,
    const char **ret_field)
{
	struct mt_root root = { 0 };
	struct reader reader = { 0 };
	json_t *object = reader_load(&reader, text, bytes);

	assert(shard < CLEAVE_SHARDS_MAX);
	if (object != NULL)
		root_read(&reader, object, shard, &root);
	json_decref(object);
	if (reader.field == NULL)
		*ret_root = root;
	else
		*ret_field = reader.field;
	return reader_rc(&reader);
}

bool
mt_root_is_equal(const struct mt_root *a, const struct mt_root *b)
{
	assert(a->manifest_replica_count <= MT_REPLICAS_MAX);
	if (a->epoch != b->epoch || a->is_released != b->is_released ||
	    a->gateway_id != b->gateway_id || a->boot_id != b->boot_id ||
	    strcmp(a->port_address, b->port_address) != 0 || a->has_manifest != b->has_manifest)
		return false;
	if (!a->has_manifest)
		return a->may_be_empty == b->may_be_empty;
	if (a->manifest.shard != b->manifest.shard || a->manifest.epoch != b->manifest.epoch ||
	    a->manifest.counter != b->manifest.counter ||
	    a->manifest_sealed_bytes != b->manifest_sealed_bytes ||
	    a->manifest_replica_count != b->manifest_replica_count)
		return false;
	for (uint32_t i = 0; i < a->manifest_replica_count; i++) {
		if (a->manifest_replicas[i].node_id != b->manifest_replicas[i].node_id ||
		    a->manifest_replicas[i].incarnation != b->manifest_replicas[i].incarnation ||
		    a->manifest_replicas[i].is_damaged != b->manifest_replicas[i].is_damaged)
			return false;
	}
	return true;
}
