/* SPDX-License-Identifier: Apache-2.0 */
/* backup_writer.c -- see backup_writer.h */
#include "backup_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "backup_reader.h"
#include "base/check.h"
#include "base/crc32c.h"

#define WRITER_LEVEL 1 /* as fast as volumes are read; higher ones save few per cent of blocks */

static int
write_all(struct backup_writer *writer, const uint8_t *bytes, size_t count)
{
	size_t done = 0;

	while (done < count) {
		ssize_t n = write(writer->fd, bytes + done, count - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -EIO : -errno;
		done += (size_t)n;
	}
	writer->file_bytes += count;
	return 0;
}

static struct backup_writer *
writer_create(int fd, const struct backup_header *header)
{
	struct backup_writer *writer = calloc(1, sizeof(*writer));

	assert(fd >= 0);
	if (writer == NULL)
		return NULL;
	writer->fd = fd;
	writer->header = *header;
	writer->plain = malloc(BACKUP_PLAIN_BYTES_MAX);
	writer->stored = malloc(BACKUP_FRAME_HEADER_BYTES + BACKUP_PLAIN_BYTES_MAX);
	writer->zstd = ZSTD_createCCtx();
	if (writer->plain == NULL || writer->stored == NULL || writer->zstd == NULL) {
		backup_writer_destroy(writer);
		return NULL;
	}
	return writer;
}

int
backup_writer_create(int fd, const struct backup_header *header, struct backup_writer **ret_writer)
{
	struct backup_writer *writer = writer_create(fd, header);
	uint8_t bytes[BACKUP_HEADER_BYTES];
	int rc;

	if (writer == NULL)
		return -ENOMEM;
	backup_header_encode(header, bytes);
	writer->chain_crc = crc32c(0, bytes, BACKUP_HEADER_BYTES - BACKUP_CRC_BYTES);
	rc = write_all(writer, bytes, sizeof(bytes));
	if (rc != 0) {
		backup_writer_destroy(writer);
		return rc;
	}
	*ret_writer = writer;
	return 0;
}

int
backup_writer_resume(int fd, const struct backup_reader *reader, struct backup_writer **ret_writer)
{
	struct backup_writer *writer = writer_create(fd, &reader->header);
	int rc;

	assert(!reader->is_over);
	if (writer == NULL)
		return -ENOMEM;
	writer->file_bytes = reader->file_bytes;
	writer->frame_count = reader->frame_count;
	writer->at_bytes = reader->at_bytes;
	writer->data_bytes = reader->data_bytes;
	writer->zero_bytes = reader->zero_bytes;
	writer->chain_crc = reader->chain_crc;
	if (ftruncate(fd, (off_t)writer->file_bytes) != 0 ||
	    lseek(fd, (off_t)writer->file_bytes, SEEK_SET) < 0) {
		rc = -errno;
		backup_writer_destroy(writer);
		return rc;
	}
	*ret_writer = writer;
	return 0;
}

void
backup_writer_destroy(struct backup_writer *writer)
{
	if (writer == NULL)
		return;
	(void)ZSTD_freeCCtx(writer->zstd);
	free(writer->plain);
	free(writer->stored);
	free(writer);
}

static void
frame_count_in(struct backup_writer *writer, const struct backup_frame *frame)
{
	for (uint32_t i = 0; i < frame->range_count; i++) {
		if (frame->ranges[i].data == NULL)
			writer->zero_bytes += frame->ranges[i].length_bytes;
		else
			writer->data_bytes += frame->ranges[i].length_bytes;
	}
	writer->frame_count++;
	writer->at_bytes = frame->to_bytes;
}

int
backup_writer_frame(struct backup_writer *writer, const struct backup_frame *frame)
{
	uint32_t plain_bytes = backup_frame_plain(frame, writer->plain);
	uint8_t *stored = writer->stored + BACKUP_FRAME_HEADER_BYTES;
	struct backup_frame_header head = { .index = writer->frame_count,
		.from_bytes = frame->from_bytes,
		.to_bytes = frame->to_bytes,
		.range_count = frame->range_count,
		.plain_bytes = plain_bytes,
		.plain_crc = crc32c(0, writer->plain, plain_bytes),
		.chain_crc = writer->chain_crc };
	size_t bytes;
	int rc;

	assert(frame->from_bytes == writer->at_bytes);
	assert(frame->to_bytes <= writer->header.size_bytes);
	/* Room for one byte less than plain: what does not become smaller is stored as it is. */
	bytes = ZSTD_compressCCtx(writer->zstd, stored, plain_bytes - 1, writer->plain, plain_bytes,
	    WRITER_LEVEL);
	if (ZSTD_isError(bytes)) {
		memcpy(stored, writer->plain, plain_bytes);
		bytes = plain_bytes;
	}
	head.stored_bytes = (uint32_t)bytes;
	head.stored_crc = crc32c(0, stored, bytes);
	backup_frame_header_encode(&head, writer->stored);
	rc = write_all(writer, writer->stored, BACKUP_FRAME_HEADER_BYTES + bytes);
	if (rc != 0)
		return rc;
	writer->chain_crc =
	    crc32c(writer->chain_crc, writer->stored, BACKUP_FRAME_HEADER_BYTES - BACKUP_CRC_BYTES);
	writer->chain_crc = crc32c_combine(writer->chain_crc, head.stored_crc, bytes);
	frame_count_in(writer, frame);
	return 0;
}

int
backup_writer_end(struct backup_writer *writer)
{
	struct backup_end end = { .frame_count = writer->frame_count,
		.data_bytes = writer->data_bytes,
		.zero_bytes = writer->zero_bytes,
		.chain_crc = writer->chain_crc };
	uint8_t bytes[BACKUP_FRAME_HEADER_BYTES];

	assert(!backup_is_full(&writer->header) || writer->at_bytes == writer->header.size_bytes);
	backup_end_encode(&end, bytes);
	return write_all(writer, bytes, sizeof(bytes));
}
