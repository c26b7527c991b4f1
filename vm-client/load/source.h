/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h -- what the blocks that are written are filled with
 *
 * Blocks of real files, or generated ones that compress to a given share. Prepared before the run:
 * a write copies. Checksums are prepared with them.
 */
#ifndef CLEAVE_VM_CLIENT_SOURCE_H
#define CLEAVE_VM_CLIENT_SOURCE_H

#include <stdint.h>

#define SOURCE_BLOCK_BYTES 4096u
#define SOURCE_BYTES_MAX (UINT64_C(256) << 20)
#define SOURCE_GENERATED_COUNT 1024u

struct source {
	uint8_t *blocks;
	uint64_t block_count;
	uint32_t *content_crcs; /* of what follows a stamp */
	uint32_t *block_crcs;   /* of the whole block */
};

/*
 * source_init -- from @paths, or generated when there are none
 *
 * The files are cut into blocks back to back, the first SOURCE_BYTES_MAX of them, a file's last
 * block padded with zeros. @compressibility_percent of each generated block are one repeated byte.
 * Returns: 0; -EINVAL the files are empty; -ENOMEM; what opening or reading a file said, and then
 * *@ret_path is its name.
 */
int source_init(struct source *source, const char *const *paths, uint32_t path_count,
    uint32_t compressibility_percent, uint64_t seed, const char **ret_path);
void source_fini(struct source *source);
/* source_pick -- the index of the content that the @sequence-th write of @block gets. */
uint64_t source_pick(const struct source *source, uint64_t block, uint64_t sequence);

static inline const uint8_t *
source_block(const struct source *source, uint64_t index)
{
	return source->blocks + index * SOURCE_BLOCK_BYTES;
}

#endif /* CLEAVE_VM_CLIENT_SOURCE_H */
