/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h -- what was issued and what was acknowledged, in a file that outlives its writer
 *
 * Records of 32 bytes, appended: an issue is in the file before the request is submitted, an
 * acknowledgement before it is counted. write(2) is enough: what kills the process leaves the page
 * cache alone. Several runs may append to one file.
 *
 *	offset  bytes
 *	     0      1  kind: enum journal_kind
 *	     1      1  version: 1
 *	     2      2  blocks of 4096 bytes
 *	     4      4  CRC-32C of the record with zeros here
 *	     8      8  first block
 *	    16      8  sequence
 *	    24      8  writer
 */
#ifndef CLEAVE_VM_CLIENT_JOURNAL_H
#define CLEAVE_VM_CLIENT_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_RECORD_BYTES 32u
#define JOURNAL_BUFFER_BYTES (1u << 16)

enum journal_kind {
	JOURNAL_WRITE = 1,        /* issued */
	JOURNAL_DISCARD = 2,      /* issued: the blocks are to read as zeros */
	JOURNAL_ACKNOWLEDGED = 3, /* what this writer issued for these blocks with this sequence */
};

struct journal_record {
	enum journal_kind kind;
	uint32_t block_count;
	uint64_t block;
	uint64_t sequence;
	uint64_t writer;
};

/* ---- writing ---- */
struct journal {
	int fd;
	int rc; /* the first error of write(2); nothing is written after it */
	uint32_t used_bytes;
	uint8_t buffer[JOURNAL_BUFFER_BYTES];
};

/*
 * journal_open -- create @path, or continue it: a torn tail is cut off first
 *
 * Returns 0; -EBADMSG it is no journal, or is damaged before its end; what the file system said.
 */
int journal_open(struct journal *journal, const char *path);
/* journal_append -- into the buffer; a full one is written. Errors come with the flush. */
void journal_append(struct journal *journal, const struct journal_record *record);
/* journal_flush -- everything appended is in the file. Returns 0 or a negative errno. */
int journal_flush(struct journal *journal);
/* journal_close -- flushes; returns as that does. */
int journal_close(struct journal *journal);

/* ---- reading ---- */
/*
 * journal_read -- @fn for each whole record of @path, in order; *@ret_valid_bytes (may be NULL) is
 * how far they reach. What follows the last whole record is a torn tail and ignored.
 *
 * Returns 0; -EBADMSG a damaged record is followed by a whole one, or nothing is whole; what @fn
 * returned unless 0; what the file system said.
 */
int journal_read(const char *path, int (*fn)(const struct journal_record *record, void *arg),
    void *arg, uint64_t *ret_valid_bytes);

void journal_encode(const struct journal_record *record, void *ret_bytes);
/* journal_decode -- false: damaged. */
bool journal_decode(const void *bytes, struct journal_record *ret_record);

#endif /* CLEAVE_VM_CLIENT_JOURNAL_H */
