/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c -- the only list of codecs: each is found by its name or its number */
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "internal.h"

/* The index is the wire id. */
static const struct engine_ops *const engines[ENGINE_ID_NR] = {
	[ENGINE_NONE] = &engine_none_ops,
	[ENGINE_LZ4] = &engine_lz4_ops,
	[ENGINE_ZSTD] = &engine_zstd_ops,
	[ENGINE_SNAPPY] = &engine_snappy_ops,
	[ENGINE_DEFLATE] = &engine_deflate_ops,
};

const struct engine_ops *
engine_by_name(const char *name)
{
	assert(name != NULL);
	for (uint32_t i = 0; i < NUM_COUNT(engines); i++) {
		assert(engines[i]->wire_id == i);
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	}
	return NULL;
}

const struct engine_ops *
engine_by_id(uint8_t wire_id)
{
	return wire_id < NUM_COUNT(engines) ? engines[wire_id] : NULL;
}

uint32_t
engine_count(void)
{
	return NUM_COUNT(engines);
}

const struct engine_ops *
engine_at(uint32_t index)
{
	return index < NUM_COUNT(engines) ? engines[index] : NULL;
}
