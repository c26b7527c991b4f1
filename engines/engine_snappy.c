/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_snappy.c -- Snappy, which compresses like LZ4 in less time
 *
 * The library compresses only into room for the worst case, so it goes through a buffer of our own;
 * what fits is copied, which costs a hundredth of the compression. There are no levels.
 *
 * The library takes working memory (some 20 KiB for a block) from the heap for each call: it has no call
 * that would take ours.
 */
#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

struct snappy_state {
	size_t worst_bytes;
	char worst[]; /* for the worst case of ENGINE_CODEC_BYTES_MAX */
};

static void *
snappy_create(void)
{
	size_t worst_bytes = snappy_max_compressed_length(ENGINE_CODEC_BYTES_MAX);
	struct snappy_state *state = malloc(sizeof(*state) + worst_bytes);

	if (state != NULL)
		state->worst_bytes = worst_bytes;
	return state;
}

static void
snappy_destroy(void *state)
{
	free(state);
}

static int
snappy_compress_block(void *opaque, int level, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes)
{
	struct snappy_state *state = opaque;
	size_t bytes = state->worst_bytes;

	assert(state->worst_bytes > 0);
	(void)level;
	assert(src_bytes <= ENGINE_CODEC_BYTES_MAX); /* worst[] is for that */
	if (snappy_compress(src, src_bytes, state->worst, &bytes) != SNAPPY_OK ||
	    bytes > dst_cap_bytes)
		return -ENOSPC;
	memcpy(dst, state->worst, bytes);
	*ret_dst_bytes = (uint32_t)bytes;
	return 0;
}

static int
snappy_decompress_block(void *state, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_bytes)
{
	size_t bytes;

	(void)state;
	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	/* The source says first how long it becomes; only what fits exactly is begun. */
	if (snappy_uncompressed_length(src, src_bytes, &bytes) != SNAPPY_OK || bytes != dst_bytes)
		return -EBADMSG;
	if (snappy_uncompress(src, src_bytes, dst, &bytes) != SNAPPY_OK || bytes != dst_bytes)
		return -EBADMSG;
	return 0;
}

const struct engine_ops engine_snappy_ops = {
	.name = "snappy",
	.wire_id = ENGINE_SNAPPY,
	.level_min = 0,
	.level_max = 0,
	.level_default = 0,
	.create = snappy_create,
	.destroy = snappy_destroy,
	.compress = snappy_compress_block,
	.decompress = snappy_decompress_block,
};
