/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_chain.h -- a full backup and the incremental ones behind it, read as the one full backup that they amount to
 *
 * All files are read at once, in step: what the newest of them says of a block counts. A file says of all that lies
 * behind its volume's end that it is zeros, so a volume may have shrunk and grown between them.
 */
#ifndef CLEAVE_BACKUP_CHAIN_H
#define CLEAVE_BACKUP_CHAIN_H

#include "backup_format.h"

#define BACKUP_CHAIN_MAX 240u /* files: a descriptor and 2 MiB each */
/* No range of zeros that comes out is longer: a discard of it ends within a request's time. */
#define BACKUP_CHAIN_RANGE_BYTES_MAX (UINT64_C(16) << 30)

struct backup_chain;

/* A file of a chain, open to be read. */
struct backup_source {
	const char *name; /* for texts */
	int fd;
};

/*
 * backup_chain_create -- read the heads of @count sources, the full one first
 *
 * Ownership: descriptors and names are borrowed until backup_chain_destroy.
 * Returns:   0 and *@ret_chain; else a negative errno, and a text in @ret_error, which names the file; and, when
 *            they are no chain, what is missing.
 * Errors:    those of backup_reader_create; -EINVAL they are no chain; -E2BIG more than BACKUP_CHAIN_MAX.
 */
int backup_chain_create(const struct backup_source *sources, uint32_t count,
    struct backup_chain **ret_chain, char ret_error[2 * BACKUP_ERROR_BYTES]);
/* backup_chain_destroy -- NULL is a no-op. */
void backup_chain_destroy(struct backup_chain *chain);
/* backup_chain_header -- that of the newest file, as long as the chain lives; what comes out is of that snapshot. */
const struct backup_header *backup_chain_header(const struct backup_chain *chain);
/* backup_chain_id -- a number of these files, in this order; other ones have another. */
uint64_t backup_chain_id(const struct backup_chain *chain);
/*
 * backup_chain_next -- the next frame of the whole: 1; 0: there are no more, and all files are right
 *
 * @data, of BACKUP_DATA_BYTES_MAX, gets the data of @ret_frame's ranges. The same files give the same frames.
 * Errors: those of backup_reader_next; the text is backup_chain_error's.
 */
int backup_chain_next(struct backup_chain *chain, struct backup_frame *ret_frame, uint8_t *data);
const char *backup_chain_error(const struct backup_chain *chain);

/* backup_chain_follows -- 0: @next is based on @previous; -EINVAL after a text that names what is missing. */
int backup_chain_follows(const struct backup_header *previous, const struct backup_header *next,
    char *ret_error);

#endif /* CLEAVE_BACKUP_CHAIN_H */
