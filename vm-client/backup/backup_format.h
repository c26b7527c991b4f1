/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_format.h -- the bytes of a backup file: its header, its frames, its end; FORMAT.md has the picture
 *
 * All numbers are little-endian. Each decoder takes any bytes: what it lets through is within these bounds, and means
 * one thing.
 */
#ifndef CLEAVE_BACKUP_FORMAT_H
#define CLEAVE_BACKUP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/units.h"

#define BACKUP_MAGIC "CLEAVEBK" /* a file begins with it */
#define BACKUP_VERSION 1u
#define BACKUP_HEADER_BYTES 512u
#define BACKUP_FRAME_HEADER_BYTES 64u
#define BACKUP_RANGE_BYTES 16u
#define BACKUP_RANGES_MAX 256u /* so many single blocks are BACKUP_DATA_BYTES_MAX */
#define BACKUP_DATA_BYTES_MAX                                                                      \
	(1024u * 1024u) /* of a frame: what is read, written, compressed at once */
#define BACKUP_PLAIN_BYTES_MAX (BACKUP_RANGES_MAX * BACKUP_RANGE_BYTES + BACKUP_DATA_BYTES_MAX)
#define BACKUP_CRC_BYTES 4u /* the last of each head and of the end: of what stands before in it */
#define BACKUP_ID_BYTES 16u
#define BACKUP_NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1u)
#define BACKUP_ENGINE_BYTES 16u
#define BACKUP_ERROR_BYTES 512u

/* A snapshot, whatever it is called by now: a cluster gives no number twice. All zero: none. */
struct backup_point {
	uint64_t cluster_id;
	uint64_t volume_id;
	uint64_t number;
	uint64_t taken_s; /* seconds since 1970 */
};

/* The head of a file. */
struct backup_header {
	uint8_t id[BACKUP_ID_BYTES]; /* random, for this file alone */
	struct backup_point point;   /* what is backed up */
	struct backup_point parent;  /* what it is told apart from; none: it is full */
	uint64_t created_s;          /* when the backup was begun */
	uint64_t size_bytes;         /* of the volume, in the snapshot */
	uint32_t service_class, replicas;
	int32_t level;
	char engine[BACKUP_ENGINE_BYTES];
	char volume[BACKUP_NAME_BYTES], snapshot[BACKUP_NAME_BYTES];
	char parent_snapshot[BACKUP_NAME_BYTES]; /* "": it is full */
};

/* A stretch of the volume, all data or all zeros. */
struct backup_range {
	uint64_t offset_bytes, length_bytes; /* of whole blocks; no byte is in two of a file */
	const uint8_t *data;                 /* NULL: it reads as zeros, nothing is stored */
};

/* All that changed within a stretch of the volume: what no range names has not. */
struct backup_frame {
	uint64_t from_bytes, to_bytes;
	uint32_t range_count;
	struct backup_range ranges[BACKUP_RANGES_MAX]; /* by rising offset */
};

/* The 64 bytes before a frame's stored bytes. */
struct backup_frame_header {
	uint64_t index; /* 0, 1 ... of the file */
	uint64_t from_bytes, to_bytes;
	uint32_t range_count;
	uint32_t plain_bytes;  /* the table of ranges, and their data */
	uint32_t stored_bytes; /* the same as plain_bytes: as it is; else one zstd frame */
	uint32_t plain_crc, stored_crc;
	/*
	 * CRC of all that stands before in the file, without the CRCs that heads end with: one over its own
	 * is the same for all.
	 */
	uint32_t chain_crc;
};

/* The last 64 bytes. */
struct backup_end {
	uint64_t frame_count, data_bytes, zero_bytes;
	uint32_t chain_crc; /* likewise */
};

enum backup_part { BACKUP_FRAME, BACKUP_END };

bool backup_is_full(const struct backup_header *header);
bool backup_point_is_same(const struct backup_point *a, const struct backup_point *b);

/*
 * backup_header_encode, backup_header_decode -- the file's head
 *
 * Returns 0; decode: -EBADMSG after a text for people in @ret_error, of BACKUP_ERROR_BYTES.
 */
void backup_header_encode(const struct backup_header *header, uint8_t bytes[BACKUP_HEADER_BYTES]);
int backup_header_decode(const uint8_t bytes[BACKUP_HEADER_BYTES], struct backup_header *ret_header,
    char *ret_error);

/*
 * backup_part_decode -- the 64 bytes behind the head or a frame: which of both it is
 *
 * That it stands where it belongs (index, chain_crc, from_bytes) is the reader's to check.
 * Returns 0, *@ret_part and the struct of that; -EBADMSG after a text.
 */
int backup_part_decode(const uint8_t bytes[BACKUP_FRAME_HEADER_BYTES], enum backup_part *ret_part,
    struct backup_frame_header *ret_frame, struct backup_end *ret_end, char *ret_error);
void backup_frame_header_encode(const struct backup_frame_header *frame,
    uint8_t bytes[BACKUP_FRAME_HEADER_BYTES]);
void backup_end_encode(const struct backup_end *end, uint8_t bytes[BACKUP_FRAME_HEADER_BYTES]);

/* backup_frame_plain -- a frame's table and data into @plain, of BACKUP_PLAIN_BYTES_MAX; how many bytes. */
uint32_t backup_frame_plain(const struct backup_frame *frame, uint8_t *plain);
/*
 * backup_frame_decode -- a frame out of its plain bytes, whose CRC is right
 *
 * @is_full: it has to name every byte from from_bytes to to_bytes.
 * Ownership: data of @ret_frame's ranges lie in @plain.
 * Returns 0; -EBADMSG after a text.
 */
int backup_frame_decode(const struct backup_frame_header *header, const uint8_t *plain,
    bool is_full, struct backup_frame *ret_frame, char *ret_error);

/* backup_frame_check -- is it what a file may have? 0, or -EBADMSG after a text. @ret_data_bytes: of its ranges. */
int backup_frame_check(const struct backup_frame *frame, bool is_full, uint64_t *ret_data_bytes,
    char *ret_error);

#endif /* CLEAVE_BACKUP_FORMAT_H */
