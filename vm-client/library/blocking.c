/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocking.c -- reads, writes, discards and statuses of any length, waited for
 *
 * What is longer than one request may be goes in pieces, one after the other. Its shape is checked whole before the
 * first of them: a length that is wrong at its end has changed nothing.
 */
#include <errno.h>
#include <semaphore.h>

#include "base/check.h"
#include "base/num.h"
#include "thread.h"

#define BLOCKING_STATUS_BYTES_MAX NUM_GIB(64) /* of a volume that is asked about at a time */

static void
wait_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct wait *wait = arg;

	assert(wait->io.message_count == 0);
	(void)io;
	assert(io == &wait->io);
	cleave_wait_finish(wait, rc);
}

/* @request comes back with what it was told. */
static int
run_one(struct cleave_disk *disk, struct cleave_io *request)
{
	struct wait wait;
	int rc;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	assert(request->fn == NULL);
	cleave_wait_begin(&wait, disk->cleave);
	wait.io = *request;
	wait.io.fn = wait_on_io;
	wait.io.arg = &wait;
	rc = cleave_disk_submit(disk, &wait.io);
	if (rc == 0) {
		rc = cleave_wait_for(&wait, NULL, NULL);
		request->extent_count = wait.io.extent_count;
		return rc;
	}
	cleave_wait_drop(&wait);
	return rc;
}

/* The length of the first piece of @request. */
static uint64_t
piece_bytes(const struct cleave_io *request)
{
	if (request->op == CLEAVE_BLOCK_STATUS)
		return num_min(request->length_bytes, BLOCKING_STATUS_BYTES_MAX);
	return io_has_host(request) ? num_min(request->length_bytes, CLEAVE_IO_BYTES_MAX)
				    : request->length_bytes;
}

/* cleave_io_check of a request of any length. */
static int
check_whole(const struct cleave_disk *disk, const struct cleave_io *request)
{
	uint64_t size_bytes = disk->info.size_bytes;
	struct cleave_io first = *request;
	int rc;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	if (!num_is_aligned(request->length_bytes, CLEAVE_BLOCK_BYTES))
		return -EINVAL;
	first.length_bytes = piece_bytes(request);
	rc = cleave_io_check(&first, size_bytes);
	if (rc != 0)
		return rc;
	return request->length_bytes <= size_bytes - request->offset_bytes ? 0 : -ERANGE;
}

/* @request in as many pieces as it takes; none unless all of it has a good shape. */
static int
run_all(struct cleave_disk *disk, struct cleave_io request)
{
	uint64_t left = request.length_bytes;
	int rc = check_whole(disk, &request);

	assert(request.volume == NULL && request.fn == NULL);
	if (rc != 0)
		return rc;
	do {
		request.length_bytes = left;
		request.length_bytes = piece_bytes(&request);
		assert(request.length_bytes <= left);
		rc = run_one(disk, &request);
		left -= request.length_bytes;
		request.offset_bytes += request.length_bytes;
		if (request.data != NULL)
			request.data = (uint8_t *)request.data + request.length_bytes;
		request.vector_from_bytes += request.length_bytes;
	} while (rc == 0 && left > 0);
	return rc;
}

int
cleave_pread(struct cleave_disk *disk, void *data, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.data = data });
}

int
cleave_pwrite(struct cleave_disk *disk, const void *data, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.data = (void *)(uintptr_t)data });
}

static int
run_vector(struct cleave_disk *disk, struct cleave_io request)
{
	assert(request.data == NULL && request.vector_from_bytes == 0);
	if (request.vector_count == 0 || request.vector_count > CLEAVE_VECTOR_MAX)
		return -EINVAL;
	request.length_bytes = vector_bytes(request.vector, request.vector_count);
	return run_all(disk, request);
}

int
cleave_preadv(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes)
{
	return run_vector(disk,
	    (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = offset_bytes,
		.vector = vector,
		.vector_count = vector_count });
}

int
cleave_pwritev(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes)
{
	return run_vector(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = offset_bytes,
		.vector = vector,
		.vector_count = vector_count });
}

int
cleave_discard(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_DISCARD,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes });
}

int
cleave_write_zeroes(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE_ZEROES,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes });
}

int
cleave_flush(struct cleave_disk *disk)
{
	return run_all(disk, (struct cleave_io){ .op = CLEAVE_FLUSH });
}

/* @more extents lie where @count others end: the first of them may only go on with the last of those. */
static uint32_t
extents_join(struct cleave_extent *extents, uint32_t count, uint32_t max,
    const struct cleave_extent *more, uint32_t more_count)
{
	assert(extents != NULL || max == 0);
	assert(count <= max);
	for (uint32_t i = 0; i < more_count; i++) {
		if (count > 0 && extents[count - 1].flags == more[i].flags)
			extents[count - 1].length_bytes += more[i].length_bytes;
		else if (count < max)
			extents[count++] = more[i]; /* at or before its place */
	}
	return count;
}

int
cleave_block_status(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes,
    struct cleave_extent *extents, uint32_t max, uint32_t *ret_count)
{
	struct cleave_io request = { .op = CLEAVE_BLOCK_STATUS,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.extents = extents,
		.extent_max = max };
	uint64_t end = offset_bytes + bytes, piece_end, told;
	struct cleave_extent spare;
	uint32_t count = 0;
	int rc = check_whole(disk, &request);

	if (rc != 0)
		return rc;
	/* In pieces that end within a request's time; one that was not told whole found no more room. */
	do {
		bool is_full = count > 0 && count == max;

		request.offset_bytes = offset_bytes;
		request.length_bytes = end - offset_bytes;
		request.length_bytes = piece_bytes(&request);
		request.extents = is_full ? &spare : extents + count;
		request.extent_max = is_full ? 1 : max - count;
		rc = run_one(disk, &request);
		if (rc != 0)
			return rc;
		piece_end = offset_bytes + request.length_bytes;
		told = 0;
		for (uint32_t i = 0; i < request.extent_count; i++)
			told += request.extents[i].length_bytes;
		if (is_full && spare.flags != extents[count - 1].flags)
			break;
		offset_bytes += told;
		count = extents_join(extents, count, max, request.extents, request.extent_count);
	} while (offset_bytes == piece_end && offset_bytes < end);
	*ret_count = count;
	return 0;
}
