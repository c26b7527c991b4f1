/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_backup_chain.c -- backups as files: written, read, cut off and gone on with, damaged; and chains of them against
 * a volume in memory
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/random.h"
#include "vm-client/backup/backup_chain.h"
#include "vm-client/backup/backup_reader.h"
#include "vm-client/backup/backup_writer.h"

#define BLOCKS_MAX 64u
#define BLOCK CLEAVE_BLOCK_BYTES

static char error[2 * BACKUP_ERROR_BYTES];
static uint8_t data[BACKUP_DATA_BYTES_MAX];

/* A volume of a few blocks: what each holds; 0 is zeros. */
struct model {
	uint32_t blocks;
	uint8_t content[BLOCKS_MAX];
};

static struct backup_header
header_of(uint64_t number, uint64_t parent, uint32_t blocks)
{
	struct backup_header header = { .id = { (uint8_t)number, (uint8_t)parent, 1 },
		.point = { 7, 8, number, 1000 + number },
		.size_bytes = (uint64_t)blocks * BLOCK,
		.engine = "lz4",
		.volume = "v" };

	(void)snprintf(header.snapshot, sizeof(header.snapshot), "s%u", (unsigned)number);
	if (parent != 0) {
		header.parent = (struct backup_point){ 7, 8, parent, 1000 + parent };
		(void)snprintf(header.parent_snapshot, sizeof(header.parent_snapshot), "s%u",
		    (unsigned)parent);
	}
	return header;
}

static int
new_file(void)
{
	int fd = memfd_create("backup", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

/* Content that compresses for odd values, and does not for even ones. */
static void
fill_block(uint8_t *block, uint8_t value)
{
	uint64_t state[4];

	random_seed(state, value);
	for (uint32_t i = 0; i < BLOCK; i += 8)
		num_put_le64(block + i, value % 2 == 1 ? value : random_u64(state));
}

static bool
block_is(const uint8_t *block, uint8_t value)
{
	uint8_t want[BLOCK];

	fill_block(want, value);
	return memcmp(block, want, BLOCK) == 0;
}

/* A range a block, @per_frame blocks a frame: those that differ from @old, or all of them where that is NULL. */
static void
write_frames(struct backup_writer *writer, const struct model *old, const struct model *new,
    uint32_t per_frame, uint32_t frames_max)
{
	static struct backup_frame frame;
	uint32_t first = (uint32_t)(writer->at_bytes / BLOCK);

	for (uint32_t at = first; at < new->blocks &&frames_max > 0; at += per_frame) {
		uint32_t end = (uint32_t)num_min(at + per_frame, new->blocks), used = 0;

		frame = (struct backup_frame){ .from_bytes = writer->at_bytes,
			.to_bytes = (uint64_t)end * BLOCK };
		for (uint32_t i = at; i < end; i++) {
			uint8_t was = old == NULL || i >= old->blocks ? 0 : old->content[i];

			if (old != NULL && was == new->content[i])
				continue;
			frame.ranges[frame.range_count] =
			    (struct backup_range){ (uint64_t)i * BLOCK, BLOCK,
				    new->content[i] == 0 ? NULL : data + used };
			if (new->content[i] != 0) {
				fill_block(data + used, new->content[i]);
				used += BLOCK;
			}
			frame.range_count++;
		}
		if (frame.range_count == 0)
			continue; /* the next one begins here, too */
		cr_assert_eq(backup_writer_frame(writer, &frame), 0);
		frames_max--;
	}
}

static int
write_backup(const struct backup_header *header, const struct model *old, const struct model *new,
    uint32_t per_frame)
{
	struct backup_writer *writer;
	int fd = new_file();

	cr_assert_eq(backup_writer_create(fd, header, &writer), 0);
	write_frames(writer, old, new, per_frame, UINT32_MAX);
	cr_assert_eq(backup_writer_end(writer), 0);
	backup_writer_destroy(writer);
	return fd;
}

static void
change(struct model *model, uint64_t state[4], uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		model->content[random_below(state, model->blocks)] =
		    (uint8_t)random_below(state, 9);
}

/* Read to its end, or its error; *@ret_frames: that were right. */
static int
read_all(int fd, uint64_t *ret_frames)
{
	struct backup_reader *reader;
	int rc;

	*ret_frames = 0;
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	rc = backup_reader_create(fd, &reader, error);
	if (rc != 0)
		return rc;
	do {
		rc = backup_reader_next(reader);
	} while (rc == 1);
	*ret_frames = reader->frame_count;
	if (rc != 0)
		(void)snprintf(error, sizeof(error), "%s", reader->error);
	backup_reader_destroy(reader);
	return rc;
}

static size_t
size_of(int fd)
{
	struct stat status;

	cr_assert_eq(fstat(fd, &status), 0);
	return (size_t)status.st_size;
}

Test(backup_chain, every_byte_that_changes_and_every_length_is_seen)
{
	struct model model = { .blocks = 6, .content = { 1, 2, 0, 3, 0, 0 } };
	struct backup_header header = header_of(5, 0, model.blocks);
	int fd = write_backup(&header, NULL, &model, 2);
	size_t size = size_of(fd);
	uint64_t frames;
	uint8_t byte, changed;

	cr_assert_eq(read_all(fd, &frames), 0, "%s", error);
	cr_assert_eq(frames, 3u);
	for (size_t i = 0; i < size; i++) {
		cr_assert_eq(pread(fd, &byte, 1, (off_t)i), 1);
		changed = byte ^ (uint8_t)(1u << (i % 8));
		cr_assert_eq(pwrite(fd, &changed, 1, (off_t)i), 1);
		cr_assert_lt(read_all(fd, &frames), 0, "byte %zu of %zu", i, size);
		cr_assert_eq(pwrite(fd, &byte, 1, (off_t)i), 1);
	}
	cr_assert_eq(pwrite(fd, "", 1, (off_t)size), 1);
	cr_assert_eq(read_all(fd, &frames), -EBADMSG, "something behind its end");
	for (size_t i = size; i-- > 0;) {
		cr_assert_eq(ftruncate(fd, (off_t)i), 0);
		cr_assert_eq(read_all(fd, &frames), -ENODATA, "%zu bytes", i);
	}
	(void)close(fd);
}

Test(backup_chain, one_that_was_cut_off_anywhere_goes_on_and_is_the_same)
{
	struct model model = { .blocks = 9, .content = { 1, 2, 0, 3, 0, 0, 4, 4, 5 } };
	struct backup_header header = header_of(5, 0, model.blocks);
	int whole = write_backup(&header, NULL, &model, 2);
	size_t size = size_of(whole);
	uint8_t *want = malloc(size), *got = malloc(size);
	uint64_t frames;

	cr_assert_eq(pread(whole, want, size, 0), (ssize_t)size);
	for (size_t cut = BACKUP_HEADER_BYTES; cut < size; cut += 37) {
		struct backup_reader *reader;
		struct backup_writer *writer;
		int fd = new_file(), rc;

		cr_assert_eq(write(fd, want, cut), (ssize_t)cut);
		cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
		cr_assert_eq(backup_reader_create(fd, &reader, error), 0);
		while ((rc = backup_reader_next(reader)) == 1)
			;
		cr_assert_eq(rc, -ENODATA);
		cr_assert_eq(backup_writer_resume(fd, reader, &writer), 0);
		backup_reader_destroy(reader);
		write_frames(writer, NULL, &model, 2, UINT32_MAX);
		cr_assert_eq(backup_writer_end(writer), 0);
		backup_writer_destroy(writer);
		cr_assert_eq(read_all(fd, &frames), 0, "cut at %zu: %s", cut, error);
		cr_assert_eq(size_of(fd), size);
		cr_assert_eq(pread(fd, got, size, 0), (ssize_t)size);
		cr_assert_arr_eq(got, want, size);
		(void)close(fd);
	}
	free(want);
	free(got);
	(void)close(whole);
}

Test(backup_chain, frames_and_ends_of_other_files_do_not_fit)
{
	struct model model = { .blocks = 4, .content = { 1, 2, 3, 4 } };
	struct backup_header a = header_of(5, 0, 4), b = header_of(6, 0, 4);
	int one = write_backup(&a, NULL, &model, 2), other = write_backup(&b, NULL, &model, 2);
	size_t bytes = size_of(other) - BACKUP_HEADER_BYTES;
	uint8_t *tail = malloc(bytes);
	uint64_t frames;

	/* All of the other one behind its head: each frame is right by itself. */
	cr_assert_eq(pread(other, tail, bytes, BACKUP_HEADER_BYTES), (ssize_t)bytes);
	cr_assert_eq(pwrite(one, tail, bytes, BACKUP_HEADER_BYTES), (ssize_t)bytes);
	cr_assert_eq(read_all(one, &frames), -EBADMSG);
	cr_assert_not_null(strstr(error, "where another one belongs"), "%s", error);
	free(tail);
	(void)close(one);
	(void)close(other);
}

/* ---- chains ---- */

static void
expect_content(struct backup_chain *chain, const struct model *model)
{
	static struct backup_frame frame;
	uint64_t at = 0;
	int rc;

	while ((rc = backup_chain_next(chain, &frame, data)) == 1) {
		cr_assert_eq(frame.from_bytes, at);
		for (uint32_t i = 0; i < frame.range_count; i++) {
			const struct backup_range *range = &frame.ranges[i];

			cr_assert_eq(range->offset_bytes, at);
			for (uint64_t k = 0; k < range->length_bytes; k += BLOCK, at += BLOCK) {
				uint8_t value = model->content[at / BLOCK];

				cr_assert_eq(range->data == NULL, value == 0);
				cr_assert(value == 0 || block_is(range->data + k, value));
			}
		}
		cr_assert_eq(frame.to_bytes, at);
	}
	cr_assert_eq(rc, 0, "%s", backup_chain_error(chain));
	cr_assert_eq(at, (uint64_t)model->blocks * BLOCK);
}

/* A volume that changes, grows and shrinks: full, and what changed, and what changed ... */
static void
run_chain(uint64_t seed)
{
	struct model now = { .blocks = 40 }, before;
	struct backup_source sources[6];
	struct backup_chain *chain;
	uint64_t state[4];
	uint32_t count;

	random_seed(state, seed);
	count = 1 + (uint32_t)random_below(state, NUM_COUNT(sources));
	change(&now, state, 30);
	for (uint32_t i = 0; i < count; i++) {
		struct backup_header header;
		uint32_t per_frame = 1 + (uint32_t)random_below(state, 9);

		before = now;
		if (i > 0 && random_below(state, 3) == 0) {
			/* A volume that shrinks has discarded what it loses: that is not there when it grows. */
			now.blocks = 20 + (uint32_t)random_below(state, BLOCKS_MAX - 20);
			for (uint32_t k = now.blocks; k < BLOCKS_MAX; k++)
				now.content[k] = 0;
		}
		if (i > 0)
			change(&now, state, (uint32_t)random_below(state, 12));
		header = header_of(10 + i, i == 0 ? 0 : 9 + i, now.blocks);
		sources[i] = (struct backup_source){ "a file",
			write_backup(&header, i == 0 ? NULL : &before, &now, per_frame) };
		cr_assert_eq(lseek(sources[i].fd, 0, SEEK_SET), 0);
	}
	cr_assert_eq(backup_chain_create(sources, count, &chain, error), 0, "%s", error);
	expect_content(chain, &now);
	backup_chain_destroy(chain);
	for (uint32_t i = 0; i < count; i++)
		(void)close(sources[i].fd);
}

Test(backup_chain, what_comes_out_is_the_volume_that_went_in)
{
	for (uint64_t seed = 1; seed <= 300; seed++)
		run_chain(seed);
}

static int
create_of(const struct backup_header *headers, uint32_t count)
{
	struct model model = { .blocks = 4, .content = { 1, 2, 3, 4 } };
	struct backup_source sources[4] = { 0 };
	struct backup_chain *chain = NULL;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		bool is_full = backup_is_full(&headers[i]);
		struct model old = { .blocks = 4 };

		sources[i] = (struct backup_source){ i == 0 ? "first" : "later",
			write_backup(&headers[i], is_full ? NULL : &old, &model, 2) };
		cr_assert_eq(lseek(sources[i].fd, 0, SEEK_SET), 0);
	}
	error[0] = '\0';
	rc = backup_chain_create(sources, count, &chain, error);
	backup_chain_destroy(chain);
	for (uint32_t i = 0; i < count; i++)
		(void)close(sources[i].fd);
	return rc;
}

Test(backup_chain, what_is_no_chain_is_refused_and_the_missing_one_is_named)
{
	struct backup_header full = header_of(5, 0, 4), one = header_of(6, 5, 4),
			     two = header_of(7, 6, 4), other = one;

	cr_assert_eq(create_of((struct backup_header[]){ full, one, two }, 3), 0, "%s", error);
	cr_assert_eq(create_of((struct backup_header[]){ full, two }, 2), -EINVAL);
	cr_assert_not_null(strstr(error, "later: "), "%s", error);
	cr_assert_not_null(strstr(error, "the backup of s6 of "), "%s", error);
	cr_assert_eq(create_of((struct backup_header[]){ one, two }, 2), -EINVAL);
	cr_assert_not_null(strstr(error, "the backup of s5 before this one"), "%s", error);
	cr_assert_eq(create_of((struct backup_header[]){ full, two, one }, 3), -EINVAL);
	cr_assert_eq(create_of((struct backup_header[]){ full, full }, 2), -EINVAL);
	cr_assert_not_null(strstr(error, "full backup"), "%s", error);
	other.point.volume_id = other.parent.volume_id = 99;
	(void)snprintf(other.volume, sizeof(other.volume), "w");
	cr_assert_eq(create_of((struct backup_header[]){ full, other }, 2), -EINVAL);
	cr_assert_not_null(strstr(error, "another volume, w"), "%s", error);
	/* A cluster that was made anew gives the same numbers. */
	other = one;
	other.parent.taken_s++;
	cr_assert_eq(create_of((struct backup_header[]){ full, other }, 2), -EINVAL);
	/* Deleted and taken again, with the same name: dates tell them apart. */
	full.point.taken_s = 1767225599;
	other.parent.taken_s = 1767225600;
	cr_assert_eq(create_of((struct backup_header[]){ full, other }, 2), -EINVAL);
	cr_assert_not_null(
	    strstr(error,
		"snapshot s5 of 2026-01-01T00:00:00Z, and the one before it ends at s5 "
		"of 2025-12-31T23:59:59Z: the backup of s5 of 2026-01-01T00:00:00Z is missing"),
	    "%s", error);
}

Test(backup_chain, a_file_of_it_that_ends_early_is_an_error_when_its_frames_are_wanted_or_not)
{
	struct model model = { .blocks = 4, .content = { 1, 2, 3, 4 } }, old = { .blocks = 4 };
	struct backup_header full = header_of(5, 0, 4), one = header_of(6, 5, 4);
	struct backup_source sources[2] = { { "first", write_backup(&full, NULL, &model, 2) },
		{ "later", write_backup(&one, &old, &model, 2) } };
	static struct backup_frame frame;

	for (uint32_t i = 0; i < 2; i++) {
		size_t size = size_of(sources[i].fd);
		struct backup_chain *chain;
		uint8_t byte;
		int rc;

		cr_assert_eq(pread(sources[i].fd, &byte, 1, (off_t)size - 1), 1);
		cr_assert_eq(ftruncate(sources[i].fd, (off_t)size - 1), 0);
		for (uint32_t k = 0; k < 2; k++)
			cr_assert_eq(lseek(sources[k].fd, 0, SEEK_SET), 0);
		cr_assert_eq(backup_chain_create(sources, 2, &chain, error), 0, "%s", error);
		while ((rc = backup_chain_next(chain, &frame, data)) == 1)
			;
		cr_assert_eq(rc, -ENODATA);
		cr_assert_not_null(strstr(backup_chain_error(chain), sources[i].name));
		backup_chain_destroy(chain);
		cr_assert_eq(pwrite(sources[i].fd, &byte, 1, (off_t)size - 1), 1);
	}
}
