/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_deflate.c -- raw DEFLATE by ISA-L: a better ratio than LZ4 in less time than LZ4
 *
 * Level 0 codes with fixed tables made for text, in one pass; 1 to 3 make tables of the block's own.
 * The format is RFC 1951's at each of them, without a wrapper: a record has its own CRCs.
 *
 * Both states and the buffer of the hungriest level are made once; no job allocates.
 */
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>

#include "base/check.h"
#include "internal.h"

#define DEFLATE_LEVEL_BYTES ISAL_DEF_LVL3_DEFAULT

struct deflate_state {
	struct isal_zstream deflate;
	struct inflate_state inflate;
	uint8_t level[DEFLATE_LEVEL_BYTES];
};

static void *
deflate_create(void)
{
	return malloc(sizeof(struct deflate_state));
}

static void
deflate_destroy(void *state)
{
	free(state);
}

static int
deflate_compress(void *opaque, int level, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes)
{
	struct deflate_state *state = opaque;
	struct isal_zstream *stream = &state->deflate;

	assert(src_bytes <= ENGINE_CODEC_BYTES_MAX);
	assert(level >= ISAL_DEF_MIN_LEVEL);
	assert(level <= ISAL_DEF_MAX_LEVEL);
	isal_deflate_stateless_init(stream);
	stream->level = (uint32_t)level;
	stream->level_buf = state->level;
	stream->level_buf_size = sizeof(state->level);
	stream->end_of_stream = 1;
	stream->flush = NO_FLUSH;
	stream->next_in = (uint8_t *)(uintptr_t)src; /* it is only read */
	stream->avail_in = src_bytes;
	stream->next_out = dst;
	stream->avail_out = dst_cap_bytes;
	if (isal_deflate_stateless(stream) != COMP_OK || stream->avail_in != 0)
		return -ENOSPC;
	assert(stream->total_out <= dst_cap_bytes);
	*ret_dst_bytes = stream->total_out;
	return 0;
}

static int
deflate_decompress(void *opaque, const void *src, uint32_t src_bytes, void *dst, uint32_t dst_bytes)
{
	struct deflate_state *state = opaque;
	struct inflate_state *stream = &state->inflate;

	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	isal_inflate_init(stream);
	stream->next_in = (uint8_t *)(uintptr_t)src; /* it is only read */
	stream->avail_in = src_bytes;
	stream->next_out = dst;
	stream->avail_out = dst_bytes;
	if (isal_inflate_stateless(stream) != ISAL_DECOMP_OK ||
	    stream->block_state != ISAL_BLOCK_FINISH || stream->total_out != dst_bytes)
		return -EBADMSG;
	return 0;
}

const struct engine_ops engine_deflate_ops = {
	.name = "deflate",
	.wire_id = ENGINE_DEFLATE,
	.level_min = ISAL_DEF_MIN_LEVEL,
	.level_max = ISAL_DEF_MAX_LEVEL,
	.level_default = 0,
	.create = deflate_create,
	.destroy = deflate_destroy,
	.compress = deflate_compress,
	.decompress = deflate_decompress,
};
