/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_reader.h -- a backup file or stream, frame after frame; every byte of it is checked before it is shown
 *
 *	backup_reader_create --> backup_reader_next: 1, a frame; 1, a frame ... 0: the end, and nothing behind it
 */
#ifndef CLEAVE_BACKUP_READER_H
#define CLEAVE_BACKUP_READER_H

#include "backup_format.h"

struct backup_reader {
	struct backup_header header;
	struct backup_frame frame;      /* after 1; its data until the next call */
	char error[BACKUP_ERROR_BYTES]; /* for people, after a failure */
	bool is_over;                   /* the end has been seen, and is right */
	/* Where the last whole frame ends: from here a backup that was cut off goes on. */
	uint64_t file_bytes, frame_count, at_bytes, data_bytes, zero_bytes;
	uint32_t chain_crc;
	/* The reader's own. */
	int fd;
	uint8_t *stored, *plain; /* BACKUP_PLAIN_BYTES_MAX each */
	void *zstd;
};

/*
 * backup_reader_create -- read the head of what @fd has
 *
 * Ownership: @fd is borrowed until backup_reader_destroy, and read in order: it may be a pipe.
 * Returns:   0 and *@ret_reader; else a negative errno, and a text in @ret_error, of BACKUP_ERROR_BYTES.
 * Errors:    -ENODATA it is shorter than a head; -EBADMSG it is no backup, or damaged; -ENOMEM; what read says.
 * Threads:   any, one at a time.
 */
int backup_reader_create(int fd, struct backup_reader **ret_reader, char *ret_error);
/* backup_reader_destroy -- NULL is a no-op. */
void backup_reader_destroy(struct backup_reader *reader);
/*
 * backup_reader_next -- 1: reader->frame is the next; 0: there are no more, and the whole file is right
 *
 * Errors: with a text in reader->error: -ENODATA it ends in the middle; -EBADMSG it is damaged; what read says.
 */
int backup_reader_next(struct backup_reader *reader);

#endif /* CLEAVE_BACKUP_READER_H */
