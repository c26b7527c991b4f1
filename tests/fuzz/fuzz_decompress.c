/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_decompress.c -- arbitrary bytes as a stored record
 *
 * Input: the codec, a byte of level, two bytes of length, then the bytes. Decompressed to that length
 * they must yield 0 or -EBADMSG, with buffers that end at pages that fault, as a whole and as a front;
 * what they compress to must give them back, and any front of them.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/engine.h"
#include "unit/engine_data.h"

#define HEAD_BYTES 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A state for each codec, reused from input to input as in an engine set. */
static void *
state_of(const struct engine_ops *ops)
{
	static void *states[ENGINE_ID_NR];

	if (states[ops->wire_id] == NULL)
		states[ops->wire_id] = ops->create();
	assert(states[ops->wire_id] != NULL);
	return states[ops->wire_id];
}

static void
decompress(const struct engine_ops *ops, const uint8_t *src, uint32_t src_bytes, uint32_t dst_bytes)
{
	static struct data_fence src_fence, dst_fence;
	int rc;

	if (src_fence.start == NULL) {
		src_fence = data_fence_create(ENGINE_RECORD_BYTES_MAX);
		dst_fence = data_fence_create(ENGINE_RECORD_BYTES_MAX);
	}
	memcpy(src_fence.end - src_bytes, src, src_bytes);
	rc = ops->decompress(state_of(ops), src_fence.end - src_bytes, src_bytes,
	    dst_fence.end - dst_bytes, dst_bytes);
	assert(rc == 0 || rc == -EBADMSG);
	if (ops->decompress_front == NULL)
		return;
	rc = ops->decompress_front(state_of(ops), src_fence.end - src_bytes, src_bytes,
	    dst_fence.end - dst_bytes, dst_bytes);
	assert(rc == 0 || rc == -EBADMSG);
}

/* The first @bytes of what @stored yields are those of @src. */
static void
front(const struct engine_ops *ops, const uint8_t *stored, uint32_t stored_bytes,
    const uint8_t *src, uint8_t *again, uint32_t bytes)
{
	int rc;

	if (ops->decompress_front == NULL)
		return;
	rc = ops->decompress_front(state_of(ops), stored, stored_bytes, again, bytes);
	assert(rc == 0);
	assert(memcmp(again, src, bytes) == 0);
}

static void
round_trip(const struct engine_ops *ops, int level, const uint8_t *src, uint32_t src_bytes)
{
	uint8_t *stored = malloc(src_bytes), *again = malloc(src_bytes);
	uint32_t stored_bytes = 0;
	int rc;

	assert(stored != NULL && again != NULL);
	rc = ops->compress(state_of(ops), level, src, src_bytes, stored, src_bytes, &stored_bytes);
	assert(rc == 0 || rc == -ENOSPC);
	if (rc == 0) {
		assert(stored_bytes <= src_bytes);
		rc = ops->decompress(state_of(ops), stored, stored_bytes, again, src_bytes);
		assert(rc == 0);
		assert(memcmp(again, src, src_bytes) == 0);
		front(ops, stored, stored_bytes, src, again, 1 + src[0] % src_bytes);
	}
	free(stored);
	free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct engine_ops *ops;
	uint32_t src_bytes, dst_bytes;
	int levels;

	if (bytes <= HEAD_BYTES || bytes - HEAD_BYTES > ENGINE_RECORD_BYTES_MAX)
		return 0;
	ops = engine_by_id(data[0] % ENGINE_ID_NR);
	levels = ops->level_max - ops->level_min + 1;
	dst_bytes = 1u + num_get_le16(data + 2);
	src_bytes = (uint32_t)bytes - HEAD_BYTES;
	decompress(ops, data + HEAD_BYTES, src_bytes, dst_bytes);
	round_trip(ops, ops->level_min + data[1] % levels, data + HEAD_BYTES, src_bytes);
	return 0;
}
