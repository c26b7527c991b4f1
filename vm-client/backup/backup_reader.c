/* SPDX-License-Identifier: Apache-2.0 */
/* backup_reader.c -- see backup_reader.h */
#include "backup_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/check.h"
#include "base/crc32c.h"

/* All @bytes: 0. -ENODATA: the file ends before; *@ret_got have come. */
static int
read_all(int fd, uint8_t *buffer, size_t bytes, size_t *ret_got)
{
	*ret_got = 0;
	while (*ret_got < bytes) {
		ssize_t n = read(fd, buffer + *ret_got, bytes - *ret_got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		*ret_got += (size_t)n;
	}
	return 0;
}

static int
reader_fail(struct backup_reader *reader, int rc, const char *text)
{
	assert(rc < 0);
	if (text != reader->error)
		(void)snprintf(reader->error, sizeof(reader->error), "%s", text);
	return rc;
}

static int
reader_read(struct backup_reader *reader, uint8_t *buffer, size_t bytes)
{
	size_t got;
	int rc = read_all(reader->fd, buffer, bytes, &got);

	if (rc != -ENODATA)
		return rc == 0 ? 0 : reader_fail(reader, rc, strerror(-rc));
	(void)snprintf(reader->error, sizeof(reader->error),
	    "it ends in the middle: it is whole up to byte %" PRIu64, reader->file_bytes);
	return rc;
}

int
backup_reader_create(int fd, struct backup_reader **ret_reader, char *ret_error)
{
	struct backup_reader *reader = calloc(1, sizeof(*reader));
	uint8_t bytes[BACKUP_HEADER_BYTES];
	size_t got;
	int rc = -ENOMEM;

	assert(fd >= 0);
	if (reader != NULL) {
		reader->fd = fd;
		reader->stored = malloc(BACKUP_PLAIN_BYTES_MAX);
		reader->plain = malloc(BACKUP_PLAIN_BYTES_MAX);
		reader->zstd = ZSTD_createDCtx();
	}
	if (reader == NULL || reader->stored == NULL || reader->plain == NULL ||
	    reader->zstd == NULL) {
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES, "out of memory");
		goto fail;
	}
	rc = read_all(fd, bytes, sizeof(bytes), &got);
	if (rc != 0) {
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES, "%s",
		    rc == -ENODATA ? "it is shorter than the head of a backup" : strerror(-rc));
		goto fail;
	}
	rc = backup_header_decode(bytes, &reader->header, ret_error);
	if (rc != 0)
		goto fail;
	reader->file_bytes = sizeof(bytes);
	reader->chain_crc = crc32c(0, bytes, sizeof(bytes) - BACKUP_CRC_BYTES);
	*ret_reader = reader;
	return 0;
fail:
	backup_reader_destroy(reader);
	return rc;
}

void
backup_reader_destroy(struct backup_reader *reader)
{
	if (reader == NULL)
		return;
	(void)ZSTD_freeDCtx(reader->zstd);
	free(reader->stored);
	free(reader->plain);
	free(reader);
}

/* The end says what has come, and nothing follows. */
static int
reader_end(struct backup_reader *reader, const struct backup_end *end)
{
	uint8_t byte;
	size_t got;
	int rc;

	if (end->chain_crc != reader->chain_crc || end->frame_count != reader->frame_count ||
	    end->data_bytes != reader->data_bytes || end->zero_bytes != reader->zero_bytes)
		return reader_fail(reader, -EBADMSG,
		    "its end tells of other frames than those that it has");
	/* Behind the last frame of an incremental one nothing has changed. */
	if (backup_is_full(&reader->header) && reader->at_bytes != reader->header.size_bytes)
		return reader_fail(reader, -EBADMSG, "it ends before the volume does");
	rc = read_all(reader->fd, &byte, 1, &got);
	if (rc == 0)
		return reader_fail(reader, -EBADMSG, "something follows its end");
	if (rc != -ENODATA)
		return reader_fail(reader, rc, strerror(-rc));
	reader->is_over = true;
	return 0;
}

/* A frame's head is right: it also stands where it belongs. */
static int
frame_check_place(struct backup_reader *reader, const struct backup_frame_header *head)
{
	if (head->chain_crc != reader->chain_crc || head->index != reader->frame_count ||
	    head->from_bytes != reader->at_bytes)
		return reader_fail(reader, -EBADMSG, "a frame stands where another one belongs");
	if (head->to_bytes > reader->header.size_bytes)
		return reader_fail(reader, -EBADMSG, "a frame lies behind the volume's end");
	return 0;
}

static int
frame_read(struct backup_reader *reader, const struct backup_frame_header *head)
{
	bool is_raw = head->stored_bytes == head->plain_bytes;
	uint8_t *stored = is_raw ? reader->plain : reader->stored;
	int rc = reader_read(reader, stored, head->stored_bytes);
	size_t bytes;

	assert(head->plain_bytes <= BACKUP_PLAIN_BYTES_MAX);
	if (rc != 0)
		return rc;
	if (crc32c(0, stored, head->stored_bytes) != head->stored_crc)
		return reader_fail(reader, -EBADMSG, "a frame is damaged: the checksum is wrong");
	if (!is_raw) {
		bytes = ZSTD_decompressDCtx(reader->zstd, reader->plain, head->plain_bytes, stored,
		    head->stored_bytes);
		if (ZSTD_isError(bytes) || bytes != head->plain_bytes)
			return reader_fail(reader, -EBADMSG,
			    "a frame is damaged: it cannot be decompressed");
	}
	if (crc32c(0, reader->plain, head->plain_bytes) != head->plain_crc)
		return reader_fail(reader, -EBADMSG,
		    "a frame is damaged: the checksum of what is in it is wrong");
	return backup_frame_decode(head, reader->plain, backup_is_full(&reader->header),
	    &reader->frame, reader->error);
}

/* All is right with the frame: the file is whole up to its end. */
static void
frame_count_in(struct backup_reader *reader, const uint8_t *head_bytes,
    const struct backup_frame_header *head)
{
	for (uint32_t i = 0; i < reader->frame.range_count; i++) {
		const struct backup_range *range = &reader->frame.ranges[i];

		if (range->data == NULL)
			reader->zero_bytes += range->length_bytes;
		else
			reader->data_bytes += range->length_bytes;
	}
	reader->chain_crc =
	    crc32c(reader->chain_crc, head_bytes, BACKUP_FRAME_HEADER_BYTES - BACKUP_CRC_BYTES);
	reader->chain_crc = crc32c_combine(reader->chain_crc, head->stored_crc, head->stored_bytes);
	reader->file_bytes += BACKUP_FRAME_HEADER_BYTES + head->stored_bytes;
	reader->frame_count++;
	reader->at_bytes = head->to_bytes;
	assert(reader->at_bytes <= reader->header.size_bytes);
}

int
backup_reader_next(struct backup_reader *reader)
{
	uint8_t bytes[BACKUP_FRAME_HEADER_BYTES];
	struct backup_frame_header head;
	struct backup_end end;
	enum backup_part part;
	int rc;

	assert(reader->plain != NULL);
	if (reader->is_over)
		return 0;
	rc = reader_read(reader, bytes, sizeof(bytes));
	if (rc == 0)
		rc = backup_part_decode(bytes, &part, &head, &end, reader->error);
	if (rc != 0)
		return rc;
	if (part == BACKUP_END)
		return reader_end(reader, &end);
	rc = frame_check_place(reader, &head);
	if (rc == 0)
		rc = frame_read(reader, &head);
	if (rc != 0)
		return rc;
	frame_count_in(reader, bytes, &head);
	return 1;
}
