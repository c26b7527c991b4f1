/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- the bytes of an extent: batches of records, on the wire and on disk alike
 *
 * A batch is what one append carries. Gateways build it, storage nodes check it and write it as it
 * came, take-over and compaction read it. Little-endian; multiples of 4096 bytes; at most 256 KiB.
 *
 *	0            128                  128+desc_bytes         used_bytes      batch_bytes
 *	| header     | descriptors        | packed payloads      | zeros         |
 *	  from host memory (<= 16 KiB)      from device memory
 *
 * batch_crc covers bytes 0..123 of the header (so the extent's identity, the offset and the CRC of
 * the batch before it) and all descriptors, which in turn hold the CRC of each payload. A batch is
 * therefore good only at its place behind its predecessor. The first batch's prev_crc is the CRC of
 * the extent's identity (batch_chain_seed).
 *
 * A *log* batch has record descriptors. A *manifest* batch has edit bytes in their place (desc_bytes
 * of them, record_count edits, no payload): the gateway defines them (middletier/manifest/edit.h).
 * A *run* batch has record descriptors too, all of one chunk and in the order of their blocks: its
 * *frames*, up to 16 neighbouring blocks compressed together. Or it is a run's last, a *directory* of those before it
 * (batch_directory.h): bytes in the descriptors' place, no record, no payload.
 */
#ifndef CLEAVE_BATCH_H
#define CLEAVE_BATCH_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"

#define BATCH_MAGIC 0x48435442u /* "BTCH" */
#define BATCH_VERSION 1u
#define BATCH_HEADER_BYTES 128u
#define BATCH_HEAD_BYTES_MAX 16384u /* header + descriptors */
#define BATCH_BYTES_MAX (256u * 1024u)
#define BATCH_ALIGN 4096u
/*
 * Batches of an extent that are sent and not acknowledged. So a batch's mark is never more than the
 * three before it behind: what is acknowledged is known to the fourth batch after it at the latest, and a
 * node that looks for marks behind a broken batch looks that far.
 */
#define BATCH_IN_FLIGHT_MAX 4u
#define BATCH_RECORDS_MAX 400u
#define BATCH_DESC_FIXED_BYTES 40u
#define BATCH_DESC_BYTES_MAX (BATCH_DESC_FIXED_BYTES + 4u * ENGINE_RECORD_BLOCKS_MAX)

/* An extent's name: never used again once given. */
struct extent_id {
	uint32_t shard;
	uint32_t epoch;   /* under which it was created */
	uint64_t counter; /* within shard; grows */
};

enum extent_kind { EXTENT_LOG = 1, EXTENT_RUN = 2, EXTENT_MANIFEST = 3 };

#define BATCH_FORM_RECORDS 0u
#define BATCH_FORM_DIRECTORY                                                                       \
	1u /* in run extents alone; while the cluster is of CLEAVE_LEVEL_DIRECTORIES */

/* As stored; never copied raw beyond batch.c. */
struct batch_header_disk {
	uint32_t magic;            /*   0 */
	uint8_t version;           /*   4 */
	uint8_t kind;              /*   5 enum extent_kind */
	uint16_t record_count;     /*   6 */
	uint32_t shard;            /*   8 the extent's identity */
	uint32_t epoch;            /*  12 */
	uint64_t counter;          /*  16 */
	uint64_t offset_bytes;     /*  24 of this batch in the extent */
	uint64_t mark_bytes;       /*  32 length of the extent known acknowledged by all replicas */
	uint64_t base_sequence;    /*  40 shard sequence of the first record; one a record */
	uint64_t cut;              /*  48 snapshots taken of the shard so far */
	uint32_t batch_bytes;      /*  56 with padding */
	uint32_t used_bytes;       /*  60 without it */
	uint32_t desc_bytes;       /*  64 */
	uint32_t prev_crc;         /*  68 batch_crc of the batch before, or the seed */
	uint64_t chunk;            /*  72 run batches: the chunk (segment * 512 + index); else 0 */
	uint64_t flushed_sequence; /* 80 run batches: flushed to here; else 0 */
	uint8_t form;              /*  88 BATCH_FORM_* */
	uint8_t reserved[35];      /*  89 zeros */
	uint32_t batch_crc;        /* 124 */
} __attribute__((packed));
_Static_assert(sizeof(struct batch_header_disk) == BATCH_HEADER_BYTES, "batch header");

enum record_kind {
	RECORD_WRITE = 1,   /* blocks with content */
	RECORD_DISCARD = 2, /* tombstone: reads as zeros, space given back */
	RECORD_ZEROES = 3,  /* tombstone that stays allocated */
	RECORD_LOST = 4,    /* run batches: every copy of these blocks was bad; reads are EIO */
};

/* A record, decoded. On disk: 40 bytes fixed, then block_count CRCs for RECORD_WRITE. */
struct record_desc {
	uint8_t kind;          /*  0 enum record_kind */
	uint8_t codec_id;      /*  1; of an encrypted record with ENGINE_ENCRYPTED */
	uint16_t flags;        /*  2 zero */
	uint32_t stored_bytes; /* 4; 0 for tombstones */
	uint64_t segment;      /*  8 */
	uint32_t block;        /* 16 index of the first block in the segment */
	uint32_t block_count;  /* 20: 1..16 for writes, up to a chunk's for tombstones */
	uint32_t stored_crc;   /* 24 of the stored bytes */
	uint32_t attach;       /* 28 low bits of the session's attach number */
	uint64_t request_id;   /* 32 of the client, for tracing */
	uint32_t block_crcs[ENGINE_RECORD_BLOCKS_MAX]; /* 40; of an encrypted record zeros */
	/* Not stored: from decoding. */
	uint32_t payload_offset_bytes; /* in the batch */
	uint64_t sequence;
};

/* A batch header, decoded and checked. */
struct batch_info {
	struct extent_id id;
	enum extent_kind kind;
	uint32_t record_count;
	uint64_t offset_bytes, mark_bytes, base_sequence, cut, chunk, flushed_sequence;
	uint32_t batch_bytes, used_bytes, desc_bytes;
	uint32_t prev_crc, batch_crc;
	bool is_directory; /* record_count is 0 */
};

/* A checker's expectations, and its finds (ENGINE_JOB_BATCH, batch_check_run). */
struct batch_check {
	struct extent_id id;     /* in */
	enum extent_kind kind;   /* in */
	uint64_t offset_bytes;   /* in */
	uint32_t prev_crc;       /* in */
	bool must_check_payload; /* in: also each record's stored CRC */
	bool is_probe;           /* in: the head alone, whatever its predecessor was */
	bool is_unwalked; /* in: records are left to who walks them; their sum is not checked */
	struct batch_info info; /* out, valid when rc is 0 */
	const char *ret_field;  /* out: the field that is wrong, a static string; NULL: none */
};

/* batch_chain_seed -- prev_crc of the first batch of the extent @id: the CRC-32C of its identity and @kind. */
uint32_t batch_chain_seed(const struct extent_id *id, enum extent_kind kind);

/*
 * batch_check_run -- verify a batch that is wholly in memory
 *
 * @data: @bytes readable bytes; where they are device memory the caller has opened the guard. @check: its inputs
 * are set, its outputs are filled in.
 * Returns: 0; -ENODATA where there is no batch (no magic, or another extent's old bytes): the end of
 * a chain; -EBADMSG where a batch of this extent and offset is there but does not pass; -EMSGSIZE
 * where the batch is longer than @bytes (info.batch_bytes is then set, checked for its bounds).
 * Threads: any; so is everything here.
 */
int batch_check_run(const void *data, uint32_t bytes, struct batch_check *check);

/*
 * batch_head_check -- verify header and descriptors alone, for readers that have no more of a batch
 *
 * @head: @bytes of host memory, a header and what follows it. Returns as batch_check_run; -EMSGSIZE: the descriptors
 * are longer than @bytes.
 */
int batch_head_check(const void *head, uint32_t bytes, struct batch_check *check);

/*
 * batch_head_encode -- write header and CRC round descriptors already at @head + 128
 *
 * Fills every field from @info but batch_crc, which it computes, stores and returns in
 * @info->batch_crc. @info->batch_bytes must be used_bytes rounded up to 4096.
 */
void batch_head_encode(void *head, struct batch_info *info);

/* record_encode -- write the descriptor of @record, whose fields are in range, to @out. Returns its bytes. */
uint32_t record_encode(void *out, const struct record_desc *record);
/* record_encoded_bytes -- the bytes that record_encode writes: BATCH_DESC_BYTES_MAX at most. */
uint32_t record_encoded_bytes(const struct record_desc *record);

/* Walk the descriptors of a checked head. */
struct record_iter {
	const uint8_t *at;
	const uint8_t *end;
	uint32_t payload_offset_bytes;
	uint64_t sequence;
	uint32_t left_count;
};
/* record_iter_init -- walk @head, of a log or run batch (a directory has no record), borrowed while @it is used; @info: of its check. */
void record_iter_init(struct record_iter *it, const void *head, const struct batch_info *info);
/* record_iter_next -- 1 and *@ret_record; 0 at the end; -EBADMSG and *@ret_field, a static name: *@ret_record is anything then. */
int record_iter_next(struct record_iter *it, struct record_desc *ret_record,
    const char **ret_field);
/*
 * record_iter_skip_to -- of a run's batch: pass over the records in front of @block of the chunk
 *
 * record_iter_next has the first one that ends behind @block then. Of those that are passed over only what their lengths are
 * made of is looked at. 0, also at the end; -EBADMSG and *@ret_field: @it stands somewhere.
 */
int record_iter_skip_to(struct record_iter *it, uint32_t block, const char **ret_field);

#endif /* CLEAVE_BATCH_H */
