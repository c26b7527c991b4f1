/* SPDX-License-Identifier: Apache-2.0 */
/* engine_none.c -- the codec that stores bytes as they are */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

static void *
none_create(void)
{
	static char nothing;

	return &nothing; /* NULL would mean out of memory */
}

static void
none_destroy(void *state)
{
	(void)state;
}

static int
none_compress(void *state, int level, const void *src, uint32_t src_bytes, void *dst,
    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes)
{
	(void)state;
	(void)level;
	assert(src_bytes <= ENGINE_CODEC_BYTES_MAX);
	if (src_bytes > dst_cap_bytes)
		return -ENOSPC;
	memcpy(dst, src, src_bytes);
	*ret_dst_bytes = src_bytes;
	return 0;
}

static int
none_decompress(void *state, const void *src, uint32_t src_bytes, void *dst, uint32_t dst_bytes)
{
	(void)state;
	assert(dst_bytes <= ENGINE_CODEC_BYTES_MAX);
	if (src_bytes != dst_bytes)
		return -EBADMSG;
	memcpy(dst, src, src_bytes);
	return 0;
}

const struct engine_ops engine_none_ops = {
	.name = "none",
	.wire_id = ENGINE_NONE,
	.level_min = 0,
	.level_max = 0,
	.level_default = 0,
	.create = none_create,
	.destroy = none_destroy,
	.compress = none_compress,
	.decompress = none_decompress,
};
