/* SPDX-License-Identifier: Apache-2.0 */
/* test_journal.c -- records survive, torn tails do not matter, damage is told */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm-client/load/journal.h"

static struct journal journal;
static char path[64];

static void
set_up(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/cleave-test-journal-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void
tear_down(void)
{
	unlink(path);
}

TestSuite(journal, .init = set_up, .fini = tear_down);

static struct journal_record
record_of(uint64_t i)
{
	return (struct journal_record){
		.kind = (enum journal_kind)(1 + i % 3),
		.block_count = (uint32_t)(1 + i % 256),
		.block = i * 1000,
		.sequence = i + 7,
		.writer = i * 0x123456789abcdefu,
	};
}

/* Appends records @from .. @to - 1. */
static void
append(uint64_t from, uint64_t to)
{
	cr_assert_eq(journal_open(&journal, path), 0);
	for (uint64_t i = from; i < to; i++) {
		struct journal_record record = record_of(i);

		journal_append(&journal, &record);
	}
	cr_assert_eq(journal_close(&journal), 0);
}

static int
on_record(const struct journal_record *record, void *arg)
{
	uint64_t *next = arg;
	struct journal_record expected = record_of(*next);

	cr_assert_eq(record->kind, expected.kind);
	cr_assert_eq(record->block_count, expected.block_count);
	cr_assert_eq(record->block, expected.block);
	cr_assert_eq(record->sequence, expected.sequence);
	cr_assert_eq(record->writer, expected.writer);
	++*next;
	return 0;
}

static void
expect_records(uint64_t count)
{
	uint64_t next = 0, valid_bytes = 0;

	cr_assert_eq(journal_read(path, on_record, &next, &valid_bytes), 0);
	cr_assert_eq(next, count, "%lu records", next);
	cr_assert_eq(valid_bytes, count * JOURNAL_RECORD_BYTES);
}

static off_t
file_bytes(void)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_size;
}

static void
flip(off_t at)
{
	int fd = open(path, O_RDWR);
	uint8_t byte;

	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x40;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(journal, empty)
{
	expect_records(0);
	append(0, 0);
	expect_records(0);
}

Test(journal, is_created)
{
	unlink(path);
	cr_assert_eq(journal_read(path, NULL, NULL, NULL), -ENOENT);
	append(0, 3);
	expect_records(3);
}

Test(journal, more_than_a_buffer)
{
	append(0, 10000);
	expect_records(10000);
}

Test(journal, a_flush_is_enough)
{
	struct journal_record record = record_of(0);

	cr_assert_eq(journal_open(&journal, path), 0);
	journal_append(&journal, &record);
	expect_records(0);
	cr_assert_eq(journal_flush(&journal), 0);
	expect_records(1);
	journal_close(&journal);
}

Test(journal, is_continued)
{
	append(0, 5);
	append(5, 11);
	append(11, 3000);
	expect_records(3000);
}

Test(journal, torn_tail)
{
	for (off_t cut = 1; cut < (off_t)JOURNAL_RECORD_BYTES; cut++) {
		cr_assert_eq(truncate(path, 0), 0);
		append(0, 10);
		cr_assert_eq(truncate(path, 10 * (off_t)JOURNAL_RECORD_BYTES - cut), 0);
		expect_records(9);
		append(9, 12);
		expect_records(12);
	}
}

Test(journal, bad_last_record)
{
	for (off_t at = 0; at < (off_t)JOURNAL_RECORD_BYTES; at++) {
		cr_assert_eq(truncate(path, 0), 0);
		append(0, 10);
		flip(file_bytes() - 1 - at);
		expect_records(9);
	}
	append(9, 12);
	expect_records(12);
}

Test(journal, damage_in_the_middle)
{
	append(0, 10);
	flip(4 * (off_t)JOURNAL_RECORD_BYTES + 9);
	cr_assert_eq(journal_read(path, NULL, NULL, NULL), -EBADMSG);
	cr_assert_eq(journal_open(&journal, path), -EBADMSG);
	cr_assert_eq(file_bytes(), 10 * (off_t)JOURNAL_RECORD_BYTES, "the file was changed");
}

Test(journal, some_other_file)
{
	FILE *f = fopen(path, "w");

	for (int i = 0; i < 100; i++)
		fprintf(f, "this is somebody's only copy of a text\n");
	fclose(f);
	cr_assert_eq(journal_open(&journal, path), -EBADMSG);
	cr_assert_eq(file_bytes(), 3900, "the file was changed");
}

static int
refuse(const struct journal_record *record, void *arg)
{
	(void)record;
	(void)arg;
	return -ECANCELED;
}

Test(journal, the_readers_error)
{
	append(0, 2);
	cr_assert_eq(journal_read(path, refuse, NULL, NULL), -ECANCELED);
}

Test(journal, a_full_disk)
{
	struct journal_record record = record_of(0);

	journal.fd = open("/dev/full", O_WRONLY);
	journal.rc = 0;
	journal.used_bytes = 0;
	if (journal.fd < 0)
		cr_skip_test("no /dev/full");
	for (int i = 0; i < 5000; i++)
		journal_append(&journal, &record);
	cr_assert_eq(journal_flush(&journal), -ENOSPC);
	cr_assert_eq(journal_close(&journal), -ENOSPC);
}
