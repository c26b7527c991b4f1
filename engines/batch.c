/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c -- the bytes of batches and records: the only code that knows their layout
 *
 * batch.h tells what a batch is. A check runs from the outside in, and the order gives each outcome its
 * meaning:
 *
 *	magic, identity          -ENODATA   another extent's bytes, or none: the end of a chain
 *	place, shape             -EBADMSG   ours, yet wrong: damage, or a write that went astray
 *	fits into what was given -EMSGSIZE  read more, then ask again
 *	CRC, reserved, records   -EBADMSG
 *	payload, padding         -EBADMSG
 *
 * Every size is checked against its bound before it takes part in arithmetic; after
 * batch_sizes_wrong_field no sum can wrap. The first field that is wrong is named, by a static string.
 *
 * The records' own checks live in record_iter_next, so that whoever walks the descriptors runs them.
 */
#include "cleave/batch.h"
#include "base/mutant.h"
#include "cleave/batch_directory.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

#define SEGMENT_BLOCKS (8u * 1024u * 1024u) /* of 4 KiB: 32 GiB */
#define CHUNK_BLOCKS (16u * 1024u)          /* of 4 KiB: 64 MiB */
#define SEGMENT_CHUNKS (SEGMENT_BLOCKS / CHUNK_BLOCKS)
#define SEGMENT_MAX (UINT64_MAX / SEGMENT_CHUNKS) /* a chunk's number fits 64 bits */

#define HEADER_CRC_BYTES offsetof(struct batch_header_disk, batch_crc)

_Static_assert(offsetof(struct batch_header_disk, shard) == 8, "batch header");
_Static_assert(offsetof(struct batch_header_disk, offset_bytes) == 24, "batch header");
_Static_assert(offsetof(struct batch_header_disk, batch_bytes) == 56, "batch header");
_Static_assert(offsetof(struct batch_header_disk, chunk) == 72, "batch header");
_Static_assert(offsetof(struct batch_header_disk, form) == 88, "batch header");
_Static_assert(offsetof(struct batch_header_disk, batch_crc) == 124, "batch header");

/* A record's fixed part, as stored. */
struct record_disk {
	uint8_t kind;
	uint8_t codec_id;
	uint16_t flags;
	uint32_t stored_bytes;
	uint64_t segment;
	uint32_t block;
	uint32_t block_count;
	uint32_t stored_crc;
	uint32_t attach;
	uint64_t request_id;
} __attribute__((packed));
_Static_assert(sizeof(struct record_disk) == BATCH_DESC_FIXED_BYTES, "record");
_Static_assert(offsetof(struct record_disk, segment) == 8, "record");
_Static_assert(offsetof(struct record_disk, request_id) == 32, "record");

static int
refuse(const char **ret_field, const char *field)
{
	assert(field != NULL);
	*ret_field = field;
	return -EBADMSG;
}

uint32_t
batch_chain_seed(const struct extent_id *id, enum extent_kind kind)
{
	uint8_t identity[20];

	assert(kind >= EXTENT_LOG);
	assert(kind <= EXTENT_MANIFEST);
	num_put_le32(identity + 0, id->shard);
	num_put_le32(identity + 4, id->epoch);
	num_put_le64(identity + 8, id->counter);
	num_put_le32(identity + 16, (uint32_t)kind);
	return crc32c(0, identity, sizeof(identity));
}

static uint32_t
batch_crc_of(const uint8_t *head, uint32_t desc_bytes)
{
	uint32_t crc = crc32c(0, head, HEADER_CRC_BYTES);

	assert(desc_bytes <= BATCH_HEAD_BYTES_MAX - BATCH_HEADER_BYTES);
	return crc32c(crc, head + BATCH_HEADER_BYTES, desc_bytes);
}

/* ---- records ---- */

static bool
record_is_encrypted(const struct record_desc *record)
{
	return (record->codec_id & ENGINE_ENCRYPTED) != 0;
}

/* Block CRCs of an encrypted record are in its envelope, and zeros here: they would tell what was written. */
static const char *
record_crcs_field(const struct record_desc *record)
{
	uint32_t any = 0;

	if (record->kind != RECORD_WRITE || !record_is_encrypted(record))
		return NULL;
	assert(record->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	for (uint32_t i = 0; i < record->block_count; i++)
		any |= record->block_crcs[i];
	return any == 0 || MUTANT(crcs_kept) ? NULL : "block_crcs";
}

static const char *
record_write_field(const struct record_desc *record)
{
	uint32_t bytes_min = 1, bytes_max;

	assert(record->kind == RECORD_WRITE);
	if (record->block_count < 1 || record->block_count > ENGINE_RECORD_BLOCKS_MAX)
		return "block_count";
	bytes_max = record->block_count * CLEAVE_BLOCK_BYTES;
	if (engine_by_id(ENGINE_CODEC(record->codec_id)) == NULL)
		return "codec_id";
	if (record_is_encrypted(record)) {
		bytes_min += ENGINE_ENVELOPE_BYTES(record->block_count);
		bytes_max += ENGINE_ENVELOPE_BYTES(record->block_count);
	}
	if (ENGINE_CODEC(record->codec_id) == ENGINE_NONE)
		bytes_min = bytes_max;
	if (record->stored_bytes < bytes_min || record->stored_bytes > bytes_max)
		return "stored_bytes";
	return NULL;
}

static const char *
record_tombstone_field(const struct record_desc *record)
{
	assert(record->kind != RECORD_WRITE);
	if (record->block_count < 1 || record->block_count > CHUNK_BLOCKS)
		return "block_count";
	if (record->codec_id != ENGINE_NONE)
		return "codec_id";
	if (record->stored_bytes != 0)
		return "stored_bytes";
	if (record->stored_crc != 0)
		return "stored_crc";
	return NULL;
}

/* The first field that is out of range, or NULL. */
static const char *
record_wrong_field(const struct record_desc *record)
{
	const char *field;

	switch (record->kind) {
	case RECORD_WRITE:
		field = record_write_field(record);
		break;
	case RECORD_DISCARD:
	case RECORD_ZEROES:
	case RECORD_LOST:
		field = record_tombstone_field(record);
		break;
	default:
		return "record_kind";
	}
	if (field != NULL)
		return field;
	if (record->flags != 0)
		return "record_flags";
	if (record->segment > SEGMENT_MAX)
		return "segment";
	if (record->block >= SEGMENT_BLOCKS)
		return "block";
	/* Within a chunk is within the segment: a segment is whole chunks. */
	if (record->block % CHUNK_BLOCKS + record->block_count > CHUNK_BLOCKS)
		return "block_count";
	return NULL;
}

static uint32_t
record_crcs_count(const struct record_desc *record)
{
	assert(record->kind != RECORD_WRITE || record->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	return record->kind == RECORD_WRITE ? record->block_count : 0;
}

uint32_t
record_encoded_bytes(const struct record_desc *record)
{
	return BATCH_DESC_FIXED_BYTES + 4 * record_crcs_count(record);
}

uint32_t
record_encode(void *out, const struct record_desc *record)
{
	uint8_t *crcs = (uint8_t *)out + BATCH_DESC_FIXED_BYTES;
	struct record_disk disk = {
		.kind = record->kind,
		.codec_id = record->codec_id,
		.flags = htole16(record->flags),
		.stored_bytes = htole32(record->stored_bytes),
		.segment = htole64(record->segment),
		.block = htole32(record->block),
		.block_count = htole32(record->block_count),
		.stored_crc = htole32(record->stored_crc),
		.attach = htole32(record->attach),
		.request_id = htole64(record->request_id),
	};

	assert(record_wrong_field(record) == NULL);
	assert(record_crcs_field(record) == NULL);
	memcpy(out, &disk, sizeof(disk));
	for (uint32_t i = 0; i < record_crcs_count(record); i++)
		num_put_le32(crcs + 4 * i, record->block_crcs[i]);
	return record_encoded_bytes(record);
}

static void
record_decode_fixed(const uint8_t *at, struct record_desc *ret_record)
{
	struct record_disk disk;

	memcpy(&disk, at, sizeof(disk));
	*ret_record = (struct record_desc){
		.kind = disk.kind,
		.codec_id = disk.codec_id,
		.flags = le16toh(disk.flags),
		.stored_bytes = le32toh(disk.stored_bytes),
		.segment = le64toh(disk.segment),
		.block = le32toh(disk.block),
		.block_count = le32toh(disk.block_count),
		.stored_crc = le32toh(disk.stored_crc),
		.attach = le32toh(disk.attach),
		.request_id = le64toh(disk.request_id),
	};
}

void
record_iter_init(struct record_iter *it, const void *head, const struct batch_info *info)
{
	const uint8_t *descs = (const uint8_t *)head + BATCH_HEADER_BYTES;

	assert(info->kind != EXTENT_MANIFEST); /* edits are the gateway's to decode */
	assert(info->desc_bytes <= BATCH_HEAD_BYTES_MAX - BATCH_HEADER_BYTES);
	assert(info->record_count <= BATCH_RECORDS_MAX);
	*it = (struct record_iter){
		.at = descs,
		.end = descs + (info->is_directory ? 0 : info->desc_bytes),
		.payload_offset_bytes = BATCH_HEADER_BYTES + info->desc_bytes,
		.sequence = info->base_sequence,
		.left_count = info->record_count,
	};
}

int
record_iter_next(struct record_iter *it, struct record_desc *ret_record, const char **ret_field)
{
	struct record_desc *record = ret_record;
	size_t left_bytes = (size_t)(it->end - it->at);
	const char *field;

	assert(it->at <= it->end);
	if (it->left_count == 0)
		return left_bytes == 0 ? 0 : refuse(ret_field, "desc_bytes");
	if (left_bytes < BATCH_DESC_FIXED_BYTES)
		return refuse(ret_field, "record_count");
	record_decode_fixed(it->at, record);
	field = record_wrong_field(record);
	if (field != NULL)
		return refuse(ret_field, field);
	if (left_bytes < record_encoded_bytes(record))
		return refuse(ret_field, "desc_bytes");
	for (uint32_t i = 0; i < record_crcs_count(record); i++)
		record->block_crcs[i] = num_get_le32(it->at + BATCH_DESC_FIXED_BYTES + 4 * i);
	field = record_crcs_field(record);
	if (field != NULL)
		return refuse(ret_field, field);
	record->payload_offset_bytes = it->payload_offset_bytes;
	record->sequence = it->sequence;

	/* At most BATCH_RECORDS_MAX records of 64 KiB: the sum cannot wrap. */
	it->payload_offset_bytes += record->stored_bytes;
	it->sequence++;
	it->at += record_encoded_bytes(record);
	it->left_count--;
	return 1;
}

int
record_iter_skip_to(struct record_iter *it, uint32_t block, const char **ret_field)
{
	assert(block < CHUNK_BLOCKS);
	while (it->left_count > 0) {
		size_t left_bytes = (size_t)(it->end - it->at), bytes = BATCH_DESC_FIXED_BYTES;
		uint32_t stored_bytes, block_count;

		if (left_bytes < BATCH_DESC_FIXED_BYTES)
			return refuse(ret_field, "record_count");
		stored_bytes = num_get_le32(it->at + offsetof(struct record_disk, stored_bytes));
		block_count = num_get_le32(it->at + offsetof(struct record_disk, block_count));
		if (block_count > CHUNK_BLOCKS)
			return refuse(ret_field, "block_count");
		if (num_get_le32(it->at + offsetof(struct record_disk, block)) % CHUNK_BLOCKS +
			block_count >
		    block)
			return 0;
		if (it->at[offsetof(struct record_disk, kind)] == RECORD_WRITE)
			bytes += 4 * (size_t)block_count;
		if (left_bytes < bytes)
			return refuse(ret_field, "desc_bytes");
		/* So many records of a batch's bytes at most: the sum cannot wrap. */
		if (stored_bytes > BATCH_BYTES_MAX)
			return refuse(ret_field, "stored_bytes");
		it->payload_offset_bytes += stored_bytes;
		it->sequence++;
		it->at += bytes;
		it->left_count--;
	}
	return 0;
}

/* ---- heads ---- */

static void
batch_header_decode(const struct batch_header_disk *disk, struct batch_info *ret_info)
{
	*ret_info = (struct batch_info){
		.id = { .shard = le32toh(disk->shard),
		    .epoch = le32toh(disk->epoch),
		    .counter = le64toh(disk->counter) },
		.kind = (enum extent_kind)disk->kind,
		.record_count = le16toh(disk->record_count),
		.offset_bytes = le64toh(disk->offset_bytes),
		.mark_bytes = le64toh(disk->mark_bytes),
		.base_sequence = le64toh(disk->base_sequence),
		.cut = le64toh(disk->cut),
		.chunk = le64toh(disk->chunk),
		.flushed_sequence = le64toh(disk->flushed_sequence),
		.batch_bytes = le32toh(disk->batch_bytes),
		.used_bytes = le32toh(disk->used_bytes),
		.desc_bytes = le32toh(disk->desc_bytes),
		.prev_crc = le32toh(disk->prev_crc),
		.batch_crc = le32toh(disk->batch_crc),
		.is_directory = disk->form == BATCH_FORM_DIRECTORY,
	};
}

static bool
batch_kind_is_known(enum extent_kind kind)
{
	return kind == EXTENT_LOG || kind == EXTENT_RUN || kind == EXTENT_MANIFEST;
}

/* Sizes against their bounds and each other. The first wrong field, or NULL. */
static const char *
batch_sizes_wrong_field(const struct batch_info *info)
{
	uint32_t head_bytes;

	if (info->desc_bytes > BATCH_HEAD_BYTES_MAX - BATCH_HEADER_BYTES)
		return "desc_bytes";
	head_bytes = BATCH_HEADER_BYTES + info->desc_bytes;
	if (info->used_bytes < head_bytes || info->used_bytes > BATCH_BYTES_MAX)
		return "used_bytes";
	if (info->batch_bytes != num_round_up(info->used_bytes, BATCH_ALIGN))
		return "batch_bytes";
	if (info->kind == EXTENT_MANIFEST || info->is_directory)
		return info->used_bytes == head_bytes ? NULL : "used_bytes";
	if (info->record_count > BATCH_RECORDS_MAX)
		return "record_count";
	return NULL;
}

/* The first field that is wrong for the batch's kind, or NULL. */
static const char *
batch_kind_wrong_field(const struct batch_info *info)
{
	if (info->mark_bytes > info->offset_bytes)
		return "mark_bytes"; /* nobody can have acknowledged this batch yet */
	if (info->base_sequence > UINT64_MAX - info->record_count)
		return "base_sequence";
	if (info->kind != EXTENT_RUN && info->chunk != 0)
		return "chunk";
	if (info->kind != EXTENT_RUN && info->flushed_sequence != 0)
		return "flushed_sequence";
	return NULL;
}

/* A directory is of batches before it, up to the one right in front of it. */
static int
batch_directory_check(const uint8_t *head, const struct batch_info *info, const char **ret_field)
{
	struct batch_directory directory;
	struct batch_place last;
	int rc;

	if (info->record_count != 0)
		return refuse(ret_field, "record_count");
	rc = batch_directory_decode(head + BATCH_HEADER_BYTES, info->desc_bytes, &directory,
	    ret_field);
	if (rc != 0)
		return rc;
	batch_directory_place(&directory, directory.entry_count - 1, &last);
	if (last.batch_crc != info->prev_crc)
		return refuse(ret_field, "directory_crc");
	if ((uint64_t)last.offset_bytes + last.head_bytes > info->offset_bytes)
		return refuse(ret_field, "directory_offset");
	return 0;
}

/* The payload of @record is within the batch at @data, and has its CRC. */
static bool
record_payload_is_good(const uint8_t *data, const struct batch_info *info,
    const struct record_desc *record)
{
	return record->payload_offset_bytes + record->stored_bytes <= info->used_bytes &&
	    crc32c(0, data + record->payload_offset_bytes, record->stored_bytes) ==
	    record->stored_crc;
}

/*
 * The walk over all records: each in range, all in the run's chunk, their payloads fill the batch. With @has_payload all of
 * the batch is behind @head, and the CRC of each payload is checked on the way: the last that is named, for where a
 * payload is depends on all fields before it.
 */
static int
batch_records_check(const uint8_t *head, const struct batch_info *info, bool has_payload,
    const char **ret_field)
{
	struct record_iter it;
	struct record_desc record;
	bool is_good = true;
	int rc;

	if (info->kind == EXTENT_MANIFEST)
		return 0;
	if (info->is_directory)
		return batch_directory_check(head, info, ret_field);
	record_iter_init(&it, head, info);
	while ((rc = record_iter_next(&it, &record, ret_field)) == 1) {
		uint64_t chunk = record.segment * SEGMENT_CHUNKS + record.block / CHUNK_BLOCKS;

		if (info->kind == EXTENT_RUN && chunk != info->chunk)
			return refuse(ret_field, "chunk");
		if (has_payload && is_good)
			is_good = record_payload_is_good(head, info, &record);
	}
	if (rc != 0)
		return rc;
	if (it.payload_offset_bytes != info->used_bytes)
		return refuse(ret_field, "used_bytes");
	return is_good ? 0 : refuse(ret_field, "stored_crc");
}

static bool
batch_id_matches(const struct extent_id *a, const struct extent_id *b)
{
	return a->shard == b->shard && a->epoch == b->epoch && a->counter == b->counter;
}

/* Check the header alone, up to where its sizes can be trusted. Returns as batch_check_run. */
static int
batch_header_check(const struct batch_header_disk *disk, struct batch_check *check)
{
	struct batch_info *info = &check->info;
	const char *field;

	batch_header_decode(disk, info);
	if (le32toh(disk->magic) != BATCH_MAGIC) {
		check->ret_field = "magic";
		return -ENODATA;
	}
	if (!batch_id_matches(&info->id, &check->id) && !MUTANT(slot_trusted)) {
		check->ret_field = "extent_id";
		return -ENODATA;
	}
	if (disk->version != BATCH_VERSION)
		return refuse(&check->ret_field, "version");
	if (info->kind != check->kind || !batch_kind_is_known(info->kind))
		return refuse(&check->ret_field, "kind");
	if (disk->form > (info->kind == EXTENT_RUN ? BATCH_FORM_DIRECTORY : BATCH_FORM_RECORDS))
		return refuse(&check->ret_field, "form");
	if (info->offset_bytes != check->offset_bytes)
		return refuse(&check->ret_field, "offset_bytes");
	if (!check->is_probe && info->prev_crc != check->prev_crc && !MUTANT(slot_trusted))
		return refuse(&check->ret_field, "prev_crc");
	field = batch_sizes_wrong_field(info);
	if (field != NULL)
		return refuse(&check->ret_field, field);
	return 0;
}

/* Header, CRC and records. @must_be_whole: all of the batch has to be within @bytes. */
static int
batch_head_check_within(const uint8_t *head, uint32_t bytes, bool must_be_whole,
    struct batch_check *check)
{
	static const uint8_t zeros[sizeof(((struct batch_header_disk *)0)->reserved)];
	struct batch_header_disk disk;
	struct batch_info *info = &check->info;
	const char *field;
	int rc;

	check->ret_field = NULL;
	if (bytes < BATCH_HEADER_BYTES) {
		check->ret_field = "bytes";
		return -ENODATA; /* too little for any batch */
	}
	memcpy(&disk, head, sizeof(disk));
	rc = batch_header_check(&disk, check);
	if (rc != 0)
		return rc;
	assert(info->batch_bytes <= BATCH_BYTES_MAX);
	if (bytes < (must_be_whole ? info->batch_bytes : BATCH_HEADER_BYTES + info->desc_bytes)) {
		check->ret_field = "bytes";
		return -EMSGSIZE;
	}
	if (batch_crc_of(head, info->desc_bytes) != info->batch_crc)
		return refuse(&check->ret_field, "batch_crc");
	if (memcmp(disk.reserved, zeros, sizeof(zeros)) != 0)
		return refuse(&check->ret_field, "reserved");
	field = batch_kind_wrong_field(info);
	if (field != NULL)
		return refuse(&check->ret_field, field);
	if (check->is_unwalked && !must_be_whole && !info->is_directory)
		return 0;
	return batch_records_check(head, info,
	    must_be_whole && check->must_check_payload && !check->is_probe, &check->ret_field);
}

int
batch_head_check(const void *head, uint32_t bytes, struct batch_check *check)
{
	return batch_head_check_within(head, bytes, false, check);
}

static int
batch_padding_check(const uint8_t *data, struct batch_check *check)
{
	static const uint8_t zeros[BATCH_ALIGN];
	uint32_t padding_bytes = check->info.batch_bytes - check->info.used_bytes;

	assert(padding_bytes < BATCH_ALIGN);
	assert(check->info.used_bytes <= check->info.batch_bytes);
	if (memcmp(data + check->info.used_bytes, zeros, padding_bytes) != 0)
		return refuse(&check->ret_field, "padding");
	return 0;
}

int
batch_check_run(const void *data, uint32_t bytes, struct batch_check *check)
{
	int rc = batch_head_check_within(data, bytes, !check->is_probe, check);

	if (rc != 0 || check->is_probe)
		return rc;
	assert(check->info.batch_bytes <= bytes);
	return batch_padding_check(data, check);
}

void
batch_head_encode(void *head, struct batch_info *info)
{
	struct batch_header_disk disk = {
		.magic = htole32(BATCH_MAGIC),
		.version = BATCH_VERSION,
		.kind = (uint8_t)info->kind,
		.record_count = htole16((uint16_t)info->record_count),
		.shard = htole32(info->id.shard),
		.epoch = htole32(info->id.epoch),
		.counter = htole64(info->id.counter),
		.offset_bytes = htole64(info->offset_bytes),
		.mark_bytes = htole64(info->mark_bytes),
		.base_sequence = htole64(info->base_sequence),
		.cut = htole64(info->cut),
		.batch_bytes = htole32(info->batch_bytes),
		.used_bytes = htole32(info->used_bytes),
		.desc_bytes = htole32(info->desc_bytes),
		.prev_crc = htole32(info->prev_crc),
		.chunk = htole64(info->chunk),
		.flushed_sequence = htole64(info->flushed_sequence),
		.form = info->is_directory ? BATCH_FORM_DIRECTORY : BATCH_FORM_RECORDS,
	};

	assert(batch_kind_is_known(info->kind));
	assert(!info->is_directory || info->kind == EXTENT_RUN);
	assert(info->record_count <= UINT16_MAX);
	assert(batch_sizes_wrong_field(info) == NULL);
	assert(batch_kind_wrong_field(info) == NULL);
	memcpy(head, &disk, sizeof(disk));
	info->batch_crc = batch_crc_of(head, info->desc_bytes);
	num_put_le32((uint8_t *)head + HEADER_CRC_BYTES, info->batch_crc);
}
