/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_backup.c -- any bytes as a backup: no crash; frames that come out lie in the volume, in order, without overlap
 *
 * Checksums are made right first where the first byte is odd, so that what is behind them is reached.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "vm-client/backup/backup_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The CRCs of the head and of what follows, frame after frame as the lengths say. */
static void
mend(uint8_t *file, size_t bytes)
{
	size_t at = BACKUP_HEADER_BYTES;
	uint32_t chain;

	if (bytes < at)
		return;
	num_put_le32(file + at - 4, crc32c(0, file, at - 4));
	chain = crc32c(0, file, at - 4);
	while (bytes - at >= BACKUP_FRAME_HEADER_BYTES) {
		uint8_t *head = file + at;
		uint32_t stored = num_get_le32(head + 36), plain = num_get_le32(head + 32);

		at += BACKUP_FRAME_HEADER_BYTES;
		if (stored > bytes - at || memcmp(head, "FRAM", 4) != 0)
			stored = 0;
		if (stored == plain)
			num_put_le32(head + 40, crc32c(0, file + at, stored));
		num_put_le32(head + 44, crc32c(0, file + at, stored));
		num_put_le32(head + 52, chain);
		num_put_le32(head + 60, crc32c(0, head, 60));
		chain = crc32c(chain, head, 60);
		chain = crc32c(chain, file + at, stored);
		at += stored;
	}
}

static void
check_frame(const struct backup_reader *reader, uint64_t at)
{
	const struct backup_frame *frame = &reader->frame;
	uint8_t sum = 0;

	assert(frame->from_bytes == at && frame->to_bytes <= reader->header.size_bytes);
	for (uint32_t i = 0; i < frame->range_count; i++) {
		const struct backup_range *range = &frame->ranges[i];

		assert(range->offset_bytes >= at && range->length_bytes > 0);
		at = range->offset_bytes + range->length_bytes;
		if (range->data != NULL) /* it can be read */
			sum ^= range->data[0] ^ range->data[range->length_bytes - 1];
	}
	assert(at <= frame->to_bytes || sum == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static int fd = -1;
	char error[BACKUP_ERROR_BYTES];
	struct backup_reader *reader;
	uint8_t *file;
	uint64_t at = 0;

	if (bytes == 0)
		return 0;
	if (fd < 0)
		fd = memfd_create("backup", MFD_CLOEXEC);
	file = malloc(bytes);
	assert(fd >= 0 && file != NULL);
	memcpy(file, data + 1, bytes - 1);
	if (data[0] % 2 == 1)
		mend(file, bytes - 1);
	assert(ftruncate(fd, 0) == 0 && pwrite(fd, file, bytes - 1, 0) == (ssize_t)(bytes - 1));
	assert(lseek(fd, 0, SEEK_SET) == 0);
	free(file);
	if (backup_reader_create(fd, &reader, error) != 0) {
		assert(error[0] != '\0');
		return 0;
	}
	for (;;) {
		int rc = backup_reader_next(reader);

		assert(rc >= 0 || reader->error[0] != '\0');
		if (rc != 1)
			break;
		check_frame(reader, at);
		at = reader->frame.to_bytes;
	}
	backup_reader_destroy(reader);
	return 0;
}
