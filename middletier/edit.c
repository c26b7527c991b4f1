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
 *	CUT               u64 cut, u64 sequence
 *	CHECKPOINT_END    u64 sequence
 *	SUCCESSOR         u64 extent
 *	VOLUME            u64 id, u64 size_bytes, u64 segment_base, u64 attach, u64 session,
 *	                  u32 segment_count, i32 level, u8 service_class, u8 codec_id,
 *	                  u8 replica_count, u8 flags (1: deleted), u32 zero, name: 64 bytes, zeros
 *	                  behind it
 *	CLUSTER           u64 next_volume_id, u64 next_segment, u32 shard_count, u32 zero
 *
 * An extent is its packed id. A kind's value has one length: a longer one is another version, and
 * refused, because an edit that is not understood may not be skipped.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "internal.h"

#define EDIT_VERSION 1u
#define EDIT_HEAD_BYTES 4u
#define EDIT_OPENED_FIXED_BYTES 16u
#define EDIT_REPLICA_BYTES 16u
#define EDIT_REPLICA_DAMAGED 1u
#define EDIT_VOLUME_FIXED_BYTES 56u
#define EDIT_VOLUME_DELETED 1u

_Static_assert(EDIT_HEAD_BYTES + EDIT_OPENED_FIXED_BYTES + MT_REPLICAS_MAX * EDIT_REPLICA_BYTES <=
	MT_EDIT_BYTES_MAX,
    "the longest edit");
_Static_assert(EDIT_HEAD_BYTES + EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES <= MT_EDIT_BYTES_MAX,
    "another long one");

/* The order of these checks is the order in which a field is blamed. */
#define EDIT_EXPECT(condition, name)                                                               \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			*ret_field = (name);                                                       \
			return -EBADMSG;                                                           \
		}                                                                                  \
	} while (0)

static bool
edit_has_replicas(uint32_t kind)
{
	return kind == MT_EDIT_EXTENT_OPENED || kind == MT_EDIT_EXTENT_REPLICAS;
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
edit_put_volume(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_volume *volume = &edit->volume;

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
	edit_put_u32(writer, 0);
	memcpy(writer->at, volume->name, strnlen(volume->name, MT_NAME_BYTES));
	writer->at += MT_NAME_BYTES;
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
		break;
	default:
		assert(edit->kind >= MT_EDIT_EPOCH && edit->kind <= MT_EDIT_EXTENT_REPLICAS);
		edit_put_u64(&writer, extent_id_pack(&edit->id));
		if (edit_has_replicas(edit->kind))
			edit_put_replicas(&writer, edit);
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

/* What is wrong with the name is the metadata store's matter: here it must only be one text. */
static int
edit_decode_name(const uint8_t *in, struct mt_volume *volume, const char **ret_field)
{
	size_t bytes = strnlen((const char *)in, MT_NAME_BYTES);

	EDIT_EXPECT(bytes >= 1 && bytes < MT_NAME_BYTES, "name");
	for (size_t i = bytes; i < MT_NAME_BYTES; i++)
		EDIT_EXPECT(in[i] == 0, "name");
	memcpy(volume->name, in, MT_NAME_BYTES);
	return 0;
}

static int
edit_decode_volume(const uint8_t *value, struct mt_edit *edit, const char **ret_field)
{
	struct mt_volume *volume = &edit->volume;

	volume->id = num_get_le64(value);
	volume->size_bytes = num_get_le64(value + 8);
	volume->segment_base = num_get_le64(value + 16);
	volume->attach = num_get_le64(value + 24);
	volume->session_id = num_get_le64(value + 32);
	volume->segment_count = num_get_le32(value + 40);
	volume->level = (int)num_get_le32(value + 44);
	EDIT_EXPECT(volume->id != 0, "id");
	EDIT_EXPECT(volume->size_bytes >= CLEAVE_BLOCK_BYTES &&
		volume->size_bytes <= CLEAVE_VOLUME_BYTES_MAX,
	    "size_bytes");
	EDIT_EXPECT(volume->segment_count ==
		(volume->size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES,
	    "segment_count");
	EDIT_EXPECT(value[48] < SERVICE_CLASS_NR, "service_class");
	EDIT_EXPECT(value[50] >= 1 && value[50] <= MT_REPLICAS_MAX, "replica_count");
	EDIT_EXPECT((value[51] & ~EDIT_VOLUME_DELETED) == 0, "volume_flags");
	EDIT_EXPECT(num_get_le32(value + 52) == 0, "reserved");
	volume->service_class = (enum service_class)value[48];
	volume->codec_id = value[49];
	volume->replica_count = value[50];
	edit->is_deleted = (value[51] & EDIT_VOLUME_DELETED) != 0;
	return edit_decode_name(value + EDIT_VOLUME_FIXED_BYTES, volume, ret_field);
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
	return 0;
}

/* What a kind's value takes; that of replicas, which varies, says so itself. 0: no such kind. */
static uint32_t
edit_value_bytes(uint8_t kind, uint32_t bytes)
{
	static const uint8_t table[] = { [MT_EDIT_EPOCH] = 8,
		[MT_EDIT_EXTENT_SEALED] = 16,
		[MT_EDIT_EXTENT_DELETED] = 8,
		[MT_EDIT_RUN_ADDED] = 48,
		[MT_EDIT_RUN_REMOVED] = 24,
		[MT_EDIT_CUT] = 16,
		[MT_EDIT_CHECKPOINT_END] = 8,
		[MT_EDIT_SUCCESSOR] = 8,
		[MT_EDIT_VOLUME] = EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES,
		[MT_EDIT_CLUSTER] = 24 };

	if (edit_has_replicas(kind))
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
	case MT_EDIT_EXTENT_SEALED:
		rc = edit_decode_id(value, edit, ret_field);
		return rc != 0 ? rc : edit_decode_length(num_get_le64(value + 8), edit, ret_field);
	case MT_EDIT_RUN_ADDED:
	case MT_EDIT_RUN_REMOVED:
		return edit_decode_run(value, edit, ret_field);
	case MT_EDIT_CUT:
		edit->cut = num_get_le64(value);
		edit->sequence = num_get_le64(value + 8);
		return 0;
	case MT_EDIT_CHECKPOINT_END:
		edit->sequence = num_get_le64(value);
		return 0;
	case MT_EDIT_VOLUME:
		return edit_decode_volume(value, edit, ret_field);
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
	EDIT_EXPECT(expected_bytes != 0 || edit_has_replicas(in[0]), "kind");
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
