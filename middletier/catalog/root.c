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
#include "base/field.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "common/root.h"

#define ROOT_FORMAT 1
#define ROOT_HEX_BYTES 17u

#define ROOT_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

void
mt_root_key(char out[MT_ROOT_KEY_BYTES], uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	(void)snprintf(out, MT_ROOT_KEY_BYTES, "shards/%05" PRIu32, shard);
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

static int
root_get_u64(const json_t *object, const char *name, uint64_t max, uint64_t *ret_value,
    const char **ret_field)
{
	const json_t *value = json_object_get(object, name);

	ROOT_EXPECT(json_is_integer(value) && json_integer_value(value) >= 0 &&
		(uint64_t)json_integer_value(value) <= max,
	    name);
	*ret_value = (uint64_t)json_integer_value(value);
	return 0;
}

static int
root_get_hex(const json_t *object, const char *name, uint64_t *ret_value, const char **ret_field)
{
	const char *text = json_string_value(json_object_get(object, name));

	ROOT_EXPECT(text != NULL && strlen(text) == ROOT_HEX_BYTES - 1 &&
		strspn(text, "0123456789abcdef") == ROOT_HEX_BYTES - 1,
	    name);
	*ret_value = strtoull(text, NULL, 16);
	return 0;
}

static int
root_get_replica(const json_t *object, struct mt_replica *ret_replica, const char **ret_field)
{
	const json_t *damaged = json_object_get(object, "damaged");
	struct mt_replica replica = { 0 };
	uint64_t node_id;
	int rc;

	ROOT_EXPECT(json_is_object(object) && json_object_size(object) == 3, "replicas");
	rc = root_get_u64(object, "node", UINT32_MAX, &node_id, ret_field);
	if (rc == 0)
		rc = root_get_hex(object, "incarnation", &replica.incarnation, ret_field);
	if (rc != 0)
		return rc;
	ROOT_EXPECT(node_id != 0, "node");
	ROOT_EXPECT(json_is_boolean(damaged), "damaged");
	replica.node_id = (uint32_t)node_id;
	replica.is_damaged = json_is_true(damaged);
	*ret_replica = replica;
	return 0;
}

static int
root_get_replicas(const json_t *array, struct mt_root *root, const char **ret_field)
{
	ROOT_EXPECT(json_is_array(array) && json_array_size(array) >= 1 &&
		json_array_size(array) <= MT_REPLICAS_MAX,
	    "replicas");
	root->manifest_replica_count = (uint32_t)json_array_size(array);
	for (uint32_t i = 0; i < root->manifest_replica_count; i++) {
		int rc = root_get_replica(json_array_get(array, i), &root->manifest_replicas[i],
		    ret_field);

		if (rc != 0)
			return rc;
		for (uint32_t k = 0; k < i; k++)
			ROOT_EXPECT(root->manifest_replicas[k].node_id !=
				root->manifest_replicas[i].node_id,
			    "node");
	}
	return 0;
}

static int
root_get_manifest(const json_t *object, uint32_t shard, struct mt_root *root,
    const char **ret_field)
{
	const json_t *sealed = json_object_get(object, "sealed_bytes");
	uint64_t epoch, counter;
	int rc;

	assert(shard < CLEAVE_SHARDS_MAX);
	assert(root->epoch != 0);
	ROOT_EXPECT(json_is_object(object) && json_object_size(object) == 4, "manifest");
	rc = root_get_u64(object, "epoch", root->epoch, &epoch, ret_field);
	if (rc == 0)
		rc = root_get_u64(object, "counter", EXTENT_COUNTER_MAX, &counter, ret_field);
	if (rc != 0)
		return rc;
	root->manifest_sealed_bytes = MT_ROOT_OPEN;
	if (!json_is_integer(sealed) || json_integer_value(sealed) != -1) {
		rc = root_get_u64(object, "sealed_bytes", CLEAVE_CHUNK_BYTES,
		    &root->manifest_sealed_bytes, ret_field);
		if (rc != 0)
			return rc;
		ROOT_EXPECT(num_is_aligned(root->manifest_sealed_bytes, BATCH_ALIGN),
		    "sealed_bytes");
	}
	root->has_manifest = true;
	root->manifest =
	    (struct extent_id){ .shard = shard, .epoch = (uint32_t)epoch, .counter = counter };
	return root_get_replicas(json_object_get(object, "replicas"), root, ret_field);
}

static int
root_get_all(const json_t *object, uint32_t shard, struct mt_root *root, const char **ret_field)
{
	const json_t *manifest = json_object_get(object, "manifest");
	const json_t *released = json_object_get(object, "released");
	const json_t *empty = json_object_get(object, "empty");
	const char *port = json_string_value(json_object_get(object, "port"));
	uint64_t format, epoch;
	int rc;

	ROOT_EXPECT(json_is_object(object), "not a JSON object");
	rc = root_get_u64(object, "format", UINT32_MAX, &format, ret_field);
	if (rc != 0)
		return rc;
	ROOT_EXPECT(format == ROOT_FORMAT, "format");
	ROOT_EXPECT(json_object_size(object) ==
		5u + (manifest != NULL ? 1u : 0) + (released != NULL ? 1u : 0) +
		    (empty != NULL ? 1u : 0),
	    "unknown member");
	ROOT_EXPECT(released == NULL || json_is_boolean(released), "released");
	rc = root_get_u64(object, "epoch", EXTENT_EPOCH_MAX, &epoch, ret_field);
	if (rc == 0)
		rc = root_get_hex(object, "gateway", &root->gateway_id, ret_field);
	if (rc == 0)
		rc = root_get_hex(object, "boot", &root->boot_id, ret_field);
	if (rc != 0)
		return rc;
	ROOT_EXPECT(epoch != 0, "epoch");
	ROOT_EXPECT(port != NULL && strlen(port) < sizeof(root->port_address), "port");
	root->epoch = (uint32_t)epoch;
	ROOT_EXPECT(empty == NULL || (json_is_true(empty) && manifest == NULL), "empty");
	root->may_be_empty = json_is_true(empty);
	root->is_released = json_is_true(released);
	memcpy(root->port_address, port, strlen(port) + 1);
	return manifest == NULL ? 0 : root_get_manifest(manifest, shard, root, ret_field);
}

int
mt_root_decode(const void *text, uint32_t bytes, uint32_t shard, struct mt_root *ret_root,
    const char **ret_field)
{
	struct mt_root root = { 0 };
	json_error_t error;
	json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	int rc;

	assert(shard < CLEAVE_SHARDS_MAX);
	if (object == NULL && json_error_code(&error) == json_error_out_of_memory)
		return -ENOMEM;
	rc = root_get_all(object, shard, &root, ret_field);
	json_decref(object);
	if (rc == 0)
		*ret_root = root;
	return rc;
}

bool
mt_root_is_equal(const struct mt_root *a, const struct mt_root *b)
{
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
