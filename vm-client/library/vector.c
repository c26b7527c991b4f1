/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.c -- the host memory of a request: one stretch, or a vector of them
 *
 * A message's payload is a part of its request's memory and may begin and end inside of stretches, which
 * have any length: zero, or one byte. Here alone is known which it is; others ask for a part and get it
 * stretch by stretch.
 */
#include <sys/uio.h>

#include "base/check.h"
#include "base/num.h"
#include "internal.h"

bool
io_has_host(const struct cleave_io *io)
{
	return io->data != NULL || io->vector != NULL;
}

uint64_t
vector_bytes(const struct iovec *vector, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes = vector[i].iov_len < UINT64_MAX - bytes ? bytes + vector[i].iov_len
							       : UINT64_MAX;
	return bytes;
}

uint32_t
io_stretch(const struct cleave_io *io, uint64_t from_bytes, uint32_t bytes, uint8_t **ret_stretch)
{
	const struct iovec *entry = io->vector;

	assert(from_bytes < io->length_bytes && bytes <= io->length_bytes - from_bytes);
	assert(io_has_host(io));
	assert(bytes > 0);
	if (io->data != NULL) {
		*ret_stretch = (uint8_t *)io->data + from_bytes;
		return bytes;
	}
	from_bytes += io->vector_from_bytes;
	while (from_bytes >= entry->iov_len) {
		from_bytes -= entry->iov_len;
		entry++;
		assert(entry < io->vector + io->vector_count); /* cleave_io_check */
	}
	*ret_stretch = (uint8_t *)entry->iov_base + from_bytes;
	return (uint32_t)num_min(bytes, entry->iov_len - from_bytes);
}
