/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_writer.h -- a backup file or stream is written, frame after frame
 *
 *	backup_writer_create, or _resume behind what a reader found whole --> backup_writer_frame ... --> backup_writer_end
 *
 * After a failure the file ends in the middle of a frame, perhaps; up to the frame before it is whole.
 */
#ifndef CLEAVE_BACKUP_WRITER_H
#define CLEAVE_BACKUP_WRITER_H

#include "backup_format.h"

struct backup_reader;

struct backup_writer {
	struct backup_header header;
	uint64_t file_bytes, frame_count, at_bytes, data_bytes, zero_bytes;
	uint32_t chain_crc;
	/* The writer's own. */
	int fd;
	uint8_t *plain, *stored; /* stored: with room for a frame's head before it */
	void *zstd;
};

/*
 * backup_writer_create -- begin a file with @header
 *
 * Ownership: @fd is borrowed until backup_writer_destroy, and written in order: it may be a pipe.
 * Returns:   0 and *@ret_writer; else a negative errno: -ENOMEM, what write says.
 * Threads:   any, one at a time.
 */
int backup_writer_create(int fd, const struct backup_header *header,
    struct backup_writer **ret_writer);
/* backup_writer_resume -- go on in @fd, a file, behind what @reader found whole of it; the rest is cut off. */
int backup_writer_resume(int fd, const struct backup_reader *reader,
    struct backup_writer **ret_writer);
/* backup_writer_destroy -- NULL is a no-op. */
void backup_writer_destroy(struct backup_writer *writer);
/* backup_writer_frame -- compress and write the next frame, which begins where the last one ended. 0, or what write says. */
int backup_writer_frame(struct backup_writer *writer, const struct backup_frame *frame);
/* backup_writer_end -- all of the volume has been told. 0, or what write says. */
int backup_writer_end(struct backup_writer *writer);

#endif /* CLEAVE_BACKUP_WRITER_H */
