/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c -- records appended and read back */
#include "journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/num.h"

#define JOURNAL_VERSION 1

static_assert(JOURNAL_BUFFER_BYTES % JOURNAL_RECORD_BYTES == 0, "records fill the buffer");

void
journal_encode(const struct journal_record *record, void *ret_bytes)
{
	uint8_t *p = ret_bytes;

	assert(record->kind >= JOURNAL_WRITE && record->kind <= JOURNAL_ACKNOWLEDGED);
	assert(record->block_count > 0 && record->block_count <= UINT16_MAX);
	p[0] = (uint8_t)record->kind;
	p[1] = JOURNAL_VERSION;
	num_put_le16(p + 2, (uint16_t)record->block_count);
	num_put_le32(p + 4, 0);
	num_put_le64(p + 8, record->block);
	num_put_le64(p + 16, record->sequence);
	num_put_le64(p + 24, record->writer);
	num_put_le32(p + 4, crc32c(0, p, JOURNAL_RECORD_BYTES));
}

bool
journal_decode(const void *bytes, struct journal_record *ret_record)
{
	uint8_t copy[JOURNAL_RECORD_BYTES];
	const uint8_t *p = bytes;

	assert(bytes != NULL && ret_record != NULL);
	memcpy(copy, p, sizeof(copy));
	num_put_le32(copy + 4, 0);
	if (num_get_le32(p + 4) != crc32c(0, copy, sizeof(copy)) || p[1] != JOURNAL_VERSION)
		return false;
	if (p[0] < JOURNAL_WRITE || p[0] > JOURNAL_ACKNOWLEDGED || num_get_le16(p + 2) == 0)
		return false;
	ret_record->kind = (enum journal_kind)p[0];
	ret_record->block_count = num_get_le16(p + 2);
	ret_record->block = num_get_le64(p + 8);
	ret_record->sequence = num_get_le64(p + 16);
	ret_record->writer = num_get_le64(p + 24);
	return true;
}

/* ---- writing ---- */
int
journal_open(struct journal *journal, const char *path)
{
	uint64_t valid_bytes = 0;
	int rc = journal_read(path, NULL, NULL, &valid_bytes);

	assert(path != NULL);
	journal->fd = -1;
	journal->rc = 0;
	journal->used_bytes = 0;
	if (rc != 0 && rc != -ENOENT)
		return rc;
	journal->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (journal->fd < 0)
		return -errno;
	if (ftruncate(journal->fd, (off_t)valid_bytes) != 0) {
		rc = -errno;
		close(journal->fd);
		journal->fd = -1;
		return rc;
	}
	return 0;
}

void
journal_append(struct journal *journal, const struct journal_record *record)
{
	assert(journal->used_bytes % JOURNAL_RECORD_BYTES == 0);
	assert(journal->fd >= 0 && journal->used_bytes <= JOURNAL_BUFFER_BYTES);
	if (journal->used_bytes == JOURNAL_BUFFER_BYTES && journal_flush(journal) != 0)
		return;
	journal_encode(record, journal->buffer + journal->used_bytes);
	journal->used_bytes += JOURNAL_RECORD_BYTES;
}

int
journal_flush(struct journal *journal)
{
	uint32_t done = 0;

	assert(journal->fd >= 0 && journal->used_bytes <= JOURNAL_BUFFER_BYTES);
	assert(journal->used_bytes % JOURNAL_RECORD_BYTES == 0);
	while (journal->rc == 0 && done < journal->used_bytes) {
		ssize_t n = write(journal->fd, journal->buffer + done, journal->used_bytes - done);

		if (n >= 0)
			done += (uint32_t)n;
		else if (errno != EINTR)
			journal->rc = -errno;
	}
	if (journal->rc == 0)
		journal->used_bytes = 0;
	return journal->rc;
}

int
journal_close(struct journal *journal)
{
	int rc;

	assert(journal->used_bytes <= JOURNAL_BUFFER_BYTES);
	if (journal->fd < 0)
		return 0;
	rc = journal_flush(journal);
	close(journal->fd);
	journal->fd = -1;
	return rc;
}

/* ---- reading ---- */
struct reading {
	int fd;
	int (*fn)(const struct journal_record *record, void *arg);
	void *arg;
	uint64_t valid_bytes;
	bool is_torn; /* a damaged record was met */
};

/* The whole records in @data. */
static int
read_records(struct reading *reading, const uint8_t *data, uint32_t bytes)
{
	assert(reading->valid_bytes % JOURNAL_RECORD_BYTES == 0);
	assert(bytes % JOURNAL_RECORD_BYTES == 0);
	for (uint32_t at = 0; at + JOURNAL_RECORD_BYTES <= bytes; at += JOURNAL_RECORD_BYTES) {
		struct journal_record record;
		int rc = 0;

		if (!journal_decode(data + at, &record)) {
			reading->is_torn = true;
			continue;
		}
		if (reading->is_torn)
			return -EBADMSG; /* the damage was no tail */
		reading->valid_bytes += JOURNAL_RECORD_BYTES;
		if (reading->fn != NULL)
			rc = reading->fn(&record, reading->arg);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
read_file(struct reading *reading)
{
	uint8_t data[JOURNAL_BUFFER_BYTES];
	uint32_t used = 0;

	assert(reading->fd >= 0);
	for (;;) {
		ssize_t n = read(reading->fd, data + used, sizeof(data) - used);
		uint32_t whole;
		int rc;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (uint32_t)n;
		whole = used - used % JOURNAL_RECORD_BYTES;
		rc = read_records(reading, data, whole);
		if (rc != 0)
			return rc;
		memmove(data, data + whole, used - whole);
		used -= whole;
	}
	/* A file of which nothing can be read is some other file, not a journal that was torn. */
	return reading->is_torn && reading->valid_bytes == 0 ? -EBADMSG : 0;
}

int
journal_read(const char *path, int (*fn)(const struct journal_record *record, void *arg), void *arg,
    uint64_t *ret_valid_bytes)
{
	struct reading reading = { .fn = fn, .arg = arg };
	struct stat status;
	int rc;

	assert(path != NULL);
	assert(fn != NULL || arg == NULL);
	/* A device has no end, and a pipe none that would come. */
	reading.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (reading.fd < 0)
		return -errno;
	rc = fstat(reading.fd, &status) == 0 && S_ISREG(status.st_mode) ? read_file(&reading)
									: -EBADMSG;
	close(reading.fd);
	if (rc == 0 && ret_valid_bytes != NULL)
		*ret_valid_bytes = reading.valid_bytes;
	return rc;
}
