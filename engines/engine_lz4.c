/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_lz4.c -- LZ4 blocks, without frames: a record already knows both lengths
 *
 * Levels mean what they mean to lz4frame: below 0 the search skips (acceleration 1 - level), 0 to 2
 * are plain LZ4, from 3 on LZ4 HC. The format is one and the same.
 *
 * The state is made once. fastReset skips the clearing of its 16 KiB table where the table's last
 * use allows, and clears it itself where not; README.md has the figures.
 */
#define LZ4_STATIC_LINKING_ONLY
#define LZ4_HC_STATIC_LINKING_ONLY

#include <errno.h>
#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>

#include "base/check.h"
#include "internal.h"

#define LZ4_LEVEL_MIN (-64)
#define LZ4_HC_LEVEL_FIRST 3

_Static_assert(ENGINE_CODEC_BYTES_MAX <= LZ4_MAX_INPUT_SIZE, "lengths are int in lz4");

struct lz4_state {
	LZ4_stream_t fast;
	LZ4_streamHC_t hc;
};

static void *
lz4_create(void)
{
	struct lz4_state *state = malloc(sizeof(*state));

	if (state == NULL)
		return NULL;
	(void)LZ4_initStream(&state->fast, sizeof(state->fast)); /* fails only for bad alignment */
	(void)LZ4_initStreamHC(&state->hc, sizeof(state->hc));
	return state;
}

static void
lz4_destroy(void *state)
{
	free(state);
}

static int
lz4_compress(void *opaque, int level, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes)
{
	struct lz4_state *state = opaque;
	int acceleration = level < 0 ? 1 - level : 1;
	int bytes;

	assert(src_bytes <= ENGINE_CODEC_BYTES_MAX);
	assert(level >= LZ4_LEVEL_MIN);
	assert(level <= LZ4HC_CLEVEL_MAX);
	if (level >= LZ4_HC_LEVEL_FIRST)
		bytes = LZ4_compress_HC_extStateHC_fastReset(&state->hc, src, dst, (int)src_bytes,
		    (int)dst_cap_bytes, level);
	else
		bytes = LZ4_compress_fast_extState_fastReset(&state->fast, src, dst, (int)src_bytes,
		    (int)dst_cap_bytes, acceleration);
	if (bytes <= 0)
		return -ENOSPC;
	*ret_dst_bytes = (uint32_t)bytes;
	return 0;
}

static int
lz4_decompress(void *state, const void *src, uint32_t src_bytes, void *dst, uint32_t dst_bytes)
{
	(void)state;
	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	if (LZ4_decompress_safe(src, dst, (int)src_bytes, (int)dst_bytes) != (int)dst_bytes)
		return -EBADMSG;
	return 0;
}

static int
lz4_decompress_front(void *state, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_bytes)
{
	(void)state;
	assert(dst_bytes > 0);
	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	if (LZ4_decompress_safe_partial(src, dst, (int)src_bytes, (int)dst_bytes, (int)dst_bytes) !=
	    (int)dst_bytes)
		return -EBADMSG;
	return 0;
}

const struct engine_ops engine_lz4_ops = {
	.name = "lz4",
	.wire_id = ENGINE_LZ4,
	.level_min = LZ4_LEVEL_MIN,
	.level_max = LZ4HC_CLEVEL_MAX,
	.level_default = 1,
	.create = lz4_create,
	.destroy = lz4_destroy,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
	.decompress_front = lz4_decompress_front,
};
