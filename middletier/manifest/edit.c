/* SPDX-License-Identifier: Apache-2.0 */
/* edit.c -- edits of a manifest as bytes; edit_layout.h says which */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "manifest/edit.h"
#include "manifest/edit_layout.h"

_Static_assert(EDIT_HEAD_BYTES + EDIT_OPENED_FIXED_BYTES + MT_REPLICAS_MAX * EDIT_REPLICA_BYTES <=
	MT_EDIT_BYTES_MAX,
    "the longest edit");
_Static_assert(EDIT_HEAD_BYTES + EDIT_VOLUME_FIXED_BYTES + MT_NAME_BYTES + EDIT_ORIGIN_BYTES +
	    MT_SPANS_MAX * EDIT_SPAN_BYTES + EDIT_TRASH_BYTES + EDIT_LIMITS_BYTES +
	    EDIT_KEY_ID_BYTES <=
	MT_EDIT_BYTES_MAX,
    "another long one");
_Static_assert(EDIT_HEAD_BYTES + EDIT_DATA_KEY_FIXED_BYTES + MT_KEK_NAME_BYTES +
	    MT_WRAPPED_BYTES_MAX <=
	MT_EDIT_BYTES_MAX,
    "another long one");

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
	assert(edit->kind == MT_EDIT_RUN_ADDED || edit->kind == MT_EDIT_RUN_REMOVED);
	edit_put_u64(writer, edit->chunk);
	edit_put_u64(writer, edit->offset_bytes);
	if (edit->kind != MT_EDIT_RUN_ADDED)
		return;
	edit_put_u64(writer, edit->length_bytes);
	edit_put_u64(writer, edit->flushed_sequence);
	edit_put_u64(writer, edit->cut);
	if (edit->directory_bytes == 0)
		return;
	edit_put_u32(writer, edit->directory_bytes);
	edit_put_u32(writer, edit->directory_crc);
}

static void
edit_put_spans(struct edit_writer *writer, const struct mt_scope *scope)
{
	assert(scope->span_count <= MT_SPANS_MAX);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		edit_put_u64(writer, scope->spans[i].segment_base);
		edit_put_u64(writer, scope->spans[i].cut_from);
		edit_put_u64(writer, scope->spans[i].cut_below);
	}
}

static void
edit_put_name(struct edit_writer *writer, const char *name)
{
	assert(strnlen(name, MT_NAME_BYTES) < MT_NAME_BYTES);
	memcpy(writer->at, name, strnlen(name, MT_NAME_BYTES));
	writer->at += MT_NAME_BYTES;
}

static void
edit_put_snapshot(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_snapshot *snapshot = &edit->snapshot;

	assert(edit->kind == MT_EDIT_SNAPSHOT);
	assert(snapshot->scope.span_count <= MT_SPANS_MAX);
	edit_put_u64(writer, snapshot->number);
	edit_put_u64(writer, snapshot->volume_id);
	edit_put_u64(writer, snapshot->size_bytes);
	edit_put_u64(writer, snapshot->segment_base);
	edit_put_u64(writer, snapshot->created_s);
	edit_put_u32(writer, snapshot->segment_count);
	edit_put_u32(writer, snapshot->clone_count);
	*writer->at++ = (uint8_t)snapshot->state;
	*writer->at++ = (uint8_t)((edit->is_deleted ? EDIT_VOLUME_DELETED : 0) |
	    (snapshot->is_protected ? EDIT_SNAPSHOT_PROTECTED : 0));
	*writer->at++ = (uint8_t)snapshot->scope.span_count;
	/* The place among those that were taken together, from 1 on. */
	*writer->at++ =
	    (uint8_t)(snapshot->group == 0 ? 0 : snapshot->number - snapshot->group + 1);
	writer->at += 4;
	edit_put_name(writer, snapshot->name);
	edit_put_spans(writer, &snapshot->scope);
}

static void
edit_put_volume(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_volume *volume = &edit->volume;
	bool is_plain = mt_scope_is_plain(&volume->scope, volume->segment_base);
	bool is_trashed = mt_volume_is_trashed(volume), is_limited = mt_qos_is_any(&volume->limits);

	assert(edit->kind == MT_EDIT_VOLUME);
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
	*writer->at++ = (uint8_t)((edit->is_deleted ? EDIT_VOLUME_DELETED : 0) |
	    (is_trashed ? EDIT_VOLUME_TRASHED : 0) | (is_limited ? EDIT_VOLUME_LIMITED : 0) |
	    (volume->key_id != 0 ? EDIT_VOLUME_ENCRYPTED : 0) |
	    (unsigned)volume->reads << EDIT_VOLUME_READS_SHIFT);
	*writer->at = (uint8_t)(is_plain ? 0 : volume->scope.span_count);
	writer->at += 4;
	edit_put_name(writer, is_trashed ? volume->trash.name : volume->name);
	if (!is_plain) {
		edit_put_u64(writer, volume->origin);
		edit_put_spans(writer, &volume->scope);
	}
	if (is_trashed) {
		edit_put_u64(writer, volume->trash.deleted_s);
		edit_put_u64(writer, volume->trash.keep_ms);
		edit_put_u64(writer, volume->trash.left_ms);
	}
	for (uint32_t i = 0; is_limited && i < MT_LIMIT_COUNT; i++)
		edit_put_u64(writer, ((const uint64_t *)&volume->limits)[i]);
	if (volume->key_id != 0)
		edit_put_u32(writer, volume->key_id);
}

static void
edit_put_data_key(struct edit_writer *writer, const struct mt_edit *edit)
{
	const struct mt_data_key *data_key = &edit->data_key;

	assert(edit->kind == MT_EDIT_DATA_KEY);
	assert(data_key->wrapped_bytes >= 1 && data_key->wrapped_bytes <= MT_WRAPPED_BYTES_MAX);
	edit_put_u64(writer, data_key->id);
	edit_put_u64(writer, data_key->volume);
	*writer->at++ = (uint8_t)data_key->state;
	*writer->at++ = edit->is_deleted ? EDIT_DELETED : 0;
	num_put_le16(writer->at, (uint16_t)data_key->wrapped_bytes);
	writer->at += 2;
	edit_put_u32(writer, 0);
	memcpy(writer->at, data_key->kek, strnlen(data_key->kek, MT_KEK_NAME_BYTES - 1));
	writer->at += MT_KEK_NAME_BYTES;
	memcpy(writer->at, data_key->wrapped, data_key->wrapped_bytes);
	writer->at += data_key->wrapped_bytes;
}

static void
edit_put_sealed_name(struct edit_writer *writer, const struct mt_edit *edit)
{
	assert(edit->kind == MT_EDIT_NAME);
	edit_put_u64(writer, edit->name.number);
	edit_put_u32(writer, edit->name.key_id);
	*writer->at = edit->is_deleted ? EDIT_DELETED : 0;
	writer->at += 4;
	memcpy(writer->at, edit->name.sealed, MT_SEALED_NAME_BYTES);
	writer->at += MT_SEALED_NAME_BYTES;
}

static void
edit_put_cluster(struct edit_writer *writer, const struct mt_edit *edit)
{
	assert(edit->kind == MT_EDIT_CLUSTER);
	edit_put_u64(writer, edit->next_volume_id);
	edit_put_u64(writer, edit->next_segment);
	edit_put_u32(writer, edit->shard_count);
	edit_put_u32(writer, edit->level);
	edit_put_u64(writer, edit->next_snapshot);
	edit_put_u64(writer, edit->next_clone);
	if (edit->next_key != 0)
		edit_put_u64(writer, edit->next_key);
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
		edit_put_cluster(&writer, edit);
		break;
	case MT_EDIT_DATA_KEY:
		edit_put_data_key(&writer, edit);
		break;
	case MT_EDIT_NAME:
		edit_put_sealed_name(&writer, edit);
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
