/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_zstd.c -- zstd frames, as lean as the format allows
 *
 * A record carries both lengths and a CRC, so the frames go without content size, checksum and
 * dictionary id: 2 bytes of header less. Levels are zstd's own.
 *
 * Both contexts live in memory that is allocated at creation, sized for the hungriest level and
 * source: no job allocates, and none can fail for want of memory.
 */
#define ZSTD_STATIC_LINKING_ONLY

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/check.h"
#include "internal.h"

#define ZSTD_LEVEL_MIN (-7)
#define ZSTD_LEVEL_MAX 19
#define ZSTD_LEVEL_NONE (ZSTD_LEVEL_MAX + 1)

struct zstd_state {
	void *compress_memory;
	void *decompress_memory;
	ZSTD_CCtx *cctx; /* in compress_memory */
	ZSTD_DCtx *dctx; /* in decompress_memory */
	int level;       /* which cctx is set to */
};

/* Bytes of the hungriest level and size of source: a context's needs depend on both. */
static size_t
zstd_compress_memory_bytes(void)
{
	size_t bytes_max = 0;

	for (int level = ZSTD_LEVEL_MIN; level <= ZSTD_LEVEL_MAX; level++)
		for (size_t source = 1024; source <= ENGINE_CODEC_BYTES_MAX; source *= 2) {
			size_t bytes = ZSTD_estimateCCtxSize_usingCParams(
			    ZSTD_getCParams(level, source, 0));

			assert(!ZSTD_isError(bytes));
			bytes_max = bytes > bytes_max ? bytes : bytes_max;
		}
	assert(bytes_max > 0);
	return bytes_max;
}

static void
zstd_destroy(void *opaque)
{
	struct zstd_state *state = opaque;

	if (state == NULL)
		return;
	free(state->compress_memory);
	free(state->decompress_memory);
	free(state);
}

/* The contexts lie in their memory: they have no destructor of their own. */
static int
zstd_init_contexts(struct zstd_state *state, size_t compress_bytes, size_t decompress_bytes)
{
	assert(compress_bytes > 0);
	assert(!ZSTD_isError(decompress_bytes));
	state->cctx = ZSTD_initStaticCCtx(state->compress_memory, compress_bytes);
	state->dctx = ZSTD_initStaticDCtx(state->decompress_memory, decompress_bytes);
	if (state->cctx == NULL || state->dctx == NULL)
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(state->cctx, ZSTD_c_contentSizeFlag, 0)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(state->cctx, ZSTD_c_checksumFlag, 0)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(state->cctx, ZSTD_c_dictIDFlag, 0)))
		return -EINVAL;
	return 0;
}

static void *
zstd_create(void)
{
	size_t compress_bytes = zstd_compress_memory_bytes();
	size_t decompress_bytes = ZSTD_estimateDCtxSize();
	struct zstd_state *state = calloc(1, sizeof(*state));

	if (state == NULL)
		return NULL;
	state->compress_memory = malloc(compress_bytes);
	state->decompress_memory = malloc(decompress_bytes);
	state->level = ZSTD_LEVEL_NONE;
	if (state->compress_memory == NULL || state->decompress_memory == NULL ||
	    zstd_init_contexts(state, compress_bytes, decompress_bytes) != 0) {
		zstd_destroy(state);
		return NULL;
	}
	return state;
}

static int
zstd_compress(void *opaque, int level, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes)
{
	struct zstd_state *state = opaque;
	size_t bytes;

	assert(src_bytes <= ENGINE_CODEC_BYTES_MAX);
	assert(level >= ZSTD_LEVEL_MIN);
	assert(level <= ZSTD_LEVEL_MAX);
	if (state->level != level) {
		bytes = ZSTD_CCtx_setParameter(state->cctx, ZSTD_c_compressionLevel, level);
		if (ZSTD_isError(bytes))
			return -ENOSPC;
		state->level = level;
	}
	bytes = ZSTD_compress2(state->cctx, dst, dst_cap_bytes, src, src_bytes);
	/* Any error means that it was not stored smaller, and raw always works. */
	if (ZSTD_isError(bytes))
		return -ENOSPC;
	*ret_dst_bytes = (uint32_t)bytes;
	return 0;
}

static int
zstd_decompress(void *opaque, const void *src, uint32_t src_bytes, void *dst, uint32_t dst_bytes)
{
	struct zstd_state *state = opaque;

	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	/* An error is a huge number. */
	if (ZSTD_decompressDCtx(state->dctx, dst, dst_bytes, src, src_bytes) != dst_bytes)
		return -EBADMSG;
	return 0;
}

const struct engine_ops engine_zstd_ops = {
	.name = "zstd",
	.wire_id = ENGINE_ZSTD,
	.level_min = ZSTD_LEVEL_MIN,
	.level_max = ZSTD_LEVEL_MAX,
	.level_default = 3,
	.create = zstd_create,
	.destroy = zstd_destroy,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};
