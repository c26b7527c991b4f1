/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edit.c -- the bytes of a manifest's edits: the only code that knows their layout
 *
 * An edit is 4 bytes of head and a value; the batch round it carries the CRC. Little-endian:
 *
 *	0 u8 kind  1 u8 version  2 u16 value_bytes  4 value
 *
 *	EPOCH             u32 epoch, u32 zero
 *	EXTENT_OPENED     u64 extent, u8 extent_kind, u8 replica_count, u16 zero, u32 zero,
 *	                  then a replica: u32 node_id, u8 flags, u8[3] zero, u64 incarnation
 *	EXTENT_REPLICAS   the same
 *	EXTENT_SEALED     u64 extent, u64 length_bytes
 *	EXTENT_DELETED    u64 extent
 *	RUN_ADDED         u64 extent, u64 chunk, u64 offset_bytes, u64 length_bytes,
 *	                  u64 flushed_sequence, u64 cut
 *	RUN_REMOVED       u64 extent, u64 chunk, u64 offset_bytes
 *	CUT               u64 cut, u64 sequence, u64 segment_base, u32 segment_count, u32 zero
 *	CUT_DROPPED       u64 cut
 *	CHECKPOINT_END    u64 sequence
 *	SUCCESSOR         u64 extent
 *	VOLUME            u64 id, u64 size_bytes, u64 segment_base, u64 attach, u64 session,
 *	                  u32 segment_count, i32 level, u8 service_class, u8 codec_id,
 *	                  u8 replica_count, u8 flags (1: deleted), u8 span_count, u8[3] zero,
 *	                  name: 64 bytes, zeros behind it; where there are spans: u64 origin, then
 *	                  a span: u64 segment_base, u64 cut_from, u64 cut_below
 *	SNAPSHOT          u64 number, u64 volume, u64 size_bytes, u64 segment_base, u64 created_s,
 *	                  u32 segment_count, u32 clone_count, u8 state, u8 flags (1: deleted),
 *	                  u8 span_count, u8[5] zero, name: 64 bytes, then spans as above
 *	CLUSTER           u64 next_volume_id, u64 next_segment, u32 shard_count, u32 zero,
 *	                  u64 next_snapshot, u64 next_clone
 *	PART              as EXTENT_OPENED, extent_kind 3; then u64 length_bytes
 *
 * An extent is its packed id. A kind's value has one length: a longer one is another version, and
 * refused, because an edit that is not understood may not be skipped.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "manifest/edit.h"

#define EDIT_VERSION 1u
#define EDIT_HEAD_BYTES 4u
#define EDIT_OPENED_FIXED_BYTES 16u
#define EDIT_REPLICA_BYTES 16u
#define EDIT_LENGTH_BYTES 8u
#define EDIT_REPLICA_DAMAGED 1u
#define EDIT_VOLUME_FIXED_BYTES 56u
#define EDIT_VOLUME_DELETED 1u
#define EDIT_SNAPSHOT_FIXED_BYTES 56u
#define EDIT_SPAN_BYTES 24u
#define EDIT_ORIGIN_BYTES 8u
#define EDIT_CLUSTER_BYTES 40u

_Static_assert(EDIT_HEAD_BYTES + EDIT_OPENED_FIXED_BYTES + MT_REPLICAS_MAX * EDIT_REPLICA_BYTES <=
	MT_EDIT_BYTES_MAX,
    "the longest edit");
_Static_assert(EDIT_HEAD_BYTES + EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES + EDIT_ORIGIN_BYTES +
	    MT_SPANS_MAX * EDIT_SPAN_BYTES <=
	MT_EDIT_BYTES_MAX,
    "another long one");

#define EDIT_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

static bool
edit_has_replicas(uint32_t kind)
{
	return kind == MT_EDIT_EXTENT_OPENED || kind == MT_EDIT_EXTENT_REPLICAS ||
	    kind == MT_EDIT_PART;
}

/* ---- encode ---- */

/* Where the next field of a value goes. */
struct edit_writer {
	uint8_t *at;
};

static void
edit_put_u64(struct edit_writer *writer, uint64_t value)
{
	num_put_le64(writer->at, value);
	writer->at += 8;
}

static void
edit_put_u32(struct edit_writer *writer, uint32_t value)
{
	num_put_le32(writer->at, value);
	writer->at += 4;
}

static void
edit_put_replicas(struct edit_writer *writer, const struct mt_edit *edit)
{
	assert(edit->replica_count >= 1);
	assert(edit->replica_count <= MT_REPLICAS_MAX);
	*writer->at++ = (uint8_t)edit->extent_kind;
	*writer->at++ = (uint8_t)edit->replica_count;
	writer->at += 2;
	edit_put_u32(writer, 0);
	for (uint32_t i = 0; i < edit->replica_count; i++) {
		const struct mt_replica *replica = &edit->replicas[i];

		edit_put_u32(writer, replica->node_id);
		*writer->at = replica->is_damaged ? EDIT_REPLICA_DAMAGED : 0;
		writer->at += 4;
		edit_put_u64(writer, replica->incarnation);
	}
}

static void
edit_put_run(struct edit_writer *writer, const struct mt_edit *edit)
{
	edit_put_u64(writer, edit->chunk);
	edit_put_u64(writer, edit->offset_bytes);
	if (edit->kind != MT_EDIT_RUN_ADDED)
		return;
	edit_put_u64(writer, edit->length_bytes);
	edit_put_u64(writer, edit->flushed_sequence);
	edit_put_u64(writer, edit->cut);
}

static void
edit_put_spans(struct edit_writer *writer, const struct mt_scope *scope)
{
	for (uint32_t i = 0; i < scope->span_count; i++) {
		edit_put_u64(writer, scope->spans[i].segment_base);
		edit_put_u64(writer, scope->spans[i].cut_from);
		edit_put_u64(writer, scope->spans[i].cut_below);
	}
}

static void
edit_put_name(struct edit_writer *writer, const char *name)
{
	memcpy(writer->at, name, strnlen(name, MT_NAME_BYTES));
	writer->at += MT_NAME_BYTES;
}

static void
edit_put_snapshot(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_snapshot *snapshot = &edit->snapshot;

	assert(snapshot->scope.span_count <= MT_SPANS_MAX);
	edit_put_u64(writer, snapshot->number);
	edit_put_u64(writer, snapshot->volume_id);
	edit_put_u64(writer, snapshot->size_bytes);
	edit_put_u64(writer, snapshot->segment_base);
	edit_put_u64(writer, snapshot->created_s);
	edit_put_u32(writer, snapshot->segment_count);
	edit_put_u32(writer, snapshot->clone_count);
	*writer->at++ = (uint8_t)snapshot->state;
	*writer->at++ = edit->is_deleted ? EDIT_VOLUME_DELETED : 0;
	*writer->at++ = (uint8_t)snapshot->scope.span_count;
	writer->at += 5;
	edit_put_name(writer, snapshot->name);
	edit_put_spans(writer, &snapshot->scope);
}

static void
edit_put_volume(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_volume *volume = &edit->volume;
	bool is_plain = mt_scope_is_plain(&volume->scope, volume->segment_base);

	edit_put_u64(writer, volume->id);
	edit_put_u64(writer, volume->size_bytes);
	edit_put_u64(writer, volume->segment_base);
	edit_put_u64(writer, volume->attach);
	edit_put_u64(writer, volume->session_id);
	edit_put_u32(writer, volume->segment_count);
	edit_put_u32(writer, (uint32_t)volume->level);
	*writer->at++ = (uint8_t)volume->service_class;
	*writer->at++ = volume->codec_id;
	*writer->at++ = (uint8_t)volume->replica_count;
	*writer->at++ = edit->is_deleted ? EDIT_VOLUME_DELETED : 0;
	*writer->at = (uint8_t)(is_plain ? 0 : volume->scope.span_count);
	writer->at += 4;
	edit_put_name(writer, volume->name);
	if (is_plain)
		return;
	edit_put_u64(writer, volume->origin);
	edit_put_spans(writer, &volume->scope);
}

uint32_t
mt_edit_encode(uint8_t out[MT_EDIT_BYTES_MAX], const struct mt_edit *edit)
{
	struct edit_writer writer = { .at = out + EDIT_HEAD_BYTES };
	uint32_t value_bytes;

	memset(out, 0, MT_EDIT_BYTES_MAX);
	switch (edit->kind) {
	case MT_EDIT_EPOCH:
		edit_put_u32(&writer, edit->epoch);
		edit_put_u32(&writer, 0);
		break;
	case MT_EDIT_CUT:
		edit_put_u64(&writer, edit->cut);
		edit_put_u64(&writer, edit->sequence);
		edit_put_u64(&writer, edit->segment_base);
		edit_put_u32(&writer, edit->segment_count);
		edit_put_u32(&writer, 0);
		break;
	case MT_EDIT_CUT_DROPPED:
		edit_put_u64(&writer, edit->cut);
		break;
	case MT_EDIT_SNAPSHOT:
		edit_put_snapshot(&writer, edit);
		break;
	case MT_EDIT_CHECKPOINT_END:
		edit_put_u64(&writer, edit->sequence);
		break;
	case MT_EDIT_VOLUME:
		edit_put_volume(&writer, edit);
		break;
	case MT_EDIT_CLUSTER:
		edit_put_u64(&writer, edit->next_volume_id);
		edit_put_u64(&writer, edit->next_segment);
		edit_put_u32(&writer, edit->shard_count);
		edit_put_u32(&writer, 0);
		edit_put_u64(&writer, edit->next_snapshot);
		edit_put_u64(&writer, edit->next_clone);
		break;
	default:
		assert(edit->kind >= MT_EDIT_EPOCH && edit->kind <= MT_EDIT_PART);
		edit_put_u64(&writer, extent_id_pack(&edit->id));
		if (edit_has_replicas(edit->kind))
			edit_put_replicas(&writer, edit);
		if (edit->kind == MT_EDIT_PART)
			edit_put_u64(&writer, edit->length_bytes);
		else if (edit->kind == MT_EDIT_EXTENT_SEALED)
			edit_put_u64(&writer, edit->length_bytes);
		else if (edit->kind == MT_EDIT_RUN_ADDED || edit->kind == MT_EDIT_RUN_REMOVED)
			edit_put_run(&writer, edit);
		break;
	}
	value_bytes = (uint32_t)(writer.at - out) - EDIT_HEAD_BYTES;
	out[0] = (uint8_t)edit->kind;
	out[1] = EDIT_VERSION;
	num_put_le16(out + 2, (uint16_t)value_bytes);
	return EDIT_HEAD_BYTES + value_bytes;
}

/* ---- decode ---- */

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

	replica->node_id = num_get_le32(in);
	EDIT_EXPECT(replica->node_id != 0, "node_id");
	for (uint32_t i = 0; i < index; i++)
		EDIT_EXPECT(edit->replicas[i].node_id != replica->node_id, "node_id");
	EDIT_EXPECT((in[4] & ~EDIT_REPLICA_DAMAGED) == 0, "replica_flags");
	EDIT_EXPECT(in[5] == 0 && in[6] == 0 && in[7] == 0, "reserved");
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

	EDIT_EXPECT(bytes >= EDIT_OPENED_FIXED_BYTES, "value_bytes");
	rc = edit_decode_id(value, edit, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(value[8] >= EXTENT_LOG && value[8] <= EXTENT_MANIFEST, "extent_kind");
	EDIT_EXPECT(value[9] >= 1 && value[9] <= MT_REPLICAS_MAX, "replica_count");
	EDIT_EXPECT(num_get_le16(value + 10) == 0 && num_get_le32(value + 12) == 0, "reserved");
	EDIT_EXPECT(bytes == EDIT_OPENED_FIXED_BYTES + value[9] * EDIT_REPLICA_BYTES,
	    "value_bytes");
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

	EDIT_EXPECT(bytes >= EDIT_LENGTH_BYTES, "value_bytes");
	bytes -= EDIT_LENGTH_BYTES;
	rc = edit_decode_opened(value, bytes, edit, ret_field);
	if (rc != 0)
		return rc;
	EDIT_EXPECT(edit->extent_kind == EXTENT_MANIFEST, "extent_kind");
	return edit_decode_length(num_get_le64(value + bytes), edit, ret_field);
}

static int
edit_decode_run(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	int rc = edit_decode_id(value, edit, ret_field);

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
	return 0;
}

static int
edit_decode_epoch(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->epoch = num_get_le32(value);
	EDIT_EXPECT(edit->epoch >= 1 && edit->epoch <= EXTENT_EPOCH_MAX, "epoch");
	EDIT_EXPECT(num_get_le32(value + 4) == 0, "reserved");
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

	EDIT_EXPECT(bytes >= EDIT_SNAPSHOT_FIXED_BYTES + MT_NAME_BYTES, "value_bytes");
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
	EDIT_EXPECT((value[49] & ~EDIT_VOLUME_DELETED) == 0, "flags");
	EDIT_EXPECT(value[50] >= 1 && value[50] <= MT_SPANS_MAX, "span_count");
	EDIT_EXPECT(value[51] == 0 && num_get_le32(value + 52) == 0, "reserved");
	EDIT_EXPECT(bytes ==
		EDIT_SNAPSHOT_FIXED_BYTES + MT_NAME_BYTES + value[50] * EDIT_SPAN_BYTES,
	    "value_bytes");
	snapshot->state = (enum mt_snapshot_state)value[48];
	edit->is_deleted = (value[49] & EDIT_VOLUME_DELETED) != 0;
	rc = edit_decode_name(name, snapshot->name, ret_field);
	if (rc != 0)
		return rc;
	return edit_decode_spans(name + MT_NAME_BYTES, value[50], snapshot->segment_base,
	    &snapshot->scope, ret_field);
}

static int
edit_decode_volume(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	const uint8_t *spans = value + EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES;
	struct mt_volume *volume = &edit->volume;
	int rc;

	EDIT_EXPECT(bytes >= EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES, "value_bytes");

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
	EDIT_EXPECT((value[51] & ~EDIT_VOLUME_DELETED) == 0, "volume_flags");
	EDIT_EXPECT(value[52] <= MT_SPANS_MAX, "span_count");
	EDIT_EXPECT(value[53] == 0 && value[54] == 0 && value[55] == 0, "reserved");
	EDIT_EXPECT(bytes ==
		(uint32_t)(spans - value) +
		    (value[52] == 0 ? 0 : EDIT_ORIGIN_BYTES + value[52] * EDIT_SPAN_BYTES),
	    "value_bytes");
	volume->service_class = (enum service_class)value[48];
	volume->codec_id = value[49];
	volume->replica_count = value[50];
	edit->is_deleted = (value[51] & EDIT_VOLUME_DELETED) != 0;
	mt_scope_init(&volume->scope, volume->segment_base);
	rc = edit_decode_name(value + EDIT_VOLUME_FIXED_BYTES, volume->name, ret_field);
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
edit_decode_cluster(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->next_volume_id = num_get_le64(value);
	edit->next_segment = num_get_le64(value + 8);
	edit->shard_count = num_get_le32(value + 16);
	EDIT_EXPECT(edit->next_volume_id != 0, "next_volume_id");
	EDIT_EXPECT(edit->next_segment != 0, "next_segment");
	EDIT_EXPECT(edit->shard_count >= 1 && edit->shard_count <= CLEAVE_SHARDS_MAX,
	    "shard_count");
	EDIT_EXPECT(num_get_le32(value + 20) == 0, "reserved");
	edit->next_snapshot = num_get_le64(value + 24);
	edit->next_clone = num_get_le64(value + 32);
	EDIT_EXPECT(edit->next_snapshot != 0, "next_snapshot");
	EDIT_EXPECT(edit->next_clone != 0, "next_clone");
	return 0;
}

static int
edit_decode_cut(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	edit->cut = num_get_le64(value);
	edit->sequence = num_get_le64(value + 8);
	edit->segment_base = num_get_le64(value + 16);
	edit->segment_count = num_get_le32(value + 24);
	EDIT_EXPECT(edit->cut != 0, "cut");
	EDIT_EXPECT(edit->segment_count <= MT_VOLUME_SEGMENTS, "segment_count");
	EDIT_EXPECT(num_get_le32(value + 28) == 0, "reserved");
	return 0;
}

static bool
edit_varies(uint8_t kind)
{
	return edit_has_replicas(kind) || kind == MT_EDIT_VOLUME || kind == MT_EDIT_SNAPSHOT;
}

/* Bytes of a kind's value; a value that varies says so itself. 0: no such kind. */
static uint32_t
edit_value_bytes(uint8_t kind, uint32_t bytes)
{
	static const uint8_t table[] = { [MT_EDIT_EPOCH] = 8,
		[MT_EDIT_EXTENT_SEALED] = 16,
		[MT_EDIT_EXTENT_DELETED] = 8,
		[MT_EDIT_RUN_ADDED] = 48,
		[MT_EDIT_RUN_REMOVED] = 24,
		[MT_EDIT_CUT] = 32,
		[MT_EDIT_CHECKPOINT_END] = 8,
		[MT_EDIT_SUCCESSOR] = 8,
		[MT_EDIT_CLUSTER] = EDIT_CLUSTER_BYTES,
		[MT_EDIT_CUT_DROPPED] = 8 };

	if (edit_varies(kind))
		return bytes;
	return kind < NUM_COUNT(table) ? table[kind] : 0;
}

static int
edit_decode_value(const uint8_t *value, uint32_t bytes, struct mt_edit *edit,
    const char **ret_field)
{
	int rc;

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
		return edit_decode_run(value, edit, ret_field);
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
		return edit_decode_cluster(value, edit, ret_field);
	case MT_EDIT_EXTENT_DELETED:
	case MT_EDIT_SUCCESSOR:
		return edit_decode_id(value, edit, ret_field);
	}
	EDIT_EXPECT(false, "kind");
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
	EDIT_EXPECT(expected_bytes != 0 || edit_varies(in[0]), "kind");
	EDIT_EXPECT(in[1] == EDIT_VERSION, "version");
	EDIT_EXPECT(value_bytes == expected_bytes, "value_bytes");
	EDIT_EXPECT(value_bytes <= bytes - EDIT_HEAD_BYTES, "bytes");
	edit.kind = (enum mt_edit_kind)in[0];
	rc = edit_decode_value(in + EDIT_HEAD_BYTES, value_bytes, &edit, ret_field);
	if (rc != 0)
		return rc;
	*ret_edit = edit;
	return (int)(EDIT_HEAD_BYTES + value_bytes);
}
