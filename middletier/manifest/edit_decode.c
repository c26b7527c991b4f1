/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edit_decode.c -- edits of a manifest from bytes, which may be anything: whatever is wrong is refused
 *
 * edit_layout.h says which bytes.
 */
#include "manifest/edit_decode.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/trash.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "manifest/edit.h"
#include "manifest/edit_layout.h"

#define EDIT_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)
/* No release up to this one writes such a form: a newer one has. */
#define EDIT_KNOWN(condition, name) FIELD_EXPECT(condition, name, -EPROTONOSUPPORT)

static int
edit_decode_id(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->id = extent_id_unpack(num_get_le64(value));
	EDIT_EXPECT(edit->id.shard < CLEAVE_SHARDS_MAX, "extent");
	return 0;
}

static int
edit_decode_replica(const uint8_t *in, struct mt_edit *edit, uint32_t index, const char **ret_field)
{
	struct mt_replica *replica = &edit->replicas[index];

	assert(index < MT_REPLICAS_MAX);
	assert(edit_has_replicas(edit->kind) || edit->kind == MT_EDIT_PART);
	replica->node_id = num_get_le32(in);
	EDIT_EXPECT(replica->node_id != 0, "node_id");
	for (uint32_t i = 0; i < index; i++)
		EDIT_EXPECT(edit->replicas[i].node_id != replica->node_id, "node_id");
	EDIT_KNOWN((in[4] & ~EDIT_REPLICA_DAMAGED) == 0, "replica_flags");
	EDIT_KNOWN(in[5] == 0 && in[6] == 0 && in[7] == 0, "reserved");
	replica->is_damaged = (in[4] & EDIT_REPLICA_DAMAGED) != 0;
	replica->incarnation = num_get_le64(in + 8);
	return 0;
}

static int
edit_decode_opened(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	const uint8_t *at = value + EDIT_OPENED_FIXED_BYTES;
	int rc;

	assert(edit_has_replicas(edit->kind));
	EDIT_KNOWN(bytes >= EDIT_OPENED_FIXED_BYTES, "value_bytes");
	rc = edit_decode_id(value, edit, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(value[8] >= EXTENT_LOG && value[8] <= EXTENT_MANIFEST, "extent_kind");
	EDIT_EXPECT(value[9] >= 1 && value[9] <= MT_REPLICAS_MAX, "replica_count");
	EDIT_KNOWN(num_get_le16(value + 10) == 0 && num_get_le32(value + 12) == 0, "reserved");
	EDIT_KNOWN(bytes == EDIT_OPENED_FIXED_BYTES + value[9] * EDIT_REPLICA_BYTES, "value_bytes");
	edit->extent_kind = (enum extent_kind)value[8];
	edit->replica_count = value[9];
	for (uint32_t i = 0; i < edit->replica_count; i++, at += EDIT_REPLICA_BYTES) {
		rc = edit_decode_replica(at, edit, i, ret_field);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* A range of an extent: aligned like batches, and within what an extent can hold. */
static int
edit_decode_length(uint64_t length_bytes, struct mt_edit *edit, const char **ret_field)
{
	EDIT_EXPECT(length_bytes <= CLEAVE_CHUNK_BYTES && num_is_aligned(length_bytes, BATCH_ALIGN),
	    "length_bytes");
	edit->length_bytes = length_bytes;
	return 0;
}

static int
edit_decode_part(const uint8_t *value, uint32_t bytes, struct mt_edit *edit, const char **ret_field)
{
	int rc;

	assert(edit->kind == MT_EDIT_PART);
	EDIT_KNOWN(bytes >= EDIT_LENGTH_BYTES, "value_bytes");
	bytes -= EDIT_LENGTH_BYTES;
	rc = edit_decode_opened(value, bytes, edit, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(edit->extent_kind == EXTENT_MANIFEST, "extent_kind");
	return edit_decode_length(num_get_le64(value + bytes), edit, ret_field);
}

static int
edit_decode_directory(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->directory_bytes = num_get_le32(value);
	edit->directory_crc = num_get_le32(value + 4);
	EDIT_EXPECT(edit->directory_bytes > 0 && edit->directory_bytes <= BATCH_HEAD_BYTES_MAX &&
		num_is_aligned(edit->directory_bytes, BATCH_ALIGN) &&
		edit->directory_bytes < edit->length_bytes,
	    "directory_bytes");
	return 0;
}

static int
edit_decode_run(const uint8_t *value, uint32_t bytes, struct mt_edit *edit, const char **ret_field)
{
	bool has_directory = bytes == EDIT_RUN_BYTES + EDIT_DIRECTORY_BYTES;
	int rc;

	assert(edit->kind == MT_EDIT_RUN_ADDED || edit->kind == MT_EDIT_RUN_REMOVED);
	EDIT_KNOWN(edit->kind == MT_EDIT_RUN_REMOVED || bytes == EDIT_RUN_BYTES || has_directory,
	    "value_bytes");
	rc = edit_decode_id(value, edit, ret_field);
	if (rc != 0)
		return rc;
	edit->chunk = num_get_le64(value + 8);
	edit->offset_bytes = num_get_le64(value + 16);
	EDIT_EXPECT(edit->offset_bytes < CLEAVE_CHUNK_BYTES &&
		num_is_aligned(edit->offset_bytes, BATCH_ALIGN),
	    "offset_bytes");
	if (edit->kind == MT_EDIT_RUN_REMOVED)
		return 0;
	rc = edit_decode_length(num_get_le64(value + 24), edit, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(edit->length_bytes > 0 &&
		edit->offset_bytes + edit->length_bytes <= CLEAVE_CHUNK_BYTES,
	    "length_bytes");
	edit->flushed_sequence = num_get_le64(value + 32);
	edit->cut = num_get_le64(value + 40);
	if (has_directory)
		return edit_decode_directory(value + EDIT_RUN_BYTES, edit, ret_field);
	return 0;
}

static int
edit_decode_epoch(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->epoch = num_get_le32(value);
	EDIT_EXPECT(edit->epoch >= 1 && edit->epoch <= EXTENT_EPOCH_MAX, "epoch");
	EDIT_KNOWN(num_get_le32(value + 4) == 0, "reserved");
	return 0;
}

/* The name's form is the metadata store's matter: here it must only be one text. */
static int
edit_decode_name(const uint8_t *in, char ret_name[MT_NAME_BYTES], const char **ret_field)
{
	size_t bytes = strnlen((const char *)in, MT_NAME_BYTES);

	EDIT_EXPECT(bytes >= 1 && bytes < MT_NAME_BYTES, "name");
	for (size_t i = bytes; i < MT_NAME_BYTES; i++)
		EDIT_EXPECT(in[i] == 0, "name");
	memcpy(ret_name, in, MT_NAME_BYTES);
	return 0;
}

static int
edit_decode_spans(const uint8_t *in, uint32_t count, uint64_t segment_base, struct mt_scope *scope,
    const char **ret_field)
{
	const char *problem;

	assert(count <= MT_SPANS_MAX);
	scope->span_count = count;
	for (uint32_t i = 0; i < count; i++, in += EDIT_SPAN_BYTES)
		scope->spans[i] = (struct mt_span){ num_get_le64(in), num_get_le64(in + 8),
			num_get_le64(in + 16) };
	problem = mt_scope_check(scope, segment_base);
	EDIT_EXPECT(problem == NULL, problem);
	return 0;
}

static int
edit_check_size(uint64_t size_bytes, uint32_t segment_count, const char **ret_field)
{
	EDIT_EXPECT(size_bytes >= CLEAVE_BLOCK_BYTES && size_bytes <= CLEAVE_VOLUME_BYTES_MAX,
	    "size_bytes");
	EDIT_EXPECT(segment_count == (size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES,
	    "segment_count");
	return 0;
}

static int
edit_decode_snapshot(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	const uint8_t *name = value + EDIT_SNAPSHOT_FIXED_BYTES;
	struct mt_snapshot *snapshot = &edit->snapshot;
	int rc;

	assert(edit->kind == MT_EDIT_SNAPSHOT);
	EDIT_KNOWN(bytes >= EDIT_SNAPSHOT_FIXED_BYTES + MT_NAME_BYTES, "value_bytes");
	snapshot->number = num_get_le64(value);
	snapshot->volume_id = num_get_le64(value + 8);
	snapshot->size_bytes = num_get_le64(value + 16);
	snapshot->segment_base = num_get_le64(value + 24);
	snapshot->created_s = num_get_le64(value + 32);
	snapshot->segment_count = num_get_le32(value + 40);
	snapshot->clone_count = num_get_le32(value + 44);
	EDIT_EXPECT(snapshot->number != 0, "number");
	EDIT_EXPECT(snapshot->volume_id != 0, "volume");
	rc = edit_check_size(snapshot->size_bytes, snapshot->segment_count, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(value[48] < MT_SNAPSHOT_STATE_NR, "state");
	EDIT_KNOWN((value[49] & ~(EDIT_VOLUME_DELETED | EDIT_SNAPSHOT_PROTECTED)) == 0, "flags");
	EDIT_EXPECT(value[50] >= 1 && value[50] <= MT_SPANS_MAX, "span_count");
	EDIT_EXPECT(value[51] <= CLEAVE_GROUP_VOLUMES_MAX && value[51] <= snapshot->number,
	    "group");
	EDIT_KNOWN(num_get_le32(value + 52) == 0, "reserved");
	EDIT_KNOWN(bytes == EDIT_SNAPSHOT_FIXED_BYTES + MT_NAME_BYTES + value[50] * EDIT_SPAN_BYTES,
	    "value_bytes");
	snapshot->state = (enum mt_snapshot_state)value[48];
	edit->is_deleted = (value[49] & EDIT_VOLUME_DELETED) != 0;
	snapshot->is_protected = (value[49] & EDIT_SNAPSHOT_PROTECTED) != 0;
	snapshot->group = value[51] == 0 ? 0 : snapshot->number + 1 - value[51];
	rc = edit_decode_name(name, snapshot->name, ret_field);
	if (rc != 0)
		return rc;
	return edit_decode_spans(name + MT_NAME_BYTES, value[50], snapshot->segment_base,
	    &snapshot->scope, ret_field);
}

/* The name that was read is the one that it had. */
static int
edit_decode_trash(const uint8_t *in, struct mt_volume *volume, const char **ret_field)
{
	EDIT_EXPECT(volume->id <= MT_NUMBER_MAX, "id");
	volume->trash.deleted_s = num_get_le64(in);
	volume->trash.keep_ms = num_get_le64(in + 8);
	volume->trash.left_ms = num_get_le64(in + 16);
	EDIT_EXPECT(volume->trash.deleted_s <= INT64_MAX, "deleted_s");
	EDIT_EXPECT(volume->trash.keep_ms <= MT_TRASH_KEEP_S_MAX * 1000, "keep_ms");
	EDIT_EXPECT(volume->trash.left_ms <= MT_TRASH_KEEP_S_MAX * 1000, "left_ms");
	memcpy(volume->trash.name, volume->name, sizeof(volume->trash.name));
	mt_trash_name(volume->id, volume->name);
	return 0;
}

/* Limits and shares: none at all is written as no flag. */
static int
edit_decode_limits(const uint8_t *in, struct mt_volume *volume, const char **ret_field)
{
	uint64_t *values = (uint64_t *)&volume->limits;

	assert(volume->id != 0);
	for (uint32_t i = 0; i < MT_LIMIT_COUNT; i++)
		values[i] = num_get_le64(in + 8 * i);
	EDIT_EXPECT(mt_qos_is_any(&volume->limits) && mt_qos_check(&volume->limits) == NULL,
	    "limits");
	return 0;
}

static int
edit_decode_volume(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	const uint8_t *spans = value + EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES;
	struct mt_volume *volume = &edit->volume;
	uint32_t trash_bytes, limit_bytes, key_bytes, tail_bytes;
	int rc;

	assert(edit->kind == MT_EDIT_VOLUME);
	EDIT_KNOWN(bytes >= EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES, "value_bytes");

	volume->id = num_get_le64(value);
	volume->size_bytes = num_get_le64(value + 8);
	volume->segment_base = num_get_le64(value + 16);
	volume->attach = num_get_le64(value + 24);
	volume->session_id = num_get_le64(value + 32);
	volume->segment_count = num_get_le32(value + 40);
	volume->level = (int)num_get_le32(value + 44);
	EDIT_EXPECT(volume->id != 0, "id");
	rc = edit_check_size(volume->size_bytes, volume->segment_count, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(value[48] < SERVICE_CLASS_NR, "service_class");
	EDIT_EXPECT(value[50] >= 1 && value[50] <= MT_REPLICAS_MAX, "replica_count");
	EDIT_KNOWN((value[51] &
		       ~(EDIT_VOLUME_DELETED | EDIT_VOLUME_TRASHED | EDIT_VOLUME_LIMITED |
			   EDIT_VOLUME_ENCRYPTED | EDIT_VOLUME_READS_MASK)) == 0 &&
		(value[51] & EDIT_VOLUME_READS_MASK) >> EDIT_VOLUME_READS_SHIFT < MT_READS_NR,
	    "volume_flags");
	EDIT_EXPECT(value[52] <= MT_SPANS_MAX, "span_count");
	EDIT_KNOWN(value[53] == 0 && value[54] == 0 && value[55] == 0, "reserved");
	trash_bytes = (value[51] & EDIT_VOLUME_TRASHED) != 0 ? EDIT_TRASH_BYTES : 0;
	limit_bytes = (value[51] & EDIT_VOLUME_LIMITED) != 0 ? EDIT_LIMITS_BYTES : 0;
	key_bytes = (value[51] & EDIT_VOLUME_ENCRYPTED) != 0 ? EDIT_KEY_ID_BYTES : 0;
	tail_bytes = limit_bytes + key_bytes;
	EDIT_KNOWN(bytes ==
		(uint32_t)(spans - value) +
		    (value[52] == 0 ? 0 : EDIT_ORIGIN_BYTES + value[52] * EDIT_SPAN_BYTES) +
		    trash_bytes + tail_bytes,
	    "value_bytes");
	volume->service_class = (enum service_class)value[48];
	volume->codec_id = value[49];
	volume->replica_count = value[50];
	volume->reads = (enum mt_reads)(
	    (value[51] & EDIT_VOLUME_READS_MASK) >> EDIT_VOLUME_READS_SHIFT);
	edit->is_deleted = (value[51] & EDIT_VOLUME_DELETED) != 0;
	mt_scope_init(&volume->scope, volume->segment_base);
	rc = edit_decode_name(value + EDIT_VOLUME_FIXED_BYTES, volume->name, ret_field);
	if (rc == 0 && trash_bytes > 0)
		rc = edit_decode_trash(value + bytes - tail_bytes - trash_bytes, volume, ret_field);
	if (rc == 0 && limit_bytes > 0)
		rc = edit_decode_limits(value + bytes - tail_bytes, volume, ret_field);
	volume->key_id = key_bytes > 0 ? num_get_le32(value + bytes - key_bytes) : 0;
	EDIT_EXPECT(rc != 0 || key_bytes == 0 || volume->key_id != 0, "key_id");
	if (rc != 0 || value[52] == 0)
		return rc;
	volume->origin = num_get_le64(spans);
	rc = edit_decode_spans(spans + EDIT_ORIGIN_BYTES, value[52], volume->segment_base,
	    &volume->scope, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(!mt_scope_is_plain(&volume->scope, volume->segment_base), "span_count");
	return 0;
}

static int
edit_decode_data_key(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	struct mt_data_key *data_key = &edit->data_key;
	const char *kek = (const char *)value + EDIT_DATA_KEY_FIXED_BYTES;
	size_t kek_bytes;

	assert(edit->kind == MT_EDIT_DATA_KEY);
	EDIT_KNOWN(bytes > EDIT_DATA_KEY_FIXED_BYTES + MT_KEK_NAME_BYTES, "value_bytes");
	data_key->id = num_get_le64(value);
	data_key->volume = num_get_le64(value + 8);
	data_key->wrapped_bytes = num_get_le16(value + 18);
	EDIT_EXPECT(data_key->id >= 1 && data_key->id <= UINT32_MAX, "id");
	EDIT_EXPECT(data_key->volume >= 1 && data_key->volume <= MT_NUMBER_MAX, "volume");
	EDIT_EXPECT(value[16] < MT_DATA_KEY_STATE_NR, "state");
	EDIT_KNOWN((value[17] & ~EDIT_DELETED) == 0, "flags");
	EDIT_KNOWN(num_get_le32(value + 20) == 0, "reserved");
	EDIT_EXPECT(data_key->wrapped_bytes >= 1 &&
		data_key->wrapped_bytes <= MT_WRAPPED_BYTES_MAX &&
		bytes == EDIT_DATA_KEY_FIXED_BYTES + MT_KEK_NAME_BYTES + data_key->wrapped_bytes,
	    "wrapped_bytes");
	kek_bytes = strnlen(kek, MT_KEK_NAME_BYTES);
	EDIT_EXPECT(kek_bytes < MT_KEK_NAME_BYTES && mt_kek_name_check(kek) == NULL, "kek");
	for (size_t i = kek_bytes; i < MT_KEK_NAME_BYTES; i++)
		EDIT_EXPECT(kek[i] == 0, "kek");
	data_key->state = (enum mt_data_key_state)value[16];
	edit->is_deleted = (value[17] & EDIT_DELETED) != 0;
	memcpy(data_key->kek, kek, MT_KEK_NAME_BYTES);
	memcpy(data_key->wrapped, kek + MT_KEK_NAME_BYTES, data_key->wrapped_bytes);
	return 0;
}

static int
edit_decode_sealed_name(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	assert(edit->kind == MT_EDIT_NAME);
	edit->name.number = num_get_le64(value);
	edit->name.key_id = num_get_le32(value + 8);
	EDIT_EXPECT((edit->name.number & ~MT_SNAPSHOT_ID) != 0 &&
		(edit->name.number & ~MT_SNAPSHOT_ID) <= MT_NUMBER_MAX,
	    "number");
	EDIT_EXPECT(edit->name.key_id != 0, "key_id");
	EDIT_KNOWN((value[12] & ~EDIT_DELETED) == 0, "flags");
	EDIT_KNOWN(value[13] == 0 && value[14] == 0 && value[15] == 0, "reserved");
	edit->is_deleted = (value[12] & EDIT_DELETED) != 0;
	memcpy(edit->name.sealed, value + EDIT_NAME_FIXED_BYTES, MT_SEALED_NAME_BYTES);
	return 0;
}

static int
edit_decode_cluster(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	assert(edit->kind == MT_EDIT_CLUSTER);
	EDIT_KNOWN(bytes == EDIT_CLUSTER_BYTES || bytes == EDIT_CLUSTER_BYTES + EDIT_NEXT_KEY_BYTES,
	    "value_bytes");
	edit->next_volume_id = num_get_le64(value);
	edit->next_segment = num_get_le64(value + 8);
	edit->shard_count = num_get_le32(value + 16);
	EDIT_EXPECT(edit->next_volume_id != 0, "next_volume_id");
	EDIT_EXPECT(edit->next_segment != 0, "next_segment");
	EDIT_EXPECT(edit->shard_count >= 1 && edit->shard_count <= CLEAVE_SHARDS_MAX,
	    "shard_count");
	edit->level = num_get_le32(value + 20);
	EDIT_KNOWN(edit->level != 1 && edit->level <= CLEAVE_LEVEL_MAX, "level");
	edit->next_snapshot = num_get_le64(value + 24);
	edit->next_clone = num_get_le64(value + 32);
	EDIT_EXPECT(edit->next_snapshot != 0, "next_snapshot");
	EDIT_EXPECT(edit->next_clone != 0, "next_clone");
	if (bytes == EDIT_CLUSTER_BYTES)
		return 0;
	edit->next_key = num_get_le64(value + EDIT_CLUSTER_BYTES);
	EDIT_EXPECT(edit->next_key >= 1 && edit->next_key <= UINT32_MAX + UINT64_C(1), "next_key");
	return 0;
}

static int
edit_decode_cut(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	assert(edit->kind == MT_EDIT_CUT);
	edit->cut = num_get_le64(value);
	edit->sequence = num_get_le64(value + 8);
	edit->segment_base = num_get_le64(value + 16);
	edit->segment_count = num_get_le32(value + 24);
	EDIT_EXPECT(edit->cut != 0, "cut");
	EDIT_EXPECT(edit->segment_count <= MT_VOLUME_SEGMENTS, "segment_count");
	EDIT_KNOWN(num_get_le32(value + 28) == 0, "reserved");
	return 0;
}

static bool
edit_varies(uint8_t kind)
{
	return edit_has_replicas(kind) || kind == MT_EDIT_VOLUME || kind == MT_EDIT_SNAPSHOT ||
	    kind == MT_EDIT_CLUSTER || kind == MT_EDIT_DATA_KEY || kind == MT_EDIT_RUN_ADDED;
}

/* Bytes of a kind's value; a value that varies says so itself. 0: no such kind. */
static uint32_t
edit_value_bytes(uint8_t kind, uint32_t bytes)
{
	static const uint8_t table[] = { [MT_EDIT_EPOCH] = 8,
		[MT_EDIT_EXTENT_SEALED] = 16,
		[MT_EDIT_EXTENT_DELETED] = 8,
		[MT_EDIT_RUN_REMOVED] = 24,
		[MT_EDIT_CUT] = 32,
		[MT_EDIT_CHECKPOINT_END] = 8,
		[MT_EDIT_SUCCESSOR] = 8,
		[MT_EDIT_CUT_DROPPED] = 8,
		[MT_EDIT_NAME] = EDIT_NAME_FIXED_BYTES + MT_SEALED_NAME_BYTES };

	if (edit_varies(kind))
		return bytes;
	return kind < NUM_COUNT(table) ? table[kind] : 0;
}

static int
edit_decode_value(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	int rc;

	assert(bytes > 0 && EDIT_HEAD_BYTES + bytes <= MT_EDIT_BYTES_MAX);
	switch (edit->kind) {
	case MT_EDIT_EPOCH:
		return edit_decode_epoch(value, edit, ret_field);
	case MT_EDIT_EXTENT_OPENED:
	case MT_EDIT_EXTENT_REPLICAS:
		return edit_decode_opened(value, bytes, edit, ret_field);
	case MT_EDIT_PART:
		return edit_decode_part(value, bytes, edit, ret_field);
	case MT_EDIT_EXTENT_SEALED:
		rc = edit_decode_id(value, edit, ret_field);
		return rc != 0 ? rc : edit_decode_length(num_get_le64(value + 8), edit, ret_field);
	case MT_EDIT_RUN_ADDED:
	case MT_EDIT_RUN_REMOVED:
		return edit_decode_run(value, bytes, edit, ret_field);
	case MT_EDIT_CUT:
		return edit_decode_cut(value, edit, ret_field);
	case MT_EDIT_CUT_DROPPED:
		edit->cut = num_get_le64(value);
		return 0;
	case MT_EDIT_SNAPSHOT:
		return edit_decode_snapshot(value, bytes, edit, ret_field);
	case MT_EDIT_CHECKPOINT_END:
		edit->sequence = num_get_le64(value);
		return 0;
	case MT_EDIT_VOLUME:
		return edit_decode_volume(value, bytes, edit, ret_field);
	case MT_EDIT_CLUSTER:
		return edit_decode_cluster(value, bytes, edit, ret_field);
	case MT_EDIT_DATA_KEY:
		return edit_decode_data_key(value, bytes, edit, ret_field);
	case MT_EDIT_NAME:
		return edit_decode_sealed_name(value, edit, ret_field);
	case MT_EDIT_EXTENT_DELETED:
	case MT_EDIT_SUCCESSOR:
		return edit_decode_id(value, edit, ret_field);
	}
	EDIT_KNOWN(false, "kind");
	return 0;
}

int
mt_edit_decode(const uint8_t *in, uint32_t bytes, struct mt_edit *ret_edit, const char **ret_field)
{
	struct mt_edit edit = { 0 };
	uint32_t value_bytes, expected_bytes;
	int rc;

	EDIT_EXPECT(bytes >= EDIT_HEAD_BYTES, "bytes");
	value_bytes = num_get_le16(in + 2);
	expected_bytes = edit_value_bytes(in[0], value_bytes);
	EDIT_KNOWN(expected_bytes != 0 || edit_varies(in[0]), "kind");
	EDIT_KNOWN(in[1] == EDIT_VERSION, "version");
	EDIT_KNOWN(value_bytes == expected_bytes, "value_bytes");
	EDIT_KNOWN(value_bytes > 0 && EDIT_HEAD_BYTES + value_bytes <= MT_EDIT_BYTES_MAX,
	    "value_bytes");
	EDIT_EXPECT(value_bytes <= bytes - EDIT_HEAD_BYTES, "bytes");
	edit.kind = (enum mt_edit_kind)in[0];
	rc = edit_decode_value(in + EDIT_HEAD_BYTES, value_bytes, &edit, ret_field);
	if (rc != 0)
		return rc;
	*ret_edit = edit;
	return (int)(EDIT_HEAD_BYTES + value_bytes);
}
